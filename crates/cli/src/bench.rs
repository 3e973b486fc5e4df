//! `softtimers bench`: what a receiver does under overload, measured on this machine.
//!
//! The highest rate at which nothing is lost (the MLFRR of the livelock paper, §4.2) says how much a receiver can do. What
//! it delivers beyond that says whether it can be relied on, and that is where receivers differ:
//!
//! ```text
//!   delivered │     ╱▔▔▔▔▔▔▔▔  realisable: hybrid, poll, hip, interrupt
//!             │   ╱│ ╲
//!             │ ╱  │   ╲______ livelock: naive
//!             └────┴──────────▶ offered
//!                  MLFRR
//! ```
//!
//! - [`trial`](mod@trial): one receiver, offered one rate by [`load`], a sender in another process;
//! - `polled` and `naive`: the receivers; [`queue`], and `second` behind it; [`filter`]: its work;
//! - `beat`: a timer that wants to fire meanwhile; [`window`]: the time that counts;
//! - `search`: which trials are made; [`report`] and `plot`: what is told of them.

mod beat;
pub mod filter;
mod first;
pub mod load;
mod naive;
mod plot;
mod polled;
pub mod queue;
pub mod report;
mod search;
mod second;
pub mod trial;
pub mod window;

use std::time::Duration;

use crate::args::TrialLength;
use crate::failure::Failure;
use crate::forward::mode::Mode;
use crate::interrupt::Interrupt;
use crate::machine::{Machine, Neighbours};
use crate::output::Run;
use crate::plan::{BenchPlan, Offers};
use crate::progress::Progress;
use report::{BenchConfig, BenchReport, CurveReport, Point};
use search::Search;
use trial::Bench;

/// Makes the trials, prints what they say and checks it.
///
/// # Errors
/// A usage failure if an assertion names no key; a check failure if an assertion does not hold or a trial breaks off.
pub fn run(plan: &BenchPlan) -> Result<(), Failure> {
    let machine = Machine::read();
    let example = BenchReport {
        curve: Some(CurveReport::default()),
        points: vec![Point::default(); plan.points()],
        ..BenchReport::default()
    };
    let mut bench = Bench::new(plan.receiver);
    let blank = Run {
        machine: &machine,
        seed: None,
        config: &config(plan, &bench),
        fallbacks: &[],
        inconclusive: None,
        report: &example,
    };
    plan.output.check_keys(&blank)?;
    let interrupt =
        Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
    let neighbours = Neighbours::watch();
    let progress = Progress::start("measuring", Some(plan.expected()));
    let report = Search::new(plan, &mut bench, &interrupt).run();
    drop(progress);
    let report = report?;
    let interference = neighbours.so_far();
    plan.output.finish(&Run {
        machine: &machine.during(interference),
        seed: None,
        config: &config(plan, &bench),
        fallbacks: &notes(plan, &bench, &report, &interrupt),
        inconclusive: interference.inconclusive().or_else(|| report.contradiction()),
        report: &report,
    })
}

impl BenchPlan {
    fn points(&self) -> usize {
        match &self.offers {
            Offers::Multiples(multiples) => multiples.len(),
            Offers::Rates(rates) => rates.len(),
        }
    }

    /// About how long it takes, for the progress bar.
    fn expected(&self) -> Duration {
        let search = if matches!(self.offers, Offers::Multiples(_)) { SEARCH } else { 0 };
        (self.trial.at(EXPECTED_RATE) + TRIAL_OVERHEAD) * (self.points() as u32 + search)
    }
}

fn config(plan: &BenchPlan, bench: &Bench) -> BenchConfig {
    let receiver = &plan.receiver;
    let naive = receiver.looking.mode == Mode::Naive;
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    BenchConfig {
        mode: receiver.looking.mode,
        stages: receiver.stages,
        rules: receiver.work,
        burst: plan.burst,
        quota: (!naive).then_some(receiver.looking.quota),
        aggregate: receiver.looking.mode.aggregates().then_some(receiver.looking.aggregate),
        max_delay_ns: receiver.looking.max_delay.map(nanos),
        cpu_limit: receiver.cpu_limit.map(|share| f64::from(share.get()) / 100.0),
        nice: receiver.nice,
        beside: receiver.beside,
        queue: queue::ROOM,
        recv_buffer_bytes: bench.recv_buffer(),
        trial_s: match plan.trial {
            TrialLength::Time(time) => Some(time.as_secs_f64()),
            TrialLength::Datagrams(_) => None,
        },
        trial_datagrams: match plan.trial {
            TrialLength::Time(_) => None,
            TrialLength::Datagrams(number) => Some(number),
        },
    }
}

/// What was not as asked.
fn notes(plan: &BenchPlan, bench: &Bench, report: &BenchReport, interrupt: &Interrupt) -> Vec<String> {
    let mut notes = Vec::new();
    if !bench.has_two_processors() {
        notes.push("one processor: sender and receiver share it, so the curve says little".to_owned());
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

/// Trials of a search, more or less, its longer one counted as four.
const SEARCH: u32 = 20;
/// For the length of a trial of so many datagrams: about what a receiver with the default work does.
const EXPECTED_RATE: f64 = 50_000.0;
/// Starting the sender, and waiting for what is in buffers.
const TRIAL_OVERHEAD: Duration = Duration::from_millis(70);

/// As many as a sender says.
pub(crate) const GOODBYES: u32 = 3;
