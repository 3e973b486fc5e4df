//! Trains: bursts on a path that several flows share.

use std::time::Duration;

use softtimers_core::Timestamp;

/// The datagrams of all flows in their order on the shared path.
///
/// Two of them are back to back if they are closer than half the flows' common interval, which is known only once all
/// flows have been heard. So a new flow restarts the count.
#[derive(Debug, Default)]
pub(super) struct Together {
    flows: usize,
    last: Timestamp,
    train: u64,
    longest: u64,
}

impl Together {
    /// Records a datagram at `time`, when there are this many flows with this interval each.
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

    /// Returns the datagrams in the longest train.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }
}
