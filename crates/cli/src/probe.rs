//! `probe`: how often this kernel passes trigger states, by BPF programs at its tracepoints.
//!
//! The kernel counts; this process only looks, four times a second, and waits for what ends the run. So what it
//! reports of an interval of the stream is as exact as the whole.
//!
//! ```text
//!   calls without ─▶ attach ─▶ calls with ─▶ count anew ─▶ CMD, or the time, or a signal ─▶ report
//!            └── what a trigger state costs more ──┘
//! ```

mod beside;
mod caches;
mod cost;
pub mod report;
pub mod second;
mod view;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_bpf::{Error, Intervals, Probe, Source};

use crate::output::Run;
use crate::plan::ProbePlan;
use crate::stream::Stream;
use beside::{Beside, Ended};
use caches::Caches;
use report::{ProbeReport, TracepointReport};
use second::Second;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::machine::{Interference, Machine, Neighbours};
use softtimers_measure::processor::Processor;
use view::View;

/// Measures until the command, the time or a signal ends it, then prints and checks the report.
///
/// # Errors
/// Not-possible where the kernel or the privileges do not allow it; a usage failure if the command cannot be started
/// or an assertion names no key; a check failure if one does not hold, or the command fails.
pub fn run(plan: &ProbePlan) -> Result<(), Failure> {
    let machine = Machine::read();
    let config = ProbeConfig::of(plan);
    let example = ProbeReport::example(plan);
    let kind = Run {
        machine: &machine,
        seed: None,
        config: &config,
        fallbacks: &[],
        inconclusive: None,
        report: &example,
    };
    plan.output.check_keys(&kind)?;
    let interrupt =
        Interrupt::listen().map_err(|error| Failure::broke_off("listening for signals", &error))?;
    let (mut probe, per_trigger) = attach(plan)?;
    let neighbours = Neighbours::watch();
    let caches = Caches::of((0..probe.processors()).filter(|&cpu| plan.measures(cpu)));
    probe.restart().map_err(failure)?;
    let begun = Monotonic.now();
    let beside = if plan.command.is_empty() { None } else { Some(Beside::start(&plan.command)?) };
    let (intervals, ended) = watch(plan, &probe, begun, beside, &interrupt)?;
    let elapsed = Monotonic.now().saturating_duration_since(begun);
    let missed = caches.counted();

    let mut report =
        ProbeReport { command: ended, ..ProbeReport::of(&intervals, elapsed, per_trigger, plan) };
    for ((cpu, processor), missed) in report.cpus.iter_mut().zip(measured(plan, &intervals)).zip(missed) {
        cpu.misses = missed;
        let samples = probe.samples(processor.cpu).map_err(failure)?;
        cpu.add_samples(&samples);
    }
    report.tracepoints = probe.tracepoints().map(TracepointReport::from).collect();
    let interference = neighbours.so_far();
    let printed = plan.output.finish(&Run {
        machine: &machine.during(interference),
        seed: None,
        config: &config,
        fallbacks: &report.fallbacks(),
        // What other programs do is what is measured: only the host's share disturbs.
        inconclusive: Interference { others_share: None, ..interference }.inconclusive(),
        report: &report,
    });
    let failed = report.command.as_ref().and_then(Ended::failure);
    printed.and(failed.map_or(Ok(()), Err))
}

/// Starts the probe, and finds out what it costs where system calls are trigger states: by calls on a processor that is
/// measured, without and with it. In nanoseconds, between what is sure of it.
fn attach(plan: &ProbePlan) -> Result<(Probe, Option<[f64; 3]>), Failure> {
    // Where it may not run on any of them, the cost stays unknown.
    let first = plan.probe.processors.as_ref().and_then(|cpus| cpus.first().copied());
    let kept = first.map(|cpu| {
        Processor::new(cpu as usize).and_then(|there| {
            there.keep().map_err(|error| Failure::broke_off("keeping to a processor", &error))
        })
    });
    let without = cost::of_a_call();
    let probe = Probe::start(&plan.probe).map_err(failure)?;
    let with = cost::of_a_call();
    let there = kept.as_ref().is_none_or(Result::is_ok);
    let known = there && probe.has(Source::Syscall);
    let more = without.zip(with).map(|(without, with)| cost::more(without, with));
    Ok((probe, more.filter(|_| known)))
}

/// Looks at the counters until the run is over; returns what they say then, and how the command ended.
fn watch(
    plan: &ProbePlan,
    probe: &Probe,
    begun: Timestamp,
    mut beside: Option<Beside>,
    interrupt: &Interrupt,
) -> Result<(Intervals, Option<Ended>), Failure> {
    let ender = interrupt.ender().map_err(|error| Failure::broke_off("listening for signals", &error))?;
    let stream = plan.output.stream.then(|| {
        Stream::start("softtimers.probe.stream/1", None, Second::new(plan.probe.processors.as_deref()), ender)
    });
    let mut view = View::new(!plan.output.json && !plan.output.stream);
    let end = plan.duration.map(|duration| begun + duration);
    let mut before = Intervals::default();
    loop {
        let now = Monotonic.now();
        let left = end.map_or(LOOK, |end| end.saturating_duration_since(now).min(LOOK));
        let over = match beside.as_mut() {
            _ if interrupt.arrived() || left.is_zero() => true,
            Some(beside) => beside.has_ended()?,
            None => false,
        };
        let intervals = probe.intervals().map_err(failure)?;
        if let Some(stream) = &stream {
            stream.counter().count(|second| second.count(&intervals.since(&before)));
        }
        view.look(now, &intervals, plan);
        if over {
            drop(view);
            let ended = beside.map(Beside::end).transpose()?;
            stream.map_or(Ok(()), Stream::finish)?;
            return Ok((intervals, ended));
        }
        before = intervals;
        let child = beside.as_ref().and_then(Beside::descriptor);
        let sources: Vec<BorrowedFd<'_>> = [Some(interrupt.as_fd()), child].into_iter().flatten().collect();
        wait(&sources, left).map_err(|error| Failure::broke_off("waiting", &error))?;
    }
}

fn measured<'a>(
    plan: &'a ProbePlan,
    intervals: &'a Intervals,
) -> impl Iterator<Item = &'a softtimers_bpf::ProcessorIntervals> {
    intervals.processors.iter().filter(|processor| plan.measures(processor.cpu))
}

/// Sleeps until one of `sources` is readable, or for `most`.
fn wait(sources: &[BorrowedFd<'_>], most: Duration) -> io::Result<()> {
    let mut sources: Vec<PollFd<'_>> =
        sources.iter().map(|source| PollFd::new(source, PollFlags::IN)).collect();
    match poll(&mut sources, Timespec::try_from(most).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What the machine lacks makes it impossible; the rest is a run that broke off.
fn failure(error: Error) -> Failure {
    match error {
        Error::Privilege { missing } => Failure::not_possible(format_args!(
            "the kernel's trigger states: {missing} missing; root has them, or `setcap cap_bpf,cap_perfmon+ep` gives them"
        )),
        Error::NoBtf(_) | Error::TooOld { .. } | Error::Refused { .. } | Error::NothingAttached => {
            Failure::not_possible(format_args!("the kernel's trigger states: {error}"))
        }
        Error::Map(_) | Error::System(_) => Failure::check(error),
    }
}

/// The `config` object of `probe`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProbeConfig {
    /// The longest run; `null` for no bound.
    pub duration_s: Option<f64>,
    /// The processors; `null` for all.
    pub cpus: Option<Vec<u32>>,
    /// What counts as a trigger state.
    pub sources: Vec<&'static str>,
    /// How many intervals are kept one by one at most.
    pub samples: u32,
    /// What was run meanwhile; empty for nothing.
    pub command: Vec<String>,
}

impl ProbeConfig {
    fn of(plan: &ProbePlan) -> Self {
        ProbeConfig {
            duration_s: plan.duration.map(|duration| duration.as_secs_f64()),
            cpus: plan.probe.processors.clone(),
            sources: plan.probe.sources.iter().map(|source| source.name()).collect(),
            samples: plan.probe.samples,
            command: plan.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        }
    }
}

/// Rare enough to cost nothing, and often enough for a line of the stream to lag little.
const LOOK: Duration = Duration::from_millis(250);
