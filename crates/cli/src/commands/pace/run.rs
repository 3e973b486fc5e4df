//! A command whose connections are paced.

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command as Program, ExitCode, ExitStatus};
use std::time::Duration;

use rustix::thread::CapabilitySet;
use softtimers::{Clock, Monotonic};
use softtimers_bpf::{Error, TcpCapacity, TcpCounts, TcpPace};
use softtimers_linux::optional::Optional;
use softtimers_measure::failure::{Exit, Failure};
use softtimers_measure::interrupt::Interrupt;

use super::args::{PaceArgs, PacePlan};
use super::group::Group;
use super::guard::Guard;
use super::show::{PaceConfig, PaceReport, fallbacks, fallbacks_of_sockets, header, rate_only};
use super::supervise::Supervised;
use super::watch::Watch;
use crate::control::Control;
use crate::file::OutputFile;
use crate::run::output::{Object, Output, say};
use crate::run::privileges::paths::{Opens, directory_of};
use crate::run::privileges::user::as_caller;
use crate::run::privileges::{Confined, Needs, Rights};
use crate::run::{Command, Disturbance, Outcome, Run, carry_out};
use crate::user_command::{Terminal, pass_on};

/// Runs a command with its connections paced, and returns its exit code.
///
/// # Errors
/// If it could not be started, or the run broke off.
pub(crate) fn run(args: &PaceArgs) -> Result<ExitCode, Failure> {
    let mut paced = Paced::new(PacePlan::new(args)?)?;
    let done = carry_out(&mut paced);
    match (paced.status, paced.not_started) {
        (Some(status), _) if !status.success() => {
            if let Err(failure) = done {
                say(format_args!("softtimers: {failure}"));
            }
            Ok(pass_on(status))
        }
        (None, Some(code)) => done.map_or_else(
            |failure| {
                say(format_args!("softtimers: {failure}"));
                Ok(ExitCode::from(code))
            },
            |()| Ok(ExitCode::from(code)),
        ),
        _ => done.map(|()| ExitCode::SUCCESS),
    }
}

/// A command, and what is known of its path.
#[derive(Debug)]
pub(crate) struct Paced {
    plan: PacePlan,
    summary: Option<OutputFile>,
    status: Option<ExitStatus>,
    /// A shell's exit code, if the command could not be started.
    not_started: Option<u8>,
}

impl Paced {
    fn new(plan: PacePlan) -> Result<Self, Failure> {
        let summary = plan.summary.as_ref();
        let summary =
            summary.map(|(path, force)| OutputFile::create(path, "--summary", *force)).transpose()?;
        Ok(Paced { plan, summary, status: None, not_started: None })
    }

    /// Converts the error of a command that was to be started.
    fn not_started(&mut self, error: &io::Error) -> Failure {
        self.not_started = Some(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 });
        let name = self.plan.command.first().map(|name| name.to_string_lossy());
        Failure::usage(format_args!("-- {}: {error}", name.unwrap_or_default()))
    }

    fn opens(&self) -> Opens {
        let removes = self.plan.control.as_deref().map(|path| directory_of(path).to_owned());
        Opens { removes, ..Opens::default() }
    }

    /// Answers a line of the control socket.
    fn answer(&mut self, line: &str, means: &mut impl Means, took: Duration) -> String {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["show"] => match means.report(took, None) {
                Ok(report) => serde_json::to_string(&report).unwrap_or_default(),
                Err(error) => format!("error: {error}"),
            },
            ["set", name, value] => {
                let mut plan = self.plan.clone();
                match plan.set(name, value).and_then(|()| means.set(&self.plan.capacity, &plan.capacity)) {
                    Ok(()) => {
                        self.plan = plan;
                        "ok".to_owned()
                    }
                    Err(problem) => format!("error: {problem}"),
                }
            }
            _ => "error: the commands are: set rate RATE; set window WINDOW; show".to_owned(),
        }
    }

    /// Runs the command in a cgroup with BPF programs.
    fn with_bpf(&mut self, run: &Run<'_>, mut pace: TcpPace, group: &Group) -> Ran {
        let interrupt = Interrupt::listen_each().map_err(broke_off("listening for signals"))?;
        let guard = Guard::of_group(group.path()).map_err(broke_off("starting the guard of the cgroup"))?;
        pace.attach(group).map_err(failure)?;
        let mut control = self.plan.control.as_deref().map(bind).transpose()?;
        let terminal = Terminal::of_this_process();
        let began = Monotonic.now();
        let command = &self.plan.command;
        let child = group.inside(|| spawn(command)).map_err(|error| self.not_started(&error))?;
        let mut watch = Watch::new(child, terminal).map_err(broke_off("watching the command"))?;
        // The command keeps what this process gives up now.
        let opens = Confined { opens: self.opens(), uses_bpf: true };
        run.drop_privileges(Needs { confined: Some(opens), ..Needs::with_bpf() })?;
        let elapsed = || Monotonic.now().saturating_duration_since(began);
        let watched =
            watch.wait(group, &interrupt, control.as_mut(), |line| self.answer(line, &mut pace, elapsed()));
        let took = elapsed();
        self.status = watch.status();
        let counts = pace.counts().map_err(failure)?;
        let lacks = [pace.lacks(), pace.lacks_udp()].map(|why| Some(why?.to_string()));
        drop(guard);
        // What the guard had to end has no exit code of its own.
        let report = PaceReport::new(&counts, took, self.status);
        let fallbacks = fallbacks(&counts, self.plan.capacity.rate.get(), &lacks);
        Ok(Outcome { fallbacks, ..ended(report, watched) })
    }

    /// Runs the command with the rate alone, as BPF is not possible.
    fn with_rate_only(&mut self, run: &Run<'_>, why: &Failure) -> Ran {
        let interrupt = Interrupt::listen_each().map_err(broke_off("listening for signals"))?;
        let mut control = self.plan.control.as_deref().map(bind).transpose()?;
        let terminal = Terminal::of_this_process();
        let began = Monotonic.now();
        let command = &self.plan.command;
        let started = Supervised::start(&self.plan.capacity, || spawn(command)).map_err(|error| {
            Failure::not_possible(format_args!("{why}; and watching its calls (seccomp): {error}"))
        })?;
        let (supervised, child) = match started {
            Ok(started) => started,
            Err(error) => return Err(self.not_started(&error)),
        };
        let guard = supervised.share().and_then(Guard::of_calls);
        let guard = guard.map_err(broke_off("starting the guard of the calls"))?;
        supervised.guarded_by(guard.id());
        let mut watch = Watch::new(child, terminal).map_err(broke_off("watching the command"))?;
        say(format_args!("softtimers: {}", rate_only(why)));
        // A process may copy the sockets of one that has no more rights.
        run.drop_privileges(Needs { kept: CapabilitySet::all(), ..Needs::default() })?;
        let elapsed = || Monotonic.now().saturating_duration_since(began);
        let watched = watch.wait(&supervised, &interrupt, control.as_mut(), |line| {
            self.answer(line, &mut &supervised, elapsed())
        });
        let took = elapsed();
        self.status = watch.status();
        let counts = supervised.counts();
        let to = !self.plan.capacity.to.is_empty();
        let report = PaceReport::of_sockets(&counts, took, self.status);
        let fallbacks = fallbacks_of_sockets(&counts, why, to);
        drop((supervised, guard));
        Ok(Outcome { fallbacks, ..ended(report, watched) })
    }
}

type Ran = Result<Outcome<PaceReport>, Failure>;

/// How connections are given the capacity.
trait Means {
    /// Changes the capacity.
    fn set(&mut self, from: &TcpCapacity, to: &TcpCapacity) -> Result<(), String>;

    /// Reports so far.
    fn report(&self, span: Duration, status: Option<ExitStatus>) -> Result<PaceReport, String>;
}

impl Means for TcpPace {
    fn set(&mut self, _from: &TcpCapacity, to: &TcpCapacity) -> Result<(), String> {
        TcpPace::set(self, to).map_err(|error| error.to_string())
    }

    fn report(&self, span: Duration, status: Option<ExitStatus>) -> Result<PaceReport, String> {
        let counts = self.counts().map_err(|error| error.to_string())?;
        Ok(PaceReport::new(&counts, span, status))
    }
}

impl Means for &Supervised {
    fn set(&mut self, from: &TcpCapacity, to: &TcpCapacity) -> Result<(), String> {
        if from.window != to.window {
            return Err("window: this run has the rate only".to_owned());
        }
        Supervised::set(self, to);
        Ok(())
    }

    fn report(&self, span: Duration, status: Option<ExitStatus>) -> Result<PaceReport, String> {
        Ok(PaceReport::of_sockets(&self.counts(), span, status))
    }
}

impl Command for Paced {
    type Config = PaceConfig;
    type Report = PaceReport;
    // The command may need all of the machine.
    const DISTURBED_BY: Disturbance = Disturbance::Unwatched;
    const RIGHTS: Rights = Rights::ToOpen;
    const FIELDS: &'static str = include_str!("fields.txt");

    fn output(&self) -> &Output {
        &self.plan.output
    }

    fn config(&self) -> PaceConfig {
        PaceConfig::from(&self.plan)
    }

    fn header(&self) -> String {
        header(&self.config())
    }

    fn example(&self) -> PaceReport {
        PaceReport::new(&TcpCounts::default(), Duration::ZERO, None)
    }

    /// Runs the command until it and its children have ended.
    fn run(&mut self, run: &Run<'_>) -> Ran {
        match load(&self.plan).and_then(|pace| Ok((pace, Group::make()?))) {
            Ok((pace, group)) => self.with_bpf(run, pace, &group),
            Err(why) if why.exit() == Exit::NotPossible => self.with_rate_only(run, &why),
            Err(failure) => Err(failure),
        }
    }

    /// Prints the report to stderr: stdout is the command's.
    fn print(&mut self, object: &Object<'_, PaceReport, PaceConfig>) -> Result<(), Failure> {
        let written = self.summary.take().map(|file| file.write(&(object.to_json_text()? + "\n")));
        self.plan.output.finish_aside::<Self, _, _>(object).and(written.unwrap_or(Ok(())))
    }
}

/// Starts a command as the user who asked for it.
fn spawn(command: &[OsString]) -> io::Result<Child> {
    let [name, arguments @ ..] = command else { return Err(io::ErrorKind::InvalidInput.into()) };
    as_caller(|| Program::new(name).args(arguments).spawn())
}

fn ended(report: PaceReport, watched: io::Result<()>) -> Outcome<PaceReport> {
    let broke_off = watched.err().map(|error| Failure::broke_off("waiting for the command", &error));
    Outcome { broke_off, ..Outcome::of(report) }
}

fn broke_off(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::broke_off(what, &error)
}

fn bind(path: &std::path::Path) -> Result<Control, Failure> {
    Control::bind(path).map_err(|error| Failure::usage(format_args!("--control {}: {error}", path.display())))
}

fn load(plan: &PacePlan) -> Result<TcpPace, Failure> {
    // A library loads the programs, and makes this call itself.
    Optional::Bpf.check().map_err(|why| Failure::not_possible(format_args!("pacing a command: {why}")))?;
    TcpPace::load(&plan.capacity).map_err(failure)
}

/// Converts an error: a machine that lacks something is not-possible; otherwise the run broke off.
fn failure(error: Error) -> Failure {
    match error {
        Error::Privilege { missing } => {
            Failure::not_possible(format_args!("pacing a command: {missing} missing; root has them"))
        }
        Error::NoBtf(_) | Error::TooOld { .. } | Error::Refused { .. } | Error::NothingAttached => {
            Failure::not_possible(format_args!("pacing a command: {error}"))
        }
        Error::InUse { .. } | Error::NoFq { .. } | Error::Map(_) | Error::System(_) => Failure::check(error),
    }
}
