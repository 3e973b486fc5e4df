//! The clock that everything here runs on, [`Monotonic`], and the comparison of two clocks, [`Sandwich`].

mod sandwich;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use softtimers_core::{Clock, Timestamp};

pub use sandwich::{SAMPLES, Sandwich};

/// `CLOCK_MONOTONIC`: the default clock.
///
/// It never goes back, within a thread or between threads, and does not count time in suspend. The value has
/// no size, so pass it around freely.
///
/// # Cost
///
/// A read is about 20 ns where the kernel's vdso serves the clock source, a system call elsewhere.
///
/// ```
/// # use softtimers_linux::clock as softtimers;
/// use softtimers::Monotonic;
/// use softtimers_core::Clock;
///
/// let clock = Monotonic;
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Monotonic;

impl Monotonic {
    /// Returns the time of a [`std::time::Instant`].
    ///
    /// On Linux an `Instant` is a reading of the same clock. `std` does not expose it, but it can be found from what
    /// `checked_sub` refuses, once per process. Should `std` ever keep it in another form, the difference is measured instead,
    /// with the tightest of 32 sandwiches: the error, tens of nanoseconds, is then the same for every conversion in a process.
    /// Order and differences of converted times are exact in any case, and so is a round trip. An `Instant` before the epoch
    /// gives [`Timestamp::ZERO`].
    ///
    /// # Cost
    ///
    /// A few nanoseconds; the first conversion of a process takes about 2 µs.
    #[inline]
    pub fn timestamp_of(instant: Instant) -> Timestamp {
        let anchor = Anchor::of_process();
        let earlier = || anchor.timestamp.saturating_sub(anchor.instant.duration_since(instant));
        instant.checked_duration_since(anchor.instant).map_or_else(earlier, |after| anchor.timestamp + after)
    }

    /// Returns the [`std::time::Instant`] at `time`, or `None` if `Instant` cannot represent it.
    ///
    /// The inverse of [`timestamp_of`](Monotonic::timestamp_of), at the same cost.
    ///
    /// ```
    /// # use softtimers_linux::clock as softtimers;
    /// use softtimers::Monotonic;
    /// use softtimers_core::Clock;
    ///
    /// let now = Monotonic.now();
    /// let instant = Monotonic::instant_of(now).unwrap();
    /// assert_eq!(Monotonic::timestamp_of(instant), now);
    /// ```
    pub fn instant_of(time: Timestamp) -> Option<Instant> {
        let anchor = Anchor::of_process();
        match time.checked_duration_since(anchor.timestamp) {
            Some(after) => anchor.instant.checked_add(after),
            None => anchor.instant.checked_sub(anchor.timestamp.saturating_duration_since(time)),
        }
    }
}

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(nanos(clock_gettime(ClockId::Monotonic)))
    }

    /// Returns the resolution that `clock_getres` reports: 10⁹, unless the kernel runs without
    /// high-resolution timers.
    fn resolution_hz(&self) -> u64 {
        NANOS_PER_SEC / nanos(clock_getres(ClockId::Monotonic)).max(1)
    }
}

/// One moment on both time lines of this process.
struct Anchor {
    instant: Instant,
    timestamp: Timestamp,
    /// The maximum error of `timestamp`, in nanoseconds.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests hold conversions to it"))]
    error: u64,
}

impl Anchor {
    fn of_process() -> &'static Anchor {
        static ANCHOR: OnceLock<Anchor> = OnceLock::new();
        ANCHOR.get_or_init(|| {
            let tightest = Sandwich::tightest_of(SAMPLES, &Monotonic, read_instant);
            let timestamp = reading_of(tightest.foreign);
            if (tightest.before..=tightest.after).contains(&timestamp) {
                return Anchor { instant: tightest.foreign, timestamp, error: 0 };
            }
            Anchor { instant: tightest.foreign, timestamp: tightest.middle(), error: tightest.error() }
        })
    }
}

/// Returns the reading of the clock that an `Instant` is, if its seconds are an `i64`: whatever would make them less than the
/// least of those cannot be subtracted.
fn reading_of(instant: Instant) -> Timestamp {
    let to_the_least = Duration::from_secs(1 << 63);
    let is_within = |nanos| instant.checked_sub(to_the_least + Duration::from_nanos(nanos)).is_some();
    let nanos = (0..u64::BITS).rev().map(|bit| 1 << bit);
    Timestamp::from_nanos(
        nanos.fold(0, |nanos, bit| if is_within(nanos | bit) { nanos | bit } else { nanos }),
    )
}

#[expect(clippy::disallowed_methods, reason = "the one place where an `Instant` is taken")]
fn read_instant() -> Instant {
    Instant::now()
}

/// Returns the CPU time that this thread has used so far. Interrupts that came meanwhile are included.
///
/// # Cost
/// A system call, 0.2 µs.
pub fn cpu_time() -> Duration {
    // The kernel has this clock for every thread, and its times are not negative.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Converts a time from the kernel: never negative, with nanoseconds below one second.
#[inline]
pub fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * NANOS_PER_SEC + time.tv_nsec as u64
}

/// Nanoseconds of a second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    //= ST-011 (soft timers §3)
    #[test]
    fn time_never_goes_back_in_a_thread_or_between_threads() {
        const THREADS: u64 = 4;
        const READS: u64 = 100_000_000;
        let latest = AtomicU64::new(0);
        let read_many = || {
            let mut last = 0;
            for i in 0..READS / THREADS {
                // A thread that reads after another has published must not see an earlier time.
                let published = if i % 16 == 0 { latest.load(Ordering::Acquire) } else { last };
                let now = Monotonic.now().as_nanos();
                assert!(now >= published, "{now} after another thread saw {published}");
                assert!(now >= last, "{now} after {last}");
                last = now;
                if i % 16 == 8 {
                    latest.fetch_max(now, Ordering::AcqRel);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(read_many);
            }
        });
    }

    //= ST-010 (soft timers §3)
    #[test]
    fn the_resolution_is_the_kernels() {
        let step = clock_getres(ClockId::Monotonic);
        assert_eq!(step.tv_sec, 0);
        assert_eq!(Monotonic.resolution_hz(), NANOS_PER_SEC / step.tv_nsec as u64);
    }

    //= ST-010 (soft timers §3)
    #[test]
    fn a_nanosecond_is_as_long_as_on_the_raw_clock() {
        let raw = || nanos(clock_gettime(ClockId::MonotonicRaw));
        let first = Sandwich::tightest_of(SAMPLES, &Monotonic, raw);
        while Monotonic.now() < first.after + Duration::from_millis(30) {}
        let second = Sandwich::tightest_of(SAMPLES, &Monotonic, raw);
        let ours = second.middle().as_nanos() - first.middle().as_nanos();
        let theirs = second.foreign - first.foreign;
        let allowed = theirs / 1_000 + first.error() + second.error();
        assert!(ours.abs_diff(theirs) <= allowed, "{ours} ns took {theirs} ns of the raw clock");
    }

    #[test]
    fn an_instant_is_placed_between_the_reads_around_it() {
        for _ in 0..1_000 {
            let sandwich = Sandwich::take(&Monotonic, read_instant);
            let placed = Monotonic::timestamp_of(sandwich.foreign);
            let error = Duration::from_nanos(Anchor::of_process().error);
            assert!(placed + error >= sandwich.before, "{placed:?} before {:?}", sandwich.before);
            assert!(placed <= sandwich.after + error, "{placed:?} after {:?}", sandwich.after);
        }
    }

    /// A timer that is set for a reading of this clock may not be early for one that reads `Instant`s.
    #[test]
    fn an_instant_is_converted_to_the_nanosecond() {
        assert_eq!(Anchor::of_process().error, 0);
    }

    #[test]
    fn instants_survive_the_round_trip_on_both_sides_of_the_anchor() {
        let now = read_instant();
        for micros in [0, 1, 777, 1_000_000] {
            for instant in [now + Duration::from_micros(micros), now - Duration::from_micros(micros)] {
                let there = Monotonic::timestamp_of(instant);
                assert_eq!(Monotonic::instant_of(there), Some(instant));
            }
        }
        let gap = Duration::from_nanos(12_345);
        let (one, two) = (Monotonic::timestamp_of(now), Monotonic::timestamp_of(now + gap));
        assert_eq!(two.checked_duration_since(one), Some(gap), "differences are exact");
    }

    #[test]
    fn the_ends_of_the_range_convert_without_panic() {
        for time in [Timestamp::ZERO, Timestamp::MAX] {
            if let Some(instant) = Monotonic::instant_of(time) {
                assert_eq!(Monotonic::timestamp_of(instant), time);
            }
        }
        let far = read_instant().checked_sub(Duration::from_secs(10_000_000_000));
        assert!(far.is_none_or(|instant| Monotonic::timestamp_of(instant) == Timestamp::ZERO));
    }
}
