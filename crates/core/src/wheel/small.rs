//! Few timers: all of them in order in the run at the front, and no wheel behind it.
//!
//! At one flow no wheel is as quick as a short array in order, and nobody wants a wheel's memory for three timers. It
//! *is* the front, with its horizon at the end of time, so that nothing is filed behind it.
//!
//! ```text
//!   timers   1 ………… 16 ………… 64 | 65 …………        horizon = the present granule: the rest is in slots
//!                      ◀── gathered when a turn is over and only 16 are left
//! ```
//!
//! To insert one moves the lesser side, 16 entries of 24 bytes on average where there are 64: less than a heap of as
//! many compares and swaps, and no record has to know its place.

use super::Wheel;
use super::chunk::List;
use super::front::{MOST_IN_RUN, Run};
use super::level::{BLOCK, Reach};
use super::migration::Migrations;

impl Wheel {
    /// Whether all timers are in the run.
    #[inline]
    pub(super) fn is_small(&self) -> bool {
        self.horizon == u64::MAX
    }

    /// Too many for the run: puts the horizon at the present and files what lies beyond.
    ///
    /// A few microseconds, once.
    #[inline(never)]
    pub(super) fn spread(&mut self, now: u64) {
        self.refresh_earliest();
        let horizon = (now >> self.shift) + 1;
        (self.horizon, self.slots.reach) = (horizon, Reach::from(horizon));
        let run = core::mem::replace(&mut self.front.run, Run::new());
        for entry in run.entries() {
            self.refile(entry.timer);
        }
    }

    /// Few enough for the run alone: takes them out of their slots.
    ///
    /// There are no more chunks than timers, so this is bounded as they are.
    #[inline(never)]
    pub(super) fn gather(&mut self) {
        self.horizon = u64::MAX;
        self.migrations = Migrations::new();
        // What the slots promised is early where timers were cancelled.
        self.earliest.gone = true;
        while let Some(&entry) = self.front.heap.first() {
            self.front.heap.remove(0, &mut self.records);
            self.refile(entry.timer);
        }
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

/// Above this many timers, a wheel: to move so many entries has lost its advantage.
pub(crate) const MOST: usize = 64;
const _: () = assert!(MOST <= MOST_IN_RUN);
/// At so few, the run again; far enough below that a load about the limit does not move to and fro.
pub(super) fn few(most: u32) -> u32 {
    most / 4
}
