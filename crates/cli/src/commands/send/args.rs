//! The arguments of `send`.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use softtimers_core::{PaceConfig, Rate, Recovery};
use softtimers_load::engines::Timer;
use softtimers_load::pattern::SendPattern;
use softtimers_load::plan::{SendPlan, SendVia, Way};
use softtimers_load::quantum::SendQuantum;
use softtimers_load::send::SendTrace;
use softtimers_load::traffic::{End, Phase, Traffic};
use softtimers_measure::failure::Failure;
use softtimers_measure::units::{self, SendRate, show_duration};

use super::engine::{EngineArgs, PACING, TRAFFIC};
use crate::address;
use crate::args::{EndArgs, any_seed, datagram_size, typed};
use crate::commands::traffic_page::{Page, PageArgs};
use crate::run::output::Output;

/// `softtimers send`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = SEND_EXAMPLES, next_help_heading = TRAFFIC)]
#[command(mut_arg("duration", |arg| arg.help("Stop after this time: 10 (seconds), 500ms, 2min [default: 10, or --count; 1 for each of several timers]")))]
#[command(mut_arg("count", |arg| arg.help("Stop after N datagrams, of all flows together")))]
#[command(group(clap::ArgGroup::new("pace").required(true).args(["rate", "interval"])))]
#[command(group(clap::ArgGroup::new("files").multiple(true).args(["trace", "report"])))]
pub(crate) struct SendArgs {
    /// Destination: IP:PORT, [IPv6]:PORT or NAME:PORT
    ///
    /// One host: broadcast and multicast addresses are refused, and a link-local one names its interface: [fe80::1%eth0]:9000. Faster than 1,000 packets/s to another machine, a
    /// `softtimers recv` there must agree first, unless --no-handshake is given.
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,

    /// Datagrams or payload bits a second: 25kpps, 100Mbit
    #[arg(short = 'b', long, value_name = "RATE", value_parser = units::rate, display_order = 1)]
    pub(crate) rate: Option<SendRate>,

    /// Time between datagrams, instead of --rate: 40us, 1ms
    #[arg(short = 'i', long, value_name = "TIME", value_parser = units::positive_duration, display_order = 2)]
    pub(crate) interval: Option<Duration>,

    /// UDP payload in bytes: 32 to 65507
    #[arg(long, value_name = "BYTES", default_value = "1200", value_parser = datagram_size, display_order = 5)]
    pub(crate) size: u32,

    /// Flows side by side, each at the rate: 1 to 10000
    ///
    /// They share one socket, and their starts are spread over one interval (see --phase). Datagrams of several flows that are due at the same time
    /// leave together. Not with --timer signal or off.
    #[arg(long, value_name = "N", default_value = "1", value_parser = flow_count, display_order = 6)]
    pub(crate) flows: u32,

    /// Gaps: constant, poisson or onoff:ON/OFF
    ///
    /// poisson has random gaps whose mean is the interval; --seed decides them. onoff:10ms/90ms sends at the rate for
    /// 10 ms, is silent for 90 ms, and so on.
    #[arg(long, value_name = "PATTERN", default_value = "constant", display_order = 7)]
    pub(crate) pattern: SendPattern,

    /// Seed of --pattern poisson and --phase random: the same number, the same schedule
    ///
    /// Without it a number is chosen and printed.
    #[arg(long, value_name = "N", hide_short_help = true, display_order = 8)]
    pub(crate) seed: Option<u64>,

    /// When each of several flows starts [default: spread]
    #[arg(long, value_enum, value_name = "PHASE", help_heading = PACING, hide_short_help = true)]
    pub(crate) phase: Option<PhaseName>,

    /// Shortest time between datagrams when catching up [default: 9/16 of the interval]
    ///
    /// At most the interval itself, which means never to catch up. Shorter gaps of a pattern are kept as they are.
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration, help_heading = PACING, hide_short_help = true)]
    pub(crate) burst_interval: Option<Duration>,

    /// Longest train of datagrams: 1 to 64, or none [default: 3, or 1 without --timer soft; of several flows 8, none if random]
    ///
    /// One flow catches up a datagram at a time, a burst interval apart, unless the loop checks the clock so seldom that
    /// this would take more than eight times the delay, going by the gaps of late: then up to N leave together. 1 keeps every gap.
    /// After a pause of the loop all of several flows are due. They then leave in trains of at most N, with pauses in which the flows
    /// still catch up as fast as --burst-interval allows, but no faster than at twice the rate. The default is for flows
    /// whose sum is even: spread, and not --pattern poisson. With --timer soft a given N also collects the departures of such
    /// flows: up to N leave together at slots that divide the interval, so that each flow keeps its gaps, late by a constant.
    #[arg(long, value_name = "N|none", value_parser = train, help_heading = PACING, hide_short_help = true)]
    pub(crate) train: Option<Train>,

    /// Datagrams of a flow that leave in one system call: N, or as many as take TIME at the rate; 1 to 64
    ///
    /// They leave together, ahead of their scheduled times, in one send that the kernel cuts where it can (UDP_SEGMENT).
    /// A larger quantum lowers the CPU time of a high rate and makes the pacing coarser by as much. Not with --timer
    /// signal or off.
    #[arg(long, value_name = "N|TIME", default_value = "1", value_parser = SendQuantum::parse, help_heading = PACING, hide_short_help = true)]
    pub(crate) quantum: SendQuantum,

    /// Send a quantum as separate datagrams, still in one system call (sendmmsg)
    #[arg(long, help_heading = PACING, hide_short_help = true)]
    pub(crate) no_gso: bool,

    /// How datagrams reach the kernel
    ///
    /// The other flags imply it unless you say; the report has the way and the reason. auto asks for the queue of the interface
    /// that the route names: where it keeps release times (fq), and no --timer is given, the kernel paces as with --timer kernel. txtime implies
    /// --timer kernel, and sendmmsg --no-gso. A way that the traffic does not take is refused.
    #[arg(long, value_enum, value_name = "WAY", help_heading = PACING, hide_short_help = true)]
    pub(crate) send_via: Option<SendWay>,

    /// With several timers: how often each has its turn; 1 to 50 [default: 6, the fewest with intervals]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=50), help_heading = PACING, hide_short_help = true)]
    pub(crate) rounds: Option<u8>,

    /// Write what left when, and why late, to this new file for a trace viewer
    ///
    /// The last 250,000 departures in Chrome's trace format: each datagram from its scheduled time until it left, stalls and
    /// gaps between clock checks, and catch-ups. Open it with ui.perfetto.dev or chrome://tracing.
    #[arg(long, value_name = "FILE", help_heading = TRAFFIC, hide_short_help = true)]
    pub(crate) trace: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) page: PageArgs,

    /// Overwrite the files of --trace and --report
    #[arg(long, requires = "files", help_heading = "Output", hide_short_help = true)]
    pub(crate) force: bool,

    /// The options of the engine.
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// A run of `send`.
#[derive(Debug)]
pub(crate) struct Send {
    pub(crate) plan: SendPlan,
    /// The page to be drawn, and whether to overwrite its file.
    pub(super) page: (PageArgs, bool),
    /// The page, once its file is open.
    pub(super) open: Option<Page>,
    /// The file of the trace, and whether to overwrite it.
    pub(crate) trace: Option<(PathBuf, bool)>,
    pub(crate) output: Output,
}

impl Send {
    /// Interprets the arguments of `send`. Many combinations contradict each other, such as a seed without a random
    /// pattern; each flag that would be ignored is refused by name.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &SendArgs) -> Result<Self, Failure> {
        if let (Some(rounds), ..=1) = (args.rounds, args.engine.timer.len()) {
            return Err(Failure::usage(format_args!(
                "--rounds {rounds}: allowed with several timers, as in --timer soft,loop"
            )));
        }
        let mut plan = args.by_way(args.send_via).plan()?;
        if args.send_via == Some(SendWay::Auto) && args.engine.timer.is_empty() {
            plan = plan.or_by_kernel(|| args.by_way(Some(SendWay::Txtime)).plan());
        }
        let trace = args.trace.clone().map(|path| (path, args.force));
        let page = (args.page.clone(), args.force);
        Ok(Send { plan, page, open: None, trace, output: Output::from(&args.engine.output) })
    }
}

impl SendArgs {
    /// Returns the plan of these flags.
    fn plan(&self) -> Result<SendPlan, Failure> {
        let plan = self.engine.plan(self.traffic()?, address::destination(&self.address)?)?;
        let plan = SendPlan { trace: self.trace.as_ref().map_or(0, |_| SendTrace::ROOM), ..plan };
        self.check_way(&plan)?;
        Ok(plan)
    }

    /// Sets the flags that are equivalent to `--send-via` with this way.
    fn by_way(&self, way: Option<SendWay>) -> Self {
        let mut args = SendArgs { send_via: way, ..self.clone() };
        match way {
            Some(SendWay::Txtime) if self.engine.timer.is_empty() => {
                args.engine.timer = Timer::all().filter(|timer| timer.hands_over_ahead()).collect();
            }
            // An invalid rate is refused later.
            Some(SendWay::Sendmmsg) => args.no_gso |= self.rate().is_ok_and(|rate| self.quantum.at(rate) > 1),
            _ => {}
        }
        args
    }

    /// Refuses a way that this traffic cannot use.
    fn check_way(&self, plan: &SendPlan) -> Result<(), Failure> {
        let SendVia { way, why } = plan.send_via();
        let Some(asked) = self.send_via else { return Ok(()) };
        let allowed = match (asked, way) {
            (SendWay::Auto, _)
            | (SendWay::Sendto, Way::Send)
            | (SendWay::Sendmmsg, Way::Sendmmsg)
            | (SendWay::Segment, Way::Segment)
            | (SendWay::Txtime, Way::Txtime) => return Ok(()),
            (SendWay::Sendto, _) => "one flow and --quantum 1",
            (SendWay::Sendmmsg, _) => "--flows or --quantum of 2 or more",
            (SendWay::Segment, _) => "--quantum of 2 or more, without --no-gso",
            (SendWay::Txtime, _) => "--timer kernel",
        };
        Err(Failure::usage(format_args!(
            "--send-via {}: allowed with {allowed}; here it is {way}: {why}",
            typed(asked)
        )))
    }

    fn traffic(&self) -> Result<Traffic, Failure> {
        let rate = self.rate()?;
        let seed = self.seed()?;
        let traffic = Traffic {
            pace: PaceConfig {
                pattern: self.pattern.seeded(seed),
                burst_interval: self.burst_interval,
                catch_up: self.engine.catch_up,
                recovery: self.recovery()?,
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
            None => traffic.usual_train().filter(|_| !self.engine.timer().hands_over_ahead()),
        };
        // Asked for, trains also collect what is on schedule.
        let slot = match self.train {
            Some(Train::AtMost(most)) if self.engine.timer().has_trigger_states() => traffic.slot_of(most),
            _ => Duration::ZERO,
        };
        Ok(Traffic { train, slot, ..traffic })
    }

    /// Returns the rate, given in either form.
    fn rate(&self) -> Result<Rate, Failure> {
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

    /// Returns when the run ends; it always has an end.
    fn end(&self) -> End {
        let EndArgs { duration, count } = self.engine.end;
        End { duration: duration.or(count.is_none().then_some(DEFAULT_DURATION)), count }
    }

    /// Returns the seed for everything random, chosen at random by default.
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

    /// Returns when each of several flows begins. The flag is refused for one flow.
    fn phase(&self, seed: u64) -> Result<Phase, Failure> {
        if let Some(phase) = self.phase.filter(|_| self.flows == 1) {
            return Err(Failure::usage(format_args!(
                "--phase {}: one flow has none; allowed with --flows 2 or more",
                typed(phase)
            )));
        }
        Ok(match self.phase.unwrap_or_default() {
            PhaseName::Spread => Phase::Spread,
            PhaseName::Together => Phase::Together,
            PhaseName::Random => Phase::Random { seed },
        })
    }

    /// Returns the trains in which one flow catches up. The flag is refused for a timer that would ignore it.
    fn recovery(&self) -> Result<Recovery, Failure> {
        let timer = self.engine.timer();
        let kept = timer.pace(PaceConfig { recovery: Traffic::RECOVERY, ..PaceConfig::new(self.rate()?) });
        let ignored = match self.train {
            None => None,
            Some(_) if timer.hands_over_ahead() => Some("hands datagrams over ahead of their times"),
            Some(_) if !timer.sends() => Some("sends nothing"),
            Some(_) if kept.recovery == Recovery::NONE => Some("makes up nothing"),
            Some(_) => None,
        };
        if let Some((train, why)) = self.train.zip(ignored) {
            return Err(Failure::usage(format_args!(
                "--train {train}: not with --timer {timer}, which {why}"
            )));
        }
        match self.train {
            Some(Train::None) if self.flows == 1 => Err(Failure::usage(
                "--train none: the train of one flow has an end; 1 to 64, or none with --flows 2 or more",
            )),
            Some(Train::AtMost(most)) => Ok(Recovery::trains(u16::try_from(most.get()).unwrap_or(u16::MAX))),
            // The other timers stay as simple as they are.
            _ if !self.engine.timer().has_trigger_states() => Ok(Recovery::NONE),
            _ => Ok(Traffic::RECOVERY),
        }
    }

    fn quantum(&self, rate: Rate) -> Result<u32, Failure> {
        let quantum = self.quantum.at(rate);
        if self.no_gso && quantum == 1 {
            return Err(Failure::usage(format_args!(
                "--no-gso: allowed with a --quantum of 2 datagrams or more; {} here is 1",
                self.quantum
            )));
        }
        let timer = self.engine.timer();
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

/// The ways in which datagrams reach the kernel.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendWay {
    /// By the kernel where a queue on the way keeps release times, else as the other flags imply
    Auto,
    /// A call for each datagram, on a connected socket
    Sendto,
    /// One call for all that is due (--flows, --quantum)
    Sendmmsg,
    /// One send for a quantum, which the kernel cuts (UDP_SEGMENT; --quantum)
    Segment,
    /// Ahead of their times, which a queue of the kernel keeps (SO_TXTIME; as --timer kernel)
    Txtime,
}

/// The most datagrams of all flows in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Train {
    /// No limit.
    None,
    /// At most this number.
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

/// Long enough for per-mille percentiles at 1,000 packets/s, short enough to wait for.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// The most datagrams of one turn, with or without a limit.
const LONGEST_TRAIN: u32 = 64;

/// The number of flows that `recv` distinguishes.
const MOST_FLOWS: u32 = 10_000;

const SEND_EXAMPLES: &str = "\
Examples:
  softtimers recv 127.0.0.1:9000 --once &
  softtimers send 127.0.0.1:9000 -i 40us -t 5
  softtimers send 127.0.0.1:9000 -b 100Mbit --size 1500 --busy echo
  softtimers send 127.0.0.1:9000 -b 25kpps --json --assert 'back_to_back<0.01'
  softtimers send 127.0.0.1:9000 -b 25kpps -t 2 --busy echo --trace send.json
  softtimers send 127.0.0.1:9000 -i 12us --idle spin --cpu-budget 100%
  softtimers send 127.0.0.1:9000 -b 10kpps --pattern poisson --seed 7
  softtimers send 127.0.0.1:9000 -b 10kpps --pattern onoff:10ms/90ms
  softtimers send 127.0.0.1:9000 -b 100pps --flows 1000 --size 200
  softtimers send 127.0.0.1:9000 -b 50pps --flows 200 --phase random --seed 7
  softtimers send 127.0.0.1:9000 -b 2Gbit --quantum 8 --cpu-budget 100%
  softtimers send 127.0.0.1:9000 -b 50pps --size 172 --dscp ef
  softtimers send 127.0.0.1:9000 -b 5kpps --busy echo --timer soft,loop,timerfd
  softtimers send 192.0.2.7:9000 -b 10kpps   # asks the recv there first

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, the run broke off, or nobody received it
   2  bad usage or input; nothing was sent
  77  not possible on this machine; the message says what is missing";

#[cfg(test)]
mod tests;
