//! Checksums that follow a change, and those that nobody has made yet: the Internet checksum (RFC 1071).

use std::net::IpAddr;

use etherparse::checksum::Sum16BitWords;

use super::headers::{Headers, Ip, Piece};
use crate::forward::rules::Protocol;

/// A checksum after one of the words under it has changed (RFC 1624, equation 3): right if it was right before, and
/// wrong if it was wrong, so that damage on the way here stays to be seen.
#[inline]
pub fn changed(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Whether the checksum of an IPv4 header is that of its bytes.
#[inline]
pub fn is_right(header: &[u8]) -> bool {
    Sum16BitWords::new().add_slice(header).ones_complement() == 0
}

/// Makes the checksum of a packet's transport if its sender has left it to an interface that was never there. Whether
/// it did.
///
/// Two ends of a virtual cable spare themselves the sum, and what takes frames from a ring below the kernel is not told.
/// But such a sender leaves the pseudo-header's part in its place, and from that it can be known. A checksum that is
/// right and looks the same stays what it is, because then the rest sums to nothing; one that is wrong does so by chance
/// once in 65,536 times, and that damage would not be seen.
///
/// ```text
///   place = sum(pseudo-header)          place = ~sum(pseudo-header + transport with this place)
/// ```
///
/// # Cost
/// The sum over 12 or 36 bytes, and over the packet only if it has to be made.
pub fn complete(frame: &mut [u8], headers: &Headers) -> bool {
    let Some(ip) = headers.ip.filter(|ip| ip.piece == Piece::Whole) else { return false };
    let offset = match ip.protocol {
        Some(Protocol::TCP) => 16,
        Some(Protocol::UDP) => 6,
        _ => return false,
    };
    let Some(segment) = frame.get_mut(ip.transport..headers.packet + ip.length) else { return false };
    let pseudo = pseudo_header(&ip, segment.len());
    let partial = !pseudo.ones_complement();
    let Some(place) = segment.get(offset..).and_then(|rest| rest.first_chunk()) else { return false };
    // Zero is UDP's way to say that there is none.
    if *place != partial.to_ne_bytes() || *place == [0, 0] {
        return false;
    }
    let sum = Sum16BitWords::new().add_slice(segment).to_ones_complement_with_no_zero();
    segment[offset..offset + 2].copy_from_slice(&sum.to_ne_bytes());
    true
}

fn pseudo_header(ip: &Ip, length: usize) -> Sum16BitWords {
    let mut sum = Sum16BitWords::new();
    for address in [ip.from, ip.to] {
        sum = match address {
            IpAddr::V4(address) => sum.add_4bytes(address.octets()),
            IpAddr::V6(address) => sum.add_16bytes(address.octets()),
        };
    }
    let protocol = ip.protocol.map_or(0, |protocol| protocol.0);
    sum.add_2bytes([0, protocol]).add_2bytes((length as u16).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use etherparse::{PacketBuilder, TransportSlice};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Against the sum made anew, for any header and any change.
        #[test]
        fn a_change_keeps_a_checksum_right(mut header in prop::array::uniform20(any::<u8>()), ttl in 1u8..) {
            header[8] = ttl;
            header[10..12].fill(0);
            let sum = Sum16BitWords::new().add_slice(&header).ones_complement();
            header[10..12].copy_from_slice(&sum.to_ne_bytes());
            prop_assert!(is_right(&header));
            let old = u16::from_be_bytes([ttl, header[9]]);
            let new = u16::from_be_bytes([ttl - 1, header[9]]);
            let before = u16::from_be_bytes([header[10], header[11]]);
            header[8] -= 1;
            header[10..12].copy_from_slice(&changed(before, old, new).to_be_bytes());
            prop_assert!(is_right(&header));
        }

        /// What was left undone is done, and what was done stays as it is, in any packet.
        #[test]
        fn partial_checksums_are_made_whole(
            payload in prop::collection::vec(any::<u8>(), 0..200),
            is_tcp in any::<bool>(),
            is_v4 in any::<bool>(),
            port in any::<u16>(),
        ) {
            let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
            let network = if is_v4 {
                link.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            } else {
                link.ipv6([0xfd; 16], [0xfe; 16], 64)
            };
            let mut right = Vec::new();
            if is_tcp {
                network.tcp(port, 9, 7, 8).write(&mut right, &payload).unwrap();
            } else {
                network.udp(port, 9).write(&mut right, &payload).unwrap();
            }
            let headers = Headers::of(&right).unwrap();
            let ip = headers.ip.unwrap();
            let place = ip.transport + if is_tcp { 16 } else { 6 };
            let mut frame = right.clone();
            let partial = !pseudo_header(&ip, right.len() - ip.transport).ones_complement();
            // The two zeros of ones' complement are the same number, and TCP may have either.
            prop_assume!(right[place..place + 2] != [0, 0] && partial != 0);
            frame[place..place + 2].copy_from_slice(&partial.to_ne_bytes());
            prop_assert!(complete(&mut frame, &headers));
            prop_assert_eq!(&frame, &right);
            complete(&mut frame, &headers);
            prop_assert_eq!(&frame, &right);
            let parsed = etherparse::SlicedPacket::from_ethernet(&frame).unwrap();
            prop_assert_eq!(matches!(parsed.transport, Some(TransportSlice::Tcp(_))), is_tcp);
        }
    }
}
