//! What a run of `wan` will do.

use std::path::PathBuf;
use std::time::Duration;

use softtimers_measure::failure::Failure;
use softtimers_wan::interfaces::BridgeConfig;
use softtimers_wan::tcp::{StreamConfig, StreamLimits};
use softtimers_wan::udp::RelayConfig;
use softtimers_wan::{PathConfig, Way};

use super::any_seed;
use crate::address;
use crate::args::wan::is_local;
use crate::args::{ClientArgs, WanArgs};
use crate::output::Output;
use crate::wan::carrier::Ends;
use crate::withheld;

/// A run of `wan`.
#[derive(Clone, Debug)]
pub struct WanPlan {
    /// What the path lies between, and the limits.
    pub ends: Ends,
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
        let (ends, overhead) = ends(args)?;
        let [up, down] = [Way::Up, Way::Down].map(|way| path(args, way, &ends, overhead));
        Ok(WanPlan {
            up: up?,
            down: down?,
            ends,
            seed: args.seed.unwrap_or_else(any_seed),
            control: args.control.clone(),
            duration: args.duration,
            output: Output { stream: args.json_stream, ..Output::from(&args.output) },
        })
    }
}

/// What the path lies between, and what a packet there has beyond what is offered.
fn ends(args: &WanArgs) -> Result<(Ends, u32), Failure> {
    if let Some(names) = &args.ifaces {
        let Ok(interfaces) = <[String; 2]>::try_from(names.clone()) else {
            let given = names.join(",");
            return Err(Failure::usage(format_args!("--ifaces {given}: two interfaces, such as eth1,eth2")));
        };
        return Ok((Ends::Interfaces(BridgeConfig { interfaces, take: args.take }), 0));
    }
    let given = |flag, address: &Option<String>| {
        address::resolve(address.as_deref().unwrap_or_default()).map_err(|refused| refused.of(flag))
    };
    let (listen, upstream) = (given("--listen", &args.listen)?, given("--to", &args.to)?);
    address::check_local(listen).map_err(|refused| refused.of("--listen"))?;
    if !args.public && !is_local(listen) {
        let message = format!("--listen {listen}: other machines could use it; --public allows that");
        return Err(Failure::usage(message));
    }
    address::check_destination(upstream).map_err(|refused| refused.of("--to"))?;
    address::check_route(upstream).map_err(|refused| refused.of("--to"))?;
    let network = if upstream.is_ipv4() { 20 } else { 40 };
    if args.tcp {
        let ClientArgs { clients: most, client_timeout: idle, .. } = args.clients;
        let limits = StreamLimits { most, idle, ..StreamLimits::default() };
        // With time stamps, as nearly all of it.
        return Ok((Ends::Tcp(StreamConfig { listen, limits, ..StreamConfig::to(upstream) }), network + 32));
    }
    let clients = args.clients.limits();
    let on_first_withheld = Some(withheld::tell as fn(_));
    let relay = RelayConfig { listen, clients, on_first_withheld, ..RelayConfig::to(upstream) };
    Ok((Ends::Udp(relay), network + 8))
}

fn path(args: &WanArgs, way: Way, ends: &Ends, overhead: u32) -> Result<PathConfig, Failure> {
    let mut path = PathConfig::default().overhead(overhead);
    if let Some(rtt) = args.rtt {
        // What half a nanosecond is lost is found in no network.
        path.delay = rtt / 2;
    }
    for (whose, change) in &args.path.changes {
        if whose.is_none_or(|whose| whose == way) {
            change.apply(&mut path);
        }
    }
    ends.check(&path).map_err(|error| Failure::usage(format_args!("the path {way}: {error}")))?;
    Ok(path)
}
