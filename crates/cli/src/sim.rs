//! `softtimers sim`: the papers' experiments on a simulated machine.
//!
//! What a parameter is, what a sweep runs and in which order is `softtimers_sim`'s; here is what people type and read.
//! Rows are printed as lines the moment their point is finished and all before it are, so that a run that breaks
//! off, for a full disk or a point that cannot be, has left everything that it found until then.

pub mod csv;
pub mod merge;
pub mod report;
pub mod setting;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use softtimers_sim::sweep::{PointError, PointRows};

use crate::args::SimArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine::{Machine, Neighbours};
use crate::output::{Run, print_line};
use crate::plan::SimPlan;
use crate::progress::Progress;
use report::SimReport;

/// Runs an experiment, or merges files.
///
/// # Errors
/// A usage failure for parameters that cannot be; a check failure if an assertion does not hold or a file cannot be
/// written.
pub fn run(args: &SimArgs) -> Result<(), Failure> {
    match args {
        SimArgs::Merge(args) => merge::run(args),
        SimArgs::Run(args) => Simulation::of(SimPlan::new(args)?).run(),
    }
}

struct Simulation {
    plan: SimPlan,
    found: Vec<PointRows>,
}

impl Simulation {
    fn of(plan: SimPlan) -> Self {
        Simulation { plan, found: vec![] }
    }

    fn run(mut self) -> Result<(), Failure> {
        let (machine, neighbours) = (Machine::read(), Neighbours::watch());
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
        let result = self.sweep(&interrupt);
        // Also of a run that broke off.
        let worth_printing = result.is_ok() || !self.found.is_empty();
        if !self.plan.csv && worth_printing {
            self.print(machine.during(neighbours.so_far()))?;
        }
        match result {
            Err(Ended::Failed(failure)) => Err(failure),
            Err(Ended::Asked) | Ok(()) => Ok(()),
        }
    }

    /// Runs all points.
    fn sweep(&mut self, interrupt: &Interrupt) -> Result<(), Ended> {
        let Simulation { plan: SimPlan { sweep, part, threads, csv, out, .. }, found } = self;
        let done = Arc::new(AtomicUsize::new(0));
        let points = part.of(sweep.points()).count();
        let _progress = Progress::counted(sweep.experiment().name, points, &done);
        let mut write = |lines: &str| {
            out.as_mut().map_or(Ok(()), |file| file.append(lines)).map_err(Ended::Failed)?;
            if *csv { print_line(lines.trim_end()).map_err(Ended::from) } else { Ok(()) }
        };
        write(&csv::header(sweep))?;
        sweep.run(*part, *threads, &done, |point| {
            write(&csv::lines(sweep, &point))?;
            if !*csv {
                found.push(point);
            }
            if interrupt.arrived() { Err(Ended::Asked) } else { Ok(()) }
        })
    }

    fn print(&self, machine: Machine) -> Result<(), Failure> {
        let report = SimReport::new(&self.plan.sweep, &self.found);
        self.plan.output.finish(&Run {
            machine: &machine,
            seed: Some(self.plan.seed),
            config: &report.config(),
            fallbacks: &[],
            inconclusive: None,
            report: &report,
        })
    }
}

/// Why a sweep ended before its last point.
enum Ended {
    /// By a signal, or because nobody reads any more: no error.
    Asked,
    Failed(Failure),
}

impl From<PointError> for Ended {
    fn from(error: PointError) -> Self {
        Ended::Failed(Failure::usage(error))
    }
}

impl From<std::io::Error> for Ended {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Ended::Asked,
            _ => Ended::Failed(Failure::broke_off("writing to stdout", &error)),
        }
    }
}
