//! The system calls, and the only `unsafe` of this crate.
//!
//! Each file wraps one subject in small safe functions over owned and borrowed descriptors, and
//! decides nothing: policy lives above. rustix is used where it has the call; what remains is libc:
//!
//! | file | subject | `unsafe` because |
//! |---|---|---|
//! | `epoll` | readiness with nanosecond time-outs | rustix rounds `epoll_wait` to milliseconds |
//! | `timerfd` | one-shot and periodic kernel timers | – |
//! | `wait` | sleeping on a descriptor | – |
//! | `stages` | long waits that end on time | – |
//! | `recvmmsg`, `sendmmsg` | many datagrams per system call | not in rustix |
//! | `control`, `sockaddr` | the bytes those two exchange with the kernel | – (parsed as bytes) |
//! | `sockopt` | time stamps, drops, queue errors | not in rustix |
//! | `sched` | timer slack of a thread | – |
//! | `tsc` | the time stamp counter | three instructions of x86-64 |

pub(crate) mod control;
pub(crate) mod epoll;
pub(crate) mod recvmmsg;
pub(crate) mod sched;
pub(crate) mod sendmmsg;
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
