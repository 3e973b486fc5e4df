//! The arguments of `replay`.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use softtimers_core::{PaceConfig, Recovery, Speed};
use softtimers_load::plan::{SendConfig, SendPlan};
use softtimers_load::recording::{self, Changed, Fit};
use softtimers_load::replay::Summary;
use softtimers_load::traffic::{End, Traffic};
use softtimers_load::wire::{MAX_SIZE, MIN_SIZE};
use softtimers_measure::failure::Failure;
use softtimers_measure::units;

use crate::commands::send::engine::{EngineArgs, PACING, TRAFFIC};
use crate::run::output::Output;
use crate::run::privileges::user::exceeds_caller;
use crate::{address, file};

/// `softtimers replay`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = REPLAY_EXAMPLES, next_help_heading = TRAFFIC)]
#[command(mut_arg("duration", |arg| arg.help("Stop after this time: 10 (seconds), 500ms, 2min [default: the end of the recording]")))]
#[command(mut_arg("count", |arg| arg.help("Stop after N datagrams")))]
#[command(mut_arg("catch_up", |arg| arg.default_value("all").help("Skip packets later than TIME; none skips all late ones, all skips nothing").long_help(CATCH_UP)))]
pub(crate) struct ReplayArgs {
    /// Recording: a pcap or pcapng file, or lines of t_us,len; - for standard input
    ///
    /// t_us is a time in microseconds, len the bytes of UDP payload. Only differences of times count.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Destination: IP:PORT, [IPv6]:PORT or NAME:PORT
    ///
    /// One host: broadcast and multicast addresses are refused, and a link-local one names its interface: [fe80::1%eth0]:9000. If more than 1,000 packets within any second go to another
    /// machine, a `softtimers recv` there must agree first, unless --no-handshake is given.
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,

    /// Times as fast as it was recorded: 0.001x to 1000x
    #[arg(long, value_name = "FACTOR", default_value = "1x", value_parser = units::speed, display_order = 1)]
    pub(crate) speed: Speed,

    /// Cut packets that are too long for a datagram, instead of refusing the recording
    #[arg(long, display_order = 6)]
    pub(crate) clamp: bool,

    /// Header bytes in each recorded length, to leave out [default: link, IP and UDP headers]
    ///
    /// The default makes a datagram as long on the wire as its packet was: of a capture it is the header of its link, 20
    /// bytes of IP (40 to an IPv6 address) and 8 of UDP. Lines of t_us,len have none.
    #[arg(long, value_name = "BYTES", hide_short_help = true, display_order = 7)]
    pub(crate) headers: Option<u32>,

    /// A capture that ends in the middle of a packet, as one that is still being written: refuse it, or keep its whole packets
    #[arg(long, value_enum, value_name = "WHAT", default_value_t, hide_short_help = true, display_order = 9)]
    pub(crate) damaged: Damaged,

    /// Payload bytes of each datagram that a longer packet is split into: 512 to 65507
    ///
    /// For captures made on a machine that cuts or joins packets in its kernel or its interface (UDP_SEGMENT, TSO, GRO): one frame
    /// there is many packets on the wire, and nothing in the capture says how long they were. QUIC mostly sends 1200 to
    /// 1472 bytes. The datagrams of a packet are due at its time.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(i64::from(Fit::LEAST_SEGMENT)..=MAX_SIZE as i64), hide_short_help = true, display_order = 8)]
    pub(crate) segment: Option<u16>,

    /// Shortest time between datagrams when catching up [default: 9/16 of the mean gap around them]
    ///
    /// At most the mean gap of the recording. Shorter gaps of the recording are kept as they are. By default each 0.1 s of
    /// the recording has its own, so that a delay is made up within 1.3 times its length and 0.2 s.
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration, help_heading = PACING, hide_short_help = true)]
    pub(crate) burst_interval: Option<Duration>,

    /// The options of the engine. The run ends with the recording, if not before.
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

const CATCH_UP: &str = "\
Skip packets later than TIME; none skips all late ones, all skips nothing

By default packets are late rather than lost: a sender that fell behind sends them all. With a time it sends the packets \
that are late by at most this much, and skips the others. none: skip everything late. all: send everything, however late.";

/// The treatment of a capture that ends in the middle of a packet.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Damaged {
    /// Nothing is sent
    #[default]
    Refuse,
    /// The packets before it are sent
    Keep,
}

/// A run of `replay`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Replay {
    /// The recording as it is sent.
    pub(crate) send: SendPlan,
    /// The summary of the recording.
    pub(crate) summary: Summary,
    file: String,
    speed: f64,
    headers: Option<u32>,
    segment: Option<u16>,
    pub(crate) output: Output,
}

impl Replay {
    /// Interprets the arguments of `replay`, and reads the recording.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed, or the file and the byte.
    pub(crate) fn new(args: &ReplayArgs) -> Result<Self, Failure> {
        let ReplayArgs { file, address, speed, clamp, headers, damaged, segment, burst_interval, engine } =
            args;
        let timer = engine.timer();
        if !timer.sends() {
            return Err(Failure::usage(format_args!(
                "--timer {timer}: it would send nothing of the recording"
            )));
        }
        // Before a long file is read.
        let destination = address::destination(address)?;
        let fit = Fit {
            headers: *headers,
            clamp: *clamp,
            segment: *segment,
            keeps_whole: *damaged == Damaged::Keep,
            quotes: !exceeds_caller(),
            ..Fit::to(destination.ip())
        };
        let name = file.to_string_lossy().into_owned();
        let recording = open(file)
            .map_err(|error| Failure::usage(format_args!("file '{name}': {error}")))
            .and_then(|input| {
                recording::read(input, &fit)
                    .map_err(|error| Failure::usage(format_args!("file '{name}': {error}")))
            })?;
        let trace = recording.trace.at_speed(*speed);
        let summary = Summary::new(&recording, &trace);
        let mean = trace.mean_rate();
        let traffic = Traffic {
            pace: PaceConfig {
                burst_interval: *burst_interval,
                catch_up: engine.catch_up,
                // The other timers stay as simple as they are.
                recovery: if timer.has_trigger_states() { Traffic::RECOVERY } else { Recovery::NONE },
                ..PaceConfig::new(mean)
            },
            size: trace.iter().map(|(_, length)| usize::from(length)).max().unwrap_or(MIN_SIZE),
            trace: Some(trace),
            end: End::from(&engine.end),
            ..Traffic::new(mean)
        };
        Ok(Replay {
            send: engine.plan(traffic, destination)?,
            summary,
            file: name,
            speed: speed.as_f64(),
            headers: *headers,
            segment: *segment,
            output: Output::from(&engine.output),
        })
    }

    /// Names the packets that are not sent as recorded, one sentence each.
    pub(crate) fn notes(&self) -> Vec<String> {
        // What is split is as asked for.
        let Changed { lengthened, cut, split: _, oversized, out_of_order, cut_off } = self.summary.changed;
        let notes = [
            (lengthened, format!("shorter than a header of ours; they are sent as its {MIN_SIZE} bytes")),
            (cut, format!("longer than a datagram; {MAX_SIZE} bytes of each are sent")),
            (
                oversized,
                "longer than an Ethernet frame; segmentation by the machine that captured them (UDP_SEGMENT, TSO, GRO) makes \
                 one frame of many packets: --segment BYTES splits them"
                    .to_owned(),
            ),
            (out_of_order, "earlier than one before them; they leave right after it".to_owned()),
        ];
        let counted = notes.into_iter().filter(|&(count, _)| count > 0);
        let end = cut_off.then(|| "the file ends in the middle of a packet, which is not sent".to_owned());
        let counted =
            counted.map(|(count, what)| format!("{count} of {} packets: {what}", self.summary.packets));
        counted.chain(end).collect()
    }

    /// Returns the configuration in effect, for the report.
    pub(crate) fn configuration(&self) -> ReplayConfig {
        ReplayConfig {
            file: self.file.clone(),
            speed: self.speed,
            headers_bytes: self.headers,
            segment_bytes: self.segment,
            send: self.send.config(),
        }
    }
}

/// The `config` object of `replay`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct ReplayConfig {
    /// The file of the recording.
    pub(crate) file: String,
    /// The speed, relative to the recorded one.
    pub(crate) speed: f64,
    /// Bytes of each recorded length that are headers; `null` for those of the capture's link, IP and UDP.
    pub(crate) headers_bytes: Option<u32>,
    /// Payload of the datagrams that a longer packet is split into; `null` if none is.
    pub(crate) segment_bytes: Option<u16>,
    /// The keys of `send`: rate and interval are the recording's mean, the size its longest.
    #[serde(flatten)]
    pub(crate) send: SendConfig,
}

fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    if path.as_os_str() == "-" { Ok(Box::new(io::stdin().lock())) } else { Ok(Box::new(file::open(path)?)) }
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  softtimers recv 127.0.0.1:9000 --once &
  softtimers replay call.pcapng 127.0.0.1:9000
  softtimers replay call.pcap 127.0.0.1:9000 --speed 2x -t 30
  softtimers replay call.pcap 127.0.0.1:9000 --catch-up 10ms
  softtimers replay game.csv 127.0.0.1:9000 --json --assert 'skew_ns<1000000'
  tcpdump -r big.pcap -w - port 5004 | softtimers replay - 127.0.0.1:9000

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, the run broke off, or nobody received it
   2  bad usage or input, such as a damaged file; nothing was sent
  77  not possible on this machine; the message says what is missing";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Cli, Command};
    use clap::Parser;
    use softtimers_load::handshake::may_go_unasked;

    fn plan(name: &str, text: &str, flags: &str) -> Result<Replay, String> {
        let path = std::env::temp_dir().join(format!("softtimers-plan-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let words = ["softtimers", "replay", path.to_str().unwrap(), "127.0.0.1:9"].into_iter();
        let words = words.chain(flags.split(' ').filter(|word| !word.is_empty()));
        let plan = match Cli::parse_from(words).command {
            Command::Replay(args) => Replay::new(&args).map_err(|failure| failure.to_string()),
            other => panic!("{other:?}"),
        };
        std::fs::remove_file(&path).unwrap();
        plan
    }

    /// `packets` datagrams at this distance, and one more an hour later.
    fn rush(packets: u64, micros: u64) -> String {
        let times = (0..packets).map(|number| number * micros).chain([3_600_000_000]);
        times.map(|time| format!("{time},100\n")).collect()
    }

    #[test]
    fn the_busiest_second_needs_consent_not_the_mean() {
        let asks = |name: &str, text: &str, flags: &str| {
            let plan = plan(name, text, flags).unwrap().send;
            assert!(plan.traffic.pace.mean_rate().packets_per_second() < 10.0);
            !may_go_unasked("192.0.2.1:9".parse().unwrap(), plan.traffic.highest_pps())
        };
        assert!(!asks("even", &rush(5_000, 1_000), ""));
        assert!(asks("fast", &rush(5_000, 999), ""));
        assert!(asks("faster", &rush(5_000, 1_000), "--speed 1.001x"));
        assert!(!asks("slower", &rush(5_000, 999), "--speed 0.9x"));
        assert!(!asks("short", &rush(1_000, 1), ""));
        assert!(asks("shorter", &rush(1_001, 0), ""));
    }

    #[test]
    fn a_recording_decides_rate_and_size() {
        let plan = plan("sizes", "0,100\n30,1200\n80,40\n", "--speed 0.5x --count 2").unwrap();
        assert_eq!((plan.send.traffic.size, plan.send.traffic.seed()), (1200, None));
        assert_eq!(plan.send.traffic.expected(), Some(std::time::Duration::from_micros(160)));
        let config = serde_json::to_value(plan.configuration()).unwrap();
        assert_eq!(
            (&config["target_interval_ns"], &config["target_pps"]),
            (&80_000.into(), &12_500.0.into())
        );
        assert_eq!((&config["pattern"], &config["speed"]), (&"recorded".into(), &0.5.into()));
        assert_eq!((&config["burst_interval_ns"], &config["count"]), (&serde_json::Value::Null, &2.into()));
        assert_eq!((plan.summary.packets, plan.summary.bytes), (3, 1340));
        assert!(plan.notes().is_empty());
    }

    #[test]
    fn one_packet_has_a_plan_too() {
        let plan = plan("one", "7,20", "").unwrap();
        assert_eq!((plan.summary.packets, plan.summary.peak_pps, plan.summary.span_s), (1, 1, 0.0));
        assert_eq!(
            plan.notes(),
            ["1 of 1 packets: shorter than a header of ours; they are sent as its 32 bytes"]
        );
    }
}
