//! A stretch of consecutive gaps from the middle of a run, for inspection.
//!
//! A distribution shows how many gaps were short and how many long, not their order: an even train with a hole in it
//! and one that is uneven throughout can have the same percentiles.

use std::time::Duration;

use softtimers_core::Timestamp;

/// Keeps the gaps of all flows together from a time after the first datagram on, until it has
/// [`Strip::LENGTH`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Strip {
    after: Duration,
    first: Option<Timestamp>,
    /// The last datagram within the stretch.
    last: Option<Timestamp>,
    gaps: Vec<u64>,
}

impl Strip {
    /// The number of gaps in a strip, which fits a line.
    pub(crate) const LENGTH: usize = 64;

    /// Creates a strip that begins this long after the first datagram.
    pub(crate) fn after(after: Duration) -> Self {
        Strip { after, first: None, last: None, gaps: Vec::with_capacity(Self::LENGTH) }
    }

    /// Records a datagram at `time`.
    #[inline]
    pub(crate) fn record(&mut self, time: Timestamp) {
        if self.gaps.len() == Self::LENGTH {
            return;
        }
        let first = *self.first.get_or_insert(time);
        if time.saturating_duration_since(first) < self.after {
            return;
        }
        if let Some(last) = self.last.replace(time) {
            let gap = time.saturating_duration_since(last).as_nanos();
            self.gaps.push(u64::try_from(gap).unwrap_or(u64::MAX));
        }
    }

    /// Returns the gaps so far, in nanoseconds, in order of arrival.
    pub(crate) fn gaps(&self) -> &[u64] {
        &self.gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_begins_after_its_time() {
        let mut strip = Strip::after(Duration::from_micros(70));
        for micros in [0, 40, 80, 120, 165] {
            strip.record(Timestamp::from_micros(micros));
        }
        assert_eq!(strip.gaps(), [40_000, 45_000]); // 80 to 120, 120 to 165 µs
    }

    #[test]
    fn a_strip_ends_when_it_is_full_and_takes_any_time() {
        let mut strip = Strip::after(Duration::ZERO);
        for micros in 0..1_000 {
            strip.record(Timestamp::from_micros(micros));
        }
        assert_eq!(strip.gaps(), [1_000; Strip::LENGTH]);
        let mut backwards = Strip::after(Duration::ZERO);
        [9, 3, 5].into_iter().for_each(|micros| backwards.record(Timestamp::from_micros(micros)));
        assert_eq!(backwards.gaps(), [0, 2_000]);
        assert!(Strip::after(Duration::MAX).gaps().is_empty());
    }
}
