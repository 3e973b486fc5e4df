//! Properties that hold for any frame: called by the property tests and the fuzzer.

use etherparse::{NetSlice, SlicedPacket};
use softtimers_core::Timestamp;
use softtimers_net::packet::complete_ipv4_checksum;

use super::headers::{ETHERNET, Headers, Mac};
use super::router::{Leg, Router};
use super::{Arrival, Forwarder, Verdict, checksum};
use crate::forwarder::rules::{Entrance, EtherType, Filter, parse};

/// Sends one frame, given after the script's first byte, through a cable or a router, with rules or without. Bits of
/// that byte choose, and whether address and checksum are corrected first, so that more frames get far.
///
/// # Panics
/// If something does not hold.
pub(crate) fn any_frame(script: &[u8]) {
    let Some((&switches, frame)) = script.split_first() else { return };
    let is_set = |bit: u32| switches >> bit & 1 != 0;
    let mut frame = frame.to_vec();
    if is_set(0) && frame.len() >= ETHERNET {
        frame[..6].copy_from_slice(&OURS[0]);
        if let Some(headers) = Headers::parse(&frame).filter(|headers| headers.kind == EtherType::IPV4) {
            complete_ipv4_checksum(&mut frame[headers.packet..]);
        }
    }
    let mut forwarder = forwarder(is_set(1), is_set(2));
    let before = frame.clone();
    let segment = is_set(3).then_some(u16::from(switches) << 3);
    let arrival = Arrival { entrance: Entrance::A, segment, at: Timestamp::from_micros(1) };
    let verdict = forwarder.handle(&mut frame, &arrival);
    let counted = forwarder.reasons.total();
    assert_eq!(counted, u64::from(verdict != Verdict::Forward), "{verdict:?}");
    assert_eq!(frame.len(), before.len());
    match verdict {
        Verdict::Forward if is_set(1) => routed(&before, &frame),
        Verdict::Forward => {
            assert!(frame.len() >= ETHERNET);
            assert_eq!(frame, before, "a cable changes nothing");
        }
        Verdict::Answer(_) => answered(&before, forwarder.answer()),
        Verdict::Drop(_) => {}
    }
}

fn forwarder(routes: bool, has_rules: bool) -> Forwarder {
    let mut forwarder = Forwarder::new([1_500, 1_400]);
    if routes {
        let addresses = [["10.0.1.1", "2001:db8::1"], ["10.0.2.1", "fd00::2"]]
            .map(|both| both.map(|address| address.parse().unwrap_or_else(|_| unreachable!())).to_vec());
        let [a, b] = addresses;
        let leg = |mac, addresses, mtu| Leg { mac, next_hop: [9; 6], mtu, addresses, machine: vec![] };
        forwarder.router = Some(Router::new([leg(OURS[0], a, 1_500), leg(OURS[1], b, 1_400)]));
    }
    if has_rules {
        forwarder.rules =
            parse(b"from 10.0.0.0/8 port 0-99 reject\nprotocol 1 reject\naccept").ok().map(Filter::from);
    }
    forwarder
}

/// Checks that a routed frame has one hop less, new stations, and is otherwise unchanged.
fn routed(before: &[u8], after: &[u8]) {
    assert_eq!((&after[..6], &after[6..12]), (&[9; 6][..], &OURS[1][..]));
    let headers = Headers::parse(after).unwrap_or_else(|| panic!("{after:?}"));
    let ip = headers.ip.unwrap_or_else(|| panic!("{after:?}"));
    let mut expected = before.to_vec();
    expected[..12].copy_from_slice(&after[..12]);
    let packet = headers.packet;
    if headers.kind == EtherType::IPV4 {
        assert!(checksum::is_right(&after[packet..packet + ip.header]), "{after:?}");
        expected[packet + 8] -= 1;
        expected[packet + 10..packet + 12].copy_from_slice(&after[packet + 10..packet + 12]);
    } else {
        expected[packet + 7] -= 1;
    }
    assert!(ip.hop_limit >= 1 && expected == after, "{before:?} {after:?}");
}

/// Checks that an answer is a complete, valid packet to the frame's sender, no longer than a router's may be.
fn answered(about: &[u8], answer: &[u8]) {
    assert!(answer.len() <= ETHERNET + 1_280, "{}", answer.len());
    let packet = SlicedPacket::from_ethernet(answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    assert_eq!(&answer[6..12], &OURS[0], "from us");
    match packet.net {
        Some(NetSlice::Ipv4(_)) => {
            assert!(checksum::is_right(&answer[ETHERNET..ETHERNET + 20]));
            assert_eq!(&answer[..6], &about[6..12]);
        }
        Some(NetSlice::Ipv6(_) | NetSlice::Arp(_)) => {}
        None => panic!("{answer:?}"),
    }
}

const OURS: [Mac; 2] = [[2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xb]];

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    use super::*;

    /// A packet as senders make them.
    fn packet() -> impl Strategy<Value = Vec<u8>> {
        (any::<[u8; 4]>(), any::<u8>(), any::<bool>(), 0u8..3, prop::collection::vec(any::<u8>(), 0..1_500))
            .prop_map(|(ip, hops, is_v4, kind, payload)| {
                let link = PacketBuilder::ethernet2([4; 6], OURS[0]);
                let network = if is_v4 {
                    link.ipv4(ip, [192, 0, 2, ip[0]], hops)
                } else {
                    link.ipv6([0x20 | ip[0] >> 3; 16], [0x20; 16], hops)
                };
                let mut frame = Vec::new();
                match kind {
                    0 => network.udp(u16::from(ip[1]), 53).write(&mut frame, &payload),
                    1 => network.tcp(80, u16::from(ip[2]), 7, 8).write(&mut frame, &payload),
                    _ if is_v4 => network.icmpv4_raw(ip[3], 0, [0; 4]).write(&mut frame, &payload),
                    _ => network.icmpv6_raw(ip[3], 0, [0; 4]).write(&mut frame, &payload),
                }
                .unwrap();
                frame
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_safe(script in prop::collection::vec(any::<u8>(), 0..200)) {
            any_frame(&script);
        }

        #[test]
        fn packets_are_routed_or_answered(switches in any::<u8>(), frame in packet()) {
            any_frame(&[&[switches | 2], &frame[..]].concat());
        }

        /// Changes a few bytes, and cuts off the end.
        #[test]
        fn damaged_packets_are_safe(
            switches in any::<u8>(),
            mut frame in packet(),
            changes in prop::collection::vec((0usize..80, any::<u8>()), 0..5),
            length in 0usize..200,
        ) {
            let last = frame.len() - 1;
            changes.into_iter().for_each(|(at, byte)| frame[at.min(last)] = byte);
            frame.truncate(length.max(1));
            any_frame(&[&[switches], &frame[..]].concat());
        }
    }
}
