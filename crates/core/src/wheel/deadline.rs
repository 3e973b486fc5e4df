//! The earliest deadline, at which the hardware timer must fire, found in the same slots that keep the due
//! times.
//!
//! A deadline is never before its due time. So the slots are searched in the order of time for the least
//! deadline bound, until one begins after the best found:
//!
//! ```text
//!   slots        │  ·  │ 1 │  · │ 2 │   │ 3 │ 4 │        begins
//!   least        │     │ 90│    │ 60│   │ 75│ …          of 4: 62, so no deadline from there on is before 60
//!   deadline       ─────────▶ best = 90, 60, stop
//! ```
//!
//! The result is cached. When the timer that had it is gone, the search is repeated at the end of a turn, if
//! the deadline has been asked for. The cached value is a lower bound: a slot does not raise its bound when a
//! timer leaves it. The search itself is bounded, and returns the time up to which it came; a deadline that
//! is too early costs one more search at that time.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

use super::Wheel;
use super::level::{BLOCK, BLOCK_BITS, Level, Slot};
use super::record::Record;
use super::sizes::{MOST_WITHOUT_LEVELS, NIL};

#[derive(Debug)]
pub(super) struct Earliest {
    /// The time before which there is no deadline.
    pub(super) at: u64,
    /// Whether the timer that had it is gone.
    pub(super) gone: bool,
    /// Whether the deadline was asked for: a program that never sleeps does not need it.
    is_asked_for: AtomicBool,
}

impl Earliest {
    pub(super) const fn new() -> Self {
        Earliest { at: u64::MAX, gone: false, is_asked_for: AtomicBool::new(false) }
    }

    /// Clears the deadline: nothing is pending.
    #[inline]
    pub(super) fn clear(&mut self) {
        (self.at, self.gone) = (u64::MAX, false);
    }

    #[inline]
    pub(super) fn include(&mut self, deadline: u64) {
        self.at = self.at.min(deadline);
    }

    /// Notes that a timer with this deadline is gone.
    #[inline]
    pub(super) fn exclude(&mut self, deadline: u64) {
        self.gone |= deadline == self.at;
    }
}

impl<E> Wheel<E> {
    /// Returns a time before which there is no deadline; exactly the earliest one while everything is at the
    /// front. [`u64::MAX`] is never.
    #[inline]
    pub(crate) fn earliest_deadline(&self) -> u64 {
        if !self.earliest.is_asked_for.load(Ordering::Relaxed) {
            self.earliest.is_asked_for.store(true, Ordering::Relaxed);
        }
        if self.earliest.at < self.gate || (self.earliest_is_unknown() && self.is_small()) {
            self.find_earliest()
        } else {
            self.earliest.at
        }
    }

    /// Returns whether the timer that had the earliest deadline is gone, or no timer can have it: it is
    /// before the gate, which would not open for it.
    #[inline]
    fn earliest_is_unknown(&self) -> bool {
        (self.earliest.gone && self.earliest.at != u64::MAX) || self.earliest.at < self.gate
    }

    /// Searches for the earliest deadline again, if it is not known and was asked for.
    #[inline]
    pub(super) fn refresh_earliest(&mut self) {
        if self.earliest_is_unknown() && *self.earliest.is_asked_for.get_mut() {
            (self.earliest.at, self.earliest.gone) = (self.find_earliest(), false);
            // With few timers the search is exact on demand, so turns in between need no refresh.
            *self.earliest.is_asked_for.get_mut() = !self.is_small();
        }
    }

    fn find_earliest(&self) -> u64 {
        self.find_least(|record| record.deadline(&self.margins), |slot| slot.least_deadline)
    }

    /// Returns by how much a wake-up may come after the earliest deadline, at most `most`, if no timer is to be later
    /// after its own deadline than its slack.
    #[inline]
    pub(crate) fn slack_left(&self, most: u64) -> u64 {
        let earliest = self.earliest_deadline();
        if most == 0 || earliest == u64::MAX || self.next_due() >= earliest {
            return 0;
        }
        let last_of = |record: &Record<E>| {
            let deadline = record.deadline(&self.margins);
            deadline.saturating_add(deadline.saturating_sub(record.due).min(most))
        };
        let chunks = Cell::new(MOST_SLOT_CHUNKS);
        let last = self.find_least(last_of, |slot| self.least_in_slot(slot, &chunks, last_of));
        last.saturating_sub(earliest).min(most)
    }

    /// Returns the least value of `of` for the timers of a slot; its least deadline if it has more than so many chunks.
    fn least_in_slot(&self, slot: &Slot, chunks: &Cell<u32>, of: impl Fn(&Record<E>) -> u64) -> u64 {
        let Some(left) = chunks.get().checked_sub(slot.chunks) else { return slot.least_deadline };
        chunks.set(left);
        let (mut chunk, mut best) = (slot.list.head, u64::MAX);
        while chunk != NIL {
            let timers = self.slots.chunks.handful(chunk);
            best = timers.iter().fold(best, |best, timer| best.min(of(&self.records[timer])));
            chunk = self.slots.chunks.next(chunk);
        }
        best
    }

    /// Returns the least value of `of`, which is not before a timer's deadline, and of `in_slot` for those in slots.
    #[inline(never)]
    fn find_least(&self, of: impl Fn(&Record<E>) -> u64, in_slot: impl Fn(&Slot) -> u64) -> u64 {
        let most = if self.is_small() { MOST_WITHOUT_LEVELS } else { MOST_SLOTS };
        let mut best = self.least_at_front(most, &of);
        if !self.is_small() {
            // Timers in the inbox are not in any slot yet.
            for &timer in self.inbox.timers() {
                best = best.min(of(&self.records[timer]));
            }
            for level in 0..self.slots.levels.len() {
                best = self.earliest_in_level(level, best, &in_slot);
            }
        }
        self.least_of_later(best, most, of)
    }

    /// Returns the least of `best` and the values of `of` for the later timers, all of which come after
    /// `until`.
    fn least_of_later(&self, mut best: u64, most: usize, of: impl Fn(&Record<E>) -> u64) -> u64 {
        if self.later.until.due >= best {
            return best;
        }
        let mut left = most;
        for entry in self.later.entries() {
            if entry.due >= best {
                continue;
            }
            if left == 0 {
                return best.min(self.later.until.due);
            }
            left -= 1;
            best = best.min(of(&self.records[entry.timer]));
        }
        best
    }

    /// Returns the least value of `of` for the records at the front, which is not before their due times; or
    /// a time before that, if it is not found among `most` of them.
    fn least_at_front(&self, most: usize, of: impl Fn(&Record<E>) -> u64) -> u64 {
        let front = &self.front;
        let of = |timer: u32| of(&self.records[timer]);
        let runs = [&front.near, &front.queue, &front.run];
        let best = runs.into_iter().fold(u64::MAX, |best, run| run.least(best, most, of));
        let mut best = front.heap.least(best, most, of);
        let mut chunk = front.chain.list.head;
        for _ in 0..MOST_CHUNKS {
            if chunk == NIL {
                return best;
            }
            best = self.slots.chunks.handful(chunk).iter().fold(best, |best, timer| best.min(of(timer)));
            chunk = self.slots.chunks.next(chunk);
        }
        best.min(front.least_due())
    }

    /// Returns when the first is due, while there are few. Timers at the front may have been postponed since
    /// they were inserted.
    #[inline]
    pub(super) fn next_due_of_few(&self) -> u64 {
        match self.front.queue.first() {
            Some(first) if self.front.only_queue() && self.records[first.timer].due == first.due => first.due,
            _ => self.find_next_due(),
        }
    }

    #[inline(never)]
    fn find_next_due(&self) -> u64 {
        match self.front.least() {
            Some(least) if self.records[least.timer].due == least.due => least.due,
            _ => {
                let best = self.least_at_front(MOST_SLOTS, |record| record.due);
                self.least_of_later(best, MOST_WITHOUT_LEVELS, |record| record.due)
            }
        }
    }

    fn earliest_in_level(&self, at: usize, mut best: u64, in_slot: impl Fn(&Slot) -> u64) -> u64 {
        let level: &Level = &self.slots.levels[at];
        if level.is_empty() {
            return best;
        }
        let bits = BLOCK_BITS as usize * at;
        let block = self.horizon >> bits >> BLOCK_BITS;
        let mut looked_at = 0;
        for block in [block, block + 1] {
            for (first, row) in level.rows(block as usize % 2) {
                let start = |slot: usize| (block << BLOCK_BITS | (slot % BLOCK) as u64) << bits << self.shift;
                if start(first) >= best {
                    return best;
                }
                if row.least_deadline >= best {
                    continue;
                }
                for (slot, bounds) in row.slots() {
                    let start = start(first + slot);
                    if start >= best {
                        return best;
                    }
                    looked_at += 1;
                    if looked_at > MOST_SLOTS {
                        return start;
                    }
                    if bounds.least_deadline < best {
                        best = best.min(in_slot(bounds));
                    }
                }
            }
        }
        best
    }
}

/// Slots of a level, or entries at the front, that one search visits while there are many: about a
/// microsecond.
const MOST_SLOTS: usize = 128;
/// Chunks of slots that one search for the slack left visits: some hundred timers.
const MOST_SLOT_CHUNKS: u32 = 32;
/// Chunks of the chain that one search visits.
const MOST_CHUNKS: usize = 4;
