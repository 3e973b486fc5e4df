//! The command line as typed and as `--help` explains it: the part that several commands of this program
//! share. Each command's own part is in its folder of [`commands`](crate::commands).

mod clients;
#[cfg(test)]
mod mistake_tests;

use std::time::Duration;

use clap::{Args, ValueEnum};
use softtimers_load::traffic::End;
use softtimers_load::wire;
use softtimers_measure::units;

pub(crate) use clients::ClientArgs;
pub(crate) use softtimers_run::args::{OutputArgs, StreamArgs, any_seed};
pub(crate) use softtimers_run::help::lay_out;

/// When a run ends.
#[derive(Args, Debug, Clone)]
pub(crate) struct EndArgs {
    /// Stop after this time: 10 (seconds), 500ms, 2min
    #[arg(short = 't', long, value_name = "TIME", value_parser = units::run_time, display_order = 3)]
    pub(crate) duration: Option<Duration>,

    /// Stop after N datagrams or frames
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), display_order = 4)]
    pub(crate) count: Option<u64>,
}

/// Returns the word that stands for a value on the command line.
pub(crate) fn typed(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

pub(crate) fn datagram_size(text: &str) -> Result<u32, String> {
    // For this quantity a bare number can only mean bytes.
    let bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = if bare { units::bytes(&format!("{text}B")) } else { units::bytes(text) };
    let bytes = bytes.map_err(|error| error.to_string())?;
    let allowed = wire::MIN_SIZE as u64..=wire::MAX_SIZE as u64;
    match u32::try_from(bytes) {
        Ok(size) if allowed.contains(&bytes) => Ok(size),
        _ => Err(format!("a datagram carries {} to {} bytes", wire::MIN_SIZE, wire::MAX_SIZE)),
    }
}

impl From<&EndArgs> for End {
    fn from(args: &EndArgs) -> Self {
        End { duration: args.duration, count: args.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_udp_carries() {
        assert_eq!(datagram_size("1200"), Ok(1200));
        assert_eq!(datagram_size("1KiB"), Ok(1024));
        assert_eq!((datagram_size("32"), datagram_size("65507")), (Ok(32), Ok(65_507)));
        for text in ["31", "65508", "70000", "18446744073709551615", "99999999999999999999"] {
            assert!(datagram_size(text).is_err(), "{text}");
        }
        assert_eq!(datagram_size("70000").unwrap_err(), "a datagram carries 32 to 65507 bytes");
    }
}
