//! The arguments of `forward`, and its plan.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::forwarder::{FrameDriver, LegPlan, Mac, Plan};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use softtimers_measure::failure::Failure;
use softtimers_measure::units;
use softtimers_net::relay::RelayConfig;

use crate::address::{self, is_local};
use crate::args::{ClientArgs, EndArgs, StreamArgs};
use crate::commands::receiving::{self, ReceivingArgs};
use crate::run::output::{Output, say};
use crate::withheld;

/// `softtimers forward`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = FORWARD_EXAMPLES, next_help_heading = INTERFACES)]
#[command(mut_arg("duration", |arg| arg.help("Stop after this time: 10 (seconds), 500ms, 2min")))]
#[command(mut_arg("count", |arg| arg.help("Stop after N frames or datagrams").long_help("Stop after N frames at the first interface, or N datagrams of clients")))]
pub(crate) struct ForwardArgs {
    /// Two Ethernet interfaces to forward between; needs CAP_NET_RAW
    #[arg(value_name = "INTERFACE", num_args = 0..=2, value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["udp", "to", "public", "recv_buffer", "clients", "client_timeout", "trust", "answers_per_prefix"])]
    pub(crate) interfaces: Vec<String>,

    /// I/O backend [default: packet, or udp with --udp]
    #[arg(long, value_enum)]
    pub(crate) driver: Option<ForwardDriver>,

    /// Route IPv4 and IPv6, with one next hop on each side
    ///
    /// Without it frames pass unchanged, as through a cable. Hosts must have the router as their gateway. It does not translate addresses, and has no routing table.
    #[arg(long, conflicts_with = "udp", requires_all = ["next_hop_a", "next_hop_b"])]
    pub(crate) routed: bool,

    /// Ethernet address that routed packets go to at the first interface
    #[arg(long, value_name = "MAC", requires = "routed", value_parser = mac, hide_short_help = true)]
    pub(crate) next_hop_a: Option<Mac>,

    /// Ethernet address that routed packets go to at the second interface
    #[arg(long, value_name = "MAC", requires = "routed", value_parser = mac, hide_short_help = true)]
    pub(crate) next_hop_b: Option<Mac>,

    /// The router's own addresses at the first interface; it answers ARP and neighbour discovery for them
    #[arg(long, value_name = "IP,IP", requires = "routed", value_delimiter = ',', num_args = 1, value_parser = router_address, hide_short_help = true)]
    pub(crate) address_a: Vec<IpAddr>,

    /// The router's own addresses at the second interface
    #[arg(long, value_name = "IP,IP", requires = "routed", value_delimiter = ',', num_args = 1, value_parser = router_address, hide_short_help = true)]
    pub(crate) address_b: Vec<IpAddr>,

    /// Forwarding threads: 1 to 64
    ///
    /// Each wants a CPU of its own, and one more for the rest of the system. Packets of a flow stay in one thread, and in
    /// order. With xdp each thread has some of the interfaces' queues (`ethtool -L`); with --udp each has a socket, and some of
    /// the clients. Not with --count, nor with rules that have a rate, since no thread counts for all.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) pollers: u32,

    /// Also take interfaces that this machine uses
    ///
    /// Those with an address, the default route or a bridge. This disturbs what the machine itself does there, and may cut off whoever is logged in over it.
    #[arg(long, conflicts_with = "udp")]
    pub(crate) take: bool,

    /// Address to listen on: IP:PORT; port 0 for any free one
    ///
    /// The address in use is printed to stderr. Only addresses of the loopback interface, unless --public is given.
    #[arg(long, value_name = "LISTEN", requires = "to", help_heading = DATAGRAMS)]
    pub(crate) udp: Option<String>,

    /// Destination of the datagrams: IP:PORT or NAME:PORT
    #[arg(long, value_name = "ADDR", requires = "udp", help_heading = DATAGRAMS)]
    pub(crate) to: Option<String>,

    /// Listen where other machines can reach it; see --trust
    #[arg(long, help_heading = DATAGRAMS)]
    pub(crate) public: bool,

    /// Receive buffer to ask for: 4KiB to 1GiB; the system may grant less
    ///
    /// Datagrams that do not fit are dropped at no cost. In overload a datagram waits in a full buffer for its turn, so a smaller
    /// one means less delay, and a larger one keeps longer bursts.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = units::bytes, help_heading = DATAGRAMS, hide_short_help = true)]
    pub(crate) recv_buffer: u64,

    /// Accept and reject by the rules in this file
    ///
    /// It is read again when it changes.
    ///
    /// A rule is a line: 'on a|b', 'type TYPE', 'protocol PROTOCOL', 'from NET', 'from-port PORTS', 'to NET', 'port
    /// PORTS', 'length BYTES', 'rate RATE [burst TIME]', any of them, then 'accept' or 'reject'. The first that matches
    /// decides; the last has no clauses.
    #[arg(long, value_name = "FILE", help_heading = RULES)]
    pub(crate) rules: Option<PathBuf>,

    /// Serve Prometheus metrics over HTTP: IP:PORT
    ///
    /// Port 0 for any free one. Only addresses of the loopback interface, unless --metrics-public is given.
    #[arg(long, value_name = "ADDR", help_heading = RULES)]
    pub(crate) metrics: Option<String>,

    /// Serve metrics where other machines can reach them
    #[arg(long, requires = "metrics", help_heading = RULES, hide_short_help = true)]
    pub(crate) metrics_public: bool,

    /// When it ends; it counts packets received at the first interface, or from clients.
    #[command(flatten, next_help_heading = RULES)]
    pub(crate) end: EndArgs,

    /// When it polls for packets.
    #[command(flatten)]
    pub(crate) receiving: ReceivingArgs,

    /// The clients it serves.
    #[command(flatten)]
    pub(crate) clients: ClientArgs,

    #[command(flatten)]
    pub(crate) output: StreamArgs,
}

/// The groups of its own flags.
const INTERFACES: &str = "Between two interfaces";
const DATAGRAMS: &str = "Relay of datagrams";
const RULES: &str = "Rules, metrics, end";

/// `--driver`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ForwardDriver {
    /// AF_PACKET: a copy of each frame; this machine gets them, too. Needs CAP_NET_RAW
    Packet,
    /// AF_XDP: all frames, before this machine sees them. Needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF
    Xdp,
    /// Programs in the kernel forward packets that need no user-space work, with --routed; packet handles the others.
    /// Needs CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON
    Tc,
    /// tc, and XDP programs in the interfaces' drivers forward complete frames at about half the cost; for interfaces
    /// whose senders do not leave tags or tunnels' checksums to them
    XdpFast,
    /// tc where it can be, else packet; says which, and why
    Auto,
    /// UDP sockets, with --udp and --to. Needs no privileges
    Udp,
    /// udp, and the receive queue of the clients' interface is polled while it pays: their datagrams do not interrupt.
    /// Needs Linux 6.13 and CAP_NET_ADMIN
    Napi,
}

impl ForwardDriver {
    /// Returns the driver of frames, for `auto` the one to try first; `None` for UDP sockets.
    pub(crate) fn of_frames(self) -> Option<FrameDriver> {
        match self {
            ForwardDriver::Packet => Some(FrameDriver::Packet),
            ForwardDriver::Xdp => Some(FrameDriver::Xdp),
            ForwardDriver::Tc | ForwardDriver::Auto => Some(FrameDriver::Tc),
            ForwardDriver::XdpFast => Some(FrameDriver::XdpFast),
            ForwardDriver::Udp | ForwardDriver::Napi => None,
        }
    }
}

/// A run of `forward`.
#[derive(Clone, Debug)]
pub(crate) struct ForwardPlan {
    /// The two sides of the forwarder.
    pub(crate) ends: Ends,
    /// The plan, without its rules.
    pub(crate) how: Plan,
    /// The file of rules.
    pub(crate) rules: Option<PathBuf>,
    /// The address at which metrics are served.
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) output: Output,
}

/// The two sides of a forwarder.
#[derive(Clone, Debug)]
pub(crate) enum Ends {
    /// Clients and an upstream address, and the limits of clients.
    Addresses(Box<RelayPlan>),
    /// Two interfaces.
    Interfaces(InterfacesPlan),
}

/// An address that clients send to, and the one that their datagrams go to.
#[derive(Clone, Debug)]
pub(crate) struct RelayPlan {
    pub(crate) config: RelayConfig,
    /// The number of threads that relay.
    pub(crate) pollers: u32,
}

/// Two interfaces, and how to forward between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InterfacesPlan {
    /// The names of the interfaces.
    pub(crate) names: [String; 2],
    /// The driver of both interfaces.
    pub(crate) driver: FrameDriver,
    /// Whether another driver may be used instead.
    pub(crate) auto: bool,
    /// The number of threads that forward.
    pub(crate) pollers: u32,
    /// Whether to take interfaces that this machine uses itself.
    pub(crate) take: bool,
    /// The two sides of a router; without them, it is a cable.
    pub(crate) routed: Option<[LegPlan; 2]>,
}

impl ForwardPlan {
    /// Interprets the arguments of `forward`.
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
                napi: args.driver == Some(ForwardDriver::Napi),
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
    let ForwardArgs { pollers, take, .. } = *args;
    if pollers > 1 && args.end.count.is_some() {
        return Err(Failure::usage(format_args!("--pollers {pollers}: --count is of one poller only")));
    }
    let driver = args.driver.map_or(Some(FrameDriver::default()), ForwardDriver::of_frames);
    if let (Some(listen), Some(to)) = (&args.udp, &args.to) {
        if let (Some(_), Some(driver)) = (args.driver, driver) {
            let driver = driver.name();
            return Err(Failure::usage(format_args!(
                "--driver {driver}: it is of frames between interfaces, --udp {listen} is of datagrams; only --driver udp \
                 and napi go with that"
            )));
        }
        let config = relay(args, listen, to)?;
        let most = config.clients.most;
        if most < pollers {
            return Err(Failure::usage(format_args!(
                "--clients {most}: at least one for each of --pollers {pollers}"
            )));
        }
        return Ok(Ends::Addresses(Box::new(RelayPlan { config, pollers })));
    }
    let driver = driver.ok_or_else(|| {
        let given = if args.interfaces.is_empty() { "nothing".to_owned() } else { args.interfaces.join(" ") };
        Failure::usage(format_args!(
            "--driver {}: it goes with --udp LISTEN --to ADDR, and given is {given}",
            if args.driver == Some(ForwardDriver::Napi) { "napi" } else { "udp" }
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
    let auto = args.driver == Some(ForwardDriver::Auto);
    Ok(Ends::Interfaces(InterfacesPlan { names, driver, auto, pollers, take, routed }))
}

fn is_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_broadcast)
}

fn relay(args: &ForwardArgs, listen: &str, to: &str) -> Result<RelayConfig, Failure> {
    let (listen, upstream) = (given("--udp", listen)?, given("--to", to)?);
    check_listen("--udp", listen, "--public", args.public)?;
    address::check_destination(upstream).map_err(|refused| refused.about("--to"))?;
    address::check_route(upstream).map_err(|refused| refused.about("--to"))?;
    Ok(RelayConfig {
        listen,
        clients: args.clients.limits(),
        on_first_withheld: Some(withheld::tell),
        recv_buffer: receiving::recv_buffer(args.recv_buffer)?,
        ..RelayConfig::to(upstream)
    })
}

fn given(flag: &str, text: &str) -> Result<SocketAddr, Failure> {
    address::resolve(text).map_err(|refused| refused.about(flag))
}

/// Refuses an address that other machines could use by accident.
fn check_listen(flag: &str, address: SocketAddr, allows: &str, public: bool) -> Result<(), Failure> {
    address::check_local(address).map_err(|refused| refused.about(flag))?;
    if public || is_local(address) {
        return Ok(());
    }
    Err(Failure::usage(format_args!("{flag} {address}: other machines could use it; {allows} allows that")))
}

/// Parses the address of one station: neither zero nor a multicast address.
pub(crate) fn mac(text: &str) -> Result<Mac, String> {
    let byte = |part: &str| {
        let digits = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
        digits.then(|| u8::from_str_radix(part, 16).ok()).flatten()
    };
    let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
    let mac: Option<Mac> = bytes.and_then(|bytes| bytes.try_into().ok());
    let mac = mac.ok_or_else(|| "six bytes such as 02:00:00:00:00:01 are allowed".to_owned())?;
    let is_one_station = mac[0] & 1 == 0 && mac != [0; 6];
    is_one_station.then_some(mac).ok_or_else(|| "not the address of one station".to_owned())
}

/// Parses an address of the router, without a network: it knows only the next hop.
fn router_address(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| "an address of IPv4 or IPv6 such as 192.0.2.1, without /BITS, is allowed".to_owned())
}

const FORWARD_EXAMPLES: &str = "\
Examples:
  softtimers forward eth1 eth2 --rules screen.rules
  softtimers forward eth1 eth2 --driver xdp --mode poll --cpu-limit 50%
  softtimers forward eth1 eth2 --routed --next-hop-a $MAC_A --next-hop-b $MAC_B
  softtimers forward --udp 127.0.0.1:5300 --to 127.0.0.1:53
  softtimers forward --udp 0.0.0.0:53 --public --to 192.0.2.1:53
  softtimers forward --udp [::]:443 --public --to [::1]:80 --trust 2001:db8::/32
  softtimers forward eth1 eth2 --metrics 127.0.0.1:9100
  softtimers forward --udp 127.0.0.1:0 --to 127.0.0.1:53 --cpu-limit 50%
  softtimers forward --udp 0.0.0.0:53 --public --to 192.0.2.1:53 --driver napi
  softtimers forward --udp 127.0.0.1:5300 --to 127.0.0.1:53 --pollers 4

Rules, in a file:
  from 192.0.2.0/24 rate 5kpps burst 50ms accept   # as long as they behave
  from 2001:db8::/32 length 0-512 accept
  type arp accept                                  # between interfaces
  reject                                           # the default rule

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
        for text in [
            "",
            "02",
            "02:00:ab:cd:00",
            "02:00:ab:cd:00:ff:00",
            "2:0:a:c:0:f",
            "+2:00:ab:cd:00:ff",
            "0g:00:ab:cd:00:ff",
        ] {
            assert_eq!(
                mac(text),
                Err("six bytes such as 02:00:00:00:00:01 are allowed".to_owned()),
                "{text}"
            );
        }
        for text in ["ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "01:00:5e:00:00:01"] {
            assert_eq!(mac(text), Err("not the address of one station".to_owned()));
        }
    }
}
