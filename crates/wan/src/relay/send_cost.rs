//! The time that a send takes until the kernel has the packet: [`SendCost`].

use std::time::Duration;

/// How long before its due time a packet is taken out, so that the kernel has it then: what the fastest of the last sends
/// took until the kernel's stamp, so that hardly one is early.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SendCost {
    least: Duration,
    /// The fastest of the sends since the least was last raised, and their number.
    next: Duration,
    sends: u32,
}

impl SendCost {
    /// The part of a send before the kernel has the packet: the rest is what the receiver does with it.
    const BEFORE: u32 = 3;
    /// The number of sends after which the least is raised to the fastest of them.
    const RAISED: u32 = 64;

    /// Learns from a turn that sent one packet: down at once.
    pub(super) fn learn(&mut self, took: Duration) {
        let before = (took / Self::BEFORE).min(MOST_LEAD);
        self.least = self.least.min(before);
        self.next = if self.sends == 0 { before } else { self.next.min(before) };
        self.sends += 1;
        if self.sends == Self::RAISED {
            (self.least, self.sends) = (self.next, 0);
        }
    }

    pub(super) fn least(self) -> Duration {
        self.least
    }
}

/// A send that takes longer was interrupted.
const MOST_LEAD: Duration = Duration::from_micros(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_begins_early_by_no_more_than_the_fastest_of_the_last_took() {
        let (mut cost, mut last) = (SendCost::default(), Vec::new());
        for send in 0..1_000 {
            let micros =
                9 + send * 7 % 5 + if send % 300 == 200 { 60 } else { 0 } - if send == 505 { 6 } else { 0 };
            let took = Duration::from_micros(micros);
            cost.learn(took);
            last.push(took);
            let fastest = last.iter().rev().take(64).min().copied().unwrap_or_default() / SendCost::BEFORE;
            assert!(cost.least() <= fastest, "{send}: {cost:?}");
            let expected = match send {
                ..63 => 0,
                505..575 => 1,
                _ => 3,
            };
            assert_eq!(cost.least(), Duration::from_micros(expected), "{send}");
        }
    }
}
