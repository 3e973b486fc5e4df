//! [`Waiter`]: soft timers for a program that only reads a socket.
//!
//! There is no loop to adopt: replace `socket.recv_from(&mut buffer)` with
//! `waiter.recv_from(&socket, &mut buffer, &mut timers)`, which returns a packet *or* a due event.
//!
//! ```text
//!   recv_from ──▶ due event?  ──yes──▶ Ready::Due          your handler returned: a trigger state
//!                    │ no
//!                 packet there? ─yes─▶ Ready::Packet       at most one turn between two packets,
//!                    │ no                                  so neither side can starve the other
//!                 sleep until a packet or the earliest deadline, and check again
//! ```

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use softtimers_core::{Clock, Fired, Idle, Polling, SoftTimers, Timestamp, TriggerState, Turn, Wait};
use softtimers_linux::sched::TimerSlack;
use softtimers_linux::wait::wait_readable;

use crate::clock::Monotonic;
use crate::idle::{Governor, HeldBack};

/// Waits for a socket and for soft timers at once, on the thread that made it.
///
/// Creating one sets this thread's timer slack to 1 ns, dropping it restores it; threads spawned
/// meanwhile inherit the 1 ns.
///
/// ```
/// use std::net::UdpSocket;
/// use std::time::Duration;
/// use softtimers::{Clock, Config, Monotonic, Ready, Slack, SoftTimers, Waiter};
///
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut timers = SoftTimers::new(Config::default());
/// timers.schedule(Monotonic.now(), Duration::from_millis(1), Slack::EXACT, "tick");
///
/// let mut waiter = Waiter::new();
/// let mut buffer = [0; 2048];
/// let mut seen = Vec::new();
/// while seen.len() < 2 {
///     match waiter.recv_from(&socket, &mut buffer, &mut timers)? {
///         Ready::Packet { len, .. } => seen.push(String::from_utf8_lossy(&buffer[..len]).into_owned()),
///         Ready::Due(fired) => seen.push(fired.event.to_owned()),
///     }
/// }
/// seen.sort();
/// assert_eq!(seen, ["hello", "tick"]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Waiter {
    idle: Governor,
    /// The last reading of the clock.
    now: Timestamp,
    turn: Option<Turn>,
    slack: Option<TimerSlack>,
}

/// The result of [`Waiter::recv_from`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready<E> {
    /// A datagram of `len` bytes is in the buffer.
    Packet {
        /// Its length; bytes that did not fit into the buffer are lost, as with `std`.
        len: usize,
        /// The address that it came from.
        from: SocketAddr,
    },
    /// An event is due.
    Due(Fired<E>),
}

impl Waiter {
    /// Makes a waiter that sleeps when there is nothing to do.
    pub fn new() -> Self {
        Self::with_idle(Idle::park())
    }

    /// Makes a waiter with another idle policy.
    pub fn with_idle(idle: Idle) -> Self {
        Waiter {
            idle: Governor::new(idle),
            now: Timestamp::ZERO,
            turn: None,
            slack: TimerSlack::hold(Duration::from_nanos(1)).ok(),
        }
    }

    /// Returns whether this thread's timer slack could be set. Where a sandbox forbids it, sleeps end up to 50 µs
    /// later; nothing else changes.
    pub fn has_slack(&self) -> bool {
        self.slack.is_some()
    }

    /// Returns the time that the idle policy has busy-polled, and how often its budget made it sleep.
    pub fn polling(&self) -> Polling {
        self.idle.polling()
    }

    /// Returns why the idle policy polled less than configured, the last time that it did for another reason
    /// than its budget.
    pub fn held_back(&self) -> Option<HeldBack> {
        self.idle.held_back()
    }

    /// Returns the next datagram of `socket` or the next due event, whichever comes first. Sleeps until then,
    /// whether or not the socket is in blocking mode.
    ///
    /// # Errors
    /// Those of the socket, such as `ConnectionRefused` after an ICMP answer to an earlier send. They leave
    /// the timers unchanged: call again.
    pub fn recv_from<E>(
        &mut self,
        socket: &UdpSocket,
        buffer: &mut [u8],
        timers: &mut SoftTimers<E>,
    ) -> io::Result<Ready<E>> {
        self.until(socket.as_fd(), timers, || receive(socket, buffer)).map(|found| match found {
            Found::Source((len, from)) => Ready::Packet { len, from },
            Found::Due(fired) => Ready::Due(fired),
        })
    }

    /// Returns `None` when `source` is readable, or the next due event if that comes first: for listeners,
    /// streams and anything else with a descriptor.
    ///
    /// # Errors
    /// None that a working kernel gives.
    pub fn readable<E>(
        &mut self,
        source: &impl AsFd,
        timers: &mut SoftTimers<E>,
    ) -> io::Result<Option<Fired<E>>> {
        let source = source.as_fd();
        let look = || Ok(wait_readable(source, Some(Duration::ZERO))?.then_some(()));
        self.until(source, timers, look).map(|found| match found {
            Found::Source(()) => None,
            Found::Due(fired) => Some(fired),
        })
    }

    fn until<E, T>(
        &mut self,
        source: BorrowedFd<'_>,
        timers: &mut SoftTimers<E>,
        look: impl FnMut() -> io::Result<Option<T>>,
    ) -> io::Result<Found<T, E>> {
        let found = self.find(source, timers, look);
        self.idle.busy(self.now);
        found
    }

    fn find<E, T>(
        &mut self,
        source: BorrowedFd<'_>,
        timers: &mut SoftTimers<E>,
        mut look: impl FnMut() -> io::Result<Option<T>>,
    ) -> io::Result<Found<T, E>> {
        let mut turn = match self.turn.take() {
            Some(unfinished) => unfinished,
            None => self.trigger(TriggerState::HandlerExit, timers),
        };
        loop {
            if let Some(fired) = timers.next(&turn) {
                self.turn = Some(turn);
                return Ok(Found::Due(fired));
            }
            if let Some(found) = look()? {
                return Ok(Found::Source(found));
            }
            turn = self.trigger(TriggerState::Idle, timers);
            if let Some(fired) = timers.next(&turn) {
                self.turn = Some(turn);
                return Ok(Found::Due(fired));
            }
            turn = self.sleep(source, timers)?;
        }
    }

    fn trigger<E>(&mut self, source: TriggerState, timers: &mut SoftTimers<E>) -> Turn {
        self.now = Monotonic.now();
        timers.trigger(source, self.now)
    }

    fn sleep<E>(&mut self, source: BorrowedFd<'_>, timers: &mut SoftTimers<E>) -> io::Result<Turn> {
        let wait = self.idle.wait_for(self.now, timers);
        let timeout = match wait {
            Wait::Poll => return Ok(self.trigger(TriggerState::Idle, timers)),
            Wait::Until(wake) => Some(wake.saturating_duration_since(self.now)),
            Wait::Forever => None,
        };
        let found = wait_readable(source, timeout)?;
        let source = if found { TriggerState::Readiness } else { TriggerState::Backup };
        let turn = self.trigger(source, timers);
        // A signal can end a wait early, which says nothing about wake-ups.
        match wait {
            Wait::Until(wake) if !found && self.now >= wake => self.idle.woke(wake, self.now),
            _ => {}
        }
        Ok(turn)
    }
}

impl Default for Waiter {
    fn default() -> Self {
        Self::new()
    }
}

enum Found<T, E> {
    Source(T),
    Due(Fired<E>),
}

fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
    match rustix::net::recvfrom(socket, buffer, RecvFlags::DONTWAIT) {
        Ok((len, _, Some(from))) => Ok(Some((len, SocketAddr::try_from(from)?))),
        Ok((_, _, None)) => Err(io::Error::other("a datagram without a sender")),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
