//! What was found, rate by rate.

use std::time::Duration;

use serde::Serialize;
use softtimers_measure::distribution::{Distribution, Recorder};
use softtimers_measure::estimate::quartiles;
use softtimers_measure::units::show_duration;

use super::super::args::Rates;
use super::power::SleepState;
use super::waker::Served;
use crate::run::output::Report;
use crate::run::table::Table;

/// The keys of the object of `noise --rates`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct RatesReport {
    /// The packages whose energy is counted; `null` where none is, and a note says why.
    pub(crate) energy: Option<Vec<String>>,
    /// The processor with a thread that never wakes.
    pub(crate) idle: Idle,
    /// Rate by rate.
    pub(crate) rates: Vec<RateCost>,
}

/// One rate, in both ways.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct RateCost {
    /// Ticks a second.
    pub(crate) hz: u32,
    /// A period: what timers of the tick may be late by, a wake-up apart.
    pub(crate) late_at_most_ns: u64,
    /// Half of it, as late as these are at the median: what the smart ones may be late by, a wake-up apart.
    pub(crate) smart_slack_ns: u64,
    /// By a periodic tick.
    #[serde(flatten)]
    pub(crate) tick: Cost,
    /// At deadlines with that slack.
    pub(crate) smart: Cost,
}

/// What one way costs.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Cost {
    /// Sleeps that ended beside the computation, by the kernel's count.
    pub(crate) wakeups_per_s: f64,
    /// Timers of the application that ran.
    pub(crate) events_per_s: f64,
    /// The waker's share of the processor.
    pub(crate) cpu_share: f64,
    /// The same for each wake-up.
    pub(crate) cpu_ns_per_wakeup: Option<f64>,
    /// How much was computed beside it, relative to the computation alone: the median of the rounds.
    pub(crate) work_kept: Option<f64>,
    /// Its lower and upper quartile.
    pub(crate) work_kept_quartiles: [Option<f64>; 2],
    /// What the computation lost, for each wake-up; `null` where the rounds differ by more than that.
    pub(crate) overhead_ns_per_wakeup: Option<f64>,
    /// From due to run.
    pub(crate) lateness_ns: Distribution,
    /// The same on an idle processor.
    pub(crate) idle: Idle,
}

/// A stretch on a processor that this program leaves idle.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Idle {
    /// Sleeps of the waker that ended.
    pub(crate) wakeups_per_s: f64,
    /// The waker's share of the processor.
    pub(crate) cpu_share: f64,
    /// Of all packages; `null` where energy is not counted.
    pub(crate) watts: Option<f64>,
    /// Where the processor slept, the deepest state last.
    pub(crate) states: Vec<SleepState>,
}

/// One way's turns beside the computation.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) pieces_per_s: Vec<f64>,
    pub(super) served: Vec<Served>,
    pub(super) lateness: Recorder,
}

impl Served {
    pub(super) fn per_second(&self, count: u64) -> f64 {
        ratio(count as f64, self.usage.wall.as_secs_f64())
    }

    pub(super) fn cpu_share(&self) -> f64 {
        ratio(self.usage.cpu.as_secs_f64(), self.usage.wall.as_secs_f64())
    }
}

impl Rounds {
    /// Against the rounds of the computation alone.
    pub(super) fn cost(&self, alone: &Rounds, idle: Idle) -> Cost {
        let sum = |of: fn(&Served) -> Duration| self.served.iter().map(of).sum::<Duration>().as_secs_f64();
        let count = |of: fn(&Served) -> u64| self.served.iter().map(of).sum::<u64>() as f64;
        let (wall, cpu) = (sum(|served| served.usage.wall), sum(|served| served.usage.cpu));
        let wakeups = count(|served| served.usage.wakeups);
        let pairs = self.pieces_per_s.iter().zip(&alone.pieces_per_s);
        let [low, kept, high] = quartiles(pairs.map(|(with, without)| with / without));
        let per_wakeup = |share: f64| Some(share * wall / wakeups * 1e9).filter(|nanos| nanos.is_finite());
        Cost {
            wakeups_per_s: ratio(wakeups, wall),
            events_per_s: ratio(count(|served| served.events), wall),
            cpu_share: ratio(cpu, wall),
            cpu_ns_per_wakeup: per_wakeup(cpu / wall),
            work_kept: finite(kept),
            work_kept_quartiles: [finite(low), finite(high)],
            overhead_ns_per_wakeup: per_wakeup(1.0 - kept).filter(|_| high < 1.0),
            lateness_ns: self.lateness.distribution(),
            idle,
        }
    }
}

impl RatesReport {
    /// One with the keys that a run will have.
    pub(super) fn example(plan: &Rates) -> Self {
        let states = vec![SleepState::default(); super::power::MOST_STATES];
        let idle = Idle { states, ..Idle::default() };
        let cost = Cost { idle: idle.clone(), ..Cost::default() };
        let rate = RateCost { tick: cost.clone(), smart: cost, ..RateCost::default() };
        RatesReport { energy: None, idle, rates: vec![rate; plan.rates.len()] }
    }
}

impl Report for RatesReport {
    const SCHEMA: &'static str = "softtimers.noise_rates/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let watts = self.energy.is_some();
        table.row("", HEADS.join("  ") + if watts { "      W" } else { "" });
        let nothing = Cost { idle: self.idle.clone(), ..Cost::default() };
        table.row("no timer", nothing.line(watts));
        for rate in &self.rates {
            table.row(&format!("{} Hz", rate.hz), rate.tick.line(watts));
            table.row("  smart", rate.smart.line(watts));
        }
        table.text("late", "p50 and the longest. Idle: wake-ups a second, CPU, share of time in the deepest state that the kernel knows");
        table
    }
}

impl Cost {
    fn line(&self, watts: bool) -> String {
        let dash = || "-".to_owned();
        let percent = |share: f64| format!("{:.2}%", share * 100.0);
        let time = |nanos: Option<f64>| {
            nanos.map_or_else(dash, |nanos| {
                show_duration(Duration::from_nanos((nanos / 10.0).round() as u64 * 10))
            })
        };
        let late = |nanos: Option<u64>| time(nanos.map(|nanos| (nanos as f64 / 1e3).round() * 1e3));
        let measured = self.work_kept.is_some();
        let if_measured = |text: String| if measured { text } else { dash() };
        let cells = [
            if_measured(format!("{:.1}", self.wakeups_per_s)),
            if_measured(percent(self.cpu_share)),
            self.work_kept.map_or_else(dash, percent),
            time(self.overhead_ns_per_wakeup),
            late(self.lateness_ns.p50),
            late(self.lateness_ns.max),
            format!("{:.1}", self.idle.wakeups_per_s),
            percent(self.idle.cpu_share),
            self.idle.states.last().map_or_else(dash, |state| percent(state.share)),
        ];
        let cells: Vec<String> = cells
            .iter()
            .zip(HEADS)
            .map(|(cell, head)| format!("{cell:>width$}", width = head.len()))
            .collect();
        let shown = self.idle.watts.map_or_else(|| format!("  {:>5}", "-"), |watts| format!("  {watts:5.2}"));
        cells.join("  ") + if watts { &shown } else { "" }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

/// As wide as what stands below them.
const HEADS: [&str; 9] = [
    "wake-ups/s",
    "   CPU",
    "work kept",
    "each costs",
    "  late p50",
    "   longest",
    "idle: wake-ups/s",
    "  CPU",
    "deepest",
];
