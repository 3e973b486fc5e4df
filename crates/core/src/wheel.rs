//! A hashed hierarchical timing wheel that does not stall.
//!
//! Setting, moving and cancelling a timer and asking "anything due?" cost the same however many timers there
//! are, and so does the longest call. It is Varghese and Lauck's scheme 7 (*Hashed and hierarchical timing
//! wheels*, SOSP 1987), designed around the main cost of a million timers on a present machine, cache misses:
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
//!   set ─┴─▶ inbox, 16 timers not inserted yet: inserted together, or cancelled before that
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
//! The granule is the largest power of two in a tick; up to 32 times as wide if the timers were that far apart when they became too
//! many for [few](small). A timer that lies between the two reaches goes to this level or the next, depending
//! on where in its block the horizon is.
//!
//! Read in this order: [`record`], [`margin`], [`chunk`], [`level`], [`slots`]: the data. [`inbox`]: how
//! timers come in. [`rearm`]: how they are postponed. [`advance`]: how time advances. [`migration`]: how they
//! cascade. [`front`]: how they come out in order. [`small`], [`later`]: few timers. [`deadline`]:
//! when the hardware timer must fire.
//!
//! - **Re-arming** to any time not before its slot's lower bound writes only the record: the timer moves on
//!   when its old slot comes up. Most network timers are postponed again and again and never expire.
//! - **The gate** is a lower bound of the next due time and the next migration, in one word. It is lowered
//!   when a timer is set, and updated when a timer comes out and at the end of a turn.
//! - **Ownership.** The wheel stores records by index and keeps their events, without handles:
//!   [`SoftTimers`](crate::SoftTimers) issues those, [`KeyedTimers`](crate::KeyedTimers) uses its callers'
//!   numbers.

mod advance;
mod chunk;
mod deadline;
mod front;
mod heap;
mod inbox;
mod later;
mod level;
mod margin;
mod migration;
mod rearm;
pub(crate) mod record;
mod run;
mod segments;
mod shrink;
pub(crate) mod sizes;
mod slots;
pub(crate) mod small;
pub(crate) mod terms;
#[cfg(test)]
mod tests;

use chunk::{Handful, Home};
use deadline::Earliest;
use front::Front;
use inbox::Inbox;
use later::Later;
use level::{BLOCK_BITS, SlotId};
use margin::Margins;
use migration::Migrations;
use record::{Filed, Held, INBOX, Location, Record, Records};
use sizes::{LEAST_SHIFT, MOST_SHIFT};
use slots::Slots;
use terms::{Entry, Key, Terms};

#[derive(Debug)]
pub(crate) struct Wheel<E> {
    /// The time before which there is no work: no timer is due, no chunk has to move.
    gate: u64,
    /// The time before which no timer is due.
    least: u64,
    /// The time before which no slot has to be prepared for migration.
    opening: u64,
    /// Granules below this are in the front, others in slots.
    horizon: u64,
    earliest: Earliest,
    /// The logarithm of the width of a granule, and of the least.
    shift: u32,
    least_shift: u32,
    len: u32,
    /// The most timers that need no slots.
    small: u32,
    pub(crate) records: Records<E>,
    margins: Margins,
    inbox: Inbox,
    slots: Slots,
    migrations: Migrations,
    front: Front,
    later: Later,
    /// Records fetched; tests bound a call by it.
    #[cfg(test)]
    touched: usize,
}

/// The result of one step of a turn, as by [`SoftTimers::step`](crate::SoftTimers::step): a bounded piece of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<T> {
    /// The next due event.
    Fired(T),
    /// Some structural work was done and more is left before the next due event; call again.
    MoreWork,
    /// The turn is over.
    Done,
}

impl<E> Wheel<E> {
    /// Makes an empty wheel for due times that are rounded to `tick` nanoseconds; with a tick of 1 any are
    /// allowed.
    ///
    /// A granule is at least as wide as a tick; when slots begin to be used it may be up to 32 times as wide.
    pub(crate) fn new(tick: u64, small: usize) -> Self {
        let shift = tick.max(1).ilog2().clamp(LEAST_SHIFT, MOST_SHIFT);
        Wheel {
            gate: u64::MAX,
            least: u64::MAX,
            opening: u64::MAX,
            horizon: u64::MAX,
            earliest: Earliest::new(),
            shift,
            least_shift: shift,
            len: 0,
            small: small as u32,
            records: Records::new(),
            margins: Margins::new(),
            inbox: Inbox::new(),
            slots: Slots::new(),
            migrations: Migrations::new(),
            front: Front::new(),
            later: Later::new(),
            #[cfg(test)]
            touched: 0,
        }
    }

    /// The number of timers inserted.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the time before which there is no work: "anything due?" in one compare.
    #[inline]
    pub(crate) fn gate(&self) -> u64 {
        self.gate
    }

    /// Sets the timer of a record that is not pending: O(1), O(log n) while there are few. Returns the
    /// record's generation.
    #[inline]
    pub(crate) fn insert(&mut self, now: u64, timer: u32, terms: &Terms, event: E) -> u32 {
        let is_few = self.is_small() && self.len < self.small;
        self.len += 1;
        let place = self.place(is_few, now, timer, terms);
        self.announce(terms);
        let margin = self.margins.keep(terms);
        let record = &mut self.records[timer];
        record.due = terms.due();
        record.held = Some(Held { sequence: terms.key.sequence, margin, event });
        record.place = place;
        record.generation
    }

    /// Lowers the wheel's bounds for a new timer, but for `least`, which the front knows while there are few.
    #[inline(always)]
    fn announce(&mut self, terms: &Terms) {
        self.gate = self.gate.min(terms.due());
        self.earliest.include(terms.deadline);
    }

    /// Finds a place for a new timer, which is one of few or begins a wheel, and puts it there.
    #[inline(always)]
    fn place(&mut self, is_few: bool, now: u64, timer: u32, terms: &Terms) -> Location {
        if !is_few {
            if self.is_small() {
                self.begin_wheel(now);
            }
            self.least = self.least.min(terms.due());
        }
        if is_few || self.is_closing() {
            return self.place_of_few(Entry::new(terms.key, timer));
        }
        self.inbox.push(timer, terms.due()).unwrap_or_else(|| self.make_room(now, timer, terms.due()))
    }

    /// Takes a pending timer out: O(1), O(log n) while there are few. Returns its event; `then` gets its
    /// record.
    #[inline(always)]
    pub(crate) fn remove(&mut self, timer: u32, then: impl FnOnce(&mut Record<E>)) -> Option<E> {
        let (_, event, place) = self.taken(timer, |record| {
            let place = record.place;
            then(record);
            place
        })?;
        if let Some(at) = place.at_later() {
            self.later.remove(at, &mut self.records);
        } else if !self.inbox.take_back(place) {
            self.take_out(place);
        }
        self.forget_one();
        Some(event)
    }

    /// Takes out and returns the least timer before `limit`; `None` when the turn is over. Inlined for the
    /// first of the queue.
    #[inline(always)]
    pub(crate) fn take_due(&mut self, limit: Key) -> Option<u32> {
        if self.is_small()
            && self.front.only_queue()
            && let found @ Some(_) = self.take_queued(limit)
        {
            return found;
        }
        self.take_due_slowly(limit)
    }

    /// [`take_due`](Self::take_due), out of line for any other position of the least timer.
    #[inline(never)]
    fn take_due_slowly(&mut self, limit: Key) -> Option<u32> {
        loop {
            match self.pop(limit) {
                Step::Fired(timer) => return Some(timer),
                // While there are few, the gate is already right, and closed for this turn.
                Step::MoreWork if self.is_small() && limit.due < self.gate => {
                    self.refresh_earliest();
                    return None;
                }
                Step::MoreWork => {}
                Step::Done if self.tidy(limit.due) => {}
                Step::Done => return None,
            }
        }
    }

    /// Takes the least timer out, if it comes before `limit`: one quantum of work, at most four chunks of 13
    /// timers and the inbox. Its record still has to be updated: see [`taken`](Self::taken).
    #[inline]
    pub(crate) fn pop(&mut self, limit: Key) -> Step<u32> {
        if self.is_small() {
            return self.pop_of_few(limit);
        }
        if self.is_run_next() {
            return self.pop_of_run(limit);
        }
        if !self.is_front_next() {
            let found = self.pull(limit.due);
            if !matches!(found, Step::Fired(_)) {
                return found;
            }
        }
        let Some(least) = self.front.take_least(limit, &mut self.records) else { return Step::Done };
        self.handed_out(&least)
    }

    /// Returns whether the first of the run is the least of all, without any other check.
    #[inline]
    fn is_run_next(&self) -> bool {
        self.front.only_run().is_some_and(|first| self.is_before_others(first))
    }

    /// Returns whether the least of the front is the least of all.
    #[inline]
    fn is_front_next(&self) -> bool {
        let least = self.front.least_seen();
        least.is_some_and(|least| self.is_past(least.due) && self.is_before_others(least))
    }

    /// Returns whether it comes before all that are neither at the front nor in slots.
    #[inline]
    fn is_before_others(&self, entry: &Entry) -> bool {
        entry.due < self.inbox.least_due && self.later.is_after(entry.key())
    }

    /// [`pop`](Self::pop) if the run is next. If the run is next again afterwards, sets the gate to that
    /// timer's due time.
    #[inline]
    fn pop_of_run(&mut self, limit: Key) -> Step<u32> {
        let first = self.front.run.first().filter(|first| first.key().is_before(limit));
        let Some(&least) = first else { return Step::Done };
        self.front.run.drop_first();
        let found = self.handed_out(&least);
        if found != Step::MoreWork
            && let Some(next) = self.front.run.first()
            && self.is_before_others(next)
        {
            self.least = next.due;
            self.gate = next.due.min(self.opening).min(self.migrations.next);
        }
        found
    }

    /// Handles an entry that has left the front; its timer may have been postponed since.
    #[inline]
    fn handed_out(&mut self, least: &Entry) -> Step<u32> {
        if self.records[least.timer].is_at(least) {
            self.forget_one();
            return Step::Fired(least.timer);
        }
        self.refile(least.timer);
        Step::MoreWork
    }

    /// Takes the requested time and the event of a [popped](Self::pop) timer, and the result of `then` on its
    /// record.
    #[inline(always)]
    pub(crate) fn taken<R>(
        &mut self,
        timer: u32,
        then: impl FnOnce(&mut Record<E>) -> R,
    ) -> Option<(u64, E, R)> {
        let record = &mut self.records[timer];
        let held = record.held.take()?;
        let asked = self.margins.asked(held.margin, record.due);
        self.earliest.exclude(self.margins.deadline(held.margin, record.due));
        self.margins.release(held.margin);
        Some((asked, held.event, then(record)))
    }

    #[inline]
    fn forget_one(&mut self) {
        self.len -= 1;
        if self.len == 0 {
            (self.gate, self.least) = (u64::MAX, u64::MAX);
            self.earliest.clear();
        }
    }

    /// Finds the least timer, if one quantum of work suffices.
    ///
    /// May also find timers beyond `until`, which is in nanoseconds.
    #[inline(never)]
    pub(crate) fn pull(&mut self, until: u64) -> Step<u32> {
        if !self.inbox.is_empty() {
            self.file_inbox();
        }
        if !self.front.chain.is_empty() && !self.see_to_chain() {
            return Step::MoreWork;
        }
        if self.wants_refill() {
            self.refill();
            return Step::MoreWork;
        }
        let mut until = until >> self.shift;
        if let Some(least) = self.front.least() {
            if self.is_past(least.due) {
                return Step::Fired(least.timer);
            }
            // An entry may be at the front since there were few timers: slots may have others before it.
            until = until.min(least.due >> self.shift);
        }
        let found = !self.is_small() && self.advance(until);
        match self.front.least() {
            // Others due at that time may be in a chain.
            Some(least) if self.is_past(least.due) && self.front.chain.is_empty() => Step::Fired(least.timer),
            _ if found => Step::MoreWork,
            _ => Step::Done,
        }
    }

    /// Returns whether no slot can have a timer that is due by this time.
    #[inline]
    fn is_past(&self, due: u64) -> bool {
        due >> self.shift < self.horizon
    }

    /// Does one quantum of maintenance after a turn, which keeps later turns short. Returns false when
    /// nothing is left to do.
    #[inline]
    pub(crate) fn tidy(&mut self, now: u64) -> bool {
        if let Some(&least) = self.front.least()
            && least.due <= now
            && self.records[least.timer].key() != least.key()
        {
            // Postponed exactly to this time, and later again: its old entry is in the past.
            self.take_out(self.records[least.timer].place);
            self.refile(least.timer);
            if self.is_small() {
                self.settle_now();
            }
            return true;
        }
        if self.is_small() {
            self.settle_now();
            self.refresh_earliest();
            return false;
        }
        self.tidy_slots(now)
    }

    #[inline(never)]
    fn tidy_slots(&mut self, now: u64) -> bool {
        if self.migrate_in_time(now) {
            return true;
        }
        if self.wants_refill() {
            self.refill();
        }
        self.end_wheel();
        let (due, opening) = self.look_ahead();
        self.least = due.min(self.front.least_due());
        self.opening = opening;
        self.gate = self.least.min(opening).min(self.migrations.next);
        self.refresh_earliest();
        false
    }

    /// Returns a time before which no timer is due; [`u64::MAX`] if there is none. Exact after a turn, unless
    /// a slot's bound is stale; a timer that was handed out or cancelled since may still count.
    #[inline]
    pub(crate) fn next_due(&self) -> u64 {
        if self.is_small() { self.next_due_of_few() } else { self.least }
    }

    /// Inserts the timers of the inbox, and puts this timer there.
    #[inline(never)]
    fn make_room(&mut self, now: u64, timer: u32, due: u64) -> Location {
        self.file_inbox();
        if now >> self.shift >> BLOCK_BITS > self.horizon >> BLOCK_BITS {
            self.catch_up(now >> self.shift);
        }
        self.inbox.push(timer, due).unwrap_or(Location::new(INBOX, 0))
    }

    /// Inserts a record at its present position.
    #[inline(always)]
    fn file(&mut self, timer: u32) {
        let record = &mut self.records[timer];
        let granule = record.due >> self.shift;
        if granule < self.horizon {
            return self.file_at_front(timer);
        }
        let (place, begun) = self.slots.link(timer, granule, record.due, record.deadline(&self.margins));
        record.place = place;
        if let Some(level) = begun {
            // For example, the first timer of a slot.
            self.opening = self.opening.min(self.opening(level, granule));
            self.gate = self.gate.min(self.opening);
        }
    }

    /// [`file`](Self::file), out of line.
    #[inline(never)]
    fn refile(&mut self, timer: u32) {
        self.file(timer);
    }

    #[inline]
    fn file_at_front(&mut self, timer: u32) {
        let entry = self.records[timer].entry(timer);
        if self.is_small() {
            self.file_of_few(entry);
        } else if self.front.chain.is_empty() {
            self.front.insert(entry, &mut self.records);
        } else {
            // While a chain is handed out it uses the run: the run's first entry would be taken for the least
            // of the chain.
            self.records[timer].place = self.front.heap.push(entry, &mut self.records);
        }
    }

    /// Takes a record out of its position.
    #[inline(never)]
    fn take_out(&mut self, place: Location) {
        match place.filed() {
            Filed::Chunk { chunk, at } => {
                if let Some(home) = self.slots.chunks.remove(chunk, at) {
                    self.release(chunk, home);
                }
            }
            Filed::Inbox { at } => self.inbox.remove(at, &mut self.records),
            Filed::Later { at } => self.later.remove(at, &mut self.records),
            filed => {
                let first = self.front.remove(filed, &mut self.records);
                if first && self.is_small() && !self.later.is_empty() {
                    self.settle_now();
                }
            }
        }
    }

    /// Releases a chunk whose last timer is gone: it is kept for a while before it is freed.
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

    /// Prefetches all records of a chunk at once. Handled one after the other, each would wait for its own
    /// cache miss: half the cost of a migration.
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
