//! The clock everything runs on, and conversions from other clocks.
//!
//! Due times, kernel timers and packet times can only be compared on one time line. That line is
//! `CLOCK_MONOTONIC`: `timerfd` and `epoll` sleep by it, it cannot be set, and reading it takes no system
//! call. Three foreign times must be converted:
//!
//! ```text
//!   std::time::Instant       opaque, though the same clock ───┐
//!   packet times (realtime)  since 1970, can be stepped ──────┼─▶ Timestamp (CLOCK_MONOTONIC)
//!   the cycle counter (Tsc)  cheaper, in units of its own ────┘
//! ```
//!
//! No call reads two clocks at one moment, so each foreign clock is read between two reads of ours, a
//! *sandwich*: its reading lies between them, and the tightest of several locates it to nanoseconds.

mod anchored;
mod line;
mod realtime;
mod tsc;

use std::time::Instant;

use softtimers_core::{Clock, Timestamp};

pub use anchored::AnchorStats;
pub use line::Disagreement;
pub use realtime::RealtimeOffset;
pub use softtimers_linux::clock::Monotonic;
pub use tsc::{Tsc, TscError};

/// A clock that an [`EventLoop`](crate::EventLoop) can run on: one whose times are `CLOCK_MONOTONIC`'s,
/// to which the loop's sleeps are bound.
///
/// Much can happen to a program while it sleeps, above all in a virtual machine. So the loop calls
/// [`woke`](Self::woke) after each sleep, and a clock that is not the kernel's checks there whether it is
/// still right.
pub trait LoopClock: Clock {
    /// Returns the current time, directly after a sleep.
    fn woke(&self) -> Timestamp {
        self.now()
    }
}

impl<C: LoopClock + ?Sized> LoopClock for &C {
    fn woke(&self) -> Timestamp {
        (**self).woke()
    }
}

impl LoopClock for Monotonic {}

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
    /// Returns the same time on this crate's clock. For an `Instant` it is accurate to tens of nanoseconds:
    /// see [`Monotonic::timestamp_of`].
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
