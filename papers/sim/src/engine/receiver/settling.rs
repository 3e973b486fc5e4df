//! Finds the packet from which on the delays of a run are steady: [`Settling`].

use std::collections::VecDeque;

use softtimers_core::Timestamp;

use super::ReceiverEvent;
use crate::mser_5;

/// Collects the delays of the first packets for the rule [`mser_5`].
#[derive(Debug, Default)]
pub(crate) struct Settling {
    waiting: VecDeque<Timestamp>,
    /// In nanoseconds, in the order of arrival.
    delays: Vec<f64>,
}

impl Settling {
    /// Records an event of the run.
    pub(crate) fn watch(&mut self, at: Timestamp, event: ReceiverEvent) {
        match event {
            ReceiverEvent::Arrival if self.delays.len() + self.waiting.len() < OBSERVED => {
                self.waiting.push_back(at);
            }
            ReceiverEvent::InterruptEnd(packets) | ReceiverEvent::PollEnd(packets) => {
                let taken = self.waiting.len().min(packets as usize);
                let delay = |arrived: Timestamp| at.saturating_duration_since(arrived).as_nanos() as f64;
                self.delays.extend(self.waiting.drain(..taken).map(delay));
            }
            _ => {}
        }
    }

    /// Returns the number of packets in the warm-up; `None` if the observed packets do not show it.
    pub(crate) fn settled(&self) -> Option<u64> {
        mser_5(&self.delays).map(|packets| packets as u64)
    }
}

/// The number of observed packets.
const OBSERVED: usize = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of single packets, each delayed by `delay`.
    fn settled(packets: u64, delay: impl Fn(u64) -> u64) -> Option<u64> {
        let mut settling = Settling::default();
        for packet in 0..packets {
            let arrived = Timestamp::from_micros(1_000 * packet);
            settling.watch(arrived, ReceiverEvent::Arrival);
            settling.watch(arrived, ReceiverEvent::PollBegin);
            let end = Timestamp::from_micros(1_000 * packet + delay(packet));
            settling.watch(end, ReceiverEvent::PollEnd(1));
        }
        settling.settled()
    }

    #[test]
    fn packets_of_the_beginning_are_told_from_the_rest() {
        assert_eq!(settled(1_000, |packet| if packet < 100 { 900 } else { 20 }), Some(100));
        assert_eq!(settled(1_000, |_| 20), Some(0));
        assert_eq!(settled(1_000, |packet| packet), None, "it never is");
        assert_eq!(settled(9, |_| 20), None, "too few");
        // Packets after the observed ones make no difference.
        assert_eq!(settled(9_000, |packet| if packet < 5_000 { 20 } else { 900 }), Some(0));
    }
}
