//! Answers to questions for a router's own addresses, by ARP (RFC 826) and neighbour discovery (RFC 4861).
//!
//! ```text
//!   who has 10.0.1.1?  tell 10.0.1.9      ─▶
//!                                         ◀─  10.0.1.1 is at 02:00:00:00:00:0a
//! ```
//!
//! The router answers but never asks: its next hops are configured, not learnt, so no neighbour can change them.

use std::net::{IpAddr, Ipv6Addr};

use etherparse::{
    ArpEthIpv4Packet, ArpOperation, ArpPacketSlice, EtherType, Icmpv6Type, IpHeaders, Ipv6Header,
    PacketBuilder, icmpv6, ip_number,
};

use super::headers::{Headers, Mac};
use crate::forwarder::rules::Protocol;

/// Writes the answer into `answer` if `frame` asks for one of `addresses`, which are at `mac`; returns whether it does.
pub(crate) fn answer(
    frame: &[u8],
    headers: &Headers,
    addresses: &[IpAddr],
    mac: Mac,
    answer: &mut Vec<u8>,
) -> bool {
    let packet = &frame[headers.packet..];
    let made = match headers.ip {
        None if headers.kind.0 == EtherType::ARP.0 => arp(packet, addresses, mac, answer),
        Some(ip) if ip.protocol == Some(Protocol::ICMPV6) && ip.hop_limit == HOPS => {
            let end = headers.packet + ip.length;
            let message = frame.get(ip.transport..end).unwrap_or_default();
            discovery((&packet[..ip.length], message), [ip.from, ip.to], addresses, mac, answer)
        }
        _ => None,
    };
    made.is_some()
}

fn arp(packet: &[u8], addresses: &[IpAddr], mac: Mac, answer: &mut Vec<u8>) -> Option<()> {
    let asked = ArpPacketSlice::from_slice(packet).ok()?.to_packet().try_eth_ipv4().ok()?;
    let wanted = IpAddr::from(asked.target_ipv4);
    if asked.operation != ArpOperation::REQUEST || !addresses.contains(&wanted) || is_group(asked.sender_mac)
    {
        return None;
    }
    let reply = ArpEthIpv4Packet {
        operation: ArpOperation::REPLY,
        sender_mac: mac,
        sender_ipv4: asked.target_ipv4,
        target_mac: asked.sender_mac,
        target_ipv4: asked.sender_ipv4,
    };
    answer.clear();
    PacketBuilder::ethernet2(mac, asked.sender_mac).arp(reply.into()).write(answer).ok()
}

fn discovery(
    (packet, message): (&[u8], &[u8]),
    [from, to]: [IpAddr; 2],
    addresses: &[IpAddr],
    mac: Mac,
    answer: &mut Vec<u8>,
) -> Option<()> {
    let (&[kind, code, ..], IpAddr::V6(from)) = (message.first_chunk::<8>()?, from) else { return None };
    let wanted = Ipv6Addr::from(*message.get(8..)?.first_chunk::<16>()?);
    let asked = kind == SOLICITATION && code == 0 && addresses.contains(&wanted.into());
    if !asked || !is_right(packet, message, [from.into(), to]) {
        return None;
    }
    // A host that checks for a duplicate address has none yet, so the answer goes to all.
    let probing = from.is_unspecified();
    let back = if probing { ALL_NODES } else { from };
    let station = if probing { ALL_NODES_MAC } else { source_option(message.get(24..)?)? };
    let header = Ipv6Header {
        next_header: ip_number::IPV6_ICMP,
        hop_limit: HOPS,
        source: wanted.octets(),
        destination: back.octets(),
        ..Ipv6Header::default()
    };
    let flags = icmpv6::NeighborAdvertisementHeader { router: true, solicited: !probing, r#override: true };
    let payload = [&wanted.octets()[..], &[TARGET_OPTION, 1], &mac].concat();
    answer.clear();
    let built = PacketBuilder::ethernet2(mac, station).ip(IpHeaders::Ipv6(header, Default::default()));
    built.icmpv6(Icmpv6Type::NeighborAdvertisement(flags)).write(answer, &payload).ok()
}

/// Says whether a message's checksum is correct: it comes from a stranger and decides who is answered.
fn is_right(packet: &[u8], message: &[u8], addresses: [IpAddr; 2]) -> bool {
    let [IpAddr::V6(from), IpAddr::V6(to)] = addresses else { return false };
    let mut sum = etherparse::checksum::Sum16BitWords::new().add_slice(message);
    sum = sum.add_16bytes(from.octets());
    sum = sum.add_16bytes(to.octets());
    let length = message.len() as u16;
    packet.len() >= message.len()
        && sum.add_2bytes(length.to_be_bytes()).add_2bytes([0, Protocol::ICMPV6.0]).ones_complement() == 0
}

/// Returns the address of the station that asks, from its option.
fn source_option(mut options: &[u8]) -> Option<Mac> {
    while let Some((&[kind, eights], _)) = options.split_first_chunk::<2>() {
        let length = usize::from(eights) * 8;
        let option = options.get(..length).filter(|option| !option.is_empty())?;
        if kind == SOURCE_OPTION {
            return option.get(2..)?.first_chunk().copied().filter(|&mac| !is_group(mac));
        }
        options = &options[length..];
    }
    None
}

fn is_group(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

const SOLICITATION: u8 = 135;
const SOURCE_OPTION: u8 = 1;
const TARGET_OPTION: u8 = 2;
/// The hop limit of a packet that no router has forwarded (RFC 4861, section 7.1.1).
const HOPS: u8 = 255;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: Mac = [0x33, 0x33, 0, 0, 0, 1];
