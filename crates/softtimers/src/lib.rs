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
//! Beside them: [`shared`], timers of several threads; [`Tsc`], a faster clock; [`idle`], who may poll; [`Slice`] and [`TimerSlack`], what a
//! thread can ask of the scheduler; [`late`], why something was late; [`udp`], datagrams in batches; [`packet`], frames below the protocols;
//! [`poller`], receiving that survives overload;
//! [`bsd`], many interval timers behind one kernel timer;
//! [`probe`], what this machine's kernel really does; [`signal_timer`], what all this exists to avoid.
//!
//! The timers themselves, [`SoftTimers`], and [`RateClock`] for pacing are re-exported from
//! `softtimers-core`, which reads no clock and does no I/O.
//!
//! # When not to use this
//!
//! One timer in a program that is otherwise idle is served as well by `epoll_pwait2` with the
//! thread's timer slack set to 1 ns. The gain here comes while the process is busy, has many timers
//! or flows, or needs a bound on the CPU that timing costs.
#![deny(unsafe_code)]
#![doc(test(attr(deny(warnings))))]
#![cfg(target_os = "linux")]

pub use softtimers_core::*;

pub mod backup;
mod bpf;
pub mod bsd;
pub mod clock;
pub mod epoll;
pub mod event_loop;
pub mod idle;
pub mod late;
pub mod misses;
pub mod packet;
pub mod poller;
pub mod probe;
mod rtnetlink;
pub mod shared;
pub mod signal_timer;
#[cfg(test)]
mod skipped;
#[allow(unsafe_code)]
mod sys;
pub mod udp;
pub mod waiter;

pub use backup::{Backup, BackupStats};
pub use clock::{LoopClock, Monotonic, Tsc};
pub use event_loop::{EventLoop, Happening, Interest, LoopConfig, LoopStats, Token};
pub use idle::HeldBack;
pub use sys::real_time::RealTime;
pub use sys::sched::{Slice, TimerSlack};
pub use sys::signal_mask::HeldSignals;
pub use udp::UdpSocket;
pub use waiter::{Ready, Waiter};
