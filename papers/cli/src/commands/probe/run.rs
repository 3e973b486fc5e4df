//! A running probe.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_bpf::{Error, Intervals, Probe, Source};
use softtimers_linux::optional::Optional;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::processor::Processor;
use softtimers_measure::stats::Counter;

use super::args::KernelProbe;
use super::caches::Caches;
use super::companion::{Companion, Ended, wait};
use super::cost;
use super::series::SeriesPage;
use super::show::{ProbeConfig, ProbeReport, TracepointReport};
use super::stats::ProbeStats;
use super::table::header;

use softtimers_run::output::Output;
use softtimers_run::privileges::{Needs, Rights};
use softtimers_run::{Command, Disturbance, Outcome, Run};

impl Command for KernelProbe {
    type Config = ProbeConfig;
    type Report = ProbeReport;
    // The activity of other programs is what it measures.
    const DISTURBED_BY: Disturbance = Disturbance::Host;
    const FIELDS: &'static str = include_str!("fields.txt");
    const RIGHTS: Rights = Rights::ToOpen;

    fn output(&self) -> &Output {
        &self.output
    }

    fn config(&self) -> ProbeConfig {
        ProbeConfig::from_plan(self)
    }

    fn header(&self) -> String {
        header(&ProbeConfig::from_plan(self))
    }

    fn example(&self) -> ProbeReport {
        ProbeReport::example(self)
    }

    /// Measures until the command, the time or a signal ends it.
    fn run(&mut self, run: &Run<'_>) -> Result<Outcome<ProbeReport>, Failure> {
        let interrupt = run.interrupt()?;
        let mut series = self.series.as_ref().map(SeriesPage::open).transpose()?;
        let (mut probe, per_trigger) = attach(self)?;
        run.watch();
        let caches = Caches::count_on((0..probe.processors()).filter(|&cpu| self.measures(cpu)));
        probe.restart().map_err(failure)?;
        let begun = Monotonic.now();
        let companion = if self.command.is_empty() { None } else { Some(Companion::start(&self.command)?) };
        // The command has already been started, and keeps its privileges.
        run.drop_privileges(Needs::with_bpf())?;
        run.announce(&self.header());
        let mut counter = run.counter(ProbeStats::new(self.probe.processors.as_deref()))?;
        let command = watch(self.duration, &probe, begun, companion, interrupt, &mut counter)?;
        let elapsed = Monotonic.now().saturating_duration_since(begun);
        let missed = caches.counted();

        let mut report =
            ProbeReport { command, ..ProbeReport::from_counts(&counter.total(), elapsed, per_trigger, self) };
        for (cpu, missed) in report.cpus.iter_mut().zip(missed) {
            cpu.misses = missed;
            let samples = probe.samples(cpu.cpu).map_err(failure)?;
            cpu.add_samples(&samples);
            if let Some(series) = &mut series {
                series.add(cpu.cpu, &samples);
            }
        }
        series.map_or(Ok(()), |series| series.write(elapsed))?;
        report.tracepoints = probe.tracepoints().map(TracepointReport::from).collect();
        Ok(Outcome {
            fallbacks: report.fallbacks(),
            broke_off: report.command.as_ref().and_then(Ended::failure),
            ..Outcome::of(report)
        })
    }
}

/// Starts the probe, and measures its cost if system calls are trigger states: by calls on a measured CPU without and
/// with it. In nanoseconds, between the ends of a confidence interval.
fn attach(plan: &KernelProbe) -> Result<(Probe, Option<[f64; 3]>), Failure> {
    // If it may run on none of them, the cost stays unknown.
    let first = plan.probe.processors.as_ref().and_then(|cpus| cpus.first().copied());
    let kept = first.map(|cpu| {
        Processor::new(cpu as usize)
            .and_then(|there| there.keep().map_err(|error| Failure::broke_off("keeping to a CPU", &error)))
    });
    let without = cost::of_a_call();
    // A library loads the probe, and makes these calls itself.
    for call in [Optional::Bpf, Optional::PerfEventOpen] {
        let impossible = |why| Failure::not_possible(format_args!("the kernel's trigger states: {why}"));
        call.check().map_err(impossible)?;
    }
    let probe = Probe::start(&plan.probe).map_err(failure)?;
    let with = cost::of_a_call();
    let there = kept.as_ref().is_none_or(Result::is_ok);
    let known = there && probe.has(Source::Syscall);
    let more = without.zip(with).map(|(without, with)| cost::more(without, with));
    Ok((probe, more.filter(|_| known)))
}

/// Polls the counters until the run is over; returns how the command ended.
fn watch(
    duration: Option<Duration>,
    probe: &Probe,
    begun: Timestamp,
    mut companion: Option<Companion>,
    interrupt: &Interrupt,
    counter: &mut Counter<ProbeStats>,
) -> Result<Option<Ended>, Failure> {
    let end = duration.map(|duration| begun + duration);
    let mut before = Intervals::default();
    loop {
        let now = Monotonic.now();
        let left =
            end.map_or(READING_INTERVAL, |end| end.saturating_duration_since(now).min(READING_INTERVAL));
        let over = match companion.as_mut() {
            _ if interrupt.arrived() || left.is_zero() => true,
            Some(companion) => companion.has_ended()?,
            None => false,
        };
        let intervals = probe.intervals().map_err(failure)?;
        counter.count(|stats| stats.count(&intervals.since(&before)));
        if over {
            return companion.map(Companion::end).transpose();
        }
        before = intervals;
        let child = companion.as_ref().and_then(Companion::descriptor);
        let sources: Vec<BorrowedFd<'_>> = [Some(interrupt.as_fd()), child].into_iter().flatten().collect();
        wait(&sources, left).map_err(|error| Failure::broke_off("waiting", &error))?;
    }
}

/// Converts an error: a machine that lacks something is not-possible; otherwise the run broke off.
fn failure(error: Error) -> Failure {
    match error {
        Error::Privilege { missing } => Failure::not_possible(format_args!(
            "the kernel's trigger states: {missing} missing; root has them"
        )),
        Error::NoBtf(_) | Error::TooOld { .. } | Error::Refused { .. } | Error::NothingAttached => {
            Failure::not_possible(format_args!("the kernel's trigger states: {error}"))
        }
        Error::InUse { .. } | Error::NoFq { .. } | Error::Map(_) | Error::System(_) => Failure::check(error),
    }
}

/// The time between two readings of the counters: rare enough to cost nothing, and often enough that lines of the stream
/// are hardly late.
const READING_INTERVAL: Duration = Duration::from_millis(250);
