//! A run of `replay`: that of `send`, with a summary of the recording.

use softtimers_load::replay::late_at_the_end;
use softtimers_measure::failure::Failure;

use super::args::{Replay, ReplayConfig};
use super::show::ReplayReport;

use crate::commands::send::run::send;
use crate::commands::send::show::header;
use crate::run::output::Output;
use crate::run::privileges::Rights;
use crate::run::{Command, Disturbance, Outcome, Run};

impl Command for Replay {
    type Config = ReplayConfig;
    type Report = ReplayReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;
    const FIELDS: &'static str = concat!(include_str!("fields.txt"), include_str!("../send/fields.txt"));
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> ReplayConfig {
        self.configuration()
    }

    fn header(&self) -> String {
        let ReplayConfig { file, speed, send, .. } = self.configuration();
        header(&format!("replay {file} at {speed}x"), &send)
    }

    fn example(&self) -> ReplayReport {
        ReplayReport::new(Default::default(), None, self.summary)
    }

    fn seed(&self) -> Option<u64> {
        self.send.traffic.seed()
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<ReplayReport>, Failure> {
        let sent = send(self, &self.send, run, |_| Ok(()))?;
        let late = sent.skew.and_then(late_at_the_end);
        let fallbacks = [self.notes(), sent.fallbacks, late.into_iter().collect()].concat();
        let report = ReplayReport::new(sent.report, sent.skew, self.summary);
        Ok(Outcome { fallbacks, broke_off: sent.broke_off, ..Outcome::of(report) })
    }
}
