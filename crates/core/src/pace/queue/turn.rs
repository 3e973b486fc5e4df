//! One turn of the queue: which packets leave in it, alone or together.

use core::hint::black_box;

use super::account::{Departure, Popped};
use super::flow::Batch;
use super::id::FlowId;
use super::packets::Packet;
use super::{DepartureQueue, head};
use crate::Timestamp;
use crate::wheel::terms::Key;

/// One visit to the queue: the line drawn by [`DepartureQueue::turn`].
///
/// Dropping it early loses nothing: packets that were not taken are due in the next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a turn hands out packets only through `pop_due`"]
pub struct DepartureTurn {
    limit: Key,
    now: Timestamp,
}

impl<T> DepartureQueue<T> {
    /// Begins a turn: [`pop_due`](Self::pop_due) hands out the packets due at `now`.
    ///
    /// # Cost
    /// O(1): one compare when nothing is due.
    #[inline]
    pub fn turn(&mut self, now: Timestamp) -> DepartureTurn {
        if self.leaving.is_some() {
            self.left();
        }
        self.latest = self.latest.max(now);
        DepartureTurn { limit: self.releases.line(self.collected_by(self.latest)), now: self.latest }
    }

    /// Returns the next packet of the turn, or `None` when the turn is over. It leaves at the time of the
    /// turn.
    ///
    /// If it cannot be sent for want of room, keep it, and pop no other until there is room: its departure
    /// has been counted.
    ///
    /// # Cost
    /// O(1) amortised; O(k log k) when k flows of the same 256 ns come due. Never allocates.
    #[inline]
    pub fn pop_due(&mut self, turn: &DepartureTurn) -> Option<Popped<T>> {
        self.pop_due_at(turn, turn.now)
    }

    /// As [`pop_due`](Self::pop_due), where the packet leaves at `now`. For turns that take longer than a
    /// burst interval, because each packet is sent by itself: the flow's next packet is then timed from
    /// `now`.
    pub fn pop_due_at(&mut self, turn: &DepartureTurn, now: Timestamp) -> Option<Popped<T>> {
        let (index, now) = (self.releases.before(turn.limit)?, now.max(turn.now));
        self.fetch_ahead();
        self.latest = self.latest.max(now);
        let id = FlowId::from_timer(self.flows.id(index));
        let due = self.collected_at(self.hot.get(index as usize)?.lane.release());
        let hot = self.hot.get_mut(index as usize)?;
        let place = hot.place();
        let Packet { ready, bytes, token } = hot.first.take()?;
        self.packets.discount(1);
        let on_schedule = hot.lane.departed(now, bytes);
        if hot.first.has_next() {
            self.packets.advance(&mut hot.first, &mut self.flows.at_mut(index)?.behind);
        }
        let lateness = now.saturating_duration_since(place);
        let mut more = false;
        if on_schedule {
            self.releases.take_first(index);
            if hot.first.is_taken() {
                self.releases.file(index, head(&mut self.flows, hot, index), self.latest);
            }
        } else if let Some(joined) = self.departed(index, now, ready, bytes) {
            more = joined;
        } else {
            let waited = now.saturating_duration_since(ready);
            return Some(Popped::Expired { flow: id, token, bytes, waited });
        }
        self.stats.sent += 1;
        Some(Popped::Departure(Departure { flow: id, token, bytes, place, due, lateness, ready, more }))
    }

    /// Counts the departure of a packet that is not on schedule, or whose flow is not plain. Returns whether
    /// the next one leaves with it; `None` if it has expired instead.
    #[inline(never)]
    fn departed(&mut self, index: u32, now: Timestamp, ready: Timestamp, bytes: u32) -> Option<bool> {
        let flow = self.flows.at_mut(index)?;
        if self.leaving.is_none() && flow.overstayed(now, ready) {
            self.passed_over(index, now);
            return None;
        }
        if flow.batches() {
            return Some(self.departed_together(index, now, bytes));
        }
        flow.departed(&mut self.hot[index as usize].lane, now, 1, bytes);
        self.file(index);
        Some(false)
    }

    /// Drops the flow's first packet, which has expired: the next one takes its turn, unless it may not leave
    /// yet.
    #[cold]
    fn passed_over(&mut self, index: u32, now: Timestamp) {
        self.stats.expired += 1;
        let Some(flow) = self.flows.at_mut(index) else { return };
        flow.expired += 1;
        let hot = &mut self.hot[index as usize];
        if hot.first.is_taken() && hot.first.ready <= now {
            head(&mut self.flows, hot, index);
        } else {
            self.file(index);
        }
    }

    /// Reads the memory that the next few packets need, all at once. With many flows it is not in the cache,
    /// and packets handled one after the other would each wait for their own miss.
    #[inline]
    fn fetch_ahead(&self) {
        let near = self.releases.upcoming().filter_map(|flow| self.hot.get(flow as usize));
        black_box(near.fold(0, |near, hot| near ^ hot.lane.place));
    }

    /// Adds a packet of a flow to the quantum under way. Returns whether the flow's next one joins it; if
    /// not, the quantum has left.
    #[inline(never)]
    fn departed_together(&mut self, index: u32, now: Timestamp, bytes: u32) -> bool {
        let Some(flow) = self.flows.at(index) else { return false };
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
        let first = &self.hot[index as usize].first;
        let more = first.bytes().is_some_and(|bytes| {
            first.ready <= now && !flow.overstayed(now, first.ready) && flow.joins(&batch, bytes)
        });
        self.leaving = Some(batch);
        if !more {
            self.left();
        }
        more
    }

    /// Ends the quantum under way: all its packets have left.
    pub(super) fn left(&mut self) {
        let Some(batch) = self.leaving.take() else { return };
        if let Some(flow) = self.flows.at_mut(batch.flow) {
            flow.departed(&mut self.hot[batch.flow as usize].lane, batch.at, batch.packets, batch.bytes);
        }
        self.file(batch.flow);
    }
}
