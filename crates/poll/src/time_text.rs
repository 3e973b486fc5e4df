//! Times in the text of a policy.

use core::fmt;
use core::time::Duration;

use crate::nanos::saturating_nanos;

/// Reads a whole number of `ns`, `us`, `ms` or `s`.
pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, nanos) = UNITS.into_iter().find(|&(name, _)| name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(nanos).map(Duration::from_nanos)
}

/// A time in the largest unit of which it is a whole number.
pub(crate) struct Time(pub(crate) Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = saturating_nanos(self.0);
        let (name, nanos) = UNITS.into_iter().find(|(_, nanos)| whole % nanos == 0).unwrap_or(("ns", 1));
        write!(f, "{}{name}", whole / nanos)
    }
}

/// The largest first.
const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn times_are_read_as_they_are_written() {
        for text in ["200us", "1ms", "1500us", "7ns", "3s", "0s"] {
            assert_eq!(parse_time(text).map(|time| Time(time).to_string()).as_deref(), Some(text));
        }
        for text in ["", "us", "5", "1.5ms", "-1s", "5 us", "5m", "99999999999999999999s", "18446744074s"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
