//! A run of `sim`: points that are finished are printed as lines at once, and the table at the end.
//!
//! A point may take hours, and whoever reads stdout may have stopped. So somebody else waits for signals, and waits for
//! nobody for long:
//!
//! ```text
//!   sweep    point │ lines │ point │ lines ▓▓▓▓▓▓▓▓▓▓▓    holds what there is to keep while it writes, here into a full pipe
//!   attend              signal: gives up     signal: waits for that a little, prints the table, ends
//!                       points that run, says so
//!   handler                                    signal: ends, whoever is blocked where
//! ```

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use softtimers_sim::{PointError, PointRows, Watch, csv};

use super::args::{SimArgs, SimPlan};
use super::merge;
use super::show::{SimConfig, SimReport};
use crate::failure::Failure;
use crate::file::OutputFile;
use crate::interrupt::Interrupt;
use crate::machine::{Machine, Neighbours};
use crate::output::{Run, print_line, say};
use crate::progress::Progress;

/// Runs an experiment, or merges files.
///
/// # Errors
/// A usage failure for parameters that cannot be; a check failure if an assertion does not hold or a file cannot be
/// written.
pub(crate) fn run(args: &SimArgs) -> Result<(), Failure> {
    match args {
        SimArgs::Merge(args) => merge::run(args),
        SimArgs::Run(args) => Simulation::of(SimPlan::new(args)?).run(),
    }
}

struct Simulation {
    plan: SimPlan,
    machine: Machine,
    neighbours: Neighbours,
    watch: Arc<Watch>,
}

/// What there is to keep, whoever ends the run.
#[derive(Default)]
struct Kept {
    /// Where lines are written as soon as a point is finished.
    out: Option<OutputFile>,
    /// What the table will be of.
    found: Vec<PointRows>,
}

impl Simulation {
    fn of(plan: SimPlan) -> Self {
        Simulation { plan, machine: Machine::read(), neighbours: Neighbours::watch(), watch: Arc::default() }
    }

    fn run(mut self) -> Result<(), Failure> {
        self.check_keys()?;
        let listening = |error: io::Error| Failure::broke_off("listening for signals", &error);
        let interrupt = Interrupt::listen_each().map_err(listening)?;
        let kept = Mutex::new(Kept { out: self.plan.out.take(), ..Kept::default() });
        let (going_on, over) = UnixStream::pair().map_err(listening)?;
        thread::scope(|scope| {
            scope.spawn(|| self.attend(&interrupt, &over, &kept));
            let result = self.sweep(&interrupt, &kept);
            let printed = self.print_rest(&kept, result.is_ok());
            drop(going_on);
            printed.and(result.or_else(Ended::into_result))
        })
    }

    /// The table of what was found, also of a run that broke off.
    fn print_rest(&self, kept: &Mutex<Kept>, whole: bool) -> Result<(), Failure> {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let printed = if whole || !kept.found.is_empty() { self.print(&kept.found) } else { Ok(()) };
        // Whoever ends the process now has nothing to print.
        kept.found.clear();
        printed
    }

    /// Says at a signal what comes of it, and at a second one ends the process with what there is.
    fn attend(&self, interrupt: &Interrupt, over: &UnixStream, kept: &Mutex<Kept>) {
        let signal = || interrupt.wait(over).is_ok_and(|signal| signal);
        if !signal() {
            return;
        }
        self.watch.stop();
        // By somebody who may wait for ever, for it may be that nobody reads stderr either.
        thread::spawn(|| {
            say(format_args!("ending with the points that are finished; Ctrl-C again ends at once"));
        });
        if !signal() {
            return;
        }
        interrupt.end_at_next();
        // With it nobody writes meanwhile, or a line would be cut off; who writes for so long is blocked.
        if let Some(kept) = lock_soon(kept) {
            let printed = if kept.found.is_empty() { Ok(()) } else { self.print(&kept.found) };
            if let Err(failure) = printed {
                say(format_args!("softtimers: {failure}"));
            }
        }
        std::process::exit(interrupt.exit_code());
    }

    /// Runs all points.
    fn sweep(&self, interrupt: &Interrupt, kept: &Mutex<Kept>) -> Result<(), Ended> {
        let SimPlan { sweep, part, threads, csv, .. } = &self.plan;
        let points = part.of(sweep.points()).count();
        let watch = Arc::clone(&self.watch);
        let thousandths = 1_000 * points as u64;
        let _progress = Progress::parts(sweep.experiment().name, thousandths, move || watch.done());
        let write = |lines: &str, kept: &mut Kept| {
            kept.out.as_mut().map_or(Ok(()), |file| file.append(lines)).map_err(Ended::Failed)?;
            if *csv { print_line(lines.trim_end()).map_err(Ended::from) } else { Ok(()) }
        };
        let lock = || kept.lock().unwrap_or_else(PoisonError::into_inner);
        write(&csv::header(sweep), &mut lock())?;
        sweep.run(*part, *threads, &self.watch, |point| {
            let mut kept = lock();
            write(&csv::lines(sweep, &point), &mut kept)?;
            if !*csv {
                kept.found.push(point);
            }
            if interrupt.arrived() { Err(Ended::Asked) } else { Ok(()) }
        })
    }

    fn check_keys(&self) -> Result<(), Failure> {
        let example = [SimReport::example(&self.plan.sweep)];
        let report = SimReport::new(&self.plan.sweep, &example);
        self.plan.output.check_keys(&self.run_of(&self.machine, &report, &report.config()))
    }

    /// The table; lines have been printed already.
    fn print(&self, found: &[PointRows]) -> Result<(), Failure> {
        if self.plan.csv {
            return Ok(());
        }
        let machine = self.machine.clone().during(self.neighbours.so_far());
        let report = SimReport::new(&self.plan.sweep, found);
        self.plan.output.finish(&self.run_of(&machine, &report, &report.config()))
    }

    fn run_of<'a>(
        &self,
        machine: &'a Machine,
        report: &'a SimReport<'a>,
        config: &'a SimConfig<'a>,
    ) -> Run<'a, SimReport<'a>, SimConfig<'a>> {
        Run { machine, seed: Some(self.plan.seed), config, fallbacks: &[], inconclusive: None, report }
    }
}

/// Why a sweep ended before its last point.
enum Ended {
    /// By a signal, or because nobody reads any more: no error.
    Asked,
    Failed(Failure),
}

impl Ended {
    fn into_result(self) -> Result<(), Failure> {
        match self {
            Ended::Failed(failure) => Err(failure),
            Ended::Asked => Ok(()),
        }
    }
}

impl From<PointError> for Ended {
    fn from(error: PointError) -> Self {
        Ended::Failed(Failure::usage(error))
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Ended::Asked,
            _ => Ended::Failed(Failure::broke_off("writing to stdout", &error)),
        }
    }
}

/// The lock, unless somebody holds it for longer than lines take that somebody reads.
fn lock_soon<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..LOOKS {
        match mutex.try_lock() {
            Ok(locked) => return Some(locked),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => thread::park_timeout(BETWEEN_LOOKS),
        }
    }
    None
}

/// Half a second in all.
const LOOKS: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
