//! A hashed hierarchical timing wheel that does not stall.
//!
//! Setting, moving and cancelling a timer and asking "anything due?" cost the same however many timers there
//! are, and so does the most that one call can do. It is Varghese and Lauck's scheme 7 (*Hashed and
//! hierarchical timing wheels*, SOSP 1987), made after what a million timers cost on a present machine, which
//! is cache misses:
//!
//! ```text
//!   records                chunks                     levels                                front
//!   one a timer, 32 bytes  13 timers a cache line     8,192 slots each                      in exact order
//!  ┌──────────────────┐   ┌────────────┐             ┌───────────────────────────────┐
//!  │due seq place …   │ ┌▶│ 7 · 12 9 … │◀────────────│ 0  granule wide   ▣ □ ▣ ▣ □ … │──slot comes due─▶ run ─┐
//!  │due seq place …   │ │ └────────────┘             │                    ▲          │                        ├▶ least
//!  │due seq place ────┼─┘ ┌────────────┐             │ 1  a block wide   ▣│□ ▣ □ □ … │   below the    ─▶ heap ─┘
//!  │                  │   │ 3 5 8 …    │◀────────────│      one chunk at a time        │   horizon
//!  └──────────────────┘   └────────────┘             └───────────────────────────────┘
//!                                                       migration, paced over the block before
//! ```
//!
//! | level | a slot (granule 512 ns) | reaches |
//! |---|---|---|
//! | 0 | 512 ns | 2.1 to 4.2 ms |
//! | 1 | 2.10 ms | 8.6 to 17 s |
//! | 2 | 8.59 s | 9.8 to 19.5 h |
//! | 3 | 9.77 h | 4.6 to 9.1 years |
//! | 4 | 4.57 years | all of time |
//!
//! The granule is the largest power of two in a tick. A timer that lies between the two reaches goes to this level
//! or the next, after where in its block the horizon is.
//!
//! Read in this order: [`record`], [`chunk`], [`level`]: what there is. [`migration`]: how timers come down.
//! [`front`]: how they come out in order. [`small`]: what serves a few. [`deadline`]: when hardware must look.
//!
//! - **Re-arming to a later time** writes the record and nothing else: the timer moves on when its old slot
//!   comes up. Most network timers are put off time and again and never expire.
//! - **The gate** is a lower bound of everything there is to do, the next due time and the next migration, in
//!   one word. It is lowered when a timer is set and never on a cancel; a turn that is over makes it exact.
//! - **Who owns what.** The wheel files records by index and knows nothing of events or handles:
//!   [`SoftTimers`](crate::SoftTimers) gives out handles, [`KeyedTimers`](crate::KeyedTimers) takes its
//!   callers' numbers.

mod chunk;
mod deadline;
mod front;
mod heap;
mod level;
mod migration;
pub(crate) mod record;
mod segments;
mod shrink;
pub(crate) mod small;
#[cfg(test)]
mod tests;

use chunk::{Chunks, Handful, Home, Kept};
use deadline::Earliest;
use front::Front;
use level::{BLOCK_BITS, LEVELS, Level, Reach, SlotId, Spare};
use migration::Migrations;
use record::{Filed, Place, Records, Terms};

pub(crate) use segments::Segments;

/// The order timers come out in: due time in nanoseconds, and among equal ones the sequence.
pub(crate) type Key = (u64, u64);

#[derive(Debug)]
pub(crate) struct Wheel {
    /// Nothing is to be done before this: no timer is due, no chunk to be moved.
    gate: u64,
    /// Granules below this are in the front, others in slots.
    horizon: u64,
    reach: Reach,
    earliest: Earliest,
    /// Of the width of a granule, the logarithm.
    shift: u32,
    len: u32,
    /// The most timers that the heap alone serves.
    small: u32,
    pub(crate) records: Records,
    chunks: Chunks,
    kept: Kept,
    levels: [Level; LEVELS],
    spare: Spare,
    migrations: Migrations,
    front: Front,
    /// Records that were fetched: what bounds a call.
    #[cfg(test)]
    touched: usize,
}

/// What one [`Wheel::pull`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pull {
    /// The least of all timers, due by the time asked for or not.
    Least(Key, u32),
    /// Something was moved; ask again.
    More,
    /// No timer is due by then.
    Idle,
}

impl Wheel {
    /// An empty wheel for due times that are rounded to `tick` nanoseconds; with a tick of 1 they may be any.
    ///
    /// A granule is not wider than a tick, so that a slot of level 0 holds equal due times, if they are rounded.
    pub(crate) fn new(tick: u64, small: usize) -> Self {
        Wheel {
            gate: u64::MAX,
            horizon: u64::MAX,
            reach: Reach::from(0),
            earliest: Earliest::new(),
            shift: tick.max(1).ilog2().clamp(LEAST_SHIFT, MOST_SHIFT),
            len: 0,
            small: small as u32,
            records: Records::new(),
            chunks: Chunks::new(),
            kept: Kept::NONE,
            levels: [const { Level::EMPTY }; LEVELS],
            spare: Spare::new(),
            migrations: Migrations::new(),
            front: Front::new(),
            #[cfg(test)]
            touched: 0,
        }
    }

    /// Timers filed.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Nothing is to be done before this time: "anything due?" in one compare.
    #[inline]
    pub(crate) fn gate(&self) -> u64 {
        self.gate
    }

    /// Files a record, or moves it if it is filed: O(1), O(log n) while there are few. Its generation.
    ///
    /// Of two timers with equal due times the one with the lower sequence comes out first.
    #[inline]
    pub(crate) fn set(&mut self, now: u64, timer: u32, terms: &Terms) -> u32 {
        let record = &mut self.records[timer];
        if record.is_filed() {
            let (before, place) = (record.deadline(), record.place);
            self.earliest.exclude(before);
            let put_off = terms.due >= record.due && record.due >> self.shift >= self.horizon;
            if put_off && terms.deadline() >= before {
                // It moves when its old slot comes up.
                record.agree(terms);
                return record.generation;
            }
            self.take_out(timer, place);
        } else {
            self.len += 1;
        }
        self.file(now, timer, terms)
    }

    /// Takes a record out: O(1), O(log n) while there are few. False if it is not filed.
    #[inline]
    pub(crate) fn remove(&mut self, timer: u32) -> bool {
        let record = &mut self.records[timer];
        let place = core::mem::replace(&mut record.place, Place::NOWHERE);
        if place == Place::NOWHERE {
            return false;
        }
        self.earliest.exclude(record.deadline());
        self.take_out(timer, place);
        self.len -= 1;
        if self.len == 0 {
            (self.gate, self.earliest) = (u64::MAX, Earliest::new());
        }
        true
    }

    /// The least timer, if it can be told: one quantum of work, four chunks of 13 timers at most.
    ///
    /// Timers beyond `until`, in nanoseconds, may be found as well.
    #[inline]
    pub(crate) fn pull(&mut self, until: u64) -> Pull {
        if !self.front.chain.is_empty() && !self.see_to_chain() {
            return Pull::More;
        }
        if let Some(least) = self.front.least() {
            return Pull::Least((least.due, least.sequence), least.timer);
        }
        if self.is_small() || !self.advance(until >> self.shift) {
            return Pull::Idle;
        }
        match self.front.least() {
            Some(least) if self.front.chain.is_empty() => {
                Pull::Least((least.due, least.sequence), least.timer)
            }
            _ => Pull::More,
        }
    }

    /// After a turn: one quantum of what keeps later ones short. False when there is nothing more to do.
    #[inline]
    pub(crate) fn tidy(&mut self, now: u64) -> bool {
        if self.is_small() {
            self.gate = self.front.least().map_or(u64::MAX, |least| least.due);
        } else {
            if self.migrate_in_time(now) {
                return true;
            }
            if self.len as usize <= small::few(self.small as usize) && self.front.chain.is_empty() {
                self.gather();
            }
            let (due, opening) = self.look_ahead();
            self.gate = due.min(opening).min(self.front.least_due()).min(self.migrations.next);
        }
        self.refresh_earliest();
        false
    }

    /// No timer is due before this; exactly the earliest, unless that was cancelled or put off. [`u64::MAX`] if
    /// there is none.
    #[inline]
    pub(crate) fn next_due(&self) -> u64 {
        let front = self.front.least_due();
        if front != u64::MAX || self.is_small() {
            return front;
        }
        // What was cancelled may still count in a slot; the gate has not opened for it.
        self.look_ahead().0.max(self.gate)
    }

    /// Of what is in slots, the least due time, and when the next of them is to be made ready for migration: both
    /// no later than the truth.
    fn look_ahead(&self) -> (u64, u64) {
        if self.migrations.is_overdue() {
            return (self.horizon << self.shift, u64::MAX);
        }
        let (mut due, mut opening) = (u64::MAX, u64::MAX);
        for level in 0..LEVELS {
            let Some((start, id)) = self.first_in(level) else { continue };
            if let Some(slot) = self.levels[level].slot(id.index) {
                due = due.min(slot.least_due.max(start << self.shift));
            }
            if self.is_present(level, start) {
                break;
            }
            opening = opening.min(self.opening(level, start));
        }
        (due, opening)
    }

    /// When the horizon has to be in the slot before the one that begins at `start`, so that it can be emptied in
    /// time.
    #[inline]
    fn opening(&self, level: usize, start: u64) -> u64 {
        if level == 0 {
            return u64::MAX;
        }
        let bits = BLOCK_BITS as usize * level;
        let before = ((start >> bits) - 1) << bits;
        if before > self.horizon { before << self.shift } else { u64::MAX }
    }

    /// Looks for the next slot up to the granule `until`, and deals with it; false if there is none.
    #[inline]
    fn advance(&mut self, until: u64) -> bool {
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

    /// The slot of level 0 at a granule has come due.
    #[inline]
    fn come_due(&mut self, granule: u64, id: SlotId) {
        let Some(slot) = self.levels[0].slot(id.index) else { return };
        let (list, chunks) = (slot.list, slot.chunks);
        self.levels[0].clear(id.index, &mut self.spare);
        self.move_horizon(granule + 1);
        self.ripen(list, chunks, id.home(granule), granule << self.shift);
    }

    /// Where the first occupied slot begins, in granules. Of several that begin there, the highest level's:
    /// it holds timers that belong into the lower ones.
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
        let levels = &self.levels[level];
        [block, block + 1].into_iter().find_map(|block| {
            let index = levels.first(block as usize % 2)?;
            let start = (block << BLOCK_BITS | (index as u64 & ((1 << BLOCK_BITS) - 1))) << bits;
            Some((start, SlotId { level, index }))
        })
    }

    /// Whether a slot lies in the horizon's block of its level: no higher level has anything before that ends.
    #[inline]
    fn is_present(&self, level: usize, start: u64) -> bool {
        (start ^ self.horizon) >> (BLOCK_BITS as usize * level) >> BLOCK_BITS == 0
    }

    /// Files a record that has just been set.
    #[inline(always)]
    fn file(&mut self, now: u64, timer: u32, terms: &Terms) -> u32 {
        let deadline = terms.deadline();
        self.gate = self.gate.min(terms.due);
        self.earliest.include(deadline);
        if terms.due >> self.shift < self.horizon {
            return self.file_in_heap(now, timer, terms);
        }
        if now >> self.shift >> BLOCK_BITS > self.horizon >> BLOCK_BITS {
            self.catch_up(now >> self.shift);
        }
        let place = self.link(timer, terms.due, deadline);
        let record = &mut self.records[timer];
        record.agree(terms);
        record.place = place;
        record.generation
    }

    #[inline(never)]
    fn file_in_heap(&mut self, now: u64, timer: u32, terms: &Terms) -> u32 {
        let record = &mut self.records[timer];
        record.agree(terms);
        let generation = record.generation;
        let entry = record.entry(timer);
        self.front.heap.push(entry, &mut self.records);
        if self.is_small() && self.len > self.small {
            self.spread(now);
        }
        generation
    }

    /// Files a record where it belongs by now.
    #[inline(never)]
    fn refile(&mut self, timer: u32) {
        let record = &self.records[timer];
        if record.due >> self.shift < self.horizon {
            let entry = record.entry(timer);
            self.front.heap.push(entry, &mut self.records);
        } else {
            let (due, deadline) = (record.due, record.deadline());
            self.records[timer].place = self.link(timer, due, deadline);
        }
    }

    /// Puts a timer that is not below the horizon into its slot.
    #[inline(always)]
    fn link(&mut self, timer: u32, due: u64, deadline: u64) -> Place {
        let granule = due >> self.shift;
        let id = SlotId::filing(granule, &self.reach);
        let slot = self.levels[id.level].fill(id.index, due, deadline, &mut self.spare);
        if let Some((chunk, at)) = self.chunks.append(slot.list, timer) {
            return Place::in_chunk(chunk, at);
        }
        let chunk = self.chunks.begin(&mut slot.list, id.home(granule), timer);
        slot.chunks += 1;
        // The first of a slot, for one.
        self.gate = self.gate.min(self.opening(id.level, granule));
        Place::in_chunk(chunk, 0)
    }

    /// Takes a record out of where it is filed.
    #[inline(always)]
    fn take_out(&mut self, timer: u32, place: Place) {
        match place.filed() {
            Filed::Chunk { chunk, at } => {
                if let Some(home) = self.chunks.remove(chunk, at) {
                    self.release(chunk, home);
                }
            }
            Filed::Run => self.front.run.remove(timer),
            Filed::Heap { at } => self.front.heap.remove(at, &mut self.records),
            Filed::Nowhere => {}
        }
    }

    /// The last timer of a chunk is gone: the chunk goes, too, but not at once.
    #[inline]
    fn release(&mut self, chunk: u32, home: Home) {
        if let Some(before) = self.kept.keep(chunk, home) {
            if let Some(home) = self.chunks.idle(before) {
                self.unlink(before, home);
            }
        }
    }

    /// Takes an empty chunk out of its list.
    #[inline(never)]
    fn unlink(&mut self, chunk: u32, home: Home) {
        let chain = &mut self.front.chain;
        if !chain.is_empty() && chain.home == home {
            chain.leaves(chunk, self.chunks.next(chunk));
            return self.chunks.unlink(&mut chain.list, chunk);
        }
        let id = SlotId::of_home(home);
        let Some(slot) = self.levels[id.level].slot_mut(id.index) else { return };
        self.chunks.unlink(&mut slot.list, chunk);
        slot.chunks -= 1;
        if slot.list.is_empty() {
            self.levels[id.level].clear(id.index, &mut self.spare);
        }
    }

    /// Time has gone on by a block or more while nothing was to be done: brings the horizon up, so that what
    /// is set now is filed as near as it is.
    #[inline(never)]
    fn catch_up(&mut self, now: u64) {
        if self.migrations.is_overdue() || !self.front.chain.is_empty() {
            return;
        }
        let to = self.first().map_or(now, |(start, _)| start.min(now));
        if to > self.horizon {
            self.move_horizon(to);
        }
    }

    /// Brings the records of a chunk near, all at once. Worked on one after the other, each would be waited for
    /// by itself: that is half of what a migration costs.
    #[inline]
    fn fetch(&mut self, handful: &Handful) {
        let near = handful.iter().fold(0, |near, timer| near ^ self.records[timer].due);
        core::hint::black_box(near);
        #[cfg(test)]
        {
            self.touched += handful.iter().count();
        }
    }
}

/// Granules of 128 ns at the least: beyond that, slots are only more.
const LEAST_SHIFT: u32 = 7;
/// Granules of a millisecond at the most: beyond that, a slot is not small.
const MOST_SHIFT: u32 = 20;
