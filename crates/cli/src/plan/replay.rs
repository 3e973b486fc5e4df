//! What `replay` will do: its recording read, and what is left of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;
use softtimers_core::PaceConfig;

use crate::args::{ReplayArgs, Timer};
use crate::failure::Failure;
use crate::pattern::SendPattern;
use crate::recording::{self, Changed, Fit};
use crate::replay::Summary;
use crate::wire::{MAX_SIZE, MIN_SIZE};

use super::{End, SendConfig, SendPlan, Traffic, destination};

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
            end: End { duration: args.duration, count: args.count },
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
            (
                lengthened,
                format!("shorter than the {MIN_SIZE} bytes of a header of ours; they are sent as that"),
            ),
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
    if path.as_os_str() == "-" { Ok(Box::new(io::stdin().lock())) } else { Ok(Box::new(File::open(path)?)) }
}
