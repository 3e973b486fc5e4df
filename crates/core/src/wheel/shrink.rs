//! Reserving memory, and freeing it, on request.
//!
//! A wheel keeps what it once needed, so that a steady load never allocates. After a peak its owner may free
//! the surplus. Chunks, rows and records are freed by building them anew: timers in chunks are inserted
//! again, into as few chunks as possible. The order of timers does not depend on it, since the
//! [front](super::front) makes the order.

use super::Wheel;
use super::chunk::List;
use super::level::Spare;
use super::margin::Margins;
use super::migration::Migrations;
use super::record::Filed;
use super::slots::Slots;
use super::terms::Terms;

impl<E> Wheel<E> {
    /// Allocates and touches the memory that `timers` more need beside their records.
    pub(crate) fn reserve(&mut self, timers: usize) {
        self.front.reserve(timers.min(super::sizes::MOST_WITHOUT_LEVELS), &mut self.records);
        self.later.reserve(timers.min(super::sizes::MOST_WITHOUT_LEVELS));
        if self.len() + timers > self.small as usize {
            self.slots.reserve(timers);
        }
    }

    /// Frees all memory but that of inserted timers. O(n).
    ///
    /// Records stay: only the owner knows which of them are in use.
    pub(crate) fn shrink(&mut self) {
        let before = core::mem::replace(&mut self.slots, Slots::new());
        self.slots.reach = before.reach;
        self.front.chain.list = List::EMPTY;
        for timer in 0..self.records.len() as u32 {
            let record = &self.records[timer];
            if record.is_filed() && matches!(record.place.filed(), Filed::Chunk { .. }) {
                self.refile(timer);
            }
        }
        self.front.shrink();
        self.later.shrink();
        self.shrink_margins();
        self.slots.spare = Spare::new();
        // All pending migrations are done: a timer is never inserted in a level's next slot.
        self.migrations = Migrations::new();
    }

    fn shrink_margins(&mut self) {
        let before = core::mem::replace(&mut self.margins, Margins::new());
        for timer in 0..self.records.len() as u32 {
            let record = &mut self.records[timer];
            let (key, due) = (record.key(), record.due);
            if let Some(held) = &mut record.held {
                let (asked, deadline) = (before.asked(held.margin, due), before.deadline(held.margin, due));
                held.margin = self.margins.keep(&Terms { key, asked, deadline });
            }
        }
    }
}
