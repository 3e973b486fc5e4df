//! The command line, as it is typed and as `--help` explains it: what several commands have in common. The rest of each is in
//! its folder of [`commands`](crate::commands).

mod clients;

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use softtimers_measure::assertion::Assertion;
use softtimers_measure::failure::Exit;
use softtimers_load::traffic::End;
use softtimers_load::wire;
use softtimers_measure::units;

use crate::commands::bench::args::BenchArgs;
use crate::commands::capture::args::CaptureArgs;
use crate::commands::doctor::args::DoctorArgs;
use crate::commands::doctor::features::ProbeFeatureArgs;
use crate::commands::documents::{CompletionsArgs, ManArgs};
use crate::commands::echo::args::EchoClientArgs;
use crate::commands::forward::args::ForwardArgs;
use crate::commands::noise::args::NoiseArgs;
use crate::commands::probe::args::ProbeArgs;
use crate::commands::recv::args::RecvArgs;
use crate::commands::replay::args::ReplayArgs;
use crate::commands::report::args::ReportArgs;
use crate::commands::send::args::SendArgs;
use crate::commands::wan::args::WanArgs;
use crate::run::output::Output;

pub use clients::ClientArgs;
pub use softtimers_load::generate::MacAddress;
pub use crate::commands::sim::SimArgs;

/// Paced UDP traffic from an ordinary process, and what timers cost on this machine.
///
/// softtimers releases packets at microsecond times by checking a clock where a program already
/// passes, and wakes the kernel only when it must. `send` shows it; `recv` measures it from outside.
#[derive(Parser, Debug)]
#[command(name = "softtimers", version, propagate_version = true, after_help = Exit::HELP, max_term_width = 100)]
pub struct Cli {
    /// End with this process, which must be the parent
    #[arg(long, value_name = "PID", hide = true)]
    pub with_parent: Option<u32>,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Send UDP datagrams at an even rate, or after a pattern
    Send(SendArgs),
    /// Receive such traffic and tell how evenly it came
    Recv(RecvArgs),
    /// Send with the times and lengths of a recording: pcap, pcapng or lines of t_us,len
    Replay(ReplayArgs),
    /// Emulate a network path between two addresses: delay, rate, queue, loss; no root
    Wan(Box<WanArgs>),
    /// Forward between two interfaces, or relay UDP datagrams without root, so that overload is survived
    Forward(Box<ForwardArgs>),
    /// Write what passes an interface to a file of pcapng, no later than asked for
    Capture(Box<CaptureArgs>),
    /// Measure how often the kernel passes trigger states, by eBPF
    Probe(ProbeArgs),
    /// Run the papers' experiments on a simulated machine
    #[command(subcommand)]
    Sim(SimArgs),
    /// Measure what timers cost on this machine, and whether softtimers would help
    Doctor(DoctorArgs),
    /// Find a receiver's loss-free rate, and what becomes of it beyond; no root
    Bench(Box<BenchArgs>),
    /// Measure what holds a computation up on this machine, and what it does to a job of many nodes
    Noise(NoiseArgs),
    /// Make a report of everything: this machine and the papers, in one file of HTML
    Report(ReportArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page of this command, or of a subcommand
    Man(ManArgs),
    /// The load side of `send --busy echo`
    #[command(hide = true)]
    EchoClient(EchoClientArgs),
    /// One of the probes of `doctor`
    #[command(hide = true)]
    ProbeFeature(ProbeFeatureArgs),
}

/// How to print, for every command that reports.
#[derive(Args, Debug, Clone)]
pub struct OutputArgs {
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,

    /// Exit with 1 unless this holds: a key of the JSON object, one of < <= > >= ==, a number
    ///
    /// Dots reach into objects: 'gap_ns.p99<60000'. May be repeated.
    #[arg(long = "assert", value_name = "COND")]
    pub assertions: Vec<Assertion>,
}

/// How to print, for a command that runs on.
#[derive(Args, Debug, Clone)]
pub struct StreamArgs {
    /// What holds for every report.
    #[command(flatten)]
    pub output: OutputArgs,

    /// Print a line of JSON a second, and at the end the object of --json on a line
    ///
    /// Each line has the figures of its interval and those of the run so far. It is written beside the run; a
    /// reader that goes away ends the run.
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,
}

/// When a run ends.
#[derive(Args, Debug, Clone)]
pub struct EndArgs {
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub duration: Option<Duration>,

    /// End after this many datagrams, or frames of an interface
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

pub(crate) fn datagram_size(text: &str) -> Result<u32, String> {
    // Everybody means bytes, so this is the one quantity that needs no unit.
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
        Output { json: args.json, stream: false, assertions: args.assertions.clone() }
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

/// Short enough to be typed.
pub(crate) fn any_seed() -> u64 {
    RandomState::new().hash_one("seed") >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

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
