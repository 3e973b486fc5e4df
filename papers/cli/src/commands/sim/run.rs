//! A run of `sim`: finished points are printed as lines at once, and the table at the end.
//!
//! A point may take hours, and the reader of stdout may have stopped. So a separate thread waits for signals, and never
//! blocks for long:
//!
//! ```text
//!   sweep    point │ lines │ point │ lines ▓▓▓▓▓▓▓▓▓▓▓    holds the results to keep while it writes, here into a full pipe
//!   attend              signal: gives up     signal: waits a little for them, prints the table, ends
//!                       running points, says so
//!   handler                                               signal: ends the process, whatever is blocked
//! ```

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::machine::{BackgroundLoad, Machine};
use softtimers_sim::{PointError, PointRows, Watch, csv};

use super::args::{SimArgs, SimPlan};
use super::show::{SimConfig, SimReport, header};
use super::{machine, merge};
use softtimers_run::file::OutputFile;
use softtimers_run::output::{Object, Output, is_unread, print, print_line, say};
use softtimers_run::progress::Progress;
use softtimers_run::screen::Screen;
use softtimers_run::{Command, Disturbance, Outcome, Run, carry_out};

/// Runs an experiment, or merges files.
///
/// # Errors
/// A usage failure for impossible parameters; a check failure if an assertion does not hold or a file cannot be
/// written.
pub(crate) fn run(args: &SimArgs) -> Result<(), Failure> {
    match args {
        SimArgs::Merge(args) => merge::run(args),
        SimArgs::Machine(args) => print(&machine::print(&args.name)?),
        SimArgs::Run(args) => {
            // Reading a recording may block for ever, and a signal ends that. After it a signal ends the run, rather
            // than the process with an empty file.
            let plan = SimPlan::new(args)?;
            let interrupt = Interrupt::listen_each().map_err(not_heard)?;
            carry_out(&mut Simulation::from_plan(plan, interrupt)?)
        }
    }
}

/// The run, as the sweep's thread sees it.
pub(crate) struct Simulation {
    shared: Arc<Shared>,
    interrupt: Arc<Interrupt>,
    /// Whether all requested points were run.
    whole: bool,
    /// Closed when nothing is left to print, which ends the thread that waits for signals.
    going_on: Option<UnixStream>,
}

/// The state shared with the thread that waits for signals.
struct Shared {
    plan: SimPlan,
    machine: Machine,
    background: BackgroundLoad,
    watch: Watch,
    kept: Mutex<Kept>,
}

/// The results to keep, whichever thread ends the run.
#[derive(Default)]
struct Kept {
    /// The file to which lines are written as soon as a point is finished.
    out: Option<OutputFile>,
    /// The points to show in the table.
    found: Vec<PointRows>,
}

impl Command for Simulation {
    type Config = SimConfig;
    type Report = SimReport;
    const DISTURBED_BY: Disturbance = Disturbance::Nobody;

    fn output(&self) -> &Output {
        &self.shared.plan.output
    }

    fn config(&self) -> SimConfig {
        self.shared.config()
    }

    fn header(&self) -> String {
        header(&self.shared.plan.sweep)
    }

    fn example(&self) -> SimReport {
        SimReport::example(&self.shared.plan.sweep)
    }

    fn seed(&self) -> Option<u64> {
        Some(self.shared.plan.sweep.runs().seed)
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<SimReport>, Failure> {
        let (going_on, over) = UnixStream::pair().map_err(not_heard)?;
        self.going_on = Some(going_on);
        if !self.shared.plan.csv {
            run.announce(&self.header());
        }
        let (attended, signals) = (Arc::clone(&self.shared), Arc::clone(&self.interrupt));
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || attended.attend(&signals, &over))
            .map_err(not_heard)?;
        let swept = self.shared.sweep(&self.interrupt);
        self.whole = swept.is_ok();
        let report = self.shared.report(&self.shared.kept().found);
        Ok(Outcome { broke_off: swept.err().and_then(Ended::failure), ..Outcome::of(report) })
    }

    /// Prints the table, also of a run that broke off; lines have been printed already.
    fn print(&mut self, object: &Object<'_, SimReport, SimConfig>) -> Result<(), Failure> {
        let mut kept = self.shared.kept();
        let printed = if !self.shared.plan.csv && (self.whole || !kept.found.is_empty()) {
            self.output().finish(object)
        } else {
            Ok(())
        };
        // A thread that ends the process now has nothing to print.
        kept.found.clear();
        self.going_on = None;
        printed
    }
}

impl Simulation {
    fn from_plan(plan: SimPlan, interrupt: Interrupt) -> Result<Self, Failure> {
        let goes_on = |time| {
            thread::park_timeout(time);
            Ok(!interrupt.arrived())
        };
        let out = plan.out.as_ref();
        let out = out.map(|out| {
            let file = OutputFile::create_while(&out.path, "--out", out.force, goes_on)?;
            if out.resumed.is_none() {
                file.lock("--out")?;
            }
            if out.kept.is_empty() { Ok(file) } else { file.after(out.kept.len() as u64) }
        });
        let kept = Mutex::new(Kept { out: out.transpose()?, ..Kept::default() });
        let (machine, background, watch) = (Machine::read(), BackgroundLoad::watch(), Watch::new());
        let shared = Arc::new(Shared { plan, machine, background, watch, kept });
        Ok(Simulation { shared, interrupt: Arc::new(interrupt), whole: false, going_on: None })
    }
}

impl Shared {
    fn sweep(self: &Arc<Self>, interrupt: &Interrupt) -> Result<(), Ended> {
        let SimPlan { sweep, part, threads, csv, .. } = &self.plan;
        let points = part.indices(sweep.points()).count() as u64;
        let thousandths = 1_000 * points * u64::from(sweep.runs().seeds.get());
        let shared = Arc::clone(self);
        let _progress = Progress::parts(sweep.experiment().name, thousandths, move || shared.watch.done());
        let write = |lines: &str, kept: &mut Kept| {
            let written = kept.out.as_mut().map_or(Ok(()), |file| file.append(lines));
            written.map_err(|failure| {
                // Closed here, where an empty file is removed: the process may end without dropping it.
                kept.out = None;
                Ended::Failed(failure)
            })?;
            if *csv { print_line(lines.trim_end()).map_err(Ended::from) } else { Ok(()) }
        };
        match self.plan.out.as_ref().map(|out| out.kept.trim_end()).filter(|kept| !kept.is_empty()) {
            Some(kept) => print_line(kept)?,
            None => write(&csv::header(sweep), &mut self.kept())?,
        }
        sweep.run(*part, *threads, &self.watch, |point| {
            let mut kept = self.kept();
            write(&csv::lines(sweep, &point), &mut kept)?;
            if !*csv {
                kept.found.push(point);
            }
            if interrupt.arrived() { Err(Ended::Asked) } else { Ok(()) }
        })
    }

    /// Reports the first signal and its effect; at a second one, ends the process with the results so far.
    fn attend(&self, interrupt: &Interrupt, over: &UnixStream) {
        let signal = || interrupt.wait(over).is_ok_and(|signal| signal);
        if !signal() {
            return;
        }
        self.watch.stop();
        // In another thread, which may block for ever: possibly nobody reads stderr either.
        let said = thread::Builder::new().spawn(|| {
            say(format_args!("ending with the points that are finished; Ctrl-C again ends at once"));
        });
        // Without a thread for it, the report is omitted.
        drop(said);
        if !signal() {
            return;
        }
        interrupt.end_at_next();
        // While this lock is held no other thread writes, so no line is cut off; a writer that holds it for longer is
        // blocked.
        if let Some(kept) = lock_soon(&self.kept) {
            let printed = if kept.found.is_empty() { Ok(()) } else { self.print(&kept.found) };
            if let Err(failure) = printed {
                say(format_args!("softtimers: {failure}"));
            }
        }
        std::process::exit(interrupt.exit_code());
    }

    /// Prints the table of a run that is ended at once.
    fn print(&self, found: &[PointRows]) -> Result<(), Failure> {
        let machine = self.machine.clone().during(self.background.so_far());
        let (config, report) = (self.config(), self.report(found));
        let SimPlan { output, sweep, .. } = &self.plan;
        let header = header(sweep);
        output.finish(&Object {
            // Those who watch the terminal have read it.
            header: (!Screen::stdout().watched).then_some(header.as_str()),
            machine: &machine,
            sandbox: None,
            seed: Some(sweep.runs().seed),
            config: &config,
            fallbacks: &[],
            inconclusive: None,
            report: &report,
        })
    }

    fn config(&self) -> SimConfig {
        SimConfig::new(&self.plan.sweep)
    }

    fn report(&self, found: &[PointRows]) -> SimReport {
        SimReport::new(&self.plan.sweep, found.to_vec())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a sweep ended before its last point.
enum Ended {
    /// By a signal, or because the reader is gone: not an error.
    Asked,
    Failed(Failure),
}

impl Ended {
    fn failure(self) -> Option<Failure> {
        match self {
            Ended::Failed(failure) => Some(failure),
            Ended::Asked => None,
        }
    }
}

fn not_heard(error: io::Error) -> Failure {
    Failure::broke_off("listening for signals", &error)
}

impl From<PointError> for Ended {
    fn from(error: PointError) -> Self {
        Ended::Failed(Failure::usage(error))
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        if is_unread(&error) {
            Ended::Asked
        } else {
            Ended::Failed(Failure::broke_off("writing to stdout", &error))
        }
    }
}

/// Returns the lock, unless it is held for longer than it takes to print lines to a reader.
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

/// The number of attempts: half a second in all.
const LOOKS: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
