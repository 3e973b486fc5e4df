//! The queues behind the devices, each with its feedback.

use softtimers_core::Timestamp;
use softtimers_core::poll::{Feedback, FeedbackConfig, FeedbackStats, GateId, Input, Policy, Rounds};

use super::gauge::Gauge;

/// A queue between two stages, as the first one's poller sees it.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) gauge: Gauge,
    feedback: Feedback,
    low: Option<u32>,
    pub(super) gate: GateId,
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
        if std::mem::replace(&mut self.offered, offered) != offered {
            self.feedback.offered(now, self.gauge.depth());
        }
        let mut input = self.feedback.drained(now, self.gauge.depth());
        if let (Input::Shut(_), Some(low), false) = (input, self.low, self.shut) {
            // The depth of the moment at which the consumer begins to know.
            let depth = self.gauge.wake_at(low);
            input = self.feedback.drained(now, depth);
        }
        self.shut = input != Input::Open;
        rounds.set(self.gate, input);
    }
}

#[cfg(test)]
mod tests {
    use softtimers_core::poll::{Interrupts, Preset};

    use super::*;

    /// Between two looks the consumer drained it below the low mark, and somebody else put a packet in.
    #[test]
    fn the_low_mark_is_seen_although_more_was_offered() {
        let mut rounds: Rounds<Interrupts> = Rounds::new();
        let (gauge, gate) = (Gauge::new().unwrap(), rounds.add_gate());
        let config = FeedbackConfig::preset(Preset::Paper, 32).unwrap();
        let mut queue = Queue::new(gauge.clone(), config, gate);
        let now = Timestamp::from_micros(1_000);
        gauge.put(24);
        queue.check(now, &mut rounds);
        assert!(queue.shut);
        gauge.took(20);
        gauge.put(1);
        queue.check(now, &mut rounds);
        assert!(!queue.shut);
        assert_eq!(queue.stats().resumed, 1);
    }
}
