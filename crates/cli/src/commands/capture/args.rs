//! What `capture` is asked for, and will do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use rustix::process::geteuid;
use softtimers_measure::failure::Failure;
use softtimers_measure::units::{self, show_duration};
use softtimers_net::packet::Filter;

use super::filter;
use super::sink::{Rotate, SinkConfig};
use crate::args::{EndArgs, StreamArgs};
use crate::run::output::Output;
use crate::run::privileges::user::User;
use softtimers_load::traffic::End;

/// `softtimers capture`.
///
/// Frames that an interface receives and sends, with the kernel's times in nanoseconds. What is lost is counted at
/// each place, and written into the file. It needs CAP_NET_RAW to open the interface, and gives up all privileges
/// then. Without --duration or --count it ends with Ctrl-C.
#[derive(Args, Debug, Clone)]
#[command(after_help = CAPTURE_EXAMPLES)]
pub(crate) struct CaptureArgs {
    /// The interface: Ethernet, or lo
    #[arg(value_name = "INTERFACE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) interface: String,

    /// The file, of pcapng; '-' for stdout
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Write over a file that exists
    #[arg(long)]
    pub(crate) force: bool,

    /// The longest until a frame is in the file, from 20us to 10s
    ///
    /// Half of it is the time between two looks at the ring; the rest is for the wake-up, and for writing.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::positive_duration)]
    pub(crate) max_delay: Duration,

    /// Keep so many bytes of each frame
    #[arg(long, value_name = "BYTES", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(14..=262_144))]
    pub(crate) snaplen: u32,

    /// Keep frames of which this is true, such as 'udp port 53'; tcpdump compiles it, so that must be installed
    ///
    /// It runs as you, whatever --user says: under sudo as the user who called sudo, after a login as root as nobody.
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,

    /// Keep frames by the program in a file, as 'tcpdump -ddd EXPR' prints it
    #[arg(long, value_name = "FILE", conflicts_with = "filter")]
    pub(crate) filter_code: Option<PathBuf>,

    /// Only frames for this machine, and from it
    #[arg(long)]
    pub(crate) no_promiscuous: bool,

    /// Memory for frames that wait to be looked at, from 64KiB to 1GiB
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = units::bytes)]
    pub(crate) ring: u64,

    /// Write by a thread of its own, behind a queue of so many frames, which stops input when three quarters are used
    ///
    /// The network monitor of the livelock paper had one of 32. Without it frames wait in the ring, which is better.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=65_536))]
    pub(crate) queue: Option<u32>,

    /// Begin another file before one is longer than a size (from 1MiB), or after a time (from 1s)
    ///
    /// All are numbered then: trace.pcapng stands for trace-00001.pcapng and so on.
    #[arg(long, value_name = "SIZE|TIME", value_parser = rotate)]
    pub(crate) rotate: Option<Rotate>,

    /// Become this user once the interface is open, by name or number [default: who called sudo, or nobody]
    ///
    /// Also root has no capabilities from then on.
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,

    /// When it ends; what is counted are frames in the file.
    #[command(flatten)]
    pub(crate) end: EndArgs,

    /// How to print.
    #[command(flatten)]
    pub(crate) output: StreamArgs,
}

/// A run of `capture`.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    /// The interface's name.
    pub(crate) interface: String,
    /// Where frames go.
    pub(crate) sink: SinkConfig,
    /// The longest until they are there.
    pub(crate) max_delay: Duration,
    /// What is kept of each.
    pub(crate) snap_length: u32,
    /// Which are kept; without it, all.
    pub(crate) filter: Option<Filter>,
    /// The filter as it was typed.
    pub(crate) expression: Option<String>,
    /// Frames for others, too.
    pub(crate) promiscuous: bool,
    /// Bytes.
    pub(crate) ring: u64,
    /// Frames between the loop and the writer; without it there is no writer.
    pub(crate) queue: Option<u32>,
    /// Whom to become.
    pub(crate) user: Option<User>,
    /// When it ends.
    pub(crate) end: End,
    /// How to print the report.
    pub(crate) output: Output,
}

impl Capture {
    /// Understands the arguments of `capture`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &CaptureArgs) -> Result<Self, Failure> {
        let CaptureArgs { max_delay, ring, .. } = *args;
        if !(SHORTEST..=LONGEST).contains(&max_delay) {
            let shown = show_duration(max_delay);
            return Err(Failure::usage(format_args!("--max-delay {shown}: 20us to 10s")));
        }
        if !(LEAST_RING..=MOST_RING).contains(&ring) {
            return Err(Failure::usage(format_args!("--ring {ring}B: 64KiB to 1GiB")));
        }
        let output = Output::from(&args.output);
        check_file(args, &output)?;
        let user = to_become(args.user.as_deref())?;
        let filter = match (&args.filter, &args.filter_code) {
            (Some(expression), _) => Some(filter::of_expression(expression)?),
            (None, Some(path)) => Some(filter::of_file(path)?),
            (None, None) => None,
        };
        Ok(Capture {
            interface: args.interface.clone(),
            sink: SinkConfig { path: args.file.clone(), force: args.force, rotate: args.rotate },
            max_delay,
            snap_length: args.snaplen,
            filter,
            expression: args.filter.clone(),
            promiscuous: !args.no_promiscuous,
            ring,
            queue: args.queue,
            user,
            end: End::from(&args.end),
            output,
        })
    }
}

/// Whom to become: `named` if there is one, or if this is root the caller of `sudo`, or nobody. `None`: stay.
///
/// # Errors
/// A usage failure if there is no such user, or another one is wanted by who is not root.
fn to_become(named: Option<&str>) -> Result<Option<User>, Failure> {
    let is_root = geteuid().is_root();
    match named {
        Some(name) if !is_root => {
            Err(Failure::usage(format_args!("--user {name}: only root can become somebody else")))
        }
        Some(name) => {
            let unknown =
                || Failure::usage(format_args!("--user {name}: neither a user of this system nor a number"));
            User::named(name).ok_or_else(unknown).map(Some)
        }
        None if !is_root => Ok(None),
        None => User::invoking().map_err(Failure::usage).map(Some),
    }
}

/// What goes to stdout is frames or a report.
fn check_file(args: &CaptureArgs, output: &Output) -> Result<(), Failure> {
    if args.file == Path::new("-") {
        let prints = output.json || output.stream || !output.assertions.is_empty();
        if prints || args.rotate.is_some() {
            return Err(Failure::usage(
                "-w -: stdout has the frames, so neither --json, --json-stream, --assert nor --rotate",
            ));
        }
        return Ok(());
    }
    if args.file.file_name().is_none() {
        return Err(Failure::usage(format_args!("-w '{}': not the name of a file", args.file.display())));
    }
    Ok(())
}

/// What a wake-up takes.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_secs(10);
const LEAST_RING: u64 = 64 << 10;
const MOST_RING: u64 = 1 << 30;

fn rotate(text: &str) -> Result<Rotate, String> {
    let rotate = match (units::bytes(text), units::positive_duration(text)) {
        (Ok(bytes), _) => Rotate::Bytes(bytes),
        (_, Ok(time)) => Rotate::Time(time),
        _ => return Err("a size such as 64MiB, or a time such as 1h".to_owned()),
    };
    match rotate {
        Rotate::Bytes(bytes) if bytes < 1 << 20 => Err("at least 1MiB".to_owned()),
        Rotate::Time(time) if time < Duration::from_secs(1) => Err("at least 1s".to_owned()),
        _ => Ok(rotate),
    }
}

const CAPTURE_EXAMPLES: &str = "\
Examples:
  softtimers capture eth0 -w trace.pcapng
  softtimers capture eth0 -w dns.pcapng --filter 'udp port 53' --duration 1min
  softtimers capture eth0 -w heads.pcapng --snaplen 68 --max-delay 10ms --rotate 64MiB
  softtimers capture eth0 -w - --max-delay 200us | tshark -r -
  softtimers capture eth0 -w t.pcapng --count 30000 --json --assert 'dropped.ring==0'

Exit codes:
   0  done, also by Ctrl-C, SIGTERM or SIGHUP; every --assert held
   1  an --assert did not hold, or the run broke off: the file has what the summary says
   2  bad usage or input; nothing was captured
  77  not possible on this machine; the message says what is missing";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_bounded_by_size_or_time() {
        assert_eq!(rotate("64MiB"), Ok(Rotate::Bytes(64 << 20)));
        assert_eq!(rotate("1h"), Ok(Rotate::Time(Duration::from_secs(3_600))));
        for wrong in ["64", "1KiB", "10ms", "", "0s", "-1s"] {
            assert!(rotate(wrong).is_err(), "{wrong}");
        }
    }
}
