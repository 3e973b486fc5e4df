//! The arguments of `pace`, and its plan.

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use ipnet::IpNet;
use softtimers_bpf::{TcpCapacity, TcpPace, TcpWindow};
use softtimers_measure::failure::Failure;
use softtimers_measure::units::{self, SendRate};

use crate::args::OutputArgs;
use crate::run::output::Output;

/// `softtimers pace`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = PACE_EXAMPLES, next_help_heading = "Capacity")]
pub(crate) struct PaceArgs {
    /// Capacity of the path, headers included: 100Mbit
    ///
    /// All connections of CMD together send no faster. Those that are active at a moment have equal shares.
    #[arg(short = 'b', long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: NonZeroU64,

    /// Initial window: full, a share such as 0.5, or bytes such as 256KiB
    ///
    /// Full is what the path holds: the rate during a round trip, which each connection's handshake measures. The
    /// active connections share it, and have it again after a pause.
    #[arg(long, value_name = "WINDOW", default_value = "full", value_parser = window)]
    pub(crate) window: Window,

    /// Only connections to these networks: 192.0.2.0/24
    ///
    /// Repeatable, and separated by commas; 8 at most. Without it, all connections but those to this machine's loopback.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub(crate) to: Vec<IpNet>,

    /// Take changes at this Unix socket while CMD runs
    ///
    /// For its owner only. One command to a line: 'set rate 50Mbit', 'set window 0.5', 'show'.
    #[arg(long, value_name = "PATH", help_heading = "Run")]
    pub(crate) control: Option<PathBuf>,

    /// Write the --json object to a new file at the end
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub(crate) summary: Option<PathBuf>,

    /// Overwrite the file of --summary
    #[arg(long, requires = "summary", help_heading = "Run")]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// The command; its TCP connections and those of its children are paced
    ///
    /// Its exit code is the exit code; a signal that ends it ends this, too. stdin, stdout and the terminal are its own,
    /// so the report goes to stderr. The run lasts until all its processes have ended.
    #[arg(value_name = "CMD", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// A window as typed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Window(pub(crate) TcpWindow);

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            TcpWindow::OfPath(1.0) => f.write_str("full"),
            TcpWindow::OfPath(share) => write!(f, "{share}"),
            TcpWindow::Bytes(bytes) => write!(f, "{bytes}B"),
        }
    }
}

/// A run of `pace`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PacePlan {
    /// The capacity in effect.
    pub(crate) capacity: TcpCapacity,
    /// The command and its arguments; at least one word.
    pub(crate) command: Vec<OsString>,
    /// The socket for changes.
    pub(crate) control: Option<PathBuf>,
    /// The file for the object, and whether it may exist already.
    pub(crate) summary: Option<(PathBuf, bool)>,
    pub(crate) output: Output,
}

impl PacePlan {
    /// Interprets the arguments of `pace`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &PaceArgs) -> Result<Self, Failure> {
        if args.to.len() > TcpPace::NETWORKS {
            let (given, most) = (args.to.len(), TcpPace::NETWORKS);
            return Err(Failure::usage(format_args!("--to: {given} networks; {most} are allowed")));
        }
        let to: Vec<(IpAddr, u8)> = args.to.iter().map(|net| (net.addr(), net.prefix_len())).collect();
        Ok(PacePlan {
            capacity: TcpCapacity { rate: args.rate, window: args.window.0, to },
            command: args.command.clone(),
            control: args.control.clone(),
            summary: args.summary.clone().map(|path| (path, args.force)),
            output: Output::from(&args.output),
        })
    }

    /// Applies a change from the control socket.
    ///
    /// # Errors
    /// Names the fault, and what is allowed.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let refused = |why: String| format!("{name} {value}: {why}");
        match name {
            "rate" => self.capacity.rate = rate(value).map_err(refused)?,
            "window" => self.capacity.window = window(value).map_err(refused)?.0,
            _ => return Err(format!("no setting {name:?}; there are rate and window")),
        }
        Ok(())
    }
}

fn rate(text: &str) -> Result<NonZeroU64, String> {
    let bits = match units::rate(text).map_err(|error| error.to_string())? {
        SendRate::BitsPerSecond(bits) => bits,
        SendRate::PacketsPerSecond(_) => return Err("bits a second, such as 100Mbit".to_owned()),
    };
    let allowed = SLOWEST..=TcpPace::FASTEST;
    let rate = NonZeroU64::new(bits).filter(|_| allowed.contains(&bits));
    rate.ok_or_else(|| "the kernel paces connections at 64kbit to 34Gbit".to_owned())
}

fn window(text: &str) -> Result<Window, String> {
    const ALLOWED: &str = "full, a share from 0.01 to 1, or bytes such as 256KiB";
    let of_path = match text {
        "full" => Some(1.0),
        _ => text.parse::<f64>().ok(),
    };
    match (of_path, units::bytes(text)) {
        (Some(share), _) if (0.01..=1.0).contains(&share) => Ok(Window(TcpWindow::OfPath(share))),
        (None, Ok(bytes)) if (1..=LARGEST_WINDOW).contains(&bytes) => Ok(Window(TcpWindow::Bytes(bytes))),
        _ => Err(ALLOWED.to_owned()),
    }
}

/// Below, a packet of a share takes a second.
const SLOWEST: u64 = 64_000;
/// The largest window of TCP.
const LARGEST_WINDOW: u64 = 1 << 30;

const PACE_EXAMPLES: &str = "\
Examples:
  sudo softtimers pace --rate 100Mbit -- nginx -g 'daemon off;'
  sudo softtimers pace -b 1Gbit --to 10.0.0.0/8 -- rsync -a data/ backup:data/
  sudo softtimers pace -b 50Mbit --window 0.5 --control pace.sock -- ./server
  echo set rate 20Mbit | socat - UNIX-CONNECT:pace.sock

When not to:
  A path that others share: told twice what it has, it loses packets by the
  hundred. One without a slow start to save, as loopback. See docs/pace.md.

Without the rights for BPF:
  The rate alone, as each connection's limit; no window, no sharing.

Exit codes:
  That of CMD; 126 and 127 if it cannot be started or found; and
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was started
  77  not possible on this machine; the message says what is missing";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::{Cli, Command};

    fn plan(words: &str) -> Result<PacePlan, Failure> {
        let line = format!("softtimers pace {words} -- true")
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        match Cli::try_parse_from(line).map_err(|error| Failure::usage(error.to_string()))?.command {
            Command::Pace(args) => PacePlan::new(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn capacities_are_understood() {
        let full = plan("--rate 100Mbit").unwrap();
        assert_eq!((full.capacity.rate.get(), full.capacity.window), (100_000_000, TcpWindow::OfPath(1.0)));
        assert!(full.capacity.to.is_empty() && full.command == ["true"]);
        let half = plan("-b 1Gbit --window 0.5 --to 10.0.0.0/8,2001:db8::/32").unwrap();
        assert_eq!((half.capacity.window, half.capacity.to.len()), (TcpWindow::OfPath(0.5), 2));
        assert_eq!(plan("-b 1Mbit --window 64KiB").unwrap().capacity.window, TcpWindow::Bytes(65_536));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for words in [
            "--rate 5kpps",
            "--rate 1kbit",
            "--rate 40Gbit",
            "--rate 1Mbit --window 0",
            "--rate 1Mbit --window 1.5",
            "--rate 1Mbit --window 0B",
            "--rate 1Mbit --window 2GiB",
            "--rate 1Mbit --to 10.0.0.0/33",
            "",
        ] {
            assert!(plan(words).is_err(), "{words}");
        }
        let nine = ["10.0.0.0/8"; 9].join(",");
        assert_eq!(
            plan(&format!("--rate 1Mbit --to {nine}")).unwrap_err().to_string(),
            "--to: 9 networks; 8 are allowed"
        );
    }

    #[test]
    fn changes_hold_or_are_named() {
        let mut plan = plan("--rate 100Mbit").unwrap();
        assert_eq!((plan.set("rate", "50Mbit"), plan.set("window", "0.5")), (Ok(()), Ok(())));
        assert_eq!((plan.capacity.rate.get(), plan.capacity.window), (50_000_000, TcpWindow::OfPath(0.5)));
        for (name, value) in [("rate", "5"), ("window", "two"), ("delay", "1ms")] {
            assert!(plan.set(name, value).unwrap_err().contains(if name == "delay" {
                "rate and window"
            } else {
                value
            }));
        }
        assert_eq!(plan.capacity.rate.get(), 50_000_000);
    }
}
