//! Does the work of an interface on a frame: tags, segmentation and checksums.
//!
//! ```text
//!   │ Ethernet │ IP │ TCP │ 4,000 bytes                          │   cut at 1,448
//!   │ Ethernet │ IP │ TCP │ 1,448 │   sequence,  length, number of the packet and flags of each its own,
//!   │ Ethernet │ IP │ TCP │ 1,448 │   checksums made anew
//!   │ Ethernet │ IP │ TCP │ 1,104 │
//! ```
//!
//! The rules are those of the kernel's `tcp_gso_segment` and `__udp_gso_segment`: FIN and PSH on the last segment
//! only, CWR on the first, IPv4's identification counted up.
//!
//! The bytes are untrusted. Every bound is checked, and malformed frames are [`Unsplit`].

use std::fmt;
use std::ops::Range;

/// A frame that cannot be converted to its wire form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsplit;

/// Returns a copy of `frame` with this tag behind its addresses.
pub(super) fn tagged(frame: &[u8], tag: [u16; 2]) -> Option<Vec<u8>> {
    let (addresses, rest) = frame.split_at_checked(2 * ADDRESS)?;
    let [kind, value] = tag.map(u16::to_be_bytes);
    Some([addresses, &kind, &value, rest].concat())
}

/// The protocol of the segments that a frame is cut into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

/// The offsets of a frame's headers, up to its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    kind: Transport,
    network: usize,
    is_v4: bool,
    transport: usize,
    pub(super) payload: usize,
}

/// The headers up to the transport's, and that one's protocol.
struct Network {
    at: usize,
    is_v4: bool,
    protocol: u8,
    transport: usize,
}

impl Network {
    fn parse(frame: &[u8]) -> Option<Self> {
        let mut at = 2 * ADDRESS;
        let mut ethertype = half(frame, at)?;
        // At most two nested tags.
        for _ in 0..2 {
            if matches!(ethertype, 0x8100 | 0x88a8) {
                at += TAG;
                ethertype = half(frame, at)?;
            }
        }
        at += 2;
        let is_v4 = ethertype == 0x0800;
        let (protocol, transport) = match ethertype {
            0x0800 => (*frame.get(at + 9)?, at + usize::from(frame.get(at)? & 0x0f) * 4),
            0x86dd => behind_extensions(frame, at)?,
            _ => return None,
        };
        Some(Network { at, is_v4, protocol, transport })
    }
}

impl Layout {
    pub(super) fn parse(frame: &[u8], kind: Transport) -> Option<Self> {
        let Network { at: network, is_v4, protocol, transport } = Network::parse(frame)?;
        let (wanted, length) = match kind {
            Transport::Tcp => (6, usize::from(frame.get(transport + 12)? >> 4) * 4),
            Transport::Udp => (17, 8),
        };
        let plausible = transport >= network + 20 && (kind == Transport::Udp || length >= 20);
        let payload = transport + length;
        (protocol == wanted && plausible && payload < frame.len()).then_some(Layout {
            kind,
            network,
            is_v4,
            transport,
            payload,
        })
    }

    /// Returns how many segments of `size` bytes of payload the frame has, if these can be told apart.
    pub(super) fn segments(&self, frame: &[u8], size: usize) -> Option<usize> {
        let data = frame.len() - self.payload;
        let fits = size > 0 && self.payload + size.min(data) - self.network <= usize::from(u16::MAX);
        fits.then(|| data.div_ceil(size))
    }

    /// Makes `part` the frame that has only these of the [`segments`](Self::segments), one at least, and leaves its
    /// checksum to be [completed](complete): from the first number on, in the place that is that much further.
    pub(super) fn part(
        &self,
        frame: &[u8],
        size: usize,
        segments: Range<usize>,
        part: &mut Vec<u8>,
    ) -> [u16; 2] {
        let Layout { kind, network, is_v4, transport, payload } = *self;
        let end = frame.len().min(payload + segments.end * size);
        part.clear();
        part.extend_from_slice(&frame[..payload]);
        part.extend_from_slice(&frame[payload + segments.start * size..end]);
        let length = part.len();
        if is_v4 {
            let identification = half(frame, network + 4).unwrap_or(0).wrapping_add(segments.start as u16);
            put(part, network + 2, (length - network) as u16);
            put(part, network + 4, identification);
            complete_ipv4_checksum(&mut part[network..]);
        } else {
            put(part, network + 4, (length - network - 40) as u16);
        }
        match kind {
            Transport::Tcp => {
                let sequence = word(frame, transport + 4).unwrap_or(0);
                let number = sequence.wrapping_add((segments.start * size) as u32);
                part[transport + 4..transport + 8].copy_from_slice(&number.to_be_bytes());
                let last = if end < frame.len() { FIN | PSH } else { 0 };
                let first = if segments.start > 0 { CWR } else { 0 };
                part[transport + 13] &= !(last | first);
            }
            Transport::Udp => put(part, transport + 4, (length - transport) as u16),
        }
        let (protocol, place) = if kind == Transport::Tcp { (6, 16) } else { (17, 6) };
        let addresses = if is_v4 { network + 12..network + 20 } else { network + 8..network + 40 };
        let pseudo = sum(&part[addresses]) + protocol + (length - transport) as u64;
        put(part, transport + place, fold(pseudo));
        [transport as u16, place as u16]
    }
}

/// The description of a frame that another will cut.
pub(super) struct Headers {
    pub(super) is_v4: bool,
    /// The length of all headers together.
    pub(super) length: u16,
    /// Segments of TCP that carry a congestion mark (CWR).
    pub(super) is_marked: bool,
}

impl Headers {
    pub(super) fn parse(frame: &[u8], kind: Transport) -> Option<Self> {
        let Layout { is_v4, transport, payload, .. } = Layout::parse(frame, kind)?;
        let is_marked = kind == Transport::Tcp && frame.get(transport + 13)? & CWR != 0;
        Some(Headers { is_v4, length: u16::try_from(payload).ok()?, is_marked })
    }
}

/// The protocol behind IPv6's header, and where it begins.
fn behind_extensions(frame: &[u8], network: usize) -> Option<(u8, usize)> {
    let (mut next, mut at) = (*frame.get(network + 6)?, network + 40);
    for _ in 0..8 {
        // Hop-by-hop options, routing, destination options.
        if !matches!(next, 0 | 43 | 60) {
            return Some((next, at));
        }
        next = *frame.get(at)?;
        at += 8 + usize::from(*frame.get(at + 1)?) * 8;
    }
    None
}

/// Cuts a frame whose headers all segments share.
pub(super) fn cut(frame: &[u8], kind: Transport, size: usize, each: &mut impl FnMut(&[u8])) -> Option<()> {
    let layout = Layout::parse(frame, kind)?;
    let segments = layout.segments(frame, size)?;
    let mut segment = Vec::with_capacity(layout.payload + size);
    for index in 0..segments {
        let [start, place] = layout.part(frame, size, index..index + 1, &mut segment);
        complete(&mut segment, start.into(), place.into())?;
        each(&segment);
    }
    Some(())
}

/// Finds a frame's missing checksum: the offset at which the sum begins, and from there the offset of its
/// field, which has only the pseudo-header's part. `None` for a frame that is not exactly one packet.
#[cfg(any(test, feature = "xdp"))]
pub(super) fn unfinished(frame: &[u8]) -> Option<[u16; 2]> {
    let Network { at, is_v4, protocol, transport } = Network::parse(frame)?;
    let place = match protocol {
        6 => 16,
        17 => 6,
        _ => return None,
    };
    let (end, addresses) = if is_v4 {
        let is_fragment = half(frame, at + 6)? & 0x3fff != 0;
        let end = at + usize::from(half(frame, at + 2)?);
        ((!is_fragment).then_some(end)?, at + 12..at + 20)
    } else {
        (at + 40 + usize::from(half(frame, at + 4)?), at + 8..at + 40)
    };
    let found = half(frame, transport + place)?;
    let length = end.checked_sub(transport).filter(|_| end == frame.len())?;
    let pseudo = sum(frame.get(addresses)?) + u64::from(protocol) + length as u64;
    (found == fold(pseudo)).then_some([u16::try_from(transport).ok()?, place as u16])
}

/// Fills in the sum over all bytes from `start` on, whose field has the pseudo-header's part.
pub(super) fn complete(frame: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let place = start.checked_add(offset)?;
    let total = !fold(sum(frame.get(start..)?));
    // Zero would mean no checksum; both represent the same number.
    let total = if total == 0 { u16::MAX } else { total };
    frame.get_mut(place..place + 2)?.copy_from_slice(&total.to_be_bytes());
    Some(())
}

/// Fills in the checksum of the IPv4 header at the beginning of `packet`, if it is there as a whole.
pub fn complete_ipv4_checksum(packet: &mut [u8]) {
    let length = packet.first().map_or(0, |first| usize::from(first & 0x0f) * 4);
    if let Some(header) = packet.get_mut(..length).filter(|_| length >= 20) {
        put(header, 10, 0);
        let total = !fold(sum(header));
        put(header, 10, total);
    }
}

/// The sum of all halves (RFC 1071); a last odd byte counts as the higher one.
fn sum(bytes: &[u8]) -> u64 {
    let mut pairs = bytes.chunks_exact(2);
    let halves: u64 = pairs.by_ref().map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    halves + pairs.remainder().first().map_or(0, |&last| u64::from(last) << 8)
}

/// A sum in ones' complement.
fn fold(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|half| u16::from_be_bytes(*half))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

impl fmt::Display for Unsplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a joined frame that cannot be cut")
    }
}

impl std::error::Error for Unsplit {}

const ADDRESS: usize = 6;
pub(super) const TAG: usize = 4;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Offload, Segments};

    /// Returns a frame of TCP or UDP over either family with `payload` bytes of payload, and no checksum.
    fn frame(is_v4: bool, kind: Transport, payload: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        let (protocol, transport) = match kind {
            // Options of 12 bytes; CWR, ACK, PSH, FIN.
            Transport::Tcp => {
                let mut header = vec![0; 32];
                header[4..8].copy_from_slice(&0xffff_fff0u32.to_be_bytes());
                (header[12], header[13]) = (8 << 4, 0x80 | 0x10 | 0x08 | 0x01);
                (6, header)
            }
            Transport::Udp => (17, vec![0; 8]),
        };
        if is_v4 {
            frame.extend([0x08, 0, 0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        } else {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 64]);
            frame.extend([0xfd; 32]);
        }
        frame.extend(transport);
        frame.extend((0..payload).map(|byte| (byte * 7) as u8));
        frame
    }

    /// As a receiver checks it: all sums to ones.
    fn check(segment: &[u8], is_v4: bool, kind: Transport) {
        let transport = if is_v4 { 34 } else { 54 };
        let protocol = if kind == Transport::Tcp { 6 } else { 17 };
        let addresses = if is_v4 { &segment[26..34] } else { &segment[22..54] };
        let pseudo = sum(addresses) + protocol + (segment.len() - transport) as u64;
        assert_eq!(fold(pseudo + sum(&segment[transport..])), 0xffff);
        if is_v4 {
            assert_eq!(fold(sum(&segment[14..34])), 0xffff);
            assert_eq!(half(segment, 16), Some((segment.len() - 14) as u16));
        } else {
            assert_eq!(half(segment, 18), Some((segment.len() - 54) as u16));
        }
    }

    fn cut_up(bytes: &[u8], segments: Segments, tag: Option<[u16; 2]>) -> Result<Vec<Vec<u8>>, Unsplit> {
        let mut all = Vec::new();
        let offload = Offload { checksum: None, segments: Some(segments) };
        offload.frames(bytes, tag, &mut |frame| all.push(frame.to_vec())).map(|()| all)
    }

    #[test]
    fn segments_carry_every_byte_once_with_right_headers() {
        for is_v4 in [true, false] {
            let whole = frame(is_v4, Transport::Tcp, 4_001);
            let payload = whole.len() - 4_001;
            let all = cut_up(&whole, Segments::Tcp(1_448), None).unwrap();
            assert_eq!(all.iter().map(|one| one.len() - payload).collect::<Vec<_>>(), [1_448, 1_448, 1_105]);
            let joined: Vec<u8> = all.iter().flat_map(|one| one[payload..].to_vec()).collect();
            assert_eq!(joined, whole[payload..]);
            let transport = payload - 32;
            for (index, one) in all.iter().enumerate() {
                check(one, is_v4, Transport::Tcp);
                let number = 0xffff_fff0u32.wrapping_add(index as u32 * 1_448);
                assert_eq!(word(one, transport + 4), Some(number));
            }
            assert_eq!([0, 1, 2].map(|index| all[index][transport + 13]), [0x90, 0x10, 0x19]);
            if is_v4 {
                assert_eq!([0, 1, 2].map(|index| half(&all[index], 18).unwrap()), [0xffff, 0, 1]);
            }
        }
    }

    #[test]
    fn datagrams_get_lengths_of_their_own() {
        for is_v4 in [true, false] {
            let whole = frame(is_v4, Transport::Udp, 2_500);
            let all = cut_up(&whole, Segments::Udp(1_200), None).unwrap();
            let transport = if is_v4 { 34 } else { 54 };
            let lengths: Vec<_> = all.iter().filter_map(|one| half(one, transport + 4)).collect();
            assert_eq!(lengths, [1_208, 1_208, 108]);
            all.iter().for_each(|one| check(one, is_v4, Transport::Udp));
        }
    }

    #[test]
    fn tags_come_back_and_checksums_are_filled_in() {
        let mut whole = frame(true, Transport::Tcp, 100);
        let pseudo = sum(&whole[26..34]) + 6 + (whole.len() - 34) as u64;
        put(&mut whole, 50, fold(pseudo));
        let offload = Offload { checksum: Some([34, 16]), segments: None };
        let mut out = Vec::new();
        offload.frames(&whole, Some([0x8100, 7]), &mut |frame| out.extend_from_slice(frame)).unwrap();
        assert_eq!(out[12..18], [0x81, 0, 0, 7, 0x08, 0]);
        assert_eq!(fold(sum(&out[30..38]) + 6 + (out.len() - 38) as u64 + sum(&out[38..])), 0xffff);
        let tagged = cut_up(&frame(true, Transport::Tcp, 100), Segments::Tcp(60), Some([0x88a8, 9])).unwrap();
        assert_eq!((tagged.len(), &tagged[1][12..16]), (2, &[0x88, 0xa8, 0, 9][..]));
    }

    #[test]
    fn what_is_left_of_a_checksum_is_found() {
        for (is_v4, kind) in
            [true, false].into_iter().flat_map(|v4| [(v4, Transport::Tcp), (v4, Transport::Udp)])
        {
            // A single segment is the frame with correct lengths, as on the wire.
            let mut whole = Vec::new();
            cut(&frame(is_v4, kind, 101), kind, 200, &mut |segment| whole = segment.to_vec()).unwrap();
            assert_eq!(unfinished(&whole), None);
            let Network { at, protocol, transport, .. } = Network::parse(&whole).unwrap();
            let place = if kind == Transport::Tcp { 16 } else { 6 };
            let addresses = if is_v4 { at + 12..at + 20 } else { at + 8..at + 40 };
            let pseudo = sum(&whole[addresses]) + u64::from(protocol) + (whole.len() - transport) as u64;
            let mut partial = whole.clone();
            put(&mut partial, transport + place, fold(pseudo));
            assert_eq!(unfinished(&partial), Some([transport as u16, place as u16]));
            complete(&mut partial, transport, place).unwrap();
            assert!(partial == whole);
            put(&mut partial, transport + place, fold(pseudo));
            assert_eq!(unfinished(&partial[..whole.len() - 1]), None, "cut short");
            assert_eq!(unfinished(&[&partial[..], &[0]].concat()), None, "padded");
            if is_v4 {
                partial[at + 6] |= 0x20;
                assert_eq!(unfinished(&partial), None, "a fragment");
            }
        }
    }

    /// Truncated anywhere or with any byte changed: no panic, and a bounded output.
    #[test]
    fn no_bytes_panic() {
        for is_v4 in [true, false] {
            for kind in [Transport::Tcp, Transport::Udp] {
                let whole = frame(is_v4, kind, 50);
                for length in 0..whole.len() {
                    for size in [0, 1, 20, u16::MAX] {
                        let segments = [Segments::Tcp(size), Segments::Udp(size), Segments::Unknown];
                        for segments in segments {
                            let _ = cut_up(&whole[..length], segments, Some([0x8100, 1]));
                        }
                    }
                    let mut changed = whole.clone();
                    for value in [0, 0x0f, 0x45, 0xff] {
                        changed[length] = value;
                        let _ = cut_up(&changed, Segments::Tcp(20), None);
                        let _ = cut_up(&changed, Segments::Udp(20), None);
                    }
                    let offload = Offload { checksum: Some([length as u16, 60_000]), segments: None };
                    assert_eq!(offload.frames(&whole, None, &mut |_| {}), Err(Unsplit));
                }
            }
        }
    }
}
