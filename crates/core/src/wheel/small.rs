//! Few timers: all of them at the front, and no wheel behind it.
//!
//! For a few flows no wheel is as quick as a queue of those in order beside a heap of the others, and nobody wants a
//! wheel's memory for three timers. Both *are* the front, with its horizon at the end of time, so that nothing is filed
//! behind it.
//!
//! ```text
//!   timers   1 ………… 16 ………… 64 | 65 …………        horizon = the present granule: the rest is in slots
//!                      ◀── gathered when a turn is over and only 16 are left
//! ```

use super::Wheel;
use super::chunk::{List, NIL};
use super::level::{BLOCK, Reach};
use super::migration::Migrations;

impl<E> Wheel<E> {
    /// Whether all timers are at the front.
    #[inline]
    pub(super) fn is_small(&self) -> bool {
        self.horizon == u64::MAX
    }

    /// Too many for the front alone: puts the horizon at the present and files what lies beyond.
    ///
    /// A few microseconds, once.
    #[inline(never)]
    pub(super) fn spread(&mut self, now: u64) {
        self.refresh_earliest();
        let horizon = (now >> self.shift) + 1;
        (self.horizon, self.slots.reach) = (horizon, Reach::from(horizon));
        // In the order in which they would come out, so that slots have them so.
        let mut few = [NIL; MOST];
        let mut len = 0;
        while let Some(least) = self.front.least() {
            few[len] = least.timer;
            len += 1;
            self.front.drop_least(&mut self.records);
        }
        few[..len].iter().for_each(|&timer| self.refile(timer));
    }

    /// Few enough for the front alone: takes them out of their slots.
    ///
    /// There are no more chunks than timers, so this is bounded as they are.
    #[inline(never)]
    pub(super) fn gather(&mut self) {
        self.horizon = u64::MAX;
        self.migrations = Migrations::new();
        // What the slots promised is early where timers were cancelled.
        self.earliest.gone = true;
        for level in 0..self.slots.levels.len() {
            for half in 0..2 {
                while let Some(index) = self.slots.levels[level].first(half) {
                    debug_assert_eq!(index / BLOCK, half);
                    let list = self.slots.levels[level].slot(index).map_or(List::EMPTY, |slot| slot.list);
                    self.slots.levels[level].clear(index, &mut self.slots.spare);
                    self.gather_list(list);
                }
            }
        }
    }

    fn gather_list(&mut self, mut list: List) {
        while !list.is_empty() {
            let handful = self.slots.chunks.take_first(&mut list);
            self.fetch(&handful);
            for timer in handful.iter() {
                self.refile(timer);
            }
        }
    }
}

/// Above this many timers, a wheel.
pub(crate) const MOST: usize = 64;
/// At so few, the front alone again; far enough below that a load about the limit does not move to and fro.
pub(super) fn few(most: u32) -> u32 {
    most / 4
}
