//! A 4-ary heap in which each timer knows its position, as one writes a heap with cancelling. No order among equal
//! times, no slack, no counts.

use super::slots::{Handle, Slots};
use crate::contender::Contender;

#[derive(Default)]
pub(crate) struct Heap4 {
    entries: Vec<Entry>,
    /// Each timer with its position.
    slots: Slots<u32>,
}

#[derive(Clone, Copy)]
struct Entry {
    due: u64,
    slot: u32,
}

impl Heap4 {
    fn put(&mut self, at: usize, entry: Entry) {
        self.entries[at] = entry;
        self.slots.keep(entry.slot, at as u32);
    }

    /// Moves an entry from a gap to its place.
    fn settle(&mut self, mut at: usize, entry: Entry) {
        while at > 0 && entry.due < self.entries[(at - 1) / 4].due {
            self.put(at, self.entries[(at - 1) / 4]);
            at = (at - 1) / 4;
        }
        let len = self.entries.len();
        while let Some(least) = (4 * at + 1..len.min(4 * at + 5)).min_by_key(|&child| self.entries[child].due)
        {
            if entry.due <= self.entries[least].due {
                break;
            }
            self.put(at, self.entries[least]);
            at = least;
        }
        self.put(at, entry);
    }

    /// Removes the entry at a position, and returns its timer's number.
    fn remove(&mut self, at: usize) -> u32 {
        let index = self.entries[at].slot;
        let last = self.entries.pop().expect("there is one");
        if at < self.entries.len() {
            self.settle(at, last);
        }
        self.slots.remove(index)
    }

    /// The index of a pending timer in the heap.
    fn position(&self, handle: Handle) -> Option<usize> {
        self.slots.get(handle).map(|&position| position as usize)
    }
}

impl Contender for Heap4 {
    type Handle = Handle;

    fn new(expected: usize) -> Self {
        Heap4 { entries: Vec::with_capacity(expected), ..Heap4::default() }
    }

    fn set(&mut self, due: u64, number: u32) -> Handle {
        let handle = self.slots.insert(number);
        let entry = Entry { due, slot: handle.0 };
        self.entries.push(entry);
        self.settle(self.entries.len() - 1, entry);
        handle
    }

    fn cancel(&mut self, handle: Handle) {
        if let Some(at) = self.position(handle) {
            self.remove(at);
        }
    }

    fn rearm(&mut self, handle: Handle, due: u64, _number: u32) -> Handle {
        if let Some(at) = self.position(handle) {
            self.settle(at, Entry { due, slot: handle.0 });
        }
        handle
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        while self.entries.first().is_some_and(|first| first.due <= now) {
            fired.push(self.remove(0));
        }
    }

    fn next(&mut self) -> Option<u64> {
        self.entries.first().map(|first| first.due)
    }
}
