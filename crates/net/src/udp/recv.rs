//! Receiving: a batch of datagrams and the kernel's metadata of each.
//!
//! The kernel fills raw buffers; an address or a receive time is decoded when its datagram is read, with
//! every bound checked, because the data is untrusted.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use softtimers::RealtimeOffset;
use softtimers_core::Timestamp;
use softtimers_linux::control::Control;
use softtimers_linux::recvmmsg::{Message, RecvBuffers};
use softtimers_linux::sockaddr;

use super::{MAX_BATCH, MAX_DATAGRAM};

/// Room for the datagrams of one receive, and the datagrams of the last one.
///
/// Make it once and give it to [`UdpSocket::recv_batch`](super::UdpSocket::recv_batch) again and
/// again. It may serve several sockets in turn.
pub struct RecvBatch {
    pub(crate) buffers: RecvBuffers,
    /// Measured when the first receive time is seen.
    realtime: Option<RealtimeOffset>,
    drops: u32,
}

impl RecvBatch {
    /// Makes room for `capacity` datagrams of at most `max_datagram` bytes each; longer ones are truncated.
    ///
    /// `capacity` is held between 1 and 1024, which is what the kernel takes at once, and
    /// `max_datagram` between 1 and 65,535, which no datagram exceeds. Allocates their product and
    /// about 250 bytes for each datagram; unused memory takes no pages.
    pub fn new(capacity: usize, max_datagram: usize) -> Self {
        Self::of_longest(capacity, max_datagram.clamp(1, MAX_DATAGRAM))
    }

    pub(crate) fn of_longest(capacity: usize, longest: usize) -> Self {
        let buffers = RecvBuffers::new(capacity.clamp(1, MAX_BATCH), longest);
        Self { buffers, realtime: None, drops: 0 }
    }

    /// Returns the number of datagrams of the last receive.
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Returns whether the last receive returned none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the most datagrams of one receive.
    pub fn capacity(&self) -> usize {
        self.buffers.capacity()
    }

    /// Returns the number of bytes of a datagram that are kept.
    pub fn max_datagram(&self) -> usize {
        self.buffers.max_datagram()
    }

    /// The datagrams of the last receive, in the order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Returns the number of datagrams that the socket had dropped, modulo 2³², when the newest datagram that says so
    /// arrived.
    ///
    /// A running total of the socket's life, zero until it first drops one. Needs
    /// [`set_drop_counter`](super::UdpSocket::set_drop_counter), and stays unchanged when a receive has no
    /// count; for a batch that serves several sockets it is that of the last one with a count. Drops *after*
    /// the newest datagram are reported with the next one, or by [`drops`](super::UdpSocket::drops).
    pub fn drops(&self) -> u32 {
        self.drops
    }

    /// The payload of the datagram at this place in the order of arrival, to be changed in place.
    pub fn payload_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        self.buffers.payload_mut(index)
    }

    /// The datagram at this place in the order of arrival.
    pub fn get(&self, index: usize) -> Option<Datagram<'_>> {
        self.buffers.message(index).map(|message| self.datagram(message))
    }

    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        let received = self.buffers.receive_at_most(socket, most)?;
        // The count only grows, so the last datagram has the latest.
        if let Some(last) = received.checked_sub(1).and_then(|last| self.buffers.message(last)) {
            let control = Control::parse(last.control);
            self.drops = control.drops.unwrap_or(self.drops);
            if control.received.is_some() {
                self.realtime.get_or_insert_with(RealtimeOffset::sample).refresh();
            }
        }
        Ok(received)
    }

    fn datagram<'a>(&'a self, message: Message<'a>) -> Datagram<'a> {
        Datagram {
            payload: message.payload,
            from: sockaddr::decode(message.address).unwrap_or(NOBODY),
            received: self.received(&Control::parse(message.control)),
            truncated: message.truncated,
        }
    }

    pub(crate) fn received(&self, control: &Control) -> Option<Timestamp> {
        self.realtime.zip(control.received).map(|(realtime, stamp)| realtime.monotonic(stamp))
    }
}

impl fmt::Debug for RecvBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBatch")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("max_datagram", &self.max_datagram())
            .field("drops", &self.drops)
            .finish()
    }
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Datagram<'a> {
    /// The datagram, truncated to the batch's room.
    pub payload: &'a [u8],
    /// The sender's address; `0.0.0.0:0` if the system named no internet address.
    pub from: SocketAddr,
    /// When the kernel received it, on the clock of [`Monotonic`](softtimers::Monotonic); `None`
    /// unless [`set_timestamps`](super::UdpSocket::set_timestamps) is on.
    ///
    /// The kernel stamps with the realtime clock; [`RealtimeOffset`] describes the accuracy of the
    /// conversion, and the effect of a step of that clock. Gaps between datagrams are exactly the kernel's,
    /// to the nanosecond.
    pub received: Option<Timestamp>,
    /// Whether it was longer than the batch's buffer, and its end is lost.
    pub truncated: bool,
}

const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
