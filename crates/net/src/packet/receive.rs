//! Receives frames in batches, each with the kernel's metadata.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use softtimers::RealtimeOffset;
use softtimers_core::Timestamp;
use softtimers_linux::control::Control;
use softtimers_linux::packet::{self, OFFLOAD_HEADER};
use softtimers_linux::recvmmsg::{Message, RecvBuffers};
use softtimers_linux::sockopt;

use super::wire::TAG;
use super::{Interface, Offload, Unsplit};

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
        batch.receive(self.socket.as_fd())
    }
}

impl AsFd for FrameReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Room for the frames of one receive, and the frames of the last one.
pub struct FrameBatch {
    buffers: RecvBuffers,
    /// Measured when the first receive time is seen.
    realtime: Option<RealtimeOffset>,
    drops: u32,
}

impl FrameBatch {
    /// Makes room for `capacity` frames, clamped to 1 to 1,024, each of up to 64 KiB, the length of joined
    /// ones. Unused memory takes no pages.
    pub fn new(capacity: usize) -> Self {
        let buffers = RecvBuffers::new(capacity.clamp(1, 1_024), LONGEST_FRAME);
        FrameBatch { buffers, realtime: None, drops: 0 }
    }

    /// Returns the number of frames that the socket had dropped for want of room, modulo 2³², according to
    /// the newest frame.
    pub fn drops(&self) -> u32 {
        self.drops
    }

    /// The frames of the last receive, in the order of arrival.
    pub fn iter(&self) -> Frames<'_> {
        Frames { batch: self, next: 0 }
    }

    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let received = self.buffers.receive(socket)?;
        if let Some(last) = received.checked_sub(1).and_then(|last| self.buffers.message(last)) {
            let control = Control::parse(last.control);
            self.drops = control.drops.unwrap_or(self.drops);
            if control.received.is_some() {
                self.realtime.get_or_insert_with(RealtimeOffset::sample).refresh();
            }
        }
        Ok(received)
    }

    fn frame<'a>(&'a self, message: Message<'a>) -> Option<Frame<'a>> {
        let (header, bytes) = message.payload.split_first_chunk::<OFFLOAD_HEADER>()?;
        if packet::is_outgoing(message.address) {
            return None;
        }
        let control = Control::parse(message.control);
        Some(Frame {
            bytes,
            offload: Offload::parse(header),
            tag: control.vlan,
            received: self.realtime.zip(control.received).map(|(realtime, stamp)| realtime.monotonic(stamp)),
            truncated: message.truncated,
        })
    }
}

impl fmt::Debug for FrameBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameBatch")
            .field("len", &self.buffers.len())
            .field("capacity", &self.buffers.capacity())
            .field("drops", &self.drops)
            .finish()
    }
}

impl<'a> IntoIterator for &'a FrameBatch {
    type Item = Frame<'a>;
    type IntoIter = Frames<'a>;

    fn into_iter(self) -> Frames<'a> {
        self.iter()
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

/// The frames of a [`FrameBatch`]; see [`FrameBatch::iter`].
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    batch: &'a FrameBatch,
    next: usize,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        loop {
            let message = self.batch.buffers.message(self.next)?;
            self.next += 1;
            if let Some(frame) = self.batch.frame(message) {
                return Some(frame);
            }
        }
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
