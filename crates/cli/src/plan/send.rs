//! What a run of `send` will do, or of `replay`, which sends the same way.
//!
//! Much of what can be said together contradicts itself: ticks of a recording, a batch without an echo server, a seed where
//! nothing is random. A flag that was silently ignored would be measured, and believed; so each is refused by name here.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use clap::ValueEnum;
use softtimers_core::{
    CatchUp, PaceConfig, PaceError, Pattern, Rate, RateClock, Strategy, Trace, TrainLimit, TriggerState,
};

use super::{DEFAULT_DURATION, End, IdlePlan, Phase, any_seed, destination, flows};
use crate::args::{Busy, ClockName, EngineArgs, PhaseName, SendArgs, StreamArgs, Timer};
use crate::failure::Failure;
use crate::output::Output;
use crate::pattern::SendPattern;
use crate::processor::Processor;
use crate::units::{SendRate, show_duration};

/// A run of `send`, or of `replay`.
#[derive(Clone, PartialEq, Debug)]
pub struct SendPlan {
    /// One host's address and port, to which there is a route.
    pub destination: SocketAddr,
    /// How departures are spread over time, as it was typed; `pace` has it with its seed.
    pub pattern: SendPattern,
    /// Rate, pattern, burst interval and catch-up of the flow; its clock accepts it.
    pub pace: PaceConfig,
    /// The recording that is replayed instead of a pattern: then the rate is its mean.
    pub trace: Option<Trace>,
    /// Bytes of payload in each datagram, or of a recording in its longest:
    /// [`wire::MIN_SIZE`](crate::wire::MIN_SIZE) to [`wire::MAX_SIZE`](crate::wire::MAX_SIZE).
    pub size: usize,
    /// Flows side by side, each at that rate; more than one only by timers that can.
    pub flows: u32,
    /// When each of several begins.
    pub phase: Phase,
    /// The most datagrams of several flows in a row; `None` for no limit.
    pub train: Option<NonZeroU32>,
    /// Datagrams of a flow that leave in one go; more than one only by timers that can, and of no recording.
    pub quantum: u32,
    /// Whether the kernel is asked to cut a quantum into its datagrams.
    pub gso: bool,
    /// When the run ends: as soon as either bound is reached.
    pub end: End,
    /// Who says when the next datagram is due.
    pub timer: Timer,
    /// What the loop reads the time from.
    pub clock: ClockName,
    /// How late a departure may be before the backup is used; zero for all timers but
    /// [`Timer::Soft`].
    pub slack: Duration,
    /// What [`Timer::Soft`] does when nothing is due; `None` for the other timers.
    pub idle: Option<IdlePlan>,
    /// The slice to ask the scheduler for; the kernel grants slices of this length.
    pub sched_slice: Option<Duration>,
    /// What else the loop does.
    pub work: Work,
    /// Whose trigger states the loop does without; only with [`Timer::Soft`], and never all that it has.
    pub disabled_source: Option<TriggerState>,
    /// Where the loop is kept.
    pub cpu: Option<Processor>,
    /// Whether the user took the responsibility for a fast run to another machine.
    pub no_handshake: bool,
    /// How to print the report.
    pub output: Output,
}

/// Work beside sending.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Work {
    /// None: the loop sleeps between departures.
    None,
    /// Computation without system calls.
    Compute,
    /// The same, with trigger states as seldom as a [`WebServer`](softtimers::WebServer) has them.
    Web,
    /// A saturated UDP echo server that takes up to `batch` (1 to 64) datagrams in one go.
    Echo {
        /// Datagrams per receive call.
        batch: usize,
    },
}

impl SendPlan {
    /// Understands the arguments of `send`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub fn new(args: &SendArgs) -> Result<Self, Failure> {
        let rate = target(args)?;
        let seed = seed(args)?;
        let pace = PaceConfig {
            pattern: pattern(args.pattern, seed),
            burst_interval: args.burst_interval,
            catch_up: args.engine.catch_up,
            ..PaceConfig::new(rate)
        };
        let quantum = args.quantum.at(rate);
        let (phase, train) = flows::together(args, pace.pattern, quantum, seed)?;
        let traffic = Traffic {
            pattern: args.pattern,
            pace,
            trace: None,
            size: args.size as usize,
            flows: args.flows,
            phase,
            train,
            quantum,
            gso: !args.no_gso,
            end: End {
                duration: args.end.duration.or(args.end.count.is_none().then_some(DEFAULT_DURATION)),
                count: args.end.count,
            },
        };
        check_quantum(args, &traffic)?;
        SendPlan::driven(traffic, destination(&args.address)?, &args.engine, &args.output)
    }

    /// Of traffic that is understood, the rest: whither, and by which engine.
    pub(super) fn driven(
        traffic: Traffic,
        destination: SocketAddr,
        engine: &EngineArgs,
        output: &StreamArgs,
    ) -> Result<Self, Failure> {
        let Traffic { pattern, mut pace, trace, size, flows, phase, train, quantum, gso, end } = traffic;
        if engine.timer == Timer::Tick {
            check_ticks(pattern, trace.as_ref())?;
            pace = ticking(pace);
        }
        if let Err(error) = clock(pace, trace.as_ref()) {
            let (given, most) = (pace.burst_interval.unwrap_or_default(), pace.rate.interval());
            return Err(Failure::usage(format_args!(
                "--burst-interval {}: {error}; at most {} is allowed here",
                show_duration(given),
                show_duration(most)
            )));
        }
        let work = work(engine)?;
        let slack = flows::slack(engine.slack, engine.timer, flows, pace.rate.interval())?;
        check_timer(engine, flows, end.count)?;
        check_source(SendPlan {
            destination,
            pattern,
            pace,
            trace,
            size,
            flows,
            phase,
            train,
            quantum,
            gso,
            end,
            timer: engine.timer,
            clock: engine.clock,
            slack,
            idle: IdlePlan::new(engine)?,
            sched_slice: engine.sched_slice,
            work,
            disabled_source: engine.disable_source,
            cpu: engine.cpu.map(Processor::new).transpose()?,
            no_handshake: engine.no_handshake,
            output: Output::from(output),
        })
    }

    /// The clock of the flow, not started.
    ///
    /// # Errors
    /// A usage failure if the burst interval is too long; that of a plan that was made is not.
    pub fn clock(&self) -> Result<RateClock, Failure> {
        clock(self.pace, self.trace.as_ref()).map_err(Failure::usage)
    }

    /// How long the run is going to take, if that is known.
    pub fn expected(&self) -> Option<Duration> {
        let recorded = self.trace.as_ref().map(Trace::span);
        [self.end.duration, recorded].into_iter().flatten().min()
    }

    /// Whether softtimers' loop still meets a trigger state where it always comes by, in its work or when it
    /// is idle, without those of this source.
    pub fn can_do_without(&self, source: TriggerState) -> bool {
        match source {
            TriggerState::Idle | TriggerState::Backup => false,
            TriggerState::HandlerExit => !matches!(self.work, Work::Compute | Work::Web),
            _ => true,
        }
    }

    /// What keeps all flows together from leaving in one burst.
    pub fn train_limit(&self) -> TrainLimit {
        flows::limit(self.train, &self.pace, self.flows)
    }

    /// The number that decides what is random.
    pub fn seed(&self) -> Option<u64> {
        if let Pattern::Poisson { seed } = self.pace.pattern { Some(seed) } else { self.phase.seed() }
    }

    /// Departures a second, of all flows together.
    pub fn target_pps(&self) -> f64 {
        self.pace.mean_rate().packets_per_second() * f64::from(self.flows)
    }

    /// Departures a second that others have to bear, of all flows together: while on, or of a recording as
    /// many as come within any second.
    pub fn highest_pps(&self) -> f64 {
        let mean = self.pace.mean_rate();
        let of_each = match &self.trace {
            Some(trace) => trace.peak(Duration::from_secs(1)) as f64,
            // On periods that are shorter than the interval begin faster than their rate says.
            None if mean.interval() < self.pace.rate.interval() => mean.packets_per_second(),
            None => self.pace.rate.packets_per_second(),
        };
        of_each * f64::from(self.flows)
    }
}

/// What is sent, and when it belongs.
pub(super) struct Traffic {
    pub(super) pattern: SendPattern,
    pub(super) pace: PaceConfig,
    pub(super) trace: Option<Trace>,
    pub(super) size: usize,
    pub(super) flows: u32,
    pub(super) phase: Phase,
    pub(super) train: Option<NonZeroU32>,
    pub(super) quantum: u32,
    pub(super) gso: bool,
    pub(super) end: End,
}

fn clock(pace: PaceConfig, trace: Option<&Trace>) -> Result<RateClock, PaceError> {
    match trace {
        Some(trace) => RateClock::replay(trace.clone(), pace),
        None => RateClock::new(pace),
    }
}

/// The rate, however it was said.
pub(super) fn target(args: &SendArgs) -> Result<Rate, Failure> {
    match (args.rate, args.interval) {
        (Some(rate), _) => rate.of_packets(args.size).map_err(|error| {
            let (given, most) = match rate {
                SendRate::PacketsPerSecond(packets) => (format!("{packets}pps"), "1000000000pps".to_owned()),
                SendRate::BitsPerSecond(bits) => {
                    let most = u64::from(args.size) * 8_000_000_000;
                    (format!("{bits}bit"), format!("{most}bit of {} bytes each", args.size))
                }
            };
            Failure::usage(format_args!("--rate {given}: {error}; at most {most} is allowed"))
        }),
        (None, Some(interval)) => Rate::every(interval)
            .map_err(|error| Failure::usage(format_args!("--interval {}: {error}", show_duration(interval)))),
        (None, None) => Err(Failure::usage("one of --rate RATE and --interval TIME is required")),
    }
}

fn pattern(pattern: SendPattern, seed: u64) -> Pattern {
    match pattern {
        SendPattern::Poisson => Pattern::Poisson { seed },
        SendPattern::Constant => Pattern::Constant,
        SendPattern::OnOff(lengths) => Pattern::OnOff(lengths),
    }
}

/// The number for all that is random. One that is not given is chosen.
fn seed(args: &SendArgs) -> Result<u64, Failure> {
    let random = args.pattern == SendPattern::Poisson || args.phase == Some(PhaseName::Random);
    match args.seed {
        Some(seed) if !random => Err(Failure::usage(format_args!(
            "--seed {seed}: allowed with --pattern poisson or --phase random only; {} has nothing random",
            args.pattern
        ))),
        Some(seed) => Ok(seed),
        None => Ok(any_seed()),
    }
}

/// Refuses what the timer would silently ignore.
fn check_timer(engine: &EngineArgs, flows: u32, count: Option<u64>) -> Result<(), Failure> {
    if flows > 1 && matches!(engine.timer, Timer::Signal | Timer::Tick | Timer::Off) {
        return Err(Failure::usage(format_args!(
            "--flows {flows}: only --flows 1 is allowed with --timer {}",
            name(engine.timer)
        )));
    }
    match (engine.timer, engine.clock, count) {
        (Timer::Signal | Timer::Tick | Timer::Thread | Timer::Kernel | Timer::Off, ClockName::Tsc, _) => {
            Err(Failure::usage(format_args!(
                "--clock tsc: --timer {} goes by the kernel's clock; only --clock monotonic is allowed with it",
                name(engine.timer)
            )))
        }
        (Timer::Off, _, Some(count)) => Err(Failure::usage(format_args!(
            "--count {count}: --timer off sends nothing to count; only --duration ends it"
        ))),
        _ => Ok(()),
    }
}

/// Refuses what a quantum cannot be, or what is nothing without one.
fn check_quantum(args: &SendArgs, traffic: &Traffic) -> Result<(), Failure> {
    if args.no_gso && traffic.quantum == 1 {
        return Err(Failure::usage(format_args!(
            "--no-gso: allowed with a --quantum of 2 datagrams or more; {} here is 1",
            args.quantum
        )));
    }
    if traffic.quantum > 1 && matches!(args.engine.timer, Timer::Signal | Timer::Tick | Timer::Off) {
        return Err(Failure::usage(format_args!(
            "--quantum {}: only --quantum 1 is allowed with --timer {}",
            args.quantum,
            name(args.engine.timer)
        )));
    }
    Ok(())
}

/// What a periodic timer makes of a pace: the ticks are its places, and what they lose is lost.
pub(crate) fn ticking(pace: PaceConfig) -> PaceConfig {
    PaceConfig { strategy: Strategy::FixedSeries, catch_up: CatchUp::NONE, ..pace }
}

/// A periodic timer has one interval.
fn check_ticks(pattern: SendPattern, trace: Option<&Trace>) -> Result<(), Failure> {
    if trace.is_some() || pattern != SendPattern::Constant {
        let given = if trace.is_some() { "a recording".to_owned() } else { format!("--pattern {pattern}") };
        return Err(Failure::usage(format_args!("--timer tick: it goes off evenly, {given} does not")));
    }
    Ok(())
}

fn name(timer: Timer) -> String {
    timer.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Refuses to disable what is not there, or all that there is.
fn check_source(plan: SendPlan) -> Result<SendPlan, Failure> {
    let Some(source) = plan.disabled_source else { return Ok(plan) };
    let refuse = |why: &str| Err(Failure::usage(format_args!("--disable-source {}: {why}", source.name())));
    if plan.timer != Timer::Soft {
        return refuse("only --timer soft has trigger states to do without");
    }
    if !plan.can_do_without(source) {
        return refuse("it is the only one of a loop that computes; --busy echo has others");
    }
    Ok(plan)
}

fn work(args: &EngineArgs) -> Result<Work, Failure> {
    match (args.busy, args.echo_batch) {
        (Busy::Echo, batch) => Ok(Work::Echo { batch: batch.map_or(DEFAULT_ECHO_BATCH, usize::from) }),
        (_, Some(batch)) => {
            Err(Failure::usage(format_args!("--echo-batch {batch}: allowed with --busy echo only")))
        }
        (Busy::None, None) => Ok(Work::None),
        (Busy::Compute, None) => Ok(Work::Compute),
        (Busy::Web, None) => Ok(Work::Web),
    }
}

/// Servers that batch at all take a few datagrams; 1 and 16 are the extremes worth comparing.
const DEFAULT_ECHO_BATCH: usize = 4;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn send(line: &str) -> Result<SendPlan, String> {
        let words = ["softtimers", "send"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Send(args) => SendPlan::new(&args).map_err(|failure| failure.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults_are_filled_in() {
        let plan = send("127.0.0.1:9 --interval 40us").unwrap();
        assert_eq!((plan.size, plan.timer, plan.work), (1200, Timer::Soft, Work::None));
        assert_eq!(plan.end, End { duration: Some(DEFAULT_DURATION), count: None });
        let config = serde_json::to_value(plan.config()).unwrap();
        assert_eq!(config["burst_interval_ns"], 22_500);
        assert_eq!(config["catch_up_ns"], 10_000_000);
        assert_eq!((&config["timer"], &config["busy"]), (&"soft".into(), &"none".into()));
        assert_eq!(config["clock"], "monotonic");
    }

    #[test]
    fn ticks_that_are_lost_are_not_made_up() {
        let plan = send("127.0.0.1:9 --interval 40us --timer tick").unwrap();
        assert_eq!((plan.pace.strategy, plan.pace.catch_up), (Strategy::FixedSeries, CatchUp::NONE));
        assert_eq!(plan.config().catch_up_ns, Some(0));
    }

    #[test]
    fn a_bit_rate_needs_the_size() {
        let plan = send("127.0.0.1:9 --rate 100Mbit --size 1500 --count 5").unwrap();
        assert_eq!(plan.pace.rate.interval(), Duration::from_micros(120));
        assert_eq!(plan.end, End { duration: None, count: Some(5) });
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
        assert_eq!((&config["pattern"], plan.seed()), (&"onoff:10ms/90ms".into(), None));

        let seeded = send("127.0.0.1:9 --rate 1kpps --pattern poisson --seed 18446744073709551615").unwrap();
        assert_eq!((seeded.seed(), seeded.config().target_pps), (Some(u64::MAX), 1_000.0));
        let chosen = || send("127.0.0.1:9 --rate 1kpps --pattern poisson").unwrap().seed().unwrap();
        let seeds = [chosen(), chosen(), chosen()];
        assert!(seeds != [seeds[0]; 3] && seeds.iter().all(|&seed| seed < 1 << 32), "{seeds:?}");
    }

    #[test]
    fn flows_go_together_as_their_sum_allows() {
        let config = |flags: &str| {
            let plan = send(&format!("127.0.0.1:9 --interval 1ms {flags}")).unwrap();
            let config = serde_json::to_value(plan.config()).unwrap();
            let kept = ["phase", "train", "slack_ns"].map(|key| config[key].to_string());
            (kept.join(" "), plan.seed())
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
            (plan.quantum, plan.gso)
        };
        assert_eq!((quantum(""), quantum("--quantum 8")), ((1, true), (8, true)));
        assert_eq!((quantum("--quantum 1ms --no-gso"), quantum("--quantum 1us")), ((8, false), (1, true)));
    }

    #[test]
    fn a_path_bears_all_flows_while_they_are_on() {
        let highest =
            |flags: &str| send(&format!("127.0.0.1:9 --interval 1ms {flags}")).unwrap().highest_pps();
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
