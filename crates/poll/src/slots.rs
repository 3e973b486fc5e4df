//! Storage of sources and gates: by index, with a generation that distinguishes one from its predecessors.

use alloc::vec::Vec;
use core::num::NonZeroU32;

/// Values with an index and a generation each. The generation of a slot changes when it is emptied, so a
/// stale id finds nothing; a slot whose generations are used up is not used again.
#[derive(Clone, Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<(NonZeroU32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Self {
        Slots { slots: Vec::new(), free: Vec::new() }
    }

    /// Puts a value into a free slot, and returns its index. There are at most 2³² − 1.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = u32::try_from(self.slots.len()).ok().filter(|&index| index != u32::MAX);
            let index = index.expect("more than 4,294,967,294 slots in use or retired");
            self.slots.push((NonZeroU32::MIN, None));
            index
        });
        self.slots[index as usize].1 = Some(value);
        index
    }

    pub(crate) fn take(&mut self, index: u32) -> Option<T> {
        let (generation, slot) = self.slots.get_mut(index as usize)?;
        let value = slot.take()?;
        if let Some(next) = generation.checked_add(1) {
            *generation = next;
            self.free.push(index);
        }
        Some(value)
    }

    /// Returns whether the slot still holds its value of this generation.
    #[inline]
    pub(crate) fn holds(&self, index: u32, generation: NonZeroU32) -> bool {
        self.slots.get(index as usize).is_some_and(|(held, value)| *held == generation && value.is_some())
    }

    /// Returns the generation of an existing slot.
    #[inline]
    pub(crate) fn generation(&self, index: u32) -> NonZeroU32 {
        self.slots[index as usize].0
    }

    /// Returns the number of slots, including empty ones: all indices are below this.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.1.as_ref()
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.1.as_mut()
    }

    /// The values in order of their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|(_, value)| value.as_ref())
    }

    /// The values in order of their indices.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|(_, value)| value.as_mut())
    }
}
