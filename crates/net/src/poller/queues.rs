//! The queues after the devices, each with its feedback.

use softtimers_core::Timestamp;
use softtimers_poll::{Feedback, FeedbackConfig, FeedbackStats, GateId, Input, Policy, Rounds};

use super::gauge::Gauge;

/// A queue between two stages, on the side of the first stage's poller.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) gauge: Gauge,
    feedback: Feedback,
    low: Option<u32>,
    pub(super) gate: GateId,
    /// Packets that had been offered at the last check.
    offered: u64,
}

impl Queue {
    pub(super) fn new(gauge: Gauge, config: FeedbackConfig, gate: GateId) -> Self {
        let offered = gauge.offered();
        Queue { gauge, feedback: Feedback::new(config), low: config.low, gate, offered }
    }

    pub(super) fn stats(&self) -> FeedbackStats {
        self.feedback.stats()
    }

    /// Checks the depth, and shuts or opens the gate.
    pub(super) fn check<P: Policy>(&mut self, now: Timestamp, rounds: &mut Rounds<P>) -> Input {
        let offered = self.gauge.offered();
        if std::mem::replace(&mut self.offered, offered) != offered {
            self.feedback.offered(now, self.gauge.depth());
        }
        let mut input = self.feedback.drained(now, self.gauge.depth());
        if let (Input::Shut(_), Some(low)) = (input, self.low) {
            // The depth at the moment when the request takes effect. Requested each time: it notifies once,
            // and others may have put more in meanwhile, or have requested another depth.
            let depth = self.gauge.wake_at(low);
            input = self.feedback.drained(now, depth);
        }
        rounds.set(self.gate, input);
        input
    }
}

#[cfg(test)]
mod tests {
    use softtimers_poll::{Interrupts, Preset};

    use super::*;

    /// Between two checks the consumer drained it below the low mark, and another thread put a packet in.
    #[test]
    fn the_low_mark_is_seen_although_more_was_offered() {
        let mut rounds: Rounds<Interrupts> = Rounds::new();
        let (gauge, gate) = (Gauge::new().unwrap(), rounds.add_gate());
        let config = FeedbackConfig::preset(Preset::Paper, 32).unwrap();
        let mut queue = Queue::new(gauge.clone(), config, gate);
        let now = Timestamp::from_micros(1_000);
        gauge.put(24);
        assert_ne!(queue.check(now, &mut rounds), Input::Open);
        gauge.took(20);
        gauge.put(1);
        assert_eq!(queue.check(now, &mut rounds), Input::Open);
        assert_eq!(queue.stats().resumed, 1);
    }

    /// The low mark is requested again if another thread has put in so many packets that it is missed.
    #[test]
    fn a_low_mark_that_was_missed_is_waited_for_again() {
        let mut rounds: Rounds<Interrupts> = Rounds::new();
        let (gauge, gate) = (Gauge::new().unwrap(), rounds.add_gate());
        let config = FeedbackConfig::preset(Preset::Paper, 32).unwrap();
        let mut queue = Queue::new(gauge.clone(), config, gate);
        let now = Timestamp::from_micros(1_000);
        let woken = |gauge: &Gauge| {
            let is = softtimers_linux::wait::wait_readable(
                std::os::fd::AsFd::as_fd(gauge),
                Some(std::time::Duration::ZERO),
            )
            .unwrap();
            if is {
                rustix::io::read(std::os::fd::AsFd::as_fd(gauge), &mut [0; 8]).unwrap();
            }
            is
        };
        gauge.put(24);
        assert_ne!(queue.check(now, &mut rounds), Input::Open);
        gauge.took(20);
        assert!(woken(&gauge));
        gauge.put(10);
        assert_ne!(queue.check(now, &mut rounds), Input::Open);
        gauge.took(14);
        assert!(woken(&gauge), "the queue is empty, and nobody tells");
    }
}
