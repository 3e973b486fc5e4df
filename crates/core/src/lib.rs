//! **What is due, given the time.** The pure half of softtimers: timers, pacing and polling policies
//! as state machines. Time comes in as an argument, events and actions come out as values; nothing
//! here reads a clock, blocks, logs, spawns, or calls back into your code.
//!
//! ```text
//!        your loop                                   softtimers-core
//!  wait ─▶ handle ─▶ handle ─▶ …    trigger(now)    ┌──────────────────┐
//!            │         └──────────────────────────▶ │ now < gate? done │  one load, one compare
//!            └────────────────────────────────────▶ │ else: due events │  handed out one by one
//!        park until `poll_at()` ◀─────────────────  └──────────────────┘
//! ```
//!
//! Read in this order:
//!
//! 1. [`SoftTimers`]: schedule, trigger, next, `poll_at`; the invariants every driver relies on.
//! 2. [`Slack`]: how late an event may be, and what that saves. [`KeyedTimers`]: the same wheel for programs
//!    whose timers are already numbered.
//! 3. [`RateClock`]: one flow's departures at a target rate, with catch-up without bursts.
//! 4. [`DepartureQueue`]: the packets of many flows, each at its own rate.
//! 5. [`bound`]: the paper's bound on lateness, as code.
//! 6. [`Alarm`] and [`Idle`]: when a driver should touch the hardware timer, and when it may sleep.
//! 7. [`bsd`]: the callouts and the many interval timers of BSD, over the same wheel.
//!
//! The crate `softtimers-poll` decides when to poll for packets, how many to take, and when to stop.
//!
//! The crate is `no_std` with `alloc`, has no dependencies, and forbids `unsafe`. The Linux drivers
//! are in the crate `softtimers`.
#![no_std]
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

extern crate alloc;

/// The program of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod alarm;
pub mod bound;
pub mod bsd;
#[cfg(test)]
mod effort;
pub mod histogram;
pub mod idle;
pub mod keyed;
pub mod pace;
pub mod percent;
mod random;
pub mod rate;
pub mod seal;
pub mod slack;
mod slots;
pub mod stats;
pub mod time;
pub mod timers;
pub mod trigger;
mod wheel;

#[doc(inline)]
pub use alarm::{Alarm, Command};
#[doc(inline)]
pub use histogram::Histogram;
#[doc(inline)]
pub use idle::{Idle, PollBudget, Polling, Wait};
#[doc(inline)]
pub use keyed::{KeyedTimers, KeyedTurn};
#[doc(inline)]
pub use pace::{
    AckPacer, AckRate, Ahead, Capacity, CatchUp, Counts, DepartureQueue, OnOff, PaceConfig, PaceError,
    PacketPairs, Pattern, RateClock, Recovery, Schedule, StartRate, Strategy,
};
#[doc(inline)]
pub use pace::{Speed, Trace, TraceBuilder};
#[doc(inline)]
pub use percent::{Percent, PercentError};
#[doc(inline)]
pub use random::Random;
#[doc(inline)]
pub use rate::{Rate, RateError};
#[doc(inline)]
pub use seal::Seal;
#[doc(inline)]
pub use slack::Slack;
#[doc(inline)]
pub use slots::TimerId;
#[doc(inline)]
pub use stats::Stats;
#[doc(inline)]
pub use time::{Clock, ManualClock, Timestamp};
#[doc(inline)]
pub use timers::{Config, Fired, NotPending, SoftTimers, Step, Turn};
#[doc(inline)]
pub use trigger::{Intervals, PerSource, TriggerState, WebServer};
