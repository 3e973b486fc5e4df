//! A binary heap that each record knows its place in: what is due very soon, and everything while that is
//! little.
//!
//! No wheel is as quick as a heap of a few timers, and a slot of the wheel says nothing about the order
//! within it. So the wheel has a heap in front ([`front`](super::front)); below some dozens of timers there is
//! nothing else.

use alloc::vec::Vec;

use super::record::{Place, Records};

/// What decides the order, and the record that has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Entry {
    pub(super) due: u64,
    pub(super) sequence: u64,
    pub(super) timer: u32,
}

impl Entry {
    #[inline]
    pub(super) fn is_before(&self, other: &Entry) -> bool {
        (self.due, self.sequence) < (other.due, other.sequence)
    }
}

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

    /// In no particular order.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// O(log n).
    #[inline]
    pub(super) fn push(&mut self, entry: Entry, records: &mut Records) {
        self.entries.push(entry);
        self.sift_up(self.entries.len() - 1, entry, records);
    }

    /// Removes the entry at a place: O(log n).
    #[inline]
    pub(super) fn remove(&mut self, at: usize, records: &mut Records) {
        let Some(last) = self.entries.pop() else { return };
        if at < self.entries.len() {
            if at > 0 && last.is_before(&self.entries[(at - 1) / 2]) {
                self.sift_up(at, last, records);
            } else {
                self.sift_down(at, last, records);
            }
        }
    }

    /// Takes all entries out; their records do not know it yet.
    pub(super) fn take(&mut self) -> Vec<Entry> {
        core::mem::take(&mut self.entries)
    }

    /// Takes back the memory of what was [taken](Self::take).
    pub(super) fn reuse(&mut self, mut taken: Vec<Entry>) {
        taken.clear();
        taken.extend_from_slice(&self.entries);
        self.entries = taken;
    }

    // An entry on its way is held, not swapped: each that it passes is written once.

    fn sift_up(&mut self, mut at: usize, entry: Entry, records: &mut Records) {
        while at > 0 {
            let parent = (at - 1) / 2;
            let above = self.entries[parent];
            if !entry.is_before(&above) {
                break;
            }
            self.put(at, above, records);
            at = parent;
        }
        self.put(at, entry, records);
    }

    fn sift_down(&mut self, mut at: usize, entry: Entry, records: &mut Records) {
        loop {
            let left = 2 * at + 1;
            let Some(&(mut below)) = self.entries.get(left) else { break };
            let mut least = left;
            if let Some(&right) = self.entries.get(left + 1).filter(|right| right.is_before(&below)) {
                (least, below) = (left + 1, right);
            }
            if !below.is_before(&entry) {
                break;
            }
            self.put(at, below, records);
            at = least;
        }
        self.put(at, entry, records);
    }

    #[inline]
    fn put(&mut self, at: usize, entry: Entry, records: &mut Records) {
        self.entries[at] = entry;
        records[entry.timer].place = Place::in_heap(at);
    }
}
