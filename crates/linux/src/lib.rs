//! The system calls of softtimers, and the only `unsafe` of its crates for Linux.
//!
//! **Not a stable API**: it changes whenever softtimers, softtimers-net or the command need it, in any
//! release. It is a crate of its own so that all others can forbid `unsafe`. The few types that programs need
//! ([`sched::TimerSlack`], [`sched::Slice`], [`RealTime`], [`HeldSignals`], [`epoll`], [`clock::Monotonic`]) are part of
//! the API of softtimers, which re-exports them.
//!
//! Each file wraps one subject in small safe functions over owned and borrowed descriptors, without policy,
//! which is in the crates above. The exceptions are `signal_pacer`, whose policy has to run in a signal's
//! handler, and `retries`, which it shares with softtimers-net. It uses rustix if that has the call,
//! otherwise libc:
//!
//! | file | subject | `unsafe` because |
//! |---|---|---|
//! | `clock`, `clock::sandwich` | the clock of all this, and the comparison of two clocks | – |
//! | `epoll` | readiness with nanosecond time-outs | rustix rounds `epoll_wait` to milliseconds |
//! | `epoll::busy_poll` | waits that poll the receive queue | not in rustix |
//! | `timerfd` | one-shot and periodic kernel timers | – |
//! | `posix_timer` | a timer that interrupts its thread by a signal | not in rustix; signal handler |
//! | `process_timer` | the same timer, for the program's own handler | – |
//! | `signal_mask` | signals kept pending | not in rustix |
//! | `signal_pacer` | datagrams sent from that signal's handler | raw pointers into the handler; `send` |
//! | `signal_pacer::ring` | messages from that handler to the program | – |
//! | `retries` | when a paced flow tries again | – |
//! | `signal_timer` | the names of these for others | – |
//! | `wait` | sleeping on a descriptor | – |
//! | `stages` | long waits that end on time | – |
//! | `recvmmsg`, `sendmmsg` | many datagrams per system call | not in rustix |
//! | `mmsg` | those two calls; under Miri, a stand-in that reads and writes as the kernel would | raw pointers |
//! | `control`, `sockaddr` | the bytes those two exchange with the kernel | – (parsed as bytes) |
//! | `sockopt` | time stamps, drops, queue errors, offloads, release times | not in rustix |
//! | `tsc` | the time stamp counter | an instruction of x86-64 |
//! | `sched` | timer slack and slice of a thread | – |
//! | `real_time` | a guarded real-time thread | – |
//! | `sched_attr` | the kernel's record of a thread's class, nice value and slice | not in rustix |
//! | `mapping` | memory shared with the kernel | `mmap`, and the other side writes too |
//! | `xdp` | AF_XDP sockets | – |
//! | `xdp::ring` | their rings | – (by `mapping`) |
//! | `xdp::umem` | their frames, and which side owns each | memory is owned through its chunk |
//! | `ethtool` | how many queues an interface has | not in rustix |
//! | `bpf` | programs in the kernel, and their maps | not in rustix |
//! | `bpf::code` | an assembler for them | – |
//! | `bpf::operations` | kernel structures of functions (struct_ops) | – (by `bpf`) |
//! | `interrupts` | interrupts that a thread's CPU time leaves out | `getrusage` of a thread is not in rustix |
//! | `perf` | counters of software events and of caches | not in rustix |
//! | `misses` | cache misses of a CPU | – (by `perf`) |
//! | `packet` | sockets of the link layer, their addresses, options and filters | not in rustix |
//! | `packet_ring` | their receive ring | frames are read and changed in place |
//! | `packet_blocks` | the same in blocks, without gaps | frames are read in place |
//! | `frame_queue` | many frames per system call | not in rustix |
//! | `optional` | calls for which a filter may kill the caller, tried in a child | a copy of the process |
//! | `call_watch` | calls of a command that wait for this process's word | seccomp is not in rustix |
//! | `namespace` | a thread's own network namespace | rustix cannot know what is unshared |
//! | `tap` | interfaces whose other end is a descriptor | not in rustix |

#![doc(test(attr(deny(warnings))))]

#[cfg(not(target_os = "linux"))]
compile_error!("softtimers-linux needs Linux");

pub mod bpf;
pub mod call_watch;
pub mod clock;
pub mod control;
pub mod epoll;
pub mod ethtool;
mod fork;
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
mod perf;
mod posix_timer;
pub mod process_timer;
mod real_time;
pub mod recvmmsg;
pub mod retries;
pub mod sched;
mod sched_attr;
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
pub mod wait;
pub mod xdp;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::time::Timespec;

pub use real_time::RealTime;
pub use signal_mask::HeldSignals;

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Returns `duration` in the kernel's format, at most 292 billion years.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// Returns the descriptor of a raw system call, or its error.
///
/// # Safety
///
/// If `outcome` is not negative it must be a new descriptor without another owner.
unsafe fn owned(outcome: libc::c_long) -> io::Result<OwnedFd> {
    match libc::c_int::try_from(outcome) {
        // SAFETY: guaranteed by the caller.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
