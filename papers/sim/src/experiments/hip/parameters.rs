//! The parameters of `softtimers sim hip`: Table 2, one for each ambiguity of the paper's text, and those of
//! the baselines.

use std::ops::RangeInclusive;
use std::time::Duration;

use softtimers_poll::HipConfig;
use softtimers_poll::readings::{
    Costs, Decides, Deviation, FirstMean, Grid, Mean, Reading, Rounding, Unsaid,
};
use softtimers_poll::{Factor, Preset};

use super::needs;
use super::scheme::{Scheme, Settings};
use crate::constants::{Hip, Machine};
use crate::{Kind, Parameter, Parameters, RunError};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::trace("trace", "use the packets of a recording instead of synthetic ones"),
    Parameter::choice("synthetic", "which synthetic packets; table-1: the six traces of the paper", SOURCES)
        .needs(needs::SYNTHETIC),
    Parameter::choice(
        "fitted",
        "the reading under which the traces of table-1 were fitted to Table 3: see hip-traces",
        READINGS,
    )
    .needs(needs::PAPERS_TRACES),
    Parameter::choice(
        "scheme",
        "how packets are noticed; table-3: interrupts, polling and hip; all: those and their baselines",
        Scheme::WORDS,
    ),
    Parameter::real(
        "gamma",
        "poll when the coefficient of variation is below this (eq. 3)",
        0.0..=1_000.0,
        2.0,
    )
    .needs(needs::HYBRID),
    Parameter::real("phi", "poll period = mean gap + phi standard deviations (section 4)", 0.0..=1_000.0, 2.5)
        .needs(needs::BY_PERIODS),
    Parameter::real("alpha", "weight of history in the mean gap (eq. 1)", 0.0..=1.0, 0.3)
        .needs(needs::BY_PERIODS),
    Parameter::real("beta", "weight of history in the variance (eq. 2)", 0.0..=1.0, 0.3)
        .needs(needs::BY_PERIODS),
    Parameter::time(
        "t-min",
        "shortest period, the clock's: all others are multiples of it (Table 2)",
        TIME,
        Duration::from_millis(1),
    )
    .needs(needs::ON_TICKS),
    Parameter::time("t-max", "longest period (Table 2)", TIME, Duration::from_millis(10))
        .needs(needs::LONGEST),
    Parameter::count(
        "unsuccessful",
        "P_U max: empty polls before interrupts are enabled again (Table 2)",
        1..=1_000_000,
        10,
    )
    .needs(needs::HYBRID),
    Parameter::choice(
        "reading",
        "when a period takes effect: loaded at a poll (section 3), or at each arrival (section 6)",
        READINGS,
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice(
        "rounding",
        "how a period becomes a multiple of the shortest; reading: down for counter, nearest for event",
        &["reading", "down", "nearest", "up", "none"],
    )
    .needs(needs::ON_TICKS),
    Parameter::choice("decides", "when the decision of eq. 4 takes effect", &["poll-end", "arrival"]).needs(needs::HYBRID),
    Parameter::choice("grid", "start of the periods: the clock's ticks, or relative", &["clock", "relative"])
        .needs(needs::BY_PERIODS),
    Parameter::choice(
        "mean",
        "the mean that eq. 2 compares with: after eq. 1 or before",
        &["updated", "previous"],
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice(
        "deviation",
        "deviation of the gaps: by the variance, or by the mean error of the prediction (section 4)",
        &["standard", "mean-error"],
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice(
        "first-mean",
        "the mean gap after a reset (not stated in the paper)",
        &["longest", "shortest", "kept"],
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice("idle-gap", "whether the gap that contains a reset counts", &["counts", "skipped"])
        .needs(needs::HYBRID),
    Parameter::choice(
        "first-poll",
        "not stated: first poll of polling, at once or after a period",
        &["at-once", "period"],
    )
    .needs(needs::POLLING),
    Parameter::choice(
        "counted-from",
        "not stated: a period counts from the beginning or the end of an interrupt or poll",
        &["begin", "end"],
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice(
        "late-period",
        "not stated: when the poll happens if an arrival makes the period shorter than the time that has passed",
        &["next-tick", "at-once"],
    )
    .needs(needs::LATE),
    Parameter::choice(
        "unrounded",
        "not stated: a period that is not rounded counts from the interrupt or poll, or from the tick before it",
        &["look", "tick"],
    )
    .needs(needs::UNROUNDED),
    Parameter::choice(
        "estimate",
        "not stated: mean and deviation in whole nanoseconds, or in 1/4096 of one",
        &["nanoseconds", "finer"],
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice(
        "look-end",
        "not stated: a packet that arrives as an interrupt or poll ends is taken by the next one, or by this one",
        &["next", "this"],
    ),
    Parameter::limit(
        "ring",
        "packets that the device holds until the end of the interrupt or poll that takes them; more are lost",
        1..=65_536,
        None,
    ),
    Parameter::choice(
        "costs",
        "costs: those below, of the CM-5, of EARTH-MANNA (section 5), or of a UDP socket on Linux",
        &["table-2", "cm5", "manna", "udp"],
    ),
    Parameter::time("interrupt", "V_I: an interrupt (Table 2)", COST, PAPERS.interrupt).needs(needs::TABLE_2),
    Parameter::time("poll", "V_P: a poll (Table 2)", COST, PAPERS.poll).needs(needs::TABLE_2),
    Parameter::time(
        "transfer",
        "V(B) for 1500 bytes, to which it is proportional (Table 2)",
        COST,
        PAPERS.transfer,
    )
    .needs(needs::TABLE_2),
    Parameter::time("switch", "V_S: enabling or disabling interrupts (Table 2)", COST, PAPERS.switch)
        .needs(needs::TABLE_2),
    Parameter::time("soft-t-min", "shortest period of hip-soft", TIME, Settings::PAPER.soft_shortest)
        .needs(needs::HIP_SOFT),
    Parameter::choice(
        "soft-reading",
        "the reading of hip-soft: its event is moved at each arrival, or set at a poll and left alone",
        &["event", "counter"],
    )
    .needs(needs::HIP_SOFT),
    Parameter::time(
        "period",
        "period of constant and clocked; the paper gives 250us to 2ms (section 5)",
        TIME,
        Settings::PAPER.period,
    )
    .needs(needs::PERIODIC),
    Parameter::time(
        "watchdog",
        "how long the watchdog lets a packet wait (section 5)",
        TIME,
        Settings::PAPER.watchdog,
    )
    .needs(needs::WATCHDOG),
    Parameter::time(
        "passing",
        "mean time between polls under the watchdog (section 5)",
        TIME,
        Settings::PAPER.passing,
    )
    .needs(needs::WATCHDOG),
    Parameter::time("spin", "how long spin polls after a packet", TIME, Settings::PAPER.spin)
        .needs(needs::SPIN),
    Parameter::count("quota", "target number of packets in a poll, for delay-bound", 1..=1_000_000, 1)
        .needs(needs::QUOTA),
    Parameter::count(
        "packets",
        "number of constant, poisson, on-off or self-similar packets",
        1..=100_000_000,
        5_000,
    )
    .needs(needs::PATTERN),
    Parameter::time("mean-gap", "mean gap between those", TIME, Duration::from_micros(2_500)).needs(needs::PATTERN),
    Parameter::count("bytes", "length of each of those packets", 1..=65_535, 900).needs(needs::PATTERN),
    Parameter::time(
        "on",
        "on-off: at four times the rate for this long, then off for three times as long",
        TIME,
        Duration::from_millis(50),
    )
    .needs(needs::ON_OFF),
    Parameter::real(
        "pareto",
        "exponent of the on and off times of self-similar: Hurst's H is (3 - this) / 2",
        1.05..=2.0,
        1.2,
    )
    .needs(needs::SELF_SIMILAR),
];

const PAPERS: Hip = Machine::PAPERS.hip;
/// From a nanosecond to a minute.
const TIME: RangeInclusive<Duration> = Duration::from_nanos(1)..=Duration::from_secs(60);
/// A time of that range, or zero.
const COST: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);

/// The readings of the text: section 3's, section 6's.
pub(super) const READINGS: &[&str] = &["counter", "event"];

/// The packets that [`sources`](super::source::sources) knows.
const SOURCES: &[&str] = &[
    "table-1",
    "t-high-1",
    "t-high-2",
    "t-med-1",
    "t-med-2",
    "t-low-1",
    "t-low-2",
    "constant",
    "poisson",
    "on-off",
    "self-similar",
];

/// Returns HIP's parameters and the others', or why they cannot be combined.
pub(super) fn settings(parameters: &Parameters) -> Result<Settings, RunError> {
    let (shortest, longest) = (parameters.time("t-min"), parameters.time("t-max"));
    if longest < shortest {
        return Err(RunError::new(format_args!("t-max {longest:?} is shorter than t-min {shortest:?}")));
    }
    let factor = |name| factor(parameters, name);
    let base = preset(reading(parameters, "reading"));
    let hip = HipConfig {
        shortest,
        longest,
        alpha: factor("alpha")?,
        beta: factor("beta")?,
        gamma: factor("gamma")?,
        phi: factor("phi")?,
        unsuccessful: parameters.count_u32("unsuccessful"),
        rounding: match parameters.choice("rounding") {
            "down" => Rounding::Down,
            "nearest" => Rounding::Nearest,
            "up" => Rounding::Up,
            "none" => Rounding::None,
            _ => base.rounding,
        },
        decides: pick(parameters, "decides", "arrival", Decides::Arrival, Decides::PollEnd),
        grid: pick(parameters, "grid", "relative", Grid::Relative, Grid::Clock),
        mean: pick(parameters, "mean", "previous", Mean::Previous, Mean::Updated),
        deviation: pick(parameters, "deviation", "mean-error", Deviation::MeanError, Deviation::Standard),
        first_mean: match parameters.choice("first-mean") {
            "shortest" => FirstMean::Shortest,
            "kept" => FirstMean::Kept,
            _ => FirstMean::Longest,
        },
        idle_gap_counts: pick(parameters, "idle-gap", "skipped", false, true),
        unsaid: Unsaid {
            first_poll_waits: parameters.choice("first-poll") == "period",
            counts_from_end: parameters.choice("counted-from") == "end",
            late_polls_at_once: parameters.choice("late-period") == "at-once",
            unrounded_from_tick: parameters.choice("unrounded") == "tick",
            finer_estimate: parameters.choice("estimate") == "finer",
        },
        ..base
    };
    Ok(Settings {
        hip,
        takes_at_end: parameters.choice("look-end") == "this",
        room: parameters.limit("ring").and_then(|room| usize::try_from(room).ok()),
        soft_shortest: parameters.time("soft-t-min"),
        soft_reading: reading(parameters, "soft-reading"),
        costs: costs(parameters),
        period: parameters.time("period"),
        watchdog: parameters.time("watchdog"),
        passing: parameters.time("passing"),
        spin: parameters.time("spin"),
        quota: parameters.count_u32("quota"),
    })
}

/// A number that policies keep in whole thousandths.
pub(super) fn factor(parameters: &Parameters, name: &str) -> Result<Factor, RunError> {
    let number = parameters.real(name);
    let thousandths = (number * 1_000.0).round();
    // A number typed with three digits becomes a double this close to it.
    if (number * 1_000.0 - thousandths).abs() > 1e-6 {
        return Err(RunError::new(format_args!(
            "{name} {number}: at most three digits after the point, such as {}",
            near(name, thousandths) / 1_000.0
        )));
    }
    Ok(Factor::thousandths(thousandths as u32))
}

/// These thousandths, moved off the bounds of a parameter: at a bound it would be a different policy.
fn near(name: &str, thousandths: f64) -> f64 {
    match PARAMETERS.iter().find(|parameter| parameter.name == name).map(|parameter| parameter.kind) {
        Some(Kind::Real { least, most }) => {
            thousandths.clamp((least * 1_000.0).round() + 1.0, (most * 1_000.0).round() - 1.0)
        }
        _ => thousandths,
    }
}

/// The reading that a parameter names.
pub(super) fn reading(parameters: &Parameters, name: &str) -> Reading {
    pick(parameters, name, "event", Reading::Event, Reading::Counter)
}

/// The paper's parameters in a reading.
pub(super) const fn preset(reading: Reading) -> HipConfig {
    match reading {
        Reading::Counter => HipConfig::preset(Preset::Paper),
        Reading::Event => HipConfig::event(),
    }
}

fn pick<T>(parameters: &Parameters, name: &str, word: &str, if_so: T, if_not: T) -> T {
    if parameters.choice(name) == word { if_so } else { if_not }
}

fn costs(parameters: &Parameters) -> Costs {
    match parameters.choice("costs") {
        "cm5" => Costs::CM5,
        "manna" => Costs::MANNA,
        "udp" => Costs::UDP,
        _ => Costs {
            interrupt: parameters.time("interrupt"),
            poll: parameters.time("poll"),
            transfer: parameters.time("transfer"),
            switch: parameters.time("switch"),
        },
    }
}
