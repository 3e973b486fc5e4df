//! UDP in batches: many datagrams per system call, with receive times, and without silent losses.
//!
//! A system call costs as much as hundreds of clock checks, so a program that sends or receives at
//! microsecond intervals must make few of them. [`UdpSocket`] is a `std` socket with two more methods:
//!
//! ```text
//!   SendBatch ── send_batch ──▶ kernel      datagrams not taken stay in the batch, and the
//!                                           outcome says why
//!   RecvBatch ◀── recv_batch ── kernel      payload, sender, receive time, truncated?
//! ```
//!
//! Datagrams are still lost where UDP loses them. This is how losses show here:
//!
//! | where | how it shows |
//! |---|---|
//! | send buffer full | [`Stopped::WouldBlock`]; the datagram is still in the batch |
//! | queue of the local device full | **not at all**, unless [`report_queue_drops`] is on: then [`Stopped::NoBuffers`], and the datagram is still in the batch |
//! | the same queue has room for some [segments](SendBatch::set_segmentation) of a send | **not at all** |
//! | the other end's port is closed | an ICMP error on a *connected* socket, returned by a later call: see [`SendOutcome::retried`] |
//! | receive buffer full | [`UdpSocket::drops`], or with each batch [`RecvBatch::drops`] |
//! | buffer of the [`RecvBatch`] too short | [`Datagram::truncated`] |
//!
//! ```
//! use softtimers_net::udp::{RecvBatch, SendBatch, UdpSocket};
//!
//! let receiver = UdpSocket::bind("127.0.0.1:0")?;
//! receiver.set_timestamps(true)?;
//! let sender = UdpSocket::bind("127.0.0.1:0")?;
//! sender.connect(receiver.local_addr()?)?;
//!
//! let mut outgoing = SendBatch::new(16, 1_200);
//! outgoing.push(b"one", None)?;
//! outgoing.push(b"two", None)?;
//! assert_eq!(sender.send_batch(&mut outgoing).sent, 2);
//!
//! let mut incoming = RecvBatch::new(16, 1_200);
//! let mut received = 0;
//! while received < 2 {
//!     received += receiver.recv_batch(&mut incoming)?;
//!     for datagram in incoming.iter() {
//!         assert_eq!(datagram.from, sender.local_addr()?);
//!         assert!(datagram.received.is_some() && !datagram.truncated);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`report_queue_drops`]: UdpSocket::report_queue_drops

mod group;
mod recv;
mod send;

use std::io;
use std::net::{self, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

pub use recv::{Datagram, RecvBatch};
pub use send::{PushError, Segmentation, SendBatch, SendOutcome, Stopped};
pub use softtimers_linux::retries::{Retries, is_about_an_earlier_datagram};

use softtimers_linux::sockopt;

/// A UDP socket that also sends and receives in batches.
///
/// It wraps a [`std::net::UdpSocket`], and converts from and to one; other methods are available by
/// [`AsRef`]. Like it, a new socket is blocking: call [`set_nonblocking`] before it joins an event loop.
///
/// [`set_nonblocking`]: UdpSocket::set_nonblocking
#[derive(Debug)]
pub struct UdpSocket {
    socket: net::UdpSocket,
}

impl UdpSocket {
    /// Makes a socket bound to the first of `addresses` that works.
    ///
    /// # Errors
    ///
    /// As [`std::net::UdpSocket::bind`].
    pub fn bind(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        net::UdpSocket::bind(addresses).map(Self::from)
    }

    /// Connects the socket: it sends to `addresses` from now on, and receives only from there.
    ///
    /// A connected socket gets ICMP errors: a datagram to a closed port makes a *later* call fail with
    /// `ConnectionRefused`. That call itself lost no datagram; repeat it.
    ///
    /// # Errors
    ///
    /// As [`std::net::UdpSocket::connect`].
    pub fn connect(&self, addresses: impl ToSocketAddrs) -> io::Result<()> {
        self.socket.connect(addresses)
    }

    /// Returns the address this socket is bound to.
    ///
    /// # Errors
    ///
    /// As [`std::net::UdpSocket::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Makes calls return `WouldBlock` where they would wait.
    ///
    /// # Errors
    ///
    /// As [`std::net::UdpSocket::set_nonblocking`].
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(nonblocking)
    }

    /// Sends one datagram to the connected address.
    ///
    /// # Errors
    ///
    /// As [`std::net::UdpSocket::send`].
    pub fn send(&self, payload: &[u8]) -> io::Result<usize> {
        self.socket.send(payload)
    }

    /// Sends one datagram to the first of `addresses`.
    ///
    /// # Errors
    ///
    /// As [`std::net::UdpSocket::send_to`].
    pub fn send_to(&self, payload: &[u8], addresses: impl ToSocketAddrs) -> io::Result<usize> {
        self.socket.send_to(payload, addresses)
    }

    /// Receives one datagram from the connected address; truncated to `buffer`.
    ///
    /// # Errors
    ///
    /// As [`std::net::UdpSocket::recv`].
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.recv(buffer)
    }

    /// Receives one datagram and its sender; truncated to `buffer`.
    ///
    /// # Errors
    ///
    /// As [`std::net::UdpSocket::recv_from`].
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.recv_from(buffer)
    }

    /// Sends the datagrams of `batch` in order, until none is left or something stops it.
    ///
    /// Datagrams that were sent have left the batch; the others are still in it, in order, for the next call.
    /// On a blocking socket this waits for buffer space instead of stopping at [`Stopped::WouldBlock`].
    ///
    /// # Cost
    ///
    /// One `sendmmsg` for a batch that goes through, two if it wraps around its ring, and one more
    /// to learn why it stopped: [`SendOutcome::calls`]. No allocation. A batch with
    /// [segmentation](SendBatch::set_segmentation) asks the kernel once whether it knows how.
    pub fn send_batch(&self, batch: &mut SendBatch) -> SendOutcome {
        self.send_at_most(batch, usize::MAX)
    }

    /// Sends at most `most` datagrams of `batch`, a quota, as [`send_batch`](Self::send_batch) does. The others stay
    /// in the batch.
    pub fn send_at_most(&self, batch: &mut SendBatch, most: usize) -> SendOutcome {
        batch.send(self.as_fd(), most)
    }

    /// Replaces the contents of `batch` by the datagrams that have arrived, as many as it has room for, and
    /// returns their number: at least one.
    ///
    /// On a blocking socket this waits for the first datagram, never for a second.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no datagram, on a non-blocking socket; `Interrupted` by a signal, on a
    /// blocking one; on a connected socket `ConnectionRefused`, which means that an earlier datagram *of
    /// ours* reached a closed port, and leaves arrived datagrams for the next call. The batch is empty after
    /// an error.
    ///
    /// # Cost
    ///
    /// One `recvmmsg`, and three clock reads if the datagrams carry receive times. No allocation.
    pub fn recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.recv_at_most(batch, batch.capacity())
    }

    /// Receives at most `most` datagrams, a quota, as [`recv_batch`](Self::recv_batch) does. The others stay in the
    /// receive buffer. A `most` of zero counts as one.
    ///
    /// # Errors
    ///
    /// As [`recv_batch`](UdpSocket::recv_batch).
    pub fn recv_at_most(&self, batch: &mut RecvBatch, most: usize) -> io::Result<usize> {
        batch.receive(self.as_fd(), most.max(1))
    }

    /// Asks the kernel for the receive time of each datagram: [`Datagram::received`].
    ///
    /// The time is taken when the network stack first sees the packet, before it waits in the
    /// receive buffer, so it excludes the receiver's own lateness.
    ///
    /// The kernel switches its stamps on in the background, which takes milliseconds on a busy
    /// machine if no other socket wanted them. A datagram that arrives meanwhile carries the time
    /// when it is read, and so may seem later than its successors: switch on early, and do not
    /// trust the first few.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_timestamps(&self, on: bool) -> io::Result<()> {
        sockopt::set_timestamps(self.as_fd(), on)
    }

    /// Asks the kernel to send the count of dropped datagrams with each one that is received:
    /// [`RecvBatch::drops`]. Costs no system call, unlike [`UdpSocket::drops`].
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn set_drop_counter(&self, on: bool) -> io::Result<()> {
        sockopt::set_drop_counter(self.as_fd(), on)
    }

    /// Returns the number of datagrams that this socket has dropped since it was made, modulo 2³²: its receive buffer
    /// was full, or their checksum was wrong. One system call.
    ///
    /// # Errors
    ///
    /// The system's error; Linux older than 4.12 does not have the count.
    pub fn drops(&self) -> io::Result<u32> {
        sockopt::drops(self.as_fd())
    }

    /// Asks for a receive buffer of `bytes`, and returns the size that was granted.
    ///
    /// With `CAP_NET_ADMIN` the request may exceed the system's limit (`net.core.rmem_max`);
    /// without, it is silently cut to it, so check the result. The kernel grants twice the request and counts
    /// its own overhead against it: a small datagram takes some 800 bytes.
    ///
    /// # Errors
    ///
    /// The system's error.
    ///
    /// ```
    /// let socket = softtimers_net::udp::UdpSocket::bind("127.0.0.1:0")?;
    /// let granted = socket.request_recv_buffer(64 * 1024)?;
    /// assert!(granted >= 64 * 1024);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn request_recv_buffer(&self, bytes: usize) -> io::Result<usize> {
        sockopt::request_recv_buffer(self.as_fd(), bytes)
    }

    /// Makes a datagram that the local device's queue drops fail with `ENOBUFS`
    /// ([`Stopped::NoBuffers`]). **Without this Linux reports it as sent.**
    ///
    /// It is off by default because the same option (`IP_RECVERR`) also queues every ICMP error on
    /// the socket: an unconnected socket then gets them too, they take receive buffer, and the socket polls
    /// as `ERR` until [`drain_errors`](UdpSocket::drain_errors) is called. Switch it on behind a local shaper
    /// or a slow device, and drain when the event loop reports `ERR`.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn report_queue_drops(&self, on: bool) -> io::Result<()> {
        sockopt::set_queue_errors(self.as_fd(), on)
    }

    /// Lets each datagram carry the time until which the kernel keeps it: [`SendBatch::push_at`]. Permanent
    /// for the socket; datagrams without one leave at once, as before.
    ///
    /// **Success proves nothing**: release times are kept by a queue on the path, on Linux `fq`, and
    /// ignored without. [`kernel::release_times`](crate::kernel::release_times) checks whether they are kept.
    ///
    /// # Errors
    ///
    /// The system's error; Linux older than 4.19 does not support it.
    pub fn enable_release_times(&self) -> io::Result<()> {
        sockopt::enable_release_times(self.as_fd())
    }

    /// Discards the queued ICMP errors, at most 4096, and returns how many there were.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn drain_errors(&self) -> io::Result<usize> {
        sockopt::drain_errors(self.as_fd())
    }
}

impl From<net::UdpSocket> for UdpSocket {
    fn from(socket: net::UdpSocket) -> Self {
        Self { socket }
    }
}

impl From<UdpSocket> for net::UdpSocket {
    fn from(socket: UdpSocket) -> Self {
        socket.socket
    }
}

impl AsRef<net::UdpSocket> for UdpSocket {
    fn as_ref(&self) -> &net::UdpSocket {
        &self.socket
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// The kernel takes no more in one call (`UIO_MAXIOV`).
const MAX_BATCH: usize = 1024;

/// No UDP datagram is longer.
const MAX_DATAGRAM: usize = 65_535;
