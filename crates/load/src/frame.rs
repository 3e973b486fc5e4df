//! Datagrams as frames: headers of Ethernet, IP and UDP, built once per run.
//!
//! ```text
//!   stations 12 │ ethertype 2 ║ IPv4 20 or IPv6 40 ║ UDP 8 ║ our header 32 │ zeros
//!                             └── never changes ──────────┘ └ of each its own
//! ```
//!
//! The kernel offers checksum offload to senders of frames, with a description in front of each. This is cheaper: only
//! our header differs from one datagram to the next.

use std::net::SocketAddr;

use softtimers_net::packet::complete_ipv4_checksum;

use crate::dscp::Dscp;
use crate::wire::MIN_SIZE;

/// The headers of a run's frames, with stations that may change.
#[derive(Clone, Debug)]
pub(crate) struct Heading {
    bytes: Vec<u8>,
    /// The sum of everything that the checksum of each datagram covers, except the datagram.
    sum: u64,
}

impl Heading {
    /// Builds the headers for datagrams of `size` bytes. Both addresses are of one family; `hops` is the time to live.
    pub(crate) fn new(from: SocketAddr, to: SocketAddr, (hops, dscp): (u8, Dscp), size: usize) -> Self {
        let mut bytes = vec![0; 12];
        let length = |length: usize| (length as u16).to_be_bytes();
        let udp = UDP + size;
        let addresses = match (from, to) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                bytes.extend(ETHERTYPE_IPV4.to_be_bytes());
                bytes.extend([0x45, dscp.byte()]);
                bytes.extend(length(IPV4 + udp));
                // Don't fragment, so the identification may be zero.
                bytes.extend([0, 0, 0x40, 0, hops, PROTOCOL, 0, 0]);
                [&from.ip().octets()[..], &to.ip().octets()].concat()
            }
            (from, to) => {
                let octets = |address: SocketAddr| match address {
                    SocketAddr::V4(v4) => v4.ip().to_ipv6_mapped().octets(),
                    SocketAddr::V6(v6) => v6.ip().octets(),
                };
                bytes.extend(ETHERTYPE_IPV6.to_be_bytes());
                // Version 6, then the class, which is not in line with the bytes; and no flow label.
                bytes.extend([0x60 | dscp.byte() >> 4, dscp.byte() << 4, 0, 0]);
                bytes.extend(length(udp));
                bytes.extend([PROTOCOL, hops]);
                [octets(from), octets(to)].concat()
            }
        };
        bytes.extend(&addresses);
        if to.is_ipv4() {
            complete_ipv4_checksum(&mut bytes[ETHERNET..]);
        }
        let at = bytes.len();
        bytes.extend(from.port().to_be_bytes());
        bytes.extend(to.port().to_be_bytes());
        bytes.extend(length(udp));
        let sum = sum(&addresses) + sum(&bytes[at..]) + u64::from(PROTOCOL) + udp as u64;
        bytes.extend([0, 0]);
        Heading { bytes, sum }
    }

    /// Returns the length of the headers.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Sets the stations of all later frames.
    pub(crate) fn between(&mut self, from: [u8; 6], to: [u8; 6]) {
        self.bytes[..6].copy_from_slice(&to);
        self.bytes[6..12].copy_from_slice(&from);
    }

    /// Writes the headers to the front of a frame whose datagram has no checksum, as IPv4 allows.
    pub(crate) fn write(&self, frame: &mut [u8]) {
        frame[..self.bytes.len()].copy_from_slice(&self.bytes);
    }

    /// Writes the headers, and a checksum of the datagram, which is zero except for our header.
    #[inline]
    pub(crate) fn complete(&self, frame: &mut [u8]) {
        let at = self.bytes.len();
        self.write(frame);
        let checksum = !fold(self.sum + sum(&frame[at..at + MIN_SIZE]));
        // Zero means no checksum; all ones is the same number.
        let checksum = if checksum == 0 { u16::MAX } else { checksum };
        frame[at - 2..at].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Changes the stations of a frame already written.
    pub(crate) fn redirect(&self, frame: &mut [u8]) {
        frame[..12].copy_from_slice(&self.bytes[..12]);
    }
}

/// Returns the longest datagram in a packet of this many bytes, headers included.
pub(crate) fn most(packet: u32, to: SocketAddr) -> usize {
    (packet as usize).saturating_sub(UDP + if to.is_ipv4() { IPV4 } else { IPV6 })
}

/// Returns the sum of an even number of bytes as 16-bit numbers.
#[inline]
fn sum(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(2).map(|half| u64::from(u16::from_be_bytes([half[0], half[1]]))).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// The protocol number of UDP.
const PROTOCOL: u8 = 17;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The receiver's check: the sum of everything that the checksum covers, and the checksum, is all ones.
    fn is_whole(frame: &[u8]) -> bool {
        let (addresses, at) = if frame[12..14] == [8, 0] { (26..34, 34) } else { (22..54, 54) };
        let datagram = &frame[at..];
        let mut padded = datagram.to_vec();
        padded.resize(padded.len().next_multiple_of(2), 0);
        let pseudo = sum(&frame[addresses]) + 17 + datagram.len() as u64;
        fold(pseudo + sum(&padded)) == u16::MAX && datagram[6..8] != [0, 0]
    }

    proptest! {
        #[test]
        fn checksums_hold(
            v6: bool, ports: [u16; 2], octets: [[u8; 16]; 2], size in MIN_SIZE..2_000, head: [u8; 32],
            dscp in 0u8..64,
        ) {
            let address = |at: usize| {
                let [a, b, c, d, ..] = octets[at];
                let ip = if v6 { std::net::IpAddr::from(octets[at]) } else { [a, b, c, d].into() };
                SocketAddr::new(ip, ports[at])
            };
            let marked = (64, Dscp::new(dscp).unwrap());
            let heading = Heading::new(address(0), address(1), marked, size);
            let mut frame = vec![0; heading.len() + size];
            frame[heading.len()..][..MIN_SIZE].copy_from_slice(&head);
            heading.complete(&mut frame);
            prop_assert!(is_whole(&frame));
            // The lengths of IP and UDP, and IPv4's own checksum.
            let (ip, udp) = if v6 { (18, 58) } else { (16, 38) };
            let half = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
            prop_assert_eq!((half(ip), half(udp)), (size + if v6 { 8 } else { 28 }, size + 8));
            prop_assert!(v6 || fold(sum(&frame[14..34])) == u16::MAX);
            let class = if v6 { frame[14] << 4 | frame[15] >> 4 } else { frame[15] };
            prop_assert_eq!((class, frame[14] >> 4), (dscp << 2, if v6 { 6 } else { 4 }));
        }
    }

    #[test]
    fn a_frame_goes_to_another_station() {
        let [from, to] = ["[2001:db8::1]:7", "[2001:db8::2]:9"].map(|address| address.parse().unwrap());
        let mut heading = Heading::new(from, to, (1, Dscp::default()), 40);
        let mut frame = vec![0; heading.len() + 40];
        heading.between([2; 6], [4; 6]);
        heading.complete(&mut frame);
        let before = frame.clone();
        heading.between([2; 6], [6; 6]);
        heading.redirect(&mut frame);
        assert_eq!((&frame[..6], &frame[6..12], &frame[12..]), (&[6; 6][..], &[2; 6][..], &before[12..]));
        assert_eq!((most(1_500, to), most(1_500, "10.0.0.1:9".parse().unwrap())), (1_452, 1_472));
    }
}
