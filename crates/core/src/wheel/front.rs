//! The front of the wheel: every timer that is filed below the horizon, in exact order.
//!
//! Slots say nothing about the order within them, and that order is to the nanosecond and, among equal
//! times, first come first served: also where a timer went straight to level 0 and an older one got
//! there by way of level 1. Order is therefore not kept but made, when a slot comes due:
//!
//! ```text
//!                        up to 4 chunks: sorted ────────────▶ run, up to 52 entries ─┐
//!   slot that came due ─┤                                      ▲                     ├─▶ the least of both
//!                        more: looked through, chunk by chunk ─┤ in order: a chunk   │
//!                                                              │ at a time           │
//!                                                              └ not: poured into ─▶ heap ─┘
//!                                              timers set below the horizon ────────▲
//! ```
//!
//! A slot of a hundred thousand timers that fall due together is handed out chunk by chunk from where it
//! lies, after one look through it. Nothing is handed out before that look is over; each chunk of it is a
//! quantum of work.

use super::Wheel;
use super::chunk::{Home, List, NIL, ROOM};
use super::heap::Heap;
use super::record::{Entry, Late, Place, Records};

#[derive(Debug)]
pub(super) struct Front {
    pub(super) heap: Heap,
    pub(super) run: Run,
    pub(super) chain: Chain,
}

/// A few chunks of entries in order.
#[derive(Debug)]
pub(super) struct Run {
    entries: [Entry; MOST_IN_RUN],
    from: usize,
    to: usize,
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
        highest: (u64, u64),
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

    /// Drops the least entry; its deadline. There must be one.
    #[inline]
    pub(super) fn drop_least(&mut self, records: &mut Records) -> u64 {
        match (self.run.first(), self.heap.first()) {
            (Some(run), heap) if heap.is_none_or(|heap| run.is_before(heap)) => {
                let deadline = run.deadline();
                self.run.from += 1;
                deadline
            }
            (_, Some(heap)) => {
                let deadline = heap.deadline();
                self.heap.remove(0, records);
                deadline
            }
            _ => u64::MAX,
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
        const NONE: Entry = Entry { due: 0, sequence: 0, timer: NIL, late: Late::NEVER };
        Run { entries: [NONE; MOST_IN_RUN], from: 0, to: 0 }
    }

    #[inline]
    fn first(&self) -> Option<&Entry> {
        self.entries[..self.to].get(self.from)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.from == self.to
    }

    #[inline]
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[self.from..self.to]
    }

    #[inline]
    pub(super) fn remove(&mut self, timer: u32) {
        if self.first().is_some_and(|entry| entry.timer == timer) {
            self.from += 1;
        } else if let Some(at) = self.entries().iter().position(|entry| entry.timer == timer) {
            let at = self.from + at;
            self.entries.copy_within(at + 1..self.to, at);
            self.to -= 1;
        }
    }

    /// Inserts an entry; there must be room. What comes in order goes to the end.
    #[inline]
    pub(super) fn insert(&mut self, entry: Entry) {
        if self.to - self.from > A_FEW && entry.is_before(&self.entries[self.to - A_FEW]) {
            return self.insert_in_the_middle(entry);
        }
        if self.to == MOST_IN_RUN {
            self.entries.copy_within(self.from.., 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        let mut at = self.to;
        self.to += 1;
        while at > self.from && entry.is_before(&self.entries[at - 1]) {
            self.entries[at] = self.entries[at - 1];
            at -= 1;
        }
        self.entries[at] = entry;
    }

    /// The shorter side makes room.
    #[inline(never)]
    fn insert_in_the_middle(&mut self, entry: Entry) {
        let (from, to) = (self.from, self.to);
        let at = from + self.entries[from..to].partition_point(|other| other.is_before(&entry));
        if from > 0 && (to == MOST_IN_RUN || at - from < to - at) {
            self.entries.copy_within(from..at, from - 1);
            self.entries[at - 1] = entry;
            self.from -= 1;
        } else {
            self.entries.copy_within(at..to, at + 1);
            self.entries[at] = entry;
            self.to += 1;
        }
    }

    #[inline]
    pub(super) fn begin(&mut self) {
        (self.from, self.to) = (0, 0);
    }
}

impl Chain {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// A chunk is about to leave the list: the look through it goes on behind.
    pub(super) fn leaves(&mut self, chunk: u32, behind: u32) {
        match &mut self.order {
            Order::Looking { next, .. } if *next == chunk => *next = behind,
            _ => {}
        }
    }
}

impl Wheel {
    /// A slot has come due: the front takes what it holds.
    #[inline]
    pub(super) fn ripen(&mut self, mut list: List, chunks: u32, home: Home) {
        if chunks <= 4 {
            self.front.run.begin();
            while !list.is_empty() {
                self.load(&mut list);
            }
        } else {
            let order = Order::Looking { next: list.head, highest: (0, 0) };
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
                self.front.run.begin();
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

    /// Moves the first chunk of a list into the run.
    #[inline]
    fn load(&mut self, list: &mut List) {
        let handful = self.slots.chunks.take_first(list);
        self.fetch(&handful);
        for timer in handful.iter() {
            let record = &mut self.records[timer];
            if record.due >> self.shift < self.horizon {
                record.place = Place::RUN;
                self.front.run.insert(record.entry(timer));
            } else {
                // Put off after it was filed.
                self.refile(timer);
            }
        }
    }

    fn look(&mut self, chunk: u32, mut highest: (u64, u64)) {
        let mut least = (u64::MAX, u64::MAX);
        let before = highest;
        let handful = self.slots.chunks.handful(chunk);
        self.fetch(&handful);
        for timer in handful.iter() {
            let record = &self.records[timer];
            if record.due >> self.shift < self.horizon {
                least = least.min((record.due, record.sequence));
                highest = highest.max((record.due, record.sequence));
            }
        }
        self.front.chain.order = if least > before {
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

/// So many entries are passed one after the other; a search costs as much.
const A_FEW: usize = 8;
/// Entries of the run: what is sorted in a microsecond at the worst, and all timers while there are few.
pub(super) const MOST_IN_RUN: usize = 64;

const _: () = assert!(MOST_IN_RUN >= 4 * ROOM);

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn entry(due: u64) -> Entry {
        Entry { due, sequence: 0, timer: due as u32, late: Late::NEVER }
    }

    /// A run of so many, due every ten nanoseconds from 1,000 on, of which `gone` have come out before.
    fn run(gone: u32, len: usize) -> Run {
        let mut run = Run::new();
        (0..gone).for_each(|timer| run.insert(entry(timer.into())));
        (0..gone).for_each(|timer| run.remove(timer));
        (0..len as u64).for_each(|at| run.insert(entry(1_000 + 10 * at)));
        run
    }

    /// About the few that are passed one by one, about twice as many, and more.
    const LENGTHS: [usize; 10] = [0, 1, 7, 8, 9, 10, 16, 17, 18, 43];

    /// Wherever an entry belongs the run is in order, and what makes room is the shorter side: the front, if it is
    /// more than a few entries from the end and the back is not shorter.
    #[test]
    fn the_shorter_side_makes_room() {
        for (gone, len) in [0, 1, 20].into_iter().flat_map(|gone| LENGTHS.map(move |len| (gone, len))) {
            for before in 0..=len {
                let mut run = run(gone, len);
                let (from, to) = (run.from, run.to);
                run.insert(entry(995 + 10 * before as u64));
                let is_front = len > A_FEW && from > 0 && before < len - before && before + A_FEW <= len;
                let expected = if is_front { (from - 1, to) } else { (from, to + 1) };
                assert_eq!((run.from, run.to), expected, "before entry {before} of {len}, {gone} gone");
                let dues: Vec<u64> = run.entries().iter().map(|entry| entry.due).collect();
                assert!(dues.is_sorted() && dues.len() == len + 1);
            }
        }
    }

    /// Where there is no room behind, there is before: the run begins anew, or makes room at its front.
    #[test]
    fn a_run_at_its_end_has_the_room_before_it() {
        for before in 0..=50 {
            let mut run = run((MOST_IN_RUN - 50) as u32, 50);
            assert_eq!((run.from, run.to), (MOST_IN_RUN - 50, MOST_IN_RUN));
            run.insert(entry(995 + 10 * before));
            assert!(run.entries().is_sorted_by_key(|entry| entry.due) && run.entries().len() == 51);
        }
    }
}
