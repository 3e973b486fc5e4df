//! The memory that AF_XDP sockets and the kernel share, in chunks of one frame each, and the owner of each
//! chunk.
//!
//! ```text
//!            lend ─▶ fill ring ─▶ kernel ─▶ receive ring ─▶ returned
//!   Chunk ──┤                                                        ├──▶ Chunk
//!            lend ─▶ send ring ─▶ kernel ─▶ completion ──▶ returned
//! ```
//!
//! A [`Chunk`] is the right to touch that memory; it can neither be copied nor made up. Lending it to a ring
//! consumes it, and only an address that was lent to the same ring makes another. So an address that the
//! kernel returns twice, invents, or that lies outside is ignored, and no frame ever has two owners.

use std::io;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::mapping::Mapping;

/// Memory for frames, in chunks of one size.
#[derive(Debug)]
pub struct Umem {
    memory: Mapping,
    chunk_size: usize,
    /// The owner of each chunk.
    holders: Box<[AtomicU16]>,
    free: Mutex<Vec<Chunk>>,
    borrowers: AtomicU16,
    /// Distinguishes the chunks of several memories.
    brand: u32,
}

/// The exclusive right to a chunk.
#[derive(PartialEq, Eq, Debug)]
pub struct Chunk {
    index: u32,
    brand: u32,
}

/// A ring to which chunks are lent. There is only one value per ring, so that only its owner gets them back.
#[derive(PartialEq, Eq, Debug)]
pub struct Borrower {
    number: u16,
    brand: u32,
}

// SAFETY: the rings' counters are not in this memory, and its bytes are accessed only through a `Chunk`, of
// which there is one each.
unsafe impl Sync for Umem {}

impl Umem {
    /// Creates `chunks` chunks, each of `chunk_size` bytes: a power of two, at most a page.
    pub fn new(chunks: u32, chunk_size: usize) -> io::Result<Self> {
        static BRANDS: AtomicU32 = AtomicU32::new(0);
        let brand = BRANDS.fetch_add(1, Ordering::Relaxed);
        // The last one is taken first.
        let free = (0..chunks).rev().map(|index| Chunk { index, brand }).collect();
        Ok(Umem {
            memory: Mapping::untouched(chunks as usize * chunk_size)?,
            chunk_size,
            holders: (0..chunks).map(|_| AtomicU16::new(OURS)).collect(),
            free: Mutex::new(free),
            borrowers: AtomicU16::new(FIRST_RING),
            brand,
        })
    }

    /// Returns the address, for the kernel.
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    /// The length of each chunk.
    pub fn chunk_size(&self) -> usize {
        self.chunk_size
    }

    /// Takes up to `most` free chunks, the most recently used first.
    pub fn take(&self, most: usize, chunks: &mut Vec<Chunk>) {
        let mut free = self.free();
        let rest = free.len().saturating_sub(most);
        chunks.extend(free.drain(rest..));
    }

    /// Returns chunks to the pool.
    pub fn give(&self, chunks: impl IntoIterator<Item = Chunk>) {
        self.free().extend(chunks);
    }

    /// Returns the `length` bytes of a chunk from `offset` on; `None` if they are not inside.
    pub fn bytes<'a>(&'a self, chunk: &'a mut Chunk, offset: usize, length: usize) -> Option<&'a mut [u8]> {
        let begin = self.place(chunk, offset, length)?;
        // SAFETY: the bytes lie inside the mapping, as `range` has checked again; they are initialised,
        // because the mapping began as zeroes; and they have no other user as long as the chunk, of which
        // there is only this one, is borrowed.
        Some(unsafe { std::slice::from_raw_parts_mut(self.memory.range(begin, length), length) })
    }

    /// Makes a ring to which chunks can be lent.
    ///
    /// # Panics
    /// If there are more than 65,000.
    pub fn borrower(&self) -> Borrower {
        let number = self.borrowers.fetch_add(1, Ordering::Relaxed);
        assert!((FIRST_RING..65_000).contains(&number), "too many rings");
        Borrower { number, brand: self.brand }
    }

    /// Lends a chunk to the kernel, by a ring. Returns its address in this memory.
    pub fn lend(&self, chunk: Chunk, to: &Borrower) -> u64 {
        assert_eq!(to.brand, self.brand, "a ring of another memory");
        self.holder(&chunk).store(to.number, Ordering::Relaxed);
        u64::from(chunk.index) * self.chunk_size as u64
    }

    /// Takes back a chunk that the kernel has finished with, and the offset of `address` in it; `None` if it
    /// was not lent to this ring.
    pub fn returned(&self, address: u64, by: &mut Borrower) -> Option<(Chunk, usize)> {
        assert_eq!(by.brand, self.brand, "a ring of another memory");
        let index = u32::try_from(address / self.chunk_size as u64).ok()?;
        let holder = self.holders.get(index as usize)?;
        // No other code takes chunks of this ring: there is one borrower, and it is borrowed here.
        if holder.load(Ordering::Relaxed) != by.number {
            return None;
        }
        holder.store(OURS, Ordering::Relaxed);
        Some((Chunk { index, brand: self.brand }, (address % self.chunk_size as u64) as usize))
    }

    /// Returns the offset of such bytes in the memory, if they are inside the chunk.
    fn place(&self, chunk: &Chunk, offset: usize, length: usize) -> Option<usize> {
        assert_eq!(chunk.brand, self.brand, "a chunk of another memory");
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.chunk_size);
        inside.then_some(chunk.index as usize * self.chunk_size + offset)
    }

    fn holder(&self, chunk: &Chunk) -> &AtomicU16 {
        assert_eq!(chunk.brand, self.brand, "a chunk of another memory");
        &self.holders[chunk.index as usize]
    }

    fn free(&self) -> MutexGuard<'_, Vec<Chunk>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A [`Chunk`] exists for it.
const OURS: u16 = 0;
const FIRST_RING: u16 = 1;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 2_048;

    fn one(umem: &Umem) -> Chunk {
        let mut chunks = Vec::new();
        umem.take(1, &mut chunks);
        chunks.pop().unwrap()
    }

    #[test]
    fn what_was_not_lent_there_is_not_returned() {
        let umem = Umem::new(4, SIZE).unwrap();
        let [mut fill, mut send] = [umem.borrower(), umem.borrower()];
        let address = umem.lend(one(&umem), &fill);
        for wild in [address + SIZE as u64, u64::MAX, 4 * SIZE as u64, u64::MAX - SIZE as u64] {
            assert_eq!(umem.returned(wild, &mut fill), None, "{wild}");
        }
        assert_eq!(umem.returned(address, &mut send), None);
        let (chunk, offset) = umem.returned(address + 256, &mut fill).unwrap();
        assert_eq!(offset, 256);
        assert_eq!(umem.returned(address, &mut fill), None, "once");
        umem.give([chunk]);
    }

    #[test]
    fn bytes_are_those_of_the_chunk() {
        let umem = Umem::new(2, SIZE).unwrap();
        let (mut a, mut b) = (one(&umem), one(&umem));
        umem.bytes(&mut a, 0, SIZE).unwrap().fill(1);
        umem.bytes(&mut b, 0, SIZE).unwrap().fill(2);
        assert!(umem.bytes(&mut a, 0, SIZE).unwrap().iter().all(|&byte| byte == 1));
        for (offset, length) in [(1, SIZE), (SIZE, 1), (SIZE + 1, 0), (usize::MAX, 1), (0, usize::MAX)] {
            assert!(umem.bytes(&mut a, offset, length).is_none(), "{length} at {offset}");
        }
        assert!(umem.bytes(&mut a, SIZE, 0).is_some());
    }

    #[test]
    #[should_panic(expected = "another memory")]
    fn a_chunk_opens_no_other_memory() {
        let (ours, other) = (Umem::new(1, SIZE).unwrap(), Umem::new(1, SIZE).unwrap());
        let _ = ours.bytes(&mut one(&other), 0, 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Compared with a table of owners, while the kernel returns arbitrary addresses.
        #[test]
        fn every_chunk_is_in_one_hand(steps in prop::collection::vec((0..4u8, any::<u16>()), 1..200)) {
            const CHUNKS: u32 = 8;
            let umem = Umem::new(CHUNKS, SIZE).unwrap();
            let mut rings = [umem.borrower(), umem.borrower()];
            let (mut ours, mut lent) = (Vec::new(), HashMap::new());
            for (step, at) in steps {
                let ring = usize::from(at & 1);
                match step {
                    0 => umem.take(1, &mut ours),
                    1 => umem.give(ours.pop()),
                    2 => {
                        if let Some(chunk) = ours.pop() {
                            let index = chunk.index;
                            let address = umem.lend(chunk, &rings[ring]);
                            prop_assert_eq!(address, u64::from(index) * SIZE as u64);
                            prop_assert_eq!(lent.insert(index, ring), None);
                        }
                    }
                    _ => {
                        // Inside, around the end, and beyond.
                        let address = u64::from(at) * 3;
                        let index = (address / SIZE as u64) as u32;
                        let expected = lent.get(&index) == Some(&ring);
                        let returned = umem.returned(address, &mut rings[ring]);
                        prop_assert_eq!(returned.is_some(), expected);
                        if let Some((chunk, offset)) = returned {
                            prop_assert_eq!((chunk.index, offset as u64), (index, address % SIZE as u64));
                            lent.remove(&index);
                            ours.push(chunk);
                        }
                    }
                }
                prop_assert_eq!(ours.len() + lent.len() + umem.free().len(), CHUNKS as usize);
            }
        }
    }
}
