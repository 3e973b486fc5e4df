//! A router's ICMP errors to senders: a packet has passed too many routers, or is too long for the next link.
//!
//! ```text
//!   dropped:            │ Ethernet │ IP │ payload …………………… │
//!   told its sender:    │ Ethernet, turned round │ IP │ ICMP │ IP │ payload, as much as allowed │
//! ```
//!
//! Answering everything would make the router an amplifier, and two routers that answer each other's errors a storm. So
//! errors, later fragments, multicast and invalid senders get no answer (RFC 1812, section 4.3.2.7; RFC 4443, section
//! 2.4), and everything else at most [`RATE`] answers with bursts of [`BURST`]: Linux's default limits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use etherparse::icmpv4::{self, DestUnreachableHeader};
use etherparse::{
    Icmpv4Type, Icmpv6Type, IpDscp, IpHeaders, Ipv4Header, Ipv6Header, PacketBuilder, icmpv6, ip_number,
};
use softtimers_core::Timestamp;

use super::headers::{Headers, Ip, Mac, Piece};
use crate::forwarder::rules::{Limit, Protocol};
use softtimers_measure::units::SendRate;

/// The error to report about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Complaint {
    /// Its hop limit is used up.
    HopLimit,
    /// It is longer than the outgoing interface's MTU, which is this many bytes.
    TooLong(u32),
}

/// The addresses that a router's own messages come from on one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Voice {
    /// The station's address.
    pub(crate) mac: Mac,
    /// Its IPv4 address; [`DUMMY`] if it has none.
    pub(crate) v4: Ipv4Addr,
    /// Its IPv6 address; without one, that of the link.
    pub(crate) v6: Ipv6Addr,
}

/// Sends ICMP errors within their rate limit.
#[derive(Clone, Debug)]
pub(crate) struct Complaints {
    limit: Limit,
    earned: Timestamp,
    /// Messages sent.
    pub(crate) told: u64,
    /// Messages suppressed by the rate limit.
    pub(crate) suppressed: u64,
}

impl Complaints {
    pub(crate) fn new() -> Self {
        let limit = Limit { rate: SendRate::PacketsPerSecond(RATE), burst: BURST };
        Complaints { limit, earned: Timestamp::ZERO, told: 0, suppressed: 0 }
    }

    /// Writes the message to the sender of `frame` into `answer`, and returns whether there is one.
    pub(crate) fn tell(
        &mut self,
        complaint: Complaint,
        voice: &Voice,
        (frame, headers): (&[u8], &Headers),
        now: Timestamp,
        answer: &mut Vec<u8>,
    ) -> bool {
        let Some(ip) = headers.ip.filter(|ip| may_be_told(frame, ip)) else { return false };
        if !self.limit.admits(&mut self.earned, now, 0) {
            self.suppressed += 1;
            return false;
        }
        let packet = &frame[headers.packet..headers.packet + ip.length];
        let done = write(complaint, voice, &ip, (frame, packet), answer).is_some();
        self.told += u64::from(done);
        done
    }
}

impl Default for Complaints {
    fn default() -> Self {
        Complaints::new()
    }
}

fn write(
    complaint: Complaint,
    voice: &Voice,
    ip: &Ip,
    (frame, packet): (&[u8], &[u8]),
    answer: &mut Vec<u8>,
) -> Option<()> {
    let sender: Mac = *frame.get(6..)?.first_chunk()?;
    let link = PacketBuilder::ethernet2(voice.mac, sender);
    answer.clear();
    match ip.from {
        IpAddr::V4(from) => {
            let quoted = &packet[..packet.len().min(MOST_V4 - 28)];
            // Errors are network control (RFC 1812, section 4.3.2.5).
            let header = Ipv4Header { dscp: NETWORK_CONTROL, ..v4_header(voice.v4, from) };
            let kind = match complaint {
                Complaint::HopLimit => {
                    Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit)
                }
                Complaint::TooLong(most) => {
                    let next_hop_mtu = u16::try_from(most).unwrap_or(u16::MAX);
                    Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FragmentationNeeded {
                        next_hop_mtu,
                    })
                }
            };
            let built = link.ip(IpHeaders::Ipv4(header, Default::default())).icmpv4(kind);
            built.write(answer, quoted).ok()
        }
        IpAddr::V6(from) => {
            let quoted = &packet[..packet.len().min(MOST_V6 - 48)];
            let header = Ipv6Header {
                next_header: ip_number::IPV6_ICMP,
                hop_limit: HOPS,
                source: voice.v6.octets(),
                destination: from.octets(),
                ..Ipv6Header::default()
            };
            let kind = match complaint {
                Complaint::HopLimit => Icmpv6Type::TimeExceeded(icmpv6::TimeExceededCode::HopLimitExceeded),
                Complaint::TooLong(mtu) => Icmpv6Type::PacketTooBig { mtu },
            };
            link.ip(IpHeaders::Ipv6(header, Default::default())).icmpv6(kind).write(answer, quoted).ok()
        }
    }
}

fn v4_header(from: Ipv4Addr, to: Ipv4Addr) -> Ipv4Header {
    Ipv4Header {
        time_to_live: HOPS,
        protocol: ip_number::ICMP,
        source: from.octets(),
        destination: to.octets(),
        dont_fragment: true,
        ..Ipv4Header::default()
    }
}

/// Says whether a packet's sender may be sent an error. The router has already checked that the sender is one host.
fn may_be_told(frame: &[u8], ip: &Ip) -> bool {
    let group = frame.first().is_none_or(|to| to & 1 != 0) || frame.get(6).is_none_or(|from| from & 1 != 0);
    if group || ip.piece == Piece::Later {
        return false;
    }
    let kind = frame.get(ip.transport).filter(|_| ip.length > ip.header);
    match ip.protocol {
        // Echo, timestamp, address mask, information, router discovery: not errors.
        Some(Protocol::ICMP) => kind.is_some_and(|kind| matches!(kind, 0 | 8 | 9 | 10 | 13..=18)),
        // Redirects are not errors by number, but RFC 4443 treats them as such.
        Some(Protocol::ICMPV6) => kind.is_some_and(|&kind| kind >= 128 && kind != 137),
        protocol => protocol.is_some(),
    }
}

/// A link-local address for a station (RFC 4291, appendix A).
pub(crate) fn link_local([a, b, c, d, e, f]: Mac) -> Ipv6Addr {
    let half = u16::from_be_bytes;
    Ipv6Addr::new(0xfe80, 0, 0, 0, half([a ^ 2, b]), half([c, 0xff]), half([0xfe, d]), half([e, f]))
}

/// The source address of a router without an IPv4 address (RFC 7600).
pub(crate) const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// Messages a second in the long run.
pub(crate) const RATE: u64 = 1_000;
/// How far messages may be ahead of that rate: 50 of them.
pub(crate) const BURST: Duration = Duration::from_millis(49);
/// RFC 1812, section 4.3.2.3: no more than every host receives.
const MOST_V4: usize = 576;
/// RFC 4443, section 2.4 (c): the minimum MTU of IPv6.
const MOST_V6: usize = 1_280;
const HOPS: u8 = 64;
const NETWORK_CONTROL: IpDscp = match IpDscp::try_new(48) {
    Ok(dscp) => dscp,
    Err(_) => IpDscp::ZERO,
};
