//! **The timer facilities of BSD**, over the wheel of this crate: callouts by function and argument, and many interval
//! timers for each program.
//!
//! Costello and Varghese (*Redesigning the BSD timer facilities*, 1998) put the callouts of a kernel on a timing wheel,
//! kept the interface that everybody used beside a better one, and gave user programs what only the kernel had: more
//! than one timer. The wheel is the one behind [`SoftTimers`](crate::SoftTimers); `docs/wheel.md` says what became of
//! theirs. What is here is the rest of that paper:
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
//! | [`setitimer`], [`getitimer`] | figures 6 and 7 | `softtimers_multi_setitimer`, `softtimers_multi_getitimer` |
//!
//! Nothing here calls back: what is due is a value. Time is an argument, in ticks or in nanoseconds.

mod callhash;
mod callouts;
mod interval;
mod itimerval;

pub use callouts::{CalloutStats, Callouts, Key};
pub use interval::{Expired, IntervalError, IntervalTimers, Setting};
pub use itimerval::{ItimerVal, SetItimerError, TimeVal, getitimer, setitimer};

/// A timer's 64-bit handle. It never names another timer, and means nothing to a set that it is not from
/// ([`Seal`](crate::Seal)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle(u64);

impl Handle {
    /// The handle that is this number. Any number may be tried: what names nothing is refused where it is used.
    pub const fn from_bits(bits: u64) -> Self {
        Handle(bits)
    }

    /// The handle as a number: neither zero nor 2⁶⁴ − 1.
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}
