//! Slots and handles: the storage of an event, a flow or a source, and the [`TimerId`] that names it.
//!
//! A handle is a slot's index and generation. The generation changes each time the slot is emptied,
//! so a stale handle finds nothing instead of another event. A 32-bit generation would wrap after 4 × 10⁹
//! uses of one slot; the slot is retired before that, at the cost of its few bytes (Costello & Varghese keep
//! a similar count in their handles).

use alloc::vec::Vec;
use core::num::NonZeroU32;

/// Names one scheduled event. It never names another one, however long it is kept.
///
/// Using it on a [`SoftTimers`](crate::SoftTimers) other than the one it came from is a mistake:
/// debug builds panic, release builds treat it as any other index and generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TimerId {
    index: u32,
    generation: NonZeroU32,
    #[cfg(debug_assertions)]
    instance: u32,
}

/// Values with an index and a generation each: the one slab of these crates.
///
/// Generations are kept apart from the contents: a handle is checked in a dense array, and the contents may
/// be aligned to cache lines.
#[derive(Clone, Debug)]
pub struct Slots<E> {
    generations: Vec<NonZeroU32>,
    events: Vec<Option<E>>,
    free: Vec<u32>,
    first_generation: NonZeroU32,
    instance: Instance,
}

impl TimerId {
    #[inline]
    pub(crate) fn new(index: u32, generation: NonZeroU32, instance: &Instance) -> Self {
        let _ = instance;
        TimerId {
            index,
            generation,
            #[cfg(debug_assertions)]
            instance: instance.0,
        }
    }

    /// Returns the handle as a number, for callers that cannot keep a Rust value: the generation above the
    /// index. It is never zero. [`Seal`](crate::Seal) turns it into a number that only one set can read;
    /// [`SoftTimers::id_of`](crate::SoftTimers::id_of) reverses it.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation.get()) << 32 | u64::from(self.index)
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    #[inline]
    pub(crate) fn generation(self) -> NonZeroU32 {
        self.generation
    }
}

impl<E> Slots<E> {
    /// Creates an empty set, whose slots begin with this generation.
    pub fn new(first_generation: NonZeroU32) -> Self {
        Slots {
            generations: Vec::new(),
            events: Vec::new(),
            free: Vec::new(),
            first_generation,
            instance: Instance::new(),
        }
    }

    /// Puts `event` into a free slot, and returns its handle and index: O(1) amortised.
    pub fn insert(&mut self, event: E) -> (TimerId, u32) {
        self.insert_with(|_| event)
    }

    /// Puts what `make` returns for its handle into a free slot, and returns its handle and index.
    pub fn insert_with(&mut self, make: impl FnOnce(TimerId) -> E) -> (TimerId, u32) {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = u32::try_from(self.events.len()).ok().filter(|&index| index != u32::MAX);
            let index = index.expect("more than 4,294,967,294 slots in use or retired");
            self.generations.push(self.first_generation);
            self.events.push(None);
            index
        });
        let id = self.id(index);
        self.events[index as usize] = Some(make(id));
        (id, index)
    }

    /// Returns the slot that `id` names, while its event is pending.
    #[inline]
    pub fn find(&self, id: TimerId) -> Option<u32> {
        self.instance.check(id);
        self.holds(id.index, id.generation).then_some(id.index)
    }

    /// Returns the slot that `id` names; for a handle that was never returned, it may be empty. For callers
    /// that check their own arrays: this does not read the slot's contents.
    #[inline]
    pub fn find_index(&self, id: TimerId) -> Option<u32> {
        self.instance.check(id);
        (self.generations.get(id.index as usize) == Some(&id.generation)).then_some(id.index)
    }

    /// Returns whether the slot still holds its content of this generation.
    #[inline]
    pub fn holds(&self, index: u32, generation: NonZeroU32) -> bool {
        self.generations.get(index as usize) == Some(&generation) && self.at(index).is_some()
    }

    /// Returns the content of a slot, if it has any.
    #[inline]
    pub fn at(&self, index: u32) -> Option<&E> {
        self.events.get(index as usize)?.as_ref()
    }

    /// Returns the content of a slot, if it has any.
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> Option<&mut E> {
        self.events.get_mut(index as usize)?.as_mut()
    }

    /// Returns the handle with these bits, whether or not it names anything; `None` if no handle has them.
    #[inline]
    pub fn id_of(&self, bits: u64) -> Option<TimerId> {
        self.instance.id_of(bits)
    }

    /// Returns the handle of a slot's present content.
    #[inline]
    pub fn id(&self, index: u32) -> TimerId {
        TimerId::new(index, self.generations[index as usize], &self.instance)
    }

    /// Empties a slot that holds an event; its handle is dead afterwards.
    pub fn take(&mut self, index: u32) -> Option<(TimerId, E)> {
        let id = self.id(index);
        let event = self.events[index as usize].take()?;
        // The last generation is used once and then the slot is never handed out again.
        if let Some(next) = id.generation.checked_add(1) {
            self.generations[index as usize] = next;
            self.free.push(index);
        }
        Some((id, event))
    }

    /// Returns the generation of an existing slot.
    #[inline]
    pub fn generation(&self, index: u32) -> NonZeroU32 {
        self.generations[index as usize]
    }

    /// Returns the number of slots, including empty ones: all indices are below this.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.events.len() as u32
    }

    /// Returns the contents in order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.events.iter().flatten()
    }

    /// Returns the contents in order of their indices.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.events.iter_mut().flatten()
    }
}

/// The set that a handle is from. Debug builds number the sets, release builds do not.
#[derive(Clone, Debug)]
pub(crate) struct Instance(#[cfg(debug_assertions)] u32);

impl Instance {
    pub(crate) fn new() -> Self {
        #[cfg(debug_assertions)]
        {
            use core::sync::atomic::{AtomicU32, Ordering};
            static NEXT: AtomicU32 = AtomicU32::new(0);
            Instance(NEXT.fetch_add(1, Ordering::Relaxed))
        }
        #[cfg(not(debug_assertions))]
        Instance()
    }

    /// Reverses [`TimerId::to_bits`], for a handle of this set.
    #[inline]
    pub(crate) fn id_of(&self, bits: u64) -> Option<TimerId> {
        let generation = NonZeroU32::new((bits >> 32) as u32)?;
        Some(TimerId::new(bits as u32, generation, self))
    }

    /// # Panics
    /// In debug builds, if the handle is from another set.
    #[inline]
    pub(crate) fn check(&self, id: TimerId) {
        let _ = id;
        #[cfg(debug_assertions)]
        assert_eq!(id.instance, self.0, "a handle was used on a set that it does not belong to");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_retired_before_its_generation_wraps() {
        let last = NonZeroU32::MAX;
        let mut slots = Slots::new(NonZeroU32::new(u32::MAX - 1).unwrap());
        let (first, _) = slots.insert('a');
        assert_eq!(slots.take(first.index).unwrap().1, 'a');
        let (second, _) = slots.insert('b');
        assert_eq!((second.index, second.generation), (first.index, last));
        slots.take(second.index);
        let (third, _) = slots.insert('c');
        assert_ne!(third.index, first.index, "the slot came back after its last generation");
        assert_eq!([first, second].map(|id| slots.find(id)), [None, None]);
        assert_eq!(slots.find(third), Some(third.index));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "does not belong to")]
    fn a_handle_of_another_instance_is_caught() {
        let mut one = Slots::new(NonZeroU32::MIN);
        let two = Slots::<char>::new(NonZeroU32::MIN);
        let (id, _) = one.insert('a');
        two.find(id);
    }
}
