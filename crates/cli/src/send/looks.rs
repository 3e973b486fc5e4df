//! How often a loop looks for due datagrams: the intervals between its trigger states.
//!
//! They bound how late a datagram can be while the loop is busy, since no descriptor can interrupt a
//! handler (soft timers §5.2). A method that looks only when its wait returns shows it here.

use softtimers::{Histogram, Timestamp};

use crate::distribution::{Distribution, Recorder};

/// The intervals between the looks of one loop.
#[derive(Debug)]
pub(super) struct Looks {
    last: Option<Timestamp>,
    intervals: Recorder,
}

impl Looks {
    pub(super) fn new() -> Self {
        Looks { last: None, intervals: Recorder::new() }
    }

    /// The loop has looked at `now`.
    #[inline]
    pub(super) fn look(&mut self, now: Timestamp) {
        if let Some(last) = self.last.replace(now) {
            self.intervals.record_duration(now.saturating_duration_since(last));
        }
    }

    pub(super) fn distribution(&self) -> Distribution {
        self.intervals.distribution()
    }
}

/// The same of what softtimers has kept by itself, to 3% ([`softtimers::Config::intervals`]).
pub(super) fn kept(intervals: &Histogram) -> Distribution {
    let at = |quantile| intervals.quantile(quantile);
    Distribution {
        count: intervals.count(),
        min: intervals.min(),
        p1: at(0.01),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: intervals.max(),
        mean: intervals.mean(),
        stddev: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_lies_between_two_looks() {
        let mut looks = Looks::new();
        assert_eq!(looks.distribution().count, 0);
        [10, 13, 20].into_iter().for_each(|micros| looks.look(Timestamp::from_micros(micros)));
        let intervals = looks.distribution();
        assert_eq!((intervals.count, intervals.min, intervals.max), (2, Some(3_000), Some(7_000)));
        let mut histogram = Histogram::new();
        [3_000, 7_000].into_iter().for_each(|nanos| histogram.record(nanos));
        let kept = kept(&histogram);
        assert_eq!(
            (kept.count, kept.min, kept.max, kept.mean),
            (2, Some(3_000), Some(7_000), intervals.mean)
        );
    }
}
