//! How often a loop looks for due datagrams: the intervals between its trigger states.
//!
//! They bound how late a datagram can be while the loop is busy, since no descriptor can interrupt a
//! handler (soft timers §5.2). A method that looks only when its wait returns shows it here.

use softtimers::Timestamp;

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
        let mut histogram = softtimers::Histogram::new();
        [3_000, 7_000].into_iter().for_each(|nanos| histogram.record(nanos));
        let kept = Distribution::from(&histogram);
        assert_eq!(
            (kept.count, kept.min, kept.max, kept.mean),
            (2, Some(3_000), Some(7_000), intervals.mean)
        );
    }
}
