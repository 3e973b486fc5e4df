//! The phases under each class.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use rustix::thread::CapabilitySet;
use softtimers::RealTime;
use softtimers_measure::class::Class;
use softtimers_measure::failure::Failure;

use super::account::Accounts;
use super::args::Noise;
use super::measured::{Phases, Rests, measure};
use super::show::{ClassReport, NoiseReport, header};
use super::work::{self, Work};

use softtimers_run::output::Output;
use softtimers_run::privileges::{Needs, Rights};
use softtimers_run::progress::Progress;
use softtimers_run::{Command, Disturbance, Outcome, Run};

impl Command for Noise {
    type Config = Noise;
    type Report = NoiseReport;
    // Disturbance is what it measures.
    const DISTURBED_BY: Disturbance = Disturbance::Nobody;
    const FIELDS: &'static str = include_str!("fields.txt");
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.setup.output
    }

    fn config(&self) -> Noise {
        self.clone()
    }

    fn seed(&self) -> Option<u64> {
        Some(self.setup.seed)
    }

    fn header(&self) -> String {
        header(self)
    }

    fn example(&self) -> NoiseReport {
        NoiseReport::example(self)
    }

    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<NoiseReport>, Failure> {
        let class = Class::current();
        if !class.may_spin() {
            return Err(Failure::not_possible(format_args!("{class}, so it must not spin")));
        }
        if self.fifo {
            // Refused now rather than after the other class.
            drop(real_time()?);
        }
        // The class is switched several times.
        let kept = if self.fifo { CapabilitySet::SYS_NICE } else { CapabilitySet::empty() };
        run.drop_privileges(Needs { kept, ..Needs::default() })?;
        let interrupt = run.interrupt()?;
        let done = Arc::new(AtomicUsize::new(0));
        let phases = self.phases as usize * (1 + usize::from(self.fifo));
        run.announce(&self.header());
        let progress = (self.phase * phases as u32 > WORTH_SHOWING)
            .then(|| Progress::counted("measuring", phases, &done));
        let refused = |error| Failure::broke_off(format_args!("keeping to CPU {}", self.setup.cpu), &error);
        let kept = self.setup.processor.keep().map_err(refused)?;
        let (work, calibrated) = Work::calibrated(self.phase);
        let mut accounts = Accounts::open(self.setup.cpu);
        let ordinary = measure(work, self.phases, None, &mut accounts, &done, interrupt);
        let fifo = if self.fifo {
            let held = real_time()?;
            let phases = measure(work, self.phases, Some(RESTS), &mut accounts, &done, interrupt);
            drop(held);
            Some(phases)
        } else {
            None
        };
        drop((kept, progress));
        let shown = |phases: &Phases| ClassReport::from_phases(phases, self);
        let report = NoiseReport {
            calibrated_ns: calibrated,
            ordinary: shown(&ordinary),
            fifo: fifo.as_ref().map(shown),
        };
        let measured = report.fifo.as_ref().map_or(report.ordinary.phases, |fifo| fifo.phases);
        let ended = (measured < u64::from(self.phases))
            .then(|| format!("ended by a signal after {measured} of {} phases of a class", self.phases));
        let mut fallbacks = accounts.missing();
        fallbacks.extend(work::caveat(self.phase_ns, calibrated));
        Ok(Outcome { fallbacks, inconclusive: ended, ..Outcome::of(report) })
    }
}

fn real_time() -> Result<RealTime, Failure> {
    RealTime::hold(LONGEST_RUN).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Failure::not_possible(
            "--class fifo takes CAP_SYS_NICE, or a limit of real-time priority (ulimit -r) above 0",
        ),
        _ => Failure::not_possible(format_args!("--class fifo: {error}")),
    })
}

/// Leaves a tenth of the CPU to everything else, without relying on the throttle of real-time threads.
const RESTS: Rests = Rests { after: Duration::from_millis(50), for_: Duration::from_millis(5) };
/// Far longer than an uninterrupted run; then the kernel kills the process.
const LONGEST_RUN: Duration = Duration::from_millis(500);
const WORTH_SHOWING: Duration = Duration::from_secs(2);
