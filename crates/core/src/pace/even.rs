//! Places at equal distances: start, start + T, start + 2 T, …, without rounding drift.

use crate::rate::multiply_divide;
use crate::{Rate, Timestamp};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Even {
    rate: Rate,
    at: Timestamp,
    /// The part of a nanosecond that `at` leaves out, in units of 1 / denominator.
    remainder: u64,
}

impl Even {
    pub(super) fn starting(rate: Rate, at: Timestamp) -> Self {
        Even { rate, at, remainder: 0 }
    }

    pub(super) fn restart(&mut self, at: Timestamp) {
        *self = Even::starting(self.rate, at);
    }

    #[inline]
    pub(super) fn place(&self) -> Timestamp {
        self.at
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Moves on by `places`. O(1).
    #[inline]
    pub(super) fn advance(&mut self, places: u64) {
        let (numerator, denominator) = self.rate.fraction();
        let (nanos, remainder) = if denominator == 1 && places == 1 {
            (numerator, 0)
        } else if let Some(sum) =
            numerator.checked_mul(places).and_then(|product| product.checked_add(self.remainder))
        {
            // A division of 128 bits costs several of 64.
            (sum / denominator, sum % denominator)
        } else {
            let sum = u128::from(numerator) * u128::from(places) + u128::from(self.remainder);
            let nanos = sum / u128::from(denominator);
            (u64::try_from(nanos).unwrap_or(u64::MAX), (sum % u128::from(denominator)) as u64)
        };
        self.at = self.at.after(nanos);
        self.remainder = remainder;
    }

    /// Sets another rate from `now` on. The gap of `places` places that leads to this one keeps its remaining
    /// share, and the number of places behind or ahead stays. O(1).
    pub(super) fn set_rate(&mut self, now: Timestamp, rate: Rate, places: u64) {
        let (old, new) = (self.rate.span_nanos(places), rate.span_nanos(places));
        if rate == self.rate {
            return;
        }
        *self = Even::starting(rate, self.at);
        if old == 0 {
            return;
        }
        let scaled = |nanos| multiply_divide(nanos, new, old);
        let (at, now_nanos) = (self.at.as_nanos(), now.as_nanos());
        self.at = if at > now_nanos {
            // More than a gap remains if the last packets left before their place. What has passed is rounded
            // down: never early.
            let (gaps, remains) = ((at - now_nanos) / old, (at - now_nanos) % old);
            now.after(new.saturating_mul(gaps).saturating_add(new - scaled(old - remains)))
        } else {
            Timestamp::from_nanos(now_nanos.saturating_sub(scaled(now_nanos - at)))
        };
    }

    /// The least number of places after which this is at or past `time`. O(1).
    pub(super) fn places_before(&self, time: Timestamp) -> u64 {
        let gap = time.nanos_since(self.at);
        let (numerator, denominator) = self.rate.fraction();
        if let Some(units) = gap.checked_mul(denominator) {
            return units.saturating_sub(self.remainder).div_ceil(numerator);
        }
        let gap = u128::from(gap);
        let units = (gap * u128::from(denominator)).saturating_sub(u128::from(self.remainder));
        u64::try_from(units.div_ceil(u128::from(numerator))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::NANOS_PER_SEC;
    use core::time::Duration;
    use proptest::prelude::*;

    /// A controller whose rate is unchanged sets it with every packet.
    #[test]
    fn the_same_rate_again_changes_nothing() {
        let rate = Rate::per_second(83_333).unwrap();
        let mut even = Even::starting(rate, Timestamp::ZERO);
        let packets = crate::effort::operations(83_333);
        for _ in 0..packets {
            even.advance(1);
            even.set_rate(even.at.saturating_sub(Duration::from_micros(5)), rate, 1);
        }
        assert_eq!(even.place().as_nanos(), packets * NANOS_PER_SEC / 83_333);
    }

    /// Each packet leaves a third of a gap before its place, and then the rate changes a little: the lead is not
    /// gained anew each time.
    #[test]
    fn who_leaves_early_leaves_no_more_often_when_the_rate_changes() {
        let every = |nanos| Rate::every(Duration::from_nanos(nanos)).unwrap();
        let mut even = Even::starting(every(9_000), Timestamp::from_micros(9));
        let mut now = Timestamp::ZERO;
        for packet in 1..=1_000 {
            now = even.place().saturating_sub(Duration::from_micros(3));
            even.advance(1);
            even.set_rate(now, every(9_000 + packet % 2), 1);
        }
        assert!(now >= Timestamp::from_micros(9 * 1_000 - 3), "{now:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Place k is at floor(k · T), whether reached one by one or in leaps.
        #[test]
        fn schedules_do_not_drift(packets in 1u64..=1_000_000_000, leaps in prop::collection::vec(0u64..10_000, 1..50)) {
            let mut even = Even::starting(Rate::per_second(packets).unwrap(), Timestamp::ZERO);
            let mut place = 0u64;
            for leap in leaps {
                even.advance(leap);
                place += leap;
                let exact = u128::from(place) * u128::from(NANOS_PER_SEC) / u128::from(packets);
                prop_assert_eq!(u128::from(even.place().as_nanos()), exact);
            }
        }

        #[test]
        fn places_before_is_the_least_that_reaches(packets in 1u64..=1_000_000_000, done in 0u64..1_000, gap in 0u64..1_000_000_000) {
            let mut even = Even::starting(Rate::per_second(packets).unwrap(), Timestamp::ZERO);
            even.advance(done);
            let time = even.place() + Duration::from_nanos(gap);
            let places = even.places_before(time);
            let mut after = even.clone();
            after.advance(places);
            prop_assert!(after.place() >= time);
            if places > 0 {
                let mut before = even.clone();
                before.advance(places - 1);
                prop_assert!(before.place() < time);
            }
        }
    }
}
