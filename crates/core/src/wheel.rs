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
//!  │due seq event …   │ ┌▶│ 7 · 12 9 … │◀────────────│ 0  granule wide   ▣ □ ▣ ▣ □ … │──slot comes due─▶ run ─┐
//!  │due seq event …   │ │ └────────────┘             │                    ▲          │                        ├▶ least
//!  │due seq place ────┼─┘ ┌────────────┐             │ 1  a block wide   ▣│□ ▣ □ □ … │   below the    ─▶ heap ─┘
//!  │                  │   │ 3 5 8 …    │◀────────────│      one chunk at a time        │   horizon
//!  └──────────────────┘   └────────────┘             └───────────────────────────────┘
//!        ▲                                             ▲ migration, paced over the block before
//!   set ─┴─▶ inbox, 16 timers that nobody has looked at yet: filed together, or cancelled before that
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
//! Read in this order: [`record`], [`margin`], [`chunk`], [`level`], [`slots`]: what there is. [`inbox`]: how timers come in.
//! [`migration`]: how they come down. [`front`]: how they come out in order. [`small`]: what serves a few.
//! [`deadline`]: when hardware must look.
//!
//! - **Re-arming** to any time from the earliest on that its slot promises writes the record and nothing else: the
//!   timer moves on when its old slot comes up. Most network timers are put off time and again and never expire.
//! - **The gate** is a lower bound of everything there is to do, the next due time and the next migration, in
//!   one word. It is lowered when a timer is set and never on a cancel; a turn that is over brings it up to date.
//! - **Who owns what.** The wheel files records by index, keeps their events and knows nothing of handles:
//!   [`SoftTimers`](crate::SoftTimers) gives them out, [`KeyedTimers`](crate::KeyedTimers) takes its
//!   callers' numbers.

mod chunk;
mod deadline;
mod front;
mod heap;
mod inbox;
mod level;
mod margin;
mod migration;
pub(crate) mod record;
mod segments;
mod shrink;
mod slots;
pub(crate) mod small;
#[cfg(test)]
mod tests;

use chunk::{Handful, Home};
use deadline::Earliest;
use front::Front;
use inbox::Inbox;
use level::{BLOCK_BITS, LEVELS, SlotId};
use margin::Margins;
use migration::Migrations;
use record::{Entry, Filed, Held, Key, Place, Records, Terms};
use slots::Slots;

#[derive(Debug)]
pub(crate) struct Wheel<E> {
    /// Nothing is to be done before this: no timer is due, no chunk to be moved.
    gate: u64,
    /// No timer is due before this.
    least: u64,
    /// Of what is filed, granules below this are in the front, others in slots.
    horizon: u64,
    earliest: Earliest,
    /// Of the width of a granule, the logarithm.
    shift: u32,
    len: u32,
    /// The most timers that the front alone serves.
    small: u32,
    pub(crate) records: Records<E>,
    margins: Margins,
    inbox: Inbox,
    slots: Slots,
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

impl<E> Wheel<E> {
    /// An empty wheel for due times that are rounded to `tick` nanoseconds; with a tick of 1 they may be any.
    ///
    /// A granule is not wider than a tick, so that a slot of level 0 holds equal due times, if they are rounded.
    pub(crate) fn new(tick: u64, small: usize) -> Self {
        Wheel {
            gate: u64::MAX,
            least: u64::MAX,
            horizon: u64::MAX,
            earliest: Earliest::new(),
            shift: tick.max(1).ilog2().clamp(LEAST_SHIFT, MOST_SHIFT),
            len: 0,
            small: small as u32,
            records: Records::new(),
            margins: Margins::new(),
            inbox: Inbox::new(),
            slots: Slots::new(),
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

    /// Puts a pending timer off, if nothing but its record has to be written: if it comes out later than now and has a
    /// later deadline, or its slot promises no more. It moves on when its slot comes up.
    #[inline(always)]
    pub(crate) fn put_off(&mut self, timer: u32, terms: &Terms) -> bool {
        let record = &self.records[timer];
        if terms.due().min(record.due) >> self.shift < self.horizon {
            return false;
        }
        let before = record.deadline(&self.margins);
        let is_later = terms.due() >= record.due && terms.deadline >= before;
        if !is_later && !self.is_promised(record.place, terms) {
            return false;
        }
        self.records[timer].agree(terms, &mut self.margins);
        self.earliest.exclude(before);
        self.earliest.include(terms.deadline);
        true
    }

    /// Whether the slot of a timer would not have to promise more for these terms.
    #[inline(never)]
    fn is_promised(&self, place: Place, terms: &Terms) -> bool {
        let Filed::Chunk { chunk, .. } = place.filed() else { return false };
        let home = self.slots.chunks.home(chunk);
        let id = SlotId::of_home(home);
        let slot = self.slots.levels[id.level].slot(id.index).filter(|_| !self.front.chain.is(home));
        slot.is_some_and(|slot| slot.least_due <= terms.due() && slot.least_deadline <= terms.deadline)
    }

    /// Moves a pending timer: O(1), O(log n) while there are few.
    ///
    /// Of two timers with equal due times the one with the lower sequence comes out first.
    #[inline(never)]
    pub(crate) fn move_to(&mut self, now: u64, timer: u32, terms: &Terms) {
        let record = &mut self.records[timer];
        let (before, place) = (record.deadline(&self.margins), record.place);
        record.agree(terms, &mut self.margins);
        self.earliest.exclude(before);
        if self.is_small() {
            self.announce(terms);
            self.take_out(place);
            return self.file_in_front(timer);
        }
        self.take_out(place);
        self.admit(now, timer, terms);
    }

    /// Sets the timer of a record that is not pending: O(1), O(log n) while there are few. The record's generation.
    #[inline(always)]
    pub(crate) fn insert(&mut self, now: u64, timer: u32, terms: &Terms, event: E) -> u32 {
        if self.len >= self.small && self.is_small() {
            self.spread(now);
        }
        self.len += 1;
        let margin = self.margins.keep(terms);
        let record = &mut self.records[timer];
        record.due = terms.due();
        record.held = Some(Held { sequence: terms.key.sequence, margin, event });
        let generation = record.generation;
        if self.is_small() {
            self.announce(terms);
            self.front.insert(Entry::new(terms.key, timer), &mut self.records);
        } else {
            self.admit(now, timer, terms);
        }
        generation
    }

    /// Lowers what the wheel says of the timers in it.
    #[inline(always)]
    fn announce(&mut self, terms: &Terms) {
        self.gate = self.gate.min(terms.due());
        self.least = self.least.min(terms.due());
        self.earliest.include(terms.deadline);
    }

    #[inline(always)]
    fn admit(&mut self, now: u64, timer: u32, terms: &Terms) {
        self.announce(terms);
        let place = self.inbox.push(timer).unwrap_or_else(|| self.make_room(now, timer));
        self.records[timer].place = place;
    }

    /// Takes a pending timer out: O(1), O(log n) while there are few. The time it was asked for, and its event.
    #[inline]
    pub(crate) fn remove(&mut self, timer: u32) -> Option<(u64, E)> {
        let place = self.records[timer].place;
        let taken = self.taken(timer)?;
        if !self.inbox.take_back(place) {
            self.take_out(place);
        }
        self.forget_one();
        Some(taken)
    }

    /// Takes the least timer out, if it comes before `limit`: one quantum of work, four chunks of 13 timers and what
    /// is in the inbox at most. Its record does not know yet: see [`taken`](Self::taken).
    #[inline]
    pub(crate) fn pop(&mut self, limit: Key) -> Pull {
        let found = if self.is_small() {
            self.front.least().map_or(Pull::Idle, |least| Pull::Least(least.key(), least.timer))
        } else {
            match self.front.only_run() {
                Some(least) if self.inbox.is_empty() => Pull::Least(least.key(), least.timer),
                _ => self.pull(limit.due),
            }
        };
        match found {
            Pull::Least(key, _) if key.is_before(limit) => {
                self.front.drop_least(&mut self.records);
                self.forget_one();
                found
            }
            Pull::Least(..) => Pull::Idle,
            _ => found,
        }
    }

    /// What a timer that has been [popped](Self::pop) leaves: the time it was asked for, and its event.
    #[inline]
    pub(crate) fn taken(&mut self, timer: u32) -> Option<(u64, E)> {
        let record = &mut self.records[timer];
        let held = record.held.take()?;
        let asked = self.margins.asked(held.margin, record.due);
        self.earliest.exclude(self.margins.deadline(held.margin, record.due));
        self.margins.release(held.margin);
        Some((asked, held.event))
    }

    #[inline]
    fn forget_one(&mut self) {
        self.len -= 1;
        if self.len == 0 {
            (self.gate, self.least) = (u64::MAX, u64::MAX);
            self.earliest.clear();
        }
    }

    /// The least timer, if it can be told: one quantum of work.
    ///
    /// Timers beyond `until`, in nanoseconds, may be found as well.
    #[inline(never)]
    pub(crate) fn pull(&mut self, until: u64) -> Pull {
        if !self.inbox.is_empty() {
            self.file_inbox();
        }
        if !self.front.chain.is_empty() && !self.see_to_chain() {
            return Pull::More;
        }
        if let Some(least) = self.front.least() {
            return Pull::Least(least.key(), least.timer);
        }
        if self.is_small() || !self.advance(until >> self.shift) {
            return Pull::Idle;
        }
        match self.front.least() {
            Some(least) => Pull::Least(least.key(), least.timer),
            None => Pull::More,
        }
    }

    /// After a turn: one quantum of what keeps later ones short. False when there is nothing more to do.
    #[inline]
    pub(crate) fn tidy(&mut self, now: u64) -> bool {
        if self.is_small() {
            self.least = self.front.least_due();
            self.gate = self.least;
            return false;
        }
        self.tidy_slots(now)
    }

    #[inline(never)]
    fn tidy_slots(&mut self, now: u64) -> bool {
        if self.migrate_in_time(now) {
            return true;
        }
        if self.len <= small::few(self.small) && self.front.chain.is_empty() {
            self.gather();
        }
        let (due, opening) = self.look_ahead();
        self.least = due.min(self.front.least_due());
        self.gate = self.least.min(opening).min(self.migrations.next);
        self.refresh_earliest();
        false
    }

    /// No timer is due before this; [`u64::MAX`] if there is none. Exact after a turn, unless a slot's bound is stale; a
    /// timer that was handed out or cancelled since may still count.
    #[inline]
    pub(crate) fn next_due(&self) -> u64 {
        if self.is_small() {
            return self.front.least_due();
        }
        self.least
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
        let Some(slot) = self.slots.levels[0].slot(id.index) else { return };
        let (list, chunks) = (slot.list, slot.chunks);
        self.slots.levels[0].clear(id.index, &mut self.slots.spare);
        self.move_horizon(granule + 1);
        self.ripen(list, chunks, id.home(granule));
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
        let levels = &self.slots.levels[level];
        [block, block + 1].into_iter().find_map(|block| {
            let index = levels.first(block as usize % 2)?;
            let id = SlotId { level, index };
            Some((id.start(block), id))
        })
    }

    /// Whether a slot lies in the horizon's block of its level: no higher level has anything before that ends.
    #[inline]
    fn is_present(&self, level: usize, start: u64) -> bool {
        (start ^ self.horizon) >> (BLOCK_BITS as usize * level) >> BLOCK_BITS == 0
    }

    /// Files what is in the inbox, and takes the timer in there.
    #[inline(never)]
    fn make_room(&mut self, now: u64, timer: u32) -> Place {
        self.file_inbox();
        if now >> self.shift >> BLOCK_BITS > self.horizon >> BLOCK_BITS {
            self.catch_up(now >> self.shift);
        }
        self.inbox.push(timer).unwrap_or(Place::in_run(0))
    }

    /// Files a record where it belongs by now.
    #[inline(always)]
    fn file(&mut self, timer: u32) {
        let record = &mut self.records[timer];
        let granule = record.due >> self.shift;
        if granule < self.horizon {
            return self.file_in_front(timer);
        }
        let (place, begun) = self.slots.link(timer, granule, record.due, record.deadline(&self.margins));
        record.place = place;
        if let Some(level) = begun {
            // The first of a slot, for one.
            self.gate = self.gate.min(self.opening(level, granule));
        }
    }

    /// [`file`](Self::file), out of line.
    #[inline(never)]
    fn refile(&mut self, timer: u32) {
        self.file(timer);
    }

    #[inline]
    fn file_in_front(&mut self, timer: u32) {
        let entry = self.records[timer].entry(timer);
        self.front.insert(entry, &mut self.records);
    }

    /// Takes a record out of where it is filed.
    #[inline(never)]
    fn take_out(&mut self, place: Place) {
        match place.filed() {
            Filed::Chunk { chunk, at } => {
                if let Some(home) = self.slots.chunks.remove(chunk, at) {
                    self.release(chunk, home);
                }
            }
            Filed::Inbox { at } => self.inbox.remove(at, &mut self.records),
            Filed::Run { at } => self.front.run.remove(at),
            Filed::Heap { at } => self.front.heap.remove(at, &mut self.records),
        }
    }

    /// The last timer of a chunk is gone: the chunk goes, too, but not at once.
    #[inline]
    fn release(&mut self, chunk: u32, home: Home) {
        if let Some(before) = self.slots.kept.keep(chunk, home) {
            if let Some(home) = self.slots.chunks.idle(before) {
                self.unlink(before, home);
            }
        }
    }

    /// Takes an empty chunk out of its list.
    #[inline(never)]
    fn unlink(&mut self, chunk: u32, home: Home) {
        let chain = &mut self.front.chain;
        if chain.is(home) {
            chain.leaves(chunk, self.slots.chunks.next(chunk));
            return self.slots.chunks.unlink(&mut chain.list, chunk);
        }
        let id = SlotId::of_home(home);
        let Some(slot) = self.slots.levels[id.level].slot_mut(id.index) else { return };
        self.slots.chunks.unlink(&mut slot.list, chunk);
        slot.chunks -= 1;
        if slot.list.is_empty() {
            self.slots.levels[id.level].clear(id.index, &mut self.slots.spare);
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
        self.move_horizon(to.max(self.horizon));
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
