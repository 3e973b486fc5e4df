//! The part of the Python package that is Rust: `softtimers._softtimers`.
//!
//! Programs run on Python's own asyncio, which waits for descriptors and keeps timers. So the interface is narrow:
//! an object that waits, one that has the timers, the timer slack of a thread, the clock of a paced flow, a sweep of the
//! simulator, and a receive policy on it. The public API is in `python/softtimers`.
//!
//! ```text
//!   asyncio's loop ──▶ Timers.left                  until the first timer, of softtimers-core
//!        │ ──────────▶ Selector.select ▶ Poller.wait  epoll, until a descriptor is ready or that time has passed
//!        └───────────▶ Timers.run_due                 those that are due, to asyncio's queue of what is ready
//! ```
#![forbid(unsafe_code)]

use pyo3::prelude::*;

mod columns;
mod machine;
mod pending;
mod plan;
mod policy;
mod poller;
mod rate_clock;
mod seconds;
mod setting;
mod simulation;
mod slack;
mod timers;

/// The module, as the interpreter loads it.
#[pymodule]
#[pyo3(name = "_softtimers")]
mod module {
    #[pymodule_export]
    use crate::policy::receive;
    #[pymodule_export]
    use crate::poller::Poller;
    #[pymodule_export]
    use crate::rate_clock::RateClock;
    #[pymodule_export]
    use crate::simulation::{csv, experiments, merge, sweep};
    #[pymodule_export]
    use crate::slack::TimerSlack;
    #[pymodule_export]
    use crate::timers::{OtherClock, Timers};
}
