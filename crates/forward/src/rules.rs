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
//! **Clauses that never hold together** are refused, and it is said which, and why. So is a rule that is never reached, since
//! an earlier one without a rate decides about all that it holds for.
//!
//! What exceeds a rate is not rejected by that: the rules below decide. Answers through a relay are not looked at; they
//! go only to those whose datagrams were accepted, within the bounds of the relay. Between interfaces both ways are.
//!
//! [`parse`] makes [`Rules`] of a file. A [`Filter`] decides by them, one in each poller, and has a [`Tally`] of what each
//! rule has decided about. When the file changes, the [`Revision`] in use says which one follows.

mod clauses;
mod contradiction;
mod coverage;
mod filter;
mod parse;
mod revision;

use std::fmt;

pub use clauses::{Entrance, EtherType, Limit, Network, Protocol, Span};
pub use filter::{Filter, Seen};
pub use parse::{Problem, parse};
pub use revision::{Revision, Tally};

/// The rules of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// At least one; the last one holds for everything.
    entries: Vec<Entry>,
}

/// A rule, and where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its line, from 1.
    pub line: usize,
    /// What it says.
    pub rule: Rule,
}

/// One rule. `None` holds for everything.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// The datagram is relayed.
    Accept,
    /// It is dropped, and counted.
    Reject,
}

impl Rules {
    /// In order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
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
