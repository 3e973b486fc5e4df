//! Time as a value: [`Timestamp`], the [`Clock`] that supplies it, and a clock that a test moves.
//!
//! Nothing in this crate reads a clock. Every operation takes `now`, so that the same code runs
//! under a real loop, a simulator and a test that writes the times down by hand.

use core::cell::Cell;
use core::fmt;
use core::ops::{Add, AddAssign};
use core::time::Duration;

/// A point in time: nanoseconds since the epoch of `CLOCK_MONOTONIC` (about boot).
///
/// Only differences mean anything, and only between times of one machine. The range is 584 years;
/// arithmetic saturates at its ends instead of wrapping, so a far deadline can never come out near.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::Timestamp;
///
/// let sent = Timestamp::from_nanos(5_000);
/// let due = sent + Duration::from_micros(40);
/// assert_eq!(due.as_nanos(), 45_000);
/// assert_eq!(due.saturating_duration_since(sent), Duration::from_micros(40));
/// assert_eq!(Timestamp::MAX + Duration::from_secs(1), Timestamp::MAX);
/// ```
///
/// # `std::time::Instant`
///
/// On Linux an `Instant` is a reading of the same clock, but `std` keeps the number to itself. So a
/// conversion needs the number of one reading, and this crate reads no clock: there is no `From` here.
/// The crate `softtimers` finds that number once per process, and converts both ways, exactly:
/// `Monotonic::timestamp_of(instant)` and `Monotonic::instant_of(timestamp)`. Its `Timers::at` takes either type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The epoch, from which timestamps count.
    pub const ZERO: Timestamp = Timestamp(0);
    /// The end of the range: "never".
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// Makes the time `nanos` nanoseconds after the epoch.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Timestamp(nanos)
    }

    /// Makes the time `micros` microseconds after the epoch; saturates at [`Timestamp::MAX`].
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Timestamp(micros.saturating_mul(1_000))
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `self - earlier`, or zero if `earlier` is later.
    #[inline]
    pub const fn saturating_duration_since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// `self - earlier`, or `None` if `earlier` is later.
    #[inline]
    pub const fn checked_duration_since(self, earlier: Timestamp) -> Option<Duration> {
        match self.0.checked_sub(earlier.0) {
            Some(nanos) => Some(Duration::from_nanos(nanos)),
            None => None,
        }
    }

    /// `self - duration`, or the epoch if that lies before it.
    #[inline]
    pub const fn saturating_sub(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(saturating_nanos(duration)))
    }

    /// `self + nanos`; saturates. For paths on which converting to and from a [`Duration`] would cost more
    /// than everything else.
    #[inline]
    pub(crate) const fn after(self, nanos: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(nanos))
    }

    /// `self - earlier` in nanoseconds, or zero if `earlier` is later.
    #[inline]
    pub(crate) const fn nanos_since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A tick: the unit to which due times are rounded up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tick {
    nanos: u64,
    /// ⌊(2⁶⁴ − 1) ÷ nanos⌋. A division by a variable would be half the cost of scheduling a timer.
    reciprocal: u64,
}

impl Tick {
    /// Returns a tick of `nanos` nanoseconds, at least one.
    pub(crate) const fn new(nanos: u64) -> Self {
        let nanos = if nanos == 0 { 1 } else { nanos };
        Tick { nanos, reciprocal: u64::MAX / nanos }
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.nanos
    }

    /// The first multiple of the tick at or after `time`; saturates.
    #[inline]
    pub(crate) const fn round_up(self, time: u64) -> u64 {
        match self.since(time) {
            0 => time,
            since => time.saturating_add(self.nanos - since),
        }
    }

    /// The time since the last multiple of the tick.
    #[inline]
    const fn since(self, time: u64) -> u64 {
        // The estimated quotient is exact or one too small.
        let estimate = ((time as u128 * self.reciprocal as u128) >> 64) as u64;
        let since = time - estimate * self.nanos;
        if since >= self.nanos { since - self.nanos } else { since }
    }
}

/// Saturates at [`Timestamp::MAX`].
impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    #[inline]
    fn add(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(saturating_nanos(duration)))
    }
}

/// Saturates at [`Timestamp::MAX`].
impl AddAssign<Duration> for Timestamp {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// `12.000040000s`: seconds since the epoch.
impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / NANOS_PER_SEC, self.0 % NANOS_PER_SEC)
    }
}

/// A source of [`Timestamp`]s.
///
/// Implementations must be monotone: no call returns less than an earlier one.
///
/// Soft timers §3 calls these two operations `measure_time` and `measure_resolution`.
pub trait Clock {
    /// Returns the current time.
    #[doc(alias = "measure_time")]
    fn now(&self) -> Timestamp;

    /// Steps per second of this clock: 10⁹ for a clock that counts nanoseconds.
    #[doc(alias = "measure_resolution")]
    fn resolution_hz(&self) -> u64 {
        NANOS_PER_SEC
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn resolution_hz(&self) -> u64 {
        (**self).resolution_hz()
    }
}

/// A clock that only moves when you advance it: for tests and simulations.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{Clock, ManualClock, Timestamp};
///
/// let clock = ManualClock::new(Timestamp::ZERO);
/// clock.advance(Duration::from_micros(3));
/// assert_eq!(clock.now(), Timestamp::from_micros(3));
/// ```
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Cell<Timestamp>,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub const fn new(start: Timestamp) -> Self {
        ManualClock { now: Cell::new(start) }
    }

    /// Moves the clock forward by `step`.
    pub fn advance(&self, step: Duration) {
        self.now.set(self.now.get() + step);
    }

    /// Moves the clock forward to `time`; a time in its past leaves it where it is.
    pub fn advance_to(&self, time: Timestamp) {
        self.now.set(self.now.get().max(time));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.now.get()
    }
}

/// A duration in whole nanoseconds, at most `u64::MAX` (584 years).
#[inline]
pub(crate) const fn saturating_nanos(duration: Duration) -> u64 {
    match duration.as_secs().checked_mul(NANOS_PER_SEC) {
        Some(nanos) => nanos.saturating_add(duration.subsec_nanos() as u64),
        None => u64::MAX,
    }
}

pub(crate) const NANOS_PER_SEC: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Timestamp::MAX + Duration::from_nanos(1), Timestamp::MAX);
        assert_eq!(Timestamp::from_nanos(7) + Duration::MAX, Timestamp::MAX);
        assert_eq!(Timestamp::from_nanos(7).saturating_sub(Duration::MAX), Timestamp::ZERO);
        assert_eq!(Timestamp::from_micros(u64::MAX), Timestamp::MAX);
        let early = Timestamp::from_nanos(1);
        assert_eq!(early.saturating_duration_since(Timestamp::MAX), Duration::ZERO);
        assert_eq!(early.checked_duration_since(Timestamp::MAX), None);
        assert_eq!(Timestamp::MAX.checked_duration_since(early), Some(Duration::from_nanos(u64::MAX - 1)));
    }

    #[test]
    fn rounding_up_keeps_multiples_and_saturates() {
        let up = |nanos, tick| Tick::new(tick).round_up(nanos);
        assert_eq!([up(0, 8), up(1, 8), up(8, 8), up(9, 8)], [0, 8, 8, 16]);
        assert_eq!(up(u64::MAX - 1, 1_000), u64::MAX);
        assert_eq!(up(123, 1), 123);
    }

    #[test]
    fn a_manual_clock_never_goes_back() {
        let clock = ManualClock::new(Timestamp::from_micros(5));
        clock.advance_to(Timestamp::from_micros(2));
        assert_eq!(clock.now(), Timestamp::from_micros(5));
        assert_eq!(clock.resolution_hz(), 1_000_000_000);
    }

    #[test]
    fn debug_shows_seconds() {
        assert_eq!(alloc::format!("{:?}", Timestamp::from_nanos(12_000_040_000)), "12.000040000s");
    }
}
