//! Matching packets against rules: [`Filter`].
//!
//! The first matching rule decides, and rules are tried one after the other: a file does exactly what it says, at a
//! predictable cost. All pollers share the rules. State that packets change, the counts and the memory of rates, is
//! each filter's own, so that no two CPUs write to the same cache line.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use softtimers_core::Timestamp;

use super::clauses::{Entrance, EtherType, Protocol, Span};
use super::revision::{Revision, Tally};
use super::rule::{Action, Rule, Rules};

/// Decides about one poller's packets.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    tally: Tally,
    /// For each rule with a rate, the time up to which its packets so far use that rate.
    earned: Vec<Timestamp>,
}

/// The parts of a packet that rules see. A part that is absent or cannot be seen is `None`, and no clause about it
/// matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    /// The interface at which it came in.
    pub(crate) entrance: Entrance,
    /// The type of its frame's content.
    pub(crate) kind: EtherType,
    /// The protocol of the packet's content.
    pub(crate) protocol: Option<Protocol>,
    /// The source and destination addresses.
    pub(crate) addresses: Option<[IpAddr; 2]>,
    /// The source and destination ports.
    pub(crate) ports: Option<[u16; 2]>,
    /// The length in bytes: of UDP the payload, otherwise the packet.
    pub(crate) length: usize,
    /// The length that is counted.
    pub(crate) bytes: usize,
    /// The time of its arrival.
    pub(crate) at: Timestamp,
}

impl Seen {
    /// Returns the view of a relay's datagram with `length` bytes of payload.
    pub(crate) fn datagram(from: SocketAddr, to: SocketAddr, length: usize, at: Timestamp) -> Self {
        let from_ip = from.ip().to_canonical();
        Seen {
            entrance: Entrance::A,
            kind: if from_ip.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 },
            protocol: Some(Protocol::UDP),
            addresses: Some([from_ip, to.ip().to_canonical()]),
            ports: Some([from.port(), to.port()]),
            length,
            bytes: length,
            at,
        }
    }
}

impl Filter {
    /// Creates a filter with these rules.
    pub(crate) fn new(revision: Arc<Revision>) -> Self {
        let earned = vec![Timestamp::ZERO; revision.rules().entries().len()];
        Filter { tally: Tally::new(revision), earned }
    }

    /// Decides about a packet, and counts it.
    ///
    /// # Cost
    /// O(rules), some nanoseconds each; no allocation.
    pub(crate) fn decide(&mut self, seen: &Seen) -> Action {
        let rules = self.tally.revision().rules().entries();
        let found =
            rules.iter().zip(&mut self.earned).position(|(entry, earned)| entry.rule.holds(seen, earned));
        // The last rule matches everything.
        let Some(index) = found else { return Action::Reject };
        let action = rules[index].rule.action;
        self.tally.count(index, seen.bytes);
        action
    }

    /// Switches to the next revision, if there is one, and returns it. A rule that is also in there keeps its count and
    /// the state of its rate, so that touching the file gives nobody a burst.
    ///
    /// # Cost
    /// O(rules), of both; one atomic load if there is none.
    pub(crate) fn advance(&mut self) -> Option<&Revision> {
        let (_, earned) = self.tally.revision().carried(&self.earned)?;
        self.earned = earned;
        self.tally.advance();
        Some(self.tally.revision())
    }

    /// Returns the revision in use.
    pub(crate) fn revision(&self) -> &Revision {
        self.tally.revision()
    }

    /// Returns the decisions of its rules since they were last taken.
    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}

impl From<Rules> for Filter {
    fn from(rules: Rules) -> Self {
        Filter::new(Revision::new(rules))
    }
}

impl Rule {
    /// Says whether it matches a packet; `earned` is the memory of its rate.
    pub(crate) fn holds(&self, seen: &Seen, earned: &mut Timestamp) -> bool {
        let Rule { entrance, kind, protocol, from, from_ports, to, to_ports, lengths, rate, .. } = self;
        let length = u16::try_from(seen.length).unwrap_or(u16::MAX);
        // An IPv4-mapped IPv6 address is in no IPv4 network: the sockets' mapped addresses were converted before, and
        // in a packet of IPv6 any sender can write one.
        let address = |network: &Option<IpNet>, end: usize| {
            network.is_none_or(|network| seen.addresses.is_some_and(|ips| network.contains(&ips[end])))
        };
        let port = |span: &Option<Span>, end: usize| {
            span.is_none_or(|span| seen.ports.is_some_and(|ports| span.contains(ports[end])))
        };
        entrance.is_none_or(|entrance| entrance == seen.entrance)
            && kind.is_none_or(|kind| kind == seen.kind)
            && protocol.is_none_or(|protocol| seen.protocol == Some(protocol))
            && address(from, 0)
            && port(from_ports, 0)
            && address(to, 1)
            && port(to_ports, 1)
            && lengths.is_none_or(|lengths| lengths.contains(length))
            && rate.is_none_or(|limit| limit.admits(earned, seen.at, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarder::rules::parse;

    fn rules(text: &str) -> Filter {
        parse(text.as_bytes()).unwrap().into()
    }

    fn matched(filter: &mut Filter) -> Vec<u64> {
        filter.tally().entries().map(|(_, matched)| matched.packets).collect()
    }

    fn seen(from: &str, length: usize, micros: u64) -> Seen {
        let to = SocketAddr::from(([127, 0, 0, 1], 53));
        Seen::datagram(from.parse().unwrap(), to, length, Timestamp::from_micros(micros))
    }

    fn accepted(rules: &mut Filter, from: &str, length: usize) -> bool {
        rules.decide(&seen(from, length, 0)) == Action::Accept
    }

    #[test]
    fn the_first_rule_that_holds_decides() {
        let mut rules = rules(
            "from 10.1.0.0/16 reject # but\nfrom 10.0.0.0/8 from-port 1000-2000 accept\n\n\
             from 2001:db8::/32 to 127.0.0.1 port 53 length 0-100 accept\nport 54 accept\nreject\n",
        );
        for (from, length, accept) in [
            ("10.2.3.4:1000", 9, true),
            ("10.2.3.4:999", 9, false),
            ("10.1.3.4:1500", 9, false),
            ("[::ffff:10.2.3.4]:2000", 9, true),
            ("[2001:db8::1]:1", 100, true),
            ("[2001:db8::1]:1", 101, false),
            ("[2001:db9::1]:1", 100, false),
            ("11.0.0.1:1500", 9, false),
        ] {
            assert_eq!(accepted(&mut rules, from, length), accept, "{from} {length}");
        }
        assert_eq!(matched(&mut rules), [1, 2, 1, 0, 4]);
        let lines = rules.tally().entries().map(|(entry, _)| entry.line);
        assert_eq!(lines.collect::<Vec<_>>(), [1, 2, 4, 5, 6]);
    }

    /// Any sender can write an IPv4-mapped address in an IPv6 packet, and could get past a rule with it.
    #[test]
    fn a_network_of_ipv4_holds_for_no_packet_of_ipv6() {
        let mut rules = rules("from 10.0.0.0/8 accept\nfrom ::/0 reject\naccept");
        let addresses = Some(["::ffff:10.1.2.3", "::1"].map(|ip| ip.parse::<IpAddr>().unwrap()));
        let seen = Seen { kind: EtherType::IPV6, addresses, ..seen("[::1]:9", 100, 0) };
        assert_eq!(rules.decide(&seen), Action::Reject);
        assert!(accepted(&mut rules, "10.1.2.3:9", 100) && accepted(&mut rules, "[::ffff:10.1.2.3]:9", 100));
    }

    #[test]
    fn networks_of_all_lengths() {
        let any = "0.0.0.0/0 127.0.0.0/8 10.0.0.1/32 ::/0 fe80::/10 ::1/128";
        for text in any.split(' ') {
            let rules = parse(format!("from {text} accept\nreject").as_bytes()).unwrap();
            assert!(rules.to_string().starts_with(&format!("from {text} accept\n")), "{rules}");
        }
        let mut everybody = rules("from 0.0.0.0/0 accept\nreject");
        assert!(accepted(&mut everybody, "255.1.2.3:4", 1) && !accepted(&mut everybody, "[::1]:4", 1));
    }

    /// First the burst, then one each millisecond; packets in excess fall through.
    #[test]
    fn a_rate_is_kept_over_time() {
        let mut limited = rules("rate 1kpps burst 9ms accept\nreject");
        let burst = (0..50).filter(|_| limited.decide(&seen("10.0.0.1:1", 9, 1_000_000)) == Action::Accept);
        assert_eq!(burst.count(), 10);
        let mut accepted = 0;
        for step in 1..=10_000 {
            accepted +=
                u32::from(limited.decide(&seen("10.0.0.1:1", 9, 1_000_000 + 100 * step)) == Action::Accept);
        }
        assert_eq!(accepted, 1_000);
        assert_eq!(matched(&mut limited)[1], 40 + 9_000);

        // 1,250 bytes take a millisecond at 10 Mbit/s.
        let mut bits = rules("rate 10Mbit burst 0s accept\nreject");
        let second = (0..10_000).map(|step| seen("10.0.0.1:1", 1_250, 1_000_000 + 100 * step));
        assert_eq!(second.filter(|seen| bits.decide(seen) == Action::Accept).count(), 1_000);
    }

    /// Otherwise anyone who can touch the file gets a burst each time.
    #[test]
    fn rules_that_stay_keep_their_counts_and_rates() {
        let first = Revision::new(parse(b"rate 1pps burst 0s accept\nreject").unwrap());
        let mut limited = Filter::new(Arc::clone(&first));
        assert!(accepted(&mut limited, "10.0.0.1:1", 9) && !accepted(&mut limited, "10.0.0.1:1", 9));
        assert!(limited.advance().is_none());
        first.change(parse(b"from 10.9.9.9 reject\nrate 1pps burst 0s accept\nreject").unwrap());
        assert_eq!(limited.advance().map(Revision::number), Some(1));
        assert!(!accepted(&mut limited, "10.0.0.1:1", 9));
        assert_eq!(matched(&mut limited), [0, 1, 2]);
    }
}
