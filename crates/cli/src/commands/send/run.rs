//! A run of `send`, from the question to the receiver to the goodbye.

use std::fmt;
use std::path::PathBuf;
use std::thread;

use softtimers_load::plan::{SendConfig, SendPlan};
use softtimers_load::send::{self, SendReport, SendTrace};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;

use super::args::Send;
use super::show::header;

use crate::commands::traffic_page::Page;
use crate::file::OutputFile;
use crate::run::output::{Object, Output, say};
use crate::run::privileges::{Needs, Rights};
use crate::run::{Command, Disturbance, Outcome, Run};

impl Command for Send {
    type Config = SendConfig;
    type Report = SendReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;
    const FIELDS: &'static str = include_str!("fields.txt");
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> SendConfig {
        self.plan.config()
    }

    fn header(&self) -> String {
        header("send", &self.plan.config())
    }

    fn example(&self) -> SendReport {
        SendReport::example()
    }

    fn seed(&self) -> Option<u64> {
        self.plan.traffic.seed()
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<SendReport>, Failure> {
        self.open = Page::open(&self.page.0, self.page.1, run)?;
        let mut file = None;
        let sent = send(self, &self.plan, run, |interrupt| {
            file = self.trace.as_ref().map(|trace| create(trace, interrupt)).transpose()?;
            Ok(())
        })?;
        let written = file.zip(sent.trace).map_or(Ok(()), |(file, trace)| write_trace(file, &trace));
        if let (Some(_), Err(failure)) = (&sent.broke_off, &written) {
            say(format_args!("softtimers: {failure}"));
        }
        let broke_off = sent.broke_off.or(written.err());
        Ok(Outcome { fallbacks: sent.fallbacks, broke_off, ..Outcome::of(sent.report) })
    }

    fn print(&mut self, object: &Object<'_, SendReport, SendConfig>) -> Result<(), Failure> {
        let printed = self.output().finish::<Self, _, _>(object);
        let Some(page) = self.open.take() else { return printed };
        let (verdict, machine) = (header("send", object.config), object.machine.place());
        printed.and(page.write("softtimers send", verdict, machine, &object.to_json::<Self>()?))
    }
}

/// Creates the file of a trace. It waits for a FIFO's reader until a signal comes.
fn create((path, force): &(PathBuf, bool), interrupt: &Interrupt) -> Result<OutputFile, Failure> {
    let opened = OutputFile::create_while(path, "--trace", *force, |time| {
        thread::park_timeout(time);
        Ok(!interrupt.arrived())
    });
    Ok(opened?)
}

/// Writes the log of departures, and reports those without room.
fn write_trace(file: OutputFile, trace: &SendTrace) -> Result<(), Failure> {
    if trace.forgotten() > 0 {
        let (kept, all) = (SendTrace::ROOM, SendTrace::ROOM as u64 + trace.forgotten());
        say(format_args!("softtimers: --trace: the last {kept} of {all} departures"));
    }
    let mut pieces = Pieces { file, text: String::with_capacity(PIECE), failure: None };
    // A failure is kept with its reason.
    let _ = trace.write_chrome(&mut pieces);
    let _ = pieces.append();
    pieces.failure.map_or(Ok(()), Err)
}

/// Buffers text for a file in whole events, so that the file can be read even if the disk is full.
struct Pieces {
    file: OutputFile,
    text: String,
    failure: Option<Failure>,
}

impl Pieces {
    fn append(&mut self) -> fmt::Result {
        if self.failure.is_none() {
            self.failure = self.file.append(&self.text).err();
        }
        self.text.clear();
        if self.failure.is_none() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl fmt::Write for Pieces {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() >= PIECE && text.starts_with(",\n") {
            self.append()?;
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Large compared with a system call's cost.
const PIECE: usize = 1 << 16;

/// Sends as planned, for `send` and `replay`. Until the receiver has agreed, a signal ends the process; then `ready` is
/// called.
pub(crate) fn send<C: Command>(
    command: &C,
    plan: &SendPlan,
    run: &Run<'_>,
    ready: impl FnOnce(&Interrupt) -> Result<(), Failure>,
) -> Result<send::Outcome, Failure> {
    let opened = send::open(plan)?;
    run.drop_privileges(Needs::default())?;
    let prepared = opened.ask()?;
    let interrupt = run.own_interrupt()?;
    ready(&interrupt)?;
    run.announce(&command.header());
    let counter = run.counter(send::stats(plan))?;
    let _progress = run.begin(command, "sending", plan.traffic.expected());
    let notify = |text: fmt::Arguments<'_>| say(format_args!("softtimers: {text}"));
    prepared.send(interrupt, counter, notify)
}
