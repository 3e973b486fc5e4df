//! The front of the wheel: every timer that is filed below the horizon, in exact order.
//!
//! Slots say nothing about the order within them, and that order is to the nanosecond and, among equal
//! times, first come first served: also where a timer went straight to level 0 and an older one got
//! there by way of level 1. Order is therefore not kept but made, when a slot comes due:
//!
//! ```text
//!                        up to 4 chunks ─────────────────────┐      ┌─ in order ─▶ run ──┐
//!   slot that came due ─┤                                    ├─▶ each                    ├─▶ the least of both
//!                        more: looked through, by the chunk ─┤      └─ not ─────▶ heap ──┘
//!                            in order: a chunk at a time     │
//!                            not: all of it                  │
//!                            timers set below the horizon ───┘
//! ```
//!
//! A slot of a hundred thousand timers that fall due together is handed out chunk by chunk from where it
//! lies, after one look through it. Nothing is handed out before that look is over; each chunk of it is a
//! quantum of work.

use super::Wheel;
use super::chunk::{Home, List, NIL, ROOM};
use super::heap::Heap;
use super::record::{Entry, Key, Place, Records, Sequence};

#[derive(Debug)]
pub(super) struct Front {
    pub(super) heap: Heap,
    pub(super) run: Run,
    pub(super) chain: Chain,
}

/// Entries in order: a queue that takes in only what comes after all it has. Periodic timers and those put off to the
/// same time from now do, and cost no search.
///
/// What is cancelled within leaves a gap, but not at the ends.
#[derive(Debug)]
pub(super) struct Run {
    entries: [Entry; ROOM_IN_RUN],
    from: usize,
    to: usize,
    live: usize,
}

/// The chunks of a slot that has come due.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) list: List,
    /// What its chunks call their slot.
    pub(super) home: Home,
    order: Order,
}

#[derive(Clone, Copy, Debug)]
enum Order {
    /// Chunks before `next` are in order, and `highest` is the last of what they hold.
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
            run: Run::new(),
            chain: Chain { list: List::EMPTY, home: Home(0), order: Order::Ordered },
        }
    }

    /// The least entry, provided that the chain has been seen to.
    #[inline]
    pub(super) fn least(&self) -> Option<&Entry> {
        match (self.run.first(), self.heap.first()) {
            (Some(run), Some(heap)) => Some(if heap.is_before(run) { heap } else { run }),
            (Some(run), None) => Some(run),
            (None, heap) => heap,
        }
    }

    /// The first entry of the run, if nothing else can be before it.
    #[inline]
    pub(super) fn only_run(&self) -> Option<&Entry> {
        let ordered = || self.chain.is_empty() || matches!(self.chain.order, Order::Ordered);
        self.run.first().filter(|_| self.heap.first().is_none() && ordered())
    }

    /// Takes an entry in: O(1) if it is the last of all that came in order, else O(log n).
    #[inline]
    pub(super) fn insert<E>(&mut self, entry: Entry, records: &mut Records<E>) {
        if self.run.has_room_for(&entry) {
            self.run.append(entry, records);
        } else {
            self.heap.push(entry, records);
        }
    }

    /// Drops the least entry. There must be one.
    #[inline]
    pub(super) fn drop_least<E>(&mut self, records: &mut Records<E>) {
        match (self.run.first(), self.heap.first()) {
            (Some(run), heap) if heap.is_none_or(|heap| run.is_before(heap)) => {
                self.run.remove(self.run.from);
            }
            _ => self.heap.remove(0, records),
        }
    }

    /// When the least is due, provided that the chain has been seen to, as it has when a turn is over;
    /// [`u64::MAX`] is never.
    #[inline]
    pub(super) fn least_due(&self) -> u64 {
        self.least().map_or(u64::MAX, |least| least.due)
    }
}

impl Run {
    pub(super) const fn new() -> Self {
        const NONE: Entry = Entry { due: 0, sequence: Sequence::FIRST, timer: NIL };
        Run { entries: [NONE; ROOM_IN_RUN], from: 0, to: 0, live: 0 }
    }

    #[inline]
    fn first(&self) -> Option<&Entry> {
        self.entries[..self.to].get(self.from)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries[self.from..self.to].iter().filter(|entry| entry.timer != NIL)
    }

    /// Whether it comes after all others, and there is room, if need be where the gaps are.
    #[inline]
    fn has_room_for(&self, entry: &Entry) -> bool {
        self.live == 0 || (self.live < MOST_IN_RUN && self.entries[self.to - 1].is_before(entry))
    }

    #[inline]
    fn append<E>(&mut self, entry: Entry, records: &mut Records<E>) {
        if self.to == ROOM_IN_RUN {
            self.close_gaps(records);
        }
        self.entries[self.to] = entry;
        records[entry.timer].place = Place::in_run(self.to);
        (self.to, self.live) = (self.to + 1, self.live + 1);
    }

    /// At most half of it is in use, so that each entry is moved once on average.
    #[inline(never)]
    fn close_gaps<E>(&mut self, records: &mut Records<E>) {
        let (from, to) = (self.from, self.to);
        (self.from, self.to) = (0, 0);
        for at in from..to {
            let entry = self.entries[at];
            if entry.timer != NIL {
                self.entries[self.to] = entry;
                records[entry.timer].place = Place::in_run(self.to);
                self.to += 1;
            }
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, at: usize) {
        self.live -= 1;
        if self.live == 0 {
            (self.from, self.to) = (0, 0);
            return;
        }
        self.entries[at].timer = NIL;
        while self.entries[self.from].timer == NIL {
            self.from += 1;
        }
        while self.entries[self.to - 1].timer == NIL {
            self.to -= 1;
        }
    }
}

impl Chain {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether the slot whose chunks have this home has come due.
    #[inline]
    pub(super) fn is(&self, home: Home) -> bool {
        !self.is_empty() && self.home == home
    }

    /// A chunk is about to leave the list: the look through it goes on behind.
    pub(super) fn leaves(&mut self, chunk: u32, behind: u32) {
        match &mut self.order {
            Order::Looking { next, .. } if *next == chunk => *next = behind,
            _ => {}
        }
    }
}

impl<E> Wheel<E> {
    /// A slot has come due: the front takes what it holds.
    #[inline]
    pub(super) fn ripen(&mut self, mut list: List, chunks: u32, home: Home) {
        if chunks <= 4 {
            while !list.is_empty() {
                self.load(&mut list);
            }
        } else {
            let order = Order::Looking { next: list.head, highest: Key::ZERO };
            self.front.chain = Chain { list, home, order };
        }
    }

    /// One quantum of work on the chain; true if the front's least entry is the least of all it has.
    #[inline]
    pub(super) fn see_to_chain(&mut self) -> bool {
        match self.front.chain.order {
            Order::Ordered if !self.front.run.is_empty() => true,
            Order::Ordered => {
                let mut list = self.front.chain.list;
                self.load(&mut list);
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

    /// Moves the first chunk of a list to the front.
    #[inline]
    fn load(&mut self, list: &mut List) {
        let handful = self.slots.chunks.take_first(list);
        self.fetch(&handful);
        for timer in handful.iter() {
            let entry = self.records[timer].entry(timer);
            if entry.due >> self.shift < self.horizon {
                self.front.insert(entry, &mut self.records);
            } else {
                // Put off after it was filed.
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

/// Entries of the run: all timers while there are few.
const MOST_IN_RUN: usize = super::small::MOST;
/// Places for them, and as many gaps.
const ROOM_IN_RUN: usize = 2 * MOST_IN_RUN;

const _: () = assert!(MOST_IN_RUN >= 4 * ROOM);

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::record::{Filed, Record};
    use super::*;

    /// Entries come and go at random, in order and not: the least is the least, each record knows its place, gaps are
    /// closed, and what comes in order never goes through the heap.
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
            for step in 0..if cfg!(miri) { 400 } else { 20_000u64 } {
                let timer = below(MOST_IN_RUN as u64) as u32;
                if let Some(at) = filed.iter().position(|entry| entry.timer == timer) {
                    filed.swap_remove(at);
                    match records[timer].place.filed() {
                        Filed::Run { at } => front.run.remove(at),
                        Filed::Heap { at } => front.heap.remove(at, &mut records),
                        place => panic!("{place:?}"),
                    }
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
                    let Filed::Run { at } = records[entry.timer].place.filed() else {
                        panic!("not in the run")
                    };
                    assert_eq!(front.run.entries[at].timer, entry.timer);
                }
            }
        }
    }
}
