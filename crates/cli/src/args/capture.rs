//! What `capture` is asked for.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use softtimers_measure::units;

use super::{EndArgs, StreamArgs};
use crate::capture::sink::Rotate;

/// `softtimers capture`.
///
/// Frames that an interface receives and sends, with the kernel's times in nanoseconds. What is lost is counted at
/// each place, and written into the file. It needs CAP_NET_RAW to open the interface, and gives up all privileges
/// then. Without --duration or --count it ends with Ctrl-C.
#[derive(Args, Debug, Clone)]
#[command(after_help = CAPTURE_EXAMPLES)]
pub struct CaptureArgs {
    /// The interface: Ethernet, or lo
    #[arg(value_name = "INTERFACE", value_parser = NonEmptyStringValueParser::new())]
    pub interface: String,

    /// The file, of pcapng; '-' for stdout
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub file: PathBuf,

    /// Write over a file that exists
    #[arg(long)]
    pub force: bool,

    /// The longest until a frame is in the file, from 20us to 10s
    ///
    /// Half of it is the time between two looks at the ring; the rest is for the wake-up, and for writing.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::positive_duration)]
    pub max_delay: Duration,

    /// Keep so many bytes of each frame
    #[arg(long, value_name = "BYTES", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(14..=262_144))]
    pub snaplen: u32,

    /// Keep frames of which this is true, such as 'udp port 53'; tcpdump compiles it, so that must be installed
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,

    /// Keep frames by the program in a file, as 'tcpdump -ddd EXPR' prints it
    #[arg(long, value_name = "FILE", conflicts_with = "filter")]
    pub filter_code: Option<PathBuf>,

    /// Only frames for this machine, and from it
    #[arg(long)]
    pub no_promiscuous: bool,

    /// Memory for frames that wait to be looked at, from 64KiB to 1GiB
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = units::bytes)]
    pub ring: u64,

    /// Write by a thread of its own, behind a queue of so many frames, which stops input when three quarters are used
    ///
    /// The network monitor of the livelock paper had one of 32. Without it frames wait in the ring, which is better.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=65_536))]
    pub queue: Option<u32>,

    /// Begin another file before one is longer than a size (from 1MiB), or after a time (from 1s)
    ///
    /// All are numbered then: trace.pcapng stands for trace-00001.pcapng and so on.
    #[arg(long, value_name = "SIZE|TIME", value_parser = rotate)]
    pub rotate: Option<Rotate>,

    /// Become this user once the interface is open, by name or number [default: who called sudo, or nobody]
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,

    /// When it ends; what is counted are frames in the file.
    #[command(flatten)]
    pub end: EndArgs,

    /// How to print.
    #[command(flatten)]
    pub output: StreamArgs,
}

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
