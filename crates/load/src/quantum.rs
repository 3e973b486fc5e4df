//! How much of a flow leaves at once, as it is typed: `8` datagrams, or the number that takes `100us` at the rate.

use std::fmt;
use std::time::Duration;

use softtimers_core::Rate;
use softtimers_core::queue::Quantum;

use softtimers_measure::units::{self, show_duration};

/// The `--quantum` of `send`.
///
/// ```
/// use softtimers_load::quantum::SendQuantum;
/// use softtimers_core::Rate;
///
/// let rate = Rate::per_second(80_000)?;
/// assert_eq!(SendQuantum::parse("100us").unwrap().at(rate), 8);
/// assert_eq!(SendQuantum::parse("8").unwrap().at(rate), 8);
/// assert!(SendQuantum::parse("65").is_err());
/// # Ok::<(), softtimers_core::RateError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendQuantum {
    /// N datagrams: 1 to 64.
    Packets(u32),
    /// The number of datagrams that takes this time at the rate, at least one.
    Time(Duration),
}

impl SendQuantum {
    /// Parses the typed text.
    ///
    /// # Errors
    /// A message that names what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let packets = text.parse().ok().filter(|packets| (1..=MOST_DATAGRAMS).contains(packets));
        let time = || units::positive_duration(text).ok();
        let quantum = packets.map(SendQuantum::Packets).or_else(|| time().map(SendQuantum::Time));
        quantum.ok_or_else(|| {
            format!("a number of datagrams from 1 to {MOST_DATAGRAMS} is allowed, or a time such as 100us")
        })
    }

    /// Returns the datagrams sent at once at this rate: 1 to 64.
    pub fn at(self, rate: Rate) -> u32 {
        let (packets, time) = match self {
            SendQuantum::Packets(packets) => (packets, Duration::MAX),
            SendQuantum::Time(time) => (MOST_DATAGRAMS, time),
        };
        Quantum { packets, ..Quantum::within(time) }.packets_at(rate)
    }
}

impl fmt::Display for SendQuantum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SendQuantum::Packets(packets) => packets.fmt(f),
            SendQuantum::Time(time) => f.write_str(&show_duration(time)),
        }
    }
}

/// The most datagrams of one segmented send, and of one turn.
const MOST_DATAGRAMS: u32 = Quantum::MOST_SEGMENTS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_worth_what_the_rate_makes_of_it() {
        let at = |text: &str, per_second| {
            SendQuantum::parse(text).unwrap().at(Rate::per_second(per_second).unwrap())
        };
        assert_eq!([at("1ms", 100), at("1ms", 1_000), at("1ms", 8_000), at("1ms", 1_000_000)], [1, 1, 8, 64]);
        assert_eq!([at("1", 1_000_000_000), at("64", 100)], [1, 64]);
        assert_eq!(at("18446744073709551615ns", 1_000_000_000), 64);
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in ["0", "65", "-1", "1.5", "many", "", "0us", "8 packets", "10"] {
            let parsed = SendQuantum::parse(text);
            assert_eq!(parsed.is_ok(), text == "10", "{text}");
            if let Err(allowed) = parsed {
                assert_eq!(allowed, "a number of datagrams from 1 to 64 is allowed, or a time such as 100us");
            }
        }
        for text in ["8", "100us"] {
            assert_eq!(SendQuantum::parse(text).unwrap().to_string(), text);
        }
    }
}
