//! `doctor --receive`: is this machine losing packets now, or in receive livelock; where, and what to change?
//!
//! The kernel counts each packet that it drops at the place where it does. Two looks at these counters, some seconds
//! apart, say what is lost now:
//!
//! ```text
//!   card ──▶ ring ──▶ softirq: backlog of each CPU ──▶ socket's buffer ──▶ program
//!            └ missed          └ dropped, squeezed     └ RcvbufErrors, backlog, listen queue
//!            cheap: nothing was done yet               expensive: all the kernel's work was for nothing
//! ```
//!
//! Livelock (Mogul and Ramakrishnan 1997) is when a CPU receives packets most of its time, and most of them are dropped
//! afterwards.

mod counters;
mod diagnosis;
mod report;
mod show;

use std::path::Path;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use softtimers::{Clock, Monotonic};
use softtimers_measure::failure::Failure;
use softtimers_net::napi::Napi;

use super::args::DoctorArgs;
use crate::run::output::Output;
use crate::run::quantity::setting;
use crate::run::{Command, Disturbance, Outcome, Run};

use counters::Snapshot;
pub(crate) use report::ReceiveReport;

/// The plan of `doctor --receive`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Receive {
    /// The time between the two looks.
    pub(crate) watch_s: f64,
    #[serde(skip)]
    watch: Duration,
    #[serde(skip)]
    output: Output,
}

impl From<&DoctorArgs> for Receive {
    fn from(args: &DoctorArgs) -> Self {
        let watch = args.duration.unwrap_or(WATCH);
        Receive { watch_s: watch.as_secs_f64(), watch, output: Output::from(&args.output) }
    }
}

impl Command for Receive {
    type Config = Receive;
    type Report = ReceiveReport;
    /// What others do is what is asked about.
    const DISTURBED_BY: Disturbance = Disturbance::Nobody;
    const FIELDS: &'static str = include_str!("fields.txt");

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> Receive {
        self.clone()
    }

    fn header(&self) -> String {
        format!("doctor: what this machine receives and loses, for {}", setting(self.watch))
    }

    fn example(&self) -> ReceiveReport {
        ReceiveReport::example()
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<ReceiveReport>, Failure> {
        let read = || {
            Snapshot::read(Path::new("/"))
                .map_err(|error| Failure::broke_off("reading the kernel's counters", &error))
        };
        let _progress = run.begin(self, "watching", Some(self.watch));
        let interrupt = run.interrupt()?;
        let (begin, before) = (Monotonic.now(), read()?);
        while !interrupt.arrived() && Monotonic.now() < begin + self.watch {
            thread::park_timeout(STEP);
        }
        let span = Monotonic.now().saturating_duration_since(begin);
        let mut after = read()?;
        if let Ok(queues) = Napi::all() {
            after = after.with_pollable(&queues);
        }
        Ok(Outcome::of(diagnosis::diagnose(&before, &after, span)))
    }
}

/// The time between the two looks, unless `--duration` says otherwise: rare drops show, and nobody waits long.
const WATCH: Duration = Duration::from_secs(3);
/// How often it looks for Ctrl-C.
const STEP: Duration = Duration::from_millis(50);
