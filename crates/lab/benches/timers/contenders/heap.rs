//! The standard library's binary heap. A cancelled timer stays until it comes up, or until half of
//! the heap is such: the best that a heap without positions does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::contender::Contender;

#[derive(Default)]
pub(crate) struct Heap {
    entries: BinaryHeap<Reverse<(u64, u32, u32)>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    dead: usize,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    number: u32,
}

impl Contender for Heap {
    type Handle = (u32, u32);

    fn new(expected: usize) -> Self {
        Heap { entries: BinaryHeap::with_capacity(expected), ..Heap::default() }
    }

    fn set(&mut self, due: u64, number: u32) -> (u32, u32) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.number = number;
        self.entries.push(Reverse((due, index, slot.generation)));
        (index, slot.generation)
    }

    fn cancel(&mut self, (index, generation): (u32, u32)) {
        let slot = &mut self.slots[index as usize];
        if slot.generation != generation {
            return;
        }
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        self.dead += 1;
        if self.dead > 64 && self.dead * 2 > self.entries.len() {
            let slots = &self.slots;
            self.entries
                .retain(|Reverse((_, index, generation))| slots[*index as usize].generation == *generation);
            self.dead = 0;
        }
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        while let Some(&Reverse((due, index, generation))) = self.entries.peek() {
            if due > now {
                break;
            }
            self.entries.pop();
            let slot = &mut self.slots[index as usize];
            if slot.generation == generation {
                slot.generation = slot.generation.wrapping_add(1);
                self.free.push(index);
                fired.push(slot.number);
            } else {
                self.dead -= 1;
            }
        }
    }

    fn next(&mut self) -> Option<u64> {
        while let Some(&Reverse((due, index, generation))) = self.entries.peek() {
            if self.slots[index as usize].generation == generation {
                return Some(due);
            }
            self.entries.pop();
            self.dead -= 1;
        }
        None
    }
}
