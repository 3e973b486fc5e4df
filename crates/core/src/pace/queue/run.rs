//! The sorted flows that may leave by now; or all, while they are few.

use alloc::vec::Vec;

use crate::wheel::sizes::NIL;
use crate::wheel::terms::{Entry, Key, Sequence};

/// A sorted array, taken from its beginning.
///
/// A flow inserted for the present sorts behind nearly all others, so the insertion starts at the end. A
/// cancelled one leaves its place empty until there is no room left.
#[derive(Debug)]
pub(super) struct Run {
    flows: Vec<Entry>,
    /// The first, which is not empty.
    from: usize,
    empty: usize,
}

impl Run {
    pub(super) const fn new() -> Self {
        Run { flows: Vec::new(), from: 0, empty: 0 }
    }

    /// Makes room for `flows` flows, and half as many again, so that empty places are rarely compacted.
    pub(super) fn reserve(&mut self, flows: usize) {
        self.flows.reserve((flows + flows / 2 + LEAST_ROOM).saturating_sub(self.flows.len()));
    }

    /// The number of flows.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.flows.len() - self.from - self.empty
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.flows.get(self.from)
    }

    /// Returns, at each eighth flow that is taken, this one and the seven behind it.
    #[inline]
    pub(super) fn upcoming(&self) -> impl Iterator<Item = u32> + '_ {
        let upcoming = if self.from % 8 == 0 { self.flows.get(self.from..) } else { None };
        upcoming.unwrap_or_default().iter().take(8).map(|entry| entry.timer)
    }

    /// Puts a flow at the end. It must be [sorted](Self::sort) before any is taken.
    #[inline]
    pub(super) fn push(&mut self, key: Key, flow: u32) {
        self.flows.push(Entry::new(key, flow));
    }

    /// Sorts the flows that were inserted before the sequence reached `present`.
    #[inline]
    pub(super) fn sort(&mut self, present: Sequence) {
        if self.flows.len() > MOST_INSERTED {
            return self.flows.sort_unstable_by_key(|entry| entry.order(present));
        }
        for sorted in 1..self.flows.len() {
            let (entry, mut at) = (self.flows[sorted], sorted);
            while at > 0 && entry.is_before(&self.flows[at - 1]) {
                self.flows[at] = self.flows[at - 1];
                at -= 1;
            }
            self.flows[at] = entry;
        }
    }

    /// Inserts a flow: O(1) at the end; otherwise the later ones move up.
    #[inline]
    pub(super) fn insert(&mut self, key: Key, flow: u32) {
        if self.flows.len() == self.flows.capacity() {
            self.retain(|_| true);
        }
        if self.flows.last().is_none_or(|last| last.key().is_before(key)) {
            return self.push(key, flow);
        }
        let at = self.position(key);
        self.flows.insert(at, Entry::new(key, flow));
    }

    /// Returns the number of entries that sort before this key.
    fn position(&self, key: Key) -> usize {
        self.from + self.flows[self.from..].partition_point(|other| other.key().is_before(key))
    }

    /// Takes out the flow with this key, which must be here. O(1) for the first, O(log n) for others.
    #[inline]
    pub(super) fn remove(&mut self, key: Key) {
        if self.first().is_some_and(|first| first.key() == key) {
            return self.take_first();
        }
        let at = self.position(key);
        if let Some(entry) = self.flows.get_mut(at) {
            entry.timer = NIL;
            self.empty += 1;
        }
    }

    /// Takes out the first flow. There must be one.
    #[inline]
    pub(super) fn take_first(&mut self) {
        self.from += 1;
        while self.empty > 0 && self.first().is_some_and(|first| first.timer == NIL) {
            (self.from, self.empty) = (self.from + 1, self.empty - 1);
        }
        if self.from == self.flows.len() {
            self.flows.clear();
            self.from = 0;
        }
    }

    /// Compacts the array: drops empty places, and those of taken flows and of all that do not `stay`.
    #[inline(never)]
    pub(super) fn retain(&mut self, mut stays: impl FnMut(&Entry) -> bool) {
        self.flows.drain(..self.from);
        self.flows.retain(|entry| entry.timer != NIL && stays(entry));
        (self.from, self.empty) = (0, 0);
    }
}

/// Up to 16, insertion sort is done before the library's sort has begun.
const MOST_INSERTED: usize = 16;
/// For the few flows of a small queue.
const LEAST_ROOM: usize = 16;
