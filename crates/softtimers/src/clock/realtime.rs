//! [`RealtimeOffset`]: converts packet times to monotonic times.
//!
//! The kernel stamps packets with the realtime clock, which counts from 1970 and can be set. Everything
//! else here runs on the monotonic clock. Between two steps of the realtime clock the conversion is one
//! subtraction.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use softtimers_core::Timestamp;

use softtimers_linux::clock::{Monotonic, SAMPLES, Sandwich, nanos};

/// The distance of the realtime clock from [`Monotonic`]: turns the kernel's packet times into [`Timestamp`]s.
///
/// The kernel slews both clocks alike, so their distance is constant until the realtime clock is *stepped*
/// (`date -s`, NTP's first correction, a leap second). It is measured once, and kept for as long as later
/// sandwiches agree with it: packet times keep their order and their exact gaps.
/// [`refresh`](RealtimeOffset::refresh) notices a step.
///
/// A time that was taken before a step and is converted after it is wrong by the step, for example that of a
/// packet that waited in the socket meanwhile. The packet does not show that.
///
/// ```
/// use softtimers::Clock;
/// use softtimers::{Monotonic, RealtimeOffset};
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let start = Monotonic.now();
/// let mut offset = RealtimeOffset::sample();
/// assert!(!offset.refresh(), "nobody set the clock meanwhile");
///
/// let since_1970 = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
/// assert!(offset.monotonic(since_1970) + Duration::from_millis(1) > start);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RealtimeOffset {
    /// Realtime minus monotonic, in nanoseconds.
    offset: i64,
    /// The maximum error of `offset`.
    error: i64,
}

impl RealtimeOffset {
    /// Measures the offset with the tightest of 32 sandwiches, in about 2 µs.
    pub fn sample() -> Self {
        let tightest = Sandwich::tightest_of(SAMPLES, &Monotonic, realtime_nanos);
        Self { offset: offset_from(tightest.foreign, tightest.middle()), error: signed(tightest.error()) }
    }

    /// Measures again if the realtime clock was stepped since the last measurement, and returns whether it
    /// was.
    ///
    /// # Cost
    ///
    /// Three clock reads, about 70 ns.
    pub fn refresh(&mut self) -> bool {
        if self.agrees_with(&Sandwich::take(&Monotonic, realtime_nanos)) {
            return false;
        }
        *self = Self::sample();
        true
    }

    /// Returns the time on the monotonic clock when the realtime clock showed `since_unix_epoch`.
    ///
    /// Accurate to some tens of nanoseconds. A time before boot gives [`Timestamp::ZERO`].
    pub fn monotonic(&self, since_unix_epoch: Duration) -> Timestamp {
        let realtime = i64::try_from(since_unix_epoch.as_nanos()).unwrap_or(i64::MAX);
        Timestamp::from_nanos(u64::try_from(realtime.saturating_sub(self.offset)).unwrap_or(0))
    }

    /// Returns whether `sandwich` is consistent with this offset.
    fn agrees_with(&self, sandwich: &Sandwich<u64>) -> bool {
        let least = offset_from(sandwich.foreign, sandwich.after).saturating_sub(self.error);
        let most = offset_from(sandwich.foreign, sandwich.before).saturating_add(self.error);
        (least..=most).contains(&self.offset)
    }
}

fn realtime_nanos() -> u64 {
    nanos(clock_gettime(ClockId::Realtime))
}

/// `foreign - ours`; both are below 2⁶³ ns, which is the year 2262.
fn offset_from(foreign: u64, ours: Timestamp) -> i64 {
    signed(foreign).saturating_sub(signed(ours.as_nanos()))
}

fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realtime_is_placed_between_the_reads_around_it() {
        let offset = RealtimeOffset::sample();
        for _ in 0..1_000 {
            let sandwich = Sandwich::take(&Monotonic, realtime_nanos);
            assert!(offset.agrees_with(&sandwich));
            let placed = offset.monotonic(Duration::from_nanos(sandwich.foreign));
            let error = Duration::from_nanos(offset.error as u64);
            assert!(placed + error >= sandwich.before && placed <= sandwich.after + error);
        }
    }

    #[test]
    fn a_step_of_the_realtime_clock_is_noticed() {
        let truth = RealtimeOffset::sample();
        let mut stepped = RealtimeOffset { offset: truth.offset - 1_000_000_000, ..truth };
        assert!(stepped.refresh(), "a second off");
        assert!(stepped.offset.abs_diff(truth.offset) <= (stepped.error + truth.error) as u64);
        assert!(!stepped.refresh(), "and is right again");
    }

    #[test]
    fn realtime_outside_the_range_saturates() {
        let offset = RealtimeOffset { offset: 1_000, error: 0 };
        assert_eq!(offset.monotonic(Duration::from_nanos(999)), Timestamp::ZERO);
        assert_eq!(offset.monotonic(Duration::from_nanos(1_007)), Timestamp::from_nanos(7));
        assert_eq!(offset.monotonic(Duration::MAX), Timestamp::from_nanos(i64::MAX as u64 - 1_000));
    }
}
