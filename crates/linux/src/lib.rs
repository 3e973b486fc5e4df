//! The system calls, and the only `unsafe` of this crate.
//!
//! Each file wraps one subject in small safe functions over owned and borrowed descriptors, and
//! decides nothing: policy lives above. The exception is `signal_pacer`, whose policy has to run in a
//! signal's handler. rustix is used where it has the call; what remains is libc:
//!
//! | file | subject | `unsafe` because |
//! |---|---|---|
//! | `epoll` | readiness with nanosecond time-outs | rustix rounds `epoll_wait` to milliseconds |
//! | `timerfd` | one-shot and periodic kernel timers | – |
//! | `posix_timer` | a timer that interrupts its thread by a signal | not in rustix; signal handler |
//! | `process_timer` | the same timer, for a handler of the program's | – |
//! | `signal_mask` | signals that wait | not in rustix |
//! | `signal_pacer` | datagrams sent from that signal's handler | raw pointers into the handler; `send` |
//! | `signal_pacer::ring` | what that handler tells the program | – |
//! | `wait` | sleeping on a descriptor | – |
//! | `stages` | long waits that end on time | – |
//! | `recvmmsg`, `sendmmsg` | many datagrams per system call | not in rustix |
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
//! | `perf` | counters of software events and of caches | not in rustix |
//! | `packet` | sockets of the link layer, their addresses, options and filters | not in rustix |
//! | `packet_ring` | their receive ring | frames are read and changed where the kernel put them |
//! | `frame_queue` | many frames per system call | not in rustix |
//! | `namespace` | a network of a thread's own | rustix cannot know what is unshared |

pub(crate) mod bpf;
pub(crate) mod control;
pub(crate) mod epoll;
pub(crate) mod ethtool;
pub(crate) mod frame_queue;
pub(crate) mod mapping;
pub(crate) mod namespace;
pub(crate) mod packet;
pub(crate) mod packet_ring;
pub(crate) mod perf;
pub(crate) mod posix_timer;
pub(crate) mod process_timer;
pub(crate) mod real_time;
pub(crate) mod recvmmsg;
pub(crate) mod sched;
pub(crate) mod sched_attr;
pub(crate) mod sendmmsg;
pub(crate) mod signal_mask;
pub(crate) mod signal_pacer;
pub(crate) mod sockaddr;
pub(crate) mod sockopt;
mod stages;
pub(crate) mod timerfd;
#[cfg(target_arch = "x86_64")]
pub(crate) mod tsc;
pub(crate) mod uring;
pub(crate) mod wait;
pub(crate) mod xdp;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::time::Timespec;

/// `duration` as the kernel wants it. Beyond 292 billion years it waits only that long.
pub(crate) fn timespec(duration: Duration) -> Timespec {
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
