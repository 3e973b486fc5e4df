//! A router between two interfaces, each with one next hop: [`Router`].
//!
//! ```text
//!   for me? ─▶ IP, whole, right? ─▶ from and to somebody? ─▶ rules ─▶ hops left? ─▶ short enough? ─▶ forward
//!      │              │                     │                   │          │              │
//!    ARP, ND       dropped               dropped             dropped   time exceeded   too big
//! ```
//!
//! There is no routing table: a packet leaves by the other interface, to the next hop configured there. So every packet
//! costs the same, and nothing received can change where packets go.
//!
//! It does not fragment IPv4 packets: nearly all senders forbid it, and the few others get the same error, which hosts
//! heed. Source routes are refused (RFC 7126, section 4.3); other options and extensions pass unchanged.

use std::net::IpAddr;

use softtimers_core::Timestamp;

use super::checksum::{changed, is_right};
use super::headers::{Headers, Ip, Mac};
use super::icmp::{Complaint, Complaints, DUMMY, Voice, link_local};
use super::link::Link;
use super::reason::Reason;
use super::resolution;
use crate::forwarder::rules::EtherType;

/// One interface of a router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Leg {
    /// The station's address.
    pub(crate) mac: Mac,
    /// The station that packets leaving there go to.
    pub(crate) next_hop: Mac,
    /// The longest packet there.
    pub(crate) mtu: u32,
    /// The router's own addresses there: it answers questions for them, and its messages come from the first of each
    /// family.
    pub(crate) addresses: Vec<IpAddr>,
    /// This machine's other addresses there; packets for them are left to the machine.
    pub(crate) machine: Vec<IpAddr>,
}

/// A router's next step with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RouterVerdict {
    /// A packet to be forwarded, if rules and [`Router::leave`] let it.
    Forward(Ip),
    /// Dropped, with an answer to send back.
    Answer(Reason),
    /// Dropped.
    Drop(Reason),
}

/// Forwards between two legs, and reports errors to senders.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    legs: [Leg; 2],
    voices: [Voice; 2],
    /// Sends errors to senders.
    pub(crate) complaints: Complaints,
}

impl Router {
    /// Routes between these two interfaces.
    pub(crate) fn new(legs: [Leg; 2]) -> Self {
        let voices = [0, 1].map(|leg| legs[leg].voice());
        Router { legs, voices, complaints: Complaints::new() }
    }

    /// Takes over the new state of a leg's interface.
    pub(crate) fn adopt(&mut self, at: usize, link: &Link) {
        let leg = &mut self.legs[at];
        (leg.mac, leg.mtu) = (link.station, link.mtu);
        leg.machine.clone_from(&link.addresses);
        self.voices[at] = leg.voice();
    }

    /// Checks a frame that has come in at a leg, before any rule does.
    ///
    /// # Cost
    /// The checksum of the header, some nanoseconds.
    #[inline]
    pub(crate) fn enter(
        &self,
        at: usize,
        frame: &[u8],
        headers: &Headers,
        answer: &mut Vec<u8>,
    ) -> RouterVerdict {
        let leg = &self.legs[at];
        let Some((to, rest)) = frame.split_first_chunk::<6>() else {
            return RouterVerdict::Drop(Reason::Malformed);
        };
        let mine = *to == leg.mac;
        if rest.first_chunk::<6>().is_some_and(|from| self.legs.iter().any(|leg| *from == leg.mac)) {
            return RouterVerdict::Drop(Reason::Loop);
        }
        let group = to[0] & 1 != 0;
        if headers.tags > 0 || !(mine || group) {
            return RouterVerdict::Drop(Reason::NotForUs);
        }
        // Few frames ask for an address, and IPv4 packets never do.
        if headers.kind != EtherType::IPV4
            && resolution::answer(frame, headers, &leg.addresses, leg.mac, answer)
        {
            return RouterVerdict::Answer(Reason::Answered);
        }
        if group {
            return RouterVerdict::Drop(Reason::NotForUs);
        }
        let Some(ip) = headers.ip else {
            let is_ip = matches!(headers.kind, EtherType::IPV4 | EtherType::IPV6);
            return RouterVerdict::Drop(if is_ip { Reason::Malformed } else { Reason::NotForUs });
        };
        let packet = &frame[headers.packet..];
        if headers.kind == EtherType::IPV4 && !is_right(&packet[..ip.header]) {
            return RouterVerdict::Drop(Reason::Malformed);
        }
        if has_source_route(&packet[..ip.header], headers.kind)
            || !passes_routers(ip.from)
            || !passes_routers(ip.to)
        {
            return RouterVerdict::Drop(Reason::Unroutable);
        }
        if self.legs.iter().any(|leg| leg.addresses.contains(&ip.to) || leg.machine.contains(&ip.to)) {
            return RouterVerdict::Drop(Reason::NotForUs);
        }
        RouterVerdict::Forward(ip)
    }

    /// Rewrites a packet for the other side, if it may go there. `longest` is the length of its longest part on the
    /// wire: all of it, unless it is segmented later.
    #[inline]
    pub(crate) fn leave(
        &mut self,
        at: usize,
        (frame, headers, ip): (&mut [u8], &Headers, &Ip),
        longest: usize,
        now: Timestamp,
        answer: &mut Vec<u8>,
    ) -> RouterVerdict {
        let out = &self.legs[1 - at];
        let complaint = if ip.hop_limit <= 1 {
            Complaint::HopLimit
        } else if longest > out.mtu as usize {
            Complaint::TooLong(out.mtu)
        } else {
            decrement(&mut frame[headers.packet..], headers.kind);
            frame[..6].copy_from_slice(&out.next_hop);
            frame[6..12].copy_from_slice(&out.mac);
            return RouterVerdict::Forward(*ip);
        };
        let told = self.complaints.tell(complaint, &self.voices[at], (frame, headers), now, answer);
        if told { RouterVerdict::Answer(complaint.reason()) } else { RouterVerdict::Drop(complaint.reason()) }
    }
}

impl Leg {
    fn voice(&self) -> Voice {
        let all = || self.addresses.iter().chain(&self.machine);
        let v4 = all().find_map(|ip| if let IpAddr::V4(v4) = ip { Some(*v4) } else { None });
        let v6 = all().find_map(|ip| if let IpAddr::V6(v6) = ip { Some(*v6) } else { None });
        Voice { mac: self.mac, v4: v4.unwrap_or(DUMMY), v6: v6.unwrap_or_else(|| link_local(self.mac)) }
    }
}

impl Complaint {
    /// Returns the reason for which the packet was dropped.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Complaint::HopLimit => Reason::HopLimit,
            Complaint::TooLong(_) => Reason::TooLong,
        }
    }
}

/// Takes one hop off. The packet has a whole header and hops left.
fn decrement(packet: &mut [u8], kind: EtherType) {
    if kind == EtherType::IPV6 {
        packet[7] -= 1;
        return;
    }
    let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (before, sum) = (word(packet, 8), word(packet, 10));
    packet[8] -= 1;
    let sum = changed(sum, before, word(packet, 8));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Says whether an IPv4 packet carries a source route, loose or strict.
fn has_source_route(header: &[u8], kind: EtherType) -> bool {
    let mut options = if kind == EtherType::IPV4 { header.get(20..).unwrap_or_default() } else { &[] };
    while let [option, rest @ ..] = options {
        match option {
            0 => return false,
            1 => options = rest,
            131 | 137 => return true,
            _ => match rest.first() {
                Some(&length) if length >= 2 => options = options.get(length.into()..).unwrap_or_default(),
                // Options that cannot be parsed may hide one.
                _ => return true,
            },
        }
    }
    false
}

/// Says whether a router may forward packets from or to this address (RFC 1812, section 5.3.7; RFC 3927, section 2.7;
/// RFC 4291, section 2.5): not "this network", loopback, link-local, multicast, reserved or broadcast addresses.
fn passes_routers(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            let [first, ..] = v4.octets();
            first != 0 && first < 224 && !v4.is_loopback() && !v4.is_link_local()
        }
        IpAddr::V6(v6) => {
            !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() || v6.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests;
