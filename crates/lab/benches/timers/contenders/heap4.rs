//! A 4-ary heap in which each timer knows its position: what one writes who wants cancelling in a heap. No order among
//! equal times, no slack, no counts.

use crate::contender::Contender;

#[derive(Default)]
pub(crate) struct Heap4 {
    entries: Vec<Entry>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Entry {
    due: u64,
    slot: u32,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    number: u32,
    position: u32,
}

impl Heap4 {
    fn put(&mut self, at: usize, entry: Entry) {
        self.entries[at] = entry;
        self.slots[entry.slot as usize].position = at as u32;
    }

    /// Brings an entry from a gap to where it belongs.
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

    /// Takes the entry at a position out: its timer's number.
    fn remove(&mut self, at: usize) -> u32 {
        let index = self.entries[at].slot;
        let last = self.entries.pop().expect("there is one");
        if at < self.entries.len() {
            self.settle(at, last);
        }
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        slot.number
    }

    /// Where a pending timer is.
    fn position(&self, (index, generation): (u32, u32)) -> Option<usize> {
        let slot = &self.slots[index as usize];
        (slot.generation == generation).then_some(slot.position as usize)
    }
}

impl Contender for Heap4 {
    type Handle = (u32, u32);

    fn new(expected: usize) -> Self {
        Heap4 { entries: Vec::with_capacity(expected), ..Heap4::default() }
    }

    fn set(&mut self, due: u64, number: u32) -> (u32, u32) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.number = number;
        let (handle, entry) = ((index, slot.generation), Entry { due, slot: index });
        self.entries.push(entry);
        self.settle(self.entries.len() - 1, entry);
        handle
    }

    fn cancel(&mut self, handle: (u32, u32)) {
        if let Some(at) = self.position(handle) {
            self.remove(at);
        }
    }

    fn rearm(&mut self, handle: (u32, u32), due: u64, _number: u32) -> (u32, u32) {
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
