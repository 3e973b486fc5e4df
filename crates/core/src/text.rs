//! Policies in text: what can be wrong with it, and the times in it.

use core::fmt;
use core::time::Duration;

use crate::time::saturating_nanos;

/// Why a text names no policy, or a policy cannot be made with these settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PolicyError {
    /// No policy has this name.
    UnknownName {
        /// The names that are known, each with what it stands for.
        allowed: &'static [(&'static str, &'static str)],
    },
    /// The text after the name is no list of settings.
    Malformed,
    /// The policy has no such setting.
    Unused {
        /// The setting's name.
        setting: &'static str,
    },
    /// The policy has no default for a setting.
    Missing {
        /// The setting's name.
        setting: &'static str,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::UnknownName { allowed } => {
                f.write_str("one of ")?;
                for (at, (name, _)) in allowed.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    f.write_str(name)?;
                }
                f.write_str(" is allowed")
            }
            PolicyError::Malformed => f.write_str(
                "settings are quota=PACKETS, time=TIME such as 200us, and idle=wake-up or idle=poll, with commas between",
            ),
            PolicyError::Unused { setting } => write!(f, "this policy has no {setting}"),
            PolicyError::Missing { setting } => write!(f, "this policy needs {setting}=…"),
        }
    }
}

impl core::error::Error for PolicyError {}

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
