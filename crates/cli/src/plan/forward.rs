//! What a run of `forward` will do.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use softtimers::Percent;
use softtimers::poll::AggregationConfig;
use softtimers_wan::udp::{ClientLimits, RelayConfig};

use super::End;
use crate::address;
use crate::args::wan::is_local;
use crate::args::{ForwardArgs, FrameDriver};
use crate::failure::Failure;
use crate::forward::frames::headers::Mac;
use crate::forward::mode::{Looking, Mode};
use crate::output::Output;

/// A run of `forward`.
#[derive(Clone, Debug)]
pub struct ForwardPlan {
    /// Between what.
    pub between: Between,
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
        let between = between(args)?;
        let metrics = args.metrics.as_deref().map(address::resolve).transpose()?;
        if let Some(metrics) = metrics {
            check_listen("--metrics", metrics, "--metrics-public", args.metrics_public)?;
        }
        Ok(ForwardPlan {
            between,
            looking: looking(args)?,
            cpu_limit: cpu_limit(args)?,
            rules: args.rules.clone(),
            metrics,
            end: End::from(&args.end),
            output: Output::from(&args.output),
        })
    }
}

/// What lies on both sides.
#[derive(Clone, Debug)]
pub enum Between {
    /// Clients and an address; who may be a client.
    Addresses(RelayConfig),
    /// Two interfaces.
    Interfaces(InterfacesConfig),
}

/// Two interfaces, and what is between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfacesConfig {
    /// Their names.
    pub names: [String; 2],
    /// How frames are had.
    pub driver: FrameDriver,
    /// Threads that forward.
    pub pollers: u32,
    /// Even if this machine uses them itself.
    pub take: bool,
    /// What a router needs to know; without it, a cable.
    pub routed: Option<[LegConfig; 2]>,
}

/// One side of a router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LegConfig {
    /// The station that packets go to there.
    pub next_hop: Mac,
    /// The router's addresses there.
    pub addresses: Vec<IpAddr>,
}

fn between(args: &ForwardArgs) -> Result<Between, Failure> {
    if let (Some(listen), Some(to)) = (&args.udp, &args.to) {
        return Ok(Between::Addresses(relay(args, listen, to)?));
    }
    let names = <[String; 2]>::try_from(args.interfaces.clone()).map_err(|given| {
        let given = given.iter().fold(String::new(), |words, name| format!("{words} {name}"));
        Failure::usage(format_args!(
            "forward{given}: two interfaces, such as eth1 eth2, or --udp LISTEN --to ADDR"
        ))
    })?;
    let leg = |next_hop: Option<Mac>, addresses: &[IpAddr], flag: &str| {
        let wrong = addresses.iter().find(|&&address| !is_host(address));
        if let Some(wrong) = wrong {
            return Err(Failure::usage(format_args!("{flag} {wrong}: not an address of one host")));
        }
        Ok(next_hop.map(|next_hop| LegConfig { next_hop, addresses: addresses.to_vec() }))
    };
    let a = leg(args.next_hop_a, &args.address_a, "--address-a")?;
    let b = leg(args.next_hop_b, &args.address_b, "--address-b")?;
    let routed = a.zip(b).map(|(a, b)| [a, b]);
    let ForwardArgs { driver, pollers, take, .. } = *args;
    if pollers > 1 && args.end.count.is_some() {
        return Err(Failure::usage(format_args!("--pollers {pollers}: --count is of one poller only")));
    }
    Ok(Between::Interfaces(InterfacesConfig { names, driver, pollers, take, routed }))
}

fn is_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_broadcast)
}

fn relay(args: &ForwardArgs, listen: &str, to: &str) -> Result<RelayConfig, Failure> {
    let (listen, upstream) = (address::resolve(listen)?, address::resolve(to)?);
    check_listen("--udp", listen, "--public", args.public)?;
    address::check_destination(upstream)?;
    address::check_route(upstream)?;
    let clients = ClientLimits { most: args.clients, idle: args.client_timeout, ..ClientLimits::default() };
    Ok(RelayConfig { listen, clients, recv_buffer: recv_buffer(args)?, ..RelayConfig::to(upstream) })
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
