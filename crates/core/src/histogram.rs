//! A fixed log-linear histogram: constant memory, no allocation while recording, any `u64`.
//!
//! Each power of two is cut into 16 equal buckets, so a bucket is at most 1/16 of its value wide and
//! its midpoint is within 3.2% of anything in it. Below 32 every value has its own bucket.
//!
//! ```text
//!   value   0 1 2 … 31 │ 32 34 36 … 62 │ 64 68 72 … 124 │ 128 136 …
//!   width   1          │ 2             │ 4              │ 8
//! ```

use core::fmt;

/// Counts of `u64` values, usually nanoseconds, in log-linear buckets.
///
/// ```
/// use softtimers_core::Histogram;
///
/// let mut lateness = Histogram::new();
/// for nanos in [800, 900, 1_000, 70_000] {
///     lateness.record(nanos);
/// }
/// assert_eq!((lateness.count(), lateness.max()), (4, Some(70_000)));
/// assert_eq!(lateness.quantile(0.5).map(|n| n.abs_diff(900) < 900 / 30), Some(true));
/// assert_eq!(lateness.share_above(10_000), 0.25);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram: 7.7 KiB, in place.
    pub const fn new() -> Self {
        Histogram { buckets: [0; BUCKETS], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts `value`. O(1), about 2 ns.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts `value` another `times` times. O(1).
    #[inline]
    pub fn record_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.buckets[bucket(value)] += times;
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        // Few values are new extremes, so this rarely writes.
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
    }

    /// Adds all that `other` has counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns what was counted since `earlier`, a clone from before. Its extremes are known within a bucket.
    ///
    /// ```
    /// use softtimers_core::Histogram;
    ///
    /// let mut all = Histogram::new();
    /// all.record(10);
    /// let earlier = all.clone();
    /// all.record(20);
    /// let since = all.since(&earlier);
    /// assert_eq!((since.count(), since.quantile(0.5)), (1, Some(20)));
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut since = Histogram::new();
        for (at, (now, before)) in self.buckets.iter().zip(&earlier.buckets).enumerate() {
            since.record_many(self.middle(at), now.saturating_sub(*before));
        }
        since
    }

    /// Returns the number of recorded values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the least recorded value, exactly.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Returns the greatest recorded value, exactly.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The arithmetic mean, exactly up to rounding.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Returns the least value that the share `q` of all values does not exceed, within 3.2%: of n values the one of
    /// rank ⌈q · n⌉. `q` is clamped to 0..=1.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = rank(q, self.count)?;
        let mut seen = 0;
        for (at, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(self.middle(at));
            }
        }
        None
    }

    /// Iterates over the non-empty buckets, lowest first: a value within 3.2% of those in it, and their
    /// number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counted = self.buckets.iter().enumerate().filter(|&(_, &count)| count > 0);
        counted.map(|(at, &count)| (self.middle(at), count))
    }

    fn middle(&self, bucket: usize) -> u64 {
        let (low, width) = range(bucket);
        (low + (width - 1) / 2).max(self.min).min(self.max)
    }

    /// Returns the share of values in buckets that lie wholly above `threshold`: 0 when empty.
    pub fn share_above(&self, threshold: u64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let above: u64 = self.buckets[bucket(threshold) + 1..].iter().sum();
        above as f64 / self.count as f64
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("min", &self.min())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

/// Returns ⌈q · count⌉, at least 1 and at most `count`; `None` of nothing.
fn rank(q: f64, count: u64) -> Option<u64> {
    let share = q.clamp(0.0, 1.0) * count as f64;
    let whole = share as u64;
    // Without `std` there is no `ceil`.
    let rank = if (whole as f64) < share { whole + 1 } else { whole };
    (count > 0).then(|| rank.clamp(1, count))
}

fn bucket(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let octave = value.ilog2();
    let within = (value >> (octave - LINEAR_BITS)) as usize & (LINEAR - 1);
    EXACT as usize + (octave - LINEAR_BITS - 1) as usize * LINEAR + within
}

/// Returns the least value of a bucket, and how many values it spans.
fn range(bucket: usize) -> (u64, u64) {
    match bucket.checked_sub(EXACT as usize) {
        None => (bucket as u64, 1),
        Some(above) => {
            let shift = (above / LINEAR) as u32 + 1;
            (((above % LINEAR + LINEAR) as u64) << shift, 1 << shift)
        }
    }
}

/// 16 buckets to an octave: 3.2% error for 7.7 KiB, which stays in a core's first-level cache.
const LINEAR_BITS: u32 = 4;
const LINEAR: usize = 1 << LINEAR_BITS;
/// Below this each value has its own bucket.
const EXACT: u64 = 2 * LINEAR as u64;
const BUCKETS: usize = EXACT as usize + (63 - LINEAR_BITS as usize) * LINEAR;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_the_whole_range() {
        let mut next = 0u128;
        for at in 0..BUCKETS {
            let (low, width) = range(at);
            assert_eq!(u128::from(low), next);
            assert_eq!(bucket(low), at);
            next = u128::from(low) + u128::from(width);
        }
        assert_eq!(next, 1 << 64);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn an_empty_one_says_so() {
        let empty = Histogram::new();
        assert_eq!((empty.min(), empty.max(), empty.mean(), empty.quantile(0.5)), (None, None, None, None));
        assert_eq!(empty.share_above(0), 0.0);
    }

    /// Of ten values the ninth is the 90th percentile, and the tenth the 99th.
    #[test]
    fn a_quantile_has_the_rank_that_its_share_fills() {
        let mut ten = Histogram::new();
        (1..=10).for_each(|value| ten.record(value));
        let shown = [0.0, 0.01, 0.1, 0.11, 0.5, 0.51, 0.9, 0.91, 0.99, 1.0].map(|q| ten.quantile(q).unwrap());
        assert_eq!(shown, [1, 1, 1, 2, 5, 6, 9, 10, 10, 10]);
        assert_eq!(
            (ten.quantile(-1.0), ten.quantile(2.0), ten.quantile(f64::NAN)),
            (Some(1), Some(10), Some(1))
        );
        assert_eq!((rank(1.0, u64::MAX), rank(0.5, 0)), (Some(u64::MAX), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn quantiles_are_within_their_bound(
            mut values in prop::collection::vec(prop_oneof![0u64..100, 0u64..1_000_000, any::<u64>()], 1..crate::effort::operations(200) as usize),
            q in 0.0f64..=1.0,
            split in 0usize..200,
        ) {
            let (left, right) = values.split_at(split.min(values.len()));
            let record = |values: &[u64]| {
                let mut histogram = Histogram::new();
                values.iter().for_each(|&value| histogram.record(value));
                histogram
            };
            let mut merged = record(left);
            merged.merge(&record(right));
            prop_assert_eq!(&merged, &record(&values));
            let mut again = Histogram::new();
            merged.iter().for_each(|(value, times)| again.record_many(value, times));
            prop_assert_eq!(again.buckets, merged.buckets);

            values.sort_unstable();
            let exact = values[((q * values.len() as f64).ceil() as usize).max(1) - 1];
            let shown = merged.quantile(q).unwrap();
            prop_assert!(shown.abs_diff(exact) as f64 <= exact as f64 * 0.032 + 0.5, "{} for {}", shown, exact);
            prop_assert_eq!(merged.min(), values.first().copied());
            prop_assert_eq!(merged.max(), values.last().copied());
            let over: Vec<_> = values.iter().filter(|&&value| value > exact).collect();
            prop_assert!(merged.share_above(exact) <= over.len() as f64 / values.len() as f64);
        }
    }
}
