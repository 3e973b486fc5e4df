//! The clock of a runtime's timers: tokio's, which is `std`'s, which is `CLOCK_MONOTONIC`.
//!
//! Deadlines are tokio's `Instant`s in the API and [`Timestamp`]s inside. Both are readings of the same
//! clock, so a deadline that has passed for the program has passed for the timers, to the nanosecond. They
//! differ only in a test that pauses tokio's clock, which this module detects.

use std::time::Duration;

#[cfg(target_os = "linux")]
use softtimers::Monotonic;
#[cfg(target_os = "linux")]
use softtimers_core::Clock as _;
use softtimers_core::Timestamp;
use tokio::time::Instant;

/// The time.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The time, as a timestamp. A clock that cannot be paused is read without `std`'s arithmetic.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn timestamp() -> Timestamp {
    if PAUSABLE { timestamp_of(now()) } else { Monotonic.now() }
}

/// Returns the time on the clock of these timers and of their [`RateClock`](crate::RateClock)s, to the
/// nanosecond.
#[cfg(target_os = "linux")]
#[inline]
pub fn timestamp_of(instant: Instant) -> Timestamp {
    Monotonic::timestamp_of(instant.into_std())
}

/// Reverses [`timestamp_of`]; far ahead if `Instant` cannot represent it.
#[cfg(target_os = "linux")]
pub fn instant_of(time: Timestamp) -> Instant {
    Monotonic::instant_of(time).map_or_else(far_future, Instant::from_std)
}

/// Where no timer needs the kernel's epoch, the first call sets one.
#[cfg(not(target_os = "linux"))]
mod epoch {
    use std::sync::OnceLock;

    use super::{Instant, Timestamp, far_future};

    static EPOCH: OnceLock<Instant> = OnceLock::new();

    pub(crate) fn timestamp() -> Timestamp {
        timestamp_of(super::now())
    }

    /// Returns the time on the clock of these timers and of their [`RateClock`](crate::RateClock)s.
    pub fn timestamp_of(instant: Instant) -> Timestamp {
        Timestamp::ZERO + instant.saturating_duration_since(*EPOCH.get_or_init(super::now))
    }

    /// Reverses [`timestamp_of`].
    pub fn instant_of(time: Timestamp) -> Instant {
        let after = time.saturating_duration_since(Timestamp::ZERO);
        EPOCH.get_or_init(super::now).checked_add(after).unwrap_or_else(far_future)
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) use epoch::timestamp;
#[cfg(not(target_os = "linux"))]
pub use epoch::{instant_of, timestamp_of};

/// `duration` from now, or far ahead.
pub(crate) fn after(duration: Duration) -> Instant {
    now() + duration.min(FAR)
}

/// Later than any program runs, with room for additions: tokio's value too.
pub(crate) fn far_future() -> Instant {
    now() + FAR
}

/// Thirty years.
pub(crate) const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

/// Whether tokio was built so that its clock can be paused. No `cfg` shows a crate the features of another
/// (`test-util` here), but name resolution does: the name below is `tokio::time::pause`, which returns
/// nothing, or without that the local one.
pub(crate) const PAUSABLE: bool = {
    #[allow(unused_imports)]
    use tokio::time::*;
    size_of_answer(pause) == 0
};

#[allow(dead_code)]
fn pause() -> bool {
    false
}

const fn size_of_answer<T>(_: fn() -> T) -> usize {
    size_of::<T>()
}

/// Returns whether the clock of this runtime is paused now.
#[cfg(all(target_os = "linux", feature = "test-util"))]
#[expect(clippy::disallowed_methods, reason = "tokio's clock is compared with the real one")]
pub(crate) fn stands_still() -> bool {
    let (before, real) = (now(), std::time::Instant::now());
    while real == std::time::Instant::now() {
        std::hint::spin_loop();
    }
    now() == before
}

/// Off Linux nobody needs to know.
#[cfg(not(target_os = "linux"))]
pub(crate) fn was_paused() -> bool {
    false
}

/// Returns whether the clock of this runtime was paused: tokio's time then does not lie between two readings
/// of the real one.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "tokio's clock is compared with the real one")]
pub(crate) fn was_paused() -> bool {
    if !PAUSABLE {
        return false;
    }
    let before = std::time::Instant::now();
    let time = now().into_std();
    let after = std::time::Instant::now();
    !(before..=after).contains(&time)
}
