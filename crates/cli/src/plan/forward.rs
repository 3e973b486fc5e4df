//! What a run of `forward` will do.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use softtimers::Percent;
use softtimers_wan::udp::RelayConfig;

use super::End;
use super::receiving;
use crate::address;
use crate::address::is_local;
use crate::args::{ForwardArgs, ForwardDriver, FrameDriver};
use crate::failure::Failure;
use crate::forward::frames::headers::Mac;
use crate::forward::mode::Looking;
use crate::output::Output;
use crate::withheld;

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
        let metrics = args.metrics.as_deref().map(|text| given("--metrics", text)).transpose()?;
        if let Some(metrics) = metrics {
            check_listen("--metrics", metrics, "--metrics-public", args.metrics_public)?;
        }
        Ok(ForwardPlan {
            between,
            looking: receiving::looking(&args.receiving)?,
            cpu_limit: receiving::cpu_limit(&args.receiving)?,
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
    let driver = args.driver.map_or(Some(FrameDriver::default()), ForwardDriver::of_frames);
    if let (Some(listen), Some(to)) = (&args.udp, &args.to) {
        if let (Some(_), Some(driver)) = (args.driver, driver) {
            let driver = driver.name();
            return Err(Failure::usage(format_args!(
                "--driver {driver}: it is of frames between interfaces, --udp {listen} is of datagrams; only --driver udp \
                 goes with that"
            )));
        }
        return Ok(Between::Addresses(relay(args, listen, to)?));
    }
    let driver = driver.ok_or_else(|| {
        let given = if args.interfaces.is_empty() { "nothing".to_owned() } else { args.interfaces.join(" ") };
        Failure::usage(format_args!(
            "--driver udp: it goes with --udp LISTEN --to ADDR, and given is {given}"
        ))
    })?;
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
    let ForwardArgs { pollers, take, .. } = *args;
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
    let (listen, upstream) = (given("--udp", listen)?, given("--to", to)?);
    check_listen("--udp", listen, "--public", args.public)?;
    address::check_destination(upstream).map_err(|refused| refused.of("--to"))?;
    address::check_route(upstream).map_err(|refused| refused.of("--to"))?;
    Ok(RelayConfig {
        listen,
        clients: args.clients.limits(),
        on_first_withheld: Some(withheld::tell),
        recv_buffer: receiving::recv_buffer(args.recv_buffer)?,
        ..RelayConfig::to(upstream)
    })
}

fn given(flag: &str, text: &str) -> Result<SocketAddr, Failure> {
    address::resolve(text).map_err(|refused| refused.of(flag))
}

/// Nobody else's machine gets to use it by a slip of the hand.
fn check_listen(flag: &str, address: SocketAddr, allows: &str, public: bool) -> Result<(), Failure> {
    address::check_local(address).map_err(|refused| refused.of(flag))?;
    if public || is_local(address) {
        return Ok(());
    }
    Err(Failure::usage(format_args!("{flag} {address}: other machines could use it; {allows} allows that")))
}
