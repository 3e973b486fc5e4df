//! Packets per second as an exact fraction, so that a long run keeps the rate to the packet.

use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

use crate::Percent;
use crate::time::{NANOS_PER_SEC, saturating_nanos};

/// A rate of departures: one every `numerator / denominator` nanoseconds, exactly.
///
/// 83,333 packets/s is one every 12,000.048 ns; rounding that to 12,000 ns would be wrong by one
/// packet in 21,000. A [`Rate`] keeps the fraction.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::Rate;
///
/// const PACKETS: Rate = Rate::pps(25_000); // of a constant
/// assert_eq!(PACKETS.interval(), Duration::from_micros(40));
/// assert_eq!(Rate::per_second(25_000)?, PACKETS); // of a number from outside
/// assert_eq!(Rate::from(Duration::from_micros(40)), PACKETS);
/// // Soft timers §2.1: full-sized frames at 100 Mbit/s and at 1 Gbit/s.
/// assert_eq!(Rate::of_bits(100_000_000, 1_500)?.interval(), Duration::from_micros(120));
/// assert_eq!(Rate::of_bits(1_000_000_000, 1_500)?.interval(), Duration::from_micros(12));
/// # Ok::<(), softtimers_core::RateError>(())
/// ```
///
/// The units may also be single bytes ([`Rate::bytes`]), where packets of different lengths share one
/// bit rate: see [`Counts`](crate::pace::Counts).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    numerator: NonZeroU64,
    denominator: NonZeroU64,
}

impl Rate {
    /// Makes a rate of this many departures a second, from a constant.
    ///
    /// # Panics
    /// If `packets` is zero or more than 10⁹; a `const` of such a rate does not compile. For numbers from
    /// outside, [`per_second`](Self::per_second) returns an error instead.
    ///
    /// ```compile_fail
    /// const NOTHING: softtimers_core::Rate = softtimers_core::Rate::pps(0);
    /// println!("{NOTHING:?}");
    /// ```
    pub const fn pps(packets: u64) -> Self {
        match Rate::per_second(packets) {
            Ok(rate) => rate,
            Err(_) => panic!("a rate is one to 1,000,000,000 departures a second"),
        }
    }

    /// This many departures a second.
    ///
    /// # Errors
    /// [`RateError`] for zero, or more than 10⁹ a second (one each nanosecond).
    pub const fn per_second(packets: u64) -> Result<Self, RateError> {
        Rate::new(NANOS_PER_SEC, packets)
    }

    /// One departure each `interval`.
    ///
    /// # Errors
    /// [`RateError`] for zero, or more than 584 years.
    pub const fn every(interval: Duration) -> Result<Self, RateError> {
        let nanos = interval.as_nanos();
        if nanos > u64::MAX as u128 {
            return Err(RateError::TooSlow);
        }
        Rate::new(nanos as u64, 1)
    }

    /// Departures of `bytes` each that together make `bits_per_second`.
    ///
    /// # Errors
    /// [`RateError`] for zero of either, more than one departure a nanosecond, or more than 2 GB each.
    pub const fn of_bits(bits_per_second: u64, bytes: u32) -> Result<Self, RateError> {
        match (bytes as u64 * 8).checked_mul(NANOS_PER_SEC) {
            Some(bit_nanos) => Rate::new(bit_nanos, bits_per_second),
            None => Err(RateError::TooSlow),
        }
    }

    /// Returns this share of the rate: that percentage of the departures, in the same time.
    ///
    /// # Errors
    /// [`RateError::Zero`] for 0%, and [`RateError::TooSlow`] if the interval comes to more than 5.8 years.
    pub fn share(self, share: Percent) -> Result<Self, RateError> {
        let (numerator, denominator) = self.fraction();
        let numerator = numerator.checked_mul(100).ok_or(RateError::TooSlow)?;
        let denominator = denominator.checked_mul(u64::from(share.get())).ok_or(RateError::TooSlow)?;
        Rate::fraction_of(numerator, denominator)
    }

    /// Returns the rate of single bytes at `bits_per_second`, for a clock that
    /// [counts bytes](crate::pace::Counts::Bytes). It has no upper limit; from 8 Gbit/s on its
    /// [`interval`](Self::interval) rounds to zero.
    ///
    /// # Errors
    /// [`RateError`] for zero.
    pub const fn bytes(bits_per_second: u64) -> Result<Self, RateError> {
        Rate::fraction_of(8 * NANOS_PER_SEC, bits_per_second)
    }

    pub(crate) const fn new(numerator: u64, denominator: u64) -> Result<Self, RateError> {
        if 0 < numerator && numerator < denominator {
            return Err(RateError::TooFast);
        }
        Rate::fraction_of(numerator, denominator)
    }

    const fn fraction_of(numerator: u64, denominator: u64) -> Result<Self, RateError> {
        match (NonZeroU64::new(numerator), NonZeroU64::new(denominator)) {
            (Some(numerator), Some(denominator)) => Ok(Rate::in_lowest_terms(numerator, denominator)),
            _ => Err(RateError::Zero),
        }
    }

    /// Returns the rate of `departures` in `nanos` nanoseconds, at most one a nanosecond.
    pub(crate) fn mean(nanos: u64, departures: NonZeroU64) -> Self {
        let nanos = NonZeroU64::new(nanos).map_or(departures, |nanos| nanos.max(departures));
        Rate::in_lowest_terms(nanos, departures)
    }

    /// Reduces the fraction, so that equal rates compare equal, and those of whole nanoseconds need no
    /// division.
    const fn in_lowest_terms(numerator: NonZeroU64, denominator: NonZeroU64) -> Self {
        let common = common_divisor(numerator, denominator);
        match (NonZeroU64::new(numerator.get() / common), NonZeroU64::new(denominator.get() / common)) {
            (Some(numerator), Some(denominator)) => Rate { numerator, denominator },
            _ => Rate { numerator, denominator },
        }
    }

    /// The time between departures in nanoseconds, as a fraction: numerator and denominator.
    pub(crate) const fn fraction(self) -> (u64, u64) {
        (self.numerator.get(), self.denominator.get())
    }

    pub(crate) fn slower(self, other: Rate) -> Rate {
        let ((a, b), (c, d)) = (self.fraction(), other.fraction());
        if u128::from(a) * u128::from(d) >= u128::from(c) * u128::from(b) { self } else { other }
    }

    /// Returns the time of `departures` departures, rounded down; at most 584 years.
    pub(crate) fn span_nanos(self, departures: u64) -> u64 {
        multiply_divide(self.numerator.get(), departures, self.denominator.get())
    }

    /// The number of whole intervals in a time.
    pub(crate) fn intervals_in(self, nanos: u64) -> u64 {
        multiply_divide(nanos, self.denominator.get(), self.numerator.get())
    }

    /// The time between departures, rounded down to a nanosecond.
    pub const fn interval(self) -> Duration {
        Duration::from_nanos(self.numerator.get() / self.denominator.get())
    }

    /// Returns the departures a second, for display.
    pub fn packets_per_second(self) -> f64 {
        NANOS_PER_SEC as f64 * self.denominator.get() as f64 / self.numerator.get() as f64
    }
}

/// One departure each interval, which is taken as 1 ns if it is zero, and as 584 years if it is longer.
/// [`Rate::every`] refuses both.
impl From<Duration> for Rate {
    fn from(interval: Duration) -> Self {
        let nanos = NonZeroU64::new(saturating_nanos(interval)).unwrap_or(NonZeroU64::MIN);
        Rate { numerator: nanos, denominator: NonZeroU64::MIN }
    }
}

/// a · b / c, rounded down; saturates. A 128-bit division costs several 64-bit ones, and is rarely needed.
pub(crate) fn multiply_divide(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX),
    }
}

/// Returns the greatest common divisor, by Euclid's algorithm.
const fn common_divisor(a: NonZeroU64, b: NonZeroU64) -> u64 {
    let (mut a, mut b) = (a.get(), b.get());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Why a rate was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RateError {
    /// Zero a second, or an empty packet.
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

    #[test]
    fn intervals_of_the_paper_are_exact() {
        let micros = |bits, bytes| Rate::of_bits(bits, bytes).unwrap().interval().as_nanos();
        assert_eq!(micros(100_000_000, 1_500), 120_000);
        assert_eq!(micros(1_000_000_000, 1_500), 12_000);
        assert_eq!(micros(50_000_000, 1_500), 240_000);
    }

    /// 8,333⅓ and 83,333⅓: the third is kept, and their whole parts are the paper's numbers.
    #[test]
    fn packet_rates_of_the_paper_are_exact() {
        for (bits, packets) in [(100_000_000, 8_333), (1_000_000_000, 83_333)] {
            let rate = Rate::of_bits(bits, 1_500).unwrap();
            assert_eq!(rate.packets_per_second() as u64, packets);
            assert_eq!(rate.intervals_in(NANOS_PER_SEC), packets);
            assert_eq!(rate.intervals_in(3 * NANOS_PER_SEC), 3 * packets + 1);
            assert_eq!(rate.intervals_in(3_000_000 * NANOS_PER_SEC), 1_000_000 * (3 * packets + 1));
        }
    }

    #[test]
    fn bytes_may_come_faster_than_nanoseconds() {
        let of = |bits, bytes| Rate::bytes(bits).unwrap().span_nanos(bytes);
        assert_eq!(of(100_000_000, 1_500), 120_000);
        assert_eq!(of(400_000_000_000, 1_500), 30);
        assert_eq!(Rate::bytes(400_000_000_000).unwrap().interval(), Duration::ZERO);
        assert_eq!(Rate::bytes(400_000_000_000).unwrap().intervals_in(30), 1_500);
        assert_eq!(Rate::bytes(0), Err(RateError::Zero));
        assert_eq!(Rate::bytes(8_000_000), Rate::per_second(1_000_000));
    }

    #[test]
    fn equal_rates_are_equal() {
        let every = |micros| Rate::every(Duration::from_micros(micros));
        assert_eq!(Rate::per_second(25_000), every(40));
        assert_eq!(Rate::of_bits(100_000_000, 1_500), every(120));
        assert_eq!(Rate::per_second(83_333).unwrap().fraction(), (1_000_000_000, 83_333));
    }

    #[test]
    fn rates_of_literals_and_of_intervals_cannot_fail() {
        const LITERAL: Rate = Rate::pps(83_333);
        assert_eq!(Ok(LITERAL), Rate::per_second(83_333));
        assert_eq!(Rate::pps(1_000_000_000).interval(), Duration::from_nanos(1));
        assert_eq!(Ok(Rate::from(Duration::from_micros(40))), Rate::every(Duration::from_micros(40)));
        assert_eq!(Rate::from(Duration::ZERO).interval(), Duration::from_nanos(1));
        assert_eq!(Rate::from(Duration::MAX).interval(), Duration::from_nanos(u64::MAX));
    }

    #[test]
    #[should_panic(expected = "one to 1,000,000,000")]
    fn a_rate_of_nothing_panics() {
        let _ = Rate::pps(core::hint::black_box(0));
    }

    #[test]
    fn a_share_of_a_rate_is_exact() {
        let share =
            |packets, percent| Rate::per_second(packets).unwrap().share(Percent::new(percent).unwrap());
        assert_eq!(share(25_000, 100), Rate::per_second(25_000));
        assert_eq!(share(25_000, 50), Rate::per_second(12_500));
        assert_eq!(share(1, 30).unwrap().fraction(), (10_000_000_000, 3));
        assert_eq!(share(25_000, 0), Err(RateError::Zero));
        let slowest = Rate::every(Duration::from_nanos(u64::MAX)).unwrap();
        assert_eq!(slowest.share(Percent::HALF), Err(RateError::TooSlow));
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
}
