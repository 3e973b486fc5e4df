//! The standard library's binary heap. A cancelled timer stays until it comes up, or until half of the heap is
//! cancelled: the best that a heap without positions does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::slots::{Handle, Slots};
use crate::contender::Contender;

#[derive(Default)]
pub(crate) struct Heap {
    entries: BinaryHeap<Reverse<(u64, u32, u32)>>,
    slots: Slots<()>,
    dead: usize,
}

impl Contender for Heap {
    type Handle = Handle;

    fn new(expected: usize) -> Self {
        Heap { entries: BinaryHeap::with_capacity(expected), ..Heap::default() }
    }

    fn set(&mut self, due: u64, number: u32) -> Handle {
        let (index, generation) = self.slots.insert(number);
        self.entries.push(Reverse((due, index, generation)));
        (index, generation)
    }

    fn cancel(&mut self, handle: Handle) {
        if self.slots.get(handle).is_none() {
            return;
        }
        self.slots.remove(handle.0);
        self.dead += 1;
        if self.dead > 64 && self.dead * 2 > self.entries.len() {
            let slots = &self.slots;
            self.entries.retain(|&Reverse((_, index, generation))| slots.get((index, generation)).is_some());
            self.dead = 0;
        }
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        while let Some(&Reverse((due, index, generation))) = self.entries.peek() {
            if due > now {
                break;
            }
            self.entries.pop();
            if self.slots.get((index, generation)).is_some() {
                fired.push(self.slots.remove(index));
            } else {
                self.dead -= 1;
            }
        }
    }

    fn next(&mut self) -> Option<u64> {
        while let Some(&Reverse((due, index, generation))) = self.entries.peek() {
            if self.slots.get((index, generation)).is_some() {
                return Some(due);
            }
            self.entries.pop();
            self.dead -= 1;
        }
        None
    }
}
