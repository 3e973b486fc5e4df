//! Phases under one scheduling class: each timed alone, with the kernel's counts for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::poll;
use rustix::time::Timespec;
use serde::Serialize;
use softtimers::{Clock, Monotonic};
use softtimers_measure::interrupt::Interrupt;

use super::account::{Accounts, Line, Passed};
use super::work::Work;

/// The phases of a run in their order.
#[derive(Debug, Default)]
pub(super) struct Phases {
    phases: Vec<Phase>,
    /// Interrupt lines and counts, for all phases one after the other.
    interrupts: Vec<(u16, u32)>,
    lines: Vec<Line>,
}

#[derive(Clone, Copy, Debug)]
struct Phase {
    nanos: u64,
    passed: Passed,
    /// The end of its interrupts, which begin at the end of the previous phase's.
    end: usize,
}

/// The cause of a phase longer than the threshold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// The scheduler ran another thread for more than half of the delay.
    Scheduler,
    /// The host ran something else, by its own account, for more than half of the delay.
    Steal,
    /// The CPU was interrupted; phases that were not delayed may have been interrupted, too.
    Interrupts,
    /// No known cause: a host that reports nothing, or a slower CPU.
    Unexplained,
}

/// The delayed phases of one cause.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Caused {
    pub(crate) cause: Cause,
    /// The number of phases.
    pub(crate) phases: u64,
    /// By how much they exceeded the median, in total.
    pub(crate) delay_ns: u64,
    /// The length of the longest of them.
    pub(crate) longest_ns: u64,
}

/// Interrupts of the CPU in a phase, on average.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Interrupts {
    /// The average of delayed phases.
    pub(crate) delayed: Option<f64>,
    /// The average of the others.
    pub(crate) undelayed: Option<f64>,
    /// The share of the others that were interrupted, too.
    pub(crate) undelayed_share: Option<f64>,
    /// The lines of /proc/interrupts that differ most.
    pub(crate) lines: Vec<InterruptLine>,
}

/// Interrupts of one line of /proc/interrupts in a phase, on average.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct InterruptLine {
    /// Its name in /proc/interrupts.
    pub(crate) line: String,
    /// The purpose of the interrupt.
    pub(crate) what: String,
    /// The number in a delayed phase.
    pub(crate) delayed: f64,
    /// The number in a phase that was not delayed.
    pub(crate) undelayed: f64,
}

/// The rests of a real-time thread, which let others run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rests {
    /// The time that it runs,
    pub(super) after: Duration,
    /// and the time that it sleeps.
    pub(super) for_: Duration,
}

/// Computes `count` phases, or until a signal arrives.
pub(super) fn measure(
    work: Work,
    count: u32,
    rests: Option<Rests>,
    accounts: &mut Accounts,
    done: &Arc<AtomicUsize>,
    interrupt: &Interrupt,
) -> Phases {
    let mut found = Phases { phases: Vec::with_capacity(count as usize), ..Phases::default() };
    accounts.read(|_, _| ());
    let mut rested = Monotonic.now();
    while found.phases.len() < count as usize && !interrupt.arrived() {
        let nanos = work.time();
        let passed = accounts.read(|line, count| {
            found.interrupts.push((line as u16, u32::try_from(count).unwrap_or(u32::MAX)));
        });
        found.phases.push(Phase { nanos, passed, end: found.interrupts.len() });
        done.fetch_add(1, Ordering::Relaxed);
        if rests.is_some_and(|rests| Monotonic.now().saturating_duration_since(rested) >= rests.after) {
            rest(rests.map_or(Duration::ZERO, |rests| rests.for_));
            accounts.read(|_, _| ());
            rested = Monotonic.now();
        }
    }
    found.lines = accounts.lines().to_vec();
    found
}

/// Sleeps, without resuming after a signal, which ends the run.
fn rest(time: Duration) {
    let _ = poll(&mut [], Timespec::try_from(time).ok().as_ref());
}

impl Phases {
    /// Returns their lengths in nanoseconds.
    pub(super) fn nanos(&self) -> impl Iterator<Item = u64> + '_ {
        self.phases.iter().map(|phase| phase.nanos)
    }

    fn with_interrupts(&self) -> impl Iterator<Item = (&Phase, &[(u16, u32)])> {
        let begins = std::iter::once(0).chain(self.phases.iter().map(|phase| phase.end));
        self.phases.iter().zip(begins).map(|(phase, begin)| (phase, &self.interrupts[begin..phase.end]))
    }

    /// Returns the phases longer than the threshold by cause, the most frequent first.
    pub(super) fn causes(&self, median: u64, threshold: u64) -> Vec<Caused> {
        let mut causes = BTreeMap::<Cause, Caused>::new();
        for (phase, interrupts) in self.with_interrupts().filter(|(phase, _)| phase.nanos > threshold) {
            let delay = phase.nanos.saturating_sub(median);
            let cause = blame(phase.passed, Duration::from_nanos(delay), !interrupts.is_empty());
            let none = Caused { cause, phases: 0, delay_ns: 0, longest_ns: 0 };
            let caused = causes.entry(cause).or_insert(none);
            caused.phases += 1;
            caused.delay_ns += delay;
            caused.longest_ns = caused.longest_ns.max(phase.nanos);
        }
        let mut causes: Vec<Caused> = causes.into_values().collect();
        causes.sort_by_key(|caused| std::cmp::Reverse(caused.phases));
        causes
    }

    /// Returns how often the CPU was interrupted in delayed phases, and in others.
    pub(super) fn interrupted(&self, threshold: u64) -> Interrupts {
        let mut lines = vec![[0u64; 2]; self.lines.len()];
        let (mut phases, mut all, mut quiet) = ([0u64; 2], [0u64; 2], 0u64);
        for (phase, interrupts) in self.with_interrupts() {
            let which = usize::from(phase.nanos <= threshold);
            phases[which] += 1;
            quiet += u64::from(which == 1 && interrupts.is_empty());
            for &(line, count) in interrupts {
                all[which] += u64::from(count);
                lines[usize::from(line)][which] += u64::from(count);
            }
        }
        let mean = |count: [u64; 2], which: usize| {
            (phases[which] > 0).then(|| count[which] as f64 / phases[which] as f64)
        };
        let of_line = |(line, count): (&Line, &[u64; 2])| InterruptLine {
            line: line.name.clone(),
            what: line.what.clone(),
            delayed: mean(*count, 0).unwrap_or(0.0),
            undelayed: mean(*count, 1).unwrap_or(0.0),
        };
        let mut lines: Vec<InterruptLine> = self.lines.iter().zip(&lines).map(of_line).collect();
        let more = |line: &InterruptLine| line.delayed - line.undelayed;
        lines.retain(|line| more(line) > 0.0);
        lines.sort_by(|one, other| more(other).total_cmp(&more(one)));
        lines.truncate(MOST_LINES);
        Interrupts {
            delayed: mean(all, 0),
            undelayed: mean(all, 1),
            undelayed_share: (phases[1] > 0).then(|| 1.0 - quiet as f64 / phases[1] as f64),
            lines,
        }
    }
}

/// Finds the cause that took more than half of the delay, as `softtimers::late` does for events.
fn blame(passed: Passed, delay: Duration, interrupted: bool) -> Cause {
    let most = delay / 2;
    match passed {
        Passed { waited, .. } if waited > most => Cause::Scheduler,
        Passed { stolen, .. } if stolen > most => Cause::Steal,
        _ if interrupted => Cause::Interrupts,
        _ => Cause::Unexplained,
    }
}

const MOST_LINES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// A length, a wait, and interrupts by line.
    type Seen = (u64, u64, &'static [(u16, u32)]);

    fn phases(all: &[Seen]) -> Phases {
        let mut found = Phases::default();
        for &(nanos, waited, interrupts) in all {
            found.interrupts.extend_from_slice(interrupts);
            let passed = Passed { waited: Duration::from_nanos(waited), ..Passed::default() };
            found.phases.push(Phase { nanos, passed, end: found.interrupts.len() });
        }
        found.lines = Accounts::open(0).lines().to_vec();
        found
    }

    #[test]
    fn what_took_half_of_the_delay_is_blamed() {
        let ms = Duration::from_millis;
        let passed = |waited, stolen| Passed { waited: ms(waited), switches: 0, stolen: ms(stolen) };
        assert_eq!(blame(passed(6, 10), ms(10), true), Cause::Scheduler);
        assert_eq!(blame(passed(5, 10), ms(10), true), Cause::Steal);
        assert_eq!(blame(passed(5, 0), ms(10), true), Cause::Interrupts);
        assert_eq!(blame(passed(0, 0), ms(10), false), Cause::Unexplained);
    }

    #[test]
    fn causes_and_interrupts_are_those_of_the_phases_that_were_delayed() {
        let found = phases(&[
            (10, 0, &[]),
            (30, 0, &[(0, 2)]),
            (10, 0, &[(1, 1)]),
            (40, 25, &[(0, 4)]),
            (35, 0, &[(0, 3)]),
        ]);
        let causes = found.causes(10, 20);
        assert_eq!((causes[0].cause, causes[0].phases, causes[0].longest_ns), (Cause::Interrupts, 2, 35));
        assert_eq!((causes[1].cause, causes[1].delay_ns), (Cause::Scheduler, 30));
        if found.lines.len() > 1 {
            let Interrupts { delayed, undelayed, undelayed_share, lines } = found.interrupted(20);
            assert_eq!((delayed, undelayed, undelayed_share), (Some(3.0), Some(0.5), Some(0.5)));
            assert_eq!((lines.len(), lines[0].delayed, lines[0].undelayed), (1, 3.0, 0.0));
        }
    }
}
