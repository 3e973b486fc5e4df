//! CoDel: drops at the head of the queue while packets wait longer than they should (RFC 8289).
//!
//! ```text
//!   waiting   ────────▲───────────────────────────────────▼────
//!   target  ┄┄┄┄┄┄┄┄┄┄│┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄│┄┄┄┄
//!   drops             │interval│ ✗   i/√1  ✗  i/√2 ✗ i/√3 ✗    none any more
//! ```

use std::time::Duration;

use softtimers_core::Timestamp;

/// The parameters of [CoDel](super::Aqm::Codel).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CodelConfig {
    /// The acceptable standing wait.
    pub target: Duration,
    /// How long the wait may exceed the target before the first drop: a common round trip.
    pub interval: Duration,
    /// Packets that can carry a mark are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CodelConfig {
    /// 5 ms and 100 ms (RFC 8289, section 4), dropping.
    fn default() -> Self {
        CodelConfig { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false }
    }
}

/// A queue that CoDel takes packets from.
pub(crate) trait Store {
    type Packet;

    /// Removes and returns the first packet.
    fn pop(&mut self) -> Option<Self::Packet>;

    /// Returns the packet's time of arrival.
    fn came(packet: &Self::Packet) -> Timestamp;

    /// Says whether a drop would leave the link idle: at most one packet of maximum length is left.
    fn is_short(&self) -> bool;

    /// Marks a packet, and returns whether it can carry a mark.
    fn mark(&mut self, packet: &mut Self::Packet) -> bool;

    /// Drops a packet and counts it.
    fn discard(&mut self, packet: Self::Packet);
}

/// The state of one queue, as in section 5 of the RFC; the names are those of its pseudocode.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Codel {
    first_above: Option<Timestamp>,
    drop_next: Timestamp,
    count: u64,
    last_count: u64,
    dropping: bool,
}

impl Codel {
    /// Returns the next packet for the link at `now`, after dropping those that must go before it.
    pub(crate) fn dequeue<S: Store>(
        &mut self,
        config: &CodelConfig,
        now: Timestamp,
        store: &mut S,
    ) -> Option<S::Packet> {
        let (mut packet, mut may_drop) = self.next(config, now, store);
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                let at = self.drop_next;
                if self.spend(config, store, &mut packet) {
                    self.drop_next = self.control_law(config, at);
                    break;
                }
                (packet, may_drop) = self.next(config, now, store);
                self.dropping = may_drop;
                if may_drop {
                    self.drop_next = self.control_law(config, at);
                }
            }
        } else if may_drop {
            if !self.spend(config, store, &mut packet) {
                // The dropping state has begun, whether or not the next packet is above the target.
                packet = self.next(config, now, store).0;
            }
            self.dropping = true;
            // If the last cycle ended recently, its rate controlled the queue.
            let delta = self.count.saturating_sub(self.last_count);
            let lately = now.saturating_duration_since(self.drop_next) < config.interval * 16;
            self.count = if delta > 1 && lately { delta } else { 1 };
            self.drop_next = self.control_law(config, now);
            self.last_count = self.count;
        }
        packet
    }

    /// Marks the packet, or drops it; returns whether it is still there.
    fn spend<S: Store>(&self, config: &CodelConfig, store: &mut S, packet: &mut Option<S::Packet>) -> bool {
        let Some(mut it) = packet.take() else { return false };
        let is_marked = config.ecn && store.mark(&mut it);
        if is_marked {
            *packet = Some(it);
        } else {
            store.discard(it);
        }
        is_marked
    }

    /// `dodequeue` of the RFC: a packet, and whether the wait has exceeded the target for an interval.
    fn next<S: Store>(
        &mut self,
        config: &CodelConfig,
        now: Timestamp,
        store: &mut S,
    ) -> (Option<S::Packet>, bool) {
        let Some(packet) = store.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let waited = now.saturating_duration_since(S::came(&packet));
        if waited < config.target || store.is_short() {
            self.first_above = None;
            return (Some(packet), false);
        }
        let since = *self.first_above.get_or_insert(now + config.interval);
        (Some(packet), now >= since)
    }

    /// `t + interval / sqrt(count)`, in whole nanoseconds.
    fn control_law(&self, config: &CodelConfig, at: Timestamp) -> Timestamp {
        let interval = config.interval.as_nanos().min(u128::from(u64::MAX));
        let nanos = (interval * interval / u128::from(self.count.max(1))).isqrt();
        at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use softtimers_core::Random;

    use super::super::pseudocode::Pseudocode;
    use super::*;

    /// Packets of one length; `(number, when it came, whether it can be marked)`.
    #[derive(Default)]
    struct Fifo {
        waiting: VecDeque<(u64, Timestamp, bool)>,
        dropped: Vec<u64>,
        marked: Vec<u64>,
    }

    impl Store for Fifo {
        type Packet = (u64, Timestamp, bool);

        fn pop(&mut self) -> Option<Self::Packet> {
            self.waiting.pop_front()
        }

        fn came(packet: &Self::Packet) -> Timestamp {
            packet.1
        }

        fn is_short(&self) -> bool {
            self.waiting.is_empty()
        }

        fn mark(&mut self, packet: &mut Self::Packet) -> bool {
            if packet.2 {
                self.marked.push(packet.0);
            }
            packet.2
        }

        fn discard(&mut self, packet: Self::Packet) {
            self.dropped.push(packet.0);
        }
    }

    /// Ten seeds of arrivals that vary, served by a link that is sometimes too slow.
    #[test]
    fn it_drops_what_the_pseudocode_drops() {
        let mut all = 0;
        for seed in 0..10 {
            let mut random = Random::stream(seed, 0);
            let (mut ours, mut fifo) = (Codel::default(), Fifo::default());
            let mut theirs = Pseudocode::default();
            let (mut queue, mut dropped) = (VecDeque::new(), Vec::new());
            let (mut now, mut number) = (1, 0);
            for step in 0..40_000 {
                // For a second or so the load is too high, then low.
                let load = if step / 2_000 % 2 == 0 { 3 } else { 1 };
                for _ in 0..random.below(load + 1) {
                    fifo.waiting.push_back((number, Timestamp::from_nanos(now), false));
                    queue.push_back((number, now));
                    number += 1;
                }
                now += 400_000 + random.below(400_000);
                let taken = ours.dequeue(&CodelConfig::default(), Timestamp::from_nanos(now), &mut fifo);
                let expected = theirs.dequeue(now, &mut queue, &mut dropped, VecDeque::is_empty);
                assert_eq!(taken.map(|packet| packet.0), expected, "seed {seed} at {now}");
                assert_eq!(fifo.dropped, dropped, "seed {seed} at {now}");
            }
            all += dropped.len();
        }
        assert!(all > 1_000, "{all}");
    }

    #[test]
    fn what_can_be_marked_is_marked_and_stays() {
        let (mut codel, mut fifo) = (Codel::default(), Fifo::default());
        let config = CodelConfig { ecn: true, ..CodelConfig::default() };
        fifo.waiting.extend((0..2_000).map(|number| (number, Timestamp::ZERO, number % 2 == 0)));
        let mut taken = Vec::new();
        let mut now = Timestamp::ZERO;
        while let Some(packet) = codel.dequeue(&config, now, &mut fifo) {
            taken.push(packet.0);
            now += Duration::from_millis(1);
        }
        assert!(fifo.marked.len() > 20 && fifo.dropped.len() > 20);
        assert!(fifo.marked.iter().all(|number| taken.contains(number)));
        assert!(fifo.dropped.iter().all(|number| number % 2 == 1 && !taken.contains(number)));
        assert_eq!(taken.len() + fifo.dropped.len(), 2_000);
    }
}
