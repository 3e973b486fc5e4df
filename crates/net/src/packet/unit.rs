//! [`Unit`]: the segments of a joined frame, which are cut as late as possible and may leave together.
//!
//! ```text
//!   received  │ headers │ 1 │ 2 │ 3 │ 4 │ 5 │     one frame of five segments
//!   sent      │ headers │ 1 │  │ headers │ 2 │ 3 │ 4 │ 5 │
//! ```
//!
//! A frame of several segments costs the sending and the receiving kernel about as much as a single one.

use std::ops::Range;

use super::wire::{Layout, Transport};
use super::{Frame, Interface, Offload, Segments};

/// A frame of TCP that the kernel has joined, of at least two segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    bytes: Vec<u8>,
    layout: Layout,
    size: u16,
    segments: u16,
}

impl Unit {
    /// Copies a frame that consists of segments which `out` can send; `None` for any other.
    pub fn new(frame: &Frame<'_>, out: &Interface, copy: impl FnOnce(&[u8]) -> Vec<u8>) -> Option<Self> {
        let Some(Segments::Tcp(size)) = frame.offload.segments else { return None };
        if !frame.is_sendable(out) {
            return None;
        }
        Self::from_frame(frame.bytes, size, copy)
    }

    fn from_frame(bytes: &[u8], size: u16, copy: impl FnOnce(&[u8]) -> Vec<u8>) -> Option<Self> {
        let layout = Layout::parse(bytes, Transport::Tcp)?;
        let segments = u16::try_from(layout.segments(bytes, size.into())?).ok().filter(|&all| all > 1)?;
        Some(Unit { bytes: copy(bytes), layout, size, segments })
    }

    /// Returns the memory, for another frame.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> u16 {
        self.segments
    }

    /// Returns the bytes of its headers, which those of all segments resemble.
    pub fn headers(&self) -> &[u8] {
        &self.bytes[..self.layout.payload]
    }

    /// Returns the length of the frame that a segment is on a wire.
    pub fn length(&self, segment: u16) -> usize {
        let size = usize::from(self.size);
        let before = self.layout.payload + usize::from(segment) * size;
        self.layout.payload + size.min(self.bytes.len().saturating_sub(before))
    }

    /// Makes `frame` these of the segments, at least one, and returns the work that is left for the interface.
    pub fn part(&self, segments: Range<u16>, frame: &mut Vec<u8>) -> Offload {
        let range = usize::from(segments.start)..usize::from(segments.end);
        let checksum = self.layout.part(&self.bytes, self.size.into(), range, frame);
        let joined = segments.len() > 1;
        Offload { checksum: Some(checksum), segments: joined.then_some(Segments::Tcp(self.size)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of TCP over IPv4 without options, with FIN, PSH and CWR.
    fn frame(payload: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x08, 0, 0x45, 0, 0, 0, 0, 9, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let mut transport = [0; 20];
        (transport[12], transport[13]) = (5 << 4, 0x80 | 0x08 | 0x01);
        frame.extend(transport);
        frame.extend((0..payload).map(|byte| (byte * 7) as u8));
        frame
    }

    /// However a unit is divided, its parts become the same frames on a wire as the whole.
    #[test]
    fn parts_are_on_the_wire_what_the_whole_is() {
        let whole = frame(5_001);
        let wire = |bytes: &[u8], offload: Offload| {
            let mut all = Vec::new();
            offload.frames(bytes, None, &mut |frame| all.push(frame.to_vec())).unwrap();
            all
        };
        let expected = wire(&whole, Offload { checksum: None, segments: Some(Segments::Tcp(1_000)) });
        let unit = Unit::from_frame(&whole, 1_000, <[u8]>::to_vec).unwrap();
        assert_eq!((unit.segments(), unit.headers().len()), (6, 54));
        for cuts in 0..1u32 << 5 {
            let (mut all, mut begun, mut part) = (Vec::new(), 0, Vec::new());
            for end in (1..=6).filter(|&end| end == 6 || cuts & (1 << (end - 1)) != 0) {
                let offload = unit.part(begun..end, &mut part);
                assert_eq!(offload.segments.is_some(), end - begun > 1);
                all.extend(wire(&part, offload));
                begun = end;
            }
            assert_eq!(all, expected);
        }
        assert_eq!(
            (0..6).map(|at| unit.length(at)).collect::<Vec<_>>(),
            [1_054, 1_054, 1_054, 1_054, 1_054, 55]
        );
    }

    #[test]
    fn what_is_no_joined_frame_is_no_unit() {
        let whole = frame(1_000);
        let of = |bytes: &[u8], size| Unit::from_frame(bytes, size, <[u8]>::to_vec);
        assert_eq!((of(&whole, 1_000), of(&whole, 0), of(&whole[..50], 100)), (None, None, None));
        assert_eq!(of(&whole, 999).map(|unit| unit.segments()), Some(2));
    }
}
