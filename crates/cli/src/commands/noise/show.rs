//! What was found: distributions, causes, and what jobs of many nodes come to.

use std::time::Duration;

use serde::Serialize;
use softtimers_core::Random;
use softtimers_measure::distribution::{Distribution, Quantile, Recorder};
use softtimers_measure::estimate::quantile;
use softtimers_measure::units::show_duration;
use softtimers_sim::noise::{self, undelayed, wanted};

use super::args::Noise;
use super::measured::{Cause, Caused, Interrupts, Phases};
use crate::run::output::Report;
use crate::run::table::Table;

/// The keys of `noise`'s object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct NoiseReport {
    /// The least of many, by which the computation was calibrated.
    pub(crate) calibrated_ns: u64,
    /// Under the ordinary class.
    #[serde(flatten)]
    pub(crate) ordinary: ClassReport,
    /// Under `SCHED_FIFO`.
    pub(crate) fifo: Option<ClassReport>,
}

/// Phases under one class.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct ClassReport {
    /// How many, less than asked for if a signal ended the run.
    pub(crate) phases: u64,
    /// How long they took.
    pub(crate) phase_ns: Distribution,
    /// Beyond it a phase is delayed.
    pub(crate) threshold_ns: u64,
    /// The share of delayed phases.
    pub(crate) p_delayed: Option<f64>,
    /// The share of phases longer than so many medians.
    pub(crate) survival: Vec<Slower>,
    /// How long phases of each rank take at most.
    pub(crate) cdf: Vec<Quantile>,
    /// Why delayed phases were.
    pub(crate) causes: Vec<Caused>,
    /// The share of them that has a cause.
    pub(crate) explained: Option<f64>,
    /// What interrupted them.
    pub(crate) interrupts: Interrupts,
    /// Bulk-synchronous jobs of such phases.
    pub(crate) slowdown: Vec<Slowdown>,
}

/// A point of the survival function.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Slower {
    /// Longer than so many medians:
    pub(crate) times: f64,
    /// this share.
    pub(crate) share: f64,
}

/// A job that waits for the slowest of its nodes in each phase.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Slowdown {
    /// Its nodes.
    pub(crate) nodes: u32,
    /// How much longer it takes than without noise, as drawn.
    pub(crate) factor: f64,
    /// The same, as expected of the same phases.
    pub(crate) expected: f64,
    /// The share of its phases that are delayed on no node.
    pub(crate) undelayed: f64,
    /// The p_delayed that would do: an order of magnitude below one in `nodes`.
    pub(crate) p_wanted: f64,
}

impl NoiseReport {
    pub(super) fn example(plan: &Noise) -> Self {
        let blank =
            ClassReport { slowdown: vec![Slowdown::default(); plan.nodes.len()], ..ClassReport::default() };
        NoiseReport { calibrated_ns: 0, ordinary: blank.clone(), fifo: plan.fifo.then_some(blank) }
    }
}

impl ClassReport {
    pub(super) fn of(measured: &Phases, plan: &Noise) -> Self {
        let Some(phases) = noise::Phases::new(measured.nanos().map(|nanos| (nanos, 1))) else {
            return ClassReport::default();
        };
        let mut recorder = Recorder::new();
        measured.nanos().for_each(|nanos| recorder.record(nanos));
        let mut sorted: Vec<u64> = measured.nanos().collect();
        sorted.sort_unstable();
        let median = phases.median();
        let beyond = |times: f64| (median as f64 * times) as u64;
        let threshold = beyond(plan.threshold);
        let p_delayed = phases.share_above(threshold);
        let causes = measured.causes(median, threshold);
        let delayed: u64 = causes.iter().map(|caused| caused.phases).sum();
        let unexplained = causes.iter().filter(|caused| caused.cause == Cause::Unexplained);
        let unexplained: u64 = unexplained.map(|caused| caused.phases).sum();
        let job = |nodes: u32| slowdown(&phases, nodes, threshold, plan.setup.seed);
        ClassReport {
            phases: recorder.len(),
            phase_ns: recorder.distribution(),
            threshold_ns: threshold,
            p_delayed: Some(p_delayed),
            survival: TIMES.map(|times| Slower { times, share: phases.share_above(beyond(times)) }).to_vec(),
            cdf: SHARES.map(|share| Quantile { share, ns: quantile(&sorted, share).unwrap_or(0) }).to_vec(),
            explained: (delayed > 0).then(|| 1.0 - unexplained as f64 / delayed as f64),
            causes,
            interrupts: measured.interrupted(threshold),
            slowdown: plan.nodes.iter().map(|&nodes| job(nodes)).collect(),
        }
    }

    fn add_to(&self, table: &mut Table) {
        table.distribution("phase", &self.phase_ns);
        let threshold = show_duration(Duration::from_nanos(self.threshold_ns));
        let delayed = self.p_delayed.map_or_else(|| "-".to_owned(), |share| format!("{:.3}%", share * 100.0));
        table.row("delayed", format!("{delayed} of {} phases, beyond {threshold}", self.phases));
        for &Slower { times, share } in &self.survival {
            let bar = "#".repeat(bar(share, self.phases));
            let shown = if share > 0.0 { format!("{share:8.1e}") } else { "       -".to_owned() };
            table.row(&format!("  > {times} medians"), format!("{shown}  {bar}").trim_end());
        }
        for caused in &self.causes {
            let [delay, longest] =
                [caused.delay_ns, caused.longest_ns].map(|ns| show_duration(Duration::from_nanos(ns)));
            let phases = format!("{} delayed, by {delay} in all, the longest {longest}", caused.phases);
            table.row(&format!("  {}", caused.cause.name()), phases);
        }
        if let (Some(delayed), Some(undelayed)) = (self.interrupts.delayed, self.interrupts.undelayed) {
            table.row("interrupts", format!("{delayed:.2} in a delayed phase, {undelayed:.2} in another"));
            for line in &self.interrupts.lines {
                let text = format!("{:.2} and {:.2}: {}", line.delayed, line.undelayed, line.what);
                table.text(&format!("  {}", line.line), &text);
            }
        }
        for job in &self.slowdown {
            let Slowdown { nodes, factor, undelayed, p_wanted, .. } = job;
            table.row(
                &format!("{nodes} node{}", if *nodes == 1 { "" } else { "s" }),
                format!(
                    "{factor:.3} times as slow, {:.1}% of phases undelayed; p of {p_wanted} would do",
                    undelayed * 100.0
                ),
            );
        }
    }
}

impl Report for NoiseReport {
    const SCHEMA: &'static str = "softtimers.noise/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        table.row("calibrated", show_duration(Duration::from_nanos(self.calibrated_ns)));
        if self.fifo.is_some() {
            table.row("ordinary class", "");
        }
        self.ordinary.add_to(&mut table);
        if let Some(fifo) = &self.fifo {
            table.row("SCHED_FIFO", "");
            fifo.add_to(&mut table);
        }
        table
    }
}

impl Cause {
    fn name(self) -> &'static str {
        match self {
            Cause::Scheduler => "others ran",
            Cause::Steal => "the host took",
            Cause::Interrupts => "interrupted",
            Cause::Unexplained => "unexplained",
        }
    }
}

fn slowdown(phases: &noise::Phases, nodes: u32, threshold: u64, seed: u64) -> Slowdown {
    let median = phases.median().max(1) as f64;
    let many = u64::from(nodes);
    let mut random = Random::stream(seed, many);
    let drawn = phases.draw_longest(many, (DRAWINGS / many).clamp(1, MOST_DRAWN), threshold, &mut random);
    Slowdown {
        nodes,
        factor: drawn.mean / median,
        expected: phases.expected_longest(many) / median,
        undelayed: undelayed(phases.share_above(threshold), many),
        p_wanted: wanted(many),
    }
}

/// Columns of a share on a logarithmic scale on which one phase of all has one, and all have thirty.
fn bar(share: f64, phases: u64) -> usize {
    let least = 1.0 / phases.max(2) as f64;
    if share < least / 2.0 {
        0
    } else {
        1 + ((1.0 - share.ln() / least.ln()) * 29.0).round().max(0.0) as usize
    }
}

const TIMES: [f64; 11] = [1.01, 1.02, 1.05, 1.1, 1.2, 1.3, 1.6, 2.0, 3.0, 5.0, 10.0];
const SHARES: [f64; 15] =
    [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999, 1.0];
/// A second's work for each job.
const DRAWINGS: u64 = 20_000_000;
const MOST_DRAWN: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_phase_has_one_column_and_all_have_thirty() {
        assert_eq!([0.0, 1e-4, 1e-2, 1.0].map(|share| bar(share, 10_000)), [0, 1, 16, 30]);
    }
}
