//! The trials of a bench, from the first of the search to the last of the curve.

use std::time::Duration;

use rustix::thread::CapabilitySet;
use softtimers_load::overload::{Bench, Point};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;

use super::args::{BenchPlan, Offers};
use super::search::Search;
use super::show::{BenchConfig, BenchReport, CurveReport, header};

use crate::run::output::Output;
use crate::run::privileges::{Needs, Rights};
use crate::run::{Command, Disturbance, Outcome, Run};

/// The requested measurement, and the bench that makes it.
pub(crate) struct Overload {
    plan: BenchPlan,
    bench: Bench,
}

impl Overload {
    /// Prepares a measurement; nothing is measured yet.
    ///
    /// # Errors
    /// A check failure if the system does not tell the path of this program, which is also the sender.
    pub(crate) fn new(plan: BenchPlan) -> Result<Self, Failure> {
        let program =
            std::env::current_exe().map_err(|error| Failure::broke_off("finding this program", &error))?;
        Ok(Overload { bench: Bench::new(plan.receiver, program), plan })
    }
}

impl Command for Overload {
    type Config = BenchConfig;
    type Report = BenchReport;
    const DISTURBED_BY: Disturbance = Disturbance::Anybody;
    const FIELDS: &'static str = include_str!("fields.txt");
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.plan.output
    }

    fn config(&self) -> BenchConfig {
        BenchConfig::from_plan(&self.plan, &self.bench)
    }

    fn header(&self) -> String {
        header(&BenchConfig::from_plan(&self.plan, &self.bench))
    }

    fn example(&self) -> BenchReport {
        BenchReport {
            curve: Some(CurveReport::default()),
            points: vec![Point::default(); self.plan.points()],
            ..BenchReport::default()
        }
    }

    /// Runs the trials.
    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<BenchReport>, Failure> {
        // Each trial has its own receive buffer, which is granted in full with this capability.
        run.drop_privileges(Needs { kept: CapabilitySet::NET_ADMIN, ..Needs::default() })?;
        let interrupt = run.interrupt()?;
        let progress = run.begin(self, "measuring", Some(self.plan.expected()));
        let report = Search::new(&self.plan, &mut self.bench, interrupt).run()?;
        drop(progress);
        let fallbacks = notes(&self.plan, &self.bench, &report, interrupt);
        // Interference by others explains why the figures may contradict each other.
        let inconclusive = run.disturbed().or_else(|| report.contradiction());
        Ok(Outcome { fallbacks, inconclusive, ..Outcome::of(report) })
    }
}

impl BenchPlan {
    fn points(&self) -> usize {
        match &self.offers {
            Offers::Multiples(multiples) => multiples.len(),
            Offers::Rates(rates) => rates.len(),
        }
    }

    /// Returns the approximate duration, for the progress bar.
    fn expected(&self) -> Duration {
        let search = if matches!(self.offers, Offers::Multiples(_)) { SEARCH } else { 0 };
        (self.trial.at(EXPECTED_RATE) + TRIAL_OVERHEAD) * (self.points() as u32 + search)
    }
}

/// Returns notes about everything that did not work as requested.
fn notes(plan: &BenchPlan, bench: &Bench, report: &BenchReport, interrupt: &Interrupt) -> Vec<String> {
    let mut notes = Vec::new();
    if !bench.has_two_processors() {
        notes.push("one CPU: sender and receiver share it, so the curve says little".to_owned());
    }
    if let Some(burst) =
        report.points.iter().map(|point| point.burst).max().filter(|&burst| burst > plan.burst)
    {
        notes.push(format!("the sender reached the highest rates only in bursts of {burst}"));
    }
    let missed = |point: &&Point| point.offered_pps < 0.9 * point.target_pps;
    if let (Some(_), Some(highest)) = (report.points.iter().find(missed), report.highest_multiple) {
        notes.push(format!("the sender came up to {highest:.1} times the capacity, and no further"));
    }
    if interrupt.arrived() {
        notes.push("interrupted: not all trials were made".to_owned());
    }
    notes
}

/// Trials of a search, approximately; its longer one counts as four.
const SEARCH: u32 = 20;
/// The rate assumed to convert a number of datagrams to a time: about that of a receiver with the default work.
const EXPECTED_RATE: f64 = 50_000.0;
/// The time to start the sender and drain the buffers.
const TRIAL_OVERHEAD: Duration = Duration::from_millis(70);
