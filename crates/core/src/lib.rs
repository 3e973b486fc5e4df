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
//! 4. [`queue::DepartureQueue`]: the packets of many flows, each at its own rate.
//! 5. [`Alarm`] and [`Idle`]: when a driver should touch the hardware timer, and when it may sleep.
//! 6. [`bsd`]: the callouts and the many interval timers of BSD, over the same wheel.
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

mod alarm;
pub mod bsd;
#[cfg(test)]
mod effort;
mod histogram;
mod idle;
mod keyed;
mod pace;
mod percent;
mod random;
mod rate;
mod seal;
mod slack;
mod slots;
mod stats;
mod time;
mod timers;
mod trigger;
mod wheel;

pub use alarm::{Alarm, Command};
pub use histogram::Histogram;
pub use idle::{Idle, PollBudget, Polling, Wait};
pub use keyed::{KeyedTimers, KeyedTurn};
pub use pace::queue;
pub use pace::{
    AckPacer, AckRate, Ahead, CatchUp, Counts, OnOff, PaceConfig, PaceError, Pattern, RateClock, Recovery,
    Schedule, Speed, StartRate, Strategy, Trace, TraceBuilder,
};
pub use percent::{Percent, PercentError};
pub use random::Random;
pub use rate::{Rate, RateError};
pub use seal::Seal;
pub use slack::Slack;
#[doc(hidden)]
pub use slots::Slots;
pub use slots::TimerId;
pub use stats::Stats;
pub use time::{Clock, ManualClock, Timestamp};
pub use timers::{Config, Fired, NotPending, SoftTimers, Turn};
pub use trigger::{Intervals, PerSource, TriggerState, WebServer};
pub use wheel::Step;
