//! The arguments of `doctor`, and its plan.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use softtimers_measure::units;

use super::trial::{INTERVAL, METHODS};
use crate::args::OutputArgs;
use crate::run::output::Output;

/// `softtimers doctor`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = DOCTOR_EXAMPLES, next_help_heading = "Trials")]
pub(crate) struct DoctorArgs {
    /// Shorter trials: less than 10 s in all
    #[arg(long, conflicts_with = "duration")]
    pub(crate) quick: bool,

    /// Say whether this machine loses packets now, where, and what to change; no trials
    ///
    /// Two looks at the kernel's counters, 3 s apart or --duration: cards, softirq of each CPU, sockets. Receive livelock is
    /// named. Nothing is sent or changed.
    #[arg(long, conflicts_with_all = ["quick", "verbose", "idle_interval"])]
    pub(crate) receive: bool,

    /// The length of each trial.
    #[arg(long, value_name = "TIME", value_parser = units::run_time, help = trial_help())]
    pub(crate) duration: Option<Duration>,

    /// Requests that the busy loop of the full comparison handles in a row: 1 to 64; 1, 4, 16 and 64 are always tried
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) echo_batch: u16,

    /// Interval of the idle loop [default: 40us]; that of the busy loop is always 40us
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub(crate) idle_interval: Option<Duration>,

    /// Make the trials of the first N methods last; the report is in the same order
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    pub(crate) rotate: u32,

    /// Show all costs, what each kernel feature did, and why each method was late
    #[arg(long, short)]
    pub(crate) verbose: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The plan of `doctor`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Doctor {
    /// The length of each trial.
    pub(crate) trial_s: f64,
    /// Datagrams that the echo server receives at once.
    pub(crate) echo_batch: usize,
    /// The gap asked of the idle loop.
    pub(crate) idle_interval_ns: u64,
    /// The number of methods postponed to the end: the machine may change between the first and the last trial. The
    /// order of the report does not depend on it.
    pub(crate) rotate: usize,
    #[serde(skip)]
    pub(super) duration: Duration,
    #[serde(skip)]
    pub(super) idle_interval: Duration,
    #[serde(skip)]
    pub(super) verbose: bool,
    #[serde(skip)]
    pub(super) output: Output,
}

impl From<&DoctorArgs> for Doctor {
    fn from(args: &DoctorArgs) -> Self {
        let duration = args.duration.unwrap_or(if args.quick { QUICK_TRIAL } else { FULL_TRIAL });
        let idle_interval = args.idle_interval.unwrap_or(INTERVAL);
        Doctor {
            trial_s: duration.as_secs_f64(),
            echo_batch: usize::from(args.echo_batch),
            idle_interval_ns: u64::try_from(idle_interval.as_nanos()).unwrap_or(u64::MAX),
            rotate: args.rotate as usize % METHODS.len(),
            duration,
            idle_interval,
            verbose: args.verbose,
            output: Output::from(&args.output),
        }
    }
}

/// The default length of a trial.
pub(crate) const FULL_TRIAL: Duration = Duration::from_millis(1_000);
/// The length of a trial with `--quick`.
pub(crate) const QUICK_TRIAL: Duration = Duration::from_millis(200);

fn trial_help() -> String {
    let [full, quick] = [FULL_TRIAL, QUICK_TRIAL].map(units::show_duration);
    format!("Length of each trial [default: {full}, with --quick {quick}]")
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  softtimers doctor
  softtimers doctor --quick
  softtimers doctor --json > machine.json
  softtimers doctor --receive
  softtimers doctor --receive --duration 10s --assert 'lost==0'

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or a trial broke off
   2  bad usage or input
  77  not possible on this machine; the message says what is missing";
