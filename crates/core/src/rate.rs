//! Packets per second as an exact fraction, so that a long run keeps the rate to the packet.

use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

use crate::Timestamp;
use crate::time::NANOS_PER_SEC;

/// A rate of departures: one every `numerator / denominator` nanoseconds, exactly.
///
/// 83,333 packets/s is one every 12,000.048 ns; rounding that to 12,000 ns would be wrong by one
/// packet in 21,000. A [`Rate`] keeps the fraction.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::Rate;
///
/// assert_eq!(Rate::per_second(25_000)?.interval(), Duration::from_micros(40));
/// // Soft timers §2.1: full-sized frames at 100 Mbit/s and at 1 Gbit/s.
/// assert_eq!(Rate::of_bits(100_000_000, 1_500)?.interval(), Duration::from_micros(120));
/// assert_eq!(Rate::of_bits(1_000_000_000, 1_500)?.interval(), Duration::from_micros(12));
/// # Ok::<(), softtimers_core::RateError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    numerator: NonZeroU64,
    denominator: NonZeroU64,
}

impl Rate {
    /// This many departures a second.
    ///
    /// # Errors
    /// [`RateError`] for zero, or more than 10⁹ a second (one each nanosecond).
    pub fn per_second(packets: u64) -> Result<Self, RateError> {
        Rate::new(NANOS_PER_SEC, packets)
    }

    /// One departure each `interval`.
    ///
    /// # Errors
    /// [`RateError`] for zero, or more than 584 years.
    pub fn every(interval: Duration) -> Result<Self, RateError> {
        let nanos = u64::try_from(interval.as_nanos()).map_err(|_| RateError::TooSlow)?;
        Rate::new(nanos, 1)
    }

    /// Departures of `bytes` each that together make `bits_per_second`.
    ///
    /// # Errors
    /// [`RateError`] for zero of either, more than one departure a nanosecond, or more than 2 GB each.
    pub fn of_bits(bits_per_second: u64, bytes: u32) -> Result<Self, RateError> {
        let bit_nanos = (u64::from(bytes) * 8).checked_mul(NANOS_PER_SEC).ok_or(RateError::TooSlow)?;
        Rate::new(bit_nanos, bits_per_second)
    }

    fn new(numerator: u64, denominator: u64) -> Result<Self, RateError> {
        let denominator = NonZeroU64::new(denominator).ok_or(RateError::Zero)?;
        let numerator = NonZeroU64::new(numerator).ok_or(RateError::Zero)?;
        if numerator < denominator {
            return Err(RateError::TooFast);
        }
        Ok(Rate { numerator, denominator })
    }

    /// The time between departures, rounded down to a nanosecond.
    pub const fn interval(self) -> Duration {
        Duration::from_nanos(self.numerator.get() / self.denominator.get())
    }

    /// Departures a second, for people.
    pub fn packets_per_second(self) -> f64 {
        NANOS_PER_SEC as f64 * self.denominator.get() as f64 / self.numerator.get() as f64
    }
}

/// The arithmetic schedule of a [`Rate`]: start, start + T, start + 2 T, …, without rounding drift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Schedule {
    rate: Rate,
    at: Timestamp,
    /// The part of a nanosecond that `at` leaves out, in units of 1 / denominator.
    remainder: u64,
}

impl Schedule {
    pub(crate) fn starting(rate: Rate, at: Timestamp) -> Self {
        Schedule { rate, at, remainder: 0 }
    }

    /// The current place in the schedule.
    pub(crate) fn at(&self) -> Timestamp {
        self.at
    }

    /// Moves on by `places`.
    pub(crate) fn advance(&mut self, places: u64) {
        let (numerator, denominator) = (self.rate.numerator.get(), self.rate.denominator.get());
        let (nanos, remainder) = if denominator == 1 && places == 1 {
            (numerator, 0)
        } else {
            let sum = u128::from(numerator) * u128::from(places) + u128::from(self.remainder);
            let nanos = sum / u128::from(denominator);
            (u64::try_from(nanos).unwrap_or(u64::MAX), (sum % u128::from(denominator)) as u64)
        };
        self.at += Duration::from_nanos(nanos);
        self.remainder = remainder;
    }

    /// The least number of places after which the schedule is at or past `time`.
    pub(crate) fn places_until(&self, time: Timestamp) -> u64 {
        let gap = u128::from(time.as_nanos().saturating_sub(self.at.as_nanos()));
        let (numerator, denominator) = (self.rate.numerator.get(), self.rate.denominator.get());
        let units = (gap * u128::from(denominator)).saturating_sub(u128::from(self.remainder));
        u64::try_from(units.div_ceil(u128::from(numerator))).unwrap_or(u64::MAX)
    }
}

/// Why a rate was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RateError {
    /// Nothing a second, or nothing in a packet.
    Zero,
    /// More than one departure a nanosecond.
    TooFast,
    /// Beyond 64 bits of nanoseconds: less than one departure in 584 years, or packets over 2 GB.
    TooSlow,
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RateError::Zero => "a rate must be above zero",
            RateError::TooFast => "a rate is at most one departure a nanosecond",
            RateError::TooSlow => "a rate is at least one departure in 584 years, of at most 2 GB",
        })
    }
}

impl core::error::Error for RateError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn intervals_of_the_paper_are_exact() {
        let micros = |bits, bytes| Rate::of_bits(bits, bytes).unwrap().interval().as_nanos();
        assert_eq!(micros(100_000_000, 1_500), 120_000);
        assert_eq!(micros(1_000_000_000, 1_500), 12_000);
        assert_eq!(micros(50_000_000, 1_500), 240_000);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        assert_eq!(Rate::per_second(0), Err(RateError::Zero));
        assert_eq!(Rate::per_second(1_000_000_001), Err(RateError::TooFast));
        assert_eq!(Rate::every(Duration::ZERO), Err(RateError::Zero));
        assert_eq!(Rate::every(Duration::MAX), Err(RateError::TooSlow));
        assert_eq!(Rate::of_bits(1_000, 0), Err(RateError::Zero));
        assert_eq!(Rate::of_bits(0, 1_500), Err(RateError::Zero));
        assert_eq!(Rate::of_bits(u64::MAX, 1_500), Err(RateError::TooFast));
        assert_eq!(Rate::of_bits(1, u32::MAX), Err(RateError::TooSlow));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Place k is at floor(k · T), whether reached one by one or in leaps.
        #[test]
        fn schedules_do_not_drift(packets in 1u64..=1_000_000_000, leaps in prop::collection::vec(0u64..10_000, 1..50)) {
            let mut schedule = Schedule::starting(Rate::per_second(packets).unwrap(), Timestamp::ZERO);
            let mut place = 0u64;
            for leap in leaps {
                schedule.advance(leap);
                place += leap;
                let exact = u128::from(place) * u128::from(NANOS_PER_SEC) / u128::from(packets);
                prop_assert_eq!(u128::from(schedule.at().as_nanos()), exact);
            }
        }

        #[test]
        fn places_until_is_the_least_that_reaches(packets in 1u64..=1_000_000_000, done in 0u64..1_000, gap in 0u64..1_000_000_000) {
            let mut schedule = Schedule::starting(Rate::per_second(packets).unwrap(), Timestamp::ZERO);
            schedule.advance(done);
            let time = schedule.at() + Duration::from_nanos(gap);
            let places = schedule.places_until(time);
            let mut after = schedule;
            after.advance(places);
            prop_assert!(after.at() >= time);
            if places > 0 {
                let mut before = schedule;
                before.advance(places - 1);
                prop_assert!(before.at() < time);
            }
        }
    }
}
