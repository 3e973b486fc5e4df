//! Receive queues of interfaces (NAPI) that the program polls, so that packets do not interrupt it.
//!
//! A packet normally interrupts a CPU, whatever that is doing, and the kernel receives it there. Soft timers (§4.2) has
//! the interface polled instead, by an event at trigger states, at the interval that finds a wanted number of packets.
//! Here the kernel does the receiving still, protocols included, but at the program's call and in its CPU time:
//!
//! ```text
//!                 ┌───────────── polled for a millisecond without idle time ────────────┐
//!   interrupts ───┘                                                                     ▼
//!        ▲   packet ─▶ interrupt ─▶ kernel          deferred   soft event ─▶ poll ─▶ kernel, up to 128 packets
//!        └───────────── the policy wants wake-ups: the CPU is idle ─────────────────────┘
//!                                                   backup     nobody polled for `max_delay` ─▶ timer ─▶ kernel
//! ```
//!
//! A [`Queue`] defers its interrupts (netlink `napi-set`, Linux 6.13) while it is polled and has them back otherwise; a
//! [`Policy`](softtimers_poll::Policy) decides when. [`NapiDevice`] is a UDP socket with its queue, for a
//! [`Poller`](crate::poller::Poller); [`Steered`] is the queue of an event loop's sockets. A thread may have several of
//! either, of several interfaces. A socket names its queue, and a receive from it polls: no interface has to be named,
//! and only packets of this program's network are asked for.
//!
//! **Rights.** Deferring takes `CAP_NET_ADMIN` in the first user namespace, also later, when interrupts come back. A
//! process without it polls queues that were set up before (`napi_defer_hard_irqs` and `gro_flush_timeout`), up to 16
//! packets a poll.
//!
//! **One process** has a queue at a time: a second one gets an error, and its packets from the first one's polls. The sign of
//! it is an abstract socket `softtimers-napi-ID`, of this network namespace. Any user there can take that name first; then
//! packets come by interrupts.
//!
//! **Afterwards.** Dropping restores the queue. A process that is killed leaves its interrupts deferred, by `max_delay`
//! and no longer, until they are set again or the interface goes down.

mod device;
mod queue;
mod steered;

use std::io;
use std::time::Duration;

use rustix::io::Errno;

pub use device::NapiDevice;
pub use queue::Queue;
pub use steered::Steered;

use crate::rtnetlink::napi::Netdev;

/// A receive queue of an interface, as the kernel describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Napi {
    /// The number that sockets name it by.
    pub id: u32,
    /// The index of its interface.
    pub interface: u32,
    /// The kernel thread that polls it, if one does.
    pub thread: Option<u32>,
    /// How it defers interrupts.
    pub deferral: Deferral,
}

/// How a queue defers its interrupts after a poll; all zero: it does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deferral {
    /// Polls by timer that may find nothing before the interrupt is enabled again (`defer-hard-irqs`).
    pub polls: u32,
    /// The time until such a poll (`gro-flush-timeout`).
    pub flush: Duration,
    /// The time until it while a program handles what a wait of its epoll set has found (`irq-suspend-timeout`).
    pub suspend: Duration,
}

impl Deferral {
    fn is_on(&self) -> bool {
        self.polls > 0 && !self.flush.is_zero()
    }
}

impl Napi {
    /// Returns the queues of all interfaces of this thread's network that are up and have any.
    ///
    /// # Errors
    /// `Unsupported` before Linux 6.8.
    pub fn all() -> io::Result<Vec<Napi>> {
        Ok(netdev()?.all()?)
    }

    /// Sets how the queue defers its interrupts, for good: nothing restores it. A [`Queue`] of this program does so by
    /// itself, and restores what it has found.
    ///
    /// # Errors
    /// `Unsupported` before Linux 6.13, `PermissionDenied` without `CAP_NET_ADMIN`, `NotFound` if the queue is gone.
    pub fn defer(&self, deferral: &Deferral) -> io::Result<()> {
        match netdev()?.defer(self.id, deferral) {
            Err(Errno::OPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
            other => Ok(other?),
        }
    }
}

/// A good bound on the delay of packets that nobody polls for. A bound below the kernel's clock tick (4 ms at 250 Hz) has
/// each poll program the CPU's timer, which costs a virtual machine a microsecond, three times the poll.
pub const BACKUP: Duration = Duration::from_millis(5);

fn netdev() -> io::Result<Netdev> {
    Netdev::open().map_err(|error| match error {
        Errno::NOENT => io::Error::new(io::ErrorKind::Unsupported, "the kernel has no netlink family netdev"),
        error => error.into(),
    })
}

/// How a queue is driven.
#[derive(Debug)]
pub enum Driven {
    /// By interrupts.
    Interrupts,
    /// By polls of this program.
    Polls,
    /// By interrupts for good, because polls were not possible, or are not any more.
    FellBack(io::Error),
}
