//! Trains with pauses between them: at the rate while on, silent while off.
//!
//! Periods begin at absolute times, and each on period begins a train of its own, so a rate that does
//! not divide the on time shifts nothing:
//!
//! ```text
//!   period  │ on            off       │ on            off       │
//!   places  │0   T   2T  3T           │0   T   2T  3T           │
//!           start                     start + (on + off)
//! ```

use core::time::Duration;

use super::pattern::OnOff;
use crate::{Rate, Timestamp};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Trains {
    rate: Rate,
    on_off: OnOff,
    start: Timestamp,
    at: Timestamp,
    /// Places in each on period: at least the one at its beginning.
    length: u64,
    /// Whole periods before the current place.
    periods: u64,
    /// Places before the current one in its period; less than `length`.
    index: u64,
}

impl Trains {
    pub(super) fn starting(rate: Rate, on_off: OnOff, start: Timestamp) -> Self {
        let length = on_off.train_length(rate);
        Trains { rate, on_off, start, at: start, length, periods: 0, index: 0 }
    }

    pub(super) fn restart(&mut self, start: Timestamp) {
        *self = Trains { start, at: start, periods: 0, index: 0, ..*self };
    }

    /// Sets another rate from `now` on: moves to the next of its places in the same periods.
    pub(super) fn set_rate(&mut self, now: Timestamp, rate: Rate, under_way: bool) {
        *self = Trains::starting(rate, self.on_off, self.start);
        if under_way {
            self.advance(self.places_before(now));
        }
    }

    pub(super) fn place(&self) -> Timestamp {
        self.at
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Moves on by `places`. O(1).
    pub(super) fn advance(&mut self, places: u64) {
        let index = self.index.saturating_add(places);
        self.periods = self.periods.saturating_add(index / self.length);
        self.index = index % self.length;
        let (numerator, denominator) = self.rate.fraction();
        let inside = u128::from(self.index) * u128::from(numerator) / u128::from(denominator);
        // Saturates, as all times do; `inside` is less than the on time.
        let nanos = self.periods.saturating_mul(self.on_off.period_nanos()).saturating_add(inside as u64);
        self.at = self.start + Duration::from_nanos(nanos);
    }

    /// The least number of places after which this is at or past `time`. O(1).
    pub(super) fn places_before(&self, time: Timestamp) -> u64 {
        let elapsed = time.as_nanos().saturating_sub(self.start.as_nanos());
        let period = self.on_off.period_nanos();
        let (numerator, denominator) = self.rate.fraction();
        let inside = u128::from(elapsed % period) * u128::from(denominator);
        // A place at floor(k · T) is before an integral time exactly if k · T is.
        let inside = inside.div_ceil(u128::from(numerator)).min(u128::from(self.length));
        let place = |periods: u64, index: u128| u128::from(periods) * u128::from(self.length) + index;
        let reached = place(elapsed / period, inside);
        let here = place(self.periods, u128::from(self.index));
        u64::try_from(reached.saturating_sub(here)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn trains(packets: u64, on: u64, off: u64, start: u64) -> Trains {
        let on_off = OnOff::new(Duration::from_nanos(on), Duration::from_nanos(off)).unwrap();
        Trains::starting(Rate::per_second(packets).unwrap(), on_off, Timestamp::from_nanos(start))
    }

    /// Three places at 300,000/s fit 10 µs: the fourth would be at its very end.
    #[test]
    fn places_are_multiples_of_the_interval_inside_each_on_period() {
        let mut trains = trains(300_000, 10_000, 5_000, 7);
        let places: Vec<u64> = core::iter::from_fn(|| {
            let place = trains.place().as_nanos();
            trains.advance(1);
            Some(place)
        })
        .take(7)
        .collect();
        assert_eq!(places, [7, 3_340, 6_673, 15_007, 18_340, 21_673, 30_007]);
    }

    #[test]
    fn an_on_period_shorter_than_the_interval_holds_one_place() {
        let mut trains = trains(1_000, 10, 990, 0);
        trains.advance(3);
        assert_eq!(trains.place().as_nanos(), 3_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Leaps and steps reach the same places, and `places_before` is the least number that reaches a
        /// time.
        #[test]
        fn leaps_are_steps(
            packets in 1u64..=1_000_000_000, on in 1u64..20_000, off in 1u64..50_000, done in 0u64..100, ahead in 0u64..300_000,
        ) {
            let mut stepped = trains(packets, on, off, 99);
            (0..done).for_each(|_| stepped.advance(1));
            let mut leapt = trains(packets, on, off, 99);
            leapt.advance(done);
            prop_assert_eq!(&stepped, &leapt);
            let inside = (stepped.place().as_nanos() - 99) % (on + off);
            prop_assert!(inside < on, "{} is in the off period", inside);

            let time = stepped.place() + Duration::from_nanos(ahead);
            let places = stepped.places_before(time);
            leapt.advance(places);
            prop_assert!(leapt.place() >= time);
            if places > 0 {
                stepped.advance(places - 1);
                prop_assert!(stepped.place() < time);
            }
        }
    }
}
