//! `doctor`: what timers cost on this machine, and whether softtimers would help.
//!
//! It measures rather than guesses, on loopback only and without privileges: the price of the
//! operations that a timer is made of, then the same paced stream by every method, from a loop that
//! is busy with an echo server and from one that is idle. The stream is judged by an independent
//! receiver's kernel timestamps, in another process.

mod costs;
mod table;
mod trial;
mod verdict;

use std::time::Duration;

use serde::Serialize;

use crate::args::{DoctorArgs, Timer};
use crate::failure::Failure;
use crate::machine::{Machine, Neighbours};
use crate::output::{Output, Run};
use crate::plan::End;
use crate::progress::Progress;

pub use costs::Costs;
pub use trial::{Cell, Load};
use trial::{Notes, Trial};

/// What `doctor` will do.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DoctorPlan {
    /// The length of each trial.
    pub trial_s: f64,
    /// Datagrams that the echo server takes in one go.
    pub echo_batch: usize,
    /// How many methods are put off to the end: what runs first meets another machine than what runs
    /// last. Results stand in the same order whatever this is.
    pub rotate: usize,
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
            rotate: args.rotate as usize % METHODS.len(),
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
    let example =
        DoctorReport { pacing: plan.trials().iter().map(Trial::blank).collect(), ..DoctorReport::default() };
    let blank = Run {
        machine: &machine,
        seed: None,
        config: plan,
        fallbacks: &[],
        inconclusive: None,
        report: &example,
    };
    plan.output.check_keys(&blank)?;

    let trials = 3 * METHODS.len() as u32;
    let expected = (plan.duration + TRIAL_OVERHEAD) * trials + COSTS_TAKE;
    let progress = Progress::start("examining", End { duration: Some(expected), count: None });
    let neighbours = Neighbours::watch();
    let costs = costs::measure().map_err(|error| Failure::broke_off("measuring costs", &error))?;
    let mut notes = Notes::default();
    let pacing = compare(plan, &mut notes)?;
    let interference = neighbours.so_far();
    drop(progress);

    let inconclusive = interference.inconclusive();
    let verdict = verdict::of(&costs, &pacing, inconclusive.is_some());
    plan.output.finish(&Run {
        machine: &machine.during(interference),
        seed: None,
        config: plan,
        fallbacks: &notes.sentences(),
        inconclusive,
        report: &DoctorReport { verdict, costs, pacing },
    })
}

/// Makes the trials, and returns their cells in the fixed order.
fn compare(plan: &DoctorPlan, notes: &mut Notes) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    for (place, trial) in plan.in_turn() {
        // Each has its baseline right beside it: a virtual machine's speed drifts by a fifth in seconds.
        let baseline = match trial.load {
            Load::Echo => Some(Trial { timer: Timer::Off, ..trial }.baseline(notes)?),
            Load::None => None,
        };
        cells.push((place, trial.run(baseline, notes)?));
    }
    cells.sort_by_key(|&(place, _)| place);
    Ok(cells.into_iter().map(|(_, cell)| cell).collect())
}

impl DoctorPlan {
    /// The trials in the order of the report, without the baselines.
    fn trials(&self) -> Vec<Trial> {
        let (duration, echo_batch) = (self.duration, self.echo_batch);
        let loads = [(Load::Echo, BUSY_INTERVAL), (Load::None, IDLE_INTERVAL)];
        let trials = loads.into_iter().flat_map(|(load, interval)| {
            METHODS.map(|timer| Trial { timer, load, interval, duration, echo_batch })
        });
        trials.collect()
    }

    /// The trials in the order in which they are made, with their places in the report.
    fn in_turn(&self) -> Vec<(usize, Trial)> {
        let mut trials: Vec<(usize, Trial)> = self.trials().into_iter().enumerate().collect();
        trials.chunks_mut(METHODS.len()).for_each(|load| load.rotate_left(self.rotate));
        trials
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn order(words: &str) -> Vec<usize> {
        match Cli::parse_from(format!("softtimers doctor {words}").split_whitespace()).command {
            Command::Doctor(args) => {
                DoctorPlan::from(&args).in_turn().into_iter().map(|(place, _)| place).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_method_is_the_first_in_some_round() {
        assert_eq!(order(""), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(order("--rotate 2"), [2, 3, 4, 0, 1, 7, 8, 9, 5, 6]);
        assert_eq!(order("--rotate 7"), order("--rotate 2"));
        assert_eq!(order("--rotate 4294967295").len(), 10);
    }
}
