//! Receives frames in batches, each with the kernel's metadata.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use softtimers_core::Timestamp;
use softtimers_linux::control::Control;
use softtimers_linux::packet::{self, OFFLOAD_HEADER};
use softtimers_linux::recvmmsg::Message;
use softtimers_linux::sockopt;

use super::wire::TAG;
use super::{Interface, Offload, Unsplit};
use crate::udp::RecvBatch;

/// Receives a copy of each frame that arrives at one interface, for any destination. Skips frames that this
/// machine sends there itself.
#[derive(Debug)]
pub struct FrameReceiver {
    socket: OwnedFd,
}

impl FrameReceiver {
    /// Makes a receiver at this interface, which is promiscuous as long as the receiver lives.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; what else the system says.
    pub fn on(interface: &Interface) -> io::Result<Self> {
        let socket = packet::frames(interface.index(), libc::ETH_P_ALL as u16, |socket| {
            packet::set_offload_headers(socket.as_fd())?;
            packet::set_auxiliary(socket.as_fd())?;
            // On a kernel without this option, the receive skips them.
            let _ = packet::ignore_outgoing(socket.as_fd());
            sockopt::set_timestamps(socket.as_fd(), true)?;
            sockopt::set_drop_counter(socket.as_fd(), true)?;
            // The kernel may grant less.
            sockopt::request_recv_buffer(socket.as_fd(), RECV_BUFFER)?;
            Ok(())
        })?;
        packet::hear_all(socket.as_fd(), interface.index())?;
        Ok(FrameReceiver { socket })
    }

    /// Replaces the contents of `batch` by the frames that have arrived, as many as it has room for, and
    /// returns their number. Never waits.
    ///
    /// # Errors
    /// `WouldBlock` if no frame is there; `InvalidInput` for a frame that Linux cannot describe, such as a
    /// joined frame of a tunnel, which is then lost; `ENETDOWN` once when the interface is switched off.
    pub fn recv_batch(&self, batch: &mut FrameBatch) -> io::Result<usize> {
        batch.0.receive(self.socket.as_fd(), usize::MAX)
    }
}

impl AsFd for FrameReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Room for the frames of one receive, and the frames of the last one.
#[derive(Debug)]
pub struct FrameBatch(RecvBatch);

impl FrameBatch {
    /// Makes room for `capacity` frames, clamped to 1 to 1,024, each of up to 64 KiB, the length of joined
    /// ones. Unused memory takes no pages.
    pub fn new(capacity: usize) -> Self {
        FrameBatch(RecvBatch::of_longest(capacity, LONGEST_FRAME))
    }

    /// Returns the number of frames that the socket had dropped for want of room, modulo 2³², according to
    /// the newest frame.
    pub fn drops(&self) -> u32 {
        self.0.drops()
    }

    /// The frames of the last receive, in the order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = Frame<'_>> {
        (0..self.0.len()).filter_map(|index| self.frame(self.0.buffers.message(index)?))
    }

    fn frame<'a>(&'a self, message: Message<'a>) -> Option<Frame<'a>> {
        let (header, bytes) = message.payload.split_first_chunk::<OFFLOAD_HEADER>()?;
        if packet::is_outgoing(message.address) {
            return None;
        }
        let control = Control::parse(message.control);
        let (offload, received) = (Offload::parse(header), self.0.received(&control));
        Some(Frame { bytes, offload, tag: control.vlan, received, truncated: message.truncated })
    }
}

/// A frame that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Frame<'a> {
    /// The kernel's bytes of it: from the destination's address on, without the check sequence.
    pub bytes: &'a [u8],
    /// The work that was left for the interface to do.
    pub offload: Offload,
    /// The tag that was taken out of it: the ethertype, and the tag's value.
    pub tag: Option<[u16; 2]>,
    /// When the kernel received it, on the clock of [`Monotonic`](softtimers::Monotonic).
    pub received: Option<Timestamp>,
    /// It was longer than the batch's buffer, and its end is lost.
    pub truncated: bool,
}

impl Frame<'_> {
    /// Returns whether this interface can send the frame unchanged, by
    /// [`FrameSender::send_offloaded`](super::FrameSender::send_offloaded). If not, it has to be
    /// [cut](Self::on_the_wire) first. Its segments must fit the interface: the kernel does not check.
    pub fn is_sendable(&self, out: &Interface) -> bool {
        self.fits(out.mtu())
    }

    fn fits(&self, mtu: u32) -> bool {
        let tag = if self.bytes.get(ETHERTYPE) == Some(&TAGGED) { TAG } else { 0 };
        let longest = self.offload.longest(self.bytes);
        !self.truncated
            && self.tag.is_none()
            && longest.is_ok_and(|longest| longest <= ETHERTYPE.end + tag + mtu as usize)
            && self.offload.encode(self.bytes).is_ok()
    }

    /// Calls `each` with the frames that this one becomes on a wire: segmented as the sender allowed, with
    /// tags and checksums.
    ///
    /// # Errors
    /// [`Unsplit`] if it cannot be segmented, because its protocol is unknown or it is inconsistent; then
    /// `each` was not called.
    ///
    /// # Cost
    /// Linear in the bytes; no allocation beyond one buffer.
    pub fn on_the_wire(&self, each: &mut impl FnMut(&[u8])) -> Result<(), Unsplit> {
        if self.truncated {
            return Err(Unsplit);
        }
        self.offload.frames(self.bytes, self.tag, each)
    }
}

/// Behind both addresses, and last in Ethernet's header.
const ETHERTYPE: Range<usize> = 12..14;
/// A tag, which an interface sends beyond its MTU.
const TAGGED: [u8; 2] = [0x81, 0];
/// The longest frame that Linux joins, with Ethernet's header, a tag and the offload header.
const LONGEST_FRAME: usize = 65_536 + 64;
/// Some sixty joined frames, or 2,000 plain ones with what the kernel counts on top.
const RECV_BUFFER: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::super::Segments;
    use super::*;

    /// A frame of TCP over IPv4, with this payload, and a tag or none.
    fn tcp(tag: &[u8], payload: usize) -> Vec<u8> {
        let addresses = [2; 12];
        let network = [0x08, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let mut transport = [0; 20];
        transport[12] = 5 << 4;
        [&addresses[..], tag, &network, &transport, &vec![7; payload][..]].concat()
    }

    #[test]
    fn what_a_frame_is_cut_into_must_fit_the_interface() {
        let fits = |bytes: &[u8], segments, mtu| {
            let offload = Offload { checksum: None, segments };
            Frame { bytes, offload, tag: None, received: None, truncated: false }.fits(mtu)
        };
        let (joined, cut) = (tcp(&[], 3_000), Some(Segments::Tcp(1_448)));
        assert!(fits(&joined, cut, 1_488) && !fits(&joined, cut, 1_487));
        // Less than a segment is not cut.
        assert!(fits(&tcp(&[], 100), cut, 140) && !fits(&tcp(&[], 100), cut, 139));
        assert!(!fits(&joined, None, 1_500) && !fits(&joined, Some(Segments::Unknown), 9_000));
        assert!(!fits(&joined, Some(Segments::Udp(1_448)), 9_000));
        let tagged = tcp(&[0x81, 0, 0, 5], 3_000);
        assert!(fits(&tagged, cut, 1_488) && !fits(&tagged, cut, 1_487));
    }
}
