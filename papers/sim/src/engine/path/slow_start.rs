//! Slow start, for a sender that does not know the capacity of the path: [`SlowStart`]. Pacing from the first
//! packet is compared with it.
//!
//! It sends two packets, and two more for each one that is acknowledged (soft timers A.2), until the window
//! has its full size; then one for one:
//!
//! ```text
//!   round trip   1      2        3             4                        as many as the path holds
//!   sent         ●●     ●●●●     ●●●●●●●●      ●●●●●●●●●●●●●●●●         ●●●●●●●●● … one for one
//!                └─ ACKs ─┘└─ ACKs ─┘
//! ```
//!
//! Until then it sends less than the path could carry, and a small transfer ends before that. Packets that an
//! ACK releases leave at once.

/// The window of slow start, in packets: it takes acknowledgements and returns how many packets may leave.
///
/// # Cost
/// 32 bytes; everything is O(1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SlowStart {
    window: u64,
    most: u64,
    in_flight: u64,
    growth: Growth,
}

/// The rule by which the window opens by a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Growth {
    /// Each packet that is acknowledged, as the paper says (A.2): twice as many in each round trip.
    #[default]
    PerPacket,
    /// Each ACK, however many packets it acknowledges, as in most senders of the time (RFC 2581 §3.1). With a
    /// receiver that acknowledges every second packet, the window grows by half in each round trip.
    PerAck,
}

impl SlowStart {
    /// Creates it with nothing sent. The window grows up to `most` packets, the capacity of the path or of
    /// the receiver; never below two.
    pub(crate) fn new(most: u64, growth: Growth) -> Self {
        SlowStart { window: INITIAL, most: most.max(INITIAL), in_flight: 0, growth }
    }

    /// Begins, also again after an idle time: the window is two packets. Returns how many may leave at once;
    /// those count as sent.
    pub(crate) fn begin(&mut self) -> u64 {
        self.window = INITIAL;
        self.release()
    }

    /// An ACK acknowledges `packets` more. Returns how many may leave at once; those count as sent.
    /// If a receiver claims more than are in flight, all in flight are acknowledged.
    pub(crate) fn on_ack(&mut self, packets: u64) -> u64 {
        let packets = packets.min(self.in_flight);
        self.in_flight -= packets;
        let growth = match self.growth {
            Growth::PerPacket => packets,
            Growth::PerAck => packets.min(1),
        };
        self.window = self.window.saturating_add(growth).min(self.most);
        self.release()
    }

    /// Packets that may be in flight.
    #[cfg(test)]
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    fn release(&mut self) -> u64 {
        let released = self.window.saturating_sub(self.in_flight);
        self.in_flight += released;
        released
    }
}

/// The paper's and RFC 2581's initial window.
const INITIAL: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the window after each round trip, in which all packets in flight are acknowledged, `at_once`
    /// packets by each ACK.
    fn round_trips(mut sender: SlowStart, at_once: u64) -> [u64; 6] {
        let mut in_flight = sender.begin();
        core::array::from_fn(|_| {
            let acks = in_flight.div_ceil(at_once);
            in_flight = (0..acks).map(|ack| sender.on_ack(at_once.min(in_flight - ack * at_once))).sum();
            in_flight
        })
    }

    #[test]
    fn two_packets_then_two_more_for_each_acknowledged() {
        assert_eq!(SlowStart::new(1_000, Growth::PerPacket).begin(), 2);
        for at_once in [1, 2, 3] {
            let sender = SlowStart::new(1_000, Growth::PerPacket);
            assert_eq!(round_trips(sender, at_once), [4, 8, 16, 32, 64, 128]);
        }
    }

    #[test]
    fn delayed_acks_make_it_half_as_many_more() {
        let sender = SlowStart::new(1_000, Growth::PerAck);
        assert_eq!(round_trips(sender.clone(), 1), [4, 8, 16, 32, 64, 128]);
        assert_eq!(round_trips(sender, 2), [3, 5, 8, 12, 18, 27]);
    }

    #[test]
    fn the_window_has_a_limit_and_two_packets_always() {
        assert_eq!(round_trips(SlowStart::new(9, Growth::PerPacket), 1), [4, 8, 9, 9, 9, 9]);
        assert_eq!(round_trips(SlowStart::new(0, Growth::PerPacket), 1), [2; 6]);
    }

    #[test]
    fn an_idle_time_begins_anew_and_a_false_ack_does_no_harm() {
        let mut sender = SlowStart::new(1_000, Growth::PerPacket);
        sender.begin();
        assert_eq!(sender.on_ack(u64::MAX), 4);
        assert_eq!((sender.begin(), sender.window()), (0, 2), "four are still in flight");
        assert_eq!((sender.on_ack(4), sender.window()), (6, 6));
    }
}
