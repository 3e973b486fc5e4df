//! The clock everything runs on, and conversions from other clocks.
//!
//! Due times, kernel timers and packet times can only be compared on one time line. That line is
//! `CLOCK_MONOTONIC`: `timerfd` and `epoll` sleep by it, it cannot be set, and reading it takes no system
//! call. Two foreign times must be converted:
//!
//! ```text
//!   std::time::Instant       opaque, though the same clock ───┐
//!   packet times (realtime)  since 1970, can be stepped ──────┴─▶ Timestamp (CLOCK_MONOTONIC)
//! ```
//!
//! No call reads two clocks at one moment, so each foreign clock is read between two reads of ours, a
//! *sandwich*: its reading lies between them, and the tightest of several locates it to nanoseconds.

mod realtime;

use std::time::Instant;

use softtimers_core::Timestamp;

pub use realtime::RealtimeOffset;
pub use softtimers_linux::clock::Monotonic;

/// A time that [`Timers::at`](crate::Timers::at) takes: a [`Timestamp`], a [`std::time::Instant`], or a type of yours.
///
/// ```
/// use softtimers::{IntoTimestamp, Monotonic};
///
/// # #[expect(clippy::disallowed_methods, reason = "an example")]
/// let instant = std::time::Instant::now();
/// let time = instant.into_timestamp();
/// assert_eq!(Monotonic::instant_of(time), Some(instant)); // and back, exactly
/// ```
pub trait IntoTimestamp {
    /// Returns the same time on this crate's clock: for an `Instant` as [`Monotonic::timestamp_of`].
    fn into_timestamp(self) -> Timestamp;
}

impl IntoTimestamp for Timestamp {
    fn into_timestamp(self) -> Timestamp {
        self
    }
}

impl IntoTimestamp for Instant {
    fn into_timestamp(self) -> Timestamp {
        Monotonic::timestamp_of(self)
    }
}
