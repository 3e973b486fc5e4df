//! What `wan` is asked for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use softtimers_measure::units;
use softtimers_wan::Way;

use super::{ClientArgs, OutputArgs};
use crate::wan::setting::{Change, SETTINGS};

/// `softtimers wan`.
///
/// A network path without root: what comes in at --listen goes out to --to, after the rate, delay,
/// queue and loss of the path, and answers come back the same way. --up-… is from the clients to --to,
/// --down-… back. Without a setting the path is a perfect wire. Datagrams of UDP; with --tcp, streams,
/// which have delay and rate only; with --ifaces and CAP_NET_RAW, everything that crosses two interfaces.
#[derive(Args, Debug, Clone)]
#[command(after_help = WAN_EXAMPLES)]
pub struct WanArgs {
    /// Relay TCP streams instead of UDP datagrams: delay, rate and queue only
    ///
    /// What TCP has acknowledged cannot be lost, so loss, reordering, duplicates, corruption and marks are
    /// refused. A queue that is full stops the reading. For the rest, and for TCP's own answer to the path, see
    /// --ifaces.
    #[arg(long, conflicts_with_all = ["self_test", "ifaces", "trust", "answers_per_prefix"])]
    pub tcp: bool,

    /// Join these two Ethernet interfaces by the path, up from A to B; needs CAP_NET_RAW
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1, conflicts_with_all = ["self_test", "listen", "to", "public", "trust", "answers_per_prefix"])]
    pub ifaces: Option<Vec<String>>,

    /// Take interfaces that have an address, the default route or a bridge
    #[arg(long, conflicts_with = "listen")]
    pub take: bool,

    /// Where clients send to; port 0 for any free one. The address in use is printed to stderr
    ///
    /// Only addresses of the loopback interface, unless --public is given.
    #[arg(long, value_name = "ADDR", required_unless_present_any = ["self_test", "ifaces"])]
    pub listen: Option<String>,

    /// Where their packets go
    #[arg(long, value_name = "ADDR", required_unless_present_any = ["self_test", "ifaces"])]
    pub to: Option<String>,

    /// Find out how fast and how exact this is here, between processes of its own; some 15 s
    #[arg(long, conflicts_with_all = ["listen", "to", "control", "duration", "json_stream"])]
    pub self_test: bool,

    /// Listen where other machines can reach it; of datagrams, see --trust
    #[arg(long)]
    pub public: bool,

    /// Half of this as the delay each way
    #[arg(long, value_name = "TIME", value_parser = units::duration, conflicts_with = "delay")]
    pub rtt: Option<Duration>,

    /// The settings of the path.
    #[command(flatten)]
    pub path: PathArgs,

    /// Decides what is random: the same seed and packets, the same losses
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Whom it serves.
    #[command(flatten)]
    pub clients: ClientArgs,

    /// Take changes at this Unix socket, which must not exist and only its owner may use
    ///
    /// A line each: 'set up delay 50ms loss 1%', 'set both rate 10Mbit', 'show'.
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,

    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub duration: Option<Duration>,

    /// Print one JSON object a second, each on a line, and a last one at the end
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,

    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The settings of both directions or of one, as they were given.
#[derive(Clone, Debug, Default)]
pub struct PathArgs {
    /// Those of both directions come first, so that one direction's own prevail.
    pub changes: Vec<(Option<Way>, Change)>,
}

/// For whom the flags are, in the order of [`Setting::flags`](crate::wan::setting::Setting::flags).
const SIDES: [Option<Way>; 3] = [None, Some(Way::Up), Some(Way::Down)];

impl Args for PathArgs {
    fn augment_args(command: Command) -> Command {
        let flags = SIDES.iter().enumerate().flat_map(|(side, way)| {
            SETTINGS.iter().map(move |setting| {
                let flag = setting.flags[side];
                let arg = Arg::new(flag).long(flag).value_name(setting.value);
                let arg = arg.value_parser(|text: &str| setting.change(text));
                match way {
                    None => arg.help(setting.help).help_heading("The path, both ways"),
                    Some(Way::Up) => arg.help("For this direction only").help_heading("The path to --to"),
                    Some(Way::Down) => arg.help("For this direction only").help_heading("The path back"),
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
  softtimers wan --listen 127.0.0.1:5000 --to 127.0.0.1:4433 --rtt 100ms --rate 100Mbit --queue 20packets
  softtimers wan --listen 127.0.0.1:0 --to 127.0.0.1:53 --delay 20ms --loss 1% --seed 7 --json
  softtimers wan --listen 127.0.0.1:5000 --to 127.0.0.1:4433 --up-rate 10Mbit --down-trace LTE.down
  softtimers wan --listen 0.0.0.0:5000 --public --trust 192.0.2.0/24 --to 127.0.0.1:4433 --rtt 100ms
  softtimers wan --tcp --listen 127.0.0.1:8080 --to example.org:80 --rtt 80ms --rate 20Mbit
  sudo softtimers wan --ifaces veth-a,veth-b --rtt 20ms --rate 100Mbit --queue 50ms --loss 0.1%

Values:
  RATE   10Mbit, 1.5Gbit; of the network: 28 bytes more than the payload for each packet over IPv4,
         52 for each segment of TCP, 0 for frames, which have their headers; see --overhead
  LIMIT  20packets, 64KiB, 50ms
  LOSS   1%, or gilbert:TO_BAD,TO_GOOD[,LOSS_BAD[,LOSS_GOOD]] with losses in bursts: gilbert:0.2%,30%

Exit codes:
   0  done, also by Ctrl-C, SIGTERM or SIGHUP; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was carried
  77  not possible on this machine; the message says what is missing";

/// Whether an address can be reached from this machine only.
pub(crate) fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
