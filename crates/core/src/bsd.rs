//! **The timer facilities of BSD**, over the wheel of this crate: callouts by function and argument, and many interval
//! timers for each program.
//!
//! Costello and Varghese (*Redesigning the BSD timer facilities*, 1998) put the callouts of a kernel on a timing wheel,
//! kept the established interface beside a better one, and gave user programs more than one timer, as the
//! kernel had. The wheel is the one behind [`SoftTimers`](crate::SoftTimers); `xtask/docs/wheel.md` compares it
//! with theirs. This module implements the rest of that paper:
//!
//! ```text
//!   Callouts                                          IntervalTimers
//!     timeout(f, a, ticks) ─┬─▶ wheel ◀── setcallout    create, reset, cancel, query ──▶ wheel
//!     untimeout(f, a) ──▶ hash ─┘    ▲    unsetcallout                                      │ expire(now)
//!                                    │                  reap ◀── expired, oldest first ◀────┘
//!     tick() ─ is the slot empty? ───┘                    └── has an interval: runs again, from its last expiry
//!     softclock() ─▶ one due call after another
//! ```
//!
//! | type | paper | a C program has it as |
//! |---|---|---|
//! | [`Callouts`] | "New timer implementation" | `softtimers_timeout`, `softtimers_setcallout`, `softtimers_hardclock` … |
//! | [`IntervalTimers`] | "Multiple user-level timers" | `softtimers_itimer_create` … |
//!
//! `setitimer` and `getitimer` with the paper's arguments (figures 6 and 7) are in the crate `softtimers`.
//!
//! Nothing here calls back: due calls are returned as values. Time is an argument, in ticks or in
//! nanoseconds.

mod callhash;
mod callouts;
mod interval;

pub use callouts::{CalloutStats, Callouts};
pub use interval::{Expired, IntervalError, IntervalTimers, Setting};

/// A timer's 64-bit handle. It never names another timer, and no set but its own accepts it
/// ([`Seal`](crate::Seal)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle(u64);

impl Handle {
    /// Makes a handle of a number. Any number is allowed: one that names no timer is refused where it is
    /// used.
    pub const fn from_bits(bits: u64) -> Self {
        Handle(bits)
    }

    /// The handle as a number: neither zero nor 2⁶⁴ − 1.
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}
