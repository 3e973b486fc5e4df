//! [`Level`]: the depth of a queue, and the depth at which to wake a waiter, in one word.
//!
//! ```text
//!   63          32 31           0
//!   │   wake at   │    depth    │     wake at: one more than the depth; zero: no waiter
//! ```
//!
//! A consumer sees in the same step whether there is a waiter, and a waiter sees the depth in the same step:
//! so either the waiter sees the low mark, or the consumer wakes it, exactly once.

use super::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) struct Level(AtomicU64);

impl Level {
    pub(super) fn empty() -> Self {
        Level(AtomicU64::new(0))
    }

    /// Counts `packets` that were put in.
    pub(super) fn put(&self, packets: u32) {
        self.change(|depth, wake_at| (depth.saturating_add(packets), wake_at));
    }

    /// Counts `packets` that were taken out, at most all. Returns whether to wake the waiter, only once.
    pub(super) fn took(&self, packets: u32) -> bool {
        let lower = |depth: u32, wake_at| {
            let left = depth.saturating_sub(packets);
            (left, if wake_at > left { 0 } else { wake_at })
        };
        let (depth, wake_at) = self.change(lower);
        wake_at != lower(depth, wake_at).1
    }

    /// Requests a wake-up when the depth falls to `depth` or less. Returns the present depth.
    pub(super) fn wake_at(&self, depth: u32) -> u32 {
        self.change(|now, _| (now, depth.saturating_add(1))).0
    }

    pub(super) fn depth(&self) -> u32 {
        halves(self.0.load(Ordering::Acquire)).0
    }

    /// Changes both halves in one step; returns their previous values.
    fn change(&self, to: impl Fn(u32, u32) -> (u32, u32)) -> (u32, u32) {
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let (depth, wake_at) = halves(before);
            let (depth, wake_at) = to(depth, wake_at);
            let after = u64::from(wake_at) << 32 | u64::from(depth);
            match self.0.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return halves(before),
                Err(other) => before = other,
            }
        }
    }
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}
