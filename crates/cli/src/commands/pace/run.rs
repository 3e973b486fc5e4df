//! A command whose connections are paced.

use std::io;
use std::process::{Child, Command as Program, ExitCode, ExitStatus};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_bpf::{Error, TcpCounts, TcpPace};
use softtimers_linux::optional::Optional;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_run::field::Field;

use super::args::{PaceArgs, PacePlan};
use super::group::Group;
use super::guard::Guard;
use super::show::{PaceConfig, PaceReport, fallbacks, header};
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

    /// Starts the command in the group, as the user who asked for it.
    fn start(&mut self, group: &Group) -> Result<Child, Failure> {
        let [name, arguments @ ..] = &self.plan.command[..] else {
            return Err(Failure::usage("no command"));
        };
        let started = group.inside(|| as_caller(|| Program::new(name).args(arguments).spawn()));
        started.map_err(|error| {
            self.not_started = Some(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 });
            Failure::usage(format_args!("-- {}: {error}", name.to_string_lossy()))
        })
    }

    fn opens(&self) -> Opens {
        let removes = self.plan.control.as_deref().map(|path| directory_of(path).to_owned());
        Opens { removes, ..Opens::default() }
    }

    /// Answers a line of the control socket.
    fn answer(
        &mut self,
        line: &str,
        pace: &mut TcpPace,
        so_far: impl FnOnce(TcpCounts) -> PaceReport,
    ) -> String {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["show"] => match pace.counts() {
                Ok(counts) => serde_json::to_string(&so_far(counts)).unwrap_or_default(),
                Err(error) => format!("error: {error}"),
            },
            ["set", name, value] => {
                let mut plan = self.plan.clone();
                let set = plan
                    .set(name, value)
                    .and_then(|()| pace.set(&plan.capacity).map_err(|error| error.to_string()));
                match set {
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
}

impl Command for Paced {
    type Config = PaceConfig;
    type Report = PaceReport;
    // The command may need all of the machine.
    const DISTURBED_BY: Disturbance = Disturbance::Unwatched;
    const RIGHTS: Rights = Rights::ToOpen;
    const FIELDS: &'static [&'static [Field]] = super::fields::FIELDS;

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
    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<PaceReport>, Failure> {
        let broke_off = |what: &'static str| move |error: io::Error| Failure::broke_off(what, &error);
        let interrupt = Interrupt::listen_each().map_err(broke_off("listening for signals"))?;
        let mut pace = load(&self.plan)?;
        let group = Group::make()?;
        let guard = Guard::start(group.path()).map_err(broke_off("starting the guard of the cgroup"))?;
        pace.attach(&group).map_err(failure)?;
        let mut control = self.plan.control.as_deref().map(bind).transpose()?;
        let terminal = Terminal::of_this_process();
        let began = Monotonic.now();
        let child = self.start(&group)?;
        let mut watch = Watch::new(child, terminal).map_err(broke_off("watching the command"))?;
        // The command keeps what this process gives up now.
        let needs = Needs::with_bpf();
        let opens = Confined { opens: self.opens(), uses_bpf: true };
        run.drop_privileges(Needs { confined: Some(opens), ..needs })?;
        let elapsed = || Monotonic.now().saturating_duration_since(began);
        let watched = watch.wait(&group, &interrupt, control.as_mut(), |line| {
            self.answer(line, &mut pace, |counts| PaceReport::new(&counts, elapsed(), None))
        });
        let took = elapsed();
        self.status = watch.status();
        let counts = pace.counts().map_err(failure)?;
        let lacks = pace.lacks().map(ToString::to_string);
        drop(guard);
        // What the guard had to end has no exit code of its own.
        let report = PaceReport::new(&counts, took, self.status);
        Ok(Outcome {
            fallbacks: fallbacks(&counts, lacks.as_deref()),
            broke_off: watched.err().map(|error| Failure::broke_off("waiting for the command", &error)),
            ..Outcome::of(report)
        })
    }

    /// Prints the report to stderr: stdout is the command's.
    fn print(&mut self, object: &Object<'_, PaceReport, PaceConfig>) -> Result<(), Failure> {
        let written = self.summary.take().map(|file| file.write(&(object.to_json_text()? + "\n")));
        self.plan.output.finish_aside::<Self, _, _>(object).and(written.unwrap_or(Ok(())))
    }
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
