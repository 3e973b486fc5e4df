//! Sorted entries: a queue that only takes entries that come after all it has.
//!
//! Such are periodic timers, those postponed by the same time, and those of a slot that were set in order;
//! none of them costs a search. A cancelled entry leaves a gap, except at the ends.
//!
//! ```text
//!   counted on and on   from                to
//!                        │ 3 5 · 8 · 9 11 12 │ ◀─ append, if it comes after 12
//!                          ▲   └─ gap
//!                        first
//! ```

use alloc::vec::Vec;

use super::record::{COUNTED, Location, Records};
use super::sizes::NIL;
use super::terms::{Entry, Sequence};

#[derive(Debug)]
pub(super) struct Run {
    /// A ring: a power of two of places.
    ring: Vec<Entry>,
    /// The count of the first entry, and of the next one to append.
    from: u32,
    to: u32,
    live: u32,
    /// The maximum number of live entries. The same number of places again is for gaps.
    most: u32,
    /// Of its entries' places.
    mark: u32,
}

impl Run {
    pub(super) const fn new(most: usize, mark: u32) -> Self {
        Run { ring: Vec::new(), from: 0, to: 0, live: 0, most: most as u32, mark }
    }

    /// The index in the ring.
    #[inline]
    fn at(&self, counted: u32) -> usize {
        counted as usize & self.ring.len().wrapping_sub(1)
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        if self.is_empty() { None } else { self.ring.get(self.at(self.from)) }
    }

    /// The first entry, for callers that keep the order.
    #[inline]
    pub(super) fn first_mut(&mut self) -> Option<&mut Entry> {
        let at = self.at(self.from);
        if self.is_empty() { None } else { self.ring.get_mut(at) }
    }

    #[inline]
    fn last(&self) -> Option<&Entry> {
        if self.is_empty() { None } else { self.ring.get(self.at(self.to.wrapping_sub(1))) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.from == self.to
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.live as usize
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let counted = (0..self.to.wrapping_sub(self.from)).map(|behind| self.from.wrapping_add(behind));
        counted.map(|counted| &self.ring[self.at(counted)]).filter(|entry| entry.timer != NIL)
    }

    /// Returns the entry at a place.
    #[cfg(test)]
    pub(super) fn in_place(&self, counted: u32) -> Option<&Entry> {
        self.ring.get(self.at(counted))
    }

    /// Returns whether it comes after all others, and there is room, counting gaps.
    #[inline]
    pub(super) fn has_room_for(&self, entry: &Entry) -> bool {
        self.last().is_none_or(|last| last.is_before(entry) && self.live < self.most)
    }

    /// Returns whether no place is free, counting gaps, or none has been allocated yet.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.to.wrapping_sub(self.from) as usize == self.ring.len()
    }

    /// Appends an entry, which comes after all others. Returns its place.
    #[inline]
    pub(super) fn append<E>(&mut self, entry: Entry, records: &mut Records<E>) -> Location {
        if self.is_full() {
            let room = self.ring.len();
            self.make_room(if 2 * self.live as usize > room { 2 * room } else { room }, records);
        }
        let (counted, at) = (self.to, self.at(self.to));
        if let Some(free) = self.ring.get_mut(at) {
            *free = entry;
        }
        (self.to, self.live) = (counted.wrapping_add(1), self.live + 1);
        Location::new(self.mark, (counted & COUNTED) as usize)
    }

    /// Closes the gaps, in place or in a ring of more places. If that is done when none is free, and the ring grows unless
    /// half of them are gaps, each entry is moved once on average.
    #[inline(never)]
    fn make_room<E>(&mut self, room: usize, records: &mut Records<E>) {
        let first = if self.ring.is_empty() { 0 } else { self.at(self.from) };
        self.ring.rotate_left(first);
        self.ring.truncate(self.to.wrapping_sub(self.from) as usize);
        self.ring.retain(|entry| entry.timer != NIL);
        for (entry, counted) in self.ring.iter().zip(0..) {
            records[entry.timer].place = Location::new(self.mark, counted);
        }
        (self.from, self.to) = (0, self.ring.len() as u32);
        self.ring.resize(room.next_power_of_two().max(LEAST_ROOM), GAP);
    }

    /// The places that it has, gaps included.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.ring.len()
    }

    /// Makes sure of that many places, gaps included.
    #[inline]
    pub(super) fn reserve<E>(&mut self, places: usize, records: &mut Records<E>) {
        if places > self.room() {
            self.make_room(places, records);
        }
    }

    /// Takes out the entry with this count. Returns whether it was the first.
    #[inline]
    pub(super) fn remove(&mut self, counted: u32) -> bool {
        let at = self.at(counted);
        if at == self.at(self.from) {
            self.drop_first();
            return true;
        }
        self.live -= 1;
        if let Some(entry) = self.ring.get_mut(at) {
            entry.timer = NIL;
        }
        while self.last().is_some_and(|last| last.timer == NIL) {
            self.to = self.to.wrapping_sub(1);
        }
        false
    }

    /// Takes out the first entry. There must be one.
    #[inline(always)]
    pub(super) fn drop_first(&mut self) {
        self.live -= 1;
        self.from = self.from.wrapping_add(1);
        if self.first().is_some_and(|first| first.timer == NIL) {
            self.drop_gaps();
        }
    }

    /// Skips the gaps at the beginning.
    #[inline(never)]
    fn drop_gaps(&mut self) {
        while self.first().is_some_and(|first| first.timer == NIL) {
            self.from = self.from.wrapping_add(1);
        }
    }

    /// Returns the lesser of `best` and the least value of `of` over all timers, which is not before an
    /// entry's due time; or a time before that, if it would take more than `most` calls.
    pub(super) fn least(&self, mut best: u64, most: usize, of: impl Fn(u32) -> u64) -> u64 {
        for (entry, asked) in self.entries().zip(0..) {
            if entry.due >= best {
                break;
            }
            if asked == most {
                return entry.due;
            }
            best = best.min(of(entry.timer));
        }
        best
    }

    /// Frees the ring, if it is empty.
    pub(super) fn shrink(&mut self) {
        if self.is_empty() {
            (self.ring, self.from, self.to) = (Vec::new(), 0, 0);
        }
    }
}

const GAP: Entry = Entry { due: 0, sequence: Sequence::FIRST, timer: NIL };
const LEAST_ROOM: usize = 16;
