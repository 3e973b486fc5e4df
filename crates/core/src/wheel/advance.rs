//! Advancing in time: finds the next slot and empties it.

use super::Wheel;
use super::level::{BLOCK_BITS, LEVELS, SlotId};

impl<E> Wheel<E> {
    /// Returns the least due time in slots, and when the next slot has to be prepared for migration: both may
    /// be too early, never too late.
    pub(super) fn look_ahead(&self) -> (u64, u64) {
        if self.migrations.is_overdue() {
            return (self.horizon << self.shift, u64::MAX);
        }
        let (mut due, mut opening) = (u64::MAX, u64::MAX);
        for level in 0..LEVELS {
            let Some((start, id)) = self.first_in(level) else { continue };
            if let Some(slot) = self.slots.levels[level].slot(id.index) {
                due = due.min(slot.least_due);
            }
            opening = opening.min(self.opening(level, start));
            if self.is_present(level, start) {
                break;
            }
        }
        (due, opening)
    }

    /// Returns when the horizon has to reach the slot before the one that begins at `start`, so that the
    /// latter can be emptied in time.
    #[inline]
    pub(super) fn opening(&self, level: usize, start: u64) -> u64 {
        if level == 0 {
            return u64::MAX;
        }
        let bits = BLOCK_BITS as usize * level;
        let before = ((start >> bits) - 1) << bits;
        if before > self.horizon { before << self.shift } else { u64::MAX }
    }

    /// Finds the next slot up to the granule `until`, and handles it; returns false if there is none.
    #[inline]
    pub(super) fn advance(&mut self, until: u64) -> bool {
        if self.migrate_overdue() {
            return true;
        }
        match self.first() {
            Some((start, id)) if start <= until => {
                if id.level == 0 {
                    self.come_due(start, id);
                } else {
                    self.move_horizon(start);
                }
                true
            }
            _ => {
                if until >= self.horizon {
                    self.move_horizon(until + 1);
                }
                false
            }
        }
    }

    /// Handles a slot of level 0 that has come due.
    #[inline]
    fn come_due(&mut self, granule: u64, id: SlotId) {
        let Some(slot) = self.slots.levels[0].slot(id.index) else { return };
        let (list, chunks) = (slot.list, slot.chunks);
        self.slots.levels[0].clear(id.index, &mut self.slots.spare);
        self.move_horizon(granule + 1);
        self.ripen(list, chunks, id.home(granule));
    }

    /// The beginning of the first occupied slot, in granules. Of several that begin there, the highest level's: it
    /// holds timers that belong into the lower ones.
    #[inline]
    fn first(&self) -> Option<(u64, SlotId)> {
        let mut first: Option<(u64, SlotId)> = None;
        for level in 0..LEVELS {
            let Some((start, id)) = self.first_in(level) else { continue };
            if first.is_none_or(|(least, _)| start <= least) {
                first = Some((start, id));
            }
            if self.is_present(level, start) {
                break;
            }
        }
        first
    }

    /// The first occupied slot of a level, and the granule at which it begins.
    #[inline]
    fn first_in(&self, level: usize) -> Option<(u64, SlotId)> {
        let bits = BLOCK_BITS as usize * level;
        let block = self.horizon >> bits >> BLOCK_BITS;
        let levels = &self.slots.levels[level];
        [block, block + 1].into_iter().find_map(|block| {
            let index = levels.first(block as usize % 2)?;
            let id = SlotId { level, index };
            Some((id.start(block), id))
        })
    }

    /// Returns whether a slot lies in the horizon's block of its level: no higher level has a timer before
    /// that block ends.
    #[inline]
    fn is_present(&self, level: usize, start: u64) -> bool {
        (start ^ self.horizon) >> (BLOCK_BITS as usize * level) >> BLOCK_BITS == 0
    }

    /// Moves the horizon up after a block or more without work, so that timers set now are inserted on the
    /// right level.
    #[inline(never)]
    pub(super) fn catch_up(&mut self, now: u64) {
        if self.migrations.is_overdue() || !self.front.chain.is_empty() {
            return;
        }
        let to = self.first().map_or(now, |(start, _)| start.min(now));
        self.move_horizon(to.max(self.horizon));
    }
}
