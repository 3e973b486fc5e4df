//! The arguments of `wan`, as given. What they mean is in the [plan](super::plan).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use softtimers_measure::units;
use softtimers_wan::interfaces::Only;
use softtimers_wan::{Change, Way};

use super::profile::Profile;
use super::scenario::ScenarioFile;
use super::setting::SETTINGS;
use crate::args::{ClientArgs, OutputArgs};

/// `softtimers wan`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = WAN_EXAMPLES, next_help_heading = ENDS)]
pub(crate) struct WanArgs {
    /// Address to listen on: IP:PORT; port 0 for any free one
    ///
    /// The address in use is printed to stderr. Only addresses of the loopback interface, unless --public is given.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,

    /// Destination: IP:PORT or NAME:PORT
    #[arg(long, value_name = "ADDR")]
    pub(crate) to: Option<String>,

    /// Relay TCP streams instead of UDP datagrams
    ///
    /// With delay, rate, queue and loss only. What TCP has acknowledged cannot be missing: what is lost comes a round trip later, and what is
    /// behind it waits. Reordering, duplicates, corruption, marks and --aqm are refused. A full queue stops the reading. For the rest, and for
    /// TCP's own answer to the path, see --ifaces.
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

    /// How late a segment may be to leave with the next as one frame; 0: never
    ///
    /// Of -- CMD and --ifaces. The kernel joins segments of TCP to long frames, and the path treats each segment by itself: loss, marks
    /// and reordering look at single packets. Those of one frame that become due within this time leave together, which
    /// costs much less CPU time.
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "40us", hide_short_help = true, conflicts_with_all = ["listen", "tcp", "self_test"])]
    pub(crate) coalesce: Duration,

    /// Packets that take the path, in words of tcpdump: 'udp port 443'
    ///
    /// Of -- CMD and --ifaces. The others pass at once, beside the path. Words are ip, ip6, tcp, udp, icmp, icmp6, port N, portrange N-M,
    /// host IP and net PREFIX, with src or dst in front; and, or, not.
    #[arg(long, value_name = "WORDS", hide_short_help = true, conflicts_with_all = ["listen", "tcp", "self_test", "api", "proxies"])]
    pub(crate) only: Option<Only>,

    /// Listen where other machines can reach it
    ///
    /// Datagram clients of other networks than those of --trust get limited answers.
    #[arg(long, hide_short_help = true)]
    pub(crate) public: bool,

    /// Measure the relay itself on this machine, in 15 s
    #[arg(long, conflicts_with_all = ["listen", "to", "control", "duration", "json_stream"], hide_short_help = true)]
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
    #[arg(long, requires = "command", conflicts_with = "peer", help_heading = BEHIND)]
    pub(crate) host_loopback: bool,

    /// Write the --json object to a new file at the end
    #[arg(long, value_name = "FILE", requires = "command", help_heading = BEHIND)]
    pub(crate) summary: Option<PathBuf>,

    /// Write a page of HTML at the end, with plots over time
    ///
    /// Rate, queue, delay, round trip and loss, with what was set. The file must be new, unless --force is given.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["self_test", "api", "proxies"], help_heading = RUN)]
    pub(crate) report: Option<PathBuf>,

    /// Exit with 1 if wan itself was too late
    ///
    /// Beyond a tenth of the delay at the 99th percentile, a run is marked inconclusive; with this flag it fails, too, unless
    /// CMD already has.
    #[arg(long, conflicts_with_all = ["self_test"], help_heading = RUN, hide_short_help = true)]
    pub(crate) strict: bool,

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
    /// Steps of settings, as '[[step]]', 'at = "10s"', 'loss = "5%"'; outages; rounds. See docs/wan.md.
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
    #[arg(long, value_name = "PATH", help_heading = RUN, hide_short_help = true)]
    pub(crate) control: Option<PathBuf>,

    /// The clients it serves.
    #[command(flatten)]
    pub(crate) clients: ClientArgs,

    /// Print a line of JSON a second, then the --json object
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub(crate) json_stream: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// Words without a flag, which nothing here takes: a network's name, or a command without its `--`.
    #[arg(value_name = "WORD", hide = true, num_args = 0.., conflicts_with_all = ["self_test", "api", "proxies"])]
    pub(crate) stray: Vec<String>,

    /// Run this command behind the path, in a network of its own; no root
    ///
    /// Its exit code is the exit code; a signal that ends it ends this, too. stdin, stdout and the terminal are its
    /// own, so the summary goes to stderr. The outside is reached through pasta or slirp4netns, unless --peer is the
    /// other end. Its child processes end with it.
    #[arg(value_name = "CMD", last = true, hide_short_help = true, conflicts_with_all = ["listen", "to", "tcp", "ifaces", "take", "public", "trust", "answers_per_prefix", "self_test", "duration", "json_stream"])]
    pub(crate) command: Vec<OsString>,
}

/// Several paths in one process.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Ends")]
pub(crate) struct ProxiesArgs {
    /// Serve Toxiproxy's HTTP API: IP:PORT, of the loopback interface
    ///
    /// Proxies are made, changed and removed by it, with the toxics latency, bandwidth, slow_close, timeout, reset_peer, slicer
    /// and limit_data. Toxiproxy's own port is 8474. Requests with an Origin header or another Host are refused.
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["listen", "to", "tcp", "ifaces", "command", "self_test", "scenario", "delays", "json_stream"])]
    pub(crate) api: Option<String>,

    /// Begin with the proxies of a JSON file, as Toxiproxy has it
    ///
    /// A list of {"name", "listen", "upstream", "enabled"}, and also "protocol": "tcp", "udp" or "interfaces", and "path": a list of
    /// changes such as "both rtt 80ms rate 20Mbit". With "interfaces", "listen" and "upstream" name two of them, as --ifaces does, and
    /// CAP_NET_RAW is needed. The settings of the command line are those of every proxy.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "to", "tcp", "ifaces", "command", "self_test", "scenario", "delays", "json_stream"])]
    pub(crate) proxies: Option<PathBuf>,
}

impl ProxiesArgs {
    /// Says whether several proxies are requested.
    pub(crate) fn are_given(&self) -> bool {
        self.api.is_some() || self.proxies.is_some()
    }
}

/// The groups of flags.
const ENDS: &str = "Ends";
const BEHIND: &str = "With -- CMD";
const BOTH_WAYS: &str = "Path, both ways";
const RUN: &str = "Run";

/// Rarely used settings of the path.
const RARE: [&str; 9] =
    ["reorder", "trace", "burst", "aqm", "mark", "duplicate", "corrupt", "slot", "overhead"];

/// Reads a duration, or zero without a unit.
fn span(text: &str) -> Result<Duration, units::UnitError> {
    if text == "0" { Ok(Duration::ZERO) } else { units::duration(text) }
}

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
                match way {
                    // As in iperf3.
                    None if flag == "rate" => arg.short('b').help(setting.help).help_heading(BOTH_WAYS),
                    None => {
                        arg.help(setting.help).help_heading(BOTH_WAYS).hide_short_help(RARE.contains(&flag))
                    }
                    // The text above all flags names them once; the manual page has each.
                    Some(_) => arg
                        .help(format!("As --{}, this way only", setting.flags[0]))
                        .help_heading("Path, one way")
                        .hide_short_help(true)
                        .hide_long_help(true),
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

const WAN_EXAMPLES: &str = "\
Examples:
  softtimers wan --rtt 80ms -b 20Mbit --loss 1% -- curl -O https://example.org/
  softtimers wan --rtt 80ms -b 20Mbit --peer 'iperf3 -s' -- iperf3 -c peer
  softtimers wan --profile 3g -- git clone https://example.org/repository
  softtimers wan --listen 127.0.0.1:5000 --to 127.0.0.1:4433 --loss 1%
  softtimers wan --listen 127.0.0.1:0 --to 127.0.0.1:443 -b 9Mbit --queue 50ms
  softtimers wan --listen 127.0.0.1:0 --to 127.0.0.1:53 --rtt 20ms --seed 7 -t 9
  softtimers wan --down-trace LTE.down --up-rate 10Mbit -- ./client
  softtimers wan --listen 0.0.0.0:5000 --public --to 127.0.0.1:4433 --rtt 100ms
  softtimers wan --api 127.0.0.1:8474
  softtimers wan --proxies proxies.json --control wan.sock --rtt 20ms
  softtimers wan --tcp --listen 127.0.0.1:8080 --to example.org:80 --rtt 80ms
  softtimers wan --scenario train.toml --peer 'iperf3 -s' -- iperf3 -c peer
  sudo softtimers wan --ifaces veth-a,veth-b --rtt 20ms -b 100Mbit --queue 50ms

Values:
  RATE       10Mbit, 1.5Gbit, headers included: see --overhead
  LOSS       also gilbert:TO_BAD,TO_GOOD[,LOSS_BAD[,LOSS_GOOD]], in bursts, and
             netem's loss state, state:P13[,P31[,P32[,P23[,P14]]]]; 1%:corr=25%
  --jitter   2ms:normal, :exponential, :pareto, :paretonormal, :dist=FILE
             (netem's format, or VALUE,COUNT lines); then :corr=25%, :reordering
  --aqm      codel:5ms:interval=100ms:ecn, fq_codel:flows=1024:quantum=1514
  --slot     1ms-10ms:packets=42:bytes=64KiB
  --reorder  25%:gap=5, as in netem: after four others one takes no delay

Exit codes:
   0  done, also by Ctrl-C, SIGTERM or SIGHUP; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was carried
  77  not possible on this machine; the message says what is missing
  With -- CMD it is that of CMD; 126 and 127 if CMD cannot be started or found";
