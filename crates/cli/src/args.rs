//! The command line, as it is typed and as `--help` explains it. What may be combined, and what the
//! values mean together, is decided in [`plan`](crate::plan).

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use softtimers_core::CatchUp;

use crate::assertion::Assertion;
use crate::failure::Exit;
use crate::units::{self, SendRate};
use crate::wire;

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
    /// Send UDP datagrams at an even rate
    Send(SendArgs),
    /// Receive such traffic and tell how evenly it came
    Recv(RecvArgs),
    /// Measure what timers cost on this machine, and whether softtimers would help
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page of this command, or of a subcommand
    Man(ManArgs),
    /// The load side of `send --busy echo`
    #[command(hide = true)]
    EchoClient(EchoClientArgs),
}

/// `softtimers send`.
///
/// The sender's own timestamps tell how late each datagram was against its place in the schedule;
/// run `softtimers recv` at the other end to see what really arrived.
#[derive(Args, Debug, Clone)]
#[command(after_help = SEND_EXAMPLES)]
#[command(group(clap::ArgGroup::new("pace").required(true).args(["rate", "interval"])))]
pub struct SendArgs {
    /// Where to send: IP:PORT or NAME:PORT of one host
    ///
    /// An IPv6 address stands in brackets. Broadcast and multicast addresses are refused. Beyond 1,000 packets/s to another machine, a
    /// `softtimers recv` there must agree first.
    #[arg(value_name = "ADDR")]
    pub address: String,

    /// Datagrams or bits of payload a second: 25kpps, 83333pps, 100Mbit
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<SendRate>,

    /// Time between datagrams instead of a rate: 40us, 1ms
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub interval: Option<Duration>,

    /// The shortest time between datagrams when catching up [default: 9/16 of the interval]
    ///
    /// At most the interval itself, which means never to catch up.
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub burst_interval: Option<Duration>,

    /// Bytes of UDP payload in each datagram: 32 to 65507
    #[arg(long, value_name = "BYTES", default_value = "1200", value_parser = datagram_size)]
    pub size: u32,

    /// Flows sent side by side
    #[arg(long, value_name = "N", default_value = "1", value_parser = flow_count)]
    pub flows: u32,

    /// End after this time [default: 10s, unless --count is given]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub duration: Option<Duration>,

    /// End after this many datagrams
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// How far behind schedule the sender may fall before it gives datagrams up: a time, none or all
    #[arg(long, value_name = "TIME|none|all", default_value = "10ms", value_parser = catch_up)]
    pub catch_up: CatchUp,

    /// Who says when the next datagram is due
    #[arg(long, value_enum, value_name = "TIMER", default_value_t = Timer::Soft)]
    pub timer: Timer,

    /// How late a datagram may be before the backup timer is used (--timer soft only)
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = units::duration)]
    pub slack: Duration,

    /// Work that the same loop does meanwhile
    #[arg(long, value_enum, value_name = "WORK", default_value_t = Busy::None)]
    pub busy: Busy,

    /// Datagrams the echo server takes in one go, 1 to 64 (--busy echo only) [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub echo_batch: Option<u16>,

    /// Keep this loop on processor N, and the echo server's clients off it
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,

    /// Send fast to another machine without asking a `softtimers recv` there
    ///
    /// Type this only for a network and a host of your own.
    #[arg(long)]
    pub no_handshake: bool,

    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `softtimers recv`.
///
/// Times are the kernel's receive timestamps, so the receiver can sleep between batches and still
/// see every gap. It needs no privileges. Without --duration, --count or --once it ends with Ctrl-C.
#[derive(Args, Debug, Clone)]
#[command(after_help = RECV_EXAMPLES)]
pub struct RecvArgs {
    /// Where to listen: 0.0.0.0:PORT for all interfaces; port 0 for any free one
    ///
    /// An IPv6 address stands in brackets. The address in use is printed to stderr.
    #[arg(value_name = "ADDR")]
    pub address: String,

    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub duration: Option<Duration>,

    /// End after this many datagrams of traffic
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// End when every sender that was heard has said that it is done
    ///
    /// Goodbyes can be lost: it also ends when nothing has come for 10 s, or for three intervals if that
    /// is longer.
    #[arg(long)]
    pub once: bool,

    /// The interval to judge gaps by [default: the one the first sender states]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub expect_interval: Option<Duration>,

    /// Keep the receiver on processor N
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,

    /// Print one JSON object a second, each on a line, and a last one at the end
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,

    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `softtimers doctor`.
///
/// The same paced stream by every method, from a busy loop and from an idle one, judged by an
/// independent receiver on loopback. It takes about half a minute and needs no privileges. The
/// verdict may be that you do not need softtimers.
#[derive(Args, Debug, Clone)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub struct DoctorArgs {
    /// Shorter trials: under 10 s in all
    #[arg(long, conflicts_with = "duration")]
    pub quick: bool,

    /// Length of each of the fifteen trials [default: 1500ms, with --quick 250ms]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub duration: Option<Duration>,

    /// Datagrams the busy loop's echo server takes in one go, 1 to 64
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub echo_batch: u16,

    /// Make the trials of the first N methods last; the report is in the same order
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    pub rotate: u32,

    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
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

/// `softtimers completions`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Example:\n  softtimers completions bash > ~/.local/share/bash-completion/completions/softtimers"
)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `softtimers man`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Example:\n  softtimers man send | man -l -")]
pub struct ManArgs {
    /// The subcommand; without it, the page of softtimers(1)
    #[arg(value_name = "COMMAND")]
    pub subcommand: Option<String>,
}

/// `softtimers echo-client`.
#[derive(Args, Debug, Clone)]
pub struct EchoClientArgs {
    /// The echo server
    #[arg(value_name = "ADDR")]
    pub address: String,

    /// Datagrams under way at any time
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub window: u32,

    /// Bytes of UDP payload in each
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = datagram_size)]
    pub size: u32,

    /// End after this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::positive_duration)]
    pub duration: Duration,

    /// Never sleep: for a client that has a processor to itself
    #[arg(long)]
    pub spin: bool,

    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Who says when the next datagram is due.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Timer {
    /// softtimers: the clock is checked at every trigger state, one backup timer at the deadline
    Soft,
    /// The loop checks a heap of due times after each handler: what five lines do without softtimers
    Loop,
    /// The wait's own time-out, in nanoseconds (epoll_pwait2)
    Pwait2,
    /// The wait's own time-out, rounded up to whole milliseconds, as most event loops have it
    Ms,
    /// A kernel timer descriptor, armed for each datagram
    Timerfd,
    /// Nobody: nothing is sent, only the work is done, as a baseline for the other timers
    Off,
}

/// Work that the sending loop does beside sending.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Busy {
    /// Nothing: the loop sleeps between datagrams
    None,
    /// Computation in small pieces, without system calls
    Compute,
    /// A UDP echo server kept saturated by clients in another process
    Echo,
}

fn datagram_size(text: &str) -> Result<u32, String> {
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

fn flow_count(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(1) => Ok(1),
        Ok(0) | Err(_) => Err("a number of flows is allowed, and only 1 so far".to_owned()),
        Ok(_) => Err("only 1 flow is allowed so far; more flows come with the departure queue".to_owned()),
    }
}

fn catch_up(text: &str) -> Result<CatchUp, String> {
    match text {
        "none" => Ok(CatchUp::NONE),
        "all" => Ok(CatchUp::ALL),
        time => match units::duration(time) {
            Ok(time) => Ok(CatchUp::within(time)),
            Err(error) => Err(format!("{error}; none and all are allowed too")),
        },
    }
}

const SEND_EXAMPLES: &str = "\
Examples:
  softtimers recv 127.0.0.1:9000 --once &
  softtimers send 127.0.0.1:9000 --interval 40us --duration 5s
  softtimers send 127.0.0.1:9000 --rate 100Mbit --size 1500 --busy echo
  softtimers send 127.0.0.1:9000 --rate 25kpps --json --assert 'back_to_back<0.01'
  softtimers send 192.0.2.7:9000 --rate 10kpps   # asks a `softtimers recv` there first

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was sent
  77  not possible on this machine; the message says what is missing";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  softtimers doctor
  softtimers doctor --quick
  softtimers doctor --json > machine.json

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or a trial broke off
   2  bad usage or input
  77  not possible on this machine; the message says what is missing";

const RECV_EXAMPLES: &str = "\
Examples:
  softtimers recv 0.0.0.0:9000
  softtimers recv 127.0.0.1:0 --once --json > run.json
  softtimers recv 127.0.0.1:9000 --duration 10s --expect-interval 40us --assert 'lost==0'

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was received
  77  not possible on this machine; the message says what is missing";

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

    #[test]
    fn catch_up_is_a_time_or_a_word() {
        assert_eq!(catch_up("none"), Ok(CatchUp::NONE));
        assert_eq!(catch_up("all"), Ok(CatchUp::ALL));
        assert_eq!(catch_up("5ms"), Ok(CatchUp::within(Duration::from_millis(5))));
        assert!(catch_up("some").unwrap_err().ends_with("none and all are allowed too"));
    }

    #[test]
    fn more_flows_come_later() {
        assert_eq!(flow_count("1"), Ok(1));
        assert!(flow_count("2").unwrap_err().contains("departure queue"));
        assert!(flow_count("many").is_err());
    }
}
