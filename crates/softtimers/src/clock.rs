//! The clock everything runs on, and how other clocks' times become its times.
//!
//! Due times, kernel timers and packet times can only be compared on one time line. That line is
//! `CLOCK_MONOTONIC`: `timerfd` and `epoll` sleep by it, nobody can set it, and reading it is no
//! system call. Three foreign times must be carried over:
//!
//! ```text
//!   std::time::Instant       opaque, though the same clock ───┐
//!   packet times (realtime)  since 1970, can be stepped ──────┼─▶ Timestamp (CLOCK_MONOTONIC)
//!   the cycle counter (Tsc)  cheaper, in units of its own ────┘
//! ```
//!
//! No call reads two clocks at one moment, so each foreign clock is read between two reads of ours, a
//! *sandwich*: it lay between them, and the tightest of several says where, to nanoseconds.

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
/// Much can happen to a program while it sleeps, above all in a virtual machine. The loop says so, and
/// a clock that is not the kernel's takes the occasion to see whether it is still right.
pub trait LoopClock: Clock {
    /// The current time, directly after a sleep.
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
    /// The same time on the clock of this crate. Of an `Instant` it is right to tens of nanoseconds, as
    /// [`Monotonic::timestamp_of`] says.
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
