//! The system calls, and the only `unsafe` of this crate.
//!
//! Each file wraps one subject in small safe functions over owned and borrowed descriptors, and
//! decides nothing: policy lives above. rustix is used where it has the call; what remains is libc:
//!
//! | file | subject | `unsafe` because |
//! |---|---|---|
//! | `epoll` | readiness with nanosecond time-outs | rustix rounds `epoll_wait` to milliseconds |
//! | `timerfd` | one-shot and periodic kernel timers | – |
//! | `posix_timer` | a timer that interrupts its thread by a signal | not in rustix; signal handler |
//! | `signal_pacer` | datagrams sent from that signal's handler | raw pointers into the handler; `send` |
//! | `wait` | sleeping on a descriptor | – |
//! | `stages` | long waits that end on time | – |
//! | `recvmmsg`, `sendmmsg` | many datagrams per system call | not in rustix |
//! | `control`, `sockaddr` | the bytes those two exchange with the kernel | – (parsed as bytes) |
//! | `sockopt` | time stamps, drops, queue errors | not in rustix |
//! | `tsc` | the time stamp counter | two instructions of x86-64 |
//! | `sched` | timer slack and slice of a thread | – |
//! | `sched_attr` | the kernel's record of a thread's class, nice value and slice | not in rustix |

pub(crate) mod control;
pub(crate) mod epoll;
pub(crate) mod posix_timer;
pub(crate) mod recvmmsg;
pub(crate) mod sched;
pub(crate) mod sched_attr;
pub(crate) mod sendmmsg;
pub(crate) mod signal_pacer;
pub(crate) mod sockaddr;
pub(crate) mod sockopt;
mod stages;
pub(crate) mod timerfd;
#[cfg(target_arch = "x86_64")]
pub(crate) mod tsc;
pub(crate) mod wait;

use std::time::Duration;

use rustix::time::Timespec;

/// `duration` as the kernel wants it. Beyond 292 billion years it waits only that long.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}
