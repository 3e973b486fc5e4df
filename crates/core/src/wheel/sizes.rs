//! The sizes on which several parts of the wheel agree. It uses none of the parts, so that none depends on another for a
//! number.

/// The number of timers above which there is a wheel: scanning 1,024 takes a microsecond.
pub(crate) const MOST_WITHOUT_LEVELS: usize = 1_024;
/// The most timers that are sorted at once.
pub(super) const MOST_SORTED: usize = 128;
/// The number of entries of a chunk: those that fit a cache line beside its own fields.
pub(super) const CHUNK_ROOM: usize = 13;
/// With few timers the heap is the first and its children: setting or cancelling any but the first moves no
/// other.
pub(super) const HEAP_ARITY: usize = 8;
/// No chunk, no timer.
pub(crate) const NIL: u32 = u32::MAX;

/// Granules of at least 128 ns: narrower ones would only mean more slots.
pub(super) const LEAST_SHIFT: u32 = 7;
/// Granules of at most a millisecond: beyond that, a slot is not small.
pub(super) const MOST_SHIFT: u32 = 20;
/// A granule is at most 32 times as wide as necessary: timers set for less ahead go to a heap.
pub(super) const MORE_SHIFT: u32 = 5;
