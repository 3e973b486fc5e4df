//! Runs the costs, the features and the trials, one after another.

use std::time::Duration;

use softtimers_measure::class::Class;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;

use super::args::Doctor;
use super::show::{DoctorReport, header};
use super::trial::{BATCHES, Cell, DECISIVE, INTERVAL, Load, METHODS, Notes, Trial};
use super::verdict::Verdict;
use super::{costs, features, programs, range, verdict};

use crate::run::output::Output;
use crate::run::privileges::Rights;
use crate::run::{Command, Disturbance, Outcome, Run};

impl Command for Doctor {
    type Config = Doctor;
    type Report = DoctorReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;
    const FIELDS: &'static str = include_str!("fields.txt");
    const RIGHTS: Rights = Rights::OfChildren;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> Doctor {
        self.clone()
    }

    fn header(&self) -> String {
        header(self)
    }

    fn example(&self) -> DoctorReport {
        let blank = |trials: Vec<Trial>| trials.iter().map(Trial::blank).collect::<Vec<_>>();
        let [pacing, by_batch] = [self.trials(), self.of_batches()].map(blank);
        DoctorReport {
            features: features::blank(),
            programs: programs::from_cells(&[&pacing[..], &by_batch].concat()),
            pacing,
            by_batch,
            ..DoctorReport::default()
        }
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<DoctorReport>, Failure> {
        // Busy and idle, and a baseline for every two busy ones.
        let trials = 5 * METHODS.len() as u32 / 2 + self.of_batches().len() as u32;
        let expected = (self.duration + TRIAL_OVERHEAD) * trials + COSTS_TAKE;
        let _progress = run.begin(self, "examining", Some(expected));
        let interrupt = run.interrupt()?;
        let costs = costs::measure().map_err(|error| Failure::broke_off("measuring costs", &error))?;
        let features = features::all(interrupt);
        let mut notes = Notes::default();
        let pacing = compare(self, &mut notes, interrupt)?;
        let by_batch = decide(self, &mut notes, interrupt)?;
        let programs = programs::from_cells(&[&pacing[..], &by_batch].concat());
        let is_server = |cell: &&Cell| cell.busy == Load::Echo && cell.method == "soft";
        let server = pacing.iter().find(is_server).filter(|cell| cell.not_made.is_none());
        let useful_range = range::useful(&costs, server.map(|cell| &cell.trigger_interval_ns));
        let verdict = if interrupt.arrived() {
            Verdict::none("interrupted, so no verdict")
        } else {
            verdict::judge(&costs, &programs, &pacing, run.disturbed().is_some())
        };
        let Verdict { sentences: verdict, remarks } = verdict;
        let verbose = self.verbose;
        let report = DoctorReport {
            verdict,
            remarks,
            programs,
            useful_range,
            costs,
            features,
            pacing,
            by_batch,
            verbose,
        };
        Ok(Outcome { fallbacks: notes.sentences(), ..Outcome::of(report) })
    }
}

/// Runs the trials until a signal arrives, and returns the cells of all of them in the fixed order.
fn compare(plan: &Doctor, notes: &mut Notes, interrupt: &Interrupt) -> Result<Vec<Cell>, Failure> {
    let class = Class::current();
    let mut cells = Vec::new();
    for neighbours in plan.in_turn().chunks(2) {
        // The baseline runs between the two, because a virtual machine's speed drifts by a fifth in seconds.
        let mut baseline = None;
        let mut pair = Vec::new();
        for &(place, trial) in neighbours {
            if trial.timer == "spin" && !class.may_spin() {
                pair.push((place, trial.not_made(format!("{class}, so it must not spin"))));
                continue;
            }
            pair.push((place, one(trial, notes, interrupt)?));
            if trial.load == Load::Echo && baseline.is_none() {
                let without = Trial { timer: "off", ..trial };
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

/// Runs the trials that decide for the other batches.
fn decide(plan: &Doctor, notes: &mut Notes, interrupt: &Interrupt) -> Result<Vec<Cell>, Failure> {
    plan.of_batches().into_iter().map(|trial| one(trial, notes, interrupt)).collect()
}

fn one(trial: Trial, notes: &mut Notes, interrupt: &Interrupt) -> Result<Cell, Failure> {
    let cell = unless_interrupted(interrupt, || trial.run(notes))?;
    Ok(cell.unwrap_or_else(|| trial.not_made(INTERRUPTED.to_owned())))
}

/// Returns the result of `part` if no signal arrives before or during it: on a terminal, Ctrl-C also reaches a trial's
/// processes, and a trial that it ended early has no result.
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

impl Doctor {
    /// Returns the trials in the order of the report, without the baselines.
    fn trials(&self) -> Vec<Trial> {
        let (duration, echo_batch) = (self.duration, self.echo_batch);
        let loads = [(Load::Echo, INTERVAL), (Load::None, self.idle_interval)];
        let trials = loads.into_iter().flat_map(|(load, interval)| {
            METHODS.map(|timer| Trial { timer, load, interval, duration, echo_batch })
        });
        trials.collect()
    }

    /// Returns the trials of the batches that the full comparison is not of.
    fn of_batches(&self) -> Vec<Trial> {
        let others = BATCHES.into_iter().filter(|&batch| batch != self.echo_batch);
        let (load, interval, duration) = (Load::Echo, INTERVAL, self.duration);
        let trials = others.flat_map(|echo_batch| {
            DECISIVE.map(|timer| Trial { timer, load, interval, duration, echo_batch })
        });
        trials.collect()
    }

    /// Returns the trials in the order in which they run, with their indices in the report.
    fn in_turn(&self) -> Vec<(usize, Trial)> {
        let mut trials: Vec<(usize, Trial)> = self.trials().into_iter().enumerate().collect();
        trials.chunks_mut(METHODS.len()).for_each(|load| load.rotate_left(self.rotate));
        trials
    }
}

const INTERRUPTED: &str = "interrupted";
/// The measured time to start the processes and send goodbyes.
const TRIAL_OVERHEAD: Duration = Duration::from_millis(50);
/// The time that the costs and the probes take.
const COSTS_TAKE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Cli, Command};
    use clap::Parser;

    fn plan(words: &str) -> Doctor {
        match Cli::parse_from(format!("softtimers doctor {words}").split_whitespace()).command {
            Command::Doctor(args) => Doctor::from(&args),
            other => panic!("{other:?}"),
        }
    }

    fn order(words: &str) -> Vec<usize> {
        plan(words).in_turn().into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn every_batch_that_decides_is_tried_once() {
        for (words, others) in [("", vec![1, 4, 64]), ("--echo-batch 8", vec![1, 4, 16, 64])] {
            let mut batches: Vec<_> = plan(words).of_batches().iter().map(|trial| trial.echo_batch).collect();
            assert_eq!(batches.len(), 3 * others.len());
            batches.dedup();
            assert_eq!(batches, others, "{words}");
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
