//! The contents of a file of rules: [`Rules`], a list of [`Rule`].

use std::fmt;

use ipnet::IpNet;

use super::clauses::{Entrance, EtherType, Limit, Protocol, Span};

/// The rules of a file. They print as text that parses again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    /// At least one; the last one matches everything.
    pub(super) entries: Vec<Entry>,
}

/// A rule and its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// Its line, from 1.
    pub(crate) line: usize,
    /// The rule itself.
    pub(crate) rule: Rule,
}

/// One rule. `None` matches everything.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Rule {
    /// The interface at which the packet was received.
    pub(crate) entrance: Option<Entrance>,
    /// The type of the frame's content.
    pub(crate) kind: Option<EtherType>,
    /// The protocol of the packet's content.
    pub(crate) protocol: Option<Protocol>,
    /// The source address.
    pub(crate) from: Option<IpNet>,
    /// The source port.
    pub(crate) from_ports: Option<Span>,
    /// The destination address.
    pub(crate) to: Option<IpNet>,
    /// The destination port.
    pub(crate) to_ports: Option<Span>,
    /// The range of its length in bytes.
    pub(crate) lengths: Option<Span>,
    /// The rate limit of such packets.
    pub(crate) rate: Option<Limit>,
    /// The action if it matches.
    pub(crate) action: Action,
}

/// The action of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Action {
    /// The datagram is relayed.
    Accept,
    /// The packet is dropped and counted.
    Reject,
}

/// The purpose of rules, which decides which clauses may be in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Purpose {
    /// The number of threads that use them. With several, each would count a rate by itself, so a rate is allowed with
    /// one only.
    pub(crate) pollers: u32,
    /// Frames between interfaces, whose addresses are of one family; else datagrams of a relay.
    pub(crate) frames: bool,
}

impl Rules {
    /// Returns the number of rules, at least one.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// Prints text that can be parsed again.
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
