//! What a run of `wan` will do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use softtimers_wan::udp::{ClientLimits, RelayConfig};
use softtimers_wan::{PathConfig, Way};

use super::any_seed;
use crate::address;
use crate::args::WanArgs;
use crate::args::wan::is_local;
use crate::failure::Failure;
use crate::output::Output;

/// A run of `wan`.
#[derive(Clone, Debug)]
pub struct WanPlan {
    /// The relay's two ends and its limits.
    pub relay: RelayConfig,
    /// To the upstream; it can be built.
    pub up: PathConfig,
    /// Back.
    pub down: PathConfig,
    /// Decides what is random.
    pub seed: u64,
    /// Where changes are taken.
    pub control: Option<PathBuf>,
    /// The longest run.
    pub duration: Option<Duration>,
    /// How to print the report.
    pub output: Output,
}

impl WanPlan {
    /// Understands the arguments of `wan`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub fn new(args: &WanArgs) -> Result<Self, Failure> {
        let given = |address: &Option<String>| address::resolve(address.as_deref().unwrap_or_default());
        let (listen, upstream) = (given(&args.listen)?, given(&args.to)?);
        address::check_local(listen)?;
        if !args.public && !is_local(listen) {
            let message = format!("--listen {listen}: other machines could use it; --public allows that");
            return Err(Failure::usage(message));
        }
        address::check_destination(upstream)?;
        address::check_route(upstream)?;
        let clients =
            ClientLimits { most: args.clients, idle: args.client_timeout, ..ClientLimits::default() };
        let [up, down] = [Way::Up, Way::Down].map(|way| path(args, way, upstream));
        Ok(WanPlan {
            relay: RelayConfig { listen, clients, ..RelayConfig::to(upstream) },
            up: up?,
            down: down?,
            seed: args.seed.unwrap_or_else(any_seed),
            control: args.control.clone(),
            duration: args.duration,
            output: Output { stream: args.json_stream, ..Output::from(&args.output) },
        })
    }
}

fn path(args: &WanArgs, way: Way, upstream: SocketAddr) -> Result<PathConfig, Failure> {
    let mut path = PathConfig::default().overhead(if upstream.is_ipv4() { 28 } else { 48 });
    if let Some(rtt) = args.rtt {
        // What half a nanosecond is lost is found in no network.
        path.delay = rtt / 2;
    }
    for (whose, change) in &args.path.changes {
        if whose.is_none_or(|whose| whose == way) {
            change.apply(&mut path);
        }
    }
    path.check().map_err(|error| Failure::usage(format_args!("the path {way}: {error}")))?;
    Ok(path)
}
