//! The results: distributions, causes, and the slowdown of jobs of many nodes.

use std::time::Duration;

use serde::Serialize;
use softtimers_core::Random;
use softtimers_measure::distribution::{Distribution, Quantile, Recorder};
use softtimers_measure::estimate::quantile;
use softtimers_sim::noise::{self, undelayed, wanted};

use super::args::Noise;
use super::measured::{Cause, Caused, Interrupts, Phases};
use softtimers_run::grid::Grid;
use softtimers_run::output::Report;
use softtimers_run::quantity::{or_dash, setting, share, time};
use softtimers_run::table::Table;

/// The keys of `noise`'s object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct NoiseReport {
    /// The calibrated time of the computation: the minimum of many.
    pub(crate) calibrated_ns: u64,
    /// Under the ordinary class.
    #[serde(flatten)]
    pub(crate) ordinary: ClassReport,
    /// The findings under `SCHED_FIFO`.
    pub(crate) fifo: Option<ClassReport>,
}

/// Phases under one class.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct ClassReport {
    /// The number of phases, less than asked for if a signal ended the run.
    pub(crate) phases: u64,
    /// The time that phases took.
    pub(crate) phase_ns: Distribution,
    /// The length beyond which a phase counts as delayed.
    pub(crate) threshold_ns: u64,
    /// The share of delayed phases.
    pub(crate) p_delayed: Option<f64>,
    /// The share of phases longer than a multiple of the median.
    pub(crate) survival: Vec<Slower>,
    /// The CDF of phases.
    pub(crate) cdf: Vec<Quantile>,
    /// The causes of delayed phases.
    pub(crate) causes: Vec<Caused>,
    /// The share of them with a known cause.
    pub(crate) explained: Option<f64>,
    /// The interrupts of phases.
    pub(crate) interrupts: Interrupts,
    /// Bulk-synchronous jobs of such phases.
    pub(crate) slowdown: Vec<Slowdown>,
}

/// A point of the survival function.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Slower {
    /// A multiple of the median:
    pub(crate) times: f64,
    /// the share of phases longer than that.
    pub(crate) share: f64,
}

/// A job that waits for the slowest of its nodes in each phase.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Slowdown {
    /// The number of its nodes.
    pub(crate) nodes: u32,
    /// The ratio of its time to the time without noise, as drawn.
    pub(crate) factor: f64,
    /// The expected ratio for the same phases.
    pub(crate) expected: f64,
    /// The share of its phases that are delayed on no node.
    pub(crate) undelayed: f64,
    /// The p_delayed that would suffice: an order of magnitude below one in `nodes`.
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
    pub(super) fn from_phases(measured: &Phases, plan: &Noise) -> Self {
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
        table.times("phase", &self.phase_ns);
        let delayed = or_dash(self.p_delayed, share);
        table
            .row("delayed", format!("{delayed} of {} phases, over {}", self.phases, time(self.threshold_ns)));
        if let (Some(delayed), Some(undelayed)) = (self.interrupts.delayed, self.interrupts.undelayed) {
            table.row("interrupts", format!("{delayed:.2} in a delayed phase, {undelayed:.2} in another"));
        }
        for line in &self.interrupts.lines {
            table.row(
                "",
                format!("{:.2} and {:.2}: {} ({})", line.delayed, line.undelayed, line.what, line.line),
            );
        }
        let mut causes = Grid::new(["cause", "delayed phases", "in all", "longest"]);
        for caused in &self.causes {
            let [delay, longest] = [caused.delay_ns, caused.longest_ns].map(time);
            causes.row([caused.cause.name().to_owned(), caused.phases.to_string(), delay, longest]);
        }
        table.grid(causes);
        let mut survival = Grid::new(["over", "phases", ""]).words(2);
        for &Slower { times, share: above } in &self.survival {
            let bar = "#".repeat(bar(above, self.phases));
            survival.row([format!("{times} medians"), share(above), bar]);
        }
        table.grid(survival);
        let mut jobs = Grid::new(["nodes", "slowdown", "undelayed", "would do"]).numbered();
        for Slowdown { nodes, factor, undelayed, p_wanted, .. } in &self.slowdown {
            jobs.row([nodes.to_string(), format!("{factor:.3}"), share(*undelayed), p_wanted.to_string()]);
        }
        table.grid(jobs);
    }
}

/// Names the phases, their number and the CPU in one line.
pub(super) fn header(plan: &Noise) -> String {
    let class = if plan.fifo { ", then the same under SCHED_FIFO" } else { "" };
    let phase = setting(Duration::from_nanos(plan.phase_ns));
    format!("noise: {} phases of {phase} on CPU {}{class}", plan.phases, plan.setup.cpu)
}

impl Report<Noise> for NoiseReport {
    const SCHEMA: &'static str = "softtimers.noise/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        table.row("calibrated", time(self.calibrated_ns));
        if self.fifo.is_some() {
            table.heading("Ordinary class");
        }
        self.ordinary.add_to(&mut table);
        if let Some(fifo) = &self.fifo {
            table.heading("SCHED_FIFO");
            fifo.add_to(&mut table);
        }
        table
    }
}

impl Cause {
    fn name(self) -> &'static str {
        match self {
            Cause::Scheduler => "other programs",
            Cause::Steal => "the host",
            Cause::Interrupts => "interrupts",
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

/// Returns the columns of a share on a logarithmic scale, where a single phase has one and all phases have thirty.
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
/// The draws per job, which take a second.
const DRAWINGS: u64 = 20_000_000;
const MOST_DRAWN: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::noise::measured::InterruptLine;
    use softtimers_run::snapshot::{self, Live, times};

    #[test]
    fn one_phase_has_one_column_and_all_have_thirty() {
        assert_eq!([0.0, 1e-4, 1e-2, 1.0].map(|share| bar(share, 10_000)), [0, 1, 16, 30]);
    }

    #[test]
    fn snapshot() {
        let class = ClassReport {
            phases: 10_000,
            phase_ns: times(),
            threshold_ns: 1_600_000,
            p_delayed: Some(0.02),
            survival: [(1.01, 0.4), (1.6, 0.02), (10.0, 0.000_1), (20.0, 0.0)]
                .map(|(times, share)| Slower { times, share })
                .to_vec(),
            causes: vec![Caused {
                cause: Cause::Scheduler,
                phases: 150,
                delay_ns: 453_000_000,
                longest_ns: 4_300_000,
            }],
            interrupts: Interrupts {
                delayed: Some(2.0),
                undelayed: Some(0.12),
                lines: vec![InterruptLine {
                    line: "LOC".to_owned(),
                    what: "Local timer interrupts".to_owned(),
                    delayed: 1.9,
                    undelayed: 0.11,
                }],
                ..Interrupts::default()
            },
            slowdown: [1, 1_000]
                .map(|nodes| Slowdown {
                    nodes,
                    factor: 1.5,
                    undelayed: 1e-12,
                    p_wanted: 0.1,
                    ..Slowdown::default()
                })
                .to_vec(),
            ..ClassReport::default()
        };
        let report = NoiseReport { calibrated_ns: 1_000_107, ordinary: class.clone(), fifo: Some(class) };
        let header = "noise: 10000 phases of 1 ms on CPU 0, then the same under SCHED_FIFO";
        snapshot::check("noise", header, &Live::none(), &report);
    }
}
