//! A binary heap that each record knows its place in: timers set for a time that slots have been emptied up to, and
//! what came out of a slot in no order.
//!
//! A slot of the wheel says nothing about the order within it, and how many timers are set for "now" has no limit:
//! what the [run](super::front) cannot hold is here.

use alloc::vec::Vec;

use super::record::{Entry, Place, Records};

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

    /// O(log n).
    #[inline]
    pub(super) fn push(&mut self, entry: Entry, records: &mut Records) {
        self.entries.push(entry);
        self.sift_up(self.entries.len() - 1, entry, records);
    }

    /// Removes the entry at a place: O(log n).
    ///
    /// The gap goes down to a leaf, past the lesser child each time, and the last entry up from there: it
    /// belongs near the leaves, so that most of the way costs one comparison a level.
    #[inline]
    pub(super) fn remove(&mut self, at: usize, records: &mut Records) {
        let Some(last) = self.entries.pop() else { return };
        let (mut gap, end) = (at, self.entries.len());
        if gap >= end {
            return;
        }
        while let Some(&[left, right]) =
            self.entries.get(2 * gap + 1..2 * gap + 3).and_then(|two| two.first_chunk())
        {
            let right_is_less = right.is_before(&left);
            self.put(gap, if right_is_less { right } else { left }, records);
            gap = 2 * gap + 1 + usize::from(right_is_less);
        }
        if let Some(&left) = self.entries.get(2 * gap + 1) {
            self.put(gap, left, records);
            gap = 2 * gap + 1;
        }
        self.sift_up(gap, last, records);
    }

    /// The earliest deadline of all entries. `None` if there are more than `most`.
    pub(super) fn earliest_deadline(&self, most: usize) -> Option<u64> {
        let all = || self.entries.iter().map(Entry::deadline).fold(u64::MAX, u64::min);
        (self.entries.len() <= most).then(all)
    }

    pub(super) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// The entry on its way is held, not swapped: each that it passes is written once.
    #[inline]
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

    #[inline]
    fn put(&mut self, at: usize, entry: Entry, records: &mut Records) {
        self.entries[at] = entry;
        records[entry.timer].place = Place::in_heap(at);
    }
}
