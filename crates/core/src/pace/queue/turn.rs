//! One turn of the queue: which packets leave in it, alone or together.

use core::hint::black_box;

use super::DepartureQueue;
use super::account::{Departure, Popped};
use super::flow::{Batch, Flow, Terms};
use super::id::FlowId;
use super::node::Filed;
use super::packets::Packet;
use crate::Timestamp;

/// One visit to the queue: the line drawn by [`DepartureQueue::turn`].
///
/// Dropping it early loses nothing: what was not taken is due in the next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a turn hands out packets only through `pop_due`"]
pub struct DepartureTurn {
    limit: Filed,
}

impl<T> DepartureQueue<T> {
    /// Begins a turn: [`pop_due`](Self::pop_due) hands out what is due at `now`.
    ///
    /// # Cost
    /// O(1): one compare when nothing is due.
    #[inline]
    pub fn turn(&mut self, now: Timestamp) -> DepartureTurn {
        if self.leaving.is_some() {
            self.left();
        }
        self.latest = self.latest.max(now);
        DepartureTurn { limit: self.releases.line(self.latest) }
    }

    /// The next packet of the turn, or `None` when the turn is over. It leaves at the time of the turn.
    ///
    /// One that cannot be sent for want of room is to be kept, and nothing more popped until there is some:
    /// its time has been counted.
    ///
    /// # Cost
    /// O(1) amortised; O(k log k) when k flows of the same 256 ns come due. Never allocates.
    #[inline]
    pub fn pop_due(&mut self, turn: &DepartureTurn) -> Option<Popped<T>> {
        self.pop_due_at(turn, turn.limit.time())
    }

    /// As [`pop_due`](Self::pop_due), where the packet leaves at `now`. For turns that take longer than
    /// a burst interval, because each packet is sent by itself: the flow's next one is then counted from
    /// there.
    pub fn pop_due_at(&mut self, turn: &DepartureTurn, now: Timestamp) -> Option<Popped<T>> {
        let index = self.releases.before(turn.limit)?;
        self.fetch_ahead();
        self.latest = self.latest.max(now);
        let now = now.max(turn.limit.time());
        let id = FlowId::of(self.flows.id(index));
        let flow = self.flows.at_mut(index)?;
        let Packet { ready, bytes, token } = self.packets.pop(index, &mut flow.waiting)?;
        let limits = flow.is_bounded().then(|| &self.terms[index as usize].limits);
        if limits.is_some_and(|limits| limits.overstayed(now, ready)) && self.leaving.is_none() {
            self.passed_over(index, now);
            let waited = now.saturating_duration_since(ready);
            return Some(Popped::Expired { flow: id, token, bytes, waited });
        }
        self.stats.sent += 1;
        let (place, due) = (flow.place(), flow.release());
        let more = if flow.batches() {
            self.departed_together(index, now, bytes)
        } else {
            flow.departed(now, 1, bytes);
            self.releases.take_first(index);
            if let Some((ready, _)) = self.packets.first(index) {
                self.releases.file(index, flow.head(ready), self.latest);
            }
            false
        };
        let lateness = now.saturating_duration_since(place);
        Some(Popped::Departure(Departure { flow: id, token, bytes, place, due, lateness, ready, more }))
    }

    /// The flow's first packet has expired: the next one takes its turn, unless it may not leave yet.
    #[cold]
    fn passed_over(&mut self, index: u32, now: Timestamp) {
        self.stats.expired += 1;
        let Some(flow) = self.flows.at_mut(index) else { return };
        flow.expired += 1;
        match self.packets.first(index) {
            Some((ready, _)) if ready <= now => _ = flow.head(ready),
            _ => self.file(index),
        }
    }

    /// Reads what a packet soon to come will need. With many flows that is far away in memory, and arrives while
    /// those before it are seen to: a prefetch, for which safe code has no other word.
    #[inline]
    fn fetch_ahead(&self) {
        if let Some(flow) = self.releases.ahead() {
            black_box(self.packets.first(flow).is_some());
            black_box(self.flows.at(flow).map(Flow::place));
        }
    }

    /// Counts a packet of a flow into what leaves in one go; whether the flow's next one joins it. If not, it
    /// has left.
    #[inline(never)]
    fn departed_together(&mut self, index: u32, now: Timestamp, bytes: u32) -> bool {
        let Some(flow) = self.flows.at(index) else { return false };
        let Terms { quantum, limits } = &self.terms[index as usize];
        let batch = match self.leaving {
            Some(batch) => Batch {
                at: now,
                packets: batch.packets + 1,
                bytes: batch.bytes + bytes,
                latest: bytes,
                ..batch
            },
            None => Batch { flow: index, at: now, packets: 1, bytes, first: bytes, latest: bytes },
        };
        let more = self.packets.first(index).is_some_and(|(ready, bytes)| {
            ready <= now && !limits.overstayed(now, ready) && flow.joins(quantum, &batch, bytes)
        });
        self.leaving = Some(batch);
        if !more {
            self.left();
        }
        more
    }

    /// Everything that is leaving has left.
    pub(super) fn left(&mut self) {
        let Some(batch) = self.leaving.take() else { return };
        if let Some(flow) = self.flows.at_mut(batch.flow) {
            flow.departed(batch.at, batch.packets, batch.bytes);
        }
        self.file(batch.flow);
    }
}
