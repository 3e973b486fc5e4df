//! **Rate-based clocking beside a busy web server** (soft timers §5.6, Tables VIII and IX): how well flows
//! hold their rate if packets leave only at trigger states, by the shortest gap allowed for catching up.
//!
//! ```text
//!   trigger states   ' '   '      '  '         '    ' '  '
//!   target           |     |     |     |     |     |     |
//!   sent             ●     ●      ●    ●       ●    ●    ●      late, then at least the burst interval apart
//! ```
//!
//! The rule is [`RateClock`]'s: the paper's or another. Each flow is an event of [`SoftTimers`].

mod interrupts;

use std::ops::RangeInclusive;
use std::time::Duration;

use softtimers_core::{
    Alarm, CatchUp, Config, PaceConfig, Rate, RateClock, Recovery, Slack, SoftTimers, Strategy, Timestamp,
};

use super::trigger_states;
use crate::choice::choices;
use crate::engine::host::{Hardware, Host, States};
use crate::{Column, Experiment, Need, Parameter, Parameters, Row, RunError, Steps, Streams};

/// Mean and spread of the gaps between packets.
pub(crate) static PACING: Experiment = Experiment {
    name: "pacing",
    about: "Gaps of paced flows beside a busy web server (soft timers, Tables VIII and IX)",
    details: "Trigger states are distributed as on the paper's busy web server; packets leave only at \
              trigger states. Where the target rate is not reached, the mean gap is the time to the first \
              trigger state at least --burst after another one, to which the model was fitted. It was not \
              fitted to the targets that are reached, nor to the absence of any further delay. --strategy \
              interrupts is a periodic hardware timer that loses interrupts while they are disabled; how \
              often and for how long was chosen to give the paper's two means.",
    parameters: PARAMETERS,
    columns: COLUMNS,
    sweep: &[("target", "40us,60us"), ("burst", "12us,15us,20us,25us,30us,35us")],
    check,
    run,
};

const PARAMETERS: &[Parameter] = &[
    Parameter::time("target", "Target mean time between packets", GAP, Duration::from_micros(40)),
    Parameter::time(
        "burst",
        "Shortest gap when catching up: the paper's minimal allowable burst interval",
        GAP,
        Duration::from_micros(12),
    )
    .needs(CATCHES_UP),
    Parameter::count(
        "train",
        "Packets that may leave together, so that a catch-up ends after about eight times the delay; 1: none",
        1..=64,
        1,
    )
    .needs(CATCHES_UP),
    Parameter::choice::<Option<Strategy>>(
        "strategy",
        "How the next packet is scheduled: the paper's rule, this library's, two that the paper warns of, or no soft timer",
    ),
    Parameter::count("flows", "Number of paced flows", 1..=100_000, 1),
    Parameter::real(
        "slowest",
        "The slowest flow's target as a multiple of --target; the others lie between",
        1.0..=1_000.0,
        1.0,
    )
    .needs(SEVERAL),
    Parameter::time(
        "mean",
        "Mean time between trigger states (5.2: Apache, 300 MHz)",
        trigger_states::MEANS,
        PAPERS.mean,
    )
    .needs(MODELLED),
    trigger_states::RECORDING.needs(STATES),
    Parameter::switch("idle", "No trigger states: a one-shot timer fires everything").needs(SOFT),
    Parameter::time(
        "disabled",
        "With --strategy interrupts: the longest time for which interrupts are disabled; each time is at most that",
        GAP,
        PAPERS.disabled,
    )
    .needs(INTERRUPTS),
    Parameter::time("disabled-every", "With --strategy interrupts: mean time from one such period to the next", GAP, PAPERS.disabled_every)
        .needs(INTERRUPTS),
    Parameter::time(
        "duration",
        "Simulated time",
        Duration::from_millis(1)..=Duration::from_secs(1_000),
        Duration::from_secs(4),
    ),
];
const PAPERS: crate::constants::Pacing = crate::constants::Machine::PAPERS.pacing;
const GAP: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(1);

const COLUMNS: &[Column] = &[
    Column::words("strategy", "how packets are scheduled"),
    Column::time("target", "target gap"),
    Column::time("burst", "shortest allowed gap"),
    Column::new("mean_us", "mean gap: the paper's average transmission interval").digits(1),
    Column::new("paper_us", "the paper's mean, where its text has it").digits(1).given(),
    Column::new("stddev_us", "standard deviation of the gaps").digits(1),
    Column::new("shortest_us", "the shortest").digits(1),
    Column::new("packets_per_s", "packets of all flows, a second"),
    Column::new("per_state", "packets at each trigger state that sent any").digits(1),
    Column::share("worst", "largest deviation of a flow from its rate"),
    Column::share("lost", "share of interrupts lost"),
];

/// The text's figures for Tables VIII and IX, whose bodies are lost: target and burst interval in
/// microseconds (none for the hardware timer), mean gap.
const PAPER: [(u64, Option<u64>, f64); 7] = [
    (40, Some(12), 40.0),
    (40, Some(35), 65.9),
    (40, None, 43.0),
    (60, Some(12), 60.0),
    (60, Some(20), 60.0),
    (60, Some(30), 60.0),
    (60, None, 63.6),
];

const CATCHES_UP: Need = Need {
    with: "strategy two-speed or exact-deadline",
    met: |parameters| matches!(strategy(parameters), Some(Strategy::TwoSpeed | Strategy::ExactDeadline)),
};
const SEVERAL: Need = Need { with: "several flows", met: |parameters| parameters.count("flows") > 1 };
const MODELLED: Need = Need {
    with: "the model's trigger states, not with a recording, idle yes or strategy interrupts,",
    met: |parameters| is_soft(parameters) && trigger_states::are_modelled(parameters),
};
const STATES: Need = Need {
    with: "idle no and a strategy of soft timers",
    met: |parameters| is_soft(parameters) && !parameters.is_on("idle"),
};
const SOFT: Need = Need { with: "a strategy of soft timers", met: is_soft };
const INTERRUPTS: Need = Need { with: "strategy interrupts", met: |parameters| !is_soft(parameters) };

fn is_soft(parameters: &Parameters) -> bool {
    strategy(parameters).is_some()
}

/// The rule for the next packet; none with the hardware timer.
fn strategy(parameters: &Parameters) -> Option<Strategy> {
    parameters.choice("strategy")
}

choices! {
    Option<Strategy>:
    "two-speed" => Some(Strategy::TwoSpeed),
    "exact-deadline" => Some(Strategy::ExactDeadline),
    "fixed-series" => Some(Strategy::FixedSeries),
    "relative" => Some(Strategy::Relative),
    "interrupts" => None,
}

fn check(parameters: &Parameters) -> Result<(), RunError> {
    let Some(strategy) = strategy(parameters) else { return interrupts::enabled_mean(parameters).map(drop) };
    trigger_states::chosen(parameters, Streams::new(0))?;
    targets(parameters).try_for_each(|target| clock(parameters, strategy, target).map(drop))
}

/// The clock of one flow.
fn clock(parameters: &Parameters, strategy: Strategy, target: Duration) -> Result<RateClock, RunError> {
    let config = PaceConfig {
        burst_interval: Some(parameters.time("burst")),
        catch_up: CatchUp::ALL,
        strategy,
        recovery: Recovery::trains(u16::try_from(parameters.count("train")).unwrap_or(u16::MAX)),
        ..PaceConfig::new(Rate::every(target).map_err(RunError::new)?)
    };
    RateClock::new(config).map_err(RunError::new)
}

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    let (target, burst) = (parameters.time("target"), parameters.time("burst"));
    let strategy = strategy(parameters);
    let found = match strategy {
        None => interrupts::run(parameters, streams, steps)?,
        Some(strategy) => soft(parameters, strategy, streams, steps)?,
    };
    let as_in_paper = matches!(strategy, None | Some(Strategy::TwoSpeed | Strategy::ExactDeadline))
        && found.flows.len() == 1
        && parameters.count("train") == 1
        && parameters.trace("states").is_none();
    let paper = PAPER.iter().filter(|_| as_in_paper).find(|(of, at, _)| {
        Duration::from_micros(*of) == target && at.map(Duration::from_micros) == strategy.map(|_| burst)
    });
    let seconds = parameters.time("duration").as_secs_f64();
    let worst = found.flows.iter().map(|flow| flow.miss(parameters.time("duration"))).fold(0.0, f64::max);
    let gaps = Gaps::from_flows(&found.flows);
    Ok(vec![vec![
        parameters.word("strategy").into(),
        target.into(),
        strategy.map(|_| burst).into(),
        gaps.mean.into(),
        paper.map(|&(.., mean)| mean).into(),
        gaps.deviation.into(),
        gaps.shortest.into(),
        (found.packets() as f64 / seconds).into(),
        (found.packets() as f64 / found.sending_states.max(1) as f64).into(),
        worst.into(),
        found.lost.into(),
    ]])
}

/// The packets of all flows.
#[derive(Debug)]
struct PacingStats {
    flows: Vec<Flow>,
    /// Trigger states that sent packets.
    sending_states: u64,
    /// The share of interrupts lost by the hardware timer.
    lost: Option<f64>,
}

impl PacingStats {
    fn packets(&self) -> u64 {
        self.flows.iter().map(|flow| flow.packets).sum()
    }
}

/// The packets of one flow, with the sums of their gaps in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Flow {
    target: Duration,
    packets: u64,
    last: Timestamp,
    sum: f64,
    squares: f64,
    shortest: u64,
}

impl Flow {
    fn new(target: Duration) -> Self {
        Flow { target, packets: 0, last: Timestamp::ZERO, sum: 0.0, squares: 0.0, shortest: u64::MAX }
    }

    fn departed(&mut self, now: Timestamp) {
        if self.packets > 0 {
            let gap = now.as_nanos().saturating_sub(self.last.as_nanos());
            self.sum += gap as f64;
            self.squares += (gap as f64) * (gap as f64);
            self.shortest = self.shortest.min(gap);
        }
        self.packets += 1;
        self.last = now;
    }

    /// Returns the relative difference between packets sent and packets scheduled.
    fn miss(&self, duration: Duration) -> f64 {
        let wanted = duration.as_nanos() as f64 / self.target.as_nanos() as f64;
        (self.packets as f64 / wanted - 1.0).abs()
    }
}

/// Gaps in microseconds.
#[derive(Clone, Copy, Debug)]
struct Gaps {
    mean: Option<f64>,
    deviation: Option<f64>,
    shortest: Option<f64>,
}

impl Gaps {
    fn from_flows(flows: &[Flow]) -> Self {
        let count: u64 = flows.iter().map(|flow| flow.packets.saturating_sub(1)).sum();
        if count == 0 {
            return Gaps { mean: None, deviation: None, shortest: None };
        }
        let total = |of: fn(&Flow) -> f64| flows.iter().map(of).sum::<f64>() / count as f64;
        let mean = total(|flow| flow.sum);
        let variance = (total(|flow| flow.squares) - mean * mean).max(0.0);
        let shortest = flows.iter().map(|flow| flow.shortest).min();
        Gaps {
            mean: Some(mean / 1e3),
            deviation: Some(variance.sqrt() / 1e3),
            shortest: shortest.map(|nanos| nanos as f64 / 1e3),
        }
    }
}

/// Runs flows whose packets leave at trigger states.
fn soft(
    parameters: &Parameters,
    strategy: Strategy,
    streams: Streams,
    steps: &Steps,
) -> Result<PacingStats, RunError> {
    let states = trigger_states::chosen(parameters, streams)?;
    // Only trigger states, as in the paper; a program without trigger states needs the timer for all packets.
    let slack = if matches!(states, States::None) { Slack::EXACT } else { Slack::DEFERRABLE };
    let nanosecond = Config::default().tick(Duration::from_nanos(1));
    let mut host = Host::new(SoftTimers::new(nanosecond), states, Hardware::OneShot(Alarm::new()));
    let mut flows = vec![];
    let mut phases = streams.of("phases");
    for target in targets(parameters) {
        let mut clock = clock(parameters, strategy, target)?;
        // A single flow begins at once; several begin at different times.
        let phase = phases.below(target.as_nanos() as u64);
        let start = if parameters.count("flows") == 1 { 0 } else { phase };
        let start = clock.start(Timestamp::from_nanos(start));
        host.timers.schedule_at(Timestamp::ZERO, start, slack, flows.len());
        flows.push((clock, Flow::new(target)));
    }
    host.run(Timestamp::ZERO + parameters.time("duration"), steps, |timers, now, fired| {
        let (clock, flow) = &mut flows[fired.event];
        flow.departed(now);
        let mut due = clock.departed(now);
        // A catch-up train leaves at one trigger state.
        for _ in 1..clock.recovery().train {
            if due > now {
                break;
            }
            flow.departed(now);
            due = clock.departed(now);
        }
        timers.schedule_at(now, due, slack, fired.event);
    });
    let flows = flows.into_iter().map(|(_, flow)| flow).collect();
    Ok(PacingStats { flows, sending_states: host.counts().fruitful, lost: None })
}

/// From `target` to `slowest` times that, in equal steps.
fn targets(parameters: &Parameters) -> impl Iterator<Item = Duration> {
    let (flows, slowest) = (parameters.count("flows"), parameters.real("slowest"));
    let first = parameters.time("target").as_nanos() as f64;
    (0..flows).map(move |flow| {
        let share = flow as f64 / (flows - 1).max(1) as f64;
        Duration::from_nanos((first * (1.0 + (slowest - 1.0) * share)) as u64)
    })
}

#[cfg(test)]
mod tests;
