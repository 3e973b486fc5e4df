//! The arguments of `wan`, and its plan.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use softtimers_measure::failure::Failure;
use softtimers_measure::units;
use softtimers_wan::inside;
use softtimers_wan::interfaces::BridgeConfig;
use softtimers_wan::tcp::{StreamConfig, StreamLimits};
use softtimers_wan::udp::RelayConfig;
use softtimers_wan::{Aqm, Bottleneck, Change, PathConfig, Queue, Way};

use super::carrier::Ends;
use super::inside::InsidePlan;
use super::profile::Profile;
use super::proxies::args::ProxiesArgs;
use super::scenario::ScenarioFile;
use super::setting::SETTINGS;
use crate::address;
use crate::args::any_seed;
use crate::args::{ClientArgs, OutputArgs};
use crate::run::output::{Output, say};
use crate::withheld;

/// `softtimers wan`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = WAN_EXAMPLES, next_help_heading = ENDS)]
pub(crate) struct WanArgs {
    /// Address to listen on: IP:PORT; port 0 for any free one
    ///
    /// The address in use is printed to stderr. Only addresses of the loopback interface, unless --public is given.
    #[arg(long, value_name = "ADDR", required_unless_present_any = ["self_test", "ifaces", "command", "api", "proxies"])]
    pub(crate) listen: Option<String>,

    /// Destination: IP:PORT or NAME:PORT
    #[arg(long, value_name = "ADDR", required_unless_present_any = ["self_test", "ifaces", "command", "api", "proxies"])]
    pub(crate) to: Option<String>,

    /// Relay TCP streams instead of UDP datagrams
    ///
    /// With delay, rate and queue only. What TCP has acknowledged cannot be lost, so loss, reordering, duplicates, corruption, marks and --aqm are refused. A full
    /// queue stops the reading. For the rest, and for TCP's own answer to the path, see --ifaces.
    #[arg(long, conflicts_with_all = ["self_test", "ifaces", "trust", "answers_per_prefix"])]
    pub(crate) tcp: bool,

    /// Join two Ethernet interfaces instead; needs CAP_NET_RAW
    ///
    /// Everything that crosses them takes the path, up from A to B.
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, conflicts_with_all = ["self_test", "listen", "to", "public", "trust", "answers_per_prefix"])]
    pub(crate) ifaces: Option<Vec<String>>,

    /// Also take interfaces that have an address, the default route or a bridge
    #[arg(long, conflicts_with = "listen", hide_short_help = true)]
    pub(crate) take: bool,

    /// Listen where other machines can reach it
    ///
    /// Datagram clients of other networks than those of --trust get limited answers.
    #[arg(long)]
    pub(crate) public: bool,

    /// Measure the relay itself on this machine, in 15 s
    #[arg(long, conflicts_with_all = ["listen", "to", "control", "duration", "json_stream"])]
    pub(crate) self_test: bool,

    /// A known network: 3g, 4g, 5g, dsl, wifi, others
    ///
    /// They are 3g, 4g, 5g, dsl, satellite, wifi and lossy-wifi. Rates, round trip and loss are as they were published; settings beside it
    /// prevail.
    #[arg(long, value_name = "NAME", value_parser = Profile::named, help_heading = BOTH_WAYS)]
    pub(crate) profile: Option<Profile>,

    /// Round-trip time: half of it each way
    #[arg(long, value_name = "TIME", value_parser = units::duration, conflicts_with = "delay", help_heading = BOTH_WAYS)]
    pub(crate) rtt: Option<Duration>,

    /// Shell command at the other end, known as `peer`
    ///
    /// CMD begins once it listens. Its output goes to stderr, and it is ended when CMD ends.
    #[arg(long, value_name = "CMD2", requires = "command", help_heading = BEHIND)]
    pub(crate) peer: Option<OsString>,

    /// Let CMD reach servers on this machine's loopback, as `host`
    #[arg(long, requires = "command", conflicts_with = "peer", help_heading = BEHIND, hide_short_help = true)]
    pub(crate) host_loopback: bool,

    /// Write the --json object to a new file at the end
    #[arg(long, value_name = "FILE", requires = "command", help_heading = BEHIND, hide_short_help = true)]
    pub(crate) summary: Option<PathBuf>,

    /// Write a page of HTML at the end, with plots over time
    ///
    /// Rate, queue, delay, round trip and loss, with what was set. The file must be new, unless --force is given.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["self_test", "api", "proxies"], help_heading = RUN)]
    pub(crate) report: Option<PathBuf>,

    /// Overwrite the files of --report and --summary
    #[arg(long, help_heading = RUN, hide_short_help = true)]
    pub(crate) force: bool,

    /// Several proxies in one process.
    #[command(flatten)]
    pub(crate) several: ProxiesArgs,

    /// The settings of the path.
    #[command(flatten)]
    pub(crate) path: PathArgs,

    /// Stop after this time: 10 (seconds), 500ms, 2min
    #[arg(short = 't', long, value_name = "TIME", value_parser = units::run_time, help_heading = RUN)]
    pub(crate) duration: Option<Duration>,

    /// Seed: the same seed and packets, the same losses
    #[arg(long, value_name = "N", help_heading = RUN)]
    pub(crate) seed: Option<u64>,

    /// Change the path at given times, by a TOML file
    ///
    /// Steps of settings, as '[[step]]', 'at = \"10s\"', 'loss = \"5%\"'; outages; rounds. See docs/wan.md.
    #[arg(long, value_name = "FILE", value_parser = ScenarioFile::read, conflicts_with = "self_test", help_heading = RUN)]
    pub(crate) scenario: Option<ScenarioFile>,

    /// Replay delays from a CSV file: seconds, then milliseconds each way
    ///
    /// '10.5,20' sets the delay of both directions 10.5 s after the beginning, '10.5,20,35' that up and that down.
    #[arg(long, value_name = "FILE", value_parser = ScenarioFile::read_delays, conflicts_with_all = ["scenario", "self_test"], help_heading = RUN, hide_short_help = true)]
    pub(crate) delays: Option<ScenarioFile>,

    /// Take changes at this Unix socket while it runs
    ///
    /// For its owner only. A socket that a killed run left behind is replaced; anything else there is refused. One command to a line: 'set up delay 50ms loss 1%', 'set both rate 10Mbit', 'show'. Of several proxies, the name comes first: 'set NAME both rtt 80ms', 'show NAME'.
    #[arg(long, value_name = "PATH", help_heading = RUN)]
    pub(crate) control: Option<PathBuf>,

    /// The clients it serves.
    #[command(flatten)]
    pub(crate) clients: ClientArgs,

    /// Print a line of JSON a second, then the --json object
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub(crate) json_stream: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// Run this command behind the path, in a network of its own; no root
    ///
    /// Its exit code is the exit code; a signal that ends it ends this, too. stdin, stdout and the terminal are its
    /// own, so the summary goes to stderr. The outside is reached through pasta or slirp4netns, unless --peer is the
    /// other end. Its child processes end with it.
    #[arg(value_name = "CMD", last = true, hide_short_help = true, conflicts_with_all = ["listen", "to", "tcp", "ifaces", "take", "public", "trust", "answers_per_prefix", "self_test", "duration", "json_stream"])]
    pub(crate) command: Vec<OsString>,
}

/// The groups of flags.
const ENDS: &str = "Ends";
const BEHIND: &str = "With -- CMD";
const BOTH_WAYS: &str = "Path, both ways";
const RUN: &str = "Run";

/// Rarely used settings of the path.
const RARE: [&str; 8] = ["trace", "burst", "aqm", "mark", "duplicate", "corrupt", "slot", "overhead"];

/// The settings of both directions or of one, as given.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathArgs {
    /// Those for both directions come first, so that one direction's own prevail.
    pub(crate) changes: Vec<(Option<Way>, Change)>,
}

/// The direction of each flag, in the order of [`Setting::flags`](super::setting::Setting::flags).
const SIDES: [Option<Way>; 3] = [None, Some(Way::Up), Some(Way::Down)];

impl Args for PathArgs {
    fn augment_args(command: Command) -> Command {
        let flags = SIDES.iter().enumerate().flat_map(|(side, way)| {
            SETTINGS.iter().map(move |setting| {
                let flag = setting.flags[side];
                let arg = Arg::new(flag).long(flag).value_name(setting.value);
                let arg = arg.value_parser(|text: &str| setting.change(text));
                let one_way = format!("As --{}, this way only", setting.flags[0]);
                match way {
                    // As in iperf3.
                    None if flag == "rate" => arg.short('b').help(setting.help).help_heading(BOTH_WAYS),
                    None => {
                        arg.help(setting.help).help_heading(BOTH_WAYS).hide_short_help(RARE.contains(&flag))
                    }
                    Some(Way::Up) => arg.help(one_way).help_heading("Path to --to").hide_short_help(true),
                    Some(Way::Down) => arg.help(one_way).help_heading("Path back").hide_short_help(true),
                }
            })
        });
        command.args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PathArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let flags = SIDES.iter().enumerate().flat_map(|(side, way)| {
            let given = move |flag| matches.get_one::<Change>(flag).cloned();
            SETTINGS.iter().filter_map(move |setting| Some((*way, given(setting.flags[side])?)))
        });
        Ok(PathArgs { changes: flags.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A run of `wan`.
#[derive(Clone, Debug)]
pub(crate) struct WanPlan {
    /// The ends of the path, and the limits.
    pub(crate) ends: Ends,
    /// The path to the upstream, which is valid.
    pub(crate) up: PathConfig,
    /// The path back.
    pub(crate) down: PathConfig,
    /// Scheduled changes of the settings.
    pub(crate) scenario: Option<ScenarioFile>,
    /// The seed of everything random.
    pub(crate) seed: u64,
    /// The socket for changes.
    pub(crate) control: Option<PathBuf>,
    /// The longest time that the run lasts.
    pub(crate) duration: Option<Duration>,
    /// The command that runs behind the path.
    pub(crate) inside: Option<InsidePlan>,
    /// The file for the object.
    pub(crate) summary: Option<PathBuf>,
    /// The file for the page.
    pub(crate) report: Option<PathBuf>,
    /// Whether these files may exist already.
    pub(crate) force: bool,
    pub(crate) output: Output,
}

impl WanPlan {
    /// Interprets the arguments of `wan`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &WanArgs) -> Result<Self, Failure> {
        let (ends, overhead) = ends(args)?;
        let [up, down] = [Way::Up, Way::Down].map(|way| path(args, way, &ends, overhead));
        let (up, down) = (up?, down?);
        let scenario = args.scenario.as_ref().or(args.delays.as_ref());
        if let Some(file) = scenario {
            for (way, path) in [(Way::Up, &up), (Way::Down, &down)] {
                file.check(way, path, |path| ends.check(path)).map_err(Failure::usage)?;
            }
        }
        Ok(WanPlan {
            up,
            down,
            ends,
            scenario: scenario.cloned(),
            seed: args.seed.unwrap_or_else(any_seed),
            control: args.control.clone(),
            duration: args.duration,
            inside: (!args.command.is_empty()).then(|| InsidePlan {
                words: args.command.clone(),
                peer: args.peer.clone(),
                host_loopback: args.host_loopback,
            }),
            summary: args.summary.clone(),
            report: args.report.clone(),
            force: args.force,
            output: Output { stream: args.json_stream, ..Output::from(&args.output) },
        })
    }
}

/// Returns the ends of the path, and the header bytes of a packet beyond those offered.
fn ends(args: &WanArgs) -> Result<(Ends, u32), Failure> {
    if !args.command.is_empty() {
        let interfaces = inside::ENDS.map(str::to_owned);
        return Ok((Ends::Interfaces(BridgeConfig { interfaces, take: false, own: true }), 0));
    }
    if let Some(names) = &args.ifaces {
        let Ok(interfaces) = <[String; 2]>::try_from(names.clone()) else {
            let given = names.join(",");
            return Err(Failure::usage(format_args!("--ifaces {given}: two interfaces, such as eth1,eth2")));
        };
        return Ok((Ends::Interfaces(BridgeConfig { interfaces, take: args.take, own: false }), 0));
    }
    let given = |flag, address: &Option<String>| {
        address::resolve(address.as_deref().unwrap_or_default()).map_err(|refused| refused.about(flag))
    };
    let (listen, upstream) = (given("--listen", &args.listen)?, given("--to", &args.to)?);
    address::check_local(listen).map_err(|refused| refused.about("--listen"))?;
    if !args.public && !address::is_local(listen) {
        let message = format!("--listen {listen}: other machines could use it; --public allows that");
        return Err(Failure::usage(message));
    }
    address::check_destination(upstream).map_err(|refused| refused.about("--to"))?;
    address::check_route(upstream).map_err(|refused| refused.about("--to"))?;
    let on_first_refused = Some(nobody_listens as fn(_));
    let overhead = overhead(args.tcp, upstream);
    Ok(match if args.tcp { tcp_ends } else { udp_ends }(listen, upstream, &args.clients) {
        Ends::Tcp(config) => (Ends::Tcp(StreamConfig { on_first_refused, ..config }), overhead),
        Ends::Udp(config) => (Ends::Udp(RelayConfig { on_first_refused, ..config }), overhead),
        ends => (ends, 0),
    })
}

/// Returns the ends of streams.
pub(super) fn tcp_ends(listen: SocketAddr, upstream: SocketAddr, clients: &ClientArgs) -> Ends {
    let &ClientArgs { clients: most, client_timeout: idle, .. } = clients;
    let limits = StreamLimits { most, idle, ..StreamLimits::default() };
    Ends::Tcp(StreamConfig { listen, limits, ..StreamConfig::to(upstream) })
}

/// Returns the ends of datagrams.
pub(super) fn udp_ends(listen: SocketAddr, upstream: SocketAddr, clients: &ClientArgs) -> Ends {
    let on_first_withheld = Some(withheld::tell as fn(_));
    let clients = clients.limits();
    Ends::Udp(RelayConfig { listen, clients, on_first_withheld, ..RelayConfig::to(upstream) })
}

/// Returns the header bytes of a packet beyond those offered: for TCP with time stamps, as most of it has.
pub(super) fn overhead(tcp: bool, upstream: SocketAddr) -> u32 {
    let network = if upstream.is_ipv4() { 20 } else { 40 };
    network + if tcp { 32 } else { 8 }
}

/// Reported once a run, since a path without a server looks like one that loses everything.
fn nobody_listens(upstream: SocketAddr) {
    say(format_args!("softtimers: --to {upstream}: nobody listens there (the summary counts refusals)"));
}

fn path(args: &WanArgs, way: Way, ends: &Ends, overhead: u32) -> Result<PathConfig, Failure> {
    let path = path_of_settings(args, way, overhead);
    ends.check(&path).map_err(|error| Failure::usage(format_args!("the path {way}: {error}")))?;
    check_queue(args, way, &path)?;
    Ok(path)
}

/// Returns the initial path of each of several proxies; its headers depend on the proxy's ends.
pub(super) fn path_without_ends(args: &WanArgs, way: Way) -> Result<PathConfig, Failure> {
    let path = path_of_settings(args, way, 0);
    path.check().map_err(|error| Failure::usage(format_args!("the path {way}: {error}")))?;
    check_queue(args, way, &path)?;
    Ok(path)
}

/// Returns the `--overhead` of the command line.
pub(super) fn overhead_given(args: &WanArgs, way: Way) -> Option<u32> {
    let of = |(whose, change): &(Option<Way>, Change)| match change {
        Change::Overhead(bytes) if whose.is_none_or(|whose| whose == way) => Some(*bytes),
        _ => None,
    };
    args.path.changes.iter().rev().find_map(of)
}

fn path_of_settings(args: &WanArgs, way: Way, overhead: u32) -> PathConfig {
    let mut path = PathConfig::default().overhead(overhead);
    if let Some(profile) = args.profile {
        profile.apply(way, &mut path);
    }
    if let Some(rtt) = args.rtt {
        // Losing half a nanosecond is irrelevant.
        path.delay = rtt / 2;
    }
    for (whose, change) in &args.path.changes {
        if whose.is_none_or(|whose| whose == way) {
            change.apply(&mut path);
        }
    }
    path
}

fn check_queue(args: &WanArgs, way: Way, path: &PathConfig) -> Result<(), Failure> {
    // It may get a rate while it runs.
    if args.control.is_none()
        && args.scenario.is_none()
        && path.bottleneck == Bottleneck::NONE
        && (path.queue != Queue::default() || path.aqm != Aqm::DropTail || path.burst > 0)
    {
        return Err(Failure::usage(format_args!(
            "the path {way}: --queue, --aqm, --mark and --burst are about a bottleneck; --rate or --trace makes one"
        )));
    }
    Ok(())
}

const WAN_EXAMPLES: &str = "\
Examples:
  softtimers wan --rtt 80ms -b 20Mbit --loss 0.5% -- curl -O https://example.org/file
  softtimers wan --rtt 80ms -b 20Mbit --peer 'iperf3 -s' -- iperf3 -c peer
  softtimers wan --profile 3g -- git clone https://example.org/repository
  softtimers wan --listen 127.0.0.1:5000 --to 127.0.0.1:4433 --loss 1%
  softtimers wan --listen 127.0.0.1:5000 --to 127.0.0.1:4433 --rtt 100ms -b 100Mbit --queue 20packets
  softtimers wan --listen 127.0.0.1:0 --to 127.0.0.1:53 --delay 20ms --loss 1% --seed 7 -t 60 --json
  softtimers wan --listen 127.0.0.1:5000 --to 127.0.0.1:4433 --up-rate 10Mbit --down-trace LTE.down
  softtimers wan --listen 0.0.0.0:5000 --public --trust 192.0.2.0/24 --to 127.0.0.1:4433 --rtt 100ms
  softtimers wan --api 127.0.0.1:8474
  softtimers wan --proxies proxies.json --control wan.sock --rtt 20ms
  softtimers wan --tcp --listen 127.0.0.1:8080 --to example.org:80 --rtt 80ms -b 20Mbit
  softtimers wan --rtt 40ms --scenario train.toml --peer 'iperf3 -s' -- iperf3 -c peer -t 60
  sudo softtimers wan --ifaces veth-a,veth-b --rtt 20ms -b 100Mbit --queue 50ms --loss 0.1%

Values:
  RATE   10Mbit, 1.5Gbit, with headers: a packet counts 28 bytes more than its payload over IPv4,
         a TCP segment 52, a frame of --ifaces nothing more; see --overhead
  LIMIT  20packets, 64KiB, 50ms
  LOSS   1%, 1%:corr=25%, or gilbert:TO_BAD,TO_GOOD[,LOSS_BAD[,LOSS_GOOD]] with losses in bursts: gilbert:0.2%,30%
  TIME[:OPTION] of --jitter: 2ms:normal, :exponential, :pareto, :paretonormal, :dist=FILE (netem's format, or VALUE,COUNT lines),
         then :corr=25%, :reordering
  NAME[:OPTION] of --aqm: codel:5ms:interval=100ms:ecn, fq_codel:flows=1024:quantum=1514, pie:15ms
  TIME[-TIME][:OPTION] of --slot: 1ms-10ms:packets=42:bytes=64KiB
  SHARE of --duplicate and --corrupt: 0.1%, 0.1%:corr=25%
  SHARE:TIME of --reorder may be SHARE:gap=N: as in netem, after N - 1 others one takes no delay, 25%:gap=5

Exit codes:
   0  done, also by Ctrl-C, SIGTERM or SIGHUP; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was carried
  77  not possible on this machine; the message says what is missing
  With -- CMD the exit code is that of CMD; 126 and 127 if it cannot be started or found";
