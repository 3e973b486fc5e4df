//! The part of the Python package that is Rust: `softtimers._softtimers`.
//!
//! Programs run on Python's own asyncio, which waits for descriptors and keeps timers. So the interface is narrow:
//! an object that waits, one that has the timers, the timer slack of a thread, and the clock of a paced flow. The public API is
//! in `python/softtimers`. The simulator is a package of its own, `papers/python`.
//!
//! ```text
//!   asyncio's loop ──▶ Timers.left                  until the first timer, of softtimers-core
//!        │ ──────────▶ Selector.select ▶ Poller.wait  epoll, until a descriptor is ready or that time has passed
//!        └───────────▶ Timers.run_due                 those that are due, to asyncio's queue of what is ready
//! ```
#![forbid(unsafe_code)]

use pyo3::prelude::*;

mod pending;
mod poller;
mod rate_clock;
mod seconds;
mod slack;
mod timers;

/// The module, as the interpreter loads it.
#[pymodule]
#[pyo3(name = "_softtimers")]
mod module {
    #[pymodule_export]
    use crate::poller::Poller;
    #[pymodule_export]
    use crate::rate_clock::RateClock;
    #[pymodule_export]
    use crate::slack::TimerSlack;
    #[pymodule_export]
    use crate::timers::{OtherClock, Timers};
}
