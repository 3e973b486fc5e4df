//! Sending: a batch of datagrams, and the kernel's result.
//!
//! `sendmmsg` returns how many it took, but drops the reason for stopping early. That clears a pending ICMP
//! error, but not a full buffer. Retrying the others at once therefore either succeeds or returns the real
//! reason:
//!
//! ```text
//!   offer A B C D ──▶ 2 taken, reason unknown
//!   offer     C D ──▶ 2 taken      it was about an earlier datagram: retried + 1, nothing lost
//!                 └─▶ EAGAIN …     it is about C: stopped, C and D stay
//! ```
//!
//! With [segmentation](SendBatch::set_segmentation), neighbours that are alike leave as one send, which the
//! kernel cuts at the very end of its way (`UDP_SEGMENT`): one trip through the stack instead of several.
//! If it refuses to, the same datagrams are offered one by one, at once and from then on:
//!
//! ```text
//!   offer [A B C] ──▶ EINVAL, EIO …   cannot be cut here, or an error of A itself: try one by one
//!   offer  A B C  ──▶ 3 taken         it was the segmentation: none from now on
//!               └───▶ EMSGSIZE …      it is about A: stopped, all stay, and segmentation stays on
//! ```

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use softtimers_core::Timestamp;
use softtimers_linux::retries::is_about_an_earlier_datagram;
use softtimers_linux::sendmmsg::{Refused, SendBuffers, Taken};
use softtimers_linux::sockopt;

use super::{MAX_BATCH, MAX_DATAGRAM};

/// Datagrams that wait to be sent.
///
/// A preallocated ring: [`push`](SendBatch::push) copies a datagram in, and
/// [`UdpSocket::send_batch`](super::UdpSocket::send_batch) takes out what the kernel accepted.
///
/// ```
/// use softtimers_net::udp::{PushError, SendBatch};
///
/// let mut batch = SendBatch::new(1, 4);
/// assert_eq!(batch.push(b"too long", None), Err(PushError::TooLong { length: 8, max_datagram: 4 }));
/// assert_eq!(batch.push(b"fits", None), Ok(()));
/// assert_eq!(batch.push(b"more", None), Err(PushError::Full { capacity: 1 }));
/// ```
pub struct SendBatch {
    buffers: SendBuffers,
    segmentation: Segmentation,
    /// Whether the kernel supports it; checked at the first use.
    known: bool,
}

/// The state of a [`SendBatch`]'s segmentation: whether it has the kernel cut sends into datagrams.
#[derive(Debug, Default)]
pub enum Segmentation {
    /// Off: each datagram is a send of its own.
    #[default]
    Off,
    /// Neighbours that are alike leave as one send.
    On,
    /// Requested but not done, for this reason: the kernel does not support it, or refused to segment
    /// datagrams that it took one by one. `EINVAL`: they are too long for the path, or have no checksum.
    /// `EIO`: the device cannot compute checksums, or the path encrypts.
    Refused(io::Error),
}

impl SendBatch {
    /// Makes room for `capacity` datagrams of at most `max_datagram` bytes each.
    ///
    /// `capacity` is held between 1 and 1024, which is what the kernel takes at once, and
    /// `max_datagram` between 1 and 65,535. Allocates their product and about 200 bytes for each
    /// datagram; unused memory takes no pages.
    pub fn new(capacity: usize, max_datagram: usize) -> Self {
        let (capacity, max_datagram) = (capacity.clamp(1, MAX_BATCH), max_datagram.clamp(1, MAX_DATAGRAM));
        let buffers = SendBuffers::new(capacity, max_datagram);
        Self { buffers, segmentation: Segmentation::Off, known: false }
    }

    /// Lets neighbours leave as one send (`UDP_SEGMENT`, generic segmentation offload): up to 64 datagrams
    /// to the same address, as long as the first, of which the last may be shorter, with up to
    /// 65,507 bytes and the same [release time](SendBatch::push_at). Each still arrives separately. Switching
    /// it on also clears an earlier refusal.
    ///
    /// It is off by default. On loopback a datagram of 1,200 bytes costs a third of a separate send when
    /// eight leave together. The price: they leave as one train, at the speed of the device; and a queue on
    /// the path that has room for only some of them drops the others silently, whatever
    /// [`report_queue_drops`](super::UdpSocket::report_queue_drops) asks for.
    ///
    /// ```
    /// use softtimers_net::udp::{SendBatch, UdpSocket};
    ///
    /// let receiver = UdpSocket::bind("127.0.0.1:0")?;
    /// let sender = UdpSocket::bind("127.0.0.1:0")?;
    /// sender.connect(receiver.local_addr()?)?;
    ///
    /// let mut batch = SendBatch::new(8, 1_200);
    /// batch.set_segmentation(true);
    /// for number in 0..8 {
    ///     batch.push(&[number; 1_200], None)?;
    /// }
    /// let outcome = sender.send_batch(&mut batch);
    /// assert_eq!((outcome.sent, outcome.calls), (8, 1));
    ///
    /// let mut packet = [0; 2_000];
    /// for number in 0..8 {
    ///     assert_eq!(receiver.recv(&mut packet)?, 1_200);
    ///     assert_eq!(packet[0], number);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_segmentation(&mut self, on: bool) {
        self.segmentation = if on { Segmentation::On } else { Segmentation::Off };
    }

    /// Returns whether neighbours leave as one send, or the reason why not although requested.
    pub fn segmentation(&self) -> &Segmentation {
        &self.segmentation
    }

    /// Appends a copy of `payload`: to `to`, or to the connected address.
    ///
    /// # Errors
    ///
    /// If the batch has no room for it, in number or in length. Nothing changes then.
    pub fn push(&mut self, payload: &[u8], to: Option<SocketAddr>) -> Result<(), PushError> {
        self.put(payload, to, None)
    }

    /// Appends a copy of `payload`, for the kernel to keep until `release` on
    /// [`Monotonic`](softtimers::Monotonic)'s clock.
    ///
    /// On a socket without [`enable_release_times`](super::UdpSocket::enable_release_times) it cannot be
    /// sent (`EINVAL`). **If no queue on the path keeps release times it leaves at once**, and no call
    /// reports that: check first, with [`kernel::release_times`](crate::kernel::release_times).
    ///
    /// # Errors
    ///
    /// As [`push`](SendBatch::push).
    pub fn push_at(
        &mut self,
        payload: &[u8],
        to: Option<SocketAddr>,
        release: Timestamp,
    ) -> Result<(), PushError> {
        self.put(payload, to, Some(release))
    }

    fn put(
        &mut self,
        payload: &[u8],
        to: Option<SocketAddr>,
        release: Option<Timestamp>,
    ) -> Result<(), PushError> {
        if payload.len() > self.max_datagram() {
            return Err(PushError::TooLong { length: payload.len(), max_datagram: self.max_datagram() });
        }
        if self.is_full() {
            return Err(PushError::Full { capacity: self.capacity() });
        }
        self.buffers.push(payload, to, release);
        Ok(())
    }

    /// Changes each waiting datagram in place.
    pub fn edit(&mut self, each: impl FnMut(&mut [u8])) {
        self.buffers.edit(each);
    }

    /// Swaps two of the waiting datagrams, counted from the first, to make similar ones neighbours. Does not
    /// copy them.
    ///
    /// # Panics
    ///
    /// If either is not below [`len`](SendBatch::len).
    pub fn swap(&mut self, one: usize, other: usize) {
        self.buffers.swap(one, other);
    }

    /// Discards the first datagram, and returns whether there was one: to continue after [`Stopped::Error`].
    pub fn discard_first(&mut self) -> bool {
        let any = !self.is_empty();
        self.buffers.discard(1);
        any
    }

    /// Discards all waiting datagrams.
    pub fn clear(&mut self) {
        self.buffers.discard(self.len());
    }

    /// Returns the number of datagrams that wait.
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Returns whether no datagram waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether there is no room for another datagram.
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    /// Returns the number of datagrams that can wait.
    pub fn capacity(&self) -> usize {
        self.buffers.capacity()
    }

    /// Returns the length that a datagram can have, in bytes.
    pub fn max_datagram(&self) -> usize {
        self.buffers.max_datagram()
    }

    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, most: usize) -> SendOutcome {
        let mut outcome = SendOutcome { sent: 0, retried: 0, calls: 0, segments: 0, stopped: None };
        // Attempts that the first waiting datagram has failed so far.
        let mut failures = 0;
        // The error of a joined send whose datagrams now go one by one.
        let mut doubt = None;
        while !self.is_empty() && outcome.sent < most {
            let join = doubt.is_none() && self.may_join(socket);
            outcome.calls += 1;
            match self.buffers.send(socket, most - outcome.sent, join) {
                Ok(Taken { taken, offered, segments }) if taken > 0 => {
                    outcome.sent += taken;
                    outcome.segments += segments;
                    outcome.retried += usize::from(failures > 0);
                    // An interrupted run hides its error, and a pending one is cleared by now. The next
                    // attempt shows whether it persists.
                    failures = usize::from(taken < offered);
                    if let Some(error) = doubt.take() {
                        self.segmentation = Segmentation::Refused(error);
                    }
                }
                Err(Refused { error, .. })
                    if is_about_an_earlier_datagram(&error) && failures < MAX_FAILURES =>
                {
                    failures += 1;
                }
                Err(Refused { error, joined: true }) if may_be_about_segments(&error) => doubt = Some(error),
                Err(Refused { error, .. }) => {
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

    /// Returns whether datagrams may leave as one send; checks that the kernel supports it.
    fn may_join(&mut self, socket: BorrowedFd<'_>) -> bool {
        if matches!(self.segmentation, Segmentation::On) && !self.known {
            match sockopt::knows_segments(socket) {
                Ok(()) => self.known = true,
                Err(error) => self.segmentation = Segmentation::Refused(error),
            }
        }
        matches!(self.segmentation, Segmentation::On)
    }
}

impl fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBatch")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("max_datagram", &self.max_datagram())
            .field("segmentation", &self.segmentation)
            .finish()
    }
}

/// The result of sending a batch: see [`UdpSocket::send_batch`](super::UdpSocket::send_batch).
#[derive(Debug)]
#[must_use = "what was not sent is still in the batch"]
#[non_exhaustive]
pub struct SendOutcome {
    /// Datagrams that the kernel took. They have left the batch.
    pub sent: usize,
    /// Sent datagrams that failed at first, and were taken when retried at once. **They are not lost.**
    ///
    /// On a connected socket this is nearly always the ICMP answer to an *earlier* datagram
    /// (`ECONNREFUSED`: the port is closed): the kernel returns it from the next call, and then clears it.
    /// The datagram of that call is not lost, but the earlier ones arrive at a closed port. The kernel does
    /// not always say which error it was, so a buffer that was full for a moment is counted here too.
    pub retried: usize,
    /// Number of system calls.
    pub calls: usize,
    /// Datagrams among `sent` that left as segments of a longer send: see [`SendBatch::set_segmentation`].
    pub segments: usize,
    /// Why it stopped; `None` if the batch is empty now, or the maximum was sent.
    pub stopped: Option<Stopped>,
}

/// Why a batch was not sent completely. The failed datagram is the first in the batch.
#[derive(Debug)]
pub enum Stopped {
    /// The socket's send buffer is full (`EAGAIN`); wait until the socket is writable.
    WouldBlock,
    /// The system is short of memory, or a queue on the way out is full (`ENOBUFS`). The socket may
    /// be writable all the while, so wait for some time instead. A full device queue shows only with
    /// [`report_queue_drops`](super::UdpSocket::report_queue_drops).
    NoBuffers,
    /// Any other error, mostly about this datagram: too long for the path, no route, forbidden. Correct it
    /// and try again, or [`discard`](SendBatch::discard_first) it.
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
    /// The batch is full.
    Full {
        /// The number of datagrams that the batch has room for.
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

/// Returns whether the kernel may have refused to segment a send. A single datagram can get some of these
/// errors, too.
fn may_be_about_segments(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::IO | Errno::MSGSIZE | Errno::OPNOTSUPP))
}

/// An unreachable network may be local, and persist: then it is an error after these attempts.
const MAX_FAILURES: usize = 3;
