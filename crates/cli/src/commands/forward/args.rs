//! What `forward` is asked for, and will do.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use softtimers_forward::{FrameDriver, LegPlan, Mac, Plan};
use softtimers_measure::failure::Failure;
use softtimers_measure::units;
use softtimers_net::relay::RelayConfig;

use crate::address::{self, is_local};
use crate::args::{ClientArgs, EndArgs, MacAddress, StreamArgs};
use crate::commands::receiving::{self, ReceivingArgs};
use crate::run::output::{Output, say};
use crate::withheld;

/// `softtimers forward`.
///
/// Between two interfaces it is a cable for their frames, or with --routed a router for IPv4 and IPv6; with --udp a relay
/// of datagrams, which needs no privileges: what comes in there goes out to --to, and answers come back the same way.
/// In overload a quota bounds each turn, and what is too much is dropped in the ring or the receive buffer, before any
/// work was done for it.
#[derive(Args, Debug, Clone)]
#[command(after_help = FORWARD_EXAMPLES)]
pub(crate) struct ForwardArgs {
    /// Two Ethernet interfaces to forward between; needs CAP_NET_RAW
    #[arg(value_name = "INTERFACE", num_args = 0..=2, value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["udp", "to", "public", "recv_buffer", "clients", "client_timeout", "trust", "answers_per_prefix"])]
    pub(crate) interfaces: Vec<String>,

    /// How what is forwarded is had [default: packet, or with --udp: udp]
    #[arg(long, value_enum)]
    pub(crate) driver: Option<ForwardDriver>,

    /// Threads that forward, each with a poller and a share of the frames
    ///
    /// A processor for each is wanted, and one more for the rest. Frames of a flow stay with one of them, and in order. Of
    /// xdp each has some of the interfaces' queues (`ethtool -L`). Not with --count, nor with rules that have a rate:
    /// nobody counts what all of them do.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "udp", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) pollers: u32,

    /// Take interfaces that have an address, the default route or a bridge
    ///
    /// What this machine does there itself is disturbed, and who is logged in over it may be shut out.
    #[arg(long, conflicts_with = "udp")]
    pub(crate) take: bool,

    /// Route IPv4 and IPv6 instead of passing frames on as they are: each side has one next hop
    ///
    /// Hosts must have the router as their gateway. It changes no addresses of packets, and has no table.
    #[arg(long, conflicts_with = "udp", requires_all = ["next_hop_a", "next_hop_b"])]
    pub(crate) routed: bool,

    /// The station that routed packets go to at the first interface
    #[arg(long, value_name = "MAC", requires = "routed", value_parser = mac)]
    pub(crate) next_hop_a: Option<Mac>,

    /// The station that routed packets go to at the second interface
    #[arg(long, value_name = "MAC", requires = "routed", value_parser = mac)]
    pub(crate) next_hop_b: Option<Mac>,

    /// The router's addresses at the first interface: it answers who asks for them, and speaks as them
    #[arg(long, value_name = "IP,IP", requires = "routed", value_delimiter = ',', num_args = 1, value_parser = router_address)]
    pub(crate) address_a: Vec<IpAddr>,

    /// The router's addresses at the second interface
    #[arg(long, value_name = "IP,IP", requires = "routed", value_delimiter = ',', num_args = 1, value_parser = router_address)]
    pub(crate) address_b: Vec<IpAddr>,

    /// Where clients send to; port 0 for any free one. The address in use is printed to stderr
    ///
    /// Only addresses of the loopback interface, unless --public is given.
    #[arg(long, value_name = "LISTEN", requires = "to")]
    pub(crate) udp: Option<String>,

    /// Where their datagrams go
    #[arg(long, value_name = "ADDR", requires = "udp")]
    pub(crate) to: Option<String>,

    /// Listen where other machines can reach it; see --trust
    #[arg(long)]
    pub(crate) public: bool,

    /// When it looks for packets.
    #[command(flatten)]
    pub(crate) receiving: ReceivingArgs,

    /// Ask for receive buffers of this size; the system may grant less
    ///
    /// They are the ring: what they have no room for is dropped at no cost. In overload a datagram waits in a full one
    /// for its turn, so a smaller one means less delay, and a larger one that longer bursts are kept.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = units::bytes)]
    pub(crate) recv_buffer: u64,

    /// Take frames, or datagrams of clients, by the rules of this file, which is read again when it changes
    ///
    /// A rule is a line: 'on a|b', 'type TYPE', 'protocol PROTOCOL', 'from NET', 'from-port PORTS', 'to NET', 'port
    /// PORTS', 'length BYTES', 'rate RATE [burst TIME]', any of them, then 'accept' or 'reject'. The first that holds
    /// decides; the last has no clauses.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,

    /// Answer Prometheus at this address, over HTTP; port 0 for any free one
    ///
    /// Only addresses of the loopback interface, unless --metrics-public is given.
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,

    /// Answer Prometheus where other machines can reach it
    #[arg(long, requires = "metrics")]
    pub(crate) metrics_public: bool,

    /// Whom it serves.
    #[command(flatten)]
    pub(crate) clients: ClientArgs,

    /// When it ends; what is counted comes in at the first interface, or from clients.
    #[command(flatten)]
    pub(crate) end: EndArgs,

    /// How to print.
    #[command(flatten)]
    pub(crate) output: StreamArgs,
}

/// `--driver`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ForwardDriver {
    /// Between interfaces, AF_PACKET: a copy of each frame; this machine gets them, too. Needs CAP_NET_RAW
    Packet,
    /// Between interfaces, AF_XDP: all frames, before this machine has seen them. Needs CAP_NET_RAW, CAP_NET_ADMIN and
    /// CAP_BPF
    Xdp,
    /// Datagrams, by sockets, with --udp and --to. Needs no privileges
    Udp,
}

impl ForwardDriver {
    /// That of frames; `None`: it has none.
    pub(crate) fn of_frames(self) -> Option<FrameDriver> {
        match self {
            ForwardDriver::Packet => Some(FrameDriver::Packet),
            ForwardDriver::Xdp => Some(FrameDriver::Xdp),
            ForwardDriver::Udp => None,
        }
    }
}

/// A run of `forward`.
#[derive(Clone, Debug)]
pub(crate) struct ForwardPlan {
    /// Between what.
    pub(crate) ends: Ends,
    /// How, without its rules.
    pub(crate) how: Plan,
    /// The file of rules.
    pub(crate) rules: Option<PathBuf>,
    /// Where the metrics are asked for.
    pub(crate) metrics: Option<SocketAddr>,
    /// How to print the report.
    pub(crate) output: Output,
}

/// What lies on both sides.
#[derive(Clone, Debug)]
pub(crate) enum Ends {
    /// Clients and an address; who may be a client.
    Addresses(RelayConfig),
    /// Two interfaces.
    Interfaces(InterfacesPlan),
}

/// Two interfaces, and what is between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InterfacesPlan {
    /// Their names.
    pub(crate) names: [String; 2],
    /// How frames get in and out.
    pub(crate) driver: FrameDriver,
    /// Threads that forward.
    pub(crate) pollers: u32,
    /// Even if this machine uses them itself.
    pub(crate) take: bool,
    /// What a router needs to know; without it, a cable.
    pub(crate) routed: Option<[LegPlan; 2]>,
}

impl ForwardPlan {
    /// Understands the arguments of `forward`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &ForwardArgs) -> Result<Self, Failure> {
        let ends = ends(args)?;
        let metrics = args.metrics.as_deref().map(|text| given("--metrics", text)).transpose()?;
        if let Some(metrics) = metrics {
            check_listen("--metrics", metrics, "--metrics-public", args.metrics_public)?;
        }
        Ok(ForwardPlan {
            ends,
            how: Plan {
                looking: args.receiving.looking()?,
                cpu_limit: args.receiving.cpu_limit()?,
                rules: None,
                duration: args.end.duration,
                count: args.end.count,
                notify: say,
            },
            rules: args.rules.clone(),
            metrics,
            output: Output::from(&args.output),
        })
    }
}

fn ends(args: &ForwardArgs) -> Result<Ends, Failure> {
    let driver = args.driver.map_or(Some(FrameDriver::default()), ForwardDriver::of_frames);
    if let (Some(listen), Some(to)) = (&args.udp, &args.to) {
        if let (Some(_), Some(driver)) = (args.driver, driver) {
            let driver = driver.name();
            return Err(Failure::usage(format_args!(
                "--driver {driver}: it is of frames between interfaces, --udp {listen} is of datagrams; only --driver udp \
                 goes with that"
            )));
        }
        return Ok(Ends::Addresses(relay(args, listen, to)?));
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
        Ok(next_hop.map(|next_hop| LegPlan { next_hop, addresses: addresses.to_vec() }))
    };
    let a = leg(args.next_hop_a, &args.address_a, "--address-a")?;
    let b = leg(args.next_hop_b, &args.address_b, "--address-b")?;
    let routed = a.zip(b).map(|(a, b)| [a, b]);
    let ForwardArgs { pollers, take, .. } = *args;
    if pollers > 1 && args.end.count.is_some() {
        return Err(Failure::usage(format_args!("--pollers {pollers}: --count is of one poller only")));
    }
    Ok(Ends::Interfaces(InterfacesPlan { names, driver, pollers, take, routed }))
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

/// The address of one station.
fn mac(text: &str) -> Result<Mac, String> {
    let mac: MacAddress = text.parse()?;
    mac.is_one_station().then_some(mac.0).ok_or_else(|| "not the address of one station".to_owned())
}

/// An address of the router's own, which has no network beside it: it knows but the next hop.
fn router_address(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| "an address of IPv4 or IPv6 such as 192.0.2.1, without /BITS, is allowed".to_owned())
}

const FORWARD_EXAMPLES: &str = "\
Examples:
  softtimers forward eth1 eth2 --rules screen.rules
  softtimers forward eth1 eth2 --driver xdp --mode poll --cpu-limit 50%
  softtimers forward eth1 eth2 --routed --next-hop-a 02:00:00:00:00:01 --next-hop-b 02:00:00:00:00:02 \\
      --address-a 192.0.2.1,2001:db8:1::1 --address-b 198.51.100.1,2001:db8:2::1
  softtimers forward --udp 127.0.0.1:5300 --to 127.0.0.1:53
  softtimers forward --udp 0.0.0.0:5300 --public --to 192.0.2.1:53 --rules screen.rules
  softtimers forward --udp 0.0.0.0:4433 --public --to 127.0.0.1:443 --trust 192.0.2.0/24 --trust 2001:db8::/32
  softtimers forward --udp 127.0.0.1:5300 --to 127.0.0.1:53 --metrics 127.0.0.1:9100 --json-stream
  softtimers forward --udp 127.0.0.1:0 --to 127.0.0.1:9000 --max-delay 1ms --cpu-limit 50%

Rules, in a file:
  from 192.0.2.0/24 rate 5kpps burst 50ms accept   # as long as they behave
  from 2001:db8::/32 length 0-512 accept
  type arp accept                                  # between interfaces
  reject                                           # the last rule decides about the rest

Presets: the defaults are those that measurements chose; the papers' are `Preset::Paper` of the library.

Exit codes:
   0  done, also by Ctrl-C, SIGTERM or SIGHUP; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was forwarded
  77  not possible on this machine; the message says what is missing";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_are_one_station_each() {
        assert_eq!(mac("02:00:5e:00:00:Ff"), Ok([2, 0, 0x5e, 0, 0, 255]));
        assert!(mac("2:0:0:0:0:1").is_err());
        for text in ["ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "01:00:5e:00:00:01"] {
            assert_eq!(mac(text), Err("not the address of one station".to_owned()));
        }
    }
}
