//! Microsecond timers, even packet pacing and honest deadlines for ordinary Linux programs: no busy
//! core, no kernel module, no root.
//!
//! ```
//! use std::net::UdpSocket;
//! use std::time::Duration;
//!
//! use softtimers::Timers;
//!
//! #[derive(Clone)]
//! enum Event {
//!     Send,
//!     Stop,
//! }
//!
//! let socket = UdpSocket::bind("127.0.0.1:0")?;
//! let peer = socket.local_addr()?; // it talks to itself
//! let mut timers = Timers::new()?; // clock, timers and kernel timer in one
//! timers.every(Duration::from_micros(40), Event::Send);
//! timers.after(Duration::from_millis(10), Event::Stop);
//!
//! let mut buffer = [0; 1500];
//! loop {
//!     match timers.wait_readable(&socket)? {
//!         None => socket.recv(&mut buffer)?, // your work
//!         Some(due) => match due.event {
//!             Event::Send => socket.send_to(&[0; 1200], peer)?,
//!             Event::Stop => break,
//!         },
//!     };
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A busy program already has natural checkpoints (after a system call, after a handler, before it sleeps) where checking
//! the clock costs 20 to 30 ns. softtimers fires due timers at those checkpoints and arms one kernel timer as a fallback.
//! The idea and its name are Aron and Druschel's (*Soft timers*, TOCS 18(3), 2000).
//!
//! [`Timers`] is all of that in one object. You choose where it waits: in its own
//! [`wait_readable`](Timers::wait_readable) or [`wait`](Timers::wait), in your poll(2) or epoll, with the
//! object as a descriptor, or not at all: a program that is busy anyway calls [`next_due`](Timers::next_due)
//! now and then.
//!
//! Its parts are public, for programs that need more of one of them:
//!
//! - [`SoftTimers`] and [`RateClock`]: the timers and the pacing of a flow, as state machines; re-exported from
//!   `softtimers-core`, which reads no clock and does no I/O;
//! - [`Waiter`]: a receive call of a `std` socket that returns a packet or a due event;
//! - [`Backup`]: the kernel timer as a descriptor, with counters and a periodic mode;
//! - [`EventLoop`]: an event loop for many sources.
//!
//! Beside them: [`shared`], timers of several threads; [`Governor`], which thread may
//! poll; [`Slice`] and [`TimerSlack`], a thread's scheduler settings; [`late`], the causes of lateness;
//! [`bsd`], many interval timers behind one kernel timer; [`tcp`], the kernel's TCP at a rate that is known of a path. Batched datagrams, an interface's frames and
//! receivers that are stable under overload are in `softtimers-net`.
//!
//! # When not to use this
//!
//! One timer in a program that is otherwise idle is served as well by `epoll_pwait2` with the
//! thread's timer slack set to 1 ns. The gain here comes while the process is busy, has many timers
//! or flows, or needs a bound on the CPU that timing costs.
//!
//! # Off Linux
//!
//! Waiting needs Linux: modules and types of this crate that wait, [`Timers`] among them, exist only there.
//! Elsewhere this crate only re-exports `softtimers-core`, so a program with its own clock and its own wait
//! still builds.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

pub use softtimers_core::*;

#[cfg(target_os = "linux")]
mod backup;
#[cfg(target_os = "linux")]
pub mod bsd;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
pub mod epoll;
#[cfg(target_os = "linux")]
mod event_loop;
#[cfg(target_os = "linux")]
mod front;
#[cfg(target_os = "linux")]
mod idle;
#[cfg(target_os = "linux")]
pub mod late;
#[cfg(target_os = "linux")]
pub mod prelude;
#[cfg(target_os = "linux")]
pub mod shared;
#[cfg(all(test, target_os = "linux"))]
mod skipped;
#[cfg(target_os = "linux")]
pub mod tcp;
#[cfg(target_os = "linux")]
mod waiter;

#[cfg(target_os = "linux")]
pub use {
    backup::{Backup, BackupStats},
    clock::{IntoTimestamp, Monotonic, RealtimeOffset},
    event_loop::{EventLoop, Happening, Interest, LoopConfig, LoopStats, Token},
    front::{Due, TimerHandle, Timers},
    idle::{Governor, HeldBack},
    softtimers_linux::sched::{Slice, TimerSlack},
    softtimers_linux::{HeldSignals, RealTime},
    waiter::{Ready, Waiter},
};

/// The programs of the README compile.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;
