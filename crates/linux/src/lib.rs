//! The system calls of [softtimers](https://docs.rs/softtimers), and the only `unsafe` of its crates for Linux.
//!
//! **No promise is made to others**: what is here changes whenever softtimers, softtimers-net or the command want something
//! else, in any release. It is a crate of its own so that all others can forbid `unsafe`. The few types that programs
//! need ([`TimerSlack`], [`Slice`], [`RealTime`], [`HeldSignals`], [`epoll`], [`clock::Monotonic`]) are promised by softtimers, which
//! re-exports them.
//!
//! Each file wraps one subject in small safe functions over owned and borrowed descriptors, and
//! decides nothing: policy lives above. The exception is `signal_pacer`, whose policy has to run in a
//! signal's handler, and with it `retries`, which it shares with softtimers-net. rustix is used where it has the call; what remains is libc:
//!
//! | file | subject | `unsafe` because |
//! |---|---|---|
//! | `clock`, `clock::sandwich` | the clock that all this runs on, and how two clocks are compared | – |
//! | `epoll` | readiness with nanosecond time-outs | rustix rounds `epoll_wait` to milliseconds |
//! | `epoll::busy_poll` | waits that poll the receive queue | not in rustix |
//! | `timerfd` | one-shot and periodic kernel timers | – |
//! | `posix_timer` | a timer that interrupts its thread by a signal | not in rustix; signal handler |
//! | `process_timer` | the same timer, for a handler of the program's | – |
//! | `signal_mask` | signals that wait | not in rustix |
//! | `signal_pacer` | datagrams sent from that signal's handler | raw pointers into the handler; `send` |
//! | `signal_pacer::ring` | what that handler tells the program | – |
//! | `retries` | when a paced flow tries again | – |
//! | `signal_timer` | the names of these for others | – |
//! | `wait` | sleeping on a descriptor | – |
//! | `stages` | long waits that end on time | – |
//! | `recvmmsg`, `sendmmsg` | many datagrams per system call | not in rustix |
//! | `mmsg` | those two calls; under Miri, what reads and writes as the kernel would | raw pointers |
//! | `control`, `sockaddr` | the bytes those two exchange with the kernel | – (parsed as bytes) |
//! | `sockopt` | time stamps, drops, queue errors, offloads, release times | not in rustix |
//! | `tsc` | the time stamp counter | three instructions of x86-64 |
//! | `sched` | timer slack and slice of a thread | – |
//! | `real_time` | a guarded real-time thread | – |
//! | `sched_attr` | the kernel's record of a thread's class, nice value and slice | not in rustix |
//! | `mapping` | memory shared with the kernel | `mmap`, and the other side writes too |
//! | `uring` | one io_uring operation | rustix cannot know what an operation refers to |
//! | `xdp` | AF_XDP sockets | – |
//! | `xdp::ring` | their rings | – (by `mapping`) |
//! | `xdp::umem` | their frames, and who has which | memory in the hands of who holds its chunk |
//! | `ethtool` | how many queues an interface has | not in rustix |
//! | `bpf` | programs in the kernel, and their maps | not in rustix |
//! | `bpf::code` | how they are written down, instruction by instruction | – |
//! | `interrupts` | what a thread's CPU time leaves out | `getrusage` of a thread is not in rustix |
//! | `perf` | counters of software events and of caches | not in rustix |
//! | `misses` | what the caches of a CPU missed | – (by `perf`) |
//! | `packet` | sockets of the link layer, their addresses, options and filters | not in rustix |
//! | `packet_ring` | their receive ring | frames are read and changed where the kernel put them |
//! | `packet_blocks` | the same in blocks, without gaps | frames are read where the kernel put them |
//! | `frame_queue` | many frames per system call | not in rustix |
//! | `optional` | calls that a filter answers by killing, tried in a child | a copy of the process |
//! | `namespace` | a network of a thread's own | rustix cannot know what is unshared |
//! | `tap` | interfaces whose other end is a descriptor | not in rustix |

#![doc(test(attr(deny(warnings))))]

#[cfg(not(target_os = "linux"))]
compile_error!("softtimers-linux needs Linux");

pub mod bpf;
pub mod clock;
pub mod control;
pub mod epoll;
pub mod ethtool;
pub mod frame_queue;
pub mod interrupts;
pub mod mapping;
pub mod misses;
mod mmsg;
pub mod namespace;
pub mod optional;
pub mod packet;
pub mod packet_blocks;
pub mod packet_ring;
pub mod perf;
mod posix_timer;
pub mod process_timer;
mod real_time;
pub mod recvmmsg;
pub mod retries;
pub mod sched;
pub mod sched_attr;
pub mod sendmmsg;
mod signal_mask;
mod signal_pacer;
pub mod signal_timer;
#[cfg(test)]
mod skipped;
pub mod sockaddr;
pub mod sockopt;
mod stages;
pub mod tap;
pub mod timerfd;
#[cfg(target_arch = "x86_64")]
pub mod tsc;
pub mod uring;
pub mod wait;
pub mod xdp;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::time::Timespec;

pub use real_time::RealTime;
pub use sched::{Slice, TimerSlack};
pub use signal_mask::HeldSignals;

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// `duration` as the kernel wants it. Beyond 292 billion years it waits only that long.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// The descriptor that a raw system call answered with, or its error.
///
/// # Safety
///
/// If `outcome` is not negative it must be a new descriptor that nobody else owns.
unsafe fn owned(outcome: libc::c_long) -> io::Result<OwnedFd> {
    match libc::c_int::try_from(outcome) {
        // SAFETY: the caller vouches for it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
