//! `doctor`: what timers cost on this machine, and whether softtimers would help.
//!
//! It measures rather than guesses, on loopback only and without privileges: the price of the
//! operations that a timer is made of, then the same paced stream by every method, from a loop that
//! is busy with an echo server and from one that is idle. Each busy trial has its baseline, the same
//! loop without pacing, right before or after it. The stream is judged by an independent
//! receiver's kernel timestamps, in another process.

mod costs;
pub mod features;
mod range;
mod strip;
mod table;
mod trial;
mod verdict;

use std::time::Duration;

use serde::Serialize;

use crate::args::{DoctorArgs, FULL_TRIAL, QUICK_TRIAL, Timer};
use crate::output::{Output, Run};
use crate::progress::Progress;

pub use costs::Costs;
use features::Found;
pub use range::UsefulRange;
use softtimers_measure::class::Class;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::machine::{Machine, Neighbours};
pub use trial::{Cell, Load};
use trial::{Notes, Trial};

/// What `doctor` will do.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DoctorPlan {
    /// The length of each trial.
    pub trial_s: f64,
    /// Datagrams that the echo server takes in one go.
    pub echo_batch: usize,
    /// The gap asked of the idle loop.
    pub idle_interval_ns: u64,
    /// How many methods are put off to the end: what runs first meets another machine than what runs
    /// last. Results stand in the same order whatever this is.
    pub rotate: usize,
    #[serde(skip)]
    duration: Duration,
    #[serde(skip)]
    idle_interval: Duration,
    #[serde(skip)]
    output: Output,
}

impl From<&DoctorArgs> for DoctorPlan {
    fn from(args: &DoctorArgs) -> Self {
        let duration = args.duration.unwrap_or(if args.quick { QUICK_TRIAL } else { FULL_TRIAL });
        let idle_interval = args.idle_interval.unwrap_or(INTERVAL);
        DoctorPlan {
            trial_s: duration.as_secs_f64(),
            echo_batch: usize::from(args.echo_batch),
            idle_interval_ns: u64::try_from(idle_interval.as_nanos()).unwrap_or(u64::MAX),
            rotate: args.rotate as usize % METHODS.len(),
            duration,
            idle_interval,
            output: Output::from(&args.output),
        }
    }
}

/// The keys of `doctor`'s object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct DoctorReport {
    /// Prices of single operations.
    pub costs: Costs,
    /// What of the kernel works.
    pub features: Vec<Found>,
    /// Between which intervals soft events are the right tool.
    pub useful_range: UsefulRange,
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
    let example = DoctorReport {
        features: features::blank(),
        pacing: plan.trials().iter().map(Trial::blank).collect(),
        ..DoctorReport::default()
    };
    let blank = Run {
        machine: &machine,
        seed: None,
        config: plan,
        fallbacks: &[],
        inconclusive: None,
        report: &example,
    };
    plan.output.check_keys(&blank)?;

    // Busy and idle, and a baseline for every two of the busy ones.
    let trials = 5 * METHODS.len() as u32 / 2;
    let expected = (plan.duration + TRIAL_OVERHEAD) * trials + COSTS_TAKE;
    let progress = Progress::start("examining", Some(expected));
    let interrupt =
        Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
    let neighbours = Neighbours::watch();
    let costs = costs::measure().map_err(|error| Failure::broke_off("measuring costs", &error))?;
    let features = features::all(&interrupt);
    let mut notes = Notes::default();
    let pacing = compare(plan, &mut notes, &interrupt)?;
    let interference = neighbours.so_far();
    drop(progress);

    let inconclusive = interference.inconclusive();
    let is_server = |cell: &&Cell| cell.busy == Load::Echo && cell.method == "soft";
    let server = pacing.iter().find(is_server).filter(|cell| cell.not_made.is_none());
    let useful_range = range::useful(&costs, server.map(|cell| &cell.trigger_interval_ns));
    let verdict = if interrupt.arrived() {
        "interrupted, so no verdict".to_owned()
    } else {
        verdict::of(&costs, &pacing, inconclusive.is_some())
    };
    plan.output.finish(&Run {
        machine: &machine.during(interference),
        seed: None,
        config: plan,
        fallbacks: &notes.sentences(),
        inconclusive,
        report: &DoctorReport { verdict, useful_range, costs, features, pacing },
    })
}

/// Makes the trials until a signal arrives, and returns the cells of all of them in the fixed order.
fn compare(plan: &DoctorPlan, notes: &mut Notes, interrupt: &Interrupt) -> Result<Vec<Cell>, Failure> {
    let class = Class::current();
    let mut cells = Vec::new();
    for neighbours in plan.in_turn().chunks(2) {
        // The baseline stands between the two: a virtual machine's speed drifts by a fifth in seconds.
        let mut baseline = None;
        let mut pair = Vec::new();
        for &(place, trial) in neighbours {
            if trial.timer == Timer::Spin && !class.may_spin() {
                pair.push((place, trial.not_made(format!("{class}, so it must not spin"))));
                continue;
            }
            let cell = unless_interrupted(interrupt, || trial.run(notes))?;
            pair.push((place, cell.unwrap_or_else(|| trial.not_made(INTERRUPTED.to_owned()))));
            if trial.load == Load::Echo && baseline.is_none() {
                let without = Trial { timer: Timer::Off, ..trial };
                baseline = unless_interrupted(interrupt, || without.baseline(notes))?;
            }
        }
        cells.extend(pair.into_iter().map(|(place, cell)| match baseline {
            Some(baseline) => (place, cell.beside(baseline)),
            None => (place, cell),
        }));
    }
    cells.sort_by_key(|&(place, _)| place);
    Ok(cells.into_iter().map(|(_, cell)| cell).collect())
}

/// What `part` comes to if no signal arrives before or in the middle of it: on a terminal, Ctrl-C goes to the
/// processes of a trial too, and one that it ended early is none.
fn unless_interrupted<T>(
    interrupt: &Interrupt,
    part: impl FnOnce() -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    if interrupt.arrived() {
        return Ok(None);
    }
    let outcome = part();
    if interrupt.arrived() { Ok(None) } else { outcome.map(Some) }
}

impl DoctorPlan {
    /// The trials in the order of the report, without the baselines.
    fn trials(&self) -> Vec<Trial> {
        let (duration, echo_batch) = (self.duration, self.echo_batch);
        let loads = [(Load::Echo, INTERVAL), (Load::None, self.idle_interval)];
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

/// softtimers, what anybody can write into a loop, what needs no more than the wait, and what goes on
/// beside the loop.
const METHODS: [Timer; 8] = {
    use Timer::*;
    [Soft, Loop, Spin, Pwait2, Timerfd, Ms, Signal, Thread]
};
const INTERRUPTED: &str = "interrupted";
/// 25,000 packets/s: one flow of full-sized packets at 300 Mbit/s.
const INTERVAL: Duration = Duration::from_micros(40);
/// Starting the processes and saying goodbye; measured.
const TRIAL_OVERHEAD: Duration = Duration::from_millis(50);
/// And the probes.
const COSTS_TAKE: Duration = Duration::from_secs(2);

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
        assert_eq!(order(""), (0..16).collect::<Vec<_>>());
        assert_eq!(order("--rotate 2"), [2, 3, 4, 5, 6, 7, 0, 1, 10, 11, 12, 13, 14, 15, 8, 9]);
        assert_eq!(order("--rotate 10"), order("--rotate 2"));
        assert_eq!(order("--rotate 4294967295").len(), 16);
    }
}
