//! The counts of `probe`, for `--json-stream` and the line a second of a terminal.

use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;
use softtimers_bpf::{Counted, Intervals, ProcessorIntervals, Source};
use softtimers_measure::distribution::Distribution;
use softtimers_measure::stats::Stats;

/// The intervals between trigger states in a second, or in the whole run.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeStats {
    counted: Intervals,
    /// The CPUs; `None` for all.
    cpus: Option<Vec<u32>>,
}

/// The keys of `interval` and of `total`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SecondReport {
    /// The intervals of all CPUs, without those of idleness.
    pub(crate) intervals: u64,
    /// The interval by CPU.
    pub(crate) cpus: Vec<CpuSecond>,
}

/// The interval on one CPU.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct CpuSecond {
    /// The number of the CPU.
    pub(crate) cpu: u32,
    /// Intervals between trigger states, each accurate to an eighth.
    pub(crate) interval_ns: Distribution,
    /// The share of intervals longer than 100 µs.
    pub(crate) over_100us: Option<f64>,
    /// The share of intervals longer than 150 µs.
    pub(crate) over_150us: Option<f64>,
    /// The share of time it was idle.
    pub(crate) idle_share: Option<f64>,
    /// The share of intervals that each source ended, where it ended any.
    pub(crate) sources: Vec<SourceShare>,
}

/// The share of one source.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SourceShare {
    /// The name of the source.
    pub(crate) name: &'static str,
    /// The share of the intervals.
    pub(crate) share: Option<f64>,
}

impl ProbeStats {
    /// Creates empty counts for these CPUs.
    pub(crate) fn new(cpus: Option<&[u32]>) -> Self {
        ProbeStats { counted: Intervals::default(), cpus: cpus.map(<[u32]>::to_vec) }
    }

    /// Adds the counts since the last call.
    pub(crate) fn count(&mut self, next: &Intervals) {
        let wanted = |cpu: u32| self.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu));
        if self.counted.processors.is_empty() {
            let processors = next.processors.iter().filter(|processor| wanted(processor.cpu));
            self.counted.processors = processors.cloned().collect();
            return;
        }
        for mine in &mut self.counted.processors {
            if let Some(theirs) = next.processors.iter().find(|theirs| theirs.cpu == mine.cpu) {
                mine.add(theirs);
            }
        }
    }
}

impl ProbeStats {
    /// Returns the CPUs that are measured.
    pub(super) fn processors(&self) -> impl Iterator<Item = &ProcessorIntervals> {
        self.counted.processors.iter()
    }
}

impl AddAssign<&ProbeStats> for ProbeStats {
    fn add_assign(&mut self, next: &ProbeStats) {
        self.count(&next.counted);
    }
}

impl Stats for ProbeStats {
    type Figures = SecondReport;

    fn is_empty(&self) -> bool {
        self.counted.processors.iter().all(|processor| processor.busy().count + processor.idle.count == 0)
    }

    fn clear(&mut self) {
        self.counted.processors.clear();
    }

    fn figures(&self, time: Duration) -> SecondReport {
        let cpus: Vec<_> = self.processors().map(|processor| CpuSecond::new(processor, time)).collect();
        SecondReport { intervals: cpus.iter().map(|cpu| cpu.interval_ns.count).sum(), cpus }
    }
}

impl CpuSecond {
    fn new(processor: &ProcessorIntervals, time: Duration) -> Self {
        let busy = processor.busy();
        let sources = Source::ALL.into_iter().filter(|&source| processor.ended_by(source).count > 0);
        CpuSecond {
            cpu: processor.cpu,
            // The exact maximum is that of the whole run.
            interval_ns: Distribution { max: busy.histogram().max(), ..distribution(&busy) },
            over_100us: share(busy.over_100us, busy.count),
            over_150us: share(busy.over_150us, busy.count),
            idle_share: share(processor.idle.sum_ns, time.as_nanos() as u64).map(|share| share.min(1.0)),
            sources: sources
                .map(|source| SourceShare {
                    name: source.name(),
                    share: share(processor.ended_by(source).count, busy.count),
                })
                .collect(),
        }
    }
}

/// Returns the distribution of the kernel's counts.
pub(super) fn distribution(counted: &Counted) -> Distribution {
    if counted.count == 0 {
        return Distribution::default();
    }
    let of_buckets = Distribution::from(&counted.histogram());
    // The middle of a bucket may lie beyond the maximum.
    let most = |at: Option<u64>| at.map(|at| at.min(counted.max_ns));
    Distribution {
        count: counted.count,
        min: most(of_buckets.min),
        p1: most(of_buckets.p1),
        p50: most(of_buckets.p50),
        p90: most(of_buckets.p90),
        p99: most(of_buckets.p99),
        p999: most(of_buckets.p999),
        max: Some(counted.max_ns),
        mean: counted.mean_ns(),
        stddev: counted.stddev_ns(),
    }
}

/// Returns the share; `None` of nothing.
pub(super) fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}
