//! `noise`: a computation of 1 ms, over and over. How long it takes, what was in its way, and what that does to a job
//! whose phases last as long as the slowest of many nodes (Tsafrir, Etsion, Feitelson 2005, §2.2).
//!
//! ```text
//!   ▓▓▓▓▓▓▓▓│·│▓▓▓▓▓▓▓▓│·│▓▓▓▓i▓▓▓▓▓│·│▓▓▓▓▓▓▓▓│        ▓ a phase, calibrated   i an interrupt
//!     1 ms      1 ms       1.07 ms      1 ms           · the kernel's counters are read
//! ```
//!
//! Each phase is timed alone and stands beside what the kernel counted in it, so that a long one has a cause. What a
//! job of n nodes comes to is `softtimers_sim`'s, of the phases that were measured.

mod account;
mod measured;
pub mod rates;
mod report;
mod work;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use serde::Serialize;
use softtimers::RealTime;

use crate::args::{NoiseArgs, NoiseClass};
use crate::output::{Output, Run};
use crate::progress::Progress;

use account::Accounts;
pub use measured::{Cause, Caused, InterruptLine, Interrupts};
use measured::{Phases, Rests, measure};
pub use report::{Found, NoiseReport, Quantile, Slowdown, Slower};
use softtimers_measure::class::Class;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::machine::{Machine, Neighbours};
use softtimers_measure::processor::Processor;
use work::Work;

/// What `noise` will do.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NoisePlan {
    /// Phases under each class.
    pub phases: u32,
    /// What each takes if nothing holds it up.
    pub phase_ns: u64,
    /// Times the median: beyond it a phase is delayed.
    pub threshold: f64,
    /// Of the jobs.
    pub nodes: Vec<u32>,
    /// Whether also under `SCHED_FIFO`.
    pub fifo: bool,
    /// Where it measures.
    pub cpu: usize,
    #[serde(skip)]
    phase: Duration,
    #[serde(skip)]
    seed: u64,
    #[serde(skip)]
    processor: Processor,
    #[serde(skip)]
    output: Output,
}

impl NoisePlan {
    /// Of the arguments.
    ///
    /// # Errors
    /// A usage failure for a processor that this process may not run on, and for more real-time phases than a minute
    /// has.
    pub fn new(args: &NoiseArgs) -> Result<Self, Failure> {
        let processor = processor(args)?;
        let fifo = args.class == NoiseClass::Fifo;
        if fifo && args.phase * args.phases > LONGEST_FIFO {
            let most = LONGEST_FIFO.as_nanos() / args.phase.as_nanos();
            return Err(Failure::usage(format_args!(
                "--phases {}: --class fifo may take a processor for a minute, {most} such phases",
                args.phases
            )));
        }
        Ok(NoisePlan {
            phases: args.phases,
            phase_ns: args.phase.as_nanos() as u64,
            threshold: args.threshold,
            nodes: args.nodes.clone(),
            fifo,
            cpu: processor.number(),
            phase: args.phase,
            seed: args.seed,
            processor,
            output: Output::from(&args.output),
        })
    }
}

/// Measures and prints.
///
/// # Errors
/// Not possible for a thread of a real-time class, and without the privilege for one with `--class fifo`; a check
/// failure if the system refuses or an assertion does not hold.
pub fn run(plan: &NoisePlan) -> Result<(), Failure> {
    let machine = Machine::read();
    plan.output.check_keys(&plan.run_of(&machine, &[], &NoiseReport::blank(plan)))?;
    let class = Class::current();
    if !class.may_spin() {
        return Err(Failure::not_possible(format_args!("{class}, so it must not spin")));
    }
    if plan.fifo {
        // Refused now rather than after the other class.
        drop(real_time()?);
    }
    let interrupt =
        Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
    let done = Arc::new(AtomicUsize::new(0));
    let phases = plan.phases as usize * (1 + usize::from(plan.fifo));
    let progress =
        (plan.phase * phases as u32 > WORTH_SHOWING).then(|| Progress::counted("measuring", phases, &done));
    let neighbours = Neighbours::watch();
    let refused = |error| Failure::broke_off(format_args!("keeping to processor {}", plan.cpu), &error);
    let kept = plan.processor.keep().map_err(refused)?;
    let (work, calibrated) = Work::calibrated(plan.phase);
    let mut accounts = Accounts::open(plan.cpu);
    let ordinary = measure(work, plan.phases, None, &mut accounts, &done, &interrupt);
    let fifo = if plan.fifo {
        let held = real_time()?;
        let phases = measure(work, plan.phases, Some(RESTS), &mut accounts, &done, &interrupt);
        drop(held);
        Some(phases)
    } else {
        None
    };
    drop((kept, progress));
    let interference = neighbours.so_far();
    let found = |phases: &Phases| Found::of(phases, plan);
    let report =
        NoiseReport { calibrated_ns: calibrated, ordinary: found(&ordinary), fifo: fifo.as_ref().map(found) };
    let mut notes = accounts.missing();
    notes.extend(work::caveat(plan.phase_ns, calibrated));
    plan.output.finish(&plan.run_of(&machine.during(interference), &notes, &report))
}

impl NoisePlan {
    fn run_of<'a>(
        &'a self,
        machine: &'a Machine,
        fallbacks: &'a [String],
        report: &'a NoiseReport,
    ) -> Run<'a, NoiseReport, NoisePlan> {
        // Neighbours are part of what is measured here, so that they do not make it inconclusive.
        let measured = report.fifo.as_ref().map_or(report.ordinary.phases, |fifo| fifo.phases);
        let inconclusive = (measured < u64::from(self.phases))
            .then(|| format!("ended by a signal after {measured} of {} phases of a class", self.phases));
        Run { machine, seed: Some(self.seed), config: self, fallbacks, inconclusive, report }
    }
}

/// Where to measure.
fn processor(args: &NoiseArgs) -> Result<Processor, Failure> {
    let unknown = |error| Failure::broke_off("asking for the processor", &error);
    args.cpu.map_or_else(|| Processor::current().map_err(unknown), Processor::new)
}

fn real_time() -> Result<RealTime, Failure> {
    RealTime::hold(LONGEST_RUN).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Failure::not_possible(
            "--class fifo takes CAP_SYS_NICE, or a limit of real-time priority (ulimit -r) above 0",
        ),
        _ => Failure::not_possible(format_args!("--class fifo: {error}")),
    })
}

/// A tenth of the processor for everything else, and none of it by the throttle of real-time threads.
const RESTS: Rests = Rests { after: Duration::from_millis(50), for_: Duration::from_millis(5) };
/// Far beyond a bout of it; the kernel ends the process then.
const LONGEST_RUN: Duration = Duration::from_millis(500);
const LONGEST_FIFO: Duration = Duration::from_secs(60);
const WORTH_SHOWING: Duration = Duration::from_secs(2);
