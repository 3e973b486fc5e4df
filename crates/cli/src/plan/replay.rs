//! What `replay` will do: its recording read, and what is left of it.

use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;
use softtimers_core::PaceConfig;

use crate::args::{ReplayArgs, Timer};
use crate::failure::Failure;
use crate::file;
use crate::pattern::SendPattern;
use crate::recording::{self, Changed, Fit};
use crate::replay::Summary;
use crate::wire::{MAX_SIZE, MIN_SIZE};

use super::send::Traffic;
use super::{End, Phase, SendConfig, SendPlan, destination};

/// A run of `replay`.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplayPlan {
    /// The recording as it is sent.
    pub send: SendPlan,
    /// What it is like.
    pub summary: Summary,
    file: String,
    speed: f64,
    headers: Option<u32>,
}

impl ReplayPlan {
    /// Understands the arguments of `replay`, and reads the recording.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed, or the file and the byte.
    pub fn new(args: &ReplayArgs) -> Result<Self, Failure> {
        if args.engine.timer == Timer::Off {
            return Err(Failure::usage("--timer off: it would send nothing of the recording"));
        }
        // Before a long file is read.
        let destination = destination(&args.address)?;
        let fit = Fit { headers: args.headers, clamp: args.clamp, ..Fit::to(destination.ip()) };
        let file = args.file.to_string_lossy().into_owned();
        let recording = open(&args.file)
            .map_err(|error| Failure::usage(format_args!("file '{file}': {error}")))
            .and_then(|input| {
                recording::read(input, &fit)
                    .map_err(|error| Failure::usage(format_args!("file '{file}': {error}")))
            })?;
        let trace = recording.trace.at_speed(args.speed);
        let summary = Summary::new(&recording, &trace);
        let traffic = Traffic {
            pattern: SendPattern::Constant,
            pace: PaceConfig {
                burst_interval: args.burst_interval,
                catch_up: args.engine.catch_up,
                ..PaceConfig::new(trace.mean_rate())
            },
            size: trace.iter().map(|(_, length)| usize::from(length)).max().unwrap_or(MIN_SIZE),
            trace: Some(trace),
            flows: 1,
            phase: Phase::default(),
            train: None,
            quantum: 1,
            gso: true,
            end: End::from(&args.end),
        };
        Ok(ReplayPlan {
            send: SendPlan::driven(traffic, destination, &args.engine, &args.output)?,
            summary,
            file,
            speed: args.speed.as_f64(),
            headers: args.headers,
        })
    }

    /// What is not sent as it was recorded, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let Changed { lengthened, cut, out_of_order } = self.summary.changed;
        let notes = [
            (lengthened, format!("shorter than a header of ours; they are sent as its {MIN_SIZE} bytes")),
            (cut, format!("longer than a datagram; {MAX_SIZE} bytes of each are sent")),
            (out_of_order, "earlier than one before them; they leave right after it".to_owned()),
        ];
        let counted = notes.into_iter().filter(|&(count, _)| count > 0);
        counted.map(|(count, what)| format!("{count} of {} packets: {what}", self.summary.packets)).collect()
    }

    /// The configuration in effect, for the report.
    pub fn config(&self) -> ReplayConfig {
        ReplayConfig {
            file: self.file.clone(),
            speed: self.speed,
            headers_bytes: self.headers,
            send: self.send.config(),
        }
    }
}

/// The `config` object of `replay`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReplayConfig {
    /// The recording.
    pub file: String,
    /// How many times as fast as recorded.
    pub speed: f64,
    /// Bytes of each recorded length that are headers; `null` for those of the capture's link, IP and UDP.
    pub headers_bytes: Option<u32>,
    /// As of `send`: the rate and interval are the recording's mean, the size its longest.
    #[serde(flatten)]
    pub send: SendConfig,
}

fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    if path.as_os_str() == "-" { Ok(Box::new(io::stdin().lock())) } else { Ok(Box::new(file::open(path)?)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::handshake::may_go_unasked;
    use clap::Parser;

    fn plan(name: &str, text: &str, flags: &str) -> Result<ReplayPlan, String> {
        let path = std::env::temp_dir().join(format!("softtimers-plan-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let words = ["softtimers", "replay", path.to_str().unwrap(), "127.0.0.1:9"].into_iter();
        let words = words.chain(flags.split(' ').filter(|word| !word.is_empty()));
        let plan = match Cli::parse_from(words).command {
            Command::Replay(args) => ReplayPlan::new(&args).map_err(|failure| failure.to_string()),
            other => panic!("{other:?}"),
        };
        std::fs::remove_file(&path).unwrap();
        plan
    }

    /// `packets` of them so far apart, and one more an hour later.
    fn rush(packets: u64, micros: u64) -> String {
        let times = (0..packets).map(|number| number * micros).chain([3_600_000_000]);
        times.map(|time| format!("{time},100\n")).collect()
    }

    #[test]
    fn the_busiest_second_needs_consent_not_the_mean() {
        let asks = |name: &str, text: &str, flags: &str| {
            let plan = plan(name, text, flags).unwrap().send;
            assert!(plan.pace.mean_rate().packets_per_second() < 10.0);
            !may_go_unasked("192.0.2.1:9".parse().unwrap(), plan.highest_pps())
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
        assert_eq!((plan.send.size, plan.send.seed()), (1200, None));
        assert_eq!(plan.send.expected(), Some(std::time::Duration::from_micros(160)));
        let config = serde_json::to_value(plan.config()).unwrap();
        assert_eq!(
            (&config["target_interval_ns"], &config["target_pps"]),
            (&80_000.into(), &12_500.0.into())
        );
        assert_eq!((&config["pattern"], &config["speed"]), (&"recorded".into(), &0.5.into()));
        assert_eq!((&config["burst_interval_ns"], &config["count"]), (&45_000.into(), &2.into()));
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
