//! The link and everything behind it: packets leave it, are lost, copied, delayed and damaged.

use std::cmp::Reverse;

use softtimers_core::Timestamp;

use super::Direction;
use super::packet::{Packet, UnderWay};
use crate::PathConfig;

impl<T: Clone> Direction<T> {
    /// Processes everything that the link has finished by `now`.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        let now = self.latest.max(now);
        while let Some(change) = self.timeline.next_at().filter(|&change| change <= now) {
            // Packets through at the time of the change were through before it.
            self.work_off(change);
            self.latest = self.latest.max(change);
            let path = self.timeline.pass(&self.path);
            self.become_path(path);
            if self.serving.is_none() && self.link.is_rested(self.latest) {
                self.timeline.skip_to(now);
            }
        }
        self.work_off(now);
        self.latest = now;
    }

    /// Lets the packets leave that the link has finished by `now`.
    fn work_off(&mut self, now: Timestamp) {
        while let Some((done, packet)) = self.serving.take_if(|(done, _)| *done <= now) {
            // A managed queue drops packets as of this time.
            self.latest = self.latest.max(done);
            self.leave(done, packet);
            if let Some(next) = self.dequeue(done) {
                self.serve(done, next);
            }
        }
    }

    pub(super) fn serve(&mut self, at: Timestamp, packet: Packet<T>) {
        let done = self.link.serve(at, self.on_link(packet.bytes));
        self.serving = Some((done, packet));
    }

    /// Handles a packet that is through the bottleneck.
    fn leave(&mut self, done: Timestamp, packet: Packet<T>) {
        let bytes = packet.bytes;
        self.counters.passed += 1;
        if self.path.outage || self.loss.next(&self.path.loss) {
            self.held_bytes -= u64::from(bytes);
            self.counters.held -= 1;
            self.counters.lost += 1;
            return self.keep(done, packet.packet);
        }
        let copy = self.duplicate.next(&self.path.duplicate).then(|| packet.clone());
        self.send(done, packet, false);
        let Some(copy) = copy else { return };
        self.counters.duplicated += 1;
        if self.has_room(bytes) {
            self.held_bytes += u64::from(bytes);
            self.counters.held += 1;
            self.send(done, copy, true);
        } else {
            self.counters.overflowed += 1;
        }
    }

    fn send(&mut self, done: Timestamp, packet: Packet<T>, copy: bool) {
        let on_link = self.on_link(packet.bytes);
        let PathConfig { delay, ref jitter, reorder, corrupt, slots, .. } = self.path;
        let sent = slots.map_or(done, |slots| self.slots.leaves(done, on_link, &slots));
        let due = self.propagation.arrival(sent, delay, jitter, reorder);
        let hit = packet.bytes > 0 && self.corrupt.next(&corrupt);
        let flipped = hit.then(|| self.corrupt.random.below(u64::from(packet.bytes) * 8));
        self.counters.corrupted += u64::from(hit);
        self.under_way.push(Reverse(UnderWay { due, sequence: self.sequence, copy, flipped, packet }));
        self.sequence += 1;
    }
}
