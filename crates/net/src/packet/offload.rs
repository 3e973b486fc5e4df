//! [`Offload`]: work left to an interface, and its encoding between kernel and program.
//!
//! ```text
//!   struct virtio_net_hdr, in the machine's own order of bytes
//!   │ flags │ kind │ headers' length │ segment's length │ sum begins │ its place, from there │
//!      1       1          2                  2                2                2
//! ```

use softtimers_linux::packet::OFFLOAD_HEADER;

use super::wire::{self, Headers, TAG, Transport, Unsplit};

/// The work on a frame that was left to the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    /// The missing checksum: the offset at which the sum begins, and from there the offset of its field,
    /// which has the pseudo-header's part.
    pub checksum: Option<[u16; 2]>,
    /// How to segment the frame.
    pub segments: Option<Segments>,
}

/// How to segment a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segments {
    /// Into TCP segments with N bytes of payload.
    Tcp(u16),
    /// Into UDP datagrams with N bytes of payload.
    Udp(u16),
    /// In an unknown way.
    Unknown,
}

impl Segments {
    /// The transport, and how much of it each segment has.
    fn known(self) -> Option<(Transport, u16)> {
        match self {
            Segments::Tcp(size) => Some((Transport::Tcp, size)),
            Segments::Udp(size) => Some((Transport::Udp, size)),
            Segments::Unknown => None,
        }
    }
}

impl Offload {
    /// Fills in the missing checksum of `frame`, if there is one, so that only segmentation is left. For an
    /// output that cannot do it.
    ///
    /// # Errors
    /// [`Unsplit`] if its place is outside of the frame, which is then unchanged.
    ///
    /// # Cost
    /// Linear in the bytes that are summed.
    ///
    /// ```
    /// use softtimers_net::packet::Offload;
    ///
    /// // A sum over the last four bytes, to be put into the third and fourth of them.
    /// let mut frame = [0, 0, 0x12, 0x34, 0, 1];
    /// let mut offload = Offload { checksum: Some([2, 2]), ..Offload::default() };
    /// offload.complete_checksum(&mut frame)?;
    /// assert_eq!(frame[4..], (!(0x1234u16 + 1)).to_be_bytes());
    /// assert_eq!(offload, Offload::default());
    /// # Ok::<(), softtimers_net::packet::Unsplit>(())
    /// ```
    pub fn complete_checksum(&mut self, frame: &mut [u8]) -> Result<(), Unsplit> {
        if let Some([start, offset]) = self.checksum {
            wire::complete(frame, start.into(), offset.into()).ok_or(Unsplit)?;
            self.checksum = None;
        }
        Ok(())
    }

    /// Detects a missing checksum in a frame without metadata: its field then has only the pseudo-header's
    /// part, as left by senders that offload it to their interface.
    ///
    /// One in 65,536 frames has that by chance. Filling it in then only changes a wrong checksum.
    #[cfg(feature = "xdp")]
    pub(crate) fn found_in(frame: &[u8]) -> Self {
        Offload { checksum: wire::unfinished(frame), segments: None }
    }

    /// Calls `each` with the frames that `frame` becomes on the wire.
    ///
    /// # Errors
    /// [`Unsplit`] if it cannot be segmented; then `each` was not called.
    #[cfg(feature = "xdp")]
    pub(crate) fn cut(self, frame: &[u8], each: &mut impl FnMut(&[u8])) -> Result<(), Unsplit> {
        self.frames(frame, None, each)
    }

    /// As [`cut`](Self::cut), for a frame whose tag was taken out.
    ///
    /// # Errors
    /// As [`cut`](Self::cut).
    pub(crate) fn frames(
        self,
        frame: &[u8],
        tag: Option<[u16; 2]>,
        each: &mut impl FnMut(&[u8]),
    ) -> Result<(), Unsplit> {
        let (mut whole, mut offload) = match tag {
            Some(tag) => (wire::tagged(frame, tag).ok_or(Unsplit)?, self.shifted(TAG as u16)),
            None => (frame.to_vec(), self),
        };
        match offload.segments {
            None => {
                offload.complete_checksum(&mut whole)?;
                each(&whole);
                Ok(())
            }
            Some(segments) => {
                let (kind, size) = segments.known().ok_or(Unsplit)?;
                wire::cut(&whole, kind, size.into(), each).ok_or(Unsplit)
            }
        }
    }

    /// Returns the offload after `bytes` were inserted before the summed part.
    #[must_use]
    pub fn shifted(self, bytes: u16) -> Self {
        let checksum = self.checksum.map(|[start, offset]| [start.saturating_add(bytes), offset]);
        Offload { checksum, ..self }
    }

    /// The length of the longest frame that `frame` is cut into.
    ///
    /// # Errors
    /// [`Unsplit`] if it cannot be segmented.
    pub(crate) fn longest(self, frame: &[u8]) -> Result<usize, Unsplit> {
        let Some(segments) = self.segments else { return Ok(frame.len()) };
        let (transport, size) = segments.known().ok_or(Unsplit)?;
        let headers = Headers::parse(frame, transport).ok_or(Unsplit)?;
        Ok(frame.len().min(usize::from(headers.length) + usize::from(size)))
    }

    /// Reads a header. The bit of [`Segments`]' kind that marks congestion is ignored: each segment shows it
    /// itself.
    pub(crate) fn parse(header: &[u8; OFFLOAD_HEADER]) -> Self {
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let segments = match header[1] & !MARKED {
            NONE => None,
            TCP_V4 | TCP_V6 => Some(Segments::Tcp(half(4))),
            UDP => Some(Segments::Udp(half(4))),
            _ => Some(Segments::Unknown),
        };
        Offload { checksum: (header[0] & NEEDS_SUM != 0).then(|| [half(6), half(8)]), segments }
    }

    /// Writes a header for `frame`.
    ///
    /// # Errors
    /// [`Unsplit`] if it cannot be described, or is not a frame of that kind.
    pub(crate) fn encode(self, frame: &[u8]) -> Result<[u8; OFFLOAD_HEADER], Unsplit> {
        let mut header = [0; OFFLOAD_HEADER];
        let mut put = |at: usize, half: u16| header[at..at + 2].copy_from_slice(&half.to_ne_bytes());
        if let Some([start, offset]) = self.checksum {
            put(6, start);
            put(8, offset);
        }
        let mut kind = NONE;
        if let Some(segments) = self.segments {
            let (transport, size) = segments.known().ok_or(Unsplit)?;
            let headers = Headers::parse(frame, transport).ok_or(Unsplit)?;
            kind = match transport {
                Transport::Tcp if headers.is_v4 => TCP_V4,
                Transport::Tcp => TCP_V6,
                Transport::Udp => UDP,
            };
            kind |= if headers.is_marked { MARKED } else { 0 };
            put(2, headers.length);
            put(4, size);
        }
        header[0] = if self.checksum.is_some() { NEEDS_SUM } else { 0 };
        header[1] = kind;
        Ok(header)
    }
}

const NEEDS_SUM: u8 = 1;
const NONE: u8 = 0;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
const MARKED: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_understood() {
        let header = |flags, kind, size: u16| {
            let halves = [66u16, size, 34, 16].map(u16::to_ne_bytes).concat();
            Offload::parse(&[&[flags, kind][..], &halves].concat().try_into().unwrap())
        };
        assert_eq!(header(0, 0, 0), Offload::default());
        assert_eq!(header(2, 0, 0), Offload::default());
        let tcp = Offload { checksum: Some([34, 16]), segments: Some(Segments::Tcp(1_448)) };
        assert_eq!([header(1, 1, 1_448), header(1, 0x84, 1_448)], [tcp; 2]);
        assert_eq!(header(0, 5, 9).segments, Some(Segments::Udp(9)));
        assert_eq!(header(0, 3, 9).segments, Some(Segments::Unknown));
    }

    /// A round trip: the written header is what the kernel would have written.
    #[test]
    fn what_is_written_is_read() {
        let mut tcp = vec![2; 12];
        tcp.extend([0x08, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        tcp.extend([0; 20]);
        (tcp[46], tcp[47]) = (5 << 4, 0x90);
        tcp.extend([7; 3_000]);
        for checksum in [None, Some([34, 16])] {
            for segments in [None, Some(Segments::Tcp(1_448))] {
                let offload = Offload { checksum, segments };
                let header = offload.encode(&tcp).unwrap();
                assert_eq!(Offload::parse(&header), offload);
                let (length, kind) = if segments.is_some() { (54, TCP_V4 | MARKED) } else { (0, NONE) };
                assert_eq!((header[1], u16::from_ne_bytes([header[2], header[3]])), (kind, length));
            }
        }
        for (segments, frame) in
            [(Segments::Unknown, &tcp[..]), (Segments::Udp(9), &tcp), (Segments::Tcp(9), &[])]
        {
            assert_eq!(Offload { checksum: None, segments: Some(segments) }.encode(frame), Err(Unsplit));
        }
    }
}
