//! The queue in front of the link: which packet is next, and which ones a managed queue drops.

use softtimers_core::Timestamp;

use super::Direction;
use super::packet::Packet;
use crate::aqm::{Accounts, Store, Verdict};
use crate::{Aqm, Backlog};

impl<T: Clone> Direction<T> {
    /// Removes and returns the next packet at `at`, when the link is free.
    pub(super) fn dequeue(&mut self, at: Timestamp) -> Option<Packet<T>> {
        let config = match self.path.aqm {
            Aqm::Codel(config) => config,
            Aqm::FqCodel(config) => {
                let mut fair = self.fair.take()?;
                let next = fair.dequeue(&config, at, self);
                self.fair = Some(fair);
                return next;
            }
            _ => return self.pop(),
        };
        let mut codel = std::mem::take(&mut self.codel);
        let next = codel.dequeue(&config, at, self);
        self.codel = codel;
        next
    }

    /// Returns a managed queue's decision about an arriving packet.
    pub(super) fn early_verdict(&mut self, ahead: &Backlog, capable: bool) -> Verdict {
        let Aqm::Pie(config) = self.path.aqm else { return Verdict::Enqueue };
        self.pie.verdict(&config, ahead.packets, capable, &mut self.early)
    }

    /// Makes PIE's updates; called before the queue changes.
    pub(super) fn look_at_wait(&mut self) {
        if let Aqm::Pie(config) = self.path.aqm {
            self.pie.update(&config, self.latest);
        }
    }

    /// Tells PIE the new wait; called after the queue has changed.
    pub(super) fn expect_wait(&mut self) {
        if let Aqm::Pie(_) = self.path.aqm {
            self.pie.expect(self.link.through(self.latest, self.waiting_bytes));
        }
    }
}

impl<T: Clone> Store for Direction<T> {
    type Packet = Packet<T>;

    fn pop(&mut self) -> Option<Packet<T>> {
        let next = self.waiting.pop_front()?;
        self.waiting_bytes -= self.on_link(next.bytes);
        Some(next)
    }

    fn came(packet: &Packet<T>) -> Timestamp {
        packet.offered
    }

    fn is_short(&self) -> bool {
        self.waiting_bytes <= LONGEST_PACKET + u64::from(self.path.overhead)
    }

    fn mark(&mut self, packet: &mut Packet<T>) -> bool {
        self.counters.marked += u64::from(packet.traits.capable && !packet.marked);
        packet.marked |= packet.traits.capable;
        packet.traits.capable
    }

    fn discard(&mut self, packet: Packet<T>) {
        self.held_bytes -= u64::from(packet.bytes);
        self.counters.held -= 1;
        self.counters.queue_drops += 1;
        self.counters.aqm_drops += 1;
        self.keep(self.latest, packet.packet);
    }
}

impl<T: Clone> Accounts<Packet<T>> for Direction<T> {
    fn came(packet: &Packet<T>) -> Timestamp {
        packet.offered
    }

    fn length(&self, packet: &Packet<T>) -> u64 {
        self.on_link(packet.bytes)
    }

    fn is_short(&self, bytes: u64) -> bool {
        bytes <= LONGEST_PACKET + u64::from(self.path.overhead)
    }

    fn left(&mut self, packet: &Packet<T>) {
        self.waiting_bytes -= self.on_link(packet.bytes);
    }

    fn mark(&mut self, packet: &mut Packet<T>) -> bool {
        Store::mark(self, packet)
    }

    fn discard(&mut self, packet: Packet<T>) {
        Store::discard(self, packet);
    }
}

/// The usual maximum packet, in bytes of Ethernet with a tag: when no more is waiting, a drop would leave the link
/// idle.
const LONGEST_PACKET: u64 = 1_518;
