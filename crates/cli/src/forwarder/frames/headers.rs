//! The offsets of a frame's headers, as far as present: [`Headers`].
//!
//! ```text
//!   │ to │ from │ tag │ tag │ type │ IP ………………………… │ extensions │ ports … │ payload │ trailer │
//!                                  ▲ packet                        ▲ transport
//!                                  ├──────────────── length ─────────────────┤
//! ```
//!
//! These bytes come from strangers, perhaps in order to get past the rules. Contradictions and truncation are not
//! guessed at: a packet whose header is incomplete, or claims more bytes than there are, has no [`Ip`]; a fragment
//! other than the first has no ports, whatever stands in their place (RFC 1858); and truncated extensions hide
//! everything behind them. etherparse reads the fields; the walk over IPv6's extensions is here, because it must stop
//! at a fragment.

use std::net::IpAddr;

use etherparse::{
    Ethernet2HeaderSlice, IpAuthHeaderSlice, Ipv4HeaderSlice, Ipv6FragmentHeaderSlice, Ipv6HeaderSlice,
    Ipv6RawExtHeaderSlice, SingleVlanHeaderSlice, ip_number,
};
use softtimers_core::Timestamp;

use crate::forwarder::rules::{Entrance, EtherType, Protocol, Seen};

/// An Ethernet station's address.
pub(crate) type Mac = [u8; 6];

/// The offsets of a frame's headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Headers {
    /// The number of VLAN tags skipped, at most two.
    pub(crate) tags: u8,
    /// The type of the frame's content. A third tag is content.
    pub(crate) kind: EtherType,
    /// The offset of that content.
    pub(crate) packet: usize,
    /// The packet, if it is valid IP.
    pub(crate) ip: Option<Ip>,
}

/// The fields of an IP packet's headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ip {
    /// The source address.
    pub(crate) from: IpAddr,
    /// The destination address.
    pub(crate) to: IpAddr,
    /// Bytes of the header, without extensions of IPv6.
    pub(crate) header: usize,
    /// Bytes of the packet, which are all there. Behind them may be a trailer.
    pub(crate) length: usize,
    /// The number of routers that it may still pass, including this one.
    pub(crate) hop_limit: u8,
    /// Whether routers may fragment it; those of IPv6 never may.
    pub(crate) may_fragment: bool,
    /// Which fragment of its packet this is.
    pub(crate) piece: Piece,
    /// The protocol that it carries, if no extension hides it.
    pub(crate) protocol: Option<Protocol>,
    /// The offset in the frame at which that begins.
    pub(crate) transport: usize,
    /// The ports of TCP and UDP, if they are there.
    pub(crate) ports: Option<[u16; 2]>,
}

/// The part of a packet that a fragment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// The packet is not fragmented.
    Whole,
    /// The first fragment, with the transport's header or a part of it.
    First,
    /// A later fragment, without those headers.
    Later,
}

impl Headers {
    /// Reads a frame's headers; `None` if Ethernet's header, tags included, is incomplete.
    ///
    /// # Cost
    /// Some 20 ns; nothing is allocated. At most two tags and eight extensions are skipped.
    #[inline]
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let mut kind = Ethernet2HeaderSlice::from_slice(frame).ok()?.ether_type().0;
        let (mut packet, mut tags) = (ETHERNET, 0);
        while tags < 2 && is_tag(kind) {
            kind = SingleVlanHeaderSlice::from_slice(&frame[packet..]).ok()?.ether_type().0;
            packet += TAG;
            tags += 1;
        }
        let kind = EtherType(kind);
        let ip = match kind {
            EtherType::IPV4 => Ip::v4(frame, packet),
            EtherType::IPV6 => Ip::v6(frame, packet),
            _ => None,
        };
        Some(Headers { tags, kind, packet, ip })
    }

    /// Returns the fields that rules can see, for a frame of `bytes` bytes.
    pub(crate) fn seen(&self, bytes: usize, entrance: Entrance, at: Timestamp) -> Seen {
        let Headers { kind, packet, ip, .. } = *self;
        let payload = ip.and_then(|ip| ip.datagram(packet));
        let length = payload.or(ip.map(|ip| ip.length)).unwrap_or(bytes - packet);
        let protocol = ip.and_then(|ip| ip.protocol);
        let (addresses, ports) = (ip.map(|ip| [ip.from, ip.to]), ip.and_then(|ip| ip.ports));
        Seen { entrance, kind, protocol, addresses, ports, length, bytes, at }
    }
}

impl Ip {
    fn v4(frame: &[u8], packet: usize) -> Option<Self> {
        let bytes = &frame[packet..];
        let header = Ipv4HeaderSlice::from_slice(bytes).ok()?;
        let (own, length) = (header.slice().len(), usize::from(header.total_len()));
        if length < own || length > bytes.len() {
            return None;
        }
        let piece = Piece::from_fields(header.fragments_offset().value(), header.more_fragments());
        Ip {
            from: header.source_addr().into(),
            to: header.destination_addr().into(),
            header: own,
            length,
            hop_limit: header.ttl(),
            may_fragment: !header.dont_fragment(),
            piece,
            protocol: Some(Protocol(header.protocol().0)),
            transport: packet + own,
            ports: None,
        }
        .with_ports(&frame[..packet + length])
    }

    fn v6(frame: &[u8], packet: usize) -> Option<Self> {
        let bytes = &frame[packet..];
        let header = Ipv6HeaderSlice::from_slice(bytes).ok()?;
        let own = header.slice().len();
        // Zero may be a jumbogram (RFC 2675), which does not fit Ethernet.
        let length = own + usize::from(header.payload_length());
        let walk = walk(header.next_header().0, bytes.get(own..length)?);
        Ip {
            from: header.source_addr().into(),
            to: header.destination_addr().into(),
            header: own,
            length,
            hop_limit: header.hop_limit(),
            may_fragment: false,
            piece: walk.piece,
            protocol: walk.protocol,
            transport: packet + own + walk.passed,
            ports: None,
        }
        .with_ports(&frame[..packet + length])
    }

    fn with_ports(mut self, frame: &[u8]) -> Option<Self> {
        if self.piece != Piece::Later && matches!(self.protocol, Some(Protocol::TCP | Protocol::UDP)) {
            let ports = frame.get(self.transport..).and_then(<[u8]>::first_chunk::<4>);
            self.ports = ports.map(|&[a, b, c, d]| [[a, b], [c, d]].map(u16::from_be_bytes));
        }
        Some(self)
    }

    /// Returns the payload length if this is a complete UDP datagram.
    fn datagram(&self, packet: usize) -> Option<usize> {
        let is_one = self.protocol == Some(Protocol::UDP) && self.piece == Piece::Whole;
        (packet + self.length).checked_sub(self.transport + UDP).filter(|_| is_one)
    }
}

impl Piece {
    fn from_fields(offset: u16, more: bool) -> Self {
        match (offset, more) {
            (0, false) => Piece::Whole,
            (0, true) => Piece::First,
            _ => Piece::Later,
        }
    }
}

/// The walk past IPv6's extensions.
struct Walk {
    protocol: Option<Protocol>,
    /// Bytes of extensions skipped so far.
    passed: usize,
    piece: Piece,
}

fn walk(first: u8, bytes: &[u8]) -> Walk {
    let mut walk = Walk { protocol: None, passed: 0, piece: Piece::Whole };
    let mut next = first;
    for _ in 0..MOST_EXTENSIONS {
        let rest = &bytes[walk.passed..];
        let step = match next.into() {
            ip_number::IPV6_HOP_BY_HOP | ip_number::IPV6_ROUTE | ip_number::IPV6_DEST_OPTIONS => {
                Ipv6RawExtHeaderSlice::from_slice(rest).ok().map(|one| (one.slice().len(), one.next_header()))
            }
            ip_number::AUTH => {
                IpAuthHeaderSlice::from_slice(rest).ok().map(|one| (one.slice().len(), one.next_header()))
            }
            ip_number::IPV6_FRAG => Ipv6FragmentHeaderSlice::from_slice(rest).ok().map(|one| {
                walk.piece = Piece::from_fields(one.fragment_offset().value(), one.more_fragments());
                (one.slice().len(), one.next_header())
            }),
            _ => {
                walk.protocol = Some(Protocol(next));
                return walk;
            }
        };
        let Some((length, following)) = step else { return walk };
        walk.passed += length;
        next = following.0;
        if walk.piece == Piece::Later {
            // Everything behind a later fragment's header is the middle of a packet.
            walk.protocol = Some(Protocol(next));
            return walk;
        }
    }
    walk
}

fn is_tag(kind: u16) -> bool {
    matches!(kind, 0x8100 | 0x88a8 | 0x9100)
}

/// Bytes of Ethernet's header.
pub(crate) const ETHERNET: usize = 14;
/// Bytes of a tag.
pub(crate) const TAG: usize = 4;
/// Ethernet's header and two tags.
pub(crate) const HEADERS: usize = ETHERNET + 2 * TAG;
const UDP: usize = 8;
/// More than any sender uses; nothing behind them is seen.
const MOST_EXTENSIONS: usize = 8;

#[cfg(test)]
mod tests {
    use etherparse::{IpHeaders, Ipv4Header, PacketBuilder, VlanId};

    use super::*;

    fn datagram(tags: usize, payload: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        let (first, id) = (PacketBuilder::ethernet2([2; 6], [4; 6]), VlanId::try_new(7).unwrap());
        let ip = Ipv4Header::new(0, 9, ip_number::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
        let ip = IpHeaders::Ipv4(ip, Default::default());
        let built = match tags {
            0 => first.ip(ip),
            1 => first.single_vlan(id).ip(ip),
            _ => first.double_vlan(id, id).ip(ip),
        };
        built.udp(1_000, 53).write(&mut frame, &vec![0; payload]).unwrap();
        frame
    }

    #[test]
    fn rules_see_behind_two_tags_and_no_further() {
        for tags in 0..3 {
            let mut frame = datagram(tags, 33);
            // A trailer does not belong to the packet.
            frame.extend([0; 9]);
            let headers = Headers::parse(&frame).unwrap();
            assert_eq!((usize::from(headers.tags), headers.packet), (tags, ETHERNET + tags * TAG));
            let seen = headers.seen(frame.len(), Entrance::B, Timestamp::ZERO);
            assert_eq!((seen.ports, seen.length), (Some([1_000, 53]), 33));
            assert_eq!(seen.addresses, Some([[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from)));
        }
        let mut three = datagram(2, 33);
        three.splice(12..12, [0x81, 0, 0, 1]);
        let headers = Headers::parse(&three).unwrap();
        assert_eq!((headers.tags, headers.kind, headers.ip), (2, EtherType(0x8100), None));
    }

    #[test]
    fn what_is_cut_short_or_contradicts_itself_is_not_seen() {
        let frame = datagram(0, 33);
        for length in 0..frame.len() {
            let headers = Headers::parse(&frame[..length]);
            assert_eq!(headers.is_some(), length >= ETHERNET);
            assert!(headers.is_none_or(|headers| headers.ip.is_none()), "{length}");
        }
        let mut long = frame.clone();
        long[17] += 1;
        assert!(Headers::parse(&long).unwrap().ip.is_none());
        // A complete packet, but too short for ports.
        let mut short = frame;
        short[16..18].copy_from_slice(&23u16.to_be_bytes());
        let ip = Headers::parse(&short).unwrap().ip.unwrap();
        assert_eq!((ip.ports, ip.protocol), (None, Some(Protocol::UDP)));
    }

    #[test]
    fn fragments_have_ports_in_the_first_piece_only() {
        let mut frame = datagram(0, 33);
        for (flags, piece, ports) in [
            ([0x40, 0], Piece::Whole, true),
            ([0x20, 0], Piece::First, true),
            ([0x20, 1], Piece::Later, false),
            ([0, 1], Piece::Later, false),
        ] {
            frame[20..22].copy_from_slice(&flags);
            let ip = Headers::parse(&frame).unwrap().ip.unwrap();
            assert_eq!((ip.piece, ip.ports.is_some()), (piece, ports), "{flags:?}");
        }
    }

    /// `next` of the fixed header, then extensions and payload.
    fn v6(next: u8, behind: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((behind.len() as u16).to_be_bytes());
        frame.extend([next, 64]);
        frame.extend([0xfd; 32]);
        frame.extend(behind);
        frame
    }

    #[test]
    fn extensions_are_passed_and_a_later_fragment_ends_the_walk() {
        let ports = [0, 9, 0, 7, 0, 8, 0, 0];
        let options = [17, 0, 0, 0, 0, 0, 0, 0];
        let ip = |frame: &[u8]| Headers::parse(frame).unwrap().ip.unwrap();
        assert_eq!(ip(&v6(17, &ports)).ports, Some([9, 7]));
        assert_eq!(ip(&v6(60, &[options, ports].concat())).ports, Some([9, 7]));
        // Routing, then destination options.
        let two = [[60, 0, 0, 0, 0, 0, 0, 0], options, ports].concat();
        assert_eq!(ip(&v6(43, &two)).ports, Some([9, 7]));
        let fragment = |offset: u8, next: u8| [next, 0, 0, offset, 0, 0, 0, 7];
        let first = ip(&v6(44, &[fragment(1, 17), ports].concat()));
        assert_eq!((first.piece, first.ports), (Piece::First, Some([9, 7])));
        let later = ip(&v6(44, &[fragment(8, 17), ports].concat()));
        assert_eq!((later.piece, later.ports, later.protocol), (Piece::Later, None, Some(Protocol::UDP)));
        // The bytes in the options' place are the middle of a packet.
        let hidden = ip(&v6(44, &[fragment(8, 60), options, ports].concat()));
        assert_eq!((hidden.ports, hidden.protocol), (None, Some(Protocol(60))));
        let cut = ip(&v6(60, &[17, 1, 0, 0, 0, 0, 0, 0]));
        assert_eq!((cut.protocol, cut.ports), (None, None));
        let many = [60, 0, 0, 0, 0, 0, 0, 0].repeat(MOST_EXTENSIONS);
        assert_eq!(ip(&v6(60, &many)).protocol, None);
    }
}
