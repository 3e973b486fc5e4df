//! The rings between a program and the kernel, each with one producer and one consumer.
//!
//! ```text
//!    consumer ──▶ ■■■■■■■■□□□□□□□□ ◀── producer      both only grow, modulo 2³²; ■ are entries to be consumed
//! ```
//!
//! A side writes or reads entries first and then moves its own counter, with release ordering; it reads the
//! other side's counter with acquire ordering, and only when its last value leaves nothing to do. The other
//! side is not trusted: a counter beyond the ring's size counts as empty, or full.

use crate::mapping::Mapping;

/// The offsets of a ring's parts in its memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) producer: usize,
    pub(crate) consumer: usize,
    pub(crate) flags: usize,
    pub(crate) entries: usize,
}

/// A frame in the shared memory: `struct xdp_desc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// The frame's offset from the beginning of the memory, in bytes.
    pub address: u64,
    /// The frame's length in bytes.
    pub length: u32,
}

/// The end of a ring that fills it. Its entries are `WORDS` words each: an address, or a [`Descriptor`].
#[derive(Debug)]
pub struct Producer<const WORDS: usize> {
    ring: Ring<WORDS>,
    /// The count of entries written, including unpublished ones.
    produced: u32,
    /// The other side's counter, as last read.
    consumed: u32,
}

/// The end of a ring that empties it, with entries as those of a [`Producer`].
#[derive(Debug)]
pub struct Consumer<const WORDS: usize> {
    ring: Ring<WORDS>,
    /// The count of entries read, including unreleased ones.
    consumed: u32,
    /// The other side's counter, as last read.
    produced: u32,
}

#[derive(Debug)]
struct Ring<const WORDS: usize> {
    memory: Mapping,
    layout: Layout,
    size: u32,
}

impl<const WORDS: usize> Producer<WORDS> {
    /// Takes over a ring of `size` entries, a power of two.
    pub(crate) fn new(memory: Mapping, layout: Layout, size: u32) -> Self {
        let ring = Ring::new(memory, layout, size);
        let produced = ring.memory.load(layout.producer);
        let consumed = ring.memory.load(layout.consumer);
        Producer { ring, produced, consumed }
    }

    /// Adds an entry, which the other side sees when it is [published](Self::publish); `false`: the ring is full.
    pub fn push(&mut self, entry: impl Into<[u64; WORDS]>) -> bool {
        if !has_room(self.consumed, self.produced, self.ring.size) {
            self.consumed = self.ring.memory.load(self.ring.layout.consumer);
            if !has_room(self.consumed, self.produced, self.ring.size) {
                return false;
            }
        }
        let at = self.ring.place(self.produced);
        for (word, value) in entry.into().into_iter().enumerate() {
            self.ring.memory.set_word(at + 8 * word, value);
        }
        self.produced = self.produced.wrapping_add(1);
        true
    }

    /// Makes added entries visible to the other side.
    pub fn publish(&mut self) {
        self.ring.memory.store(self.ring.layout.producer, self.produced);
    }

    /// Returns the number of entries that the other side has not consumed yet; at most the ring's size.
    pub fn waiting(&mut self) -> u32 {
        self.consumed = self.ring.memory.load(self.ring.layout.consumer);
        between(self.consumed, self.produced).min(self.ring.size)
    }

    /// Returns whether the other side needs a wake-up.
    pub fn wants_wake_up(&self) -> bool {
        self.ring.memory.load(self.ring.layout.flags) & NEED_WAKEUP != 0
    }
}

impl<const WORDS: usize> Consumer<WORDS> {
    /// Takes over a ring of `size` entries, a power of two.
    pub(crate) fn new(memory: Mapping, layout: Layout, size: u32) -> Self {
        let ring = Ring::new(memory, layout, size);
        let produced = ring.memory.load(layout.producer);
        let consumed = ring.memory.load(layout.consumer);
        Consumer { ring, consumed, produced }
    }

    /// Returns the oldest entry. Its place returns to the other side when it is [released](Self::release).
    pub fn pop(&mut self) -> Option<[u64; WORDS]> {
        if self.produced == self.consumed && !self.look() {
            return None;
        }
        let at = self.ring.place(self.consumed);
        let entry = std::array::from_fn(|word| self.ring.memory.word(at + 8 * word));
        self.consumed = self.consumed.wrapping_add(1);
        Some(entry)
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&mut self) -> bool {
        self.produced == self.consumed && !self.look()
    }

    /// Returns the places of taken entries to the other side.
    pub fn release(&mut self) {
        self.ring.memory.store(self.ring.layout.consumer, self.consumed);
    }

    fn look(&mut self) -> bool {
        let said = self.ring.memory.load(self.ring.layout.producer);
        self.produced = believed(self.consumed, self.produced, said, self.ring.size);
        self.produced != self.consumed
    }
}

impl<const WORDS: usize> Ring<WORDS> {
    fn new(memory: Mapping, layout: Layout, size: u32) -> Self {
        assert!(size.is_power_of_two(), "a ring of {size} entries");
        Ring { memory, layout, size }
    }

    fn place(&self, counter: u32) -> usize {
        self.layout.entries + index(counter, self.size) as usize * 8 * WORDS
    }
}

/// Returns the number of entries produced and not consumed; more than the ring holds if a counter is invalid.
const fn between(consumed: u32, produced: u32) -> u32 {
    produced.wrapping_sub(consumed)
}

/// Returns whether a producer may add an entry.
const fn has_room(consumed: u32, produced: u32, size: u32) -> bool {
    between(consumed, produced) < size
}

/// Returns the counter up to which a consumer may read, given `seen`, the last valid counter, and `said`, the
/// producer's present one.
const fn believed(consumed: u32, seen: u32, said: u32, size: u32) -> u32 {
    if between(consumed, said) <= size { said } else { seen }
}

/// Returns the index of a counter's entry.
const fn index(counter: u32, size: u32) -> u32 {
    counter & (size - 1)
}

/// Laws that hold for any counters of the other side: tests try them, and Kani proves them.
#[cfg(any(test, kani))]
mod laws {
    use super::*;

    /// No entry lies outside the ring, and no two waiting ones share a place.
    pub(super) fn entries_have_places_of_their_own(size: u32, consumed: u32, one: u32, other: u32) {
        assert!(index(one, size) < size);
        let waits = |counter| between(consumed, counter) < size;
        assert!(!waits(one) || !waits(other) || one == other || index(one, size) != index(other, size));
    }

    /// A producer with room overwrites no waiting entry, by the last counter it read.
    pub(super) fn a_producer_stays_within_the_ring(size: u32, consumed: u32, produced: u32) {
        if has_room(consumed, produced, size) {
            assert!(between(consumed, produced.wrapping_add(1)) <= size);
        }
    }

    /// A consumer never has more to read than the ring holds, if that held before.
    pub(super) fn a_consumer_stays_within_the_ring(size: u32, consumed: u32, seen: u32, said: u32) {
        if between(consumed, seen) <= size {
            assert!(between(consumed, believed(consumed, seen, said, size)) <= size);
        }
    }
}

/// Run by `cargo kani -p softtimers-linux`: for each power of two and all counters, also across their wrap.
#[cfg(kani)]
mod proofs {
    use super::laws::*;

    fn size() -> u32 {
        let bits: u32 = kani::any();
        kani::assume(bits < u32::BITS);
        1 << bits
    }

    /// The place of an entry is inside the ring, and not that of another waiting entry.
    #[kani::proof]
    fn all_entries_have_places_of_their_own() {
        entries_have_places_of_their_own(size(), kani::any(), kani::any(), kani::any());
    }

    /// No waiting entry is overwritten.
    #[kani::proof]
    fn every_producer_stays_within_the_ring() {
        a_producer_stays_within_the_ring(size(), kani::any(), kani::any());
    }

    /// Whatever the kernel's counter, no more entries are read than the ring holds.
    #[kani::proof]
    fn every_consumer_stays_within_the_ring() {
        a_consumer_stays_within_the_ring(size(), kani::any(), kani::any(), kani::any());
    }
}

impl From<[u64; 2]> for Descriptor {
    fn from([address, length]: [u64; 2]) -> Self {
        let [a, b, c, d, ..] = length.to_ne_bytes();
        Descriptor { address, length: u32::from_ne_bytes([a, b, c, d]) }
    }
}

impl From<Descriptor> for [u64; 2] {
    fn from(Descriptor { address, length }: Descriptor) -> Self {
        let [a, b, c, d] = length.to_ne_bytes();
        [address, u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0])]
    }
}

/// `XDP_RING_NEED_WAKEUP`.
const NEED_WAKEUP: u32 = 1;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::os::fd::{AsFd, OwnedFd};

    use proptest::prelude::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };
    const SIZE: u32 = 8;

    /// Memory that both ends map, as program and kernel do.
    fn memory() -> OwnedFd {
        let fd = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, 4_096).unwrap();
        fd
    }

    fn map(fd: &OwnedFd) -> Mapping {
        Mapping::shared(fd.as_fd(), 4_096, 0).unwrap()
    }

    fn ends<const WORDS: usize>(start: u32) -> (Producer<WORDS>, Consumer<WORDS>, Mapping) {
        let fd = memory();
        let raw = map(&fd);
        raw.store(LAYOUT.producer, start);
        raw.store(LAYOUT.consumer, start);
        (Producer::new(map(&fd), LAYOUT, SIZE), Consumer::new(map(&fd), LAYOUT, SIZE), raw)
    }

    #[test]
    fn nothing_is_seen_before_it_is_published_nor_free_before_it_is_released() {
        let (mut ours, mut theirs, _) = ends::<1>(u32::MAX - 3);
        for number in 0..u64::from(SIZE) {
            assert!(ours.push([number]) && theirs.is_empty());
        }
        assert!(!ours.push([99]));
        ours.publish();
        assert_eq!(ours.waiting(), SIZE);
        assert_eq!(theirs.pop(), Some([0]));
        assert!(!ours.push([99]));
        theirs.release();
        assert!(ours.push([8]) && !ours.push([99]));
        assert_eq!(ours.waiting(), SIZE);
    }

    #[test]
    fn descriptors_are_laid_out_as_the_kernel_has_them() {
        let (mut ours, _, raw) = ends::<2>(0);
        assert!(ours.push(Descriptor { address: 0x0102_0304_0506_0708, length: 0x1112_1314 }));
        assert_eq!(raw.copy_out::<8>(192), 0x0102_0304_0506_0708u64.to_ne_bytes());
        assert_eq!(raw.copy_out::<4>(200), 0x1112_1314u32.to_ne_bytes());
        assert_eq!(raw.copy_out::<4>(204), [0; 4]);
        assert!(!ours.wants_wake_up());
        raw.store(LAYOUT.flags, NEED_WAKEUP);
        assert!(ours.wants_wake_up());
    }

    #[derive(Clone, Copy, Debug)]
    enum RingOp {
        Push,
        Publish,
        Pop,
        Release,
    }

    fn steps() -> impl Strategy<Value = Vec<RingOp>> {
        let step =
            prop_oneof![Just(RingOp::Push), Just(RingOp::Publish), Just(RingOp::Pop), Just(RingOp::Release)];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Compared with a queue and two numbers, across the wrap of the counters.
        #[test]
        fn a_ring_is_a_queue(start in prop_oneof![Just(0), Just(u32::MAX - 5), any::<u32>()], steps in steps()) {
            let (mut ours, mut theirs, _) = ends::<1>(start);
            let (mut queue, mut next) = (VecDeque::<[u64; 1]>::new(), 0u64);
            let (mut hidden, mut held) = (0usize, 0usize);
            for step in steps {
                match step {
                    RingOp::Push => {
                        let room = queue.len() + held < SIZE as usize;
                        prop_assert_eq!(ours.push([next]), room);
                        if room {
                            queue.push_back([next]);
                            (next, hidden) = (next + 1, hidden + 1);
                        }
                    }
                    RingOp::Publish => {
                        ours.publish();
                        hidden = 0;
                    }
                    RingOp::Pop => {
                        let expected = (queue.len() > hidden).then(|| queue.pop_front()).flatten();
                        prop_assert_eq!(theirs.pop(), expected);
                        held += usize::from(expected.is_some());
                    }
                    RingOp::Release => {
                        theirs.release();
                        held = 0;
                    }
                }
                prop_assert_eq!(theirs.is_empty(), queue.len() == hidden);
            }
        }

        /// The laws that Kani proves of all counters, tried with many: at random, and near each other.
        #[test]
        fn the_laws_of_counters_hold(
            bits in 0..u32::BITS,
            counters in any::<[u32; 3]>(),
            near in any::<bool>(),
        ) {
            let (size, [consumed, one, other]) = (1 << bits, counters);
            let at = |counter: u32| if near { consumed.wrapping_add((u64::from(counter) % (2 * u64::from(size))) as u32) } else { counter };
            laws::entries_have_places_of_their_own(size, consumed, at(one), at(other));
            laws::a_producer_stays_within_the_ring(size, consumed, at(one));
            laws::a_consumer_stays_within_the_ring(size, consumed, at(one), at(other));
        }

        /// With arbitrary counters of the other side: no panic, no endless supply, no overrun.
        #[test]
        fn wild_counters_are_survived(start in any::<u32>(), jumps in prop::collection::vec(any::<u32>(), 1..20)) {
            let (mut ours, mut theirs, raw) = ends::<1>(start);
            for jump in jumps {
                raw.store(LAYOUT.producer, jump);
                let taken = std::iter::from_fn(|| theirs.pop()).take(3 * SIZE as usize).count();
                prop_assert!(taken <= SIZE as usize, "{}", taken);
                raw.store(LAYOUT.consumer, jump.rotate_left(7));
                let added = (0..3 * SIZE).filter(|_| ours.push([7])).count();
                prop_assert!(added <= 2 * SIZE as usize, "{}", added);
                prop_assert!(ours.waiting() <= SIZE);
            }
        }
    }
}
