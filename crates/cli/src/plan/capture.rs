//! What a run of `capture` will do.

use std::path::Path;
use std::time::Duration;

use softtimers::packet::Filter;
use softtimers_measure::failure::Failure;
use softtimers_measure::units::show_duration;

use super::End;
use crate::args::CaptureArgs;
use crate::capture::filter;
use crate::capture::privileges::to_become;
use crate::capture::sink::SinkConfig;
use crate::output::Output;
use crate::user::User;

/// A run of `capture`.
#[derive(Clone, Debug)]
pub struct CapturePlan {
    /// The interface's name.
    pub interface: String,
    /// Where frames go.
    pub sink: SinkConfig,
    /// The longest until they are there.
    pub max_delay: Duration,
    /// What is kept of each.
    pub snap_length: u32,
    /// Which are kept; without it, all.
    pub filter: Option<Filter>,
    /// The filter as it was typed.
    pub expression: Option<String>,
    /// Frames for others, too.
    pub promiscuous: bool,
    /// Bytes.
    pub ring: u64,
    /// Frames between the loop and the writer; without it there is no writer.
    pub queue: Option<u32>,
    /// Whom to become.
    pub user: Option<User>,
    /// When it ends.
    pub end: End,
    /// How to print the report.
    pub output: Output,
}

impl CapturePlan {
    /// Understands the arguments of `capture`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub fn new(args: &CaptureArgs) -> Result<Self, Failure> {
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
            (Some(expression), _) => Some(filter::of_expression(expression, user)?),
            (None, Some(path)) => Some(filter::of_file(path)?),
            (None, None) => None,
        };
        Ok(CapturePlan {
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
