//! The ordered store behind [`DepartureQueue`](crate::DepartureQueue): a binary heap that knows where each
//! slot sits, so that any of them can be moved or removed.
//!
//! ```text
//!   entries   (key, slot)   0: (12, s7)          position[s7] = 0
//!                          ╱           ╲         position[s2] = 1
//!                  1: (40, s2)      2: (15, s9)  position[s9] = 2
//! ```
//!
//! It is kept deliberately plain: [`KeyedTimers`](crate::KeyedTimers) can take this file's place.

use alloc::vec::Vec;

/// A min-heap of slots ordered by `K`. Keys of equal order come out in no particular order, so
/// callers that want FIFO put a sequence number into the key.
#[derive(Debug)]
pub(crate) struct IndexedHeap<K> {
    entries: Vec<(K, u32)>,
    position: Vec<u32>,
}

impl<K: Copy + Ord> IndexedHeap<K> {
    pub(crate) const fn new() -> Self {
        IndexedHeap { entries: Vec::new(), position: Vec::new() }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The least key and its slot: O(1).
    #[inline]
    pub(crate) fn peek(&self) -> Option<(K, u32)> {
        self.entries.first().copied()
    }

    /// The key of `slot`, if it is stored: O(1).
    #[cfg(test)]
    pub(crate) fn key(&self, slot: u32) -> Option<K> {
        self.find(slot).map(|at| self.entries[at].0)
    }

    /// Stores `slot` under `key`, moving it if it is already stored: O(log n).
    pub(crate) fn set(&mut self, slot: u32, key: K) {
        match self.find(slot) {
            Some(at) => {
                self.entries[at].0 = key;
                self.settle(at);
            }
            None => {
                if self.position.len() <= slot as usize {
                    self.position.resize(slot as usize + 1, ABSENT);
                }
                let at = self.entries.len();
                self.entries.push((key, slot));
                self.position[slot as usize] = at as u32;
                self.sift_up(at);
            }
        }
    }

    /// Removes `slot` if it is stored: O(log n).
    pub(crate) fn remove(&mut self, slot: u32) -> Option<K> {
        let at = self.find(slot)?;
        let (key, _) = self.entries.swap_remove(at);
        self.position[slot as usize] = ABSENT;
        if at < self.entries.len() {
            self.position[self.entries[at].1 as usize] = at as u32;
            self.settle(at);
        }
        Some(key)
    }

    fn find(&self, slot: u32) -> Option<usize> {
        match self.position.get(slot as usize) {
            Some(&at) if at != ABSENT => Some(at as usize),
            _ => None,
        }
    }

    fn settle(&mut self, at: usize) {
        let at = self.sift_up(at);
        self.sift_down(at);
    }

    // An entry on its way is held, not swapped: each that it passes is written once.

    fn sift_up(&mut self, mut at: usize) -> usize {
        let entry = self.entries[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.entries[parent].0 <= entry.0 {
                break;
            }
            self.put(at, self.entries[parent]);
            at = parent;
        }
        self.put(at, entry);
        at
    }

    fn sift_down(&mut self, mut at: usize) {
        let entry = self.entries[at];
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(mut least) = self.entries.get(left).map(|_| left) else { break };
            if self.entries.get(right).is_some_and(|entry| entry.0 < self.entries[left].0) {
                least = right;
            }
            if entry.0 <= self.entries[least].0 {
                break;
            }
            self.put(at, self.entries[least]);
            at = least;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: (K, u32)) {
        self.entries[at] = entry;
        self.position[entry.1 as usize] = at as u32;
    }
}

/// No slot has this position: the heap would need 2³² entries first, and slots are `u32`.
const ABSENT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a map: after every operation the least key, every key and the length agree.
        #[test]
        fn agrees_with_a_map(ops in prop::collection::vec((0u32..40, prop::option::of(0u64..100)), 1..200)) {
            let mut heap = IndexedHeap::new();
            let mut model = BTreeMap::new();
            for (slot, key) in ops {
                match key {
                    Some(key) => { heap.set(slot, key); model.insert(slot, key); }
                    None => prop_assert_eq!(heap.remove(slot), model.remove(&slot)),
                }
                prop_assert_eq!(heap.len(), model.len());
                prop_assert_eq!(heap.peek().map(|(key, _)| key), model.values().min().copied());
                for slot in 0..40 {
                    prop_assert_eq!(heap.key(slot), model.get(&slot).copied());
                }
            }
        }
    }
}
