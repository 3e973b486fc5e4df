//! Values of the clauses of a rule: [`Span`], [`Limit`], [`EtherType`], [`Protocol`], [`Entrance`].

use std::fmt;
use std::time::Duration;

use softtimers_core::Timestamp;

use softtimers_measure::units::{SendRate, show_duration};

/// Numbers from the first to the last.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Span {
    pub(crate) first: u16,
    /// The last, not below the first.
    pub(crate) last: u16,
}

/// A rate, and how far ahead of it datagrams may be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Limit {
    /// The rate, above zero.
    pub(crate) rate: SendRate,
    /// The burst that is allowed, as a time.
    pub(crate) burst: Duration,
}

/// The interface at which a frame was received: the first or the second. Datagrams from a relay's clients are received
/// at the first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Entrance {
    /// `on a`.
    A,
    /// `on b`.
    B,
}

/// The type of a frame's content, by its number (IEEE 802).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct EtherType(pub(crate) u16);

/// The protocol of a packet's content, by its number (IANA's protocol numbers).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Protocol(pub(crate) u8);

impl EtherType {
    pub(crate) const IPV4: EtherType = EtherType(0x0800);
    pub(crate) const IPV6: EtherType = EtherType(0x86dd);
    const NAMES: [(&str, EtherType); 3] =
        [("arp", EtherType(0x0806)), ("ipv4", EtherType::IPV4), ("ipv6", EtherType::IPV6)];

    /// `arp`, `ipv4`, `ipv6`, or a number of four hexadecimal digits such as `0x88cc`.
    pub(crate) fn named(text: &str) -> Option<Self> {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text).map(|&(_, kind)| kind);
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 4);
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        // Numbers below are lengths.
        let number =
            digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()).filter(|&kind| kind >= 0x600);
        known.or(number.map(EtherType))
    }
}

impl Protocol {
    pub(crate) const UDP: Protocol = Protocol(17);
    pub(crate) const TCP: Protocol = Protocol(6);
    pub(crate) const ICMP: Protocol = Protocol(1);
    pub(crate) const ICMPV6: Protocol = Protocol(58);
    const NAMES: [(&str, Protocol); 4] = [
        ("icmp", Protocol::ICMP),
        ("tcp", Protocol::TCP),
        ("udp", Protocol::UDP),
        ("icmpv6", Protocol::ICMPV6),
    ];

    /// `icmp`, `tcp`, `udp`, `icmpv6`, or a number from 0 to 255.
    pub(crate) fn named(text: &str) -> Option<Self> {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text).map(|&(_, protocol)| protocol);
        let number = text.parse().ok().filter(|_| text.bytes().all(|digit| digit.is_ascii_digit()));
        known.or(number.map(Protocol))
    }
}

impl Limit {
    /// Says whether a packet may pass `now`; `earned` is the limit's memory.
    ///
    /// The generic cell rate algorithm (ITU-T I.371): each datagram advances `earned` by the time it takes at the rate,
    /// and none passes while that is ahead by more than the burst.
    pub(crate) fn admits(&self, earned: &mut Timestamp, now: Timestamp, length: u16) -> bool {
        let ahead = earned.saturating_duration_since(now);
        if ahead > self.burst {
            return false;
        }
        let cost = match self.rate {
            SendRate::PacketsPerSecond(packets) => SECOND.div_ceil(packets.max(1).into()),
            SendRate::BitsPerSecond(bits) => (u128::from(length) * 8 * SECOND).div_ceil(bits.max(1).into()),
        };
        let cost = Duration::from_nanos(u64::try_from(cost).unwrap_or(u64::MAX));
        *earned = (*earned).max(now) + cost;
        true
    }
}

impl Span {
    pub(crate) fn contains(&self, number: u16) -> bool {
        (self.first..=self.last).contains(&number)
    }

    /// Says whether all numbers of the other are among these.
    pub(crate) fn covers(&self, other: &Span) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

impl fmt::Display for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Entrance::A { "a" } else { "b" })
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, kind)| kind == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{:#06x}", self.0),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, protocol)| protocol == self) {
            Some((name, _)) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span { first, last } = self;
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate {} burst {}", self.rate, show_duration(self.burst))
    }
}

/// A second in nanoseconds.
const SECOND: u128 = 1_000_000_000;
