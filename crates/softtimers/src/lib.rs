//! Microsecond timers, even packet pacing and honest deadlines for ordinary Linux programs: no busy
//! core, no kernel module, no root.
//!
//! Your program passes points where looking at the clock is nearly free: after a system call, after a
//! handler, before it sleeps. softtimers checks for due events there, and keeps one one-shot kernel
//! timer only for the deadline of an event that no such point has met. The idea and its name are
//! Aron and Druschel's (*Soft timers*, TOCS 18(3), 2000).
//!
//! Three doors, widest first:
//!
//! - [`Waiter`]: plain `std` sockets, one call that returns a packet or a due event;
//! - [`Backup`]: a file descriptor to register with the loop you have (mio, libuv, glib, your own);
//! - [`EventLoop`]: the shortest way for a new program.
//!
//! Beside them: [`shared`], timers of several threads; [`Tsc`], a faster clock; [`idle`], who may poll; [`Slice`] and [`TimerSlack`],
//! what a thread can ask of the scheduler; [`late`], why something was late; [`bsd`], many interval timers behind one kernel
//! timer. Datagrams in batches, frames of an interface and receiving that survives overload are in `softtimers-net`.
//!
//! The timers themselves, [`SoftTimers`], and [`RateClock`] for pacing are re-exported from
//! `softtimers-core`, which reads no clock and does no I/O.
//!
//! # When not to use this
//!
//! One timer in a program that is otherwise idle is served as well by `epoll_pwait2` with the
//! thread's timer slack set to 1 ns. The gain here comes while the process is busy, has many timers
//! or flows, or needs a bound on the CPU that timing costs.
//!
//! # Off Linux
//!
//! What waits is Linux's: modules and types of this crate are there only. Elsewhere this is `softtimers-core` under its
//! other name, so a program that brings its own clock and its own wait still builds.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

pub use softtimers_core::*;

#[cfg(target_os = "linux")]
pub mod backup;
#[cfg(target_os = "linux")]
pub mod bsd;
#[cfg(target_os = "linux")]
pub mod clock;
#[cfg(target_os = "linux")]
pub mod epoll;
#[cfg(target_os = "linux")]
pub mod event_loop;
#[cfg(target_os = "linux")]
pub mod idle;
#[cfg(target_os = "linux")]
pub mod late;
#[cfg(target_os = "linux")]
pub mod shared;
#[cfg(all(test, target_os = "linux"))]
mod skipped;
#[cfg(target_os = "linux")]
pub mod waiter;

#[cfg(target_os = "linux")]
#[doc(inline)]
pub use {
    backup::{Backup, BackupStats},
    clock::{LoopClock, Monotonic, Tsc},
    event_loop::{EventLoop, Happening, Interest, LoopConfig, LoopStats, Token},
    idle::HeldBack,
    softtimers_linux::{HeldSignals, RealTime, Slice, TimerSlack},
    waiter::{Ready, Waiter},
};

/// The programs of the README compile.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;
