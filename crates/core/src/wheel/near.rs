//! Near: the sorted timers that come next, while there are few.

use alloc::vec::Vec;

use super::record::{Entry, Location, Records};
use super::sizes::NIL;

/// Entries, filled at once and only removed: the next is the last, and a cancelled one leaves a gap, except
/// at the end.
#[derive(Debug)]
pub(super) struct Near {
    entries: Vec<Entry>,
    live: usize,
}

impl Near {
    pub(super) const fn new() -> Self {
        Near { entries: Vec::new(), live: 0 }
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.last()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.live
    }

    pub(super) fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.timer != NIL)
    }

    /// Returns the entry at a place.
    #[cfg(test)]
    pub(super) fn at(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)
    }

    /// Fills it with entries, the next last, when it is empty.
    pub(super) fn fill<E>(&mut self, entries: impl Iterator<Item = Entry>, records: &mut Records<E>) {
        self.entries.extend(entries);
        self.live = self.entries.len();
        for (entry, at) in self.entries.iter().zip(0..) {
            records[entry.timer].place = Location::in_near(at);
        }
    }

    /// Takes out the entry at a place. Returns whether it was the first.
    #[inline]
    pub(super) fn remove(&mut self, at: usize) -> bool {
        if at + 1 == self.entries.len() {
            self.drop_first();
            return true;
        }
        self.live -= 1;
        if let Some(entry) = self.entries.get_mut(at) {
            entry.timer = NIL;
        }
        false
    }

    /// Takes out the first entry. There must be one.
    #[inline]
    pub(super) fn drop_first(&mut self) {
        self.entries.pop();
        self.live -= 1;
        while self.first().is_some_and(|first| first.timer == NIL) {
            self.entries.pop();
        }
    }

    /// Takes out all.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Entry> {
        self.live = 0;
        self.entries.drain(..).filter(|entry| entry.timer != NIL)
    }

    /// The entries that it has room for.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.entries.capacity()
    }

    /// Makes room for `timers` entries, those in it and gaps included.
    pub(super) fn reserve(&mut self, timers: usize) {
        self.entries.reserve(timers.saturating_sub(self.entries.len()));
    }
}
