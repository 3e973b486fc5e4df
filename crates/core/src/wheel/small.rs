//! Few timers: all of them in the heap at the front, and no wheel behind it.
//!
//! At one flow no wheel is as quick as a heap, and nobody wants a wheel's memory for three timers. The heap *is*
//! the front with its horizon at the end of time, so that nothing is filed behind it.
//!
//! ```text
//!   timers   1 ………… 16 ………… 64 | 65 …………        horizon = the present granule: the rest is in slots
//!                      ◀── gathered when a turn is over and only 16 are left
//! ```

use super::Wheel;
use super::chunk::List;
use super::level::{BLOCK, Reach};
use super::migration::Migrations;

impl Wheel {
    /// Whether all timers are in the heap.
    #[inline]
    pub(super) fn is_small(&self) -> bool {
        self.horizon == u64::MAX
    }

    /// Too many for the heap: puts the horizon at the present and files what lies beyond.
    ///
    /// A few microseconds, once.
    #[inline(never)]
    pub(super) fn spread(&mut self, now: u64) {
        let horizon = (now >> self.shift) + 1;
        (self.horizon, self.reach) = (horizon, Reach::from(horizon));
        self.migrations = Migrations::new();
        let entries = self.front.heap.take();
        for entry in &entries {
            self.refile(entry.timer);
        }
        self.front.heap.reuse(entries);
    }

    /// Few enough for the heap alone: takes them out of their slots.
    ///
    /// There are no more chunks than timers, so this is bounded as they are.
    #[inline(never)]
    pub(super) fn gather(&mut self) {
        self.horizon = u64::MAX;
        for level in 0..self.levels.len() {
            for half in 0..2 {
                while let Some(index) = self.levels[level].first(half) {
                    debug_assert_eq!(index / BLOCK, half);
                    let list = self.levels[level].slot(index).map_or(List::EMPTY, |slot| slot.list);
                    self.levels[level].clear(index, &mut self.spare);
                    self.gather_list(list);
                }
            }
        }
    }

    fn gather_list(&mut self, mut list: List) {
        while !list.is_empty() {
            let handful = self.chunks.take_first(&mut list);
            self.fetch(&handful);
            for timer in handful.iter() {
                self.refile(timer);
            }
        }
    }
}

/// Above this many timers, a wheel: a heap of so many levels has lost its advantage.
pub(crate) const MOST: usize = 64;
/// At so few, a heap again; far enough below that a load about the limit does not move to and fro.
pub(super) fn few(most: usize) -> usize {
    most / 4
}
