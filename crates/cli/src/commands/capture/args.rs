//! The arguments of `capture`, and its plan.

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
#[derive(Args, Debug, Clone)]
#[command(after_long_help = CAPTURE_EXAMPLES, next_help_heading = "Capture")]
#[command(mut_arg("duration", |arg| arg.help("Stop after this time: 10 (seconds), 500ms, 2min [default: run until Ctrl-C]")))]
#[command(mut_arg("count", |arg| arg.help("Stop after N frames in the file")))]
#[command(group(clap::ArgGroup::new("where").required(true).args(["interface", "positional"])))]
pub(crate) struct CaptureArgs {
    /// Interface: Ethernet, or lo; the same as -i
    #[arg(value_name = "INTERFACE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) positional: Option<String>,

    /// Interface to capture: Ethernet, or lo; may be repeated
    #[arg(short = 'i', long, value_name = "INTERFACE", value_parser = NonEmptyStringValueParser::new(), display_order = 1)]
    pub(crate) interface: Vec<String>,

    /// File to write, pcapng; - for stdout [default: INTERFACE.pcapng, of the first]
    #[arg(short = 'w', long = "write", value_name = "FILE", display_order = 2)]
    pub(crate) file: Option<PathBuf>,

    /// Overwrite a file that exists
    #[arg(long, display_order = 5)]
    pub(crate) force: bool,

    /// Start another file before one exceeds a size (from 1MiB) or a time (from 1s)
    ///
    /// Files are numbered then: trace.pcapng becomes trace-00001.pcapng and so on.
    #[arg(long, value_name = "SIZE|TIME", value_parser = rotate, display_order = 6)]
    pub(crate) rotate: Option<Rotate>,

    /// Remove the oldest files of --rotate, so that N are left: 2 to 99999
    ///
    /// Also when the disk is full. Frames that it has no room for even then are lost and counted, and the capture goes on.
    #[arg(long, value_name = "N", requires = "rotate", value_parser = clap::value_parser!(u32).range(2..=99_999), display_order = 6)]
    pub(crate) keep: Option<u32>,

    /// Keep frames that match, such as 'udp port 53'; needs tcpdump to compile it
    ///
    /// tcpdump runs as you, whatever --user says: under sudo as the user who called sudo, after a login as root as nobody.
    #[arg(long, value_name = "EXPR", display_order = 7)]
    pub(crate) filter: Option<String>,

    /// Keep frames by the program in a file, as 'tcpdump -ddd EXPR' prints it
    #[arg(long, value_name = "FILE", conflicts_with = "filter", hide_short_help = true, display_order = 8)]
    pub(crate) filter_code: Option<PathBuf>,

    /// Bytes to keep of each frame: 14 to 262144
    #[arg(long, value_name = "BYTES", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(14..=262_144), display_order = 9)]
    pub(crate) snaplen: u32,

    /// Only frames to and from this machine
    #[arg(long, display_order = 10)]
    pub(crate) no_promiscuous: bool,

    /// Longest time until a frame is in the file: 20us to 10s
    ///
    /// The ring is checked twice in this time; the rest is for the wake-up, and for writing. From 2ms on the kernel packs
    /// frames, if the ring has enough blocks for their time: it holds many more then, and costs less.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::positive_duration, help_heading = BUFFERS)]
    pub(crate) max_delay: Duration,

    /// Memory for frames that are not written yet, of each interface: 64KiB to 1GiB
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = units::bytes, help_heading = BUFFERS)]
    pub(crate) ring: u64,

    /// Write in a second thread, behind a queue of N frames that stops input when 3/4 full: 4 to 65536
    ///
    /// The network monitor of the livelock paper had a queue of 32. Without it frames wait in the ring, which is better.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=65_536), help_heading = BUFFERS, hide_short_help = true)]
    pub(crate) queue: Option<u32>,

    /// Become this user once the interface is open: a name or number [default: who called sudo, or nobody]
    ///
    /// root has no capabilities from then on either.
    #[arg(long, value_name = "USER", hide_short_help = true)]
    pub(crate) user: Option<String>,

    /// When it ends; it counts frames in the file.
    #[command(flatten)]
    pub(crate) end: EndArgs,

    #[command(flatten)]
    pub(crate) output: StreamArgs,
}

/// A run of `capture`.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    /// The names of the interfaces, at least one.
    pub(crate) interfaces: Vec<String>,
    /// The file to write frames to.
    pub(crate) sink: SinkConfig,
    /// The longest time until they are there.
    pub(crate) max_delay: Duration,
    /// The most bytes to keep of each frame.
    pub(crate) snap_length: u32,
    /// The filter that decides which frames are kept; without it, all.
    pub(crate) filter: Option<Filter>,
    /// The filter as it was typed.
    pub(crate) expression: Option<String>,
    /// Whether frames for other stations are captured, too.
    pub(crate) promiscuous: bool,
    /// The size of the ring in bytes.
    pub(crate) ring: u64,
    /// Whether the kernel was found to support no blocks.
    pub(crate) only_slots: bool,
    /// The capacity of the queue between the loop and the writer in frames; `None` without a second thread.
    pub(crate) queue: Option<u32>,
    /// The user to become.
    pub(crate) user: Option<User>,
    /// The end of the run.
    pub(crate) end: End,
    pub(crate) output: Output,
}

impl Capture {
    /// Interprets the arguments of `capture`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &CaptureArgs) -> Result<Self, Failure> {
        let CaptureArgs { max_delay, ring, .. } = *args;
        if !(SHORTEST_DELAY..=LONGEST_DELAY).contains(&max_delay) {
            let shown = show_duration(max_delay);
            return Err(Failure::usage(format_args!("--max-delay {shown}: 20us to 10s")));
        }
        if !(LEAST_RING..=MOST_RING).contains(&ring) {
            return Err(Failure::usage(format_args!("--ring {ring}B: 64KiB to 1GiB")));
        }
        let output = Output::from(&args.output);
        let interfaces: Vec<String> = args.interface.iter().chain(&args.positional).cloned().collect();
        check_interfaces(&interfaces)?;
        let first = interfaces.first().map_or("", String::as_str);
        let file = args.file.clone().unwrap_or_else(|| format!("{first}.pcapng").into());
        check_file(&file, args.rotate, &output)?;
        let user = to_become(args.user.as_deref())?;
        let filter = match (&args.filter, &args.filter_code) {
            (Some(expression), _) => Some(filter::of_expression(expression)?),
            (None, Some(path)) => Some(filter::of_file(path)?),
            (None, None) => None,
        };
        Ok(Capture {
            sink: SinkConfig {
                path: file,
                force: args.force,
                rotate: args.rotate,
                keep: args.keep,
                interfaces: interfaces.len(),
            },
            interfaces,
            max_delay,
            snap_length: args.snaplen,
            filter,
            expression: args.filter.clone(),
            promiscuous: !args.no_promiscuous,
            ring,
            only_slots: false,
            queue: args.queue,
            user,
            end: End::from(&args.end),
            output,
        })
    }
}

/// Returns the user to become: `named`, or if this is root, the caller of `sudo` or else nobody. `None` for no change.
///
/// # Errors
/// A usage failure if there is no such user, or if another one is wanted and this is not root.
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

/// Checks that no interface is named twice, and that one thread can serve all.
fn check_interfaces(names: &[String]) -> Result<(), Failure> {
    let twice = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name));
    if let Some((_, name)) = twice {
        return Err(Failure::usage(format_args!("-i {name}: named twice")));
    }
    if names.len() > MOST_INTERFACES {
        let given = names.len();
        return Err(Failure::usage(format_args!("-i: {given} interfaces; up to {MOST_INTERFACES}")));
    }
    Ok(())
}

/// Checks that not both frames and a report go to stdout.
fn check_file(file: &Path, rotate: Option<Rotate>, output: &Output) -> Result<(), Failure> {
    if file == Path::new("-") {
        let prints = output.json || output.stream || !output.assertions.is_empty();
        if prints || rotate.is_some() {
            return Err(Failure::usage(
                "-w -: stdout has the frames, so neither --json, --json-stream, --assert nor --rotate",
            ));
        }
        return Ok(());
    }
    if file.file_name().is_none() {
        return Err(Failure::usage(format_args!("-w '{}': not the name of a file", file.display())));
    }
    Ok(())
}

/// A group of flags.
const BUFFERS: &str = "Delay and buffers";

/// The shortest possible delay, since a wake-up takes that long.
const SHORTEST_DELAY: Duration = Duration::from_micros(20);
const LONGEST_DELAY: Duration = Duration::from_secs(10);
const MOST_INTERFACES: usize = 64;
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
  softtimers capture -i lo -t 10
  softtimers capture -i eth0 -w dns.pcapng --filter 'udp port 53' -t 1min
  softtimers capture -i eth0 -w heads.pcapng --snaplen 68 --rotate 64MiB
  softtimers capture -i eth0 -i eth1 -w both.pcapng --rotate 1GiB --keep 8
  softtimers capture -i eth0 -w - --max-delay 200us | tshark -r -
  softtimers capture -i eth0 -w t.pcapng -c 30000 --assert 'dropped.ring==0'

Exit codes:
   0  done, also by Ctrl-C, SIGTERM or SIGHUP; every --assert held
   1  an --assert did not hold, or the run broke off; the file is whole
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
