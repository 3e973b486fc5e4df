//! The command line as typed and as `--help` explains it: the part that several commands share. Each command's own part
//! is in its folder of [`commands`](crate::commands).

mod clients;
mod help;
pub(crate) mod mistake;

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use clap::Args;
use softtimers_load::traffic::End;
use softtimers_load::wire;
use softtimers_measure::assertion::Assertion;
use softtimers_measure::units;

use crate::run::output::Output;

pub(crate) use clients::ClientArgs;
pub(crate) use help::{OTHER, lay_out};
pub(crate) use softtimers_load::generate::MacAddress;

/// The output options of every command that reports.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,

    /// Exit with 1 unless COND, such as 'gap_ns.p99<60000'
    ///
    /// A key of the JSON object, with dots for nesting; one of < <= > >= ==; and a number in the key's unit. Repeatable.
    #[arg(long = "assert", value_name = "COND")]
    pub(crate) assertions: Vec<Assertion>,

    /// Run without the sandbox (Landlock and a system call filter)
    ///
    /// The sandbox confines the code that handles packets from strangers. User, capabilities and no_new_privs are given
    /// up all the same.
    #[arg(long, help_heading = OTHER, hide_short_help = true)]
    pub(crate) no_sandbox: bool,
}

/// The output options of a command that runs for long.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Output")]
pub(crate) struct StreamArgs {
    /// The options that every report has.
    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// Print a line of JSON a second, then the --json object
    ///
    /// Each line has the figures of its second and those of the run so far. A reader that closes the pipe ends the run.
    #[arg(long, conflicts_with = "json")]
    pub(crate) json_stream: bool,
}

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

impl From<&OutputArgs> for Output {
    fn from(args: &OutputArgs) -> Self {
        let OutputArgs { json, ref assertions, no_sandbox } = *args;
        Output { json, stream: false, assertions: assertions.clone(), unconfined: no_sandbox }
    }
}

impl From<&StreamArgs> for Output {
    fn from(args: &StreamArgs) -> Self {
        Output { stream: args.json_stream, ..Output::from(&args.output) }
    }
}

impl From<&EndArgs> for End {
    fn from(args: &EndArgs) -> Self {
        End { duration: args.duration, count: args.count }
    }
}

/// Returns a random seed, short enough to be typed.
pub(crate) fn any_seed() -> u64 {
    RandomState::new().hash_one("seed") >> 32
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
