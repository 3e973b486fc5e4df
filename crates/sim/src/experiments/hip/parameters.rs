//! What can be set of `softtimers sim hip`, and what it means: Table 2, each point on which the text can be read in two
//! ways, and what the baselines need.

use std::time::Duration;

use softtimers_core::poll::hip::{
    Costs, Decides, Deviation, FirstMean, Grid, HipConfig, Mean, Reading, Rounding,
};
use softtimers_core::poll::{Factor, Preset};

use crate::experiment::RunError;
use crate::parameter::{Kind, Parameter, Parameters, Setting};

use super::scheme::Settings;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "trace",
        about: "packets of a recording, instead of synthetic ones",
        kind: Kind::Trace,
        default: Setting::Trace(None),
    },
    choice("synthetic", "which synthetic packets; table-1: the six traces of the paper", SYNTHETIC),
    choice("fitted", "the reading with which table-1's traces give Table 3: see hip-traces", READINGS),
    choice(
        "scheme",
        "how packets are noticed; table-3: interrupts, polling and hip; all: every one",
        SCHEMES,
    ),
    real("gamma", "polled is what has a coefficient of variation below this (eq. 3)", 2.0, 0.0, 1_000.0),
    real("phi", "periods are the mean gap and so many deviations (section 4)", 2.5, 0.0, 1_000.0),
    real("alpha", "weight of history in the mean gap (eq. 1)", 0.3, 0.0, 1.0),
    real("beta", "weight of history in the variance (eq. 2)", 0.3, 0.0, 1.0),
    time(
        "t-min",
        "shortest period, of which all are multiples: the clock's (Table 2)",
        Duration::from_millis(1),
    ),
    time("t-max", "longest period (Table 2)", Duration::from_millis(10)),
    count("unsuccessful", "P_U max: polls in vain before interrupts again (Table 2)", 10, 1, 1_000_000),
    choice(
        "reading",
        "when a period takes effect: loaded at a poll (section 3), or at each arrival (section 6)",
        READINGS,
    ),
    choice(
        "rounding",
        "how a period becomes a multiple of the shortest; reading: down for counter, nearest for event",
        &["reading", "down", "nearest", "up", "none"],
    ),
    choice("decides", "when eq. 4 is acted on", &["poll-end", "arrival"]),
    choice("grid", "what periods are counted from", &["clock", "relative"]),
    choice("mean", "the mean that eq. 2 compares with: after eq. 1 or before", &["updated", "previous"]),
    choice(
        "deviation",
        "of the gaps: by the variance, or by the mean error of the prediction (section 4)",
        &["standard", "mean-error"],
    ),
    choice(
        "first-mean",
        "the mean gap after a reset, on which the paper is silent",
        &["longest", "shortest", "kept"],
    ),
    choice("idle-gap", "whether the gap that a reset ends up in counts", &["counts", "skipped"]),
    choice(
        "costs",
        "those below, or of the CM-5, of EARTH-MANNA (section 5), of a UDP socket on Linux",
        &["table-2", "cm5", "manna", "udp"],
    ),
    cost("interrupt", "V_I: an interrupt (Table 2)", PAPERS.interrupt),
    cost("poll", "V_P: a poll (Table 2)", PAPERS.poll),
    cost("transfer", "V(B) for 1500 bytes, to which it is proportional (Table 2)", PAPERS.transfer),
    cost("switch", "V_S: enabling or disabling interrupts (Table 2)", PAPERS.switch),
    time("soft-t-min", "shortest period of hip-soft", Settings::PAPER.soft_shortest),
    choice(
        "soft-reading",
        "the reading of hip-soft: its event is moved at each arrival, or set at a poll and left alone",
        &["event", "counter"],
    ),
    time(
        "period",
        "of constant and clocked; the paper names 250us to 2ms (section 5)",
        Settings::PAPER.period,
    ),
    time("watchdog", "how long the watchdog lets a packet wait (section 5)", Settings::PAPER.watchdog),
    time("passing", "mean time between polls under the watchdog (section 5)", Settings::PAPER.passing),
    time("spin", "how long spin polls after a packet", Settings::PAPER.spin),
    count("quota", "packets that delay-bound wants in a poll", 1, 1, 1_000_000),
    count("packets", "of constant, poisson, on-off and self-similar packets", 5_000, 1, 100_000_000),
    time("mean-gap", "between those", Duration::from_micros(2_500)),
    count("bytes", "of each of those", 900, 1, 65_535),
    time(
        "on",
        "on-off: at four times the rate for this long, then off for three times as long",
        Duration::from_millis(50),
    ),
    real(
        "pareto",
        "exponent of the on and off times of self-similar: Hurst's H is (3 - this) / 2",
        1.2,
        1.05,
        2.0,
    ),
];

const PAPERS: crate::constants::Hip = crate::Machine::PAPERS.hip;

/// Of the text: section 3's, section 6's.
pub(super) const READINGS: &[&str] = &["counter", "event"];

/// What [`sources`](super::source::sources) knows.
pub(super) const SYNTHETIC: &[&str] = &[
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

const SCHEMES: &[&str] = &[
    "table-3",
    "all",
    "interrupts",
    "polling",
    "hip",
    "hip-soft",
    "constant",
    "clocked",
    "busy-wait",
    "watchdog",
    "spin",
    "delay-bound",
];

/// HIP's parameters and the others', or why they cannot be together.
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
        ..base
    };
    Ok(Settings {
        hip,
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

/// A number that policies have in whole thousandths.
pub(super) fn factor(parameters: &Parameters, name: &str) -> Result<Factor, RunError> {
    let number = parameters.real(name);
    let thousandths = (number * 1_000.0).round();
    // What is typed with three digits is a double that is as near as this.
    if (number * 1_000.0 - thousandths).abs() > 1e-6 {
        return Err(RunError::new(format_args!(
            "{name} {number}: at most three digits after the point, such as {}",
            near(name, thousandths) / 1_000.0
        )));
    }
    Ok(Factor::thousandths(thousandths as u32))
}

/// These thousandths, moved off the bounds of a parameter: a policy at a bound is another one than was asked for.
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

pub(super) const fn choice(
    name: &'static str,
    about: &'static str,
    words: &'static [&'static str],
) -> Parameter {
    Parameter { name, about, kind: Kind::Choice(words), default: Setting::Choice(words[0]) }
}

pub(super) const fn real(
    name: &'static str,
    about: &'static str,
    default: f64,
    least: f64,
    most: f64,
) -> Parameter {
    Parameter { name, about, kind: Kind::Real { least, most }, default: Setting::Real(default) }
}

pub(super) const fn count(
    name: &'static str,
    about: &'static str,
    default: u64,
    least: u64,
    most: u64,
) -> Parameter {
    Parameter { name, about, kind: Kind::Count { least, most }, default: Setting::Count(default) }
}

/// Up to a minute; nothing, too.
const fn cost(name: &'static str, about: &'static str, default: Duration) -> Parameter {
    let kind = Kind::Time { least: Duration::ZERO, most: Duration::from_secs(60) };
    Parameter { name, about, kind, default: Setting::Time(default) }
}

/// From a nanosecond to a minute: nothing here is longer.
pub(super) const fn time(name: &'static str, about: &'static str, default: Duration) -> Parameter {
    let kind = Kind::Time { least: Duration::from_nanos(1), most: Duration::from_secs(60) };
    Parameter { name, about, kind, default: Setting::Time(default) }
}
