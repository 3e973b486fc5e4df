//! Packet delay variation: how much the one-way delay of a flow varies, by clocks that need not agree.
//!
//! A datagram carries its due time, and the kernel stamps its arrival. The difference is the sender's lateness, the
//! path's delay, and the unknown offset of the two clocks. The offset is the same for all datagrams, so subtracting the
//! flow's minimum delay cancels it (packet delay variation, RFC 5481 §4.2). A drift between the clocks does not cancel:
//! it adds what has accumulated since the minimum.
//!
//! The minimum delay is known only at the end. So delays are counted by their distance from a reference, the minimum of
//! the first 16, with a separate histogram for those below it. Whenever their number has doubled, the reference moves
//! to the minimum so far:
//!
//! ```text
//!                  least                reference
//!   delay ───────────┼─────────────────────┼──────────────────────────────▶
//!   counts           │  below: … ▁ ▂ ▃ ▅ ▇ │ ▇ ▅ ▃ ▂ ▁ …  :above
//!   variation        0 ────────────────────────────────────────────────▶
//! ```
//!
//! Buckets are narrow near the reference, where most delays are: a percentile is accurate to 3.2% of itself plus 3.2%
//! of its distance from the reference. Minimum, maximum, mean and deviation are exact, for any number of flows.

use softtimers_core::{Histogram, Timestamp};

use softtimers_measure::distribution::{Distribution, Moments};

/// Returns the delay of a datagram due at `scheduled` by one clock and received at `received` by another, in
/// nanoseconds: any value is possible, since a sender may write any time.
pub(crate) fn delay(scheduled: Timestamp, received: Timestamp) -> i64 {
    let delay = i128::from(received.as_nanos()) - i128::from(scheduled.as_nanos());
    delay.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// The delays of one flow.
///
/// # Cost
/// 200 bytes, 16 KB more with percentiles; some 10 ns for each datagram.
#[derive(Clone, Debug)]
pub(crate) struct Variation {
    /// The first delays, until they determine the reference.
    early: [i64; EARLY],
    count: u64,
    least: i64,
    greatest: i64,
    /// Moments of the distances from the first delay.
    moments: Moments,
    spread: Option<Box<Spread>>,
}

impl Default for Variation {
    /// Keeps percentiles, too.
    fn default() -> Self {
        Variation { spread: Some(Box::default()), ..Variation::without_percentiles() }
    }
}

impl Variation {
    /// Creates it with extremes, mean and deviation only.
    pub(crate) fn without_percentiles() -> Self {
        Variation {
            early: [0; EARLY],
            count: 0,
            least: i64::MAX,
            greatest: i64::MIN,
            moments: Moments::default(),
            spread: None,
        }
    }

    /// Records a datagram's delay, also in `all`. Returns by how much it exceeds the minimum so far; the first ones are
    /// recorded when there are 16.
    #[inline]
    pub(crate) fn record(&mut self, delay: i64, all: &mut Histogram) -> u64 {
        if self.count == 0 {
            self.early[0] = delay;
        }
        self.moments.record_signed(delay.saturating_sub(self.early[0]));
        self.least = self.least.min(delay);
        self.greatest = self.greatest.max(delay);
        let place = self.count as usize;
        self.count += 1;
        if place >= EARLY {
            all.record(delay.abs_diff(self.least));
            if let Some(spread) = &mut self.spread {
                spread.record(delay);
                if self.count.is_power_of_two() {
                    spread.move_to(self.least);
                }
            }
        } else {
            self.early[place] = delay;
            if place + 1 == EARLY {
                self.settle(all);
            }
        }
        delay.abs_diff(self.least)
    }

    fn settle(&mut self, all: &mut Histogram) {
        self.early.iter().for_each(|early| all.record(early.abs_diff(self.least)));
        if let Some(spread) = &mut self.spread {
            spread.move_to(self.least);
            self.early.iter().for_each(|&early| spread.record(early));
        }
    }

    /// Returns the mean variation in nanoseconds; `None` without a delay.
    pub(crate) fn mean(&self) -> Option<f64> {
        self.variation().mean()
    }

    /// Returns the findings so far; without percentiles where they are not kept.
    pub(crate) fn report(&self) -> Distribution {
        let exact = exact(self.count, self.greatest.abs_diff(self.least), &self.variation());
        if self.spread.is_some() { with_percentiles(&self.counted(), exact) } else { exact }
    }

    /// Returns the moments of the variation.
    fn variation(&self) -> Moments {
        self.moments.moved(self.early[0].saturating_sub(self.least))
    }

    fn is_settled(&self) -> bool {
        self.count >= EARLY as u64
    }

    /// Returns the variation of each delay; none without percentiles, once there are more than the early ones.
    fn counted(&self) -> Histogram {
        match &self.spread {
            Some(spread) if self.is_settled() => spread.distances_from(self.least),
            _ if self.is_settled() => Histogram::new(),
            _ => {
                let mut counted = Histogram::new();
                let early = self.early.iter().take(self.count as usize);
                early.for_each(|early| counted.record(early.abs_diff(self.least)));
                counted
            }
        }
    }
}

/// Returns the variation of the delays of all `flows`, each relative to its own flow's minimum. If some flow has no
/// percentiles, `all` supplies them, relative to the minimum so far.
pub(crate) fn over<'a>(flows: impl Iterator<Item = &'a Variation>, all: &Histogram) -> Distribution {
    let (mut count, mut greatest, mut moments) = (0, 0, Moments::default());
    let (mut own, mut common, mut all_known) = (Histogram::new(), all.clone(), true);
    for flow in flows.filter(|flow| flow.count > 0) {
        count += flow.count;
        greatest = greatest.max(flow.greatest.abs_diff(flow.least));
        moments.add(&flow.variation());
        all_known &= flow.spread.is_some();
        let counted = flow.counted();
        own.merge(&counted);
        if !flow.is_settled() {
            common.merge(&counted);
        }
    }
    with_percentiles(if all_known { &own } else { &common }, exact(count, greatest, &moments))
}

fn exact(count: u64, greatest: u64, moments: &Moments) -> Distribution {
    Distribution {
        count,
        min: (count > 0).then_some(0),
        max: (count > 0).then_some(greatest),
        mean: moments.mean(),
        stddev: moments.stddev(),
        ..Distribution::default()
    }
}

fn with_percentiles(counted: &Histogram, exact: Distribution) -> Distribution {
    let at = |quantile| counted.quantile(quantile).zip(exact.max).map(|(value, max)| value.min(max));
    Distribution { p1: at(0.01), p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), ..exact }
}

/// Delays, counted by their distance from a reference on either side.
#[derive(Clone, Debug, Default)]
struct Spread {
    reference: i64,
    above: Histogram,
    below: Histogram,
}

impl Spread {
    #[inline]
    fn record(&mut self, delay: i64) {
        let side = if delay < self.reference { &mut self.below } else { &mut self.above };
        side.record(delay.abs_diff(self.reference));
    }

    /// Moves the reference to the minimum of all delays. Delays already counted are moved, which adds an error of 3.2%.
    ///
    /// # Cost
    /// 2,000 additions, if there is another reference.
    fn move_to(&mut self, least: i64) {
        if least != self.reference {
            *self = Spread { reference: least, above: self.distances_from(least), below: Histogram::new() };
        }
    }

    /// Returns the distances from the minimum of all delays.
    fn distances_from(&self, least: i64) -> Histogram {
        if least == self.reference {
            return self.above.clone();
        }
        let mut moved = Histogram::new();
        let shift = self.reference.abs_diff(least);
        // The middle of a bucket may lie beyond the minimum.
        self.below.iter().for_each(|(under, times)| moved.record_many(shift.saturating_sub(under), times));
        self.above.iter().for_each(|(over, times)| moved.record_many(shift.saturating_add(over), times));
        moved
    }
}

/// Enough for a first reference; the first delay may include address resolution or a cold cache.
const EARLY: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_least_delay_is_none() {
        let (mut flow, mut all) = (Variation::default(), Histogram::new());
        let ahead = -5_000_000_000; // the receiver's clock is 5 s behind
        for delay in [30_000, 10_000, 10_000, 50_000] {
            flow.record(ahead + delay, &mut all);
        }
        let report = flow.report();
        assert_eq!((report.min, report.p50, report.max), (Some(0), Some(0), Some(40_000)));
        assert_eq!(report.mean, Some(15_000.0));
    }

    fn recorded(delays: &[i64]) -> (Variation, Histogram) {
        let (mut flow, mut all) = (Variation::default(), Histogram::new());
        for &delay in delays {
            flow.record(delay, &mut all);
        }
        (flow, all)
    }

    #[test]
    fn nothing_measured_is_null() {
        let (flow, all) = recorded(&[]);
        assert_eq!(flow.report(), Distribution::default());
        assert_eq!(over([&flow].into_iter(), &all), Distribution::default());
    }

    /// The same path gives the same result for a receiver whose clock is an hour ahead or behind.
    #[test]
    fn an_offset_of_the_clocks_makes_no_difference() {
        let delays: Vec<i64> = (0..1_000).map(|number| 20_000 + number * 7_919 % 5_000).collect();
        let reports = [0, 3_600_000_000_000, -3_600_000_000_000].map(|offset: i64| {
            let delays: Vec<i64> = delays.iter().map(|delay| delay + offset).collect();
            recorded(&delays).0.report()
        });
        assert_eq!((&reports[0], &reports[0]), (&reports[1], &reports[2]));
        assert!(reports[0].p50.unwrap().abs_diff(2_500) < 100, "{:?}", reports[0]);
    }

    /// When the delay drops for good in the middle of a run, the earlier delays count as variation.
    #[test]
    fn what_was_less_later_counts_for_what_was_before() {
        let delays: Vec<i64> =
            (0..2_000).map(|number| if number < 1_000 { 21_000_000 } else { 1_000_000 }).collect();
        let (flow, all) = recorded(&delays);
        for report in [flow.report(), over([&flow].into_iter(), &all)] {
            assert_eq!((report.max, report.mean.map(f64::round)), (Some(20_000_000), Some(10_000_000.0)));
            assert_eq!(report.p90, Some(20_000_000));
            assert!(report.p1.unwrap() <= 650_000, "{report:?}");
        }
    }

    /// A sender that begins late and catches up: its first delays are all large, and so is the reference.
    #[test]
    fn a_bad_beginning_costs_no_precision() {
        let jitter = |number: i64| 3_000 + number * 7_919 % 2_000;
        let delays = (0..10_000).map(|number| jitter(number) + (1_000 - number).max(0) * 10_000);
        let report = recorded(&delays.collect::<Vec<_>>()).0.report();
        assert_eq!(report.max, Some((jitter(0) - 3_000 + 10_000_000) as u64));
        assert!(report.p50.unwrap().abs_diff(1_110) < 70, "{report:?}");
        let p99 = report.p99.unwrap() as f64;
        assert!((p99 / 9_000_000.0 - 1.0).abs() < 0.07, "{report:?}");
    }

    #[test]
    fn anything_may_be_written_into_a_datagram() {
        let most = Timestamp::from_nanos(u64::MAX);
        assert_eq!((delay(most, Timestamp::ZERO), delay(Timestamp::ZERO, most)), (i64::MIN, i64::MAX));
        let (mut flow, mut all) = (Variation::default(), Histogram::new());
        for round in 0..40 {
            let delay = [i64::MIN, i64::MAX, 0, -1][round % 4];
            flow.record(delay, &mut all);
            assert_eq!(flow.report().max, Some(if round == 0 { 0 } else { u64::MAX }));
            over([&flow].into_iter(), &all);
        }
    }

    /// Flows with few datagrams and many, with percentiles and without.
    #[test]
    fn flows_are_compared_with_their_own_least() {
        let mut all = Histogram::new();
        let mut flows: Vec<Variation> = (0..3).map(|_| Variation::without_percentiles()).collect();
        for number in 0..100 {
            flows[0].record(1_000_000 + number % 10, &mut all);
            flows[1].record(-7_000_000 + number % 10, &mut all);
        }
        (0..10).for_each(|number| {
            flows[2].record(90_000_000_000 + number, &mut all);
        });
        let report = over(flows.iter(), &all);
        assert_eq!((report.count, report.min, report.max), (210, Some(0), Some(9)));
        assert!(report.p50 == Some(4) && (report.mean.unwrap() - 4.5).abs() < 1e-9, "{report:?}");
        assert_eq!((flows[0].report().max, flows[0].report().p50), (Some(9), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn it_agrees_with_the_list(delays in prop::collection::vec(-10_000_000i64..10_000_000, 1..300)) {
            let (flow, all) = recorded(&delays);
            let least = *delays.iter().min().unwrap();
            let mut exact: Vec<u64> = delays.iter().map(|delay| delay.abs_diff(least)).collect();
            exact.sort_unstable();
            for report in [flow.report(), over([&flow].into_iter(), &all)] {
                prop_assert_eq!((report.count, report.max), (exact.len() as u64, exact.last().copied()));
                let mean = exact.iter().sum::<u64>() as f64 / exact.len() as f64;
                prop_assert!((report.mean.unwrap() - mean).abs() <= 1e-6 * mean.max(1.0));
                for (quantile, shown) in [(0.01, report.p1), (0.5, report.p50), (0.99, report.p99)] {
                    let exact = exact[(quantile * exact.len() as f64).ceil() as usize - 1];
                    // The reference has moved at most four times: at 32, 64, 128 and 256.
                    let allowed = report.max.unwrap() as f64 * 0.032 * 6.0 + 1.0;
                    prop_assert!(shown.unwrap().abs_diff(exact) as f64 <= allowed, "{report:?}, {quantile}: {exact}");
                }
            }
        }
    }
}
