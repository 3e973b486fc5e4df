//! Finds a callout by function and argument: a chained hash table of those that were set without a handle.
//!
//! The chains are doubly linked through the callouts themselves, so that an expiring callout is unlinked
//! without computing its hash, and its links show whether it is in the table at all (the paper's
//! `hash_back`). Chains, not open addressing: `untimeout` often misses, and a miss must not cost more than a
//! hit.
//!
//! ```text
//!   buckets  ┌─0─┬─1─┬─2─┬─3─┐       hash(f, a) = upper bits of f, a, mixed by multiplication
//!            └─┬─┴───┴─┬─┴───┘
//!              ▼       ▼
//!           callout ⇄ callout        newest first; a link back names a bucket or a callout
//! ```
//!
//! The paper's function takes the bits above the two lowest of `func`, exclusive-or those of `arg` and those above
//! them. It is three shifts, and it collides for today's pointers, which are aligned to 16 bytes and more and
//! lie in arrays of any stride. Two multiplications cost as little now and spread all of them, as a
//! chi-square test checks.

use alloc::boxed::Box;
use alloc::vec;

use crate::slots::Slots;

/// The heads of the chains.
#[derive(Debug)]
pub(super) struct CallHash {
    buckets: Box<[u32]>,
    len: usize,
}

/// A callout that is set.
#[derive(Debug)]
pub(super) struct Callout<C> {
    pub(super) call: C,
    pub(super) words: [usize; 2],
    pub(super) links: Links,
}

/// A callout's place in its chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Links {
    next: u32,
    back: u32,
}

impl Links {
    /// Not in the table.
    pub(super) const NONE: Links = Links { next: NONE, back: NONE };

    pub(super) fn is_linked(self) -> bool {
        self.back != NONE
    }
}

impl CallHash {
    pub(super) fn new() -> Self {
        CallHash { buckets: vec![NONE; FIRST_BUCKETS].into(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts the callout in a slot at the head of its chain. O(1) amortised: now and then the table doubles.
    pub(super) fn insert<C>(&mut self, words: [usize; 2], slot: u32, slots: &mut Slots<Callout<C>>) {
        if self.len >= self.buckets.len() && self.buckets.len() < MOST_BUCKETS {
            self.double(slots);
        }
        let bucket = self.bucket(words);
        let next = self.buckets[bucket as usize];
        self.buckets[bucket as usize] = slot;
        if let Some(next) = slots.at_mut(next) {
            next.links.back = slot;
        }
        if let Some(callout) = slots.at_mut(slot) {
            callout.links = Links { next, back: bucket | BUCKET };
        }
        self.len += 1;
    }

    /// Finds the newest callout with these words by searching one chain. Also returns how many others it
    /// passed there.
    pub(super) fn find<C>(
        &self,
        words: [usize; 2],
        slots: &Slots<Callout<C>>,
        is_it: impl Fn(&C) -> bool,
    ) -> (Option<u32>, u64) {
        let mut slot = self.buckets[self.bucket(words) as usize];
        let mut passed = 0;
        while let Some(callout) = slots.at(slot) {
            if is_it(&callout.call) {
                return (Some(slot), passed);
            }
            slot = callout.links.next;
            passed += 1;
        }
        (None, passed)
    }

    /// Unlinks a callout from its chain, if it is in one. Computes no hash.
    pub(super) fn remove<C>(&mut self, links: Links, slots: &mut Slots<Callout<C>>) {
        if !links.is_linked() {
            return;
        }
        self.point(links.back, links.next, slots);
        if let Some(next) = slots.at_mut(links.next) {
            next.links.back = links.back;
        }
        self.len -= 1;
    }

    /// Makes `slot` follow the bucket or the callout that `link` names.
    fn point<C>(&mut self, link: u32, slot: u32, slots: &mut Slots<Callout<C>>) {
        if link & BUCKET != 0 {
            self.buckets[(link & !BUCKET) as usize] = slot;
        } else if let Some(callout) = slots.at_mut(link) {
            callout.links.next = slot;
        }
    }

    fn bucket(&self, words: [usize; 2]) -> u32 {
        // There are at least two buckets, so the shift is less than 64.
        (hash(words) >> (64 - self.buckets.len().trailing_zeros())) as u32
    }

    /// Doubles the number of buckets. The upper bits are the hash, so each bucket becomes two neighbours, in
    /// the order it had.
    fn double<C>(&mut self, slots: &mut Slots<Callout<C>>) {
        let old = core::mem::take(&mut self.buckets);
        self.buckets = vec![NONE; old.len() * 2].into();
        for (bucket, &head) in old.iter().enumerate() {
            let first = bucket as u32 * 2;
            let mut ends = [first | BUCKET, (first + 1) | BUCKET];
            let mut slot = head;
            while let Some(callout) = slots.at(slot) {
                let next = callout.links.next;
                let half = (self.bucket(callout.words) - first) as usize;
                self.point(ends[half], slot, slots);
                if let Some(callout) = slots.at_mut(slot) {
                    callout.links = Links { next: NONE, back: ends[half] };
                }
                ends[half] = slot;
                slot = next;
            }
        }
    }

    /// Callouts in each chain.
    #[cfg(test)]
    pub(super) fn lengths<C>(&self, slots: &Slots<Callout<C>>) -> alloc::vec::Vec<usize> {
        let chain = |&head: &u32| {
            core::iter::successors(slots.at(head), |callout| slots.at(callout.links.next)).count()
        };
        self.buckets.iter().map(chain).collect()
    }
}

/// Hashes function and argument to 64 bits; use the upper ones.
///
/// A multiplication carries differences in the low bits into the upper ones. One alone is uneven for arrays
/// of some strides (those of 40 bytes among them), so its upper half is folded into its lower and multiplied
/// again.
#[inline]
fn hash([function, argument]: [usize; 2]) -> u64 {
    let both = (function as u64).rotate_left(32) ^ argument as u64;
    let spread = both.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread ^ spread >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// No slot, and no link. Slots are below 2²⁸, buckets below 2³⁰.
const NONE: u32 = u32::MAX;
/// A link back that names a bucket.
const BUCKET: u32 = 1 << 31;
const FIRST_BUCKETS: usize = 16;
const MOST_BUCKETS: usize = 1 << 28;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Chi-square of the hash's upper `bits` over its degrees of freedom: about 1 for random numbers, less
    /// for a more even spread.
    fn chi_square(pairs: &[[usize; 2]], bits: u32) -> f64 {
        let mut counts = vec![0u32; 1 << bits];
        pairs.iter().for_each(|&pair| counts[(hash(pair) >> (64 - bits)) as usize] += 1);
        let expected = pairs.len() as f64 / counts.len() as f64;
        let sum: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        sum / (counts.len() - 1) as f64
    }

    const CODE: usize = 0x5555_5555_4000;
    const HEAP: usize = 0x7f3a_9c00_1010;

    //= CV-018 (BSD timers, "New timer implementation")
    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, and a lot of it")]
    fn aligned_pointers_and_array_elements_spread_by_chi_square() {
        // With 1,023 degrees of freedom, 1.16 is exceeded by one table in five thousand.
        for align in [1, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096, 1 << 16, 1 << 21] {
            let aligned: Vec<_> = (0..8_192).map(|i| [CODE, HEAP / align * align + i * align]).collect();
            let found = chi_square(&aligned, 10);
            assert!(found < 1.16, "aligned to {align}: {found}");
        }
        for stride in [12, 20, 24, 40, 48, 56, 72, 96, 104, 136, 168, 200, 328, 1_000, 1_536, 4_104] {
            let elements: Vec<_> = (0..8_192).map(|i| [CODE, HEAP + i * stride]).collect();
            let found = chi_square(&elements, 10);
            assert!(found < 1.16, "elements of {stride} bytes: {found}");
        }
    }

    //= CV-018 (BSD timers, "New timer implementation")
    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, and a lot of it")]
    fn functions_by_arguments_spread_by_chi_square() {
        for functions in [2, 3, 8, 64, 512] {
            for (code, data) in [(16, 64), (16, 16), (32, 192), (64, 4_096), (48, 88)] {
                let pairs: Vec<_> = (0..functions)
                    .flat_map(|f| (0..8_192 / functions).map(move |a| [CODE + f * code, HEAP + a * data]))
                    .collect();
                let found = chi_square(&pairs, 10);
                assert!(found < 1.25, "{functions} functions {code} apart, data {data} apart: {found}");
            }
        }
        // The function alone, or the argument alone, or both the same.
        for pairs in [
            (0..8_192).map(|i| [CODE + i * 16, 0]).collect::<Vec<_>>(),
            (0..8_192).map(|i| [0, i]).collect(),
            (0..8_192).map(|i| [HEAP + i * 64, HEAP + i * 64]).collect(),
        ] {
            let found = chi_square(&pairs, 10);
            assert!(found < 1.25, "from {:x?}: {found}", pairs[1]);
        }
    }
}
