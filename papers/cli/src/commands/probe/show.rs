//! The report of `probe`: the columns of soft timers' tables IV and V, and the data of its figures 2 to 4, for this
//! kernel.

use std::time::Duration;

use serde::Serialize;
use softtimers_bpf::{Counted, ProcessorIntervals, Sample, Source};
use softtimers_measure::distribution::{Distribution, Quantile, Recorder};

use super::args::KernelProbe;
use super::companion::Ended;
use super::stats::{ProbeStats, distribution, share};

/// The `config` object of `probe`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct ProbeConfig {
    /// The longest run; `null` for no bound.
    pub(crate) duration_s: Option<f64>,
    /// The CPUs; `null` for all.
    pub(crate) cpus: Option<Vec<u32>>,
    /// The sources of trigger states.
    pub(crate) sources: Vec<&'static str>,
    /// The most intervals kept one by one.
    pub(crate) samples: u32,
    /// The command that was run; empty for none.
    pub(crate) command: Vec<String>,
}

impl ProbeConfig {
    pub(super) fn from_plan(plan: &KernelProbe) -> Self {
        ProbeConfig {
            duration_s: plan.duration.map(|duration| duration.as_secs_f64()),
            cpus: plan.probe.processors.clone(),
            sources: plan.probe.sources.iter().map(|source| source.name()).collect(),
            samples: plan.probe.samples,
            command: plan.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        }
    }
}

/// The keys of `probe`'s object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct ProbeReport {
    /// The time that it measured.
    pub(crate) elapsed_s: f64,
    /// Intervals of all CPUs, without those of idleness.
    pub(crate) intervals: u64,
    /// The cost of the probe itself.
    pub(crate) overhead: Overhead,
    /// The tracepoints used.
    pub(crate) tracepoints: Vec<TracepointReport>,
    /// The end of the command; `null` without one.
    pub(crate) command: Option<Ended>,
    /// The findings of each CPU.
    pub(crate) cpus: Vec<CpuReport>,
}

/// The cost of the probe itself.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Overhead {
    /// How much longer a system call took with it, in nanoseconds; `null` if system calls are not measured trigger
    /// states. Other trigger states cost less, since they do not leave the kernel's fast path because of it. The
    /// measured value may be negative if the machine drifted by more than that.
    pub(crate) per_trigger_ns: Option<f64>,
    /// The lower end of its 95% confidence interval. At zero or below, the probe's cost is indistinguishable from none.
    pub(crate) per_trigger_low_ns: Option<f64>,
    /// The upper end of that interval.
    pub(crate) per_trigger_high_ns: Option<f64>,
    /// An upper bound: the highest likely cost times all trigger states, as a share of the CPUs' time.
    pub(crate) share: Option<f64>,
}

/// The findings of a tracepoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct TracepointReport {
    /// Its name in the kernel.
    pub(crate) name: &'static str,
    /// Why it could not be attached; `null` if it was.
    pub(crate) error: Option<String>,
}

/// The findings of one CPU.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct CpuReport {
    /// The number of the CPU.
    pub(crate) cpu: u32,
    /// Intervals between trigger states, without those of idleness: mean and maximum are exact, the other values are
    /// accurate to an eighth.
    pub(crate) interval_ns: Distribution,
    /// Their cumulative distribution: for each bucket with counts, its middle and the share up to it.
    pub(crate) interval_cdf: Vec<Quantile>,
    /// The share of intervals longer than 100 µs.
    pub(crate) over_100us: Option<f64>,
    /// The share of those longer than 150 µs.
    pub(crate) over_150us: Option<f64>,
    /// Intervals that began when the CPU had nothing to do.
    pub(crate) idle: IdleReport,
    /// The findings by the source that ended the interval, in the order of [`Source::ALL`].
    pub(crate) sources: Vec<SourceReport>,
    /// The number of intervals kept one by one, idle ones included, on which the following keys are based.
    pub(crate) samples: u64,
    /// The medians of windows of 1 ms.
    pub(crate) median_1ms_ns: Distribution,
    /// The medians of windows of 10 ms.
    pub(crate) median_10ms_ns: Distribution,
    /// The misses of its caches during the run.
    pub(crate) misses: MissReport,
}

/// Misses of a CPU's caches in the whole run, by any program; `null` where it does not count them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct MissReport {
    /// Misses of the first-level data cache.
    pub(crate) l1d: Option<u64>,
    /// Misses of the first-level instruction cache.
    pub(crate) l1i: Option<u64>,
    /// Misses of the instruction TLB.
    pub(crate) itlb: Option<u64>,
    /// Why some are `null`; `null` if none is.
    pub(crate) unknown: Option<String>,
}

/// Idleness of a CPU.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct IdleReport {
    /// The share of the time.
    pub(crate) share: Option<f64>,
    /// The length of the intervals.
    pub(crate) interval_ns: Distribution,
}

/// The findings about one source.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct SourceReport {
    /// The name of the source.
    pub(crate) name: &'static str,
    /// The share of the intervals.
    pub(crate) share: Option<f64>,
    /// The intervals that it ended.
    pub(crate) interval_ns: Distribution,
    /// The intervals without this source, among those kept one by one; without those idle in part.
    pub(crate) without_ns: Distribution,
}

impl ProbeReport {
    /// Reports the counts so far, without intervals one by one.
    pub(super) fn from_counts(
        stats: &ProbeStats,
        elapsed: Duration,
        per_trigger: Option<[f64; 3]>,
        plan: &KernelProbe,
    ) -> Self {
        let cpus: Vec<_> =
            stats.processors().map(|processor| CpuReport::from_intervals(processor, elapsed, plan)).collect();
        let passed: u64 = cpus.iter().map(|cpu| cpu.interval_ns.count + cpu.idle.interval_ns.count).sum();
        let time = elapsed.as_nanos() as f64 * cpus.len() as f64;
        let [low, median, high] = per_trigger.map_or([None; 3], |interval| interval.map(Some));
        let spent = high.map(|cost| cost.max(0.0) * passed as f64);
        ProbeReport {
            elapsed_s: elapsed.as_secs_f64(),
            intervals: cpus.iter().map(|cpu| cpu.interval_ns.count).sum(),
            overhead: Overhead {
                per_trigger_ns: median,
                per_trigger_low_ns: low,
                per_trigger_high_ns: high,
                share: spent.filter(|_| time > 0.0).map(|spent| spent / time),
            },
            cpus,
            ..ProbeReport::default()
        }
    }

    /// Returns a report with all its keys.
    pub(super) fn example(plan: &KernelProbe) -> Self {
        let processors = softtimers_bpf::processors().unwrap_or(1);
        let cpus = (0..processors).filter(|&cpu| plan.measures(cpu)).map(|cpu| CpuReport {
            cpu,
            sources: plan
                .probe
                .sources
                .iter()
                .map(|&source| SourceReport::from_counted(source, &Counted::default(), 0))
                .collect(),
            ..CpuReport::default()
        });
        let command = (!plan.command.is_empty()).then(Ended::default);
        ProbeReport { cpus: cpus.collect(), command, ..ProbeReport::default() }
    }

    /// Names the requested sources that are missing.
    pub(super) fn fallbacks(&self) -> Vec<String> {
        let told = |point: &TracepointReport| {
            let why = point.error.as_ref()?;
            Some(format!("tracepoint {} could not be attached to: {why}", point.name))
        };
        self.tracepoints.iter().filter_map(told).collect()
    }
}

impl From<(&'static str, Result<(), &str>)> for TracepointReport {
    fn from((name, how): (&'static str, Result<(), &str>)) -> Self {
        TracepointReport { name, error: how.err().map(str::to_owned) }
    }
}

impl CpuReport {
    fn from_intervals(processor: &ProcessorIntervals, elapsed: Duration, plan: &KernelProbe) -> Self {
        let busy = processor.busy();
        let sources = plan.probe.sources.iter();
        CpuReport {
            cpu: processor.cpu,
            interval_ns: distribution(&busy),
            interval_cdf: curve(&busy),
            over_100us: share(busy.over_100us, busy.count),
            over_150us: share(busy.over_150us, busy.count),
            idle: IdleReport {
                share: share(processor.idle.sum_ns, elapsed.as_nanos() as u64).map(|share| share.min(1.0)),
                interval_ns: distribution(&processor.idle),
            },
            sources: sources
                .map(|&source| SourceReport::from_counted(source, processor.ended_by(source), busy.count))
                .collect(),
            ..CpuReport::default()
        }
    }

    /// Adds the findings that depend on the order of the intervals.
    pub(super) fn add_samples(&mut self, samples: &[Sample]) {
        self.samples = samples.len() as u64;
        self.median_1ms_ns = medians(samples, 1_000_000);
        self.median_10ms_ns = medians(samples, 10_000_000);
        for source in &mut self.sources {
            if let Some(named) = Source::named(source.name) {
                source.without_ns = Distribution::from(&Sample::without(samples, named));
            }
        }
    }
}

impl SourceReport {
    fn from_counted(source: Source, counted: &Counted, all: u64) -> Self {
        SourceReport {
            name: source.name(),
            share: share(counted.count, all),
            interval_ns: distribution(counted),
            without_ns: Distribution::default(),
        }
    }
}

fn medians(samples: &[Sample], window_ns: u64) -> Distribution {
    let mut medians = Recorder::new();
    let windows = Sample::medians(samples, window_ns);
    windows.into_iter().for_each(|(_, median)| medians.record(u64::from(median)));
    medians.distribution()
}

/// Returns the buckets with counts, each with its middle and the share up to it.
fn curve(counted: &Counted) -> Vec<Quantile> {
    let histogram = counted.histogram();
    let mut below = 0;
    let point = |(nanos, count): (u64, u64)| {
        below += count;
        Quantile { share: below as f64 / histogram.count() as f64, ns: nanos.min(counted.max_ns) }
    };
    histogram.iter().filter(|&(_, count)| count > 0).map(point).collect()
}
