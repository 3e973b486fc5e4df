//! What leaves: a batch of datagrams, and an account of what the kernel did with it.
//!
//! `sendmmsg` says how many it took, but drops the reason for stopping early. A pending ICMP error
//! is cleared by being dropped so; a full buffer is not. Trying the rest at once therefore either
//! goes on or brings the true reason:
//!
//! ```text
//!   offer A B C D ──▶ 2 taken, reason unknown
//!   offer     C D ──▶ 2 taken      it was about an earlier datagram: retried + 1, nothing lost
//!                 └─▶ EAGAIN …     it is about C: stopped, C and D stay
//! ```

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::{MAX_BATCH, MAX_DATAGRAM};
use crate::sys::sendmmsg::SendBuffers;

/// Datagrams that wait to be sent.
///
/// A ring that is made once: [`push`](SendBatch::push) copies a datagram in, and
/// [`UdpSocket::send_batch`](super::UdpSocket::send_batch) takes out what the kernel accepted.
///
/// ```
/// use softtimers::udp::{PushError, SendBatch};
///
/// let mut batch = SendBatch::new(1, 4);
/// assert_eq!(batch.push(b"too long", None), Err(PushError::TooLong { length: 8, max_datagram: 4 }));
/// assert_eq!(batch.push(b"fits", None), Ok(()));
/// assert_eq!(batch.push(b"more", None), Err(PushError::Full { capacity: 1 }));
/// ```
pub struct SendBatch {
    buffers: SendBuffers,
}

impl SendBatch {
    /// Room for `capacity` datagrams of at most `max_datagram` bytes each.
    ///
    /// `capacity` is held between 1 and 1024, which is what the kernel takes at once, and
    /// `max_datagram` between 1 and 65,535. Allocates their product and about 110 bytes for each
    /// datagram; memory that no datagram has used costs no page.
    pub fn new(capacity: usize, max_datagram: usize) -> Self {
        let (capacity, max_datagram) = (capacity.clamp(1, MAX_BATCH), max_datagram.clamp(1, MAX_DATAGRAM));
        Self { buffers: SendBuffers::new(capacity, max_datagram) }
    }

    /// Puts a copy of `payload` at the end: to `to`, or to the connected address.
    ///
    /// # Errors
    ///
    /// If the batch has no room for it, in number or in length. Nothing changes then.
    pub fn push(&mut self, payload: &[u8], to: Option<SocketAddr>) -> Result<(), PushError> {
        if payload.len() > self.max_datagram() {
            return Err(PushError::TooLong { length: payload.len(), max_datagram: self.max_datagram() });
        }
        if self.is_full() {
            return Err(PushError::Full { capacity: self.capacity() });
        }
        self.buffers.push(payload, to);
        Ok(())
    }

    /// Forgets the first datagram, and says whether there was one: the way on after
    /// [`Stopped::Error`].
    pub fn discard_first(&mut self) -> bool {
        let any = !self.is_empty();
        self.buffers.discard(1);
        any
    }

    /// Forgets all datagrams.
    pub fn clear(&mut self) {
        self.buffers.discard(self.len());
    }

    /// How many datagrams wait.
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is no room for another one.
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    /// How many datagrams can wait.
    pub fn capacity(&self) -> usize {
        self.buffers.capacity()
    }

    /// How long a datagram can be.
    pub fn max_datagram(&self) -> usize {
        self.buffers.max_datagram()
    }

    pub(super) fn send(&mut self, socket: BorrowedFd<'_>) -> SendOutcome {
        let mut outcome = SendOutcome { sent: 0, retried: 0, stopped: None };
        // Attempts that the first waiting datagram has failed so far.
        let mut failures = 0;
        while !self.is_empty() {
            match self.buffers.send(socket) {
                Ok(run) if run.taken > 0 => {
                    outcome.sent += run.taken;
                    outcome.retried += usize::from(failures > 0);
                    // A run that broke off hides its error, and a pending one is gone by now. The
                    // next attempt tells whether it lasts.
                    failures = usize::from(run.taken < run.offered);
                }
                Err(error) if is_about_an_earlier_datagram(&error) && failures < MAX_FAILURES => {
                    failures += 1;
                }
                Err(error) => {
                    outcome.stopped = Some(error.into());
                    break;
                }
                // The kernel does not do this; without this arm it could hold us here if it did.
                Ok(_) => {
                    outcome.stopped = Some(Stopped::Error(io::ErrorKind::WriteZero.into()));
                    break;
                }
            }
        }
        outcome
    }
}

impl fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBatch")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("max_datagram", &self.max_datagram())
            .finish()
    }
}

/// What became of a batch: see [`UdpSocket::send_batch`](super::UdpSocket::send_batch).
#[derive(Debug)]
#[must_use = "what was not sent is still in the batch"]
#[non_exhaustive]
pub struct SendOutcome {
    /// How many datagrams the kernel took. They have left the batch.
    pub sent: usize,
    /// How many of those met an error at first, and were taken when tried again at once. **They are
    /// not lost.**
    ///
    /// On a connected socket this is nearly always the ICMP answer to an *earlier* datagram
    /// (`ECONNREFUSED`: nobody listens there): the kernel reports it to whichever call comes next,
    /// and then forgets it. It is no loss of the datagram that met it, but a sign that the earlier
    /// ones arrive at a closed port. The kernel does not always tell us which error it was, so a
    /// buffer that was full for a moment is counted here too.
    pub retried: usize,
    /// What stopped it; `None` if the batch is empty now.
    pub stopped: Option<Stopped>,
}

/// What kept a batch from being sent whole. The datagram it happened to is the first in the batch.
#[derive(Debug)]
pub enum Stopped {
    /// The socket's send buffer is full (`EAGAIN`); wait until the socket is writable.
    WouldBlock,
    /// The system is short of memory, or a queue on the way out is full (`ENOBUFS`). The socket may
    /// be writable all the while, so wait for some time instead. A full device queue shows only with
    /// [`report_queue_drops`](super::UdpSocket::report_queue_drops).
    NoBuffers,
    /// Anything else, by and large about this datagram: too long for the path, no route, forbidden.
    /// Correct it and try again, or [`discard`](SendBatch::discard_first) it.
    Error(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::AGAIN) => Stopped::WouldBlock,
            Some(Errno::NOBUFS) => Stopped::NoBuffers,
            _ => Stopped::Error(error),
        }
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stopped::WouldBlock => f.write_str("the send buffer of the socket is full"),
            Stopped::NoBuffers => f.write_str("a queue on the way out is full"),
            Stopped::Error(error) => error.fmt(f),
        }
    }
}

/// Why a datagram was not accepted into a [`SendBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError {
    /// As many datagrams wait as there is room for.
    Full {
        /// The room.
        capacity: usize,
    },
    /// The datagram is longer than the batch was made for.
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The longest that is accepted.
        max_datagram: usize,
    },
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PushError::Full { capacity } => {
                write!(f, "{capacity} datagrams are waiting already; send some first")
            }
            PushError::TooLong { length, max_datagram } => {
                write!(f, "a datagram of {length} bytes; this batch takes up to {max_datagram}")
            }
        }
    }
}

impl Error for PushError {}

/// Whether `error`, from sending on a connected socket, is by and large about something else than the
/// datagram that met it: then send it again, at once, but not for ever.
///
/// True of the ICMP answers to earlier datagrams (`ECONNREFUSED`, `EHOSTUNREACH`, `ENETUNREACH`), which
/// the kernel reports to whichever call comes next and then forgets, and of `EINTR`. A route that is
/// missing here gives the same errors, but lasts: whoever tries again needs a bound.
/// [`UdpSocket::send_batch`](super::UdpSocket::send_batch) does all that by itself.
///
/// ```
/// use std::io::ErrorKind;
/// use softtimers::udp::is_about_an_earlier_datagram;
///
/// let refused = std::io::Error::from_raw_os_error(111); // ECONNREFUSED
/// assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
/// assert!(is_about_an_earlier_datagram(&refused));
/// assert!(!is_about_an_earlier_datagram(&ErrorKind::WouldBlock.into()));
/// ```
pub fn is_about_an_earlier_datagram(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::INTR)
    )
}

/// An unreachable network may be ours, and last: then it is an error after these attempts.
const MAX_FAILURES: usize = 3;
