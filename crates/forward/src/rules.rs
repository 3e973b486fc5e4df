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
//! | `length BYTES` | this number of bytes, or a range: of UDP its payload, of all else the packet |
//! | `rate RATE [burst TIME]` | what the other clauses hold for, while it comes no faster, over time: `1kpps`, `10Mbit` of such lengths. `burst` is how far ahead of it they may be, 100 ms unless it is said |
//!
//! **What cannot be seen does not hold.** A frame of ARP has no address that `from` could hold for, a fragment other
//! than the first no port, a header that is cut short no part that is missing. So what a rule accepts it has seen, and
//! what nobody could see falls through to the last rule.
//!
//! **Clauses that never hold together** are refused, and it is said which, and why. So is a rule that is never reached, since
//! an earlier one without a rate decides about all that it holds for.
//!
//! Traffic that exceeds a rate is not rejected by that: the rules below decide. Answers through a relay are not looked at; they
//! go only to those whose datagrams were accepted, within the bounds of the relay. Between interfaces both ways are.
//!
//! [`parse`] makes [`Rules`] of a file. A [`Filter`] decides by them, one in each poller, and has a [`Tally`] of what each
//! rule has decided about. When the file changes, the [`Revision`] in use says which one follows, and the [`Rulebook`] wakes
//! those up who go by it.

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
pub use parse::{Problem, Quoting, parse, parse_quoting};
#[cfg(test)]
pub(crate) use revision::Revision;
pub(crate) use revision::Tally;
pub(crate) use rule::{Action, Rule};
pub use rule::{Purpose, Rules};
pub(crate) use rulebook::Follower;
pub use rulebook::Rulebook;
