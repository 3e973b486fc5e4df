//! An 8-ary heap in which each record knows its place: timers set for a time below the horizon, and unordered
//! ones that came out of a slot.
//!
//! A slot of the wheel is unordered, and any number of timers may be set for "now": those that the
//! [run](super::front) cannot hold are here.

use alloc::vec::Vec;

use super::record::{HEAP, Location, Records};
use super::sizes::HEAP_ARITY;
use super::terms::{Entry, Key};

#[derive(Debug)]
pub(super) struct Heap {
    entries: Vec<Entry>,
}

impl Heap {
    pub(super) const fn new() -> Self {
        Heap { entries: Vec::new() }
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.first()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[cfg(test)]
    pub(super) fn at(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)
    }

    /// Adds an entry, in O(log n), and returns its place.
    #[inline(always)]
    pub(super) fn push<E>(&mut self, entry: Entry, records: &mut Records<E>) -> Location {
        let at = self.entries.len();
        self.entries.push(entry);
        if at > 0 && entry.is_before(&self.entries[parent(at)]) {
            self.sift_up(at, entry, records);
            return records[entry.timer].place;
        }
        Location::new(HEAP, at)
    }

    /// Removes the entry at a place: O(log n); O(1) if it is not the first of a few.
    #[inline]
    pub(super) fn remove<E>(&mut self, at: usize, records: &mut Records<E>) {
        let Some(last) = self.entries.pop() else { return };
        let len = self.entries.len();
        if at < len {
            if at > 0 && parent(at) == parent(len) {
                self.put(at, last, records);
            } else {
                self.replace(at, last, records);
            }
        }
    }

    /// Moves an entry without children to a later time, if it is not the first; the others move when they
    /// come first. The first may be the least of all, and the later timers are checked when it has gone.
    #[inline]
    pub(super) fn put_off(&mut self, at: usize, Key { due, sequence }: Key) {
        let is_last = at > 0 && HEAP_ARITY * at + 1 >= self.entries.len();
        if let Some(entry) = self.entries.get_mut(at).filter(|_| is_last) {
            (entry.due, entry.sequence) = (due, sequence);
        }
    }

    /// Puts an entry in the place of another: O(log n).
    #[inline(never)]
    fn replace<E>(&mut self, at: usize, entry: Entry, records: &mut Records<E>) {
        if at > 0 && entry.is_before(&self.entries[parent(at)]) {
            self.sift_up(at, entry, records);
        } else {
            self.sift_down(at, entry, records);
        }
    }

    /// Returns the lesser of `best` and the least value of `of` over all timers, which is not before an entry's due time;
    /// after `most` calls, that or a time before it. Skips timers that are due after the best found, and those below them.
    pub(super) fn least(&self, mut best: u64, mut most: usize, of: impl Fn(u32) -> u64) -> u64 {
        self.least_below(0, &mut best, &mut most, &of);
        best
    }

    /// [`least`](Self::least) of an entry and all below it. Recurses as deep as the heap: at most 16 levels.
    fn least_below(&self, at: usize, best: &mut u64, left: &mut usize, of: &impl Fn(u32) -> u64) {
        let Some(entry) = self.entries.get(at).filter(|entry| entry.due < *best) else { return };
        if *left == 0 {
            *best = entry.due;
            return;
        }
        *left -= 1;
        *best = of(entry.timer).min(*best);
        (1..=HEAP_ARITY).for_each(|child| self.least_below(HEAP_ARITY * at + child, best, left, of));
    }

    pub(super) fn reserve(&mut self, entries: usize) {
        self.entries.reserve(entries);
    }

    pub(super) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Holds the rising entry instead of swapping it: each entry that it passes is written once.
    #[inline(never)]
    fn sift_up<E>(&mut self, mut at: usize, entry: Entry, records: &mut Records<E>) {
        while at > 0 {
            let parent = parent(at);
            let above = self.entries[parent];
            if !entry.is_before(&above) {
                break;
            }
            self.put(at, above, records);
            at = parent;
        }
        self.put(at, entry, records);
    }

    #[inline]
    fn sift_down<E>(&mut self, mut at: usize, entry: Entry, records: &mut Records<E>) {
        loop {
            let first = HEAP_ARITY * at + 1;
            let Some(children) = self.entries.get(first..self.entries.len().min(first + HEAP_ARITY)) else {
                break;
            };
            let Some((mut least, rest)) = children.split_first() else { break };
            let mut which = first;
            for (child, next) in rest.iter().zip(first + 1..) {
                if child.is_before(least) {
                    (least, which) = (child, next);
                }
            }
            if !least.is_before(&entry) {
                break;
            }
            let least = *least;
            self.put(at, least, records);
            at = which;
        }
        self.put(at, entry, records);
    }

    #[inline]
    fn put<E>(&mut self, at: usize, entry: Entry, records: &mut Records<E>) {
        self.entries[at] = entry;
        records[entry.timer].place = Location::new(HEAP, at);
    }
}

/// The place above one that is not the first.
#[inline]
fn parent(at: usize) -> usize {
    (at - 1) / HEAP_ARITY
}
