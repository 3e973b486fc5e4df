//! The datagrams of softtimers traffic: 32 bytes of header, then padding up to the size asked for.
//!
//! The header lets a receiver that knows nothing of the sender count what was lost, late or sent
//! twice, and see how evenly it arrived. Nothing in it is trusted: [`Datagram::parse`] takes any
//! bytes, and a receiver answers only a [`Datagram::Hello`], with a [`Datagram::Welcome`] of the same
//! length, so that it cannot be used to make a small forged packet into a large answer.
//!
//! ```text
//!   0        4         5      6      8        12          16              24             32
//!   ├ "SOFT" ┼ version ┼ kind ┼ zero ┼ flow   ┼ interval  ┼ number        ┼ time         ┤
//!   │        │         │ Data        │ flow   │ target ns │ sequence      │ scheduled ns │ padding …
//!   │        │         │ Hello       │ 0      │ 0         │ nonce         │ 0            │
//!   │        │         │ Welcome     │ 0      │ 0         │ nonce         │ token        │
//!   │        │         │ Bye         │ flow   │ 0         │ sent          │ token or 0   │
//! ```
//! All numbers are big-endian.

use std::fmt;
use std::time::Duration;

use softtimers_core::Timestamp;

/// The smallest datagram: a header without padding.
pub const MIN_SIZE: usize = 32;
/// The largest datagram UDP over IPv4 carries: 65,535 less 20 bytes of IP and 8 of UDP header.
pub const MAX_SIZE: usize = 65_507;

/// Where the number of a datagram begins in its header.
pub const SEQUENCE_AT: usize = 16;
/// Where the time begins at which it was due.
pub const SCHEDULED_AT: usize = 24;

/// A header, as one of the four kinds of datagram.
///
/// ```
/// use softtimers_cli::wire::{Datagram, MIN_SIZE};
///
/// let mut packet = [0; 1200];
/// Datagram::Bye { flow: 7, sent: 25_000, token: None }.write(&mut packet);
/// assert_eq!(Datagram::parse(&packet), Ok(Datagram::Bye { flow: 7, sent: 25_000, token: None }));
/// assert!(Datagram::parse(&packet[..MIN_SIZE - 1]).is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datagram {
    /// Paced traffic.
    Data {
        /// The flow, unique for its sender's address and port.
        flow: u32,
        /// Counts the datagrams of the flow from zero.
        sequence: u64,
        /// When the datagram was due, by the sender's monotonic clock.
        scheduled: Timestamp,
        /// The flow's target interval in whole nanoseconds, at most 4.29 s; zero if there is none.
        interval: Duration,
    },
    /// "May I send to you?"
    Hello {
        /// A number that only this sender knows.
        nonce: u64,
    },
    /// "Yes."
    Welcome {
        /// The nonce of the [`Datagram::Hello`].
        nonce: u64,
        /// The receiver's consent.
        token: Token,
    },
    /// "This flow has ended."
    Bye {
        /// The flow.
        flow: u32,
        /// Datagrams sent in it.
        sent: u64,
        /// The token of the [`Datagram::Welcome`], if there was a hand-shake.
        token: Option<Token>,
    },
}

impl Datagram {
    /// Writes the header to the front of `packet`; what follows is left as it is.
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

    /// The header's bytes.
    #[inline]
    pub fn encode(&self) -> [u8; MIN_SIZE] {
        let (kind, flow, interval, number, time) = match *self {
            Datagram::Data { flow, sequence, scheduled, interval } => {
                let interval = u32::try_from(interval.as_nanos()).unwrap_or(u32::MAX);
                (KIND_DATA, flow, interval, sequence, scheduled.as_nanos())
            }
            Datagram::Hello { nonce } => (KIND_HELLO, 0, 0, nonce, 0),
            Datagram::Welcome { nonce, token } => (KIND_WELCOME, 0, 0, nonce, token.0),
            Datagram::Bye { flow, sent, token } => {
                (KIND_BYE, flow, 0, sent, token.map_or(0, |token| token.0))
            }
        };
        let mut bytes = [0; MIN_SIZE];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = kind;
        bytes[8..12].copy_from_slice(&flow.to_be_bytes());
        bytes[12..16].copy_from_slice(&interval.to_be_bytes());
        bytes[SEQUENCE_AT..SCHEDULED_AT].copy_from_slice(&number.to_be_bytes());
        bytes[SCHEDULED_AT..].copy_from_slice(&time.to_be_bytes());
        bytes
    }

    /// Reads the header at the front of `packet`.
    ///
    /// # Errors
    /// [`ParseError`] for what is not softtimers traffic of this version.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, ParseError> {
        let bytes: &[u8; MIN_SIZE] = packet.first_chunk().ok_or(ParseError::Short)?;
        if bytes[..4] != MAGIC {
            return Err(ParseError::Foreign);
        }
        if bytes[4] != VERSION {
            return Err(ParseError::Version(bytes[4]));
        }
        let (flow, interval) = (u32_at(bytes, 8), u32_at(bytes, 12));
        let (number, time) = (u64_at(bytes, SEQUENCE_AT), u64_at(bytes, SCHEDULED_AT));
        Ok(match bytes[5] {
            KIND_DATA => Datagram::Data {
                flow,
                sequence: number,
                scheduled: Timestamp::from_nanos(time),
                interval: Duration::from_nanos(u64::from(interval)),
            },
            KIND_HELLO => Datagram::Hello { nonce: number },
            KIND_WELCOME => {
                Datagram::Welcome { nonce: number, token: Token::new(time).ok_or(ParseError::NoToken)? }
            }
            KIND_BYE => Datagram::Bye { flow, sent: number, token: Token::new(time) },
            kind => return Err(ParseError::Kind(kind)),
        })
    }
}

/// A receiver's consent to be sent to: a number it makes from a secret and the sender's address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(u64);

impl Token {
    /// The token with this number; zero means none.
    pub const fn new(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Token(number)) }
    }
}

/// `Token(…)`: logs are no place for it.
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
    Version(u8),
    /// No kind of ours.
    Kind(u8),
    /// A welcome without a token.
    NoToken,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Short => write!(f, "shorter than a header of {MIN_SIZE} bytes"),
            ParseError::Foreign => f.write_str("not softtimers traffic"),
            ParseError::Version(version) => {
                write!(f, "format {version}; this program reads format {VERSION}")
            }
            ParseError::Kind(kind) => write!(f, "unknown kind {kind}"),
            ParseError::NoToken => f.write_str("a welcome without a token"),
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

const MAGIC: [u8; 4] = *b"SOFT";
const VERSION: u8 = 1;
const KIND_DATA: u8 = 0;
const KIND_HELLO: u8 = 1;
const KIND_WELCOME: u8 = 2;
const KIND_BYE: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties;
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_fixed() {
        let data = Datagram::Data {
            flow: 0x0102_0304,
            sequence: 5,
            scheduled: Timestamp::from_nanos(6),
            interval: Duration::from_nanos(40_000),
        };
        let expected = b"SOFT\x01\x00\x00\x00\x01\x02\x03\x04\x00\x00\x9c\x40\
                         \x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x06";
        assert_eq!(&data.encode(), expected);
    }

    #[test]
    fn a_welcome_is_never_longer_than_a_hello() {
        let token = Token::new(u64::MAX).unwrap();
        let welcome = Datagram::Welcome { nonce: u64::MAX, token }.encode();
        assert!(welcome.len() <= Datagram::Hello { nonce: 0 }.encode().len());
    }

    #[test]
    fn what_is_not_ours_is_told_apart() {
        let good = Datagram::Hello { nonce: 1 }.encode();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            Datagram::parse(&bytes).unwrap_err()
        };
        assert_eq!(Datagram::parse(&[]), Err(ParseError::Short));
        assert_eq!(with(0, b'X'), ParseError::Foreign);
        assert_eq!(with(4, 9).to_string(), "format 9; this program reads format 1");
        assert_eq!(with(5, 200), ParseError::Kind(200));
        assert_eq!(with(5, KIND_WELCOME), ParseError::NoToken);
    }

    #[test]
    fn an_interval_beyond_32_bits_is_the_longest() {
        let data = Datagram::Data {
            flow: 0,
            sequence: 0,
            scheduled: Timestamp::ZERO,
            interval: Duration::from_secs(5),
        };
        let Ok(Datagram::Data { interval, .. }) = Datagram::parse(&data.encode()) else { panic!() };
        assert_eq!(interval, Duration::from_nanos(u64::from(u32::MAX)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_parsed_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..64), ours: bool) {
            if ours && bytes.len() >= 6 {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4] = VERSION;
                bytes[5] &= 3;
            }
            properties::wire(&bytes);
        }

        #[test]
        fn what_is_written_reads_back(flow: u32, number: u64, time: u64, interval: u32, padding in 0usize..64) {
            let token = Token::new(time.max(1)).unwrap();
            let interval = Duration::from_nanos(interval.into());
            for datagram in [
                Datagram::Data { flow, sequence: number, scheduled: Timestamp::from_nanos(time), interval },
                Datagram::Hello { nonce: number },
                Datagram::Welcome { nonce: number, token },
                Datagram::Bye { flow, sent: number, token: Token::new(time) },
            ] {
                let mut packet = vec![0xff; MIN_SIZE + padding];
                datagram.write(&mut packet);
                prop_assert_eq!(Datagram::parse(&packet), Ok(datagram));
            }
        }
    }
}
