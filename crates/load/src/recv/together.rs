//! Trains: what sticks together on a path that several flows share.

use std::time::Duration;

use softtimers_core::Timestamp;

/// The datagrams of all flows as they follow each other on the path that they share.
///
/// Two of them stick together if they are closer than half the interval that the flows have together, which
/// nobody knows before all of them have been heard. So what was counted before a new flow came is forgotten.
#[derive(Debug, Default)]
pub(super) struct Together {
    flows: usize,
    last: Timestamp,
    train: u64,
    longest: u64,
}

impl Together {
    /// A datagram at `time`, of one of that many flows with this interval each.
    #[inline]
    pub(super) fn record(&mut self, interval: Option<Duration>, flows: usize, time: Timestamp) {
        let gap = time.saturating_duration_since(self.last);
        let close =
            interval.is_some_and(|interval| gap.as_nanos() * 2 * (flows as u128) < interval.as_nanos());
        if flows != self.flows {
            *self = Together { flows, ..Together::default() };
        }
        self.train = if close && self.train > 0 { self.train + 1 } else { 1 };
        self.longest = self.longest.max(self.train);
        self.last = self.last.max(time);
    }

    /// Datagrams in the longest train.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }
}
