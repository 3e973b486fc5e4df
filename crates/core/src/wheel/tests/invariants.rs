//! Invariants inside the wheel, checked after every operation.
//!
//! To the model that the tests of handles and keys have, a wheel is a closed box: a timer in the wrong slot still comes
//! out right if somebody happens to look in time, and a bound that is too low costs a look that nobody counts. Here a
//! random [`Program`] uses a wheel as its owners do, and after each operation the box is opened:
//!
//! ```text
//!   gate ≤ next due ≤ every due time                 terms: what was set
//!   earliest ≤ every deadline; = while few             ║ the same
//!                                                    record ── says where ──▶ run, queue, near, heap, later, inbox, chunk
//!                                                      ▲                             │
//!                                                      └─────── name it, once ───────┘
//!   a level above 0:
//!     ──┬──────┬──────┬──────┬─ … ─┬──────┬──        a slot:
//!       │  ▲   │ next │      │     │ far  │            begin ≤ due times in it
//!     ──┴──┼───┴──────┴──────┴─ … ─┴──────┴──          least due ≤ due times in it
//!       horizon    │             ▲                     row's least deadline ≤ slot's ≤ deadlines in it
//!       empty,     migration     the gate opens
//!       or overdue is set        a slot before
//! ```

mod program;

#[cfg(test)]
extern crate std;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::wheel::Wheel;
use crate::wheel::chunk::List;
use crate::wheel::level::{BLOCK, BLOCK_BITS, Slot};
use crate::wheel::record::Filed;
use crate::wheel::sizes::{HEAP_ARITY, MOST_SORTED, NIL};
use crate::wheel::terms::{Entry, Terms};
use program::Program;

/// `SOFTTIMERS_OPERATIONS` says how many operations, up to 10⁷. A failure names its program.
#[test]
fn every_operation_leaves_the_wheel_in_order() {
    let asked = std::env::var("SOFTTIMERS_OPERATIONS").ok();
    let default = crate::effort::operations(60_000);
    let operations: u64 = asked.map_or(default, |count| count.parse().expect("a number of operations"));
    let programs = operations.min(10_000_000).div_ceil(program::OPERATIONS);
    for number in 0..programs {
        Program::new(number).run();
    }
    std::println!("operations: {}", programs * program::OPERATIONS);
}

/// A wheel and what is inserted in it.
struct Inside<'a> {
    wheel: &'a Wheel<()>,
    filed: &'a BTreeMap<u32, Terms>,
    /// A turn has just come to its end.
    settled: bool,
}

impl Inside<'_> {
    fn check(&self) {
        assert_eq!(self.wheel.len(), self.filed.len());
        self.check_answers();
        let mut places = self.check_records();
        self.check_front(&places);
        self.check_later(&places.later);
        let mut chunks = self.check_levels();
        chunks.extend(self.chunks(self.wheel.front.chain.list));
        let mut named: Vec<_> = self.named(&chunks).collect();
        named.sort_unstable();
        places.chunks.sort_unstable();
        assert_eq!(named, places.chunks, "(chunk, timer) by the chunks, and by the records");
        let idle = chunks.iter().filter(|&&chunk| self.wheel.slots.chunks.idle(chunk).is_some());
        assert!(idle.count() <= KEPT, "more empty chunks are in their lists than are kept");
        if self.wheel.is_small() {
            let few = places.run.len()
                + places.queue.len()
                + places.near.len()
                + places.heap.len()
                + places.later.len();
            assert!(few == self.filed.len() && chunks.is_empty(), "few, and one is in a slot");
            assert!(!self.wheel.wants_refill(), "the least of few is not at the front");
        }
    }

    /// When to look: never too late, and exact while there are few.
    fn check_answers(&self) {
        let wheel = self.wheel;
        let due = self.filed.values().map(Terms::due).min().unwrap_or(u64::MAX);
        let deadline = self.filed.values().map(|terms| terms.deadline).min().unwrap_or(u64::MAX);
        assert!(wheel.gate() <= wheel.next_due() && wheel.next_due() <= due);
        assert!(wheel.earliest_deadline() <= deadline);
        if wheel.is_small() && self.filed.len() <= 128 {
            assert_eq!((wheel.next_due(), wheel.earliest_deadline()), (due, deadline), "few, and not exact");
        } else if !self.filed.is_empty() {
            assert!(wheel.earliest_deadline() >= wheel.gate(), "whoever looks then finds the gate closed");
        }
    }

    /// Each record has the terms it was set with, and says that it is somewhere.
    fn check_records(&self) -> Places {
        let mut places = Places::default();
        for timer in 0..self.wheel.records.len() as u32 {
            let record = &self.wheel.records[timer];
            let Some(terms) = self.filed.get(&timer) else {
                assert!(!record.is_filed(), "timer {timer} is not gone");
                continue;
            };
            let margin = record.held.as_ref().expect("it is pending").margin;
            let asked = self.wheel.margins.asked(margin, record.due);
            let kept = Terms { key: record.key(), asked, deadline: record.deadline(&self.wheel.margins) };
            assert_eq!(kept, *terms, "timer {timer}");
            match record.place.filed() {
                Filed::Run { at } => places.run.push((at, record.entry(timer))),
                Filed::Near { at } => places.near.push((at, record.entry(timer))),
                Filed::Queue { at } => places.queue.push((at, record.entry(timer))),
                Filed::Heap { at } => places.heap.push((at, record.entry(timer))),
                Filed::Later { at } => places.later.push((at, record.entry(timer))),
                Filed::Inbox { at } => {
                    assert!(self.wheel.inbox.least_due <= terms.due());
                    places.inbox.push(at);
                }
                Filed::Chunk { chunk, .. } => places.chunks.push((chunk, timer)),
            }
        }
        places
    }

    /// The front is in order: by the times of the entries, which are those of the timers or, where they were postponed,
    /// before them.
    fn check_front(&self, places: &Places) {
        let Wheel { front, inbox, .. } = self.wheel;
        let runs = [(&front.run, &places.run), (&front.queue, &places.queue), (&front.near, &places.near)];
        for (run, places) in runs {
            assert!(run.entries().is_sorted_by(|one, other| one.is_before(other)));
            assert_eq!((run.entries().count(), run.len()), (places.len(), places.len()));
            for &(at, timer) in places {
                assert!(run.in_place(at).is_some_and(|entry| is_of(entry, &timer)));
            }
        }
        for &(at, timer) in &places.heap {
            assert!(front.heap.at(at).is_some_and(|entry| is_of(entry, &timer)));
            let parent = at.checked_sub(1).and_then(|below| front.heap.at(below / HEAP_ARITY));
            assert!(parent.is_none_or(|parent| !front.heap.at(at).expect("it is there").is_before(parent)));
        }
        let heap = || places.heap.iter().map(|(_, entry)| entry);
        let deadline = heap().map(|entry| self.filed[&entry.timer].deadline).min().unwrap_or(u64::MAX);
        let found = |most| {
            front.heap.least(u64::MAX, most, |timer| self.wheel.records[timer].deadline(&self.wheel.margins))
        };
        assert_eq!(found(usize::MAX), deadline);
        assert!(found(5) <= deadline);
        assert!(no_gap(places.heap.iter().map(|&(at, _)| at)) && no_gap(places.inbox.iter().copied()));
        assert_eq!(inbox.is_empty(), places.inbox.is_empty());
    }

    /// The entries for later have the times of the timers, all after what is to come next.
    fn check_later(&self, places: &[(usize, Entry)]) {
        let entries = self.wheel.later.entries();
        assert!(entries.len() == places.len() && no_gap(places.iter().map(|&(at, _)| at)));
        // Those that come next move there without an allocation.
        assert!(self.wheel.front.near.room() >= self.wheel.later.room().min(MOST_SORTED));
        for (at, timer) in places {
            assert!(entries[*at].timer == timer.timer && entries[*at].key() == timer.key());
            assert!(self.wheel.later.until.is_before(timer.key()));
        }
    }

    /// Slots are not behind the horizon, and keep what they promise. Their chunks.
    fn check_levels(&self) -> Vec<u32> {
        let mut chunks = Vec::new();
        for (level, rows) in self.wheel.slots.levels.iter().enumerate() {
            let block = self.wheel.horizon / width(level) / BLOCK as u64;
            for block in [block, block + 1] {
                for (first, row) in rows.rows(block as usize % 2) {
                    for (at, slot) in row.slots() {
                        let number = block * BLOCK as u64 + ((first + at) % BLOCK) as u64;
                        assert!(row.least_deadline <= slot.least_deadline);
                        chunks.extend(self.check_slot(level, number * width(level), slot));
                    }
                }
            }
        }
        chunks
    }

    fn check_slot(&self, level: usize, start: u64, slot: &Slot) -> Vec<u32> {
        let chunks = self.chunks(slot.list);
        assert!(chunks.len() == slot.chunks as usize && !chunks.is_empty());
        let mut timers = self.named(&chunks).map(|(_, timer)| timer).peekable();
        self.check_is_ahead(level, start);
        // To set a timer into a chunk that was kept does not lower the gate: what is in one chunk is a quantum.
        if chunks.len() > 1 || (self.settled && timers.peek().is_some()) {
            self.check_is_emptied_in_time(level, start);
        }
        for timer in timers {
            let record = &self.wheel.records[timer];
            assert!(start <= record.due >> self.wheel.shift, "timer {timer} is in a slot after it");
            assert!(slot.least_due <= record.due, "timer {timer}");
            assert!(slot.least_deadline <= record.deadline(&self.wheel.margins), "timer {timer}");
        }
        chunks
    }

    /// The horizon enters a slot above the lowest level only when it is empty, or has to wait in there.
    fn check_is_ahead(&self, level: usize, start: u64) {
        let waits = level == 0 || self.wheel.migrations.is_overdue();
        let end = if waits { start + width(level) } else { start };
        assert!(self.wheel.horizon < end, "level {level}: the horizon has passed {start}");
    }

    fn check_is_emptied_in_time(&self, level: usize, start: u64) {
        let Wheel { horizon, shift, gate, migrations, .. } = self.wheel;
        if level == 0 || migrations.is_overdue() {
            return;
        }
        let before = start - width(level);
        if before <= *horizon {
            assert!(migrations.next <= start << shift, "level {level}: {start} has no migration");
        } else {
            assert!(*gate <= before << shift, "level {level}: the gate is closed until {start}");
        }
    }

    /// The chunks of a list.
    fn chunks(&self, list: List) -> Vec<u32> {
        let some = |chunk: u32| (chunk != NIL).then_some(chunk);
        let next = |&chunk: &u32| some(self.wheel.slots.chunks.next(chunk));
        let most = self.filed.len() + KEPT;
        let chunks: Vec<_> = core::iter::successors(some(list.head), next).take(most + 1).collect();
        assert!(chunks.len() <= most && chunks.last().copied() == some(list.tail), "{chunks:?} in {list:?}");
        chunks
    }

    /// The timers that chunks name, each with its chunk.
    fn named(&self, chunks: &[u32]) -> impl Iterator<Item = (u32, u32)> {
        let all: Vec<_> =
            chunks.iter().map(|&chunk| (chunk, self.wheel.slots.chunks.handful(chunk))).collect();
        all.into_iter().flat_map(|(chunk, handful)| {
            let timers: Vec<_> = handful.iter().collect();
            timers.into_iter().map(move |timer| (chunk, timer))
        })
    }
}

/// The places at which records say that they are.
#[derive(Default)]
struct Places {
    run: Vec<(u32, Entry)>,
    queue: Vec<(u32, Entry)>,
    near: Vec<(u32, Entry)>,
    heap: Vec<(usize, Entry)>,
    later: Vec<(usize, Entry)>,
    inbox: Vec<usize>,
    chunks: Vec<(u32, u32)>,
}

/// Says whether an entry is that of a timer, which may have been postponed since.
fn is_of(entry: &Entry, timer: &Entry) -> bool {
    entry.timer == timer.timer && !timer.is_before(entry)
}

/// Granules of a slot.
fn width(level: usize) -> u64 {
    1 << (BLOCK_BITS as usize * level)
}

/// Says whether these are the numbers from 0 on, each once.
fn no_gap(numbers: impl Iterator<Item = usize>) -> bool {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    (0..numbers.len()).eq(numbers)
}

/// Chunks without a timer that stay in their lists, at the most.
const KEPT: usize = 4;
