//! Which datagrams are relayed, and which frames are forwarded: rules in a file, in the manner of `screend` (Mogul
//! 1989), which the livelock paper's router runs as its screening process.
//!
//! ```text
//!   # the office, as long as it behaves; name servers; nobody else
//!   from 192.0.2.0/24 rate 5kpps burst 50ms accept
//!   from 2001:db8::/32 length 0-512 port 53 accept
//!   reject
//! ```
//!
//! A rule is a line: clauses, all of which must hold, and `accept` or `reject`. The first rule that holds decides. The
//! last one has no clauses and decides about the rest, so a file that was cut off is not taken for a short one.
//!
//! | clause | holds for |
//! |---|---|
//! | `on a`, `on b` | what comes in at the first interface, or at the second; clients of a relay come in at the first |
//! | `type TYPE` | frames that carry `arp`, `ipv4`, `ipv6`, or a number such as `0x88cc` |
//! | `protocol PROTOCOL` | packets of `tcp`, `udp`, `icmp`, `icmpv6`, or a number |
//! | `from NET` | packets from an address, or a network `ADDRESS/BITS` |
//! | `from-port PORTS` | from a port of TCP or UDP, or a range `FIRST-LAST` |
//! | `to NET`, `port PORTS` | to an address and a port: of a relay, where it sends to, so that relays can share a file |
//! | `length BYTES` | so many bytes, or a range: of UDP its payload, of all else the packet |
//! | `rate RATE [burst TIME]` | what the other clauses hold for, while it comes no faster, over time: `1kpps`, `10Mbit` of such lengths. `burst` is how far ahead of it they may be, 100 ms unless it is said |
//!
//! **What cannot be seen does not hold.** A frame of ARP has no address that `from` could hold for, a fragment other
//! than the first no port, a header that is cut short no part that is missing. So what a rule accepts it has seen, and
//! what nobody could see falls through to the last rule.
//!
//! What exceeds a rate is not rejected by that: the rules below decide. Answers through a relay are not looked at; they
//! go only to those whose datagrams were accepted, within the bounds of the relay. Between interfaces both ways are.

mod clauses;
mod parse;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use softtimers_core::Timestamp;

pub use clauses::{Entrance, EtherType, Limit, Network, Protocol, Span};
pub use parse::{Problem, parse};

/// The rules of a file, with what they have let through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// At least one; the last one holds for everything.
    entries: Vec<Entry>,
}

/// A rule in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The line it stands on, from 1.
    pub line: usize,
    /// What it says.
    pub rule: Rule,
    /// Datagrams that it decided about.
    pub matched: u64,
    /// Of its rate: when the datagrams so far would have come at that.
    earned: Timestamp,
}

/// One rule. `None` holds for everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Where it comes in.
    pub entrance: Option<Entrance>,
    /// What the frame carries.
    pub kind: Option<EtherType>,
    /// What the packet carries.
    pub protocol: Option<Protocol>,
    /// Whom it comes from.
    pub from: Option<Network>,
    /// The port it comes from.
    pub from_ports: Option<Span>,
    /// Where it goes.
    pub to: Option<Network>,
    /// The port it goes to.
    pub to_ports: Option<Span>,
    /// How long it is.
    pub lengths: Option<Span>,
    /// How fast they come.
    pub rate: Option<Limit>,
    /// What is done.
    pub action: Action,
}

/// What a rule does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The datagram is relayed.
    Accept,
    /// It is dropped, and counted.
    Reject,
}

/// What a rule sees of a packet. What is not there, or cannot be seen, is `None`, and no clause about it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Where it came in.
    pub entrance: Entrance,
    /// What its frame carries.
    pub kind: EtherType,
    /// What it carries itself.
    pub protocol: Option<Protocol>,
    /// Whom it comes from, and where it is to go.
    pub addresses: Option<[IpAddr; 2]>,
    /// From which port, and to which.
    pub ports: Option<[u16; 2]>,
    /// Of UDP its payload, of all else the packet; in bytes.
    pub length: usize,
    /// When it came.
    pub at: Timestamp,
}

impl Seen {
    /// A datagram of the relay's, with so many bytes of payload.
    pub fn datagram(from: SocketAddr, to: SocketAddr, length: usize, at: Timestamp) -> Self {
        let from_ip = from.ip().to_canonical();
        Seen {
            entrance: Entrance::A,
            kind: if from_ip.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 },
            protocol: Some(Protocol::UDP),
            addresses: Some([from_ip, to.ip().to_canonical()]),
            ports: Some([from.port(), to.port()]),
            length,
            at,
        }
    }
}

impl Rules {
    /// Decides about a datagram, and counts it.
    ///
    /// # Cost
    /// O(rules), some nanoseconds each; no allocation.
    pub fn decide(&mut self, seen: &Seen) -> Action {
        for entry in &mut self.entries {
            if entry.holds(seen) {
                entry.matched += 1;
                return entry.rule.action;
            }
        }
        // The last rule holds for everything.
        Action::Reject
    }

    /// Takes the place of `old`: a rule that stood there too goes on with its counts and its rate, so that nobody
    /// gets a burst by touching the file.
    pub fn succeed(&mut self, old: &Rules) {
        for entry in &mut self.entries {
            if let Some(same) = old.entries.iter().find(|same| same.rule == entry.rule) {
                (entry.matched, entry.earned) = (same.matched, same.earned);
            }
        }
    }

    /// The rules, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl Entry {
    fn new(line: usize, rule: Rule) -> Self {
        Entry { line, rule, matched: 0, earned: Timestamp::ZERO }
    }

    fn holds(&mut self, seen: &Seen) -> bool {
        let Rule { entrance, kind, protocol, from, from_ports, to, to_ports, lengths, rate, .. } = &self.rule;
        let length = u16::try_from(seen.length).unwrap_or(u16::MAX);
        let address = |network: &Option<Network>, end: usize| {
            network.is_none_or(|network| seen.addresses.is_some_and(|ips| network.contains(ips[end])))
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
            && rate.is_none_or(|limit| limit.admits(&mut self.earned, seen.at, length))
    }
}

/// As it can be read again.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(f, "{}", entry.rule))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule { entrance, kind, protocol, from, from_ports, to, to_ports, lengths, rate, action } = self;
        entrance.iter().try_for_each(|entrance| write!(f, "on {entrance} "))?;
        kind.iter().try_for_each(|kind| write!(f, "type {kind} "))?;
        protocol.iter().try_for_each(|protocol| write!(f, "protocol {protocol} "))?;
        from.iter().try_for_each(|network| write!(f, "from {network} "))?;
        from_ports.iter().try_for_each(|ports| write!(f, "from-port {ports} "))?;
        to.iter().try_for_each(|network| write!(f, "to {network} "))?;
        to_ports.iter().try_for_each(|ports| write!(f, "port {ports} "))?;
        lengths.iter().try_for_each(|lengths| write!(f, "length {lengths} "))?;
        rate.iter().try_for_each(|limit| write!(f, "{limit} "))?;
        f.write_str(match action {
            Action::Accept => "accept",
            Action::Reject => "reject",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Rules {
        parse(text.as_bytes()).unwrap()
    }

    fn seen(from: &str, length: usize, micros: u64) -> Seen {
        let to = SocketAddr::from(([127, 0, 0, 1], 53));
        Seen::datagram(from.parse().unwrap(), to, length, Timestamp::from_micros(micros))
    }

    fn accepted(rules: &mut Rules, from: &str, length: usize) -> bool {
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
        assert_eq!(rules.entries().iter().map(|entry| entry.matched).collect::<Vec<_>>(), [1, 2, 1, 0, 4]);
        assert_eq!(rules.entries().iter().map(|entry| entry.line).collect::<Vec<_>>(), [1, 2, 4, 5, 6]);
    }

    #[test]
    fn networks_of_all_lengths() {
        let any = "0.0.0.0/0 127.0.0.0/8 10.0.0.1/32 ::/0 fe80::/10 ::1/128";
        for text in any.split(' ') {
            let rules = rules(&format!("from {text} accept\nreject"));
            assert!(rules.to_string().starts_with(&format!("from {text} accept\n")), "{rules}");
        }
        let mut everybody = rules("from 0.0.0.0/0 accept\nreject");
        assert!(accepted(&mut everybody, "255.1.2.3:4", 1) && !accepted(&mut everybody, "[::1]:4", 1));
    }

    /// The burst at once, then one each millisecond; what is too much falls through.
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
        assert_eq!(limited.entries()[1].matched, 40 + 9_000);

        // 1,250 bytes take a millisecond at 10 Mbit/s.
        let mut bits = rules("rate 10Mbit burst 0s accept\nreject");
        let second = (0..10_000).map(|step| seen("10.0.0.1:1", 1_250, 1_000_000 + 100 * step));
        assert_eq!(second.filter(|seen| bits.decide(seen) == Action::Accept).count(), 1_000);
    }

    /// Else whoever can touch the file has a burst each time.
    #[test]
    fn rules_that_stay_keep_their_counts_and_rates() {
        let mut old = rules("rate 1pps burst 0s accept\nreject");
        assert!(accepted(&mut old, "10.0.0.1:1", 9) && !accepted(&mut old, "10.0.0.1:1", 9));
        let mut new = rules("from 10.9.9.9 reject\nrate 1pps burst 0s accept\nreject");
        new.succeed(&old);
        assert!(!accepted(&mut new, "10.0.0.1:1", 9));
        assert_eq!(new.entries().iter().map(|entry| entry.matched).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
