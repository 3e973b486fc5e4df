//! The life of one run of a command, from its words to its exit code, for the programs `softtimers` and `softtimers-papers`.
//! It promises nothing to other programs.
//!
//! [`carry_out`] is the only place that determines the order:
//!
//! ```text
//!   keys of --assert ──▶ Command::run ──▶ stream's last line ──▶ print ──▶ --assert ──▶ the failure, if it broke off
//!   before anything      │  │  │  │                              table or object, also of a run that broke off
//!   is touched           │  │  │  └ counter: a line a second, on a terminal or with --json-stream
//!                        │  │  └ begin: the header, on a terminal, and a progress bar where there are no lines
//!                        │  └ interrupt: from the first call on a signal ends the run with its report
//!                        └ background load, watched from the beginning
//! ```
//!
//! A command implements [`Command`]: its report, the labels of it, and its work. This crate names no command.
//!
//! ```text
//!   program, help, mistake, documents   a command line: its words, help, mistakes, manual pages, completions
//!   privileges, file                    rights given up, files opened with the caller's
//!   output, stream, table, grid         one object or a table; a line a second; their fields and quantities
//!   page                                a page of HTML with figures
//! ```
#![forbid(unsafe_code)]

pub mod args;
pub mod beside;
pub mod documents;
pub mod field;
pub mod file;
pub mod grid;
pub mod help;
pub mod mistake;
pub mod output;
pub mod page;
pub mod privileges;
pub mod program;
pub mod progress;
pub mod quantity;
pub mod screen;
#[cfg(any(test, feature = "checks"))]
pub mod snapshot;
pub mod stream;
pub mod table;

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::time::Duration;

use serde::Serialize;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::machine::{BackgroundLoad, Interference, Machine};
use softtimers_measure::stats::Counter;

use output::{Object, Output, Report};
use privileges::{Needs, Rights, Sandbox};
use progress::Progress;
use screen::Screen;
use stream::{Form, Kept, Seconds, Stream};

/// A command's own part of a run.
pub trait Command: Sized {
    /// The `config` object: the configuration in effect, defaults filled in.
    type Config: Serialize;
    /// The report of its findings.
    type Report: Report<Self>;
    /// The CPUs whose use by others makes the figures inconclusive.
    const DISTURBED_BY: Disturbance;
    /// The [text](field) of the labels of its report and its lines of a second, in their order.
    const FIELDS: &'static str = "";
    /// How it treats the privileges that the process began with.
    const RIGHTS: Rights = Rights::Unneeded;

    /// Says whether others are watched from the beginning; not if the program beside it is the one under test.
    fn watches_others(&self) -> bool {
        Self::DISTURBED_BY != Disturbance::Unwatched
    }

    /// Returns the ways to print the report.
    fn output(&self) -> &Output;

    /// Returns the configuration; asked once before the run, and again for the report.
    fn config(&self) -> Self::Config;

    /// Returns a report with all keys of this run's report: optional ones are there, and lists have an element.
    fn example(&self) -> Self::Report;

    /// Describes the run in one line above the report: the traffic, the destination, the time, the means. It is called
    /// when the run begins on a terminal, and at its end otherwise.
    fn header(&self) -> String;

    /// Returns the seed, if anything is random.
    fn seed(&self) -> Option<u64> {
        None
    }

    /// Does the work.
    ///
    /// # Errors
    /// A failure that leaves nothing to report.
    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<Self::Report>, Failure>;

    /// Prints the report and checks it.
    ///
    /// # Errors
    /// As [`Output::finish`].
    fn print(&mut self, object: &Object<'_, Self::Report, Self::Config>) -> Result<(), Failure> {
        self.output().finish::<Self, _, _>(object)
    }
}

/// The CPUs whose use by others during a run makes its figures inconclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disturbance {
    /// Use by the host or other programs.
    Anybody,
    /// Use by the host. Other programs are measured, or belong to the measurement.
    Host,
    /// No use by others: it is measured, or does not matter, and is only reported.
    Nobody,
    /// No use by others, and none is reported.
    Unwatched,
}

/// The findings of a command.
#[derive(Debug)]
pub struct Outcome<R> {
    /// The report, up to the failure if there was one.
    pub report: R,
    /// The fallbacks: each is a sentence that says what did not work as requested, and what was done instead.
    pub fallbacks: Vec<String>,
    /// Why the figures are inconclusive, apart from interference on the machine.
    pub inconclusive: Option<String>,
    /// The failure that broke the run off. The report is printed nevertheless.
    pub broke_off: Option<Failure>,
}

impl<R> Outcome<R> {
    /// Creates the outcome of a run without fallbacks.
    pub fn of(report: R) -> Self {
        Outcome { report, fallbacks: vec![], inconclusive: None, broke_off: None }
    }
}

/// Carries out a command and prints its findings.
///
/// # Errors
/// A usage failure if an assertion names no key; any failure of the command; a check failure if an assertion does not
/// hold.
pub fn carry_out<C: Command>(command: &mut C) -> Result<(), Failure> {
    let machine = Machine::read();
    let (config, seed, example) = (command.config(), command.seed(), command.example());
    let sandbox = Sandbox::default();
    let sandbox = (C::RIGHTS != Rights::OfChildren).then_some(&sandbox);
    let example = Object { sandbox, ..object(&machine, seed, &config, &example) };
    command.output().check_keys::<C, _, _>(&example)?;
    let output = command.output().clone();
    let run = Run {
        schema: <C::Report as Report<C>>::SCHEMA,
        machine: &machine,
        seed,
        output: &output,
        disturbed_by: C::DISTURBED_BY,
        interrupt: OnceCell::new(),
        background: RefCell::new(command.watches_others().then(BackgroundLoad::watch)),
        interference: Cell::new(None),
        stream: RefCell::new(None),
        kept: RefCell::new(None),
        sandbox: OnceCell::new(),
        screen: Screen::stdout(),
        begun: Cell::new(false),
    };
    if C::RIGHTS == Rights::Unneeded {
        run.drop_privileges(Needs::default())?;
    }
    let outcome = command.run(&run);
    debug_assert!(outcome.is_err() || C::RIGHTS == Rights::OfChildren || run.sandbox.get().is_some());
    let streamed = run.stream.take().map_or(Ok(()), |finish| finish());
    let Outcome { report, fallbacks, inconclusive, broke_off } = outcome?;
    let disturbed = run.disturbed();
    let interference = run.interference();
    let sandbox = run.sandbox.get().cloned();
    let header = (!run.begun.get()).then(|| command.header());
    drop(run);
    let (machine, config) = (machine.during(interference), command.config());
    let inconclusive = inconclusive.or(disturbed);
    let made = Object {
        header: header.as_deref(),
        sandbox: sandbox.as_ref(),
        fallbacks: &fallbacks,
        inconclusive,
        ..object(&machine, seed, &config, &report)
    };
    let printed = command.print(&made);
    match (broke_off.or(streamed.err()), printed) {
        (None, printed) => printed,
        // For instance, stdout cannot be written to.
        (Some(failure), Err(same)) if failure == same => Err(failure),
        (Some(failure), Err(also)) => Err(failure.and(&also)),
        (Some(failure), Ok(())) => Err(failure),
    }
}

/// A command's view of its run.
#[expect(missing_debug_implementations, reason = "it holds a closure")]
pub struct Run<'a> {
    schema: &'static str,
    machine: &'a Machine,
    seed: Option<u64>,
    output: &'a Output,
    disturbed_by: Disturbance,
    interrupt: OnceCell<Interrupt>,
    background: RefCell<Option<BackgroundLoad>>,
    /// Known once the run is over.
    interference: Cell<Option<Interference>>,
    /// Ends the stream, if there is one.
    stream: RefCell<Option<Finish>>,
    /// Where the figures of each second are kept, if anybody asked for them.
    kept: RefCell<Option<Kept>>,
    /// The restrictions in effect since privileges were dropped.
    sandbox: OnceCell<Sandbox>,
    screen: Screen,
    /// Whether the header has been printed.
    begun: Cell<bool>,
}

type Finish = Box<dyn FnOnce() -> Result<(), Failure>>;

impl Run<'_> {
    /// Returns the source of signals. Until the first call a signal ends the process at once, and from then on the run,
    /// with its report.
    ///
    /// # Errors
    /// A check failure if the system refuses.
    pub fn interrupt(&self) -> Result<&Interrupt, Failure> {
        match self.interrupt.get() {
            Some(interrupt) => Ok(interrupt),
            None => {
                let interrupt = Interrupt::listen().map_err(not_heard)?;
                Ok(self.interrupt.get_or_init(|| interrupt))
            }
        }
    }

    /// Returns the same for a loop that owns it.
    ///
    /// # Errors
    /// As [`interrupt`](Self::interrupt).
    pub fn own_interrupt(&self) -> Result<Interrupt, Failure> {
        self.interrupt()?.share().map_err(not_heard)
    }

    /// Drops, for good, all privileges that the process began with, except those that `needs` name. To be called once
    /// everything is open that takes privileges, and before there is another thread.
    ///
    /// # Errors
    /// A check failure if the system refuses.
    pub fn drop_privileges(&self, needs: Needs) -> Result<(), Failure> {
        let confined = needs.confined.filter(|_| !self.output.unconfined);
        let needs = Needs { confined, ..needs };
        let sandbox = privileges::give_up(&needs)
            .map_err(|error| Failure::broke_off("giving up privileges", &error))?;
        // Privileges are dropped for good, so a second call adds nothing.
        let _ = self.sandbox.set(sandbox);
        Ok(())
    }

    /// Watches the background load from now on, without the earlier setup.
    pub fn watch(&self) {
        self.background.replace(Some(BackgroundLoad::watch()));
    }

    /// Watches no background load: it does not affect the figures.
    pub fn unwatch(&self) {
        self.background.replace(None);
    }

    /// Prints the header on a terminal, and shows how much of `duration` has passed until it is dropped, unless a line
    /// a second is printed. To be called once nothing can be refused any more.
    pub fn begin<C: Command>(&self, command: &C, what: &'static str, duration: Option<Duration>) -> Progress {
        self.announce(&command.header());
        Progress::start(what, duration.filter(|_| self.stream.borrow().is_none()))
    }

    /// Prints the header on a terminal.
    pub fn announce(&self, header: &str) {
        if self.is_watched() && !self.begun.replace(true) {
            // If it cannot be written, the report cannot be written either.
            let _ = output::print(&output::head(header, self.machine, &self.screen));
        }
    }

    /// Says whether people watch the run on a terminal.
    pub fn is_watched(&self) -> bool {
        self.screen.watched && !self.output.json && !self.output.stream
    }

    /// Returns the output that the run would have if it ended now with this report.
    pub fn so_far<'a, R, C>(&'a self, config: &'a C, report: &'a R) -> Object<'a, R, C> {
        Object { sandbox: self.sandbox.get(), ..object(self.machine, self.seed, config, report) }
    }

    /// Says whether a line a second is printed.
    pub fn streams(&self) -> bool {
        self.output.stream || self.is_watched()
    }

    /// Keeps the figures of each second from the [counter](Self::counter) on, for a page at the end.
    pub fn keep_seconds(&self) -> Kept {
        self.kept.borrow_mut().get_or_insert_default().clone()
    }

    /// Returns the counter of the run. With `--json-stream`, and on a terminal, a thread prints a line of it each
    /// second from now on. The thread inherits this one's settings, so pin this one to a CPU only afterwards.
    ///
    /// # Errors
    /// A check failure if the system refuses.
    pub fn counter<C: ?Sized, S: Seconds<C>>(&self, blank: S) -> Result<Counter<S>, Failure> {
        let kept = self.kept.borrow().clone();
        if !self.streams() && kept.is_none() {
            return Ok(Counter::new(blank));
        }
        let stop = self.interrupt()?.stop_handle().map_err(not_heard)?;
        let (counter, intervals) = Counter::streamed(blank);
        let form = if self.output.stream {
            Form::Json { schema: self.schema.replacen('/', ".stream/", 1), seed: self.seed }
        } else if self.is_watched() {
            Form::Lines(self.screen)
        } else {
            Form::Silent
        };
        let stream = Stream::start(form, kept, intervals, stop)
            .map_err(|error| Failure::broke_off("starting the thread that writes the stream", &error))?;
        self.stream.replace(Some(Box::new(move || stream.finish())));
        Ok(counter)
    }

    /// Returns why the figures are inconclusive, if others used too much of the machine. The first call ends the watch.
    pub fn disturbed(&self) -> Option<String> {
        let interference = self.interference();
        match self.disturbed_by {
            Disturbance::Anybody => interference.inconclusive(),
            Disturbance::Host => Interference { others_share: None, ..interference }.inconclusive(),
            Disturbance::Nobody | Disturbance::Unwatched => None,
        }
    }

    fn interference(&self) -> Interference {
        let so_far = || self.background.borrow().as_ref().map(BackgroundLoad::so_far).unwrap_or_default();
        let known = self.interference.get().unwrap_or_else(so_far);
        self.interference.set(Some(known));
        known
    }
}

/// Returns an object without remarks.
fn object<'a, R, C>(
    machine: &'a Machine,
    seed: Option<u64>,
    config: &'a C,
    report: &'a R,
) -> Object<'a, R, C> {
    Object { header: None, machine, sandbox: None, seed, config, fallbacks: &[], inconclusive: None, report }
}

fn not_heard(error: io::Error) -> Failure {
    Failure::broke_off("listening for signals", &error)
}

#[cfg(test)]
mod tests {
    use softtimers_measure::failure::Exit;

    use super::table::Table;
    use super::*;

    #[derive(Serialize, Default)]
    struct Counts {
        sent: u64,
    }

    impl Report<Fake> for Counts {
        const SCHEMA: &'static str = "softtimers.fake/1";

        fn table(&self) -> Table {
            Table::default()
        }
    }

    /// Keeps its output instead of printing it.
    #[derive(Default)]
    struct Fake {
        output: Output,
        breaks_off: bool,
        fails_to_print: bool,
        printed: Option<serde_json::Value>,
    }

    impl Command for Fake {
        type Config = bool;
        type Report = Counts;
        const DISTURBED_BY: Disturbance = Disturbance::Nobody;
        // Other tests run in this process.
        const RIGHTS: Rights = Rights::OfChildren;

        fn output(&self) -> &Output {
            &self.output
        }

        fn config(&self) -> bool {
            self.breaks_off
        }

        fn header(&self) -> String {
            "fake".to_owned()
        }

        fn example(&self) -> Counts {
            Counts::default()
        }

        fn run(&mut self, _: &Run<'_>) -> Result<Outcome<Counts>, Failure> {
            let broke_off = self.breaks_off.then(|| Failure::check("the cable is gone"));
            let outcome = Outcome { broke_off, ..Outcome::of(Counts { sent: 7 }) };
            Ok(Outcome { fallbacks: vec!["slowly".into()], inconclusive: Some("a test".into()), ..outcome })
        }

        fn print(&mut self, object: &Object<'_, Counts, bool>) -> Result<(), Failure> {
            self.printed = Some(object.to_json()?);
            if self.fails_to_print { Err(Failure::check("the disk is full")) } else { Ok(()) }
        }
    }

    #[test]
    fn what_broke_a_run_off_is_told_after_its_report() {
        let mut fake = Fake { breaks_off: true, ..Fake::default() };
        assert_eq!(carry_out(&mut fake).unwrap_err().to_string(), "the cable is gone");
        let printed = fake.printed.unwrap();
        assert_eq!((&printed["sent"], &printed["config"]), (&7.into(), &true.into()));
        assert_eq!(
            (&printed["fallbacks"][0], &printed["inconclusive"]),
            (&"slowly".into(), &"a test".into())
        );
        let mut both = Fake { breaks_off: true, fails_to_print: true, ..Fake::default() };
        assert_eq!(carry_out(&mut both).unwrap_err().to_string(), "the cable is gone; the disk is full");
    }

    #[test]
    fn keys_that_no_report_has_are_refused_before_the_run() {
        let asserting = |text: &str| Output { assertions: vec![text.parse().unwrap()], ..Output::default() };
        let mut fake = Fake { output: asserting("snet>1"), ..Fake::default() };
        assert_eq!(carry_out(&mut fake).unwrap_err().exit(), Exit::Usage);
        assert!(fake.printed.is_none());
        let mut fake = Fake { output: asserting("sent>1"), ..Fake::default() };
        assert!(carry_out(&mut fake).is_ok() && fake.printed.is_some());
    }
}
