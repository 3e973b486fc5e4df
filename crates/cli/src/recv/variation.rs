//! How much the one-way delay of a flow varies, by clocks that need not agree.
//!
//! A datagram says when it was due, and the kernel when it came. What lies between is the sender's lateness, the
//! path, and the difference of the two clocks, which is unknown; it is the same for all datagrams, so it goes when
//! the least delay of the flow is taken away (packet delay variation, RFC 5481 §4.2). A clock that runs faster than
//! the other does not go: it adds what it gains since the least delay.
//!
//! The least delay is known at the end. So the distances are counted from a reference, the least of the first 16
//! delays, on both sides, and moved by what was less later:
//!
//! ```text
//!                  least                reference
//!   delay ───────────┼─────────────────────┼──────────────────────────────▶
//!   counts           │  below: … ▁ ▂ ▃ ▅ ▇ │ ▇ ▅ ▃ ▂ ▁ …  :above
//!   variation        0 ────────────────────────────────────────────────▶
//! ```
//!
//! Buckets are narrow near the reference, where the delays are; a percentile is right to 3.2% of its distance
//! from there. Least, greatest, mean and deviation are exact, for any number of flows.

use softtimers_core::{Histogram, Timestamp};

use crate::distribution::{Distribution, Moments};

/// The delay of a datagram that was due at `scheduled` by one clock and came at `received` by another, in
/// nanoseconds: it may be anything, for a sender may write anything.
pub fn delay(scheduled: Timestamp, received: Timestamp) -> i64 {
    let delay = i128::from(received.as_nanos()) - i128::from(scheduled.as_nanos());
    delay.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// The delays of one flow.
///
/// ```
/// use softtimers_cli::recv::variation::{Spread, Variation};
///
/// let (mut flow, mut all) = (Variation::default(), Spread::default());
/// let ahead = -5_000_000_000; // the receiver's clock is 5 s behind
/// for delay in [30_000, 10_000, 10_000, 50_000] {
///     flow.record(ahead + delay, &mut all);
/// }
/// let report = flow.report();
/// assert_eq!((report.min, report.p50, report.max), (Some(0), Some(0), Some(40_000)));
/// assert_eq!(report.mean, Some(15_000.0));
/// ```
///
/// # Cost
/// 200 bytes, 16 KB more with percentiles; some 10 ns for each datagram.
#[derive(Clone, Debug)]
pub struct Variation {
    /// The first delays, until they make the reference.
    early: [i64; EARLY],
    count: u64,
    reference: i64,
    least: i64,
    greatest: i64,
    /// Of the distances from the first delay.
    moments: Moments,
    spread: Option<Box<Spread>>,
}

impl Default for Variation {
    /// With percentiles.
    fn default() -> Self {
        Variation { spread: Some(Box::default()), ..Variation::without_percentiles() }
    }
}

impl Variation {
    /// Knows the extremes, the mean and the deviation only.
    pub fn without_percentiles() -> Self {
        Variation {
            early: [0; EARLY],
            count: 0,
            reference: 0,
            least: i64::MAX,
            greatest: i64::MIN,
            moments: Moments::default(),
            spread: None,
        }
    }

    /// A datagram came with this delay; `all` counts those of all flows. Returns by how much the delay exceeds the
    /// least so far.
    #[inline]
    pub fn record(&mut self, delay: i64, all: &mut Spread) -> u64 {
        if self.count == 0 {
            self.early[0] = delay;
        }
        self.moments.record_signed(delay.saturating_sub(self.early[0]));
        self.least = self.least.min(delay);
        self.greatest = self.greatest.max(delay);
        let place = self.count as usize;
        self.count += 1;
        if place < EARLY {
            self.early[place] = delay;
            if place + 1 == EARLY {
                self.reference = self.least;
                self.early.into_iter().for_each(|early| self.spread_out(early, all));
            }
        } else {
            self.spread_out(delay, all);
        }
        delay.abs_diff(self.least)
    }

    #[inline]
    fn spread_out(&mut self, delay: i64, all: &mut Spread) {
        let distance = delay.saturating_sub(self.reference);
        all.record(distance);
        if let Some(spread) = &mut self.spread {
            spread.record(distance);
        }
    }

    /// The mean variation, in nanoseconds; `None` without a delay.
    pub fn mean(&self) -> Option<f64> {
        self.variation().mean()
    }

    /// What has been recorded so far; without percentiles where they are not kept.
    pub fn report(&self) -> Distribution {
        match &self.spread {
            _ if self.count == 0 => Distribution::default(),
            None => self.exact(),
            Some(_) if !self.settled() => {
                let mut spread = Spread::default();
                self.early_variations().for_each(|variation| spread.record(variation));
                spread.percentiles(0, self.exact())
            }
            Some(spread) => spread.percentiles(self.shift(), self.exact()),
        }
    }

    fn exact(&self) -> Distribution {
        let moments = self.variation();
        Distribution {
            count: self.count,
            min: Some(0),
            max: Some(self.greatest.abs_diff(self.least)),
            mean: moments.mean(),
            stddev: moments.stddev(),
            ..Distribution::default()
        }
    }

    /// The moments of the variation.
    fn variation(&self) -> Moments {
        self.moments.moved(self.early[0].saturating_sub(self.least))
    }

    fn settled(&self) -> bool {
        self.count >= EARLY as u64
    }

    /// How far the least delay is below the reference.
    fn shift(&self) -> i64 {
        self.reference.saturating_sub(self.least)
    }

    fn early_variations(&self) -> impl Iterator<Item = i64> + '_ {
        self.early.iter().take(self.count as usize).map(|delay| delay.saturating_sub(self.least))
    }
}

/// Distances from a reference, counted on both sides of it.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    above: Histogram,
    below: Histogram,
}

impl Spread {
    #[inline]
    fn record(&mut self, distance: i64) {
        let side = if distance < 0 { &mut self.below } else { &mut self.above };
        side.record(distance.unsigned_abs());
    }

    /// The variation of the delays of all `flows`, whose distances have been recorded here: each against the
    /// least of its own flow. References differ in how far they are above that; percentiles take the mean.
    pub fn report<'a>(&self, flows: impl Iterator<Item = &'a Variation> + Clone) -> Distribution {
        let flows = flows.filter(|flow| flow.count > 0);
        let (mut moments, mut count, mut max) = (Moments::default(), 0, None);
        for flow in flows.clone() {
            moments.add(&flow.variation());
            count += flow.count;
            max = max.max(Some(flow.greatest.abs_diff(flow.least)));
        }
        let (settled, unsettled): (Vec<_>, Vec<_>) = flows.partition(|flow| flow.settled());
        let weighted: i128 =
            settled.iter().map(|flow| i128::from(flow.shift()) * i128::from(flow.count)).sum();
        let weights: i128 = settled.iter().map(|flow| i128::from(flow.count)).sum();
        let shift = i64::try_from(weighted / weights.max(1)).unwrap_or(i64::MAX);
        let mut spread = self.clone();
        for variation in unsettled.into_iter().flat_map(Variation::early_variations) {
            spread.record(variation.saturating_sub(shift));
        }
        let exact = Distribution {
            count,
            min: max.map(|_| 0),
            max,
            mean: moments.mean(),
            stddev: moments.stddev(),
            ..Distribution::default()
        };
        spread.percentiles(shift, exact)
    }

    /// With the percentiles of the distances and `shift` each.
    fn percentiles(&self, shift: i64, exact: Distribution) -> Distribution {
        let at = |quantile| {
            let distance = self.quantile(quantile)?;
            let variation = u64::try_from(distance.saturating_add(shift)).unwrap_or(0);
            Some(variation.min(exact.max?))
        };
        Distribution { p1: at(0.01), p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), ..exact }
    }

    fn quantile(&self, quantile: f64) -> Option<i64> {
        let (below, above) = (self.below.count(), self.above.count());
        let last = (below + above).checked_sub(1)?;
        let rank = (quantile * last as f64) as u64;
        let signed = |distance| i64::try_from(distance).unwrap_or(i64::MAX);
        // The farthest below comes first.
        match below.checked_sub(rank + 1) {
            Some(from_reference) => at(&self.below, from_reference).map(|distance| -signed(distance)),
            None => at(&self.above, rank - below).map(signed),
        }
    }
}

/// The value with so many before it.
fn at(histogram: &Histogram, rank: u64) -> Option<u64> {
    let last = histogram.count().checked_sub(1)?;
    // Half a rank from either neighbour, so that no rounding matters.
    histogram.quantile((rank as f64 + 0.5) / last.max(1) as f64)
}

/// Enough that one of them has met no queue; the first may have waited for an address or a cold cache.
const EARLY: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(delays: &[i64]) -> (Variation, Spread) {
        let (mut flow, mut all) = (Variation::default(), Spread::default());
        for &delay in delays {
            flow.record(delay, &mut all);
        }
        (flow, all)
    }

    #[test]
    fn nothing_measured_is_null() {
        let (flow, all) = of(&[]);
        assert_eq!(flow.report(), Distribution::default());
        assert_eq!(all.report([flow].iter()), Distribution::default());
    }

    /// Whatever the clocks say: the same path, seen by a receiver an hour ahead or behind.
    #[test]
    fn an_offset_of_the_clocks_makes_no_difference() {
        let delays: Vec<i64> = (0..1_000).map(|number| 20_000 + number * 7_919 % 5_000).collect();
        let reports = [0, 3_600_000_000_000, -3_600_000_000_000].map(|offset: i64| {
            let delays: Vec<i64> = delays.iter().map(|delay| delay + offset).collect();
            of(&delays).0.report()
        });
        assert_eq!((&reports[0], &reports[0]), (&reports[1], &reports[2]));
        assert!(reports[0].p50.unwrap().abs_diff(2_500) < 100, "{:?}", reports[0]);
    }

    /// A delay that falls for good in the middle of the run was a higher variation before.
    #[test]
    fn what_was_less_later_counts_for_what_was_before() {
        let delays: Vec<i64> =
            (0..2_000).map(|number| if number < 1_000 { 21_000_000 } else { 1_000_000 }).collect();
        let (flow, all) = of(&delays);
        for report in [flow.report(), all.report([&flow].into_iter())] {
            assert_eq!((report.max, report.mean.map(f64::round)), (Some(20_000_000), Some(10_000_000.0)));
            assert_eq!(report.p90, Some(20_000_000));
            assert!(report.p1.unwrap() <= 650_000, "{report:?}");
        }
    }

    #[test]
    fn anything_may_be_written_into_a_datagram() {
        let most = Timestamp::from_nanos(u64::MAX);
        assert_eq!((delay(most, Timestamp::ZERO), delay(Timestamp::ZERO, most)), (i64::MIN, i64::MAX));
        let (mut flow, mut all) = (Variation::default(), Spread::default());
        for round in 0..40 {
            let delay = [i64::MIN, i64::MAX, 0, -1][round % 4];
            flow.record(delay, &mut all);
            assert_eq!(flow.report().max, Some(if round == 0 { 0 } else { u64::MAX }));
            all.report([&flow].into_iter());
        }
    }

    /// Flows with few datagrams and many, with percentiles and without.
    #[test]
    fn flows_are_compared_with_their_own_least() {
        let mut all = Spread::default();
        let mut flows: Vec<Variation> = (0..3).map(|_| Variation::without_percentiles()).collect();
        for number in 0..100 {
            flows[0].record(1_000_000 + number % 10, &mut all);
            flows[1].record(-7_000_000 + number % 10, &mut all);
        }
        (0..10).for_each(|number| {
            flows[2].record(90_000_000_000 + number, &mut all);
        });
        let report = all.report(flows.iter());
        assert_eq!((report.count, report.min, report.max), (210, Some(0), Some(9)));
        assert!(report.p50 == Some(4) && (report.mean.unwrap() - 4.5).abs() < 1e-9, "{report:?}");
        assert_eq!((flows[0].report().max, flows[0].report().p50), (Some(9), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn it_agrees_with_the_list(delays in prop::collection::vec(-10_000_000i64..10_000_000, 1..300)) {
            let (flow, all) = of(&delays);
            let least = *delays.iter().min().unwrap();
            let mut exact: Vec<u64> = delays.iter().map(|delay| delay.abs_diff(least)).collect();
            exact.sort_unstable();
            let reference = delays.iter().take(EARLY).min().unwrap().abs_diff(least);
            for report in [flow.report(), all.report([&flow].into_iter())] {
                prop_assert_eq!((report.count, report.max), (exact.len() as u64, exact.last().copied()));
                let mean = exact.iter().sum::<u64>() as f64 / exact.len() as f64;
                prop_assert!((report.mean.unwrap() - mean).abs() <= 1e-6 * mean.max(1.0));
                for (quantile, shown) in [(0.01, report.p1), (0.5, report.p50), (0.99, report.p99)] {
                    let exact = exact[(quantile * (exact.len() - 1) as f64) as usize];
                    let allowed = exact.abs_diff(reference) as f64 * 0.032 + 1.0;
                    prop_assert!(shown.unwrap().abs_diff(exact) as f64 <= allowed, "{report:?}, {quantile}: {exact}");
                }
            }
        }
    }
}
