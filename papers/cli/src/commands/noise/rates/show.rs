//! The results for each rate.

use std::time::Duration;

use serde::Serialize;
use softtimers_measure::distribution::{Distribution, Recorder};
use softtimers_measure::estimate::quartiles;

use super::super::args::Rates;
use super::power::SleepState;
use super::waker::Served;
use softtimers_run::grid::Grid;
use softtimers_run::output::Report;
use softtimers_run::quantity::{self, number, or_dash, setting, share, time};
use softtimers_run::table::Table;

/// The keys of the object of `noise --rates`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct RatesReport {
    /// The packages whose energy is counted; `null` if none is, with a note that says why.
    pub(crate) energy: Option<Vec<String>>,
    /// The CPU with a thread that never wakes.
    pub(crate) idle: Idle,
    /// The costs of each rate.
    pub(crate) rates: Vec<RateCost>,
}

/// One rate, with both methods.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct RateCost {
    /// The rate in ticks a second.
    pub(crate) hz: u32,
    /// One period: the maximum lateness of a tick's timers, apart from the wake-up.
    pub(crate) late_at_most_ns: u64,
    /// Half of it, the tick's median lateness: the maximum lateness of the smart timers, apart from the wake-up.
    pub(crate) smart_slack_ns: u64,
    /// By a periodic tick.
    #[serde(flatten)]
    pub(crate) tick: Cost,
    /// At deadlines with that slack.
    pub(crate) smart: Cost,
}

/// The cost of one method.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Cost {
    /// Sleeps that ended, next to the computation, by the kernel's count.
    pub(crate) wakeups_per_s: f64,
    /// Timers of the application that ran.
    pub(crate) events_per_s: f64,
    /// The waker's share of the CPU.
    pub(crate) cpu_share: f64,
    /// CPU time of the waker for each wake-up.
    pub(crate) cpu_ns_per_wakeup: Option<f64>,
    /// The computation next to it, relative to the computation alone: the median of the rounds.
    pub(crate) work_kept: Option<f64>,
    /// Its lower and upper quartile.
    pub(crate) work_kept_quartiles: [Option<f64>; 2],
    /// The time that the computation lost per wake-up; `null` if the rounds differ by more than that.
    pub(crate) overhead_ns_per_wakeup: Option<f64>,
    /// From due time to run time.
    pub(crate) lateness_ns: Distribution,
    /// The same on an idle CPU.
    pub(crate) idle: Idle,
}

/// A stretch on a CPU that this program leaves idle.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Idle {
    /// Sleeps of the waker that ended.
    pub(crate) wakeups_per_s: f64,
    /// The waker's share of the CPU.
    pub(crate) cpu_share: f64,
    /// The power of all packages; `null` where energy is not counted.
    pub(crate) watts: Option<f64>,
    /// The states in which the CPU slept, the deepest last.
    pub(crate) states: Vec<SleepState>,
}

/// One method's turns next to the computation.
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
    /// Returns the cost relative to the rounds of the computation alone.
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
    /// Returns a report with the keys of a run.
    pub(super) fn example(plan: &Rates) -> Self {
        let states = vec![SleepState::default(); super::power::MOST_STATES];
        let idle = Idle { states, ..Idle::default() };
        let cost = Cost { idle: idle.clone(), ..Cost::default() };
        let rate = RateCost { tick: cost.clone(), smart: cost, ..RateCost::default() };
        RatesReport { energy: None, idle, rates: vec![rate; plan.rates.len()] }
    }
}

impl Report<Rates> for RatesReport {
    const SCHEMA: &'static str = "softtimers.noise_rates/1";

    fn table(&self) -> Table {
        let watts = self.energy.is_some();
        let mut grid = Grid::new(HEADS.into_iter().chain(watts.then_some("watts")));
        let nothing = Cost { idle: self.idle.clone(), ..Cost::default() };
        grid.row(nothing.cells("none".to_owned(), watts));
        for rate in &self.rates {
            grid.row(rate.tick.cells(format!("{} Hz tick", rate.hz), watts));
            grid.row(rate.smart.cells(format!("{} Hz smart", rate.hz), watts));
        }
        let mut table = Table::default();
        table.grid(grid);
        table
    }
}

impl Cost {
    fn cells(&self, timer: String, watts: bool) -> impl Iterator<Item = String> {
        let if_measured = |text: String| if self.work_kept.is_some() { text } else { "-".to_owned() };
        let cells = [
            timer,
            if_measured(quantity::per_second(self.wakeups_per_s)),
            if_measured(share(self.cpu_share)),
            or_dash(self.work_kept, share),
            or_dash(self.overhead_ns_per_wakeup, time),
            or_dash(self.lateness_ns.p50, time),
            or_dash(self.lateness_ns.max, time),
            quantity::per_second(self.idle.wakeups_per_s),
            share(self.idle.cpu_share),
            or_dash(self.idle.states.last(), |state| share(state.share)),
        ];
        let watts = watts.then(|| or_dash(self.idle.watts, |watts| format!("{watts:.2}")));
        cells.into_iter().chain(watts)
    }
}

/// Returns the number of rates, and how long each is measured.
pub(super) fn header(plan: &Rates) -> String {
    let rates: Vec<String> = plan.rates.iter().map(ToString::to_string).collect();
    let turn = setting(Duration::from_nanos(plan.turn_ns));
    let (timers, cpu) = (number(u64::from(plan.timers), "timer"), plan.setup.cpu);
    format!(
        "noise of wake-ups at {} Hz: {} rounds of {turn}, {timers}, on CPU {cpu}",
        rates.join(", "),
        plan.rounds
    )
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

const HEADS: [&str; 10] = [
    "timer",
    "wake-ups",
    "CPU",
    "work kept",
    "each costs",
    "late p50",
    "late max",
    "idle wake-ups",
    "idle CPU",
    "idle deepest",
];

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_run::snapshot::{self, Live, times};

    #[test]
    fn snapshot() {
        let state = |share| SleepState { name: "C1".to_owned(), share, entries_per_s: 1.0 };
        let idle =
            Idle { wakeups_per_s: 1_000.0, cpu_share: 0.012, watts: Some(12.3), states: vec![state(0.9)] };
        let cost = Cost {
            wakeups_per_s: 998.0,
            events_per_s: 9_980.0,
            cpu_share: 0.021,
            cpu_ns_per_wakeup: Some(21_000.0),
            work_kept: Some(0.976),
            overhead_ns_per_wakeup: Some(24_100.0),
            lateness_ns: times(),
            idle: idle.clone(),
            ..Cost::default()
        };
        let rate = RateCost { hz: 1_000, tick: cost.clone(), smart: cost, ..RateCost::default() };
        let report = RatesReport { energy: Some(vec!["package-0".to_owned()]), idle, rates: vec![rate] };
        let header = "noise of wake-ups at 1000 Hz: 5 rounds of 200 ms, 100 timers, on CPU 0";
        snapshot::check("noise-rates", header, &Live::none(), &report);
    }
}
