//! The times between trigger states, and those that there would be without one of the sources.
//!
//! Leaving out a source merges its gaps with those after them, so its histogram cannot be subtracted from the
//! whole: the remaining sources need a last time of their own.
//!
//! ```text
//!   trigger states    s ── 3 ── h ─ 2 ─ s ──── 7 ──── s ── 3 ── h
//!   ended by h             3                               3
//!   without s              ├──────────── 12 ───────────────┤
//! ```

use alloc::boxed::Box;
use core::time::Duration;

use super::{PerSource, TriggerState};
use crate::{Histogram, Timestamp};

/// Intervals between trigger states, by the source that ended each interval.
///
/// This is the measurement of soft timers §5.2 and §5.4. It is opt-in
/// ([`Config::intervals`](crate::Config::intervals)) because it makes every trigger state take the
/// slow path: about 5 ns instead of half a nanosecond.
#[derive(Debug)]
pub struct Intervals {
    last: Option<Timestamp>,
    latest: Option<u64>,
    by_source: PerSource<Box<Histogram>>,
    without: Option<PerSource<Box<Without>>>,
    disabled: PerSource<bool>,
}

/// The intervals of all sources but one.
#[derive(Debug, Default)]
struct Without {
    last: Option<Timestamp>,
    intervals: Histogram,
}

impl Intervals {
    pub(crate) fn new(without_each: bool, disabled: PerSource<bool>) -> Self {
        Intervals {
            last: None,
            latest: None,
            by_source: PerSource::from_fn(|_| Box::default()),
            without: without_each.then(|| PerSource::from_fn(|_| Box::default())),
            disabled,
        }
    }

    /// Returns the intervals in nanoseconds that ended at `source`.
    pub fn ended_by(&self, source: TriggerState) -> &Histogram {
        &self.by_source[source]
    }

    /// Returns the interval that ended at the last trigger state; `None` before the second one.
    pub fn latest(&self) -> Option<Duration> {
        self.latest.map(Duration::from_nanos)
    }

    /// Returns all intervals in nanoseconds.
    pub fn all(&self) -> Histogram {
        let mut all = Histogram::new();
        for (_, histogram) in self.by_source.iter() {
            all.merge(histogram);
        }
        all
    }

    /// Returns the intervals in nanoseconds that would be left without `source`, if
    /// [`Config::intervals_without_each`](crate::Config::intervals_without_each) is on.
    ///
    /// That describes the same run without these trigger states. How the program would behave without them,
    /// with events that leave later, shows only when they are really removed
    /// ([`Config::disable_source`](crate::Config::disable_source)).
    pub fn without(&self, source: TriggerState) -> Option<&Histogram> {
        self.without.as_ref().map(|without| &without[source].intervals)
    }

    /// Records a trigger state; returns whether it counts.
    pub(crate) fn reached(&mut self, source: TriggerState, now: Timestamp) -> bool {
        if self.disabled[source] {
            return false;
        }
        if let Some(last) = self.last.replace(now) {
            let interval = since(last, now);
            self.by_source[source].record(interval);
            self.latest = Some(interval);
        }
        if let Some(without) = &mut self.without {
            for other in TriggerState::ALL.into_iter().filter(|&other| other != source) {
                let Without { last, intervals } = &mut *without[other];
                if let Some(last) = last.replace(now) {
                    intervals.record(since(last, now));
                }
            }
        }
        true
    }
}

fn since(last: Timestamp, now: Timestamp) -> u64 {
    now.as_nanos().saturating_sub(last.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::TriggerState::*;
    use super::*;

    fn seen(without_each: bool, visits: &[(TriggerState, u64)]) -> Intervals {
        let mut intervals = Intervals::new(without_each, PerSource::default());
        for &(source, micros) in visits {
            assert!(intervals.reached(source, Timestamp::from_micros(micros)));
        }
        intervals
    }

    #[test]
    fn an_interval_belongs_to_the_source_that_ends_it() {
        let intervals = seen(false, &[(SyscallExit, 10), (HandlerExit, 13), (SyscallExit, 20)]);
        assert_eq!(intervals.ended_by(HandlerExit).max(), Some(3_000));
        assert_eq!(intervals.ended_by(SyscallExit).max(), Some(7_000));
        assert_eq!(intervals.all().count(), 2);
        assert!(intervals.without(SyscallExit).is_none(), "not asked for");
    }

    /// The picture of the module, as a test.
    #[test]
    fn leaving_a_source_out_merges_the_intervals_around_it() {
        let visits =
            [(SyscallExit, 0), (HandlerExit, 3), (SyscallExit, 5), (SyscallExit, 12), (HandlerExit, 15)];
        let intervals = seen(true, &visits);
        let without = |source| {
            let left = intervals.without(source).unwrap();
            (left.count(), left.min(), left.max())
        };
        assert_eq!(without(SyscallExit), (1, Some(12_000), Some(12_000)));
        assert_eq!(without(HandlerExit), (2, Some(5_000), Some(7_000)));
        assert_eq!(without(Idle), (4, Some(2_000), Some(7_000)), "a source that never came removes nothing");
    }

    #[test]
    fn a_disabled_source_does_not_count() {
        let mut disabled = PerSource::default();
        disabled[SyscallExit] = true;
        let mut intervals = Intervals::new(false, disabled);
        let at = Timestamp::from_micros;
        assert!(intervals.reached(HandlerExit, at(3)) && !intervals.reached(SyscallExit, at(5)));
        assert!(intervals.reached(HandlerExit, at(15)));
        assert_eq!((intervals.all().count(), intervals.all().max()), (1, Some(12_000)));
    }
}
