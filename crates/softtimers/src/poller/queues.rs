//! The queues behind the devices, each with its feedback.

use softtimers_core::Timestamp;
use softtimers_core::poll::{Feedback, FeedbackConfig, FeedbackStats, GateId, Input, Policy, Rounds};

use super::gauge::Gauge;

/// A queue between two stages, as the first one's poller sees it.
#[derive(Debug)]
pub(super) struct Queue {
    gauge: Gauge,
    feedback: Feedback,
    low: Option<u32>,
    gate: GateId,
    /// What had been offered when it was looked at last.
    offered: u64,
    shut: bool,
}

impl Queue {
    pub(super) fn new(gauge: Gauge, config: FeedbackConfig, gate: GateId) -> Self {
        let offered = gauge.offered();
        Queue { gauge, feedback: Feedback::new(config), low: config.low, gate, offered, shut: false }
    }

    pub(super) fn stats(&self) -> FeedbackStats {
        self.feedback.stats()
    }

    /// Looks at the depth, and shuts or opens the gate.
    pub(super) fn check<P: Policy>(&mut self, now: Timestamp, rounds: &mut Rounds<P>) {
        let offered = self.gauge.offered();
        let input = if offered == self.offered {
            self.feedback.drained(now, self.gauge.depth())
        } else {
            self.offered = offered;
            self.feedback.offered(now, self.gauge.depth())
        };
        let input = match (input, self.low) {
            (Input::Shut(_), Some(low)) if !self.shut => {
                // First say that we want to know, then look: the consumer does it the other way round.
                self.gauge.wake_at(low);
                self.feedback.drained(now, self.gauge.depth())
            }
            (input, _) => input,
        };
        self.shut = input != Input::Open;
        rounds.set(self.gate, input);
    }
}
