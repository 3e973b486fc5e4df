//! How often a loop checks for due datagrams: the intervals between its trigger states.
//!
//! They bound how late a datagram can be while the loop is busy, since no descriptor can interrupt a handler (soft
//! timers §5.2). They show when a method checks only after a wait returns.

use std::time::Duration;

use softtimers::Timestamp;

use softtimers_measure::distribution::{Distribution, Recorder};

/// The intervals between the checks of one loop.
#[derive(Debug)]
pub(crate) struct ClockChecks {
    last: Option<Timestamp>,
    intervals: Recorder,
}

impl ClockChecks {
    pub(crate) fn new() -> Self {
        ClockChecks { last: None, intervals: Recorder::new() }
    }

    /// Records a clock check at `now`; returns the time since the previous one, if there was one.
    #[inline]
    pub(crate) fn check(&mut self, now: Timestamp) -> Option<Duration> {
        let interval = now.saturating_duration_since(self.last.replace(now)?);
        self.intervals.record_duration(interval);
        Some(interval)
    }

    pub(crate) fn distribution(&self) -> Distribution {
        self.intervals.distribution()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_lies_between_two_checks() {
        let mut checks = ClockChecks::new();
        assert_eq!(checks.distribution().count, 0);
        for micros in [10, 13, 20] {
            let _ = checks.check(Timestamp::from_micros(micros));
        }
        let intervals = checks.distribution();
        assert_eq!((intervals.count, intervals.min, intervals.max), (2, Some(3_000), Some(7_000)));
        let mut histogram = softtimers::Histogram::new();
        [3_000, 7_000].into_iter().for_each(|nanos| histogram.record(nanos));
        let kept = Distribution::from(&histogram);
        assert_eq!(
            (kept.count, kept.min, kept.max, kept.mean),
            (2, Some(3_000), Some(7_000), intervals.mean)
        );
    }
}
