//! The numbers of pending timers in reused slots, as both heaps keep them.

/// A slot and its generation: identifies one timer, and none once that is gone.
pub(crate) type Handle = (u32, u32);

/// The numbers of timers, each with a heap's data about it.
#[derive(Default)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Slot<T> {
    generation: u32,
    number: u32,
    kept: T,
}

impl<T: Default> Slots<T> {
    /// Adds a timer, and returns its handle.
    pub(crate) fn insert(&mut self, number: u32) -> Handle {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.number = number;
        (index, slot.generation)
    }

    /// Frees a slot, whose handle becomes invalid, and returns its timer's number.
    pub(crate) fn remove(&mut self, index: u32) -> u32 {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        slot.number
    }

    /// Returns the data of a timer; `None` if the handle is no longer valid.
    pub(crate) fn get(&self, (index, generation): Handle) -> Option<&T> {
        let slot = &self.slots[index as usize];
        (slot.generation == generation).then_some(&slot.kept)
    }

    /// Replaces the data in a slot.
    pub(crate) fn keep(&mut self, index: u32, kept: T) {
        self.slots[index as usize].kept = kept;
    }
}
