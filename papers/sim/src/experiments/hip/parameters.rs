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
use super::scheme::{Schemes, Settings};
use super::source::Synthetic;
use crate::choice::choices;
use crate::constants::{Hip, Machine};
use crate::{Choice, Kind, Parameter, Parameters, RunError};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::trace("trace", "use the packets of a recording instead of synthetic ones"),
    Parameter::choice::<Synthetic>("synthetic", "which synthetic packets; table-1: the six traces of the paper")
        .needs(needs::SYNTHETIC),
    Parameter::choice::<Reading>(
        "fitted",
        "the reading under which the traces of table-1 were fitted to Table 3: see hip-traces",
    )
    .needs(needs::PAPERS_TRACES),
    Parameter::choice::<Schemes>(
        "scheme",
        "how packets are noticed; table-3: interrupts, polling and hip; all: those and their baselines",
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
        .needs(needs::LONGEST_PERIOD),
    Parameter::count(
        "unsuccessful",
        "P_U max: empty polls before interrupts are enabled again (Table 2)",
        1..=1_000_000,
        10,
    )
    .needs(needs::HYBRID),
    Parameter::choice::<Reading>(
        "reading",
        "when a period takes effect: loaded at a poll (section 3), or at each arrival (section 6)",
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice::<Option<Rounding>>(
        "rounding",
        "how a period becomes a multiple of the shortest; reading: down for counter, nearest for event",
    )
    .needs(needs::ON_TICKS),
    Parameter::choice::<Decides>("decides", "when the decision of eq. 4 takes effect").needs(needs::HYBRID),
    Parameter::choice::<Grid>("grid", "start of the periods: the clock's ticks, or relative")
        .needs(needs::BY_PERIODS),
    Parameter::choice::<Mean>(
        "mean",
        "the mean that eq. 2 compares with: after eq. 1 or before",
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice::<Deviation>(
        "deviation",
        "deviation of the gaps: by the variance, or by the mean error of the prediction (section 4)",
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice::<FirstMean>(
        "first-mean",
        "the mean gap after a reset (not stated in the paper)",
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice::<IdleGap>("idle-gap", "whether the gap that contains a reset counts")
        .needs(needs::HYBRID),
    Parameter::choice::<FirstPoll>(
        "first-poll",
        "not stated: first poll of polling, at once or after a period",
    )
    .needs(needs::POLLING),
    Parameter::choice::<CountedFrom>(
        "counted-from",
        "not stated: a period counts from the beginning or the end of an interrupt or poll",
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice::<LatePeriod>(
        "late-period",
        "not stated: when the poll happens if an arrival makes the period shorter than the time that has passed",
    )
    .needs(needs::LATE),
    Parameter::choice::<Unrounded>(
        "unrounded",
        "not stated: a period that is not rounded counts from the interrupt or poll, or from the tick before it",
    )
    .needs(needs::UNROUNDED),
    Parameter::choice::<Estimate>(
        "estimate",
        "not stated: mean and deviation in whole nanoseconds, or in 1/4096 of one",
    )
    .needs(needs::BY_PERIODS),
    Parameter::choice::<LookEnd>(
        "look-end",
        "not stated: a packet that arrives as an interrupt or poll ends is taken by the next one, or by this one",
    ),
    Parameter::limit(
        "ring",
        "packets that the device holds until the end of the interrupt or poll that takes them; more are lost",
        1..=65_536,
        None,
    ),
    Parameter::choice::<CostsOf>(
        "costs",
        "costs: those below, of the CM-5, of EARTH-MANNA (section 5), or of a UDP socket on Linux",
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
    Parameter::choice_or::<Reading>(
        "soft-reading",
        "the reading of hip-soft: its event is moved at each arrival (event), or set at a poll and left alone",
        "event",
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

// The first two are section 3's reading of the text, and section 6's.
choices! { Reading: "counter" => Reading::Counter, "event" => Reading::Event }
choices! {
    Option<Rounding>:
    "reading" => None,
    "down" => Some(Rounding::Down),
    "nearest" => Some(Rounding::Nearest),
    "up" => Some(Rounding::Up),
    "none" => Some(Rounding::None),
}
choices! { Decides: "poll-end" => Decides::PollEnd, "arrival" => Decides::Arrival }
choices! { Grid: "clock" => Grid::Clock, "relative" => Grid::Relative }
choices! { Mean: "updated" => Mean::Updated, "previous" => Mean::Previous }
choices! { Deviation: "standard" => Deviation::Standard, "mean-error" => Deviation::MeanError }
choices! {
    FirstMean: "longest" => FirstMean::Longest, "shortest" => FirstMean::Shortest, "kept" => FirstMean::Kept
}
choices! {
    enum IdleGap { Counts = "counts", Skipped = "skipped" }
}
choices! {
    enum FirstPoll { AtOnce = "at-once", Period = "period" }
}
choices! {
    enum CountedFrom { Begin = "begin", End = "end" }
}
choices! {
    enum LatePeriod { NextTick = "next-tick", AtOnce = "at-once" }
}
choices! {
    enum Unrounded { Look = "look", Tick = "tick" }
}
choices! {
    enum Estimate { Nanoseconds = "nanoseconds", Finer = "finer" }
}
choices! {
    enum LookEnd { Next = "next", This = "this" }
}
choices! {
    /// The machine whose costs a look has.
    pub(super) enum CostsOf { Table2 = "table-2", Cm5 = "cm5", Manna = "manna", Udp = "udp" }
}

/// Returns HIP's parameters and the others', or why they cannot be combined.
pub(super) fn settings(parameters: &Parameters) -> Result<Settings, RunError> {
    let (shortest, longest) = (parameters.time("t-min"), parameters.time("t-max"));
    if longest < shortest {
        return Err(RunError::new(format_args!("t-max {longest:?} is shorter than t-min {shortest:?}")));
    }
    let factor = |name| factor(parameters, name);
    let base = preset(parameters.choice("reading"));
    let hip = HipConfig {
        shortest,
        longest,
        alpha: factor("alpha")?,
        beta: factor("beta")?,
        gamma: factor("gamma")?,
        phi: factor("phi")?,
        unsuccessful: parameters.count_u32("unsuccessful"),
        rounding: parameters.choice::<Option<Rounding>>("rounding").unwrap_or(base.rounding),
        decides: parameters.choice("decides"),
        grid: parameters.choice("grid"),
        mean: parameters.choice("mean"),
        deviation: parameters.choice("deviation"),
        first_mean: parameters.choice("first-mean"),
        idle_gap_counts: is(parameters, "idle-gap", IdleGap::Counts),
        unsaid: Unsaid {
            first_poll_waits: is(parameters, "first-poll", FirstPoll::Period),
            counts_from_end: is(parameters, "counted-from", CountedFrom::End),
            late_polls_at_once: is(parameters, "late-period", LatePeriod::AtOnce),
            unrounded_from_tick: is(parameters, "unrounded", Unrounded::Tick),
            finer_estimate: is(parameters, "estimate", Estimate::Finer),
        },
        ..base
    };
    Ok(Settings {
        hip,
        takes_at_end: is(parameters, "look-end", LookEnd::This),
        room: parameters.limit("ring").and_then(|room| usize::try_from(room).ok()),
        soft_shortest: parameters.time("soft-t-min"),
        soft_reading: parameters.choice("soft-reading"),
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

/// The paper's parameters in a reading.
pub(super) const fn preset(reading: Reading) -> HipConfig {
    match reading {
        Reading::Counter => HipConfig::preset(Preset::Paper),
        Reading::Event => HipConfig::event(),
    }
}

fn is<C: Choice + PartialEq>(parameters: &Parameters, name: &str, value: C) -> bool {
    parameters.choice::<C>(name) == value
}

fn costs(parameters: &Parameters) -> Costs {
    match parameters.choice("costs") {
        CostsOf::Cm5 => Costs::CM5,
        CostsOf::Manna => Costs::MANNA,
        CostsOf::Udp => Costs::UDP,
        CostsOf::Table2 => Costs {
            interrupt: parameters.time("interrupt"),
            poll: parameters.time("poll"),
            transfer: parameters.time("transfer"),
            switch: parameters.time("switch"),
        },
    }
}
