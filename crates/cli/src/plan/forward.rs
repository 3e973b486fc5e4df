//! What a run of `forward` will do.

use std::net::SocketAddr;
use std::path::PathBuf;

use softtimers::Percent;
use softtimers::poll::AggregationConfig;
use softtimers_wan::udp::{ClientLimits, RelayConfig};

use super::End;
use crate::address;
use crate::args::ForwardArgs;
use crate::args::wan::is_local;
use crate::failure::Failure;
use crate::forward::mode::{Looking, Mode};
use crate::output::Output;

/// A run of `forward --udp`.
#[derive(Clone, Debug)]
pub struct ForwardPlan {
    /// The two addresses, and who may be a client.
    pub relay: RelayConfig,
    /// When it looks.
    pub looking: Looking,
    /// The share of a processor that input may have.
    pub cpu_limit: Option<Percent>,
    /// The file of rules.
    pub rules: Option<PathBuf>,
    /// Where the metrics are asked for.
    pub metrics: Option<SocketAddr>,
    /// When it ends.
    pub end: End,
    /// How to print the report.
    pub output: Output,
}

impl ForwardPlan {
    /// Understands the arguments of `forward`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub fn new(args: &ForwardArgs) -> Result<Self, Failure> {
        let (Some(listen), Some(to)) = (&args.udp, &args.to) else {
            return Err(only_udp(&args.interfaces));
        };
        if !args.interfaces.is_empty() {
            return Err(only_udp(&args.interfaces));
        }
        let (listen, upstream) = (address::resolve(listen)?, address::resolve(to)?);
        check_listen("--udp", listen, "--public", args.public)?;
        address::check_destination(upstream)?;
        address::check_route(upstream)?;
        let metrics = args.metrics.as_deref().map(address::resolve).transpose()?;
        if let Some(metrics) = metrics {
            check_listen("--metrics", metrics, "--metrics-public", args.metrics_public)?;
        }
        let clients =
            ClientLimits { most: args.clients, idle: args.client_timeout, ..ClientLimits::default() };
        Ok(ForwardPlan {
            relay: RelayConfig {
                listen,
                clients,
                recv_buffer: recv_buffer(args)?,
                ..RelayConfig::to(upstream)
            },
            looking: looking(args)?,
            cpu_limit: cpu_limit(args)?,
            rules: args.rules.clone(),
            metrics,
            end: End::from(&args.end),
            output: Output::from(&args.output),
        })
    }
}

fn only_udp(interfaces: &[String]) -> Failure {
    let given = if interfaces.is_empty() { String::new() } else { format!(" {}", interfaces.join(" ")) };
    Failure::usage(format_args!(
        "forward{given}: forwarding between interfaces is not there yet; \
         --udp LISTEN --to ADDR relays datagrams between sockets"
    ))
}

/// Nobody else's machine gets to use it by a slip of the hand.
fn check_listen(flag: &str, address: SocketAddr, allows: &str, public: bool) -> Result<(), Failure> {
    address::check_local(address)?;
    if public || is_local(address) {
        return Ok(());
    }
    Err(Failure::usage(format_args!("{flag} {address}: other machines could use it; {allows} allows that")))
}

/// What a mode has no use for is refused, or it would seem to have been tried.
fn looking(args: &ForwardArgs) -> Result<Looking, Failure> {
    let mode = args.mode;
    if args.aggregate.is_some() && !mode.aggregates() {
        return Err(Failure::usage("--aggregate: for --mode poll and hybrid"));
    }
    if args.max_delay.is_some() && mode.default_delay().is_none() {
        return Err(Failure::usage("--max-delay: for --mode poll, hybrid and hip"));
    }
    if args.quota != DEFAULT_QUOTA && mode == Mode::Naive {
        return Err(Failure::usage(format_args!("--quota {}: --mode naive has none", args.quota)));
    }
    let aggregate = args.aggregate.unwrap_or(AggregationConfig::default().quota);
    Ok(Looking { mode, quota: args.quota, aggregate, max_delay: args.max_delay.or(mode.default_delay()) })
}

fn recv_buffer(args: &ForwardArgs) -> Result<usize, Failure> {
    usize::try_from(args.recv_buffer)
        .ok()
        .filter(|bytes| (LEAST_BUFFER..=MOST_BUFFER).contains(bytes))
        .ok_or_else(|| Failure::usage(format_args!("--recv-buffer {}B: 4KiB to 1GiB", args.recv_buffer)))
}

fn cpu_limit(args: &ForwardArgs) -> Result<Option<Percent>, Failure> {
    match args.cpu_limit {
        Some(share) if share.get() == 0 => Err(Failure::usage("--cpu-limit 0%: 1% to 100%")),
        // Its turns do not end.
        Some(_) if args.mode == Mode::Naive => Err(Failure::usage("--cpu-limit: --mode naive keeps none")),
        limit => Ok(limit),
    }
}

/// A few datagrams.
const LEAST_BUFFER: usize = 4 << 10;
/// What the system can count: it doubles what is asked for.
const MOST_BUFFER: usize = 1 << 30;
/// As the flag has it.
const DEFAULT_QUOTA: u32 = 64;
