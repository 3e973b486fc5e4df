//! What `send` is asked for.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Args, ValueEnum};
use softtimers_core::{PaceConfig, Rate};
use softtimers_load::pattern::SendPattern;
use softtimers_load::plan::SendPlan;
use softtimers_load::quantum::SendQuantum;
use softtimers_load::traffic::{End, Phase, Traffic};
use softtimers_measure::failure::Failure;
use softtimers_measure::units::{self, SendRate, show_duration};

use super::engine::EngineArgs;
use super::generate::DriverArgs;
use crate::address;
use crate::args::any_seed;
use crate::args::{EndArgs, StreamArgs, datagram_size};
use crate::run::output::Output;

/// `softtimers send`.
///
/// The sender's own timestamps tell how late each datagram was against its place in the schedule;
/// run `softtimers recv` at the other end to see what really arrived.
#[derive(Args, Debug, Clone)]
#[command(after_help = SEND_EXAMPLES)]
#[command(mut_arg("duration", |arg| arg.help("End after this time [default: 10s, unless --count is given]")))]
#[command(group(clap::ArgGroup::new("pace").required(true).args(["rate", "interval"])))]
pub(crate) struct SendArgs {
    /// Where to send: IP:PORT or NAME:PORT of one host
    ///
    /// An IPv6 address stands in brackets. Broadcast and multicast addresses are refused. Beyond 1,000 packets/s to another machine, a
    /// `softtimers recv` there must agree first.
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,

    /// Datagrams or bits of payload a second: 25kpps, 83333pps, 100Mbit
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub(crate) rate: Option<SendRate>,

    /// Time between datagrams instead of a rate: 40us, 1ms
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub(crate) interval: Option<Duration>,

    /// How datagrams are spread over time: constant, poisson or onoff:ON/OFF
    ///
    /// poisson has random gaps with the interval as their mean; --seed decides them. onoff:10ms/90ms sends at
    /// the rate for 10 ms, is silent for 90 ms, and so on; --rate and --interval are those while it sends.
    #[arg(long, value_name = "PATTERN", default_value = "constant")]
    pub(crate) pattern: SendPattern,

    /// Repeat what is random: the same number, the same schedule (--pattern poisson, --phase random)
    ///
    /// Without it a number is chosen and printed.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// The shortest time between datagrams when catching up [default: 9/16 of the interval]
    ///
    /// At most the interval itself, which means never to catch up. Gaps of a pattern that are shorter are
    /// kept as they are.
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub(crate) burst_interval: Option<Duration>,

    /// Bytes of UDP payload in each datagram: 32 to 65507
    #[arg(long, value_name = "BYTES", default_value = "1200", value_parser = datagram_size)]
    pub(crate) size: u32,

    /// Flows sent side by side from one socket, each at the rate: 1 to 10000
    ///
    /// Their starts are spread over one interval (see --phase); --count is that of all together. Datagrams of
    /// several flows that are due leave in one turn (not with --timer signal, tick or off).
    #[arg(long, value_name = "N", default_value = "1", value_parser = flow_count)]
    pub(crate) flows: u32,

    /// When each of several flows begins [default: spread]
    #[arg(long, value_enum, value_name = "PHASE")]
    pub(crate) phase: Option<PhaseName>,

    /// The most datagrams of all flows in a row: 1 to 64, or none for no limit [default: 8 if their sum is even]
    ///
    /// After a pause of the loop all flows are due. They then leave in trains of so many, with pauses in which the
    /// flows still catch up as fast as --burst-interval lets them, but no faster than at twice the rate. The sum of spread flows is even, but not that
    /// of --pattern poisson.
    #[arg(long, value_name = "N|none", value_parser = train)]
    pub(crate) train: Option<Train>,

    /// How much of a flow leaves in one go: N datagrams, or as many as take TIME at the rate; at most 64
    ///
    /// They leave ahead of their places as one train, in one system call and, where the kernel can, in one send
    /// that it cuts (UDP_SEGMENT); the next ones leave when the places of all have passed. Several lower the CPU
    /// time of a high rate and undo its pacing by as much. Not with --timer signal, tick or off.
    #[arg(long, value_name = "N|TIME", default_value = "1", value_parser = SendQuantum::parse)]
    pub(crate) quantum: SendQuantum,

    /// Hand a quantum over as sends of one datagram each, still in one system call (sendmmsg)
    #[arg(long)]
    pub(crate) no_gso: bool,

    /// What carries them.
    #[command(flatten)]
    pub(crate) driver: DriverArgs,

    /// When it ends.
    #[command(flatten)]
    pub(crate) end: EndArgs,

    /// How the run is driven.
    #[command(flatten)]
    pub(crate) engine: EngineArgs,

    /// How to print.
    #[command(flatten)]
    pub(crate) output: StreamArgs,
}

/// A run of `send`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Send {
    pub(crate) plan: SendPlan,
    /// How to print the report.
    pub(crate) output: Output,
}

impl Send {
    /// Understands the arguments of `send`. Much of what can be said together contradicts itself, such as a seed where
    /// nothing is random; each flag that would be ignored is refused by name.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &SendArgs) -> Result<Self, Failure> {
        let traffic = args.traffic()?;
        let plan = args.engine.plan(traffic, address::destination(&args.address)?)?;
        Ok(Send { plan, output: Output::from(&args.output) })
    }
}

impl SendArgs {
    fn traffic(&self) -> Result<Traffic, Failure> {
        let rate = self.rate()?;
        let seed = self.seed()?;
        let traffic = Traffic {
            pace: PaceConfig {
                pattern: self.pattern.seeded(seed),
                burst_interval: self.burst_interval,
                catch_up: self.engine.catch_up,
                ..PaceConfig::new(rate)
            },
            size: self.size as usize,
            flows: self.flows,
            phase: self.phase(seed)?,
            quantum: self.quantum(rate)?,
            gso: !self.no_gso,
            end: self.end(),
            ..Traffic::new(rate)
        };
        let train = match self.train {
            Some(Train::AtMost(most)) => Some(most),
            Some(Train::None) => None,
            None => traffic.usual_train().filter(|_| !self.engine.timer.hands_over_ahead()),
        };
        Ok(Traffic { train, ..traffic })
    }

    /// The rate, however it was said.
    pub(super) fn rate(&self) -> Result<Rate, Failure> {
        match (self.rate, self.interval) {
            (Some(rate), _) => rate.of_packets(self.size).map_err(|error| {
                let (given, most) = match rate {
                    SendRate::PacketsPerSecond(packets) => {
                        (format!("{packets}pps"), "1000000000pps".to_owned())
                    }
                    SendRate::BitsPerSecond(bits) => {
                        let most = u64::from(self.size) * 8_000_000_000;
                        (format!("{bits}bit"), format!("{most}bit of {} bytes each", self.size))
                    }
                };
                Failure::usage(format_args!("--rate {given}: {error}; at most {most} is allowed"))
            }),
            (None, Some(interval)) => Rate::every(interval).map_err(|error| {
                Failure::usage(format_args!("--interval {}: {error}", show_duration(interval)))
            }),
            (None, None) => Err(Failure::usage("one of --rate RATE and --interval TIME is required")),
        }
    }

    /// When it ends; something does.
    pub(super) fn end(&self) -> End {
        let EndArgs { duration, count } = self.end;
        End { duration: duration.or(count.is_none().then_some(DEFAULT_DURATION)), count }
    }

    /// The number for all that is random. One that is not given is chosen.
    fn seed(&self) -> Result<u64, Failure> {
        let random = self.pattern == SendPattern::Poisson || self.phase == Some(PhaseName::Random);
        match self.seed {
            Some(seed) if !random => Err(Failure::usage(format_args!(
                "--seed {seed}: allowed with --pattern poisson or --phase random only; {} has nothing random",
                self.pattern
            ))),
            Some(seed) => Ok(seed),
            None => Ok(any_seed()),
        }
    }

    /// When each of several flows begins. What only several have is refused of one.
    fn phase(&self, seed: u64) -> Result<Phase, Failure> {
        let given = self.phase.map(|phase| format!("--phase {phase}"));
        let given = given.or_else(|| self.train.map(|train| format!("--train {train}")));
        if let Some(given) = given.filter(|_| self.flows == 1) {
            return Err(Failure::usage(format_args!(
                "{given}: one flow has none; allowed with --flows 2 or more"
            )));
        }
        if let Some(train) = self.train.filter(|_| self.engine.timer.hands_over_ahead()) {
            return Err(Failure::usage(format_args!(
                "--train {train}: not with --timer kernel, which hands datagrams over ahead of their times"
            )));
        }
        Ok(match self.phase.unwrap_or_default() {
            PhaseName::Spread => Phase::Spread,
            PhaseName::Together => Phase::Together,
            PhaseName::Random => Phase::Random { seed },
        })
    }

    fn quantum(&self, rate: Rate) -> Result<u32, Failure> {
        let quantum = self.quantum.at(rate);
        if self.no_gso && quantum == 1 {
            return Err(Failure::usage(format_args!(
                "--no-gso: allowed with a --quantum of 2 datagrams or more; {} here is 1",
                self.quantum
            )));
        }
        let timer = self.engine.timer;
        if quantum > 1 && !timer.drives_several() {
            return Err(Failure::usage(format_args!(
                "--quantum {}: only --quantum 1 is allowed with --timer {timer}",
                self.quantum
            )));
        }
        Ok(quantum)
    }
}

/// When each of several flows begins.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum PhaseName {
    /// One after the other within an interval, so that the sum of even flows is even
    #[default]
    Spread,
    /// All at once: each interval begins with a datagram of every flow
    Together,
    /// Anywhere within an interval, as unrelated senders do; --seed decides where
    Random,
}

impl fmt::Display for PhaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PhaseName::Spread => "spread",
            PhaseName::Together => "together",
            PhaseName::Random => "random",
        })
    }
}

/// How many datagrams of all flows may follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Train {
    /// As many as are due.
    None,
    /// So many.
    AtMost(NonZeroU32),
}

impl fmt::Display for Train {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Train::None => f.write_str("none"),
            Train::AtMost(most) => most.fmt(f),
        }
    }
}

fn train(text: &str) -> Result<Train, String> {
    if text == "none" {
        return Ok(Train::None);
    }
    let most = text.parse().ok().filter(|most: &NonZeroU32| most.get() <= LONGEST_TRAIN);
    most.map(Train::AtMost).ok_or_else(|| format!("a number from 1 to {LONGEST_TRAIN}, or none, is allowed"))
}

fn flow_count(text: &str) -> Result<u32, String> {
    let flows = text.parse().ok().filter(|flows| (1..=MOST_FLOWS).contains(flows));
    flows.ok_or_else(|| format!("a number of flows from 1 to {MOST_FLOWS} is allowed"))
}

/// Long enough for a percentile per mille at 1,000 packets/s, short enough to wait for.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// As many leave in one turn, limit or not.
const LONGEST_TRAIN: u32 = 64;

/// `recv` tells as many apart.
const MOST_FLOWS: u32 = 10_000;

const SEND_EXAMPLES: &str = "\
Examples:
  softtimers recv 127.0.0.1:9000 --once &
  softtimers send 127.0.0.1:9000 --interval 40us --duration 5s
  softtimers send 127.0.0.1:9000 --rate 100Mbit --size 1500 --busy echo
  softtimers send 127.0.0.1:9000 --rate 25kpps --json --assert 'back_to_back<0.01'
  softtimers send 127.0.0.1:9000 --interval 12us --idle spin --cpu-budget 100%
  softtimers send 127.0.0.1:9000 --rate 10kpps --pattern poisson --seed 7
  softtimers send 127.0.0.1:9000 --rate 10kpps --pattern onoff:10ms/90ms
  softtimers send 127.0.0.1:9000 --rate 100pps --flows 1000 --size 200
  softtimers send 127.0.0.1:9000 --rate 50pps --flows 200 --phase random --seed 7
  softtimers send 127.0.0.1:9000 --rate 2Gbit --quantum 8 --cpu-budget 100%
  sudo softtimers send 10.0.0.2:9 --driver xdp --iface veth0 --to-mac 02:00:00:00:00:01 --rate 3Mpps --size 32
  softtimers send 192.0.2.7:9000 --rate 10kpps   # asks a `softtimers recv` there first

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was sent
  77  not possible on this machine; the message says what is missing";

#[cfg(test)]
mod tests {
    use clap::Parser;
    use softtimers_core::{CatchUp, Strategy};
    use softtimers_load::engines::Timer;
    use softtimers_load::work::Work;

    use super::*;
    use crate::commands::{Cli, Command};

    #[test]
    fn a_train_is_a_number_or_none() {
        let at_most = |most| Ok(Train::AtMost(NonZeroU32::new(most).unwrap()));
        assert_eq!((train("1"), train("64"), train("none")), (at_most(1), at_most(64), Ok(Train::None)));
        for text in ["0", "65", "-1", "all", ""] {
            assert_eq!(train(text).unwrap_err(), "a number from 1 to 64, or none, is allowed", "{text}");
        }
    }

    #[test]
    fn flows_are_counted() {
        assert_eq!((flow_count("1"), flow_count("10000")), (Ok(1), Ok(10_000)));
        for text in ["0", "10001", "-1", "many", "1.5", ""] {
            assert_eq!(
                flow_count(text).unwrap_err(),
                "a number of flows from 1 to 10000 is allowed",
                "{text}"
            );
        }
    }

    fn send(line: &str) -> Result<SendPlan, String> {
        let words = ["softtimers", "send"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Send(args) => {
                Send::new(&args).map(|send| send.plan).map_err(|failure| failure.to_string())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults_are_filled_in() {
        let plan = send("127.0.0.1:9 --interval 40us").unwrap();
        assert_eq!((plan.traffic.size, plan.timer, plan.work), (1200, Timer::default(), Work::None));
        assert_eq!(plan.traffic.end, End { duration: Some(DEFAULT_DURATION), count: None });
        let config = serde_json::to_value(plan.config()).unwrap();
        assert_eq!(config["burst_interval_ns"], 22_500);
        assert_eq!(config["catch_up_ns"], 10_000_000);
        assert_eq!((&config["timer"], &config["busy"]), (&"soft".into(), &"none".into()));
        assert_eq!(config["clock"], "monotonic");
    }

    #[test]
    fn ticks_that_are_lost_are_not_made_up() {
        let plan = send("127.0.0.1:9 --interval 40us --timer tick").unwrap();
        assert_eq!(
            (plan.traffic.pace.strategy, plan.traffic.pace.catch_up),
            (Strategy::FixedSeries, CatchUp::NONE)
        );
        assert_eq!(plan.config().catch_up_ns, Some(0));
    }

    #[test]
    fn a_bit_rate_needs_the_size() {
        let plan = send("127.0.0.1:9 --rate 100Mbit --size 1500 --count 5").unwrap();
        assert_eq!(plan.traffic.pace.rate.interval(), Duration::from_micros(120));
        assert_eq!(plan.traffic.end, End { duration: None, count: Some(5) });
        assert_eq!(send("127.0.0.1:9 --rate 1bit --catch-up all").unwrap().config().catch_up_ns, None);
    }

    #[test]
    fn echo_batches_belong_to_the_echo_server() {
        let plan = send("127.0.0.1:9 --rate 1kpps --busy echo --echo-batch 16").unwrap();
        assert_eq!(plan.work, Work::Echo { batch: 16 });
        let refused = send("127.0.0.1:9 --rate 1kpps --echo-batch 16").unwrap_err();
        assert_eq!(refused, "--echo-batch 16: allowed with --busy echo only");
    }

    #[test]
    fn a_pattern_has_its_mean_and_its_seed() {
        let plan = send("127.0.0.1:9 --rate 1kpps --pattern onoff:10ms/90ms").unwrap();
        let config = serde_json::to_value(plan.config()).unwrap();
        assert_eq!(
            (&config["target_pps"], &config["target_interval_ns"]),
            (&100.0.into(), &1_000_000.into())
        );
        assert_eq!((&config["pattern"], plan.traffic.seed()), (&"onoff:10ms/90ms".into(), None));

        let seeded = send("127.0.0.1:9 --rate 1kpps --pattern poisson --seed 18446744073709551615").unwrap();
        assert_eq!((seeded.traffic.seed(), seeded.config().target_pps), (Some(u64::MAX), 1_000.0));
        let chosen = || send("127.0.0.1:9 --rate 1kpps --pattern poisson").unwrap().traffic.seed().unwrap();
        let seeds = [chosen(), chosen(), chosen()];
        assert!(seeds != [seeds[0]; 3] && seeds.iter().all(|&seed| seed < 1 << 32), "{seeds:?}");
    }

    #[test]
    fn flows_go_together_as_their_sum_allows() {
        let config = |flags: &str| {
            let plan = send(&format!("127.0.0.1:9 --interval 1ms {flags}")).unwrap();
            let config = serde_json::to_value(plan.config()).unwrap();
            let kept = ["phase", "train", "slack_ns"].map(|key| config[key].to_string());
            (kept.join(" "), plan.traffic.seed())
        };
        assert_eq!(config("--flows 1"), (r#""spread" null 0"#.into(), None));
        assert_eq!(config("--flows 2"), (r#""spread" 8 20000"#.into(), None));
        assert_eq!(config("--flows 2 --pattern onoff:10ms/90ms").0, r#""spread" 8 20000"#);
        assert_eq!(config("--flows 2 --pattern poisson --seed 3").0, r#""spread" null 20000"#);
        assert_eq!(config("--flows 2 --phase together --slack 0ns"), (r#""together" null 0"#.into(), None));
        assert_eq!(config("--flows 2 --phase random --seed 5").1, Some(5));
        assert_eq!(config("--flows 2 --train none --timer loop").0, r#""spread" null 0"#);
        assert_eq!(config("--flows 2 --quantum 4").0, r#""spread" null 20000"#);
        assert_eq!(config("--flows 2 --timer kernel").0, r#""spread" null 0"#);
        assert_eq!(config("--flows 2 --phase together --train 3").0, r#""together" 3 20000"#);
    }

    #[test]
    fn a_quantum_is_one_datagram_unless_more_are_asked_for() {
        let quantum = |flags: &str| {
            let plan = send(format!("127.0.0.1:9 --rate 8kpps {flags}").trim_end()).unwrap();
            (plan.traffic.quantum, plan.traffic.gso)
        };
        assert_eq!((quantum(""), quantum("--quantum 8")), ((1, true), (8, true)));
        assert_eq!((quantum("--quantum 1ms --no-gso"), quantum("--quantum 1us")), ((8, false), (1, true)));
    }

    #[test]
    fn a_path_bears_all_flows_while_they_are_on() {
        let highest =
            |flags: &str| send(&format!("127.0.0.1:9 --interval 1ms {flags}")).unwrap().traffic.highest_pps();
        assert_eq!((highest("--flows 1"), highest("--flows 20")), (1_000.0, 20_000.0));
        assert_eq!(highest("--flows 20 --pattern onoff:10ms/90ms"), 20_000.0);
        assert_eq!(highest("--flows 2 --pattern onoff:100us/100us"), 10_000.0);
    }

    #[test]
    fn contradictions_are_refused() {
        for (line, words) in [
            ("127.0.0.1:9 --interval 40us --burst-interval 41us", "at most 40us is allowed"),
            ("127.0.0.1:9 --rate 2000000000pps", "at most 1000000000pps"),
            ("127.0.0.1:9 --rate 100Tbit --size 32", "at most 256000000000bit"),
            ("127.0.0.1:9 --rate 1kpps --interval 1ms", "cannot be used with"),
            ("127.0.0.1:9", "required"),
            ("127.0.0.1:9 --rate 1kpps --slack 5us --timer timerfd", "only --timer soft"),
            ("127.0.0.1:9 --rate 1kpps --timer off --count 5", "--count 5: --timer off sends nothing"),
            (
                "127.0.0.1:9 --rate 1kpps --flows 2 --timer signal",
                "only --flows 1 is allowed with --timer signal",
            ),
            ("127.0.0.1:9 --rate 1kpps --phase together", "--phase together: one flow has none"),
            ("127.0.0.1:9 --rate 1kpps --train 4", "--train 4: one flow has none"),
            ("127.0.0.1:9 --rate 1kpps --flows 2 --seed 3", "or --phase random only"),
            (
                "127.0.0.1:9 --rate 1kpps --quantum 2 --timer signal",
                "--quantum 2: only --quantum 1 is allowed with --timer signal",
            ),
            (
                "127.0.0.1:9 --rate 1kpps --quantum 1ms --no-gso",
                "--no-gso: allowed with a --quantum of 2 datagrams or more; 1ms here is 1",
            ),
            (
                "127.0.0.1:9 --rate 1kpps --clock tsc --timer kernel",
                "--timer kernel goes by the kernel's clock",
            ),
            (
                "127.0.0.1:9 --rate 1kpps --flows 2 --timer tick",
                "only --flows 1 is allowed with --timer tick",
            ),
            ("127.0.0.1:9 --rate 1kpps --timer tick --pattern poisson", "--pattern poisson does not"),
            ("127.0.0.1:9 --rate 1kpps --timer loop --disable-source send", "only --timer soft"),
            ("127.0.0.1:9 --rate 1kpps --disable-source idle", "one of handler_exit, readiness, send"),
            ("127.0.0.1:9 --rate 1kpps --busy web --disable-source handler_exit", "it is the only one"),
            ("224.0.0.1:9 --rate 1kpps", "multicast"),
            ("127.255.255.255:9 --rate 1kpps", "broadcast"),
        ] {
            let message = send(line).unwrap_err();
            assert!(message.contains(words), "{line}: {message}");
        }
    }
}
