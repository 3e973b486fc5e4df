//! The datagrams of softtimers traffic: 32 bytes of header, then padding up to the configured size.
//!
//! The header lets a receiver that knows nothing of the sender count losses, late datagrams and duplicates, and measure
//! how evenly they arrive. Nothing in it is trusted: [`Datagram::parse`] accepts any bytes, and a receiver counts only
//! traffic with the token that it gave to its sender. An answer has no more bytes than the question, so a receiver
//! cannot amplify forged packets.
//!
//! ```text
//!   0        4         5      6              12     16              24             32
//!   ├ "SOFT" ┼ version ┼ kind ┼ token        ┼ flow ┼ number        ┼ time         ┤
//!   │        │         │ Data │ token        │ flow │ sequence      │ scheduled ns │ padding …
//!   │        │         │ Data │ 0, interval  │ flow │ sequence      │ scheduled ns │ padding …   without an agreement
//!   │        │         │ Hello│ token or 0   │ first│ nonce         │ flows, interval ns
//!   │        │         │ Welcome token       │ 0    │ nonce         │ 0            │
//!   │        │         │ Busy │ 0            │ 0    │ nonce         │ 0            │
//!   │        │         │ Bye  │ token or 0   │ flow │ sent          │ 0            │
//! ```
//! All numbers are big-endian. [`handshake`](crate::handshake) describes the agreement.

use std::fmt;
use std::time::Duration;

use softtimers_core::Timestamp;

/// The smallest datagram: a header without padding.
pub const MIN_SIZE: usize = 32;
/// The largest datagram UDP over IPv4 carries: 65,535 less 20 bytes of IP and 8 of UDP header.
pub const MAX_SIZE: usize = 65_507;

/// The offset of a datagram's number in its header.
pub const SEQUENCE_AT: usize = 16;
/// The offset of the time at which it was due.
pub const SCHEDULED_AT: usize = 24;

/// A header, as one of the kinds of datagram.
///
/// ```
/// use softtimers_load::wire::{Datagram, MIN_SIZE};
///
/// let mut packet = [0; 1200];
/// Datagram::Bye { flow: 7, sent: 25_000, token: None }.write(&mut packet);
/// assert_eq!(Datagram::parse(&packet), Ok(Datagram::Bye { flow: 7, sent: 25_000, token: None }));
/// assert!(Datagram::parse(&packet[..MIN_SIZE - 1]).is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datagram {
    /// A datagram of paced traffic.
    Data {
        /// The flow, unique for its sender's address and port.
        flow: u32,
        /// Counts the datagrams of the flow from zero.
        sequence: u64,
        /// The time at which the datagram was due, by the sender's monotonic clock.
        scheduled: Timestamp,
        /// The flow's target interval in whole nanoseconds, at most 4.29 s; zero if there is none. With a token it is
        /// in the [`Datagram::Hello`], and zero here.
        interval: Duration,
        /// The token of the [`Datagram::Welcome`], if the receiver has agreed.
        token: Option<Token>,
    },
    /// "May I send to you?" With the token of the answer: "I have received your answer."
    Hello(Hello),
    /// "Yes", or "I am still here."
    Welcome {
        /// The nonce of the [`Datagram::Hello`].
        nonce: u64,
        /// The receiver's consent.
        token: Token,
    },
    /// "Not now: I am bound to another sender", or an answer to another version of this format.
    Busy {
        /// The nonce of the [`Datagram::Hello`].
        nonce: u64,
    },
    /// "This flow has ended."
    Bye {
        /// The number of the flow.
        flow: u32,
        /// Datagrams sent in it.
        sent: u64,
        /// The token of the [`Datagram::Welcome`], if the receiver has agreed.
        token: Option<Token>,
    },
}

/// A sender's question for a receiver's consent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Hello {
    /// A number that only this sender knows.
    pub nonce: u64,
    /// The number of its first flow.
    pub flow: u32,
    /// The number of flows, with consecutive numbers that wrap around.
    pub flows: u32,
    /// Each flow's target interval in nanoseconds, at most 4.29 s; zero if there is none.
    pub interval_ns: u32,
    /// The token that the receiver has given; `None` at first.
    pub token: Option<Token>,
}

/// Returns an interval as a header states it: in whole nanoseconds, at most 4.29 s.
#[inline]
pub fn stated(interval: Duration) -> u32 {
    u32::try_from(interval.as_nanos()).unwrap_or(u32::MAX)
}

impl Datagram {
    /// Writes the header to the front of `packet`, and leaves the remainder unchanged.
    ///
    /// # Panics
    /// If `packet` is shorter than [`MIN_SIZE`].
    ///
    /// # Cost
    /// 32 bytes of stores.
    #[inline]
    pub fn write(&self, packet: &mut [u8]) {
        packet[..MIN_SIZE].copy_from_slice(&self.encode());
    }

    /// Returns the bytes of the header.
    #[inline]
    pub fn encode(&self) -> [u8; MIN_SIZE] {
        let of = |token: Option<Token>| token.map_or(0, |token| token.0);
        // The token's field has 48 bits; an interval uses the last 32.
        let (kind, token, flow, number, time) = match *self {
            Datagram::Data { flow, sequence, scheduled, token: Some(token), .. } => {
                (KIND_AGREED_DATA, token.0, flow, sequence, scheduled.as_nanos())
            }
            Datagram::Data { flow, sequence, scheduled, interval, token: None } => {
                (KIND_DATA, stated(interval).into(), flow, sequence, scheduled.as_nanos())
            }
            Datagram::Hello(Hello { nonce, flow, flows, interval_ns, token }) => {
                (KIND_HELLO, of(token), flow, nonce, u64::from(flows) << 32 | u64::from(interval_ns))
            }
            Datagram::Welcome { nonce, token } => (KIND_WELCOME, token.0, 0, nonce, 0),
            Datagram::Busy { nonce } => (KIND_BUSY, 0, 0, nonce, 0),
            Datagram::Bye { flow, sent, token } => (KIND_BYE, of(token), flow, sent, 0),
        };
        let mut bytes = [0; MIN_SIZE];
        // First, because the two bytes before the token's field are written next.
        bytes[4..FLOW_AT].copy_from_slice(&token.to_be_bytes());
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = kind;
        bytes[FLOW_AT..SEQUENCE_AT].copy_from_slice(&flow.to_be_bytes());
        bytes[SEQUENCE_AT..SCHEDULED_AT].copy_from_slice(&number.to_be_bytes());
        bytes[SCHEDULED_AT..].copy_from_slice(&time.to_be_bytes());
        bytes
    }

    /// Reads the header at the front of `packet`.
    ///
    /// # Errors
    /// [`ParseError`] if it is not softtimers traffic of this version.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, ParseError> {
        let bytes: &[u8; MIN_SIZE] = packet.first_chunk().ok_or(ParseError::Short)?;
        if bytes[..4] != MAGIC {
            return Err(ParseError::Foreign);
        }
        let (number, time) = (u64_at(bytes, SEQUENCE_AT), u64_at(bytes, SCHEDULED_AT));
        if bytes[4] != VERSION {
            let asks = (bytes[5] == KIND_HELLO).then_some(number);
            return Err(ParseError::Version { version: bytes[4], asks });
        }
        let flow = u32_at(bytes, FLOW_AT);
        let token = u64_at(bytes, 4) & TOKEN_BITS;
        let (scheduled, agreed) = (Timestamp::from_nanos(time), Token::new(token));
        Ok(match bytes[5] {
            KIND_DATA => {
                let interval = Duration::from_nanos(token & u64::from(u32::MAX));
                Datagram::Data { flow, sequence: number, scheduled, interval, token: None }
            }
            KIND_AGREED_DATA => {
                let token = Some(agreed.ok_or(ParseError::NoToken)?);
                Datagram::Data { flow, sequence: number, scheduled, interval: Duration::ZERO, token }
            }
            KIND_HELLO => {
                let (flows, interval_ns) = ((time >> 32) as u32, time as u32);
                Datagram::Hello(Hello { nonce: number, flow, flows, interval_ns, token: agreed })
            }
            KIND_WELCOME => Datagram::Welcome { nonce: number, token: agreed.ok_or(ParseError::NoToken)? },
            KIND_BUSY => Datagram::Busy { nonce: number },
            KIND_BYE => Datagram::Bye { flow, sent: number, token: agreed },
            kind => return Err(ParseError::Kind(kind)),
        })
    }
}

/// A receiver's consent: 48 bits computed from a secret, the sender's address, and the request. With the flow's number,
/// which is random as well, a stranger has to guess 2⁸⁰.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(u64);

impl Token {
    /// Returns the token of the lowest 48 bits of this number; `None` for zero.
    pub const fn new(number: u64) -> Option<Self> {
        let token = number & TOKEN_BITS;
        if token == 0 { None } else { Some(Token(token)) }
    }
}

/// Prints `Token(…)`: it must not appear in logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why a datagram is not ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParseError {
    /// Shorter than a header.
    Short,
    /// Does not begin with our four bytes.
    Foreign,
    /// Another version of this format.
    Version {
        /// The version that was found.
        version: u8,
        /// The nonce, if it asks for consent.
        asks: Option<u64>,
    },
    /// An unknown kind.
    Kind(u8),
    /// A welcome, or traffic by agreement, without a token.
    NoToken,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Short => write!(f, "shorter than a header of {MIN_SIZE} bytes"),
            ParseError::Foreign => f.write_str("not softtimers traffic"),
            ParseError::Version { version, .. } => {
                write!(f, "format {version}; this program reads format {VERSION}")
            }
            ParseError::Kind(kind) => write!(f, "unknown kind {kind}"),
            ParseError::NoToken => f.write_str("no token where there must be one"),
        }
    }
}

impl std::error::Error for ParseError {}

fn u32_at(bytes: &[u8; MIN_SIZE], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

fn u64_at(bytes: &[u8; MIN_SIZE], at: usize) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// The first bytes of every datagram, of any version.
pub(crate) const MAGIC: [u8; 4] = *b"SOFT";
/// The version of this format that this program uses; in version 1 only goodbyes had tokens.
pub const VERSION: u8 = 2;
/// The goodbyes that a sender sends for each flow, since they may be lost; they do not count as traffic.
pub(crate) const GOODBYES: u32 = 3;
const KIND_DATA: u8 = 0;
const KIND_HELLO: u8 = 1;
const KIND_WELCOME: u8 = 2;
const KIND_BYE: u8 = 3;
const KIND_AGREED_DATA: u8 = 4;
const KIND_BUSY: u8 = 5;
const FLOW_AT: usize = 12;
const TOKEN_BITS: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties;
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_fixed() {
        let data = |token| Datagram::Data {
            flow: 0x0102_0304,
            sequence: 5,
            scheduled: Timestamp::from_nanos(6),
            interval: Duration::from_nanos(40_000),
            token,
        };
        let expected = b"SOFT\x02\x00\x00\x00\x00\x00\x9c\x40\x01\x02\x03\x04\
                         \x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x06";
        assert_eq!(&data(None).encode(), expected);
        let agreed = data(Token::new(0xffff_1122_3344_5566)).encode();
        assert_eq!(agreed[..12], *b"SOFT\x02\x04\x11\x22\x33\x44\x55\x66");
        assert_eq!(agreed[12..], expected[12..]);
    }

    const HELLO: Hello = Hello { nonce: 1, flow: 2, flows: 3, interval_ns: 4, token: None };

    #[test]
    fn an_answer_is_never_longer_than_a_hello() {
        let token = Token::new(u64::MAX).unwrap();
        let hello = Datagram::Hello(HELLO).encode().len();
        for answer in [Datagram::Welcome { nonce: u64::MAX, token }, Datagram::Busy { nonce: u64::MAX }] {
            assert!(answer.encode().len() <= hello);
        }
    }

    #[test]
    fn what_is_not_ours_is_told_apart() {
        let good = Datagram::Hello(HELLO).encode();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            Datagram::parse(&bytes).unwrap_err()
        };
        assert_eq!(Datagram::parse(&[]), Err(ParseError::Short));
        assert_eq!(with(0, b'X'), ParseError::Foreign);
        assert_eq!(with(4, 9).to_string(), "format 9; this program reads format 2");
        assert_eq!(with(4, 9), ParseError::Version { version: 9, asks: Some(1) });
        assert_eq!(with(5, 200), ParseError::Kind(200));
        assert_eq!(with(5, KIND_WELCOME), ParseError::NoToken);
        assert_eq!(with(5, KIND_AGREED_DATA), ParseError::NoToken);
    }

    #[test]
    fn an_interval_beyond_32_bits_is_the_longest() {
        let (scheduled, interval) = (Timestamp::ZERO, Duration::from_secs(5));
        let data = Datagram::Data { flow: 0, sequence: 0, scheduled, interval, token: None };
        let Ok(Datagram::Data { interval, .. }) = Datagram::parse(&data.encode()) else { panic!() };
        assert_eq!(interval, Duration::from_nanos(u64::from(u32::MAX)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_parsed_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300), ours: bool) {
            if ours && bytes.len() >= 6 {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4] = VERSION;
                bytes[5] %= 7;
            }
            properties::wire(&bytes);
        }

        #[test]
        fn what_is_written_reads_back(flow: u32, number: u64, time: u64, interval: u32, padding in 0usize..64) {
            let some = Token::new(time | 1);
            let stated = Duration::from_nanos(interval.into());
            let scheduled = Timestamp::from_nanos(time);
            let data = |interval, token| Datagram::Data { flow, sequence: number, scheduled, interval, token };
            let hello = |token| {
                Datagram::Hello(Hello { nonce: number, flow, flows: time as u32, interval_ns: interval, token })
            };
            for datagram in [
                data(stated, None),
                data(Duration::ZERO, some),
                hello(None),
                hello(some),
                Datagram::Welcome { nonce: number, token: some.unwrap() },
                Datagram::Busy { nonce: number },
                Datagram::Bye { flow, sent: number, token: None },
                Datagram::Bye { flow, sent: number, token: some },
            ] {
                let mut packet = vec![0xff; MIN_SIZE + padding];
                datagram.write(&mut packet);
                prop_assert_eq!(Datagram::parse(&packet), Ok(datagram));
            }
        }
    }
}
