//! The rate that the path delivers: [`Delivery`], the ACKs of the last three round trips in bins of an eighth.

use std::time::Duration;

use softtimers_core::Timestamp;

/// Bytes acknowledged, over time.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// When the last bin began, and how long each is.
    began: Timestamp,
    width: Duration,
    /// The last bin is the one that is filled now.
    bins: [u64; BINS],
}

impl Delivery {
    pub(super) fn new(now: Timestamp) -> Self {
        Delivery { began: now, width: Duration::from_millis(1), bins: [0; BINS] }
    }

    /// Records acknowledged bytes; `least` is the recent shortest round trip.
    pub(super) fn acked(&mut self, now: Timestamp, bytes: u64, least: Duration) {
        let width = (least / PER_ROUND as u32).max(Duration::from_micros(50));
        // The path has become shorter or longer: counts in bins of another width are useless.
        if width < self.width / 2 || width > self.width * 2 {
            *self = Delivery { began: now, width, bins: [0; BINS] };
        }
        let passed = now.saturating_duration_since(self.began).as_nanos() / self.width.as_nanos();
        let passed = usize::try_from(passed).unwrap_or(usize::MAX);
        if passed >= BINS {
            *self = Delivery { began: now, width: self.width, bins: [0; BINS] };
        } else if passed > 0 {
            self.bins.copy_within(passed.., 0);
            self.bins[BINS - passed..].fill(0);
            self.began += self.width * passed as u32;
        }
        self.bins[BINS - 1] += bytes;
    }

    /// Returns the most bytes acknowledged in one shortest round trip, which is `least`. Eight bins span
    /// between half and twice of it: beyond that they are resized.
    pub(super) fn most(&self, least: Duration) -> f64 {
        let full = &self.bins[..BINS - 1];
        let most = full.windows(PER_ROUND).map(|bins| bins.iter().sum::<u64>()).max().unwrap_or(0);
        most as f64 * (least.as_secs_f64() / (self.width * PER_ROUND as u32).as_secs_f64())
    }
}

/// Bins of a round trip, and of three.
const PER_ROUND: usize = 8;
const BINS: usize = 3 * PER_ROUND + 1;

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST_SPAN: Duration = Duration::from_millis(20);

    #[test]
    fn the_best_round_trip_counts() {
        // Also where the bins are longer or shorter than an eighth.
        for millis in [5, 16, 20] {
            let least = Duration::from_millis(millis);
            let mut delivery = Delivery::new(Timestamp::ZERO);
            let mut now = Timestamp::ZERO;
            // 12 bytes/µs for two round trips, then a third of that for one.
            for (packets, gap) in [(20 * millis, 100), (10 * millis / 3, 300)] {
                for _ in 0..packets {
                    now += Duration::from_micros(gap);
                    delivery.acked(now, 1_200, least);
                }
            }
            let share = delivery.most(least) / (12_000 * millis) as f64;
            assert!((0.98..1.02).contains(&share), "{millis} ms: {share}");
        }
    }

    #[test]
    fn what_is_long_past_does_not_count() {
        let mut delivery = Delivery::new(Timestamp::ZERO);
        delivery.acked(Timestamp::from_micros(10), 1 << 20, LEAST_SPAN);
        for packet in 0..80 {
            delivery.acked(Timestamp::from_micros(100_000 + packet * 1_000), 1_200, LEAST_SPAN);
        }
        let most = delivery.most(LEAST_SPAN);
        assert!((20_000.0..26_000.0).contains(&most), "{most}");
    }
}
