//! The front of the wheel: every timer that is inserted below the horizon, in exact order.
//!
//! Slots are unordered, but timers come out in order to the nanosecond and, among equal times, first come
//! first served: also if a timer went straight to level 0 and an older one got there by way of level 1. So a
//! slot is sorted when it comes due:
//!
//! ```text
//!                        up to 4 chunks: sorted ─────────────┐      ┌─ in order ─▶ run ──┐
//!   slot that came due ─┤                                    ├─▶ each                    ├─▶ the least of both
//!                        more: looked through, by the chunk ─┤      └─ not ─────▶ heap ──┘
//!                            in order: a chunk at a time     │
//!                            not: all of it                  │
//!                            timers set below the horizon ───┘
//! ```
//!
//! A slot of a hundred thousand timers that fall due together is handed out chunk by chunk in place, after
//! one pass over it. No timer is handed out before that pass is over; each chunk of it is a quantum of work.

use alloc::vec::Vec;

use super::Wheel;
use super::chunk::{Home, List};
use super::heap::Heap;
use super::record::{Filed, NEAR, QUEUE, RUN, Records};
use super::run::Run;
use super::sizes::{CHUNK_ROOM, MOST_SORTED, MOST_WITHOUT_LEVELS, NIL};
use super::terms::{Entry, Key};

#[derive(Debug)]
pub(super) struct Front {
    /// Timers that came out of order.
    pub(super) heap: Heap,
    /// Timers that came out of slots, in order.
    pub(super) run: Run,
    /// While there are few: timers that came in order, of any time.
    pub(super) queue: Run,
    /// While there are few: the timers that come next, sorted together.
    pub(super) near: Run,
    pub(super) chain: Chain,
    /// While there are few and most are in the heap: a bit for each timer set, whether it came in order, the
    /// latest in the lowest bit; and `before`, when that one is due.
    streak: u32,
    before: u64,
    /// Entries that have come out of a slot, to be sorted.
    loose: Vec<Entry>,
}

/// The chunks of a slot that has come due.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) list: List,
    /// The `home` of its chunks.
    pub(super) home: Home,
    order: Order,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    /// Chunks before `next` are in order, and `highest` is their last entry.
    Looking {
        next: u32,
        highest: Key,
    },
    Ordered,
    Disordered,
}

impl Front {
    pub(super) const fn new() -> Self {
        Front {
            heap: Heap::new(),
            run: Run::new(MOST_IN_RUN, RUN),
            queue: Run::new(MOST_WITHOUT_LEVELS, QUEUE),
            near: Run::new(MOST_SORTED, NEAR),
            chain: Chain { list: List::EMPTY, home: Home(0), order: Order::Ordered },
            streak: 0,
            before: 0,
            loose: Vec::new(),
        }
    }

    /// Returns the least entry, provided that the chain has been seen to.
    #[inline(always)]
    pub(super) fn least(&self) -> Option<&Entry> {
        let least = lesser(lesser(self.queue.first(), self.near.first()), self.heap.first());
        if self.run.is_empty() { least } else { lesser(self.run.first(), least) }
    }

    /// Returns the first entry of the run, if nothing else can be before it.
    #[inline]
    pub(super) fn only_run(&self) -> Option<&Entry> {
        let ordered = self.chain.is_empty() || matches!(self.chain.order, Order::Ordered);
        self.run.first().filter(|_| ordered && self.queue.is_empty() && self.only_queue())
    }

    /// Returns the least entry, if the chain need not be seen to for it.
    #[inline]
    pub(super) fn least_seen(&self) -> Option<&Entry> {
        let is_seen = matches!(self.chain.order, Order::Ordered) && !self.run.is_empty();
        if self.chain.is_empty() || is_seen { self.least() } else { None }
    }

    /// Returns whether all entries came in order.
    #[inline]
    pub(super) fn only_queue(&self) -> bool {
        self.heap.is_empty() && self.near.is_empty()
    }

    /// Returns whether to queue an entry, while there are few: it comes after all in the queue, and others
    /// come in order as well. If most are in the heap, a streak must show that: otherwise random timers would
    /// spread over queue and heap, and branches would be mispredicted.
    #[inline(always)]
    pub(super) fn is_for_queue(&mut self, entry: &Entry) -> bool {
        if self.heap.len() > self.queue.len() && !self.goes_on(entry.due) {
            return false;
        }
        self.queue.has_room_for(entry)
    }

    /// Records a due time; returns whether the last eight came in order.
    #[inline]
    fn goes_on(&mut self, due: u64) -> bool {
        // Branchless, because the branch would be unpredictable.
        self.streak = self.streak << 1 | u32::from(due >= self.before);
        self.before = due;
        self.streak & STREAK == STREAK
    }

    /// Returns the number of timers here that did not come out of slots.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.heap.len() + self.queue.len() + self.near.len()
    }

    /// Inserts an entry: O(1) if it comes after all that came in order, otherwise O(log n).
    #[inline]
    pub(super) fn insert<E>(&mut self, entry: Entry, records: &mut Records<E>) {
        if self.run.has_room_for(&entry) {
            records[entry.timer].place = self.run.append(entry, records);
        } else {
            records[entry.timer].place = self.heap.push(entry, records);
        }
    }

    /// Sorts the entries that came out of a slot, and inserts them.
    #[inline]
    fn insert_loose<E>(&mut self, records: &mut Records<E>) {
        let mut loose = core::mem::take(&mut self.loose);
        if let [first, _, ..] = loose[..] {
            loose.sort_unstable_by_key(|entry| entry.order(first.sequence));
        }
        loose.drain(..).for_each(|entry| self.insert(entry, records));
        self.loose = loose;
    }

    /// Takes the least entry out, if it comes before `limit`.
    #[inline(always)]
    pub(super) fn take_least<E>(&mut self, limit: Key, records: &mut Records<E>) -> Option<Entry> {
        let least = *self.least().filter(|least| least.key().is_before(limit))?;
        let is_least = |first: Option<&Entry>| first.is_some_and(|first| first.timer == least.timer);
        if is_least(self.queue.first()) {
            self.queue.drop_first();
        } else if is_least(self.near.first()) {
            self.near.drop_first();
        } else if is_least(self.heap.first()) {
            self.heap.remove(0, records);
        } else {
            self.run.drop_first();
        }
        Some(least)
    }

    /// Takes out the entry of this place, if it is one of the front's. Returns whether it may have been the
    /// least.
    #[inline]
    pub(super) fn remove<E>(&mut self, filed: Filed, records: &mut Records<E>) -> bool {
        match filed {
            Filed::Queue { at } => self.queue.remove(at),
            Filed::Run { at } => self.run.remove(at),
            Filed::Near { at } => self.near.remove(at),
            Filed::Heap { at } => {
                self.heap.remove(at, records);
                at == 0
            }
            Filed::Chunk { .. } | Filed::Inbox { .. } | Filed::Later { .. } => false,
        }
    }

    /// Returns when the least is due, provided that the chain has been seen to, as after a turn; [`u64::MAX`]
    /// is never.
    #[inline]
    pub(super) fn least_due(&self) -> u64 {
        self.least().map_or(u64::MAX, |least| least.due)
    }

    /// Makes room for `timers` entries.
    pub(super) fn reserve<E>(&mut self, timers: usize, records: &mut Records<E>) {
        self.heap.reserve(timers);
        self.queue.reserve(2 * MOST_WITHOUT_LEVELS, records);
        self.near.reserve(MOST_SORTED, records);
        self.run.reserve(2 * MOST_IN_RUN, records);
    }

    pub(super) fn shrink(&mut self) {
        self.heap.shrink();
        self.queue.shrink();
    }
}

#[inline]
fn lesser<'a>(one: Option<&'a Entry>, other: Option<&'a Entry>) -> Option<&'a Entry> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.is_before(one) { other } else { one }),
        (one, other) => one.or(other),
    }
}

impl Chain {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether the slot whose chunks have this home has come due.
    #[inline]
    pub(super) fn is(&self, home: Home) -> bool {
        !self.is_empty() && self.home == home
    }

    /// Notes that a chunk is about to leave the list: the pass over it continues behind.
    pub(super) fn leaves(&mut self, chunk: u32, behind: u32) {
        match &mut self.order {
            Order::Looking { next, .. } if *next == chunk => *next = behind,
            _ => {}
        }
    }
}

impl<E> Wheel<E> {
    /// Takes the timers of a slot that has come due.
    #[inline]
    pub(super) fn ripen(&mut self, mut list: List, chunks: u32, home: Home) {
        if chunks <= 4 {
            self.front.loose.reserve(MOST_IN_RUN);
            while !list.is_empty() {
                self.load(&mut list, |front, entry, _| front.loose.push(entry));
            }
            self.front.insert_loose(&mut self.records);
        } else {
            let order = Order::Looking { next: list.head, highest: Key::ZERO };
            self.front.chain = Chain { list, home, order };
        }
    }

    /// Does one quantum of work on the chain. Returns whether the front's least entry is then known.
    #[inline]
    pub(super) fn see_to_chain(&mut self) -> bool {
        match self.front.chain.order {
            Order::Ordered if !self.front.run.is_empty() => true,
            Order::Ordered => {
                let mut list = self.front.chain.list;
                self.load(&mut list, Front::insert);
                self.front.chain.list = list;
                !self.front.run.is_empty()
            }
            Order::Looking { next: NIL, .. } => {
                self.front.chain.order = Order::Ordered;
                false
            }
            Order::Looking { next, highest } => {
                self.look(next, highest);
                false
            }
            Order::Disordered => {
                self.pour();
                self.front.chain.is_empty()
            }
        }
    }

    /// Takes the first chunk out of a list, for the front.
    #[inline(always)]
    fn load(&mut self, list: &mut List, keep: impl Fn(&mut Front, Entry, &mut Records<E>)) {
        let handful = self.slots.chunks.take_first(list);
        self.fetch(&handful);
        for timer in handful.iter() {
            let entry = self.records[timer].entry(timer);
            if entry.due >> self.shift < self.horizon {
                keep(&mut self.front, entry, &mut self.records);
            } else {
                // Postponed after it was inserted.
                self.refile(timer);
            }
        }
    }

    fn look(&mut self, chunk: u32, before: Key) {
        let (mut highest, mut is_ordered) = (before, true);
        let handful = self.slots.chunks.handful(chunk);
        self.fetch(&handful);
        for timer in handful.iter() {
            let record = &self.records[timer];
            if record.due >> self.shift < self.horizon {
                is_ordered &= before.is_before(record.key());
                if highest.is_before(record.key()) {
                    highest = record.key();
                }
            }
        }
        self.front.chain.order = if is_ordered {
            Order::Looking { next: self.slots.chunks.next(chunk), highest }
        } else {
            Order::Disordered
        };
    }

    /// Moves a chunk of the chain into the heap.
    fn pour(&mut self) {
        let mut list = self.front.chain.list;
        let handful = self.slots.chunks.take_first(&mut list);
        self.fetch(&handful);
        self.front.chain.list = list;
        for timer in handful.iter() {
            self.refile(timer);
        }
    }
}

/// Random times come in order eight times in a row with probability 1 in 9! = 362,880.
const STREAK: u32 = 0xFF;
/// Entries of the run: the chunks of a slot that are loaded at once.
const MOST_IN_RUN: usize = 4 * CHUNK_ROOM;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::record::Record;
    use super::super::terms::Sequence;
    use super::*;

    /// Entries come and go at random, in order and not: the least is right, each record knows its place, gaps
    /// are closed, and entries that come in order never go through the heap.
    #[test]
    fn the_front_is_a_queue_of_what_comes_in_order() {
        for out_of_order in [0, 1, 5] {
            let (mut front, mut records) = (Front::new(), Records::<()>::new());
            (0..MOST_IN_RUN).for_each(|_| records.push(Record::new(1)));
            let mut filed: Vec<Entry> = Vec::new();
            let mut random = 7u64;
            let mut below = |limit: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % limit
            };
            for step in 0..crate::effort::operations(20_000) {
                let timer = below(MOST_IN_RUN as u64) as u32;
                if let Some(at) = filed.iter().position(|entry| entry.timer == timer) {
                    filed.swap_remove(at);
                    front.remove(records[timer].place.filed(), &mut records);
                }
                let due = 1_000 + step - if below(10) < out_of_order { below(200) } else { 0 };
                let entry = Entry { due: due.max(1), sequence: Sequence::FIRST, timer };
                if below(4) > 0 {
                    filed.push(entry);
                    front.insert(entry, &mut records);
                }
                let least = filed.iter().map(|entry| entry.due).min();
                assert_eq!(front.least().map(|entry| entry.due), least);
                assert!(out_of_order > 0 || front.heap.first().is_none());
                assert!(front.run.entries().is_sorted_by_key(|entry| entry.due));
                for entry in front.run.entries() {
                    assert!(
                        matches!(records[entry.timer].place.filed(), Filed::Run { .. }),
                        "not in the run"
                    );
                }
            }
        }
    }
}
