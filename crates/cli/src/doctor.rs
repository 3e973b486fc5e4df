//! `doctor`: what timers cost on this machine, and whether softtimers would help.
//!
//! It measures rather than guesses, on loopback only and without privileges: the price of the
//! operations that a timer is made of, then the same paced stream by every method, from a loop that
//! is busy with an echo server and from one that is idle. The stream is judged by an independent
//! receiver's kernel timestamps, in another process.

mod costs;
mod trial;
mod verdict;

use std::time::Duration;

use serde::Serialize;

use crate::args::{DoctorArgs, Timer};
use crate::failure::Failure;
use crate::machine::{Machine, Neighbours};
use crate::output::{Output, Report, Run, Table};
use crate::plan::End;
use crate::progress::Progress;
use crate::units::show_duration;

pub use costs::Costs;
use trial::Trial;
pub use trial::{Cell, Load};

/// What `doctor` will do.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DoctorPlan {
    /// The length of each trial.
    pub trial_s: f64,
    /// Datagrams that the echo server takes in one go.
    pub echo_batch: usize,
    #[serde(skip)]
    duration: Duration,
    #[serde(skip)]
    output: Output,
}

impl From<&DoctorArgs> for DoctorPlan {
    fn from(args: &DoctorArgs) -> Self {
        let duration = args.duration.unwrap_or(if args.quick { QUICK_TRIAL } else { FULL_TRIAL });
        DoctorPlan {
            trial_s: duration.as_secs_f64(),
            echo_batch: usize::from(args.echo_batch),
            duration,
            output: Output::from(&args.output),
        }
    }
}

/// The keys of `doctor`'s object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct DoctorReport {
    /// Prices of single operations.
    pub costs: Costs,
    /// The same stream by every method.
    pub pacing: Vec<Cell>,
    /// What follows from it, in one sentence.
    pub verdict: String,
}

/// Examines the machine and prints what was found.
///
/// # Errors
/// If a trial cannot be started, or an assertion does not hold.
pub fn run(plan: &DoctorPlan) -> Result<(), Failure> {
    let machine = Machine::read();
    let example = DoctorReport { pacing: vec![Cell::default()], ..DoctorReport::default() };
    let blank = Run { machine: &machine, config: plan, fallbacks: &[], inconclusive: None, report: &example };
    plan.output.check_keys(&blank)?;

    let trials = 3 * METHODS.len() as u32;
    let expected = (plan.duration + TRIAL_OVERHEAD) * trials + COSTS_TAKE;
    let progress = Progress::start("examining", End { duration: Some(expected), count: None });
    let neighbours = Neighbours::watch();
    let costs = costs::measure().map_err(|error| Failure::broke_off("measuring costs", &error))?;
    let pacing = compare(plan)?;
    let interference = neighbours.so_far();
    drop(progress);

    let report = DoctorReport { verdict: verdict::of(&costs, &pacing), costs, pacing };
    plan.output.finish(&Run {
        machine: &machine.during(interference),
        config: plan,
        fallbacks: &[],
        inconclusive: interference.inconclusive(),
        report: &report,
    })
}

fn compare(plan: &DoctorPlan) -> Result<Vec<Cell>, Failure> {
    let trial = |timer, load, interval| Trial {
        timer,
        load,
        interval,
        duration: plan.duration,
        echo_batch: plan.echo_batch,
    };
    let mut cells = Vec::new();
    for timer in METHODS {
        // Each has its baseline right beside it: a virtual machine's speed drifts by a fifth in seconds.
        let baseline = trial(Timer::Off, Load::Echo, BUSY_INTERVAL).baseline()?;
        cells.push(trial(timer, Load::Echo, BUSY_INTERVAL).run(Some(&baseline))?);
    }
    for timer in METHODS {
        cells.push(trial(timer, Load::None, IDLE_INTERVAL).run(None)?);
    }
    Ok(cells)
}

impl Report for DoctorReport {
    const SCHEMA: &'static str = "softtimers.doctor/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        self.costs.add_to(&mut table);
        for cell in &self.pacing {
            let load = match cell.busy {
                Load::Echo => "busy",
                Load::None => "idle",
            };
            let gap = show_duration(Duration::from_nanos(cell.target_gap_ns));
            table.row(&format!("{load} {gap} {}", cell.method_name()), cell.line());
        }
        table.row("verdict", &self.verdict);
        table
    }
}

const METHODS: [Timer; 5] = [Timer::Soft, Timer::Loop, Timer::Pwait2, Timer::Timerfd, Timer::Ms];
/// 25,000 packets/s: one flow of full-sized packets at 300 Mbit/s.
const BUSY_INTERVAL: Duration = Duration::from_micros(40);
/// Full-sized packets at 100 Mbit/s: well above the cost of a wake-up, so that sleeping can work.
const IDLE_INTERVAL: Duration = Duration::from_micros(120);
const FULL_TRIAL: Duration = Duration::from_millis(1_500);
const QUICK_TRIAL: Duration = Duration::from_millis(250);
const TRIAL_OVERHEAD: Duration = Duration::from_millis(350);
const COSTS_TAKE: Duration = Duration::from_secs(1);
