//! A run of `send`, from the question to the receiver to the goodbye.

use std::fmt;

use softtimers_load::plan::{SendConfig, SendPlan};
use softtimers_load::send::{self, SendReport, SendTrace};
use softtimers_measure::failure::Failure;

use super::args::Send;
use super::show::header;
use crate::file::OutputFile;
use crate::run::output::{Output, say};
use crate::run::{Command, Disturbance, Outcome, Run};

impl Command for Send {
    type Config = SendConfig;
    type Report = SendReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;

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
        SendReport::default()
    }

    fn seed(&self) -> Option<u64> {
        self.plan.traffic.seed()
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<SendReport>, Failure> {
        let file = self.trace.as_ref().map(|(path, force)| OutputFile::create(path, "--trace", *force));
        let file = file.transpose()?;
        let sent = send(self, &self.plan, run)?;
        let written = file.zip(sent.trace).map_or(Ok(()), |(file, trace)| write_trace(file, &trace));
        let broke_off = sent.broke_off.or(written.err());
        Ok(Outcome { fallbacks: sent.fallbacks, broke_off, ..Outcome::of(sent.report) })
    }
}

/// Writes what left when; what there was no room for is said.
fn write_trace(file: OutputFile, trace: &SendTrace) -> Result<(), Failure> {
    let mut text = String::new();
    // Nothing that is written to memory fails.
    let _ = trace.write_chrome(&mut text);
    if trace.forgotten() > 0 {
        let (kept, all) = (SendTrace::ROOM, SendTrace::ROOM as u64 + trace.forgotten());
        say(format_args!("softtimers: --trace: the last {kept} of {all} departures"));
    }
    file.write(&text)
}

/// Sends as planned, for `send` and `replay`. Until the receiver has agreed, a signal ends the process.
pub(crate) fn send<C: Command>(
    command: &C,
    plan: &SendPlan,
    run: &Run<'_>,
) -> Result<send::Outcome, Failure> {
    let prepared = send::prepare(plan)?;
    let interrupt = run.own_interrupt()?;
    run.announce(&command.header());
    let counter = run.counter(send::stats(plan))?;
    let _progress = run.begin(command, "sending", plan.traffic.expected());
    let notify = |text: fmt::Arguments<'_>| say(format_args!("softtimers: {text}"));
    prepared.send(interrupt, counter, notify)
}
