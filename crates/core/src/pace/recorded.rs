//! The places of a recording: at its own times from the start on, and none after the last.

use core::time::Duration;

use super::trace::Trace;
use crate::{Rate, Timestamp};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Recorded {
    trace: Trace,
    start: Timestamp,
    at: Timestamp,
    /// The index of the packet at the current place; after the last, the number of packets.
    index: usize,
}

impl Recorded {
    pub(super) fn starting(trace: Trace, start: Timestamp) -> Self {
        Recorded { trace, start, at: start, index: 0 }
    }

    pub(super) fn restart(&mut self, start: Timestamp) {
        (self.start, self.at, self.index) = (start, start, 0);
    }

    /// Returns the current place; after the last packet, the end of time.
    pub(super) fn place(&self) -> Timestamp {
        self.at
    }

    pub(super) fn rate(&self) -> Rate {
        self.trace.mean_rate()
    }

    pub(super) fn length(&self) -> Option<u16> {
        self.trace.length(self.index)
    }

    /// Moves on by `places`. O(1).
    pub(super) fn advance(&mut self, places: u64) {
        let left = self.trace.packets() - self.index;
        self.index += usize::try_from(places).unwrap_or(usize::MAX).min(left);
        self.at = self.trace.time(self.index).map_or(Timestamp::MAX, |time| self.start + time);
    }

    /// Returns the length of the gap of `places` places that leads to the current one; to the first, or past the
    /// last, there is none.
    pub(super) fn gap_behind(&self, places: u64) -> Duration {
        let earlier = self.index.saturating_sub(usize::try_from(places).unwrap_or(usize::MAX));
        let times = self.trace.time(earlier).zip(self.trace.time(self.index));
        times.map_or(Duration::ZERO, |(earlier, here)| here - earlier)
    }

    /// The least number of places after which this is at or past `time`. O(log n).
    pub(super) fn places_before(&self, time: Timestamp) -> u64 {
        self.trace.before(self.index, time.saturating_duration_since(self.start)) as u64
    }
}
