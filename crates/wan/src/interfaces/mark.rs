//! Writing the congestion experienced mark into a frame (RFC 3168, section 5).
//!
//! ```text
//!   IPv4  │ version, length │ DSCP …… ECN │     IPv6  │ version, class … │ … class (ECN), flow … │
//!                                     ▔▔▔                                     ▔▔▔
//!   00 not capable    01, 10 capable    11 congestion experienced
//! ```

use softtimers_core::Random;
use softtimers_net::packet::complete_ipv4_checksum;

/// Says whether the transport of a frame's packet is ECN-capable.
pub(super) fn is_capable(frame: &[u8]) -> bool {
    let Some((network, is_v4)) = network(frame) else { return false };
    let (at, shift) = if is_v4 { (1, 0) } else { (1, 4) };
    frame.get(network + at).is_some_and(|byte| byte >> shift & 3 != 0)
}

/// What tells a frame's flow from others.
pub(super) struct Headers<'a> {
    pub(super) is_v4: bool,
    pub(super) protocol: u8,
    /// The source's address, then the destination's.
    pub(super) addresses: &'a [u8],
    /// The ports of TCP and UDP; fragments have none, so that those of a packet stay together.
    pub(super) ports: Option<[u8; 4]>,
}

impl<'a> Headers<'a> {
    /// Returns those of a frame with IP; extension headers count as the protocol.
    pub(super) fn of(frame: &'a [u8]) -> Option<Self> {
        let (at, is_v4) = network(frame)?;
        let packet = &frame[at..];
        let (addresses, protocol, ports) = if is_v4 {
            let is_whole = u16::from_be_bytes(*packet.get(6..)?.first_chunk()?) & 0x3fff == 0;
            let header = usize::from(packet.first()? & 15) * 4;
            (packet.get(12..20)?, *packet.get(9)?, is_whole.then_some(header))
        } else {
            (packet.get(8..40)?, *packet.get(6)?, Some(40))
        };
        let ports = ports.filter(|_| matches!(protocol, 6 | 17));
        let ports = ports.and_then(|at| packet.get(at..)?.first_chunk().copied());
        Some(Headers { is_v4, protocol, addresses, ports })
    }
}

/// Returns a number for a frame's flow: from addresses, protocol and, for TCP and UDP, ports (RFC 8290, section 4.1).
pub(super) fn flow(frame: &[u8]) -> u64 {
    let mut sum = 0;
    let mut mix = |bytes: &[u8]| {
        for byte in bytes {
            sum = Random::stream(sum, u64::from(*byte)).next_u64();
        }
    };
    let Some(Headers { addresses, protocol, ports, .. }) = Headers::of(frame) else {
        mix(frame.get(12..14).unwrap_or_default());
        return sum;
    };
    mix(addresses);
    mix(&[protocol]);
    mix(ports.as_ref().map_or(&[], |ports| ports));
    sum
}

/// Marks a frame, and returns whether its transport is ECN-capable.
pub(super) fn mark(frame: &mut [u8]) -> bool {
    let Some((network, is_v4)) = network(frame) else { return false };
    let packet = &mut frame[network..];
    let (at, shift) = if is_v4 { (1, 0) } else { (1, 4) };
    let Some(byte) = packet.get_mut(at) else { return false };
    if *byte >> shift & 3 == 0 {
        return false;
    }
    *byte |= 3 << shift;
    if is_v4 {
        complete_ipv4_checksum(packet);
    }
    true
}

/// Returns the packet's offset in a frame, and whether it is IPv4.
fn network(frame: &[u8]) -> Option<(usize, bool)> {
    let mut at = 12;
    for _ in 0..3 {
        let ethertype = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        match ethertype {
            0x0800 | 0x86dd => return Some((at + 2, ethertype == 0x0800)),
            0x8100 | 0x88a8 => at += 4,
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ethertype: u16, packet: &[u8]) -> Vec<u8> {
        [&[2; 12][..], &ethertype.to_be_bytes(), packet].concat()
    }

    /// Returns the header of an ordinary datagram, with a correct checksum.
    fn v4(ecn: u8) -> Vec<u8> {
        let mut packet = vec![0x45, ecn, 0, 20, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        complete_ipv4_checksum(&mut packet);
        packet
    }

    #[test]
    fn capable_packets_are_marked_and_others_left_alone() {
        for capable in [1, 2, 3] {
            let mut marked = frame(0x0800, &v4(capable));
            assert!(is_capable(&marked));
            assert!(mark(&mut marked));
            assert_eq!(marked, frame(0x0800, &v4(3)), "checksum and all");
        }
        let mut plain = frame(0x0800, &v4(0));
        assert!(!is_capable(&plain) && !mark(&mut plain));
        assert_eq!(plain, frame(0x0800, &v4(0)));

        let mut six = frame(0x8100, &[&[0, 7, 0x86, 0xdd, 0x60, 0x2a][..], &[0; 38]].concat());
        assert!(mark(&mut six));
        assert_eq!(six[18..20], [0x60, 0x3a]);
        assert!(!mark(&mut frame(0x86dd, &[0x60, 0x0a])));
    }

    #[test]
    fn no_bytes_panic() {
        let whole = frame(0x0800, &v4(1));
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            mark(&mut cut);
            let mut tags = [&[2; 12][..], &[0x81; 40]].concat();
            tags.truncate(length);
            mark(&mut tags);
        }
    }

    #[test]
    fn flows_are_told_apart_by_addresses_and_ports() {
        let packet = |port: u8, fragment: u8| {
            let mut packet = v4(0);
            packet[6] = fragment;
            packet.extend([1, 2, 3, port]);
            frame(0x0800, &packet)
        };
        assert_eq!(flow(&packet(4, 0x40)), flow(&packet(4, 0)));
        assert_ne!(flow(&packet(4, 0)), flow(&packet(5, 0)));
        assert_eq!(flow(&packet(4, 0x20)), flow(&packet(5, 0x20)));
        let v6 =
            |last: u8| frame(0x86dd, &[&[0x60, 0, 0, 0, 0, 8, 17, 64][..], &[last; 32], &[1; 8]].concat());
        assert_ne!(flow(&v6(1)), flow(&v6(2)));
        // Cut off anywhere.
        (0..60).for_each(|length| _ = flow(&v6(1)[..length.min(v6(1).len())]));
    }
}
