//! Network devices: a receive [`Ring`], and a [`Transmitter`] with descriptors and a wire.
//!
//! ```text
//!   wire ─▶ Ring ─▶ kernel ─▶ output queue ─▶ descriptors ─▶ wire ─▶ sent, to be reclaimed
//!            │ full: dropped, for nothing      few; loaded when the interface is not active
//! ```
//!
//! *Active* is the 4.2BSD rule: after packets were handed over, no more are handed over until the
//! transmitter's interrupt has been serviced. It delays a polled kernel's second packet (livelock §8.2), and
//! a kernel that never services that interrupt transmits nothing (§4.4).

use std::collections::VecDeque;
use std::time::Duration;

use softtimers_core::Timestamp;

/// A queue with limited room that counts what it drops: a receive ring, or any queue between two stages.
#[derive(Clone, Debug)]
pub(crate) struct Ring<P> {
    packets: VecDeque<P>,
    room: usize,
    taken: u64,
    dropped: u64,
}

impl<P> Ring<P> {
    /// Empty, with room for `room`.
    pub(crate) fn new(room: u32) -> Self {
        Ring { packets: VecDeque::with_capacity(room as usize), room: room as usize, taken: 0, dropped: 0 }
    }

    /// Inserts an arriving packet; returns whether there was room for it.
    #[inline]
    pub(crate) fn push(&mut self, packet: P) -> bool {
        let room = self.packets.len() < self.room;
        if room {
            self.taken += 1;
            self.packets.push_back(packet);
        } else {
            self.dropped += 1;
        }
        room
    }

    /// Takes the oldest packet.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<P> {
        self.packets.pop_front()
    }

    /// Returns the number of waiting packets.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.packets.len() as u32
    }

    /// Says whether no packet waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the number of accepted packets.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the number of dropped packets.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// The sending side of an interface, with the kernel's queue before it.
#[derive(Clone, Debug)]
pub(crate) struct Transmitter<P> {
    /// Packets waiting for descriptors.
    pub(crate) queue: Ring<P>,
    descriptors: u32,
    wire: Duration,
    /// Loaded and not yet completely on the wire.
    loaded: VecDeque<P>,
    /// Sent and not reclaimed: their descriptors are still in use.
    sent: u32,
    active: bool,
    /// Load even while active.
    eager: bool,
    counts: Transmitted,
    starved_since: Option<Timestamp>,
}

/// Counts of a transmitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Transmitted {
    /// Packets that left.
    pub(crate) packets: u64,
    /// How often packets were handed to the device.
    pub(crate) starts: u64,
    /// Time in which packets waited while the device was idle, in periods of [`STARVED`] or more.
    pub(crate) starved: Duration,
}

impl<P> Transmitter<P> {
    /// A queue of `room`, `descriptors`, and `wire` for each packet; `eager` breaks the rule of the active
    /// interface.
    pub(crate) fn new(room: u32, descriptors: u32, wire: Duration, eager: bool) -> Self {
        Transmitter {
            queue: Ring::new(room),
            descriptors,
            wire,
            loaded: VecDeque::with_capacity(descriptors as usize),
            sent: 0,
            active: false,
            eager,
            counts: Transmitted::default(),
            starved_since: None,
        }
    }

    /// Queues a packet for output. If the device takes it and was idle, returns when the wire's first packet
    /// is done.
    pub(crate) fn output(&mut self, now: Timestamp, packet: P) -> Option<Timestamp> {
        self.queue.push(packet);
        let begins = if self.active && !self.eager { None } else { self.load(now) };
        self.note(now);
        begins
    }

    /// The wire has sent a packet: returns which, and when the next one is done, if there is one.
    pub(crate) fn wire_done(&mut self, now: Timestamp) -> (Option<P>, Option<Timestamp>) {
        let packet = self.loaded.pop_front();
        if packet.is_some() {
            self.sent += 1;
            self.counts.packets += 1;
        }
        self.note(now);
        (packet, (!self.loaded.is_empty()).then(|| now + self.wire))
    }

    /// Returns the number of descriptors that can be reclaimed.
    #[inline]
    pub(crate) fn reclaimable(&self) -> u32 {
        self.sent
    }

    /// Reclaims up to `packets` descriptors.
    pub(crate) fn reclaim(&mut self, packets: u32) {
        self.sent -= packets.min(self.sent);
    }

    /// The transmitter's interrupt was serviced: loads waiting packets while descriptors last. The returned
    /// time is as for [`output`](Self::output).
    pub(crate) fn restart(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.active = !self.loaded.is_empty();
        let begins = self.load(now);
        self.note(now);
        begins
    }

    /// Returns its counts up to `now`.
    pub(crate) fn counts(&self, now: Timestamp) -> Transmitted {
        let stretch = self.starved_since.map_or(Duration::ZERO, |since| starvation(since, now));
        Transmitted { starved: self.counts.starved + stretch, ..self.counts }
    }

    /// Returns the number of packets loaded or waiting.
    #[cfg(test)]
    pub(crate) fn pending(&self) -> u64 {
        self.loaded.len() as u64 + u64::from(self.queue.len())
    }

    fn load(&mut self, now: Timestamp) -> Option<Timestamp> {
        let idle = self.loaded.is_empty();
        let before = self.loaded.len();
        while self.loaded.len() as u32 + self.sent < self.descriptors {
            let Some(packet) = self.queue.pop() else { break };
            self.loaded.push_back(packet);
        }
        if self.loaded.len() == before {
            return None;
        }
        self.active = true;
        self.counts.starts += 1;
        idle.then(|| now + self.wire)
    }

    /// Updates the starvation time.
    fn note(&mut self, now: Timestamp) {
        let starved = !self.queue.is_empty() && self.loaded.is_empty();
        match self.starved_since {
            None if starved => self.starved_since = Some(now),
            Some(since) if !starved => {
                self.counts.starved += starvation(since, now);
                self.starved_since = None;
            }
            _ => {}
        }
    }
}

fn starvation(since: Timestamp, now: Timestamp) -> Duration {
    let stretch = now.saturating_duration_since(since);
    if stretch >= STARVED { stretch } else { Duration::ZERO }
}

/// A transmitter that is idle for this long with packets waiting is starved, not merely between two turns:
/// turns with a quota of 20 take 3.6 ms on the livelock paper's machine.
pub(crate) const STARVED: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn transmitter(eager: bool) -> Transmitter<u32> {
        Transmitter::new(4, 2, Duration::from_micros(10), eager)
    }

    #[test]
    fn a_full_ring_drops_the_newest() {
        let mut ring = Ring::new(2);
        assert_eq!([1, 2, 3].map(|packet| ring.push(packet)), [true, true, false]);
        assert_eq!((ring.pop(), ring.len(), ring.taken(), ring.dropped()), (Some(1), 1, 2, 1));
    }

    #[test]
    fn an_active_interface_takes_no_more_until_it_is_serviced() {
        let mut tx = transmitter(false);
        assert_eq!(tx.output(at(0), 1), Some(at(10)));
        assert_eq!(tx.output(at(1), 2), None);
        assert_eq!(tx.wire_done(at(10)), (Some(1), None));
        // Idle with a packet waiting, until it is serviced.
        assert_eq!(tx.counts(at(25)).starved, Duration::ZERO, "not for long");
        assert_eq!(tx.counts(at(5_010)).starved, Duration::from_millis(5));
        tx.reclaim(tx.reclaimable());
        assert_eq!(tx.restart(at(6_010)), Some(at(6_020)));
        assert_eq!(tx.wire_done(at(6_020)), (Some(2), None));
        let Transmitted { packets, starts, starved } = tx.counts(at(99_000));
        assert_eq!((packets, starts, starved), (2, 2, Duration::from_millis(6)));
    }

    #[test]
    fn an_eager_one_takes_what_has_descriptors() {
        let mut tx = transmitter(true);
        assert_eq!(tx.output(at(0), 1), Some(at(10)));
        assert_eq!(tx.output(at(1), 2), None, "loaded behind the first");
        assert_eq!(tx.output(at(2), 3), None, "no descriptor");
        assert_eq!(tx.wire_done(at(10)), (Some(1), Some(at(20))));
        assert_eq!((tx.queue.len(), tx.pending()), (1, 2));
        // Sent but not reclaimed: its descriptor is still in use.
        assert_eq!(tx.output(at(11), 4), None);
        tx.reclaim(1);
        assert_eq!(tx.restart(at(12)), None, "loaded behind the second");
        assert_eq!(tx.wire_done(at(20)), (Some(2), Some(at(30))));
    }

    #[test]
    fn a_full_queue_drops() {
        let mut tx = transmitter(false);
        for packet in 0..9 {
            tx.output(at(0), packet);
        }
        assert_eq!((tx.pending(), tx.queue.dropped()), (5, 4));
    }
}
