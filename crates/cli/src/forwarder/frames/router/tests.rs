//! A router's treatment of packets of all kinds.

use etherparse::icmpv4::{DestUnreachableHeader, TimeExceededCode};
use etherparse::{
    ArpEthIpv4Packet, ArpOperation, Icmpv4Type, Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket,
    TransportSlice,
};
use softtimers_core::Timestamp;

use super::super::{Arrival, Forwarder, Verdict};
use super::*;
use crate::forwarder::frames::icmp::{BURST, RATE};
use crate::forwarder::rules::Entrance;

const A: Mac = [2, 0, 0, 0, 0, 0xa];
const B: Mac = [2, 0, 0, 0, 0, 0xb];
const HOST: Mac = [4, 0, 0, 0, 0, 1];
const NEXT: Mac = [4, 0, 0, 0, 0, 2];

fn forwarder() -> Forwarder {
    let leg = |mac, next_hop, mtu, addresses: [&str; 2]| Leg {
        mac,
        next_hop,
        mtu,
        addresses: addresses.map(|address| address.parse().unwrap()).to_vec(),
        machine: Vec::new(),
    };
    let mut forwarder = Forwarder::new([1_500, 1_280]);
    let legs = [
        leg(A, HOST, 1_500, ["10.0.1.1", "2001:db8:1::1"]),
        leg(B, NEXT, 1_280, ["10.0.2.1", "2001:db8:2::1"]),
    ];
    forwarder.router = Some(Router::new(legs));
    forwarder
}

fn came(forwarder: &mut Forwarder, frame: &mut [u8]) -> Verdict {
    let arrival = Arrival { entrance: Entrance::A, segment: None, at: Timestamp::from_micros(1_000_000) };
    forwarder.handle(frame, &arrival)
}

fn v4(hops: u8, payload: usize) -> Vec<u8> {
    let built = PacketBuilder::ethernet2(HOST, A).ipv4([10, 0, 1, 9], [10, 0, 2, 9], hops).udp(7, 9);
    let mut frame = Vec::new();
    built.write(&mut frame, &vec![7; payload]).unwrap();
    frame
}

fn v6(hops: u8, payload: usize) -> Vec<u8> {
    let [from, to] = ["2001:db8:1::9", "2001:db8:2::9"].map(|ip| ip.parse::<std::net::Ipv6Addr>().unwrap());
    let built = PacketBuilder::ethernet2(HOST, A).ipv6(from.octets(), to.octets(), hops).udp(7, 9);
    let mut frame = Vec::new();
    built.write(&mut frame, &vec![7; payload]).unwrap();
    frame
}

#[test]
fn packets_get_one_hop_further_and_stay_right() {
    for mut frame in [v4(2, 100), v6(2, 100), v4(255, 1_252)] {
        let mut forwarder = forwarder();
        let hops = Headers::parse(&frame).unwrap().ip.unwrap().hop_limit;
        assert_eq!(came(&mut forwarder, &mut frame), Verdict::Forward);
        assert_eq!((&frame[..6], &frame[6..12]), (&NEXT[..], &B[..]));
        let headers = Headers::parse(&frame).unwrap();
        assert_eq!(headers.ip.unwrap().hop_limit, hops - 1);
        if headers.kind == EtherType::IPV4 {
            assert!(is_right(&frame[14..34]));
        }
    }
}

#[test]
fn the_last_hop_is_told_to_the_sender() {
    let mut forwarder = forwarder();
    let mut frame = v4(1, 1_400);
    assert_eq!(came(&mut forwarder, &mut frame), Verdict::Answer(Reason::HopLimit));
    assert_eq!(frame, v4(1, 1_400), "what is quoted is as it came");
    let answer = forwarder.answer().to_vec();
    assert_eq!((&answer[..6], &answer[6..12], answer.len()), (&HOST[..], &A[..], 14 + 576));
    let packet = SlicedPacket::from_ethernet(&answer).unwrap();
    let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!() };
    assert_eq!((ip.header().source(), ip.header().destination()), ([10, 0, 1, 1], [10, 0, 1, 9]));
    let Some(TransportSlice::Icmpv4(icmp)) = &packet.transport else { panic!() };
    assert_eq!(icmp.icmp_type(), Icmpv4Type::TimeExceeded(TimeExceededCode::TtlExceededInTransit));
    assert_eq!(icmp.payload(), &frame[14..14 + 548]);

    let mut frame = v6(0, 100);
    assert_eq!(came(&mut forwarder, &mut frame), Verdict::Answer(Reason::HopLimit));
    let answer = forwarder.answer().to_vec();
    let packet = SlicedPacket::from_ethernet(&answer).unwrap();
    let Some(TransportSlice::Icmpv6(icmp)) = &packet.transport else { panic!() };
    let [from, to] = ["2001:db8:1::1", "2001:db8:1::9"].map(|ip| ip.parse::<std::net::Ipv6Addr>().unwrap());
    assert!(icmp.is_checksum_valid(from.octets(), to.octets()));
    assert!(matches!(icmp.icmp_type(), Icmpv6Type::TimeExceeded(_)));
    assert_eq!(forwarder.reasons.hop_limit, 2);
}

#[test]
fn what_is_too_long_is_told_how_long_it_may_be() {
    let mut forwarder = forwarder();
    assert_eq!(came(&mut forwarder, &mut v4(9, 1_252)), Verdict::Forward);
    assert_eq!(came(&mut forwarder, &mut v4(9, 1_253)), Verdict::Answer(Reason::TooLong));
    let answer = forwarder.answer().to_vec();
    let packet = SlicedPacket::from_ethernet(&answer).unwrap();
    let Some(TransportSlice::Icmpv4(icmp)) = &packet.transport else { panic!() };
    let needed = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1_280 };
    assert_eq!(icmp.icmp_type(), Icmpv4Type::DestinationUnreachable(needed));
    assert_eq!(came(&mut forwarder, &mut v6(9, 1_233)), Verdict::Answer(Reason::TooLong));
    let answer = forwarder.answer().to_vec();
    let packet = SlicedPacket::from_ethernet(&answer).unwrap();
    let Some(TransportSlice::Icmpv6(icmp)) = &packet.transport else { panic!() };
    assert_eq!(icmp.icmp_type(), Icmpv6Type::PacketTooBig { mtu: 1_280 });
    // Joined, and cut later.
    let at = Timestamp::from_micros(1_000_000);
    let arrival = Arrival { entrance: Entrance::A, segment: Some(1_252), at };
    assert_eq!(forwarder.handle(&mut v4(9, 9_000), &arrival), Verdict::Forward);
    let arrival = Arrival { segment: Some(1_253), ..arrival };
    assert_eq!(forwarder.handle(&mut v4(9, 9_000), &arrival), Verdict::Answer(Reason::TooLong));
}

/// The outgoing MTU shrinks, the interface back gets another station, and the machine an address there.
#[test]
fn interfaces_that_change_are_gone_by() {
    let mut forwarder = forwarder();
    let link = |mtu, station, addresses: &[&str]| Link {
        mtu,
        station,
        addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
        is_on: true,
        outages: 0,
    };
    assert_eq!(came(&mut forwarder, &mut v4(9, 1_252)), Verdict::Forward);
    forwarder.adopt(1, &link(1_000, [2, 0, 0, 0, 0, 0xc], &["10.0.2.9"]));
    assert_eq!(came(&mut forwarder, &mut v4(9, 100)), Verdict::Drop(Reason::NotForUs), "the machine's own");
    forwarder.adopt(1, &link(1_000, [2, 0, 0, 0, 0, 0xc], &[]));
    let mut frame = v4(9, 972);
    assert_eq!(came(&mut forwarder, &mut frame), Verdict::Forward);
    assert_eq!(frame[6..12], [2, 0, 0, 0, 0, 0xc]);
    assert_eq!(came(&mut forwarder, &mut v4(9, 973)), Verdict::Answer(Reason::TooLong));
    let answer = forwarder.answer().to_vec();
    let packet = SlicedPacket::from_ethernet(&answer).unwrap();
    let Some(TransportSlice::Icmpv4(icmp)) = &packet.transport else { panic!() };
    let needed = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1_000 };
    assert_eq!(icmp.icmp_type(), Icmpv4Type::DestinationUnreachable(needed));
    // Frames for the old station are now for another host.
    forwarder.adopt(0, &link(1_500, [2, 0, 0, 0, 0, 0xd], &[]));
    assert_eq!(came(&mut forwarder, &mut v4(9, 100)), Verdict::Drop(Reason::NotForUs));
}

#[test]
fn nothing_is_said_about_errors_later_fragments_and_groups() {
    let mut forwarder = forwarder();
    let icmp = |kind| {
        let built = PacketBuilder::ethernet2(HOST, A)
            .ipv4([10, 0, 1, 9], [10, 0, 2, 9], 1)
            .icmpv4_raw(kind, 0, [0; 4]);
        let mut frame = Vec::new();
        built.write(&mut frame, &[0; 40]).unwrap();
        frame
    };
    for kind in [3, 4, 5, 11, 12, 77] {
        assert_eq!(came(&mut forwarder, &mut icmp(kind)), Verdict::Drop(Reason::HopLimit), "{kind}");
    }
    assert_eq!(came(&mut forwarder, &mut icmp(8)), Verdict::Answer(Reason::HopLimit));
    let mut later = v4(1, 100);
    later[21] = 1;
    softtimers_net::packet::complete_ipv4_checksum(&mut later[14..]);
    assert_eq!(came(&mut forwarder, &mut later), Verdict::Drop(Reason::HopLimit));
    let mut grouped = v4(1, 100);
    grouped[6] |= 1;
    assert_eq!(came(&mut forwarder, &mut grouped), Verdict::Drop(Reason::HopLimit));
}

/// A burst passes, then the rate, whatever comes.
#[test]
fn answers_keep_within_their_rate() {
    let mut forwarder = forwarder();
    let answers = (0..100_000u64).filter(|step| {
        let at = Timestamp::from_micros(1_000_000 + step * 20);
        let arrival = Arrival { entrance: Entrance::A, segment: None, at };
        matches!(forwarder.handle(&mut v4(1, 0), &arrival), Verdict::Answer(_))
    });
    let (told, burst) = (answers.count() as u64, BURST.as_millis() as u64);
    assert!((2 * RATE..=2 * RATE + burst + 1).contains(&told), "{told}");
    let complaints = &forwarder.router.as_ref().unwrap().complaints;
    assert_eq!((complaints.told, complaints.suppressed), (told, 100_000 - told));
}

#[test]
fn what_no_router_passes_on_is_refused() {
    let mut forwarder = forwarder();
    let mut refused = |change: &dyn Fn(&mut Vec<u8>), reason| {
        let mut frame = v4(9, 100);
        change(&mut frame);
        if reason != Reason::Malformed {
            softtimers_net::packet::complete_ipv4_checksum(&mut frame[14..]);
        }
        assert_eq!(came(&mut forwarder, &mut frame), Verdict::Drop(reason), "{frame:?}");
    };
    refused(&|frame| frame[24] ^= 1, Reason::Malformed);
    refused(&|frame| frame[17] += 1, Reason::Malformed);
    refused(&|frame| frame[14] = 0x65, Reason::Malformed);
    refused(&|frame| frame[5] ^= 1, Reason::NotForUs);
    refused(&|frame| frame[..6].fill(0xff), Reason::NotForUs);
    refused(&|frame| drop(frame.splice(12..12, [0x81, 0, 0, 7])), Reason::NotForUs);
    refused(&|frame| frame[6..12].copy_from_slice(&B), Reason::Loop);
    refused(&|frame| frame[30..34].copy_from_slice(&[10, 0, 2, 1]), Reason::NotForUs);
    for ip in [[0, 0, 0, 0], [127, 0, 0, 1], [169, 254, 1, 1], [224, 0, 0, 1], [255; 4], [240, 0, 0, 1]] {
        refused(&|frame| frame[26..30].copy_from_slice(&ip), Reason::Unroutable);
        refused(&|frame| frame[30..34].copy_from_slice(&ip), Reason::Unroutable);
    }
    let with_option = |option: u8, length: u8| {
        move |frame: &mut Vec<u8>| {
            frame.splice(34..34, [option, length, 4, 0]);
            (frame[14], frame[17]) = (0x46, frame[17] + 4);
        }
    };
    for (option, length) in [(131, 3), (137, 3), (68, 0), (68, 1)] {
        refused(&with_option(option, length), Reason::Unroutable);
    }
    let mut harmless = v4(9, 100);
    with_option(68, 4)(&mut harmless);
    softtimers_net::packet::complete_ipv4_checksum(&mut harmless[14..]);
    assert_eq!(came(&mut forwarder, &mut harmless), Verdict::Forward);
}

#[test]
fn who_asks_for_its_addresses_is_answered() {
    let mut forwarder = forwarder();
    let ask = |target_ipv4| {
        let question = ArpEthIpv4Packet {
            operation: ArpOperation::REQUEST,
            sender_mac: HOST,
            sender_ipv4: [10, 0, 1, 9],
            target_mac: [0; 6],
            target_ipv4,
        };
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(HOST, [0xff; 6]).arp(question.into()).write(&mut frame).unwrap();
        frame
    };
    assert_eq!(came(&mut forwarder, &mut ask([10, 0, 1, 1])), Verdict::Answer(Reason::Answered));
    let answer = forwarder.answer().to_vec();
    let packet = SlicedPacket::from_ethernet(&answer).unwrap();
    let Some(NetSlice::Arp(arp)) = packet.net else { panic!() };
    let reply = arp.to_packet().try_eth_ipv4().unwrap();
    assert_eq!((reply.operation, reply.sender_mac, reply.target_mac), (ArpOperation::REPLY, A, HOST));
    // The other leg's, and a neighbour's.
    for address in [[10, 0, 2, 1], [10, 0, 1, 8]] {
        assert_eq!(came(&mut forwarder, &mut ask(address)), Verdict::Drop(Reason::NotForUs));
    }

    let [from, to, all] = ["2001:db8:1::9", "2001:db8:1::1", "ff02::1:ff00:1"]
        .map(|ip| ip.parse::<std::net::Ipv6Addr>().unwrap());
    let solicit = |hops| {
        let payload = [&to.octets()[..], &[1, 1], &HOST].concat();
        let link = PacketBuilder::ethernet2(HOST, [0x33, 0x33, 0xff, 0, 0, 1]);
        let built = link.ipv6(from.octets(), all.octets(), hops).icmpv6(Icmpv6Type::NeighborSolicitation);
        let mut frame = Vec::new();
        built.write(&mut frame, &payload).unwrap();
        frame
    };
    assert_eq!(came(&mut forwarder, &mut solicit(255)), Verdict::Answer(Reason::Answered));
    assert_eq!(&forwarder.answer()[..6], &HOST);
    let answer = forwarder.answer().to_vec();
    let packet = SlicedPacket::from_ethernet(&answer).unwrap();
    let Some(TransportSlice::Icmpv6(icmp)) = &packet.transport else { panic!() };
    assert!(icmp.is_checksum_valid(to.octets(), from.octets()));
    assert!(
        matches!(icmp.icmp_type(), Icmpv6Type::NeighborAdvertisement(flags) if flags.solicited && flags.router)
    );
    assert_eq!(icmp.payload(), [&to.octets()[..], &[2, 1], &A].concat());
    // It has passed a router, so its sender only pretends to be a neighbour.
    assert_eq!(came(&mut forwarder, &mut solicit(254)), Verdict::Drop(Reason::NotForUs));
    let mut damaged = solicit(255);
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(came(&mut forwarder, &mut damaged), Verdict::Drop(Reason::NotForUs));
}
