//! Distributions of nanoseconds for reports: [`Recorder`] takes values, [`Distribution`] is what is
//! printed.
//!
//! The recorder is an HDR histogram of fixed size: recording never allocates, and a percentile is
//! right to one part in a thousand. Extremes, mean and deviation are kept beside it exactly.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The distribution object of every report, in nanoseconds. Without a value, all but the count is
/// `null`: nothing was measured, which is not the same as zero.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// The number of values.
    pub count: u64,
    /// The least value.
    pub min: Option<u64>,
    /// The 1st percentile.
    pub p1: Option<u64>,
    /// The median.
    pub p50: Option<u64>,
    /// The 90th percentile.
    pub p90: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The 99.9th percentile.
    pub p999: Option<u64>,
    /// The greatest value.
    pub max: Option<u64>,
    /// The arithmetic mean.
    pub mean: Option<f64>,
    /// The standard deviation of the values themselves (not an estimate for a larger population).
    pub stddev: Option<f64>,
}

/// A point of a distribution function.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Quantile {
    /// This share of the values
    pub share: f64,
    /// is at most so much, in nanoseconds.
    pub ns: u64,
}

/// Takes over the distribution that softtimers keeps by itself: percentiles to 3%, no deviation.
impl From<&softtimers::Histogram> for Distribution {
    fn from(histogram: &softtimers::Histogram) -> Self {
        let at = |quantile| histogram.quantile(quantile);
        Distribution {
            count: histogram.count(),
            min: histogram.min(),
            p1: at(0.01),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
            mean: histogram.mean(),
            stddev: None,
        }
    }
}

/// Collects values for a [`Distribution`].
///
/// ```
/// use softtimers_measure::distribution::Recorder;
///
/// let mut gaps = Recorder::new();
/// for gap in [40_000, 41_000, 39_000] {
///     gaps.record(gap);
/// }
/// let gaps = gaps.distribution();
/// assert_eq!((gaps.count, gaps.min, gaps.max), (3, Some(39_000), Some(41_000)));
/// assert_eq!(gaps.mean, Some(40_000.0));
/// ```
///
/// # Cost
/// About 260 KB, allocated once; recording takes some 10 ns and never allocates.
#[derive(Clone)]
pub struct Recorder {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    moments: Moments,
}

/// Mean and deviation of any number of values in three words, kept up by Welford's method.
///
/// ```
/// use softtimers_measure::distribution::Moments;
///
/// let mut moments = Moments::default();
/// assert_eq!((moments.mean(), moments.stddev()), (None, None));
/// [39_000, 40_000, 41_000, 40_000].into_iter().for_each(|nanos| moments.record(nanos));
/// assert_eq!(moments.mean(), Some(40_000.0));
/// assert!((moments.stddev().unwrap() - 707.1).abs() < 0.1);
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

impl Moments {
    /// Records one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.take(value as f64);
    }

    /// Takes one value that may be below zero.
    #[inline]
    pub fn record_signed(&mut self, value: i64) {
        self.take(value as f64);
    }

    fn take(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    /// Those of the same values, each of them by so much greater.
    pub fn moved(self, by: i64) -> Self {
        Moments { mean: self.mean + by as f64, ..self }
    }

    /// Takes all that `other` has taken, as if each value had come here.
    pub fn add(&mut self, other: &Moments) {
        let count = self.count + other.count;
        if count == 0 {
            return;
        }
        let share = other.count as f64 / count as f64;
        let distance = other.mean - self.mean;
        self.mean += distance * share;
        self.squares += other.squares + distance * distance * share * self.count as f64;
        self.count = count;
    }

    /// The arithmetic mean; `None` without a value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The standard deviation of the values themselves; `None` without a value.
    pub fn stddev(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).max(0.0).sqrt())
    }
}

impl Recorder {
    /// Creates an empty recorder.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_VALUE, 3).expect("the bounds are constants");
        Recorder { histogram, min: u64::MAX, max: 0, moments: Moments::default() }
    }

    /// Takes one value in nanoseconds. Beyond an hour the percentiles count it as an hour.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.histogram.saturating_record(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
        self.moments.record(nanos);
    }

    /// Takes many values at once, which is cheaper than one after the other: mean and deviation are kept up once for all.
    ///
    /// ```
    /// use softtimers_measure::distribution::Recorder;
    ///
    /// let (mut one, mut all) = (Recorder::new(), Recorder::new());
    /// [40_000, 41_000, 39_000].into_iter().for_each(|gap| one.record(gap));
    /// all.record_all([40_000, 41_000, 39_000]);
    /// assert_eq!(all.distribution().mean, one.distribution().mean);
    /// ```
    #[inline]
    pub fn record_all(&mut self, values: impl IntoIterator<Item = u64>) {
        let mut values = values.into_iter().peekable();
        let Some(&first) = values.peek() else { return };
        // Distances from one of them, so that squares stay small where all are near each other.
        let (base, mut count, mut sum, mut squares) = (first as f64, 0u64, 0.0, 0.0);
        for value in values {
            self.histogram.saturating_record(value);
            self.min = self.min.min(value);
            self.max = self.max.max(value);
            let distance = value as f64 - base;
            count += 1;
            sum += distance;
            squares += distance * distance;
        }
        let mean = sum / count as f64;
        let squares = (squares - sum * mean).max(0.0);
        self.moments.add(&Moments { count, mean: base + mean, squares });
    }

    /// Takes one duration; more than 584 years count as that.
    #[inline]
    pub fn record_duration(&mut self, duration: Duration) {
        self.record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Discards all values.
    pub fn clear(&mut self) {
        self.histogram.reset();
        (self.min, self.max, self.moments) = (u64::MAX, 0, Moments::default());
    }

    /// Returns the number of values recorded.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns whether no value has been recorded.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// Returns the distribution of the values so far.
    pub fn distribution(&self) -> Distribution {
        if self.is_empty() {
            return Distribution::default();
        }
        // The histogram answers with the upper end of a bucket, which may lie beyond the greatest value.
        let at = |quantile| Some(self.histogram.value_at_quantile(quantile).clamp(self.min, self.max));
        Distribution {
            count: self.len(),
            min: Some(self.min),
            p1: at(0.01),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: Some(self.max),
            mean: self.moments.mean(),
            stddev: self.moments.stddev(),
        }
    }
}

impl Recorder {
    /// The distribution function, at shares that show both tails; none without a value. Shares that so few values
    /// cannot tell from the greatest are left out.
    pub fn curve(&self) -> Vec<Quantile> {
        let told = |share: &&f64| !self.is_empty() && (1.0 - **share) * self.len() as f64 >= 1.0;
        let at = |&share: &f64| {
            let ns = self.histogram.value_at_quantile(share).clamp(self.min, self.max);
            Quantile { share, ns }
        };
        SHARES.iter().filter(told).map(at).collect()
    }
}

/// Takes all that `other` has taken. Some 30 µs.
impl AddAssign<&Recorder> for Recorder {
    fn add_assign(&mut self, other: &Recorder) {
        self.histogram.add(&other.histogram).expect("the bounds are the same");
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.moments.add(&other.moments);
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder::new()
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.distribution().fmt(f)
    }
}

/// Even in the middle, and a nine more at a time towards the end.
const SHARES: [f64; 24] = [
    0.0, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99,
    0.995, 0.998, 0.999, 0.9995, 0.9999, 0.999_99,
];
/// An hour: no gap or lateness of a run that is still worth reporting is longer.
const LONGEST_VALUE: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_measured_is_null() {
        let json = serde_json::to_value(Recorder::new().distribution()).unwrap();
        assert_eq!(json["count"], 0);
        assert!(json["p50"].is_null() && json["mean"].is_null());
    }

    #[test]
    fn the_names_are_those_of_the_contract() {
        let mut recorder = Recorder::new();
        recorder.record(1);
        let json = serde_json::to_string(&recorder.distribution()).unwrap();
        let expected =
            r#"{"count":1,"min":1,"p1":1,"p50":1,"p90":1,"p99":1,"p999":1,"max":1,"mean":1.0,"stddev":0.0}"#;
        assert_eq!(json, expected);
    }

    #[test]
    fn a_curve_rises_and_claims_no_more_than_its_values_can_tell() {
        let mut recorder = Recorder::new();
        assert!(recorder.curve().is_empty());
        (1..=1_000u64).for_each(|value| recorder.record(value * 1_000));
        let curve = recorder.curve();
        assert!(curve.is_sorted_by(|one, next| one.share < next.share && one.ns <= next.ns), "{curve:?}");
        let last = curve.last().unwrap();
        assert!(last.share == 0.999 && last.ns.abs_diff(999_000) <= 1_000, "{last:?}");
    }

    #[test]
    fn extremes_are_kept_beyond_the_histogram() {
        let mut recorder = Recorder::new();
        recorder.record(0);
        recorder.record_duration(Duration::MAX);
        let distribution = recorder.distribution();
        assert_eq!((distribution.min, distribution.max), (Some(0), Some(u64::MAX)));
    }

    /// One JSON object may hold percentiles of both histograms: they have one definition, which is that of HdrHistogram.
    #[test]
    fn percentiles_of_both_histograms_are_those_of_hdr_histogram() {
        // Small enough for each value to have a bucket of its own in all of them.
        for count in 1..=32u64 {
            let mut theirs = Histogram::<u64>::new_with_bounds(1, 1_000, 3).unwrap();
            let (mut ours, mut recorder) = (softtimers::Histogram::new(), Recorder::new());
            for value in (0..count).map(|value| value * value % 32) {
                theirs.record(value).unwrap();
                ours.record(value);
                recorder.record(value);
            }
            for thousandth in 0..=1_000 {
                let share = f64::from(thousandth) / 1_000.0;
                let expected = theirs.value_at_quantile(share);
                assert_eq!(ours.quantile(share), Some(expected), "{share} of {count}");
            }
            let (ours, recorded) = (Distribution::from(&ours), recorder.distribution());
            assert_eq!(
                Distribution { stddev: None, ..recorded },
                Distribution { mean: recorded.mean, ..ours }
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn parts_add_up(values in prop::collection::vec(0u64..10_000_000, 1..200), split in 0usize..200) {
            let recorded = |values: &[u64]| {
                let mut recorder = Recorder::new();
                values.iter().for_each(|&value| recorder.record(value));
                recorder
            };
            let (left, right) = values.split_at(split.min(values.len()));
            let mut sum = recorded(&[1, 2, 3]);
            sum.clear();
            sum += &recorded(left);
            sum += &recorded(right);
            let (sum, whole) = (sum.distribution(), recorded(&values).distribution());
            let near = |a: Option<f64>, b: Option<f64>| (a.unwrap() - b.unwrap()).abs() <= 1e-9 * b.unwrap().max(1.0);
            prop_assert!(near(sum.mean, whole.mean) && near(sum.stddev, whole.stddev), "{sum:?}, {whole:?}");
            prop_assert_eq!(Distribution { mean: whole.mean, stddev: whole.stddev, ..sum }, whole);
        }

        #[test]
        fn many_at_once_are_as_one_after_the_other(
            base in 0u64..10_000_000_000,
            values in prop::collection::vec(0u64..10_000_000, 1..200),
            split in 0usize..200,
        ) {
            let values: Vec<u64> = values.into_iter().map(|value| base + value).collect();
            let (mut each, mut all) = (Recorder::new(), Recorder::new());
            values.iter().for_each(|&value| each.record(value));
            let (left, right) = values.split_at(split.min(values.len()));
            all.record_all(left.iter().copied());
            all.record_all(right.iter().copied());
            let (each, all) = (each.distribution(), all.distribution());
            let near = |a: Option<f64>, b: Option<f64>| (a.unwrap() - b.unwrap()).abs() <= 1e-6 * b.unwrap().max(1.0);
            prop_assert!(near(all.mean, each.mean) && near(all.stddev, each.stddev), "{all:?}, {each:?}");
            prop_assert_eq!(Distribution { mean: each.mean, stddev: each.stddev, ..all }, each);
        }

        #[test]
        fn percentiles_are_right_to_a_thousandth(values in prop::collection::vec(0u64..10_000_000, 1..200)) {
            let mut recorder = Recorder::new();
            values.iter().for_each(|&value| recorder.record(value));
            let mut sorted = values;
            sorted.sort_unstable();
            let distribution = recorder.distribution();
            for (quantile, reported) in [(0.01, distribution.p1), (0.5, distribution.p50), (0.99, distribution.p99)] {
                let rank = ((quantile * sorted.len() as f64).ceil() as usize).max(1);
                let exact = sorted[rank - 1];
                prop_assert!(reported.unwrap().abs_diff(exact) <= exact / 1_000 + 1, "{quantile}: {reported:?} for {exact}");
            }
            let mean = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64;
            prop_assert!((distribution.mean.unwrap() - mean).abs() <= 1e-9 * mean.max(1.0));
        }
    }
}
