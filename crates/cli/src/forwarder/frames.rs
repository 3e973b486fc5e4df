//! Deciding about a frame between two interfaces: [`Forwarder`]. It does no I/O, and its only clock is the time it is
//! passed.
//!
//! ```text
//!   frame ─▶ [ came back? ] ─▶ headers ─▶ [ router: enter ] ─▶ rules ─▶ [ router: leave ] ─▶ as it is, or changed in place
//!                │                             │                 │             │
//!              dropped                     answered, dropped   dropped    told its sender, dropped
//! ```
//!
//! Without a router it is a cable: frames leave unchanged, tags included, unless they are longer than the other
//! interface sends. With one, packets are changed in place ([`router`]). Forwarding a frame allocates and copies
//! nothing.
//!
//! - [`link`]: the state of an interface; [`headers`]: offsets of headers; [`checksum`]: updates after a change;
//! - [`router`], [`icmp`], [`resolution`]: routing, ICMP errors, answers to ARP and neighbour discovery;
//! - [`loops`]: detection of frames that come back; [`reason`]: why a frame was dropped.

pub(crate) mod checksum;
pub(crate) mod headers;
pub(crate) mod icmp;
pub(crate) mod link;
pub(crate) mod loops;
#[cfg(any(test, fuzzing))]
pub(crate) mod properties;
pub(crate) mod reason;
pub(crate) mod resolution;
pub(crate) mod router;

use softtimers_core::Timestamp;

use crate::forwarder::rules::{Action, Entrance, Filter, Protocol};
use headers::{ETHERNET, Headers, Ip, TAG};
use link::Link;
use loops::Loops;
use reason::{Reason, Reasons};
use router::{Router, RouterVerdict};

/// Decides what happens to each frame.
#[derive(Clone, Debug)]
pub(crate) struct Forwarder {
    /// The longest packet at each.
    mtus: [u32; 2],
    /// Routes frames; without it they pass unchanged.
    pub(crate) router: Option<Router>,
    /// The rules that say which frames may pass.
    pub(crate) rules: Option<Filter>,
    /// Detects frames that come back; `None` with a router, whose frames may.
    pub(crate) loops: Option<Loops>,
    /// Dropped frames, by reason.
    pub(crate) reasons: Reasons,
    answer: Vec<u8>,
}

/// The circumstances of a frame's arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrival {
    /// The interface at which it arrived.
    pub(crate) entrance: Entrance,
    /// Payload bytes per segment, if the frame will be segmented later.
    pub(crate) segment: Option<u16>,
    /// The time of its arrival.
    pub(crate) at: Timestamp,
}

/// The decision about a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Leaves on the other side, with its bytes as they are now.
    Forward,
    /// Dropped, and [`Forwarder::answer`] goes back.
    Answer(Reason),
    /// Dropped.
    Drop(Reason),
}

impl Forwarder {
    /// Creates a cable between interfaces that send packets of at most `mtus` bytes.
    pub(crate) fn new(mtus: [u32; 2]) -> Self {
        Forwarder {
            mtus,
            router: None,
            rules: None,
            loops: None,
            reasons: Reasons::default(),
            answer: Vec::new(),
        }
    }

    /// Decides about a frame, counts it if dropped, and rewrites it in place if forwarded.
    ///
    /// # Cost
    /// A cable without rules: 6 ns. Headers are 20 more, four rules 30, 64 rules 280, a router 30 (x86-64 beside other
    /// work).
    #[inline]
    pub(crate) fn handle(&mut self, frame: &mut [u8], arrival: &Arrival) -> Verdict {
        let verdict = self.decide(frame, arrival);
        if let Verdict::Drop(reason) | Verdict::Answer(reason) = verdict {
            self.reasons.count(reason);
        }
        verdict
    }

    /// Takes over the new state of the interface on one side.
    pub(crate) fn adopt(&mut self, at: usize, link: &Link) {
        self.mtus[at] = link.mtu;
        self.router.iter_mut().for_each(|router| router.adopt(at, link));
    }

    /// Returns the frame that goes back after [`Verdict::Answer`].
    pub(crate) fn answer(&self) -> &[u8] {
        &self.answer
    }

    fn decide(&mut self, frame: &mut [u8], arrival: &Arrival) -> Verdict {
        let at = index(arrival.entrance);
        if self.loops.as_mut().is_some_and(|loops| loops.is_in_one(frame, at, arrival.at)) {
            return Verdict::Drop(Reason::Loop);
        }
        let out = self.mtus[1 - at] as usize;
        let is_plain = self.router.is_none() && self.rules.is_none();
        if is_plain && (ETHERNET..=out + ETHERNET).contains(&frame.len()) {
            return Verdict::Forward;
        }
        let Some(headers) = Headers::parse(frame) else { return Verdict::Drop(Reason::Malformed) };
        let routed = match &self.router {
            None => None,
            Some(router) => match router.enter(at, frame, &headers, &mut self.answer) {
                RouterVerdict::Forward(ip) => Some(ip),
                RouterVerdict::Answer(reason) => return Verdict::Answer(reason),
                RouterVerdict::Drop(reason) => return Verdict::Drop(reason),
            },
        };
        if let Some(rules) = &mut self.rules {
            let seen = headers.seen(frame.len(), arrival.entrance, arrival.at);
            if rules.decide(&seen) == Action::Reject {
                return Verdict::Drop(Reason::Rule);
            }
        }
        let longest = longest(frame, &headers, arrival.segment);
        let Some((router, ip)) = self.router.as_mut().zip(routed) else {
            // An interface sends one tag beyond its longest packet.
            let rest = headers.packet - ETHERNET - usize::from(headers.tags.min(1)) * TAG;
            let fits = longest + rest <= out;
            return if fits { Verdict::Forward } else { Verdict::Drop(Reason::TooLong) };
        };
        match router.leave(at, (frame, &headers, &ip), longest, arrival.at, &mut self.answer) {
            RouterVerdict::Forward(_) => Verdict::Forward,
            RouterVerdict::Answer(reason) => Verdict::Answer(reason),
            RouterVerdict::Drop(reason) => Verdict::Drop(reason),
        }
    }
}

/// Returns the length of the longest packet this frame becomes on the wire: everything after Ethernet's header and
/// tags, including a trailer, unless it is segmented later.
fn longest(frame: &[u8], headers: &Headers, segment: Option<u16>) -> usize {
    let whole = frame.len() - headers.packet;
    let cut = segment.zip(headers.ip).and_then(|(segment, Ip { transport, protocol, .. })| {
        let own = match protocol? {
            Protocol::TCP => usize::from(frame.get(transport + 12)? >> 4) * 4,
            Protocol::UDP => 8,
            _ => return None,
        };
        Some(transport - headers.packet + own + usize::from(segment))
    });
    cut.map_or(whole, |cut| cut.min(whole))
}

fn index(entrance: Entrance) -> usize {
    match entrance {
        Entrance::A => 0,
        Entrance::B => 1,
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;
    use crate::forwarder::rules::parse;

    fn cable(rules: Option<&str>) -> Forwarder {
        let mut forwarder = Forwarder::new([1_500, 1_500]);
        forwarder.rules = rules.map(|text| parse(text.as_bytes()).unwrap().into());
        forwarder
    }

    fn came(forwarder: &mut Forwarder, entrance: Entrance, frame: &[u8]) -> Verdict {
        let mut bytes = frame.to_vec();
        let verdict = forwarder.handle(&mut bytes, &Arrival { entrance, segment: None, at: Timestamp::ZERO });
        assert_eq!(bytes, frame);
        verdict
    }

    fn datagram(port: u16, payload: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        let built = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 1);
        built.udp(7, port).write(&mut frame, &vec![0; payload]).unwrap();
        frame
    }

    #[test]
    fn a_cable_carries_all_that_is_a_frame_and_no_longer_than_the_other_end_sends() {
        let mut cable = cable(None);
        let tagged = |tags: usize, length: usize| {
            let mut frame = [&[2; 12][..], &[0x81, 0, 0, 7].repeat(tags), &[0x88, 0xb5]].concat();
            frame.resize(length, 0);
            frame
        };
        let too_long = Verdict::Drop(Reason::TooLong);
        for (frame, verdict) in [
            (vec![2; 13], Verdict::Drop(Reason::Malformed)),
            (vec![2; 14], Verdict::Forward),
            (tagged(0, 1_514), Verdict::Forward),
            (tagged(0, 1_515), too_long),
            (tagged(1, 1_518), Verdict::Forward),
            (tagged(1, 1_519), too_long),
            (tagged(2, 1_518), Verdict::Forward),
            (tagged(2, 1_519), too_long),
            (tagged(9, 1_519), too_long),
            (vec![0xff; 64], Verdict::Forward),
        ] {
            assert_eq!(came(&mut cable, Entrance::B, &frame), verdict, "{frame:?}");
        }
        assert_eq!(cable.reasons.total(), 5);
    }

    #[test]
    fn what_a_rule_accepts_it_has_seen() {
        let mut ports = cable(Some("type ipv4 protocol udp port 53 accept\nreject"));
        let rejected = Verdict::Drop(Reason::Rule);
        let whole = datagram(53, 100);
        assert_eq!(came(&mut ports, Entrance::A, &whole), Verdict::Forward);
        assert_eq!(came(&mut ports, Entrance::A, &datagram(54, 100)), rejected);
        for length in 14..whole.len() {
            assert_eq!(came(&mut ports, Entrance::A, &whole[..length]), rejected, "{length}");
        }
        // The bytes where the header would be are the middle of a packet.
        let mut later = whole.clone();
        later[21] = 2;
        assert_eq!(came(&mut ports, Entrance::A, &later), rejected);
        let mut arp = whole.clone();
        arp[13] = 0x06;
        assert_eq!(came(&mut ports, Entrance::A, &arp), rejected);
        assert_eq!(
            came(&mut cable(Some("type arp on b accept\nreject")), Entrance::B, &arp),
            Verdict::Forward
        );
        assert_eq!(came(&mut cable(Some("type arp on b accept\nreject")), Entrance::A, &arp), rejected);
        // Behind two tags, but not behind three.
        let mut tagged = whole;
        tagged.splice(12..12, [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2]);
        assert_eq!(came(&mut ports, Entrance::A, &tagged), Verdict::Forward);
        tagged.splice(12..12, [0x81, 0, 0, 3]);
        assert_eq!(came(&mut ports, Entrance::A, &tagged), rejected);
    }

    #[test]
    fn lengths_are_of_payloads_and_of_packets() {
        let mut short = cable(Some("protocol udp length 100 accept\nlength 46 accept\nreject"));
        assert_eq!(came(&mut short, Entrance::A, &datagram(9, 100)), Verdict::Forward);
        assert_eq!(came(&mut short, Entrance::A, &datagram(9, 101)), Verdict::Drop(Reason::Rule));
        let plain = [&[2; 12][..], &[0x88, 0xb5], &[0; 46]].concat();
        assert_eq!(came(&mut short, Entrance::A, &plain), Verdict::Forward);
    }
}
