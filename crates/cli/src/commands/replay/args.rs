//! What `replay` is asked for.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use softtimers_core::Speed;

use super::{EndArgs, EngineArgs, StreamArgs};
use crate::units;

/// `softtimers replay`.
///
/// One UDP flow whose datagrams leave at the times of the recorded packets and are as long on the wire:
/// not the packets themselves, whose addresses, ports and contents are not even read.
#[derive(Args, Debug, Clone)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayArgs {
    /// The recording: a pcap or pcapng file, or lines of t_us,len; - for standard input
    ///
    /// t_us is a time in microseconds, len the bytes of UDP payload. Only differences of times count.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Where to send: IP:PORT or NAME:PORT of one host
    ///
    /// An IPv6 address stands in brackets. Broadcast and multicast addresses are refused. If more than 1,000
    /// packets within any second go to another machine, a `softtimers recv` there must agree first.
    #[arg(value_name = "ADDR")]
    pub address: String,

    /// How many times as fast as it was recorded: 0.001x to 1000x
    #[arg(long, value_name = "FACTOR", default_value = "1x", value_parser = units::speed)]
    pub speed: Speed,

    /// Bytes of each recorded length that are headers and not payload
    ///
    /// [default: of a capture the header of its link, 20 bytes of IP (to an IPv6 address 40) and 8 of UDP, so
    /// that a datagram is as long on the wire as its packet was; of t_us,len none]
    #[arg(long, value_name = "BYTES")]
    pub headers: Option<u32>,

    /// Cut packets that are too long for a datagram, instead of refusing the recording
    #[arg(long)]
    pub clamp: bool,

    /// The shortest time between datagrams when catching up [default: 9/16 of the mean gap]
    ///
    /// At most the mean gap. Gaps of the recording that are shorter are kept as they are.
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub burst_interval: Option<Duration>,

    /// When it ends, if not with the recording.
    #[command(flatten)]
    pub end: EndArgs,

    /// How the run is driven.
    #[command(flatten)]
    pub engine: EngineArgs,

    /// How to print.
    #[command(flatten)]
    pub output: StreamArgs,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  softtimers recv 127.0.0.1:9000 --once &
  softtimers replay call.pcapng 127.0.0.1:9000
  softtimers replay call.pcap 127.0.0.1:9000 --speed 2x --catch-up none
  softtimers replay game.csv 127.0.0.1:9000 --json --assert 'skew_ns<1000000'
  tcpdump -r big.pcap -w - port 5004 | softtimers replay - 127.0.0.1:9000

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input, such as a damaged file; nothing was sent
  77  not possible on this machine; the message says what is missing";
