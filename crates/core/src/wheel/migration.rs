//! Migration: moving timers from a slot of a level to the levels below it, in time and in small pieces.
//!
//! The slot that begins at a block's start has to be empty when the horizon gets there. It is emptied while the
//! horizon goes through the block before, one chunk at a time and evenly spread, so that no call moves
//! more than 13 timers; every other wheel moves the slot at once, which at a million timers takes milliseconds.
//!
//! ```text
//!   level 1     │ k │ k+1 │                   slot k+1 has four chunks left
//!   level 0  block k:  ├────┼────┼────┼────┼────┤ block k+1
//!                          ▲    ▲    ▲    ▲
//!                      one chunk each: what is in it goes to level 0, whose window covers block k+1 already
//! ```
//!
//! All levels do so, each at its own pace: at the usual granule, a slot of level 2 is emptied into level 1
//! over 8.6 s. Timers that were postponed meanwhile go to their new slots. If the wheel was not checked in
//! time, the remaining chunks are moved when needed, still one a step.

use super::Wheel;
use super::level::{BLOCK_BITS, LEVELS, Reach, SlotId};

/// For each level, when its next slot is to be moved down.
#[derive(Debug)]
pub(super) struct Migrations {
    /// When to move the next chunk, in nanoseconds; never for level 0.
    at: [u64; LEVELS],
    /// The least of them.
    pub(super) next: u64,
    /// Levels whose slot at the horizon has not been emptied, by bit.
    overdue: u32,
}

impl Migrations {
    pub(super) const fn new() -> Self {
        Migrations { at: [u64::MAX; LEVELS], next: u64::MAX, overdue: 0 }
    }

    /// Returns whether a slot at the horizon still holds timers of lower levels. The horizon has to wait for
    /// them.
    #[inline]
    pub(super) fn is_overdue(&self) -> bool {
        self.overdue != 0
    }
}

impl<E> Wheel<E> {
    /// Advances the horizon. No timer may be inserted between its old place and the new one.
    #[inline]
    pub(super) fn move_horizon(&mut self, to: u64) {
        let from = self.horizon;
        self.horizon = to;
        if (from ^ to) >> BLOCK_BITS != 0 {
            self.enter_blocks(from);
        }
    }

    #[inline(never)]
    fn enter_blocks(&mut self, from: u64) {
        self.slots.reach = Reach::from(self.horizon);
        for level in 1..LEVELS {
            if (from ^ self.horizon) >> (BLOCK_BITS as usize * level) == 0 {
                break;
            }
            if self.slots.levels[level].slot(SlotId::at_granule(level, self.horizon).index).is_some() {
                self.migrations.overdue |= 1 << level;
            }
            self.schedule_migration(level, self.horizon << self.shift);
        }
    }

    /// Moves one chunk that should have been moved before the horizon came here. False if there is none.
    #[inline]
    pub(super) fn migrate_overdue(&mut self) -> bool {
        if self.migrations.overdue == 0 {
            return false;
        }
        // The highest first: its timers may go to any level below.
        let level = self.migrations.overdue.ilog2() as usize;
        if !self.migrate(SlotId::at_granule(level, self.horizon)) {
            self.migrations.overdue &= !(1 << level);
        }
        true
    }

    /// Moves one chunk whose time has come by `now`, in nanoseconds. False if there is none.
    #[inline]
    pub(super) fn migrate_in_time(&mut self, now: u64) -> bool {
        if now < self.migrations.next || self.migrations.next == u64::MAX {
            return false;
        }
        if let Some(level) = self.migrations.at.iter().position(|&at| at <= now) {
            let at = self.migrations.at[level];
            self.migrate(SlotId::at_granule(level, self.next_slot(level)));
            self.schedule_migration(level, at);
        }
        true
    }

    /// Spreads the remaining chunks of a level's next slot evenly over the time from `at` until it is needed.
    fn schedule_migration(&mut self, level: usize, at: u64) {
        let end = self.next_slot(level);
        self.migrations.at[level] = match self.slots.levels[level].slot(SlotId::at_granule(level, end).index)
        {
            Some(slot) => at + (end << self.shift).saturating_sub(at) / (u64::from(slot.chunks) + 1),
            None => u64::MAX,
        };
        self.migrations.next = self.migrations.at.iter().copied().fold(u64::MAX, u64::min);
    }

    /// The granule at which the slot of a level that follows the horizon's begins.
    #[inline]
    fn next_slot(&self, level: usize) -> u64 {
        let bits = BLOCK_BITS as usize * level;
        ((self.horizon >> bits) + 1) << bits
    }

    /// Moves the timers of a slot's first chunk to their present slots. Returns false if the slot is empty.
    fn migrate(&mut self, id: SlotId) -> bool {
        let Some(slot) = self.slots.levels[id.level].slot_mut(id.index) else { return false };
        let handful = self.slots.chunks.take_first(&mut slot.list);
        slot.chunks -= 1;
        if slot.list.is_empty() {
            self.slots.levels[id.level].clear(id.index, &mut self.slots.spare);
        }
        self.fetch(&handful);
        for timer in handful.iter() {
            self.refile(timer);
        }
        true
    }
}
