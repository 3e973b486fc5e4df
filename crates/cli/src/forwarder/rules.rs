//! Which datagrams are relayed, and which frames are forwarded: rules in a file, in the manner of `screend` (Mogul
//! 1989), the screening process of the livelock paper's router.
//!
//! ```text
//!   # the office, as long as it behaves; name servers; nobody else
//!   from 192.0.2.0/24 rate 5kpps burst 50ms accept
//!   from 2001:db8::/32 length 0-512 port 53 accept
//!   reject
//! ```
//!
//! A rule is a line: clauses, all of which must match, and `accept` or `reject`. The first matching rule decides. The
//! last one has no clauses: it is the default rule, and without it a truncated file would load as a shorter one.
//!
//! | clause | matches |
//! |---|---|
//! | `on a`, `on b` | packets received at the first interface, or at the second; clients of a relay are at the first |
//! | `type TYPE` | frames that carry `arp`, `ipv4`, `ipv6`, or a number such as `0x88cc` |
//! | `protocol PROTOCOL` | packets of `tcp`, `udp`, `icmp`, `icmpv6`, or a number |
//! | `from NET` | packets from an address, or a network `ADDRESS/BITS` |
//! | `from-port PORTS` | from a port of TCP or UDP, or a range `FIRST-LAST` |
//! | `to NET`, `port PORTS` | packets to an address and a port: in a relay its upstream's, so that relays can share a file |
//! | `length BYTES` | packets of this number of bytes, or a range: of UDP the payload, otherwise the whole packet |
//! | `rate RATE [burst TIME]` | packets that match the other clauses, up to an average rate: `1kpps`, or `10Mbit` of such lengths. `burst` is how far ahead of it they may be, by default 100 ms |
//!
//! **A clause matches only what it can see.** An ARP frame has no address for `from` to match, a fragment other than
//! the first has no port, and a truncated header lacks its missing parts. So a rule accepts only what it has checked,
//! and everything else falls through to the last rule.
//!
//! **Clauses that never match together** are refused, with the reason. So is a rule that is never reached because an
//! earlier one without a rate decides about everything it matches.
//!
//! Traffic that exceeds a rate is not rejected by that rule: the rules below decide. Answers through a relay are not
//! checked; they go only to clients whose datagrams were accepted, within the relay's limits. Between interfaces, both
//! directions are checked.
//!
//! [`parse`] makes [`Rules`] of a file. A [`Filter`] decides by them, one in each poller, and counts each rule's
//! decisions in a [`Tally`]. When the file changes, the [`Revision`] in use links to the next one, and the [`Rulebook`]
//! wakes everyone who uses it.

mod clauses;
mod contradiction;
mod coverage;
mod filter;
mod parse;
mod revision;
mod rule;
mod rulebook;

pub(crate) use clauses::{Entrance, EtherType, Limit, Protocol, Span};
pub(crate) use filter::{Filter, Seen};
#[cfg(any(test, fuzzing))]
pub(crate) use parse::parse;
pub(crate) use parse::{Quoting, parse_quoting};
#[cfg(test)]
pub(crate) use revision::Revision;
pub(crate) use revision::Tally;
pub(crate) use rule::{Action, Rule};
pub(crate) use rule::{Purpose, Rules};
pub(crate) use rulebook::Follower;
pub(crate) use rulebook::Rulebook;
