//! Finds rules whose clauses never match together. Such a mistake does not show in a test with traffic, since the
//! intended packets fall through to another rule.
//!
//! Only contradictions between the clauses count, not rules for packets that are merely never sent.

use ipnet::IpNet;
use std::fmt::Display;

use super::clauses::{EtherType, Protocol, Span};
use super::rule::Rule;

impl Rule {
    /// Says which two clauses never match together, and why. With `one_family`, both addresses of a packet are of the
    /// same family; a relay may lead from one family to the other.
    pub(crate) fn contradiction(&self, one_family: bool) -> Option<String> {
        self.of_ip_only()
            .or_else(|| self.of_families(one_family))
            .or_else(|| self.of_ports())
            .or_else(|| self.of_length(one_family))
    }

    /// Names a clause that only IP packets can match, next to another type.
    fn of_ip_only(&self) -> Option<String> {
        let kind = self.kind.filter(|kind| !matches!(*kind, EtherType::IPV4 | EtherType::IPV6))?;
        let protocol = self.protocol.map(|protocol| format!("protocol {protocol}"));
        let address = self.networks().into_iter().flatten().next().map(|(word, net)| format!("{word} {net}"));
        let other = protocol.or(address).or(self.ports())?;
        Some(never(format!("type {kind}"), other, "only packets of IPv4 and IPv6 have that"))
    }

    fn of_families(&self, one_family: bool) -> Option<String> {
        let [from, to] = self.networks();
        let kind = self.kind.filter(|kind| matches!(*kind, EtherType::IPV4 | EtherType::IPV6));
        // A relay's `type` is that of its clients' packets.
        let near = [from, to.filter(|_| one_family)];
        if let Some(kind) = kind {
            let other = near.into_iter().flatten().find(|(_, net)| ethertype(*net) != kind);
            if let Some((word, net)) = other {
                let why = format!("that is an address of {}", family(net));
                return Some(never(format!("type {kind}"), format!("{word} {net}"), why));
            }
        }
        let ((_, from), (_, to)) = from.zip(to).filter(|_| one_family)?;
        (ethertype(from) != ethertype(to)).then(|| {
            let why = format!("one is an address of {}, the other of {}", family(from), family(to));
            never(format!("from {from}"), format!("to {to}"), why)
        })
    }

    fn of_ports(&self) -> Option<String> {
        let protocol = self.protocol.filter(|protocol| !has_ports(*protocol))?;
        let why = "only tcp and udp have ports";
        Some(never(format!("protocol {protocol}"), self.ports()?, why))
    }

    /// Except for UDP, a packet's length includes its header.
    fn of_length(&self, one_family: bool) -> Option<String> {
        let protocol = self.protocol.filter(|protocol| *protocol != Protocol::UDP)?;
        let lengths = self.lengths?;
        let [from, to] = self.networks().map(|network| network.map(|(_, net)| ethertype(net)));
        let is_v6 = [self.kind, from, to.filter(|_| one_family)].contains(&Some(EtherType::IPV6));
        let header = if is_v6 { 40 } else { 20 };
        let least = header + if self.ports().is_some() { PORTS } else { 0 };
        let Span { last, .. } = lengths;
        (last < least).then(|| {
            let why = format!("such a packet has at least {least} bytes");
            never(format!("protocol {protocol}"), format!("length {lengths}"), why)
        })
    }

    fn networks(&self) -> [Option<(&'static str, IpNet)>; 2] {
        [self.from.map(|net| ("from", net)), self.to.map(|net| ("to", net))]
    }

    /// The first clause about ports.
    fn ports(&self) -> Option<String> {
        let from = self.from_ports.map(|ports| format!("from-port {ports}"));
        from.or(self.to_ports.map(|ports| format!("port {ports}")))
    }
}

/// The frame type of packets with such addresses.
fn ethertype(net: IpNet) -> EtherType {
    if matches!(net, IpNet::V4(_)) { EtherType::IPV4 } else { EtherType::IPV6 }
}

fn family(net: IpNet) -> &'static str {
    if ethertype(net) == EtherType::IPV4 { "IPv4" } else { "IPv6" }
}

fn has_ports(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::TCP | Protocol::UDP)
}

fn never(one: impl Display, other: impl Display, why: impl Display) -> String {
    format!("'{one}' and '{other}' never hold together: {why}")
}

/// Both ports, in bytes.
const PORTS: u16 = 4;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;
    use softtimers_core::Timestamp;

    use super::super::parse;
    use super::*;
    use crate::forwarder::frames::headers::Headers;
    use crate::forwarder::rules::Entrance;

    /// A rule by its clauses, if it can be written at all.
    fn rule(clauses: &[String]) -> Option<Rule> {
        parse::rule(&format!("{} accept", clauses.join(" ")), parse::Quoting::Words).ok()
    }

    fn contradiction(text: &str, one_family: bool) -> Option<String> {
        rule(&[text.to_owned()]).unwrap().contradiction(one_family)
    }

    #[test]
    fn what_contradicts_what_is_said() {
        for (text, said) in [
            (
                "type arp port 53",
                "'type arp' and 'port 53' never hold together: only packets of IPv4 and IPv6",
            ),
            ("type 0x88cc protocol udp", "'type 0x88cc' and 'protocol udp' never"),
            ("type arp from 10.0.0.1", "'type arp' and 'from 10.0.0.1/32' never"),
            ("type arp to ::1 from-port 9", "'type arp' and 'to ::1/128' never"),
            (
                "type ipv6 from 10.0.0.0/8",
                "'type ipv6' and 'from 10.0.0.0/8' never hold together: that is an address of IPv4",
            ),
            (
                "type ipv4 to 2001:db8::/32",
                "'type ipv4' and 'to 2001:db8::/32' never hold together: that is an address of IPv6",
            ),
            (
                "from 10.0.0.1 to ::1",
                "'from 10.0.0.1/32' and 'to ::1/128' never hold together: one is an address of IPv4, the other of IPv6",
            ),
            (
                "protocol icmp port 53",
                "'protocol icmp' and 'port 53' never hold together: only tcp and udp have ports",
            ),
            ("protocol 47 from-port 1-9", "'protocol 47' and 'from-port 1-9' never"),
            (
                "protocol tcp length 0-19",
                "'protocol tcp' and 'length 0-19' never hold together: such a packet has at least 20 bytes",
            ),
            ("protocol tcp port 1 length 20-23", "'protocol tcp' and 'length 20-23' never"),
            (
                "protocol icmpv6 from ::1 length 39",
                "'protocol icmpv6' and 'length 39' never hold together: such a packet has at least 40 bytes",
            ),
        ] {
            let found = contradiction(text, true).unwrap_or_else(|| panic!("{text}"));
            assert!(found.starts_with(said), "{text}: {found}");
        }
        // A relay between both families, and packets that are merely never sent.
        for text in ["from 10.0.0.1 to ::1", "type ipv6 to 10.0.0.1"] {
            assert_eq!(contradiction(text, false), None, "{text}");
            assert!(contradiction(text, true).is_some());
        }
        for text in [
            "type ipv6 protocol icmp",
            "type ipv4 length 0-3",
            "type arp length 9000",
            "protocol udp length 0",
            "port 1 length 0",
        ] {
            assert_eq!(contradiction(text, true), None, "{text}");
        }
        let problem = parse::parse(b"accept\n")
            .and_then(|_| parse::parse(b"# ours\ntype arp port 53 accept\nreject\n"));
        assert!(problem.unwrap_err().to_string().starts_with("2: 'type arp' and 'port 53' never hold"));
    }

    /// A frame that a rule without contradictions matches.
    fn witness(rule: &Rule) -> Vec<u8> {
        let Rule { kind, protocol, from, from_ports, to, to_ports, lengths, .. } = *rule;
        let first = lengths.map_or(0, |lengths| usize::from(lengths.first));
        let needs_ip = protocol.is_some() || from.is_some() || to.is_some() || rule.ports().is_some();
        let frame = |kind: u16, packet: Vec<u8>| [&[2; 12][..], &kind.to_be_bytes(), &packet].concat();
        if !needs_ip {
            return frame(kind.map_or(0x88b5, |kind| kind.0), vec![0; first]);
        }
        let nets = [from, to].map(|net| net.map(ethertype));
        let is_v6 = [kind, nets[0], nets[1]].contains(&Some(EtherType::IPV6));
        let protocol = protocol.unwrap_or(Protocol::UDP);
        let ports =
            [from_ports, to_ports].map(|ports| ports.map_or(9, |ports| ports.first).to_be_bytes()).concat();
        let is_udp = protocol == Protocol::UDP;
        // A datagram, where length means the payload; the longest ones are first fragments.
        let datagram = is_udp && first <= 60_000;
        let header = if is_v6 { 40 } else { 20 };
        let rest = match (datagram, is_udp) {
            (true, _) => 8 + first,
            (false, true) => first - header,
            (false, false) => first.saturating_sub(header).max(if rule.ports().is_some() { 4 } else { 0 }),
        };
        let extension = if is_v6 && is_udp && !datagram { vec![17, 0, 0, 1, 0, 0, 0, 0] } else { vec![] };
        let mut payload = [&extension[..], &ports].concat();
        payload.resize(rest, 0);
        let address = |net: Option<IpNet>| match net.map(|net| net.addr()) {
            Some(IpAddr::V4(v4)) => v4.octets().to_vec(),
            Some(IpAddr::V6(v6)) => v6.octets().to_vec(),
            None if is_v6 => vec![0x20; 16],
            None => vec![10; 4],
        };
        let mut packet = if is_v6 {
            let next = if extension.is_empty() { protocol.0 } else { 44 };
            [&[0x60, 0, 0, 0][..], &(rest as u16).to_be_bytes(), &[next, 9]].concat()
        } else {
            let more = u8::from(is_udp && !datagram) << 5;
            let total = ((20 + rest) as u16).to_be_bytes();
            [&[0x45, 0, total[0], total[1], 0, 0, more, 0, 9, protocol.0, 0, 0][..]].concat()
        };
        packet.extend([address(from), address(to), payload].concat());
        frame(if is_v6 { 0x86dd } else { 0x0800 }, packet)
    }

    fn holds(rule: &Rule, frame: &[u8]) -> bool {
        let headers = Headers::parse(frame).unwrap();
        let entrance = rule.entrance.unwrap_or(Entrance::A);
        rule.holds(&headers.seen(frame.len(), entrance, Timestamp::ZERO), &mut Timestamp::ZERO.clone())
    }

    fn clause() -> impl Strategy<Value = String> {
        let of = |all: &'static str| prop::sample::select(all.split('|').collect::<Vec<_>>());
        prop_oneof![
            of("type arp|type ipv4|type ipv6|type 0x88cc"),
            // No extensions of IPv6, which only a later fragment can be said to carry.
            of("protocol tcp|protocol udp|protocol icmp|protocol icmpv6|protocol 47"),
            of("from 10.0.0.0/8|from 0.0.0.0/0|from ::/0|from 2001:db8::1"),
            of("to 10.0.0.0/8|to 0.0.0.0/0|to ::/0|to 2001:db8::1"),
            of("port 53|port 1-9|from-port 0-65535"),
            of("length 0|length 19|length 20-23|length 24|length 39-43|length 44-100|length 65535"),
        ]
        .prop_map(str::to_owned)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// A rule that is not refused matches some frame; one that is refused matches no frame that matches all of its
        /// clauses but one.
        #[test]
        fn a_rule_is_refused_if_and_only_if_it_holds_for_nothing(clauses in prop::collection::vec(clause(), 0..6)) {
            let Some(whole) = rule(&clauses) else { return Ok(()) };
            match whole.contradiction(true) {
                None => prop_assert!(holds(&whole, &witness(&whole)), "{whole}"),
                Some(said) => for left_out in 0..clauses.len() {
                    let mut fewer = clauses.clone();
                    fewer.remove(left_out);
                    let fewer = rule(&fewer).unwrap();
                    if fewer.contradiction(true).is_none() {
                        prop_assert!(!holds(&whole, &witness(&fewer)), "{whole}: {said}");
                    }
                }
            }
        }
    }
}
