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
//!
//! While a received frame is shown to a handler, its output may claim the chunk and so avoid a copy:
//! [`Umem::show`], [`Umem::claim`], [`Umem::settled`].

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

/// A frame that was claimed while it was shown. There is only one value per frame.
#[derive(PartialEq, Eq, Debug)]
pub struct Claim {
    chunk: u32,
    brand: u32,
    /// The frame's offset in its chunk, in bytes.
    pub offset: u32,
    /// The frame's length in bytes.
    pub length: u32,
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

    /// Shows `length` bytes of a chunk from `offset` on. Returns the chunk unless it was claimed meanwhile;
    /// the outer `None` if the bytes are not inside.
    pub fn show(
        &self,
        chunk: Chunk,
        offset: usize,
        length: usize,
        look: impl FnOnce(&mut [u8]),
    ) -> Result<Option<Chunk>, Chunk> {
        if self.place(&chunk, offset, length).is_none() {
            return Err(chunk);
        }
        self.holder(&chunk).store(SHOWN, Ordering::Relaxed);
        let mut shown = Shown { umem: self, chunk: Some(chunk) };
        if let Some(bytes) = shown.chunk.as_mut().and_then(|chunk| self.bytes(chunk, offset, length)) {
            look(bytes);
        }
        Ok(shown.end())
    }

    /// Claims the chunk of `bytes`, if they are part of a frame that is being shown and not claimed yet.
    /// [`settled`](Self::settled) returns it once it is no longer shown.
    pub fn claim(&self, bytes: &[u8]) -> Option<Claim> {
        if bytes.is_empty() {
            // The end of one chunk is the beginning of the next.
            return None;
        }
        let at = usize::try_from((bytes.as_ptr() as u64).checked_sub(self.address())?).ok()?;
        let (index, offset) = (at / self.chunk_size, at % self.chunk_size);
        // A frame in here begins and ends in one chunk, because these are the bytes of a `Chunk`.
        let holder = self.holders.get(index)?;
        holder.compare_exchange(SHOWN, CLAIMED, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(Claim {
            chunk: index as u32,
            brand: self.brand,
            offset: offset as u32,
            length: bytes.len() as u32,
        })
    }

    /// Returns the chunk of a claim and the frame's position in it; or the claim, as long as it is still
    /// shown.
    pub fn settled(&self, claim: Claim) -> Result<(Chunk, u32, u32), Claim> {
        assert_eq!(claim.brand, self.brand, "a claim of another memory");
        let holder = &self.holders[claim.chunk as usize];
        // Acquire: see the writes of the thread that showed it. No other code takes it, because there is one
        // claim, and it ends here.
        if holder.load(Ordering::Acquire) != PASSED {
            return Err(claim);
        }
        holder.store(OURS, Ordering::Relaxed);
        Ok((Chunk { index: claim.chunk, brand: self.brand }, claim.offset, claim.length))
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

/// A chunk while it is shown; its drop releases it even if the handler panics.
struct Shown<'a> {
    umem: &'a Umem,
    chunk: Option<Chunk>,
}

impl Shown<'_> {
    fn end(&mut self) -> Option<Chunk> {
        let chunk = self.chunk.take()?;
        let holder = self.umem.holder(&chunk);
        // It can no longer be claimed: the bytes are not borrowed now.
        if holder.load(Ordering::Relaxed) == CLAIMED {
            holder.store(PASSED, Ordering::Release);
            return None;
        }
        holder.store(OURS, Ordering::Relaxed);
        Some(chunk)
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        let left = self.end();
        self.umem.give(left);
    }
}

/// A [`Chunk`] exists for it.
const OURS: u16 = 0;
/// A [`Chunk`] exists, and it is shown to a handler.
const SHOWN: u16 = 1;
/// A [`Chunk`] exists, it is shown to a handler, and an output has claimed it.
const CLAIMED: u16 = 2;
/// No [`Chunk`] exists: the output will make it.
const PASSED: u16 = 3;
const FIRST_RING: u16 = 4;

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

    #[test]
    fn a_claim_is_settled_when_it_is_not_shown_any_more() {
        let umem = Umem::new(2, SIZE).unwrap();
        let mut claim = None;
        let kept = umem.show(one(&umem), 256, 60, |bytes| {
            bytes[4] = 7;
            let first = umem.claim(&bytes[4..]).unwrap();
            assert_eq!(umem.claim(bytes), None, "claimed");
            claim = Some(umem.settled(first).expect_err("it is shown"));
        });
        assert_eq!(kept, Ok(None));
        let (mut chunk, offset, length) = umem.settled(claim.unwrap()).unwrap();
        assert_eq!((offset, length), (260, 56));
        assert_eq!(umem.bytes(&mut chunk, 260, 1), Some(&mut [7][..]));
        // It is not claimed, or the claimed bytes are elsewhere.
        let kept = umem.show(chunk, 0, 8, |_| assert_eq!(umem.claim(&[1, 2, 3]), None));
        assert!(matches!(kept, Ok(Some(_))));
        assert!(umem.show(one(&umem), SIZE, 1, |_| unreachable!()).is_err());
    }

    #[test]
    fn a_panic_loses_no_chunk() {
        let umem = Umem::new(1, SIZE).unwrap();
        let looks =
            std::panic::AssertUnwindSafe(|| _ = umem.show(one(&umem), 0, 8, |_| panic!("a handler's")));
        assert!(std::panic::catch_unwind(looks).is_err());
        let chunk = one(&umem);
        let mut claim = None;
        let looks = std::panic::AssertUnwindSafe(|| {
            _ = umem.show(chunk, 0, 8, |bytes| {
                claim = umem.claim(bytes);
                panic!("a handler's");
            });
        });
        assert!(std::panic::catch_unwind(looks).is_err());
        assert!(umem.settled(claim.unwrap()).is_ok());
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
