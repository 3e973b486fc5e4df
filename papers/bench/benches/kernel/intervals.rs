//! The columns of Table IV and other figures of a workload's intervals, computed from the samples, so all of them are
//! exact.

use softtimers_bpf::{Sample, Source};
use softtimers_measure::distribution::Moments;
use softtimers_measure::estimate::quantile;
use softtimers_trials::result::{Cell, Table};

/// Intervals between trigger states of a CPU, in order.
#[derive(Debug)]
pub(crate) struct Intervals {
    samples: Vec<Sample>,
    /// The intervals that were not idle, ascending.
    sorted: Vec<u32>,
    moments: Moments,
}

impl Intervals {
    pub(crate) fn from_samples(samples: Vec<Sample>) -> Self {
        let busy = samples.iter().filter(|sample| sample.ended_by.is_some());
        let mut sorted: Vec<u32> = busy.map(|sample| sample.gap_ns).collect();
        sorted.sort_unstable();
        let mut moments = Moments::default();
        sorted.iter().for_each(|&gap| moments.record(gap.into()));
        Intervals { samples, sorted, moments }
    }

    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    /// Returns a quantile in microseconds; NaN if there are none.
    pub(crate) fn quantile(&self, of: f64) -> f64 {
        quantile(&self.sorted, of).map_or(f64::NAN, |gap| f64::from(gap) / 1e3)
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn mean(&self) -> f64 {
        self.moments.mean().map_or(f64::NAN, |mean| mean / 1e3)
    }

    /// Returns the share of longer ones, in percent.
    pub(crate) fn over(&self, micros: u32) -> f64 {
        let most = self.sorted.partition_point(|&gap| gap <= micros * 1_000);
        (self.sorted.len() - most) as f64 / self.sorted.len() as f64 * 100.0
    }

    /// Returns the share of idle time, in percent.
    fn idle(&self) -> f64 {
        let (mut idle, mut all) = (0, 0);
        for sample in &self.samples {
            all += u64::from(sample.gap_ns);
            idle += u64::from(sample.gap_ns) * u64::from(sample.ended_by.is_none());
        }
        idle as f64 / all as f64 * 100.0
    }

    /// Returns the cells of [`COLUMNS`].
    pub(crate) fn row(&self) -> [Cell; COLUMNS.len()] {
        [
            self.count() as f64,
            self.idle(),
            self.quantile(1.0),
            self.mean(),
            self.median(),
            self.moments.stddev().map_or(f64::NAN, |stddev| stddev / 1e3),
            self.over(100),
            self.over(150),
        ]
        .map(Cell::from)
    }

    /// Returns Table V's share of a source, in percent.
    pub(crate) fn share(&self, source: Source) -> f64 {
        let ended = self.samples.iter().filter(|sample| sample.ended_by == Some(source)).count();
        ended as f64 / self.sorted.len() as f64 * 100.0
    }

    /// Returns figure 4: mean, median and the share over 100 µs without the source.
    pub(crate) fn without(&self, source: Source) -> [f64; 3] {
        let without = Sample::without(&self.samples, source);
        let median = without.quantile(0.5).map_or(f64::NAN, |median| median as f64);
        [without.mean().unwrap_or(f64::NAN) / 1e3, median / 1e3, without.share_above(100_000) * 100.0]
    }

    /// Returns figure 3: the medians of windows of `millis` milliseconds, in microseconds.
    pub(crate) fn medians(&self, millis: u64) -> Vec<f64> {
        let medians = Sample::medians(&self.samples, millis * 1_000_000);
        medians.into_iter().map(|(_, median)| f64::from(median) / 1e3).collect()
    }

    /// Returns the distribution of figure 2 as the 1st to 99th percentile and beyond, in nanoseconds.
    pub(crate) fn distribution(&self, workload: &str) -> Table {
        let mut table = Table::new(&format!("figure 2, {workload}"), &[("percentile", 2), ("ns", 0)]);
        for percent in (1..100).map(f64::from).chain([99.5, 99.9, 99.99, 100.0]) {
            table.row([percent.into(), (self.quantile(percent / 100.0) * 1e3).round().into()]);
        }
        table
    }
}

/// Samples that were not idle, idle time, and Table IV's columns, in microseconds.
pub(crate) const COLUMNS: [(&str, usize); 8] = [
    ("samples", 0),
    ("idle %", 0),
    ("max", 0),
    ("mean", 2),
    ("median", 2),
    ("stddev", 2),
    ("> 100 %", 3),
    ("> 150 %", 3),
];
