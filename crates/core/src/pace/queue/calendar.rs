//! Lists of the flows that are released in each slot of time, in levels of slots.
//!
//! ```text
//!   level 0   a slot is 256 ns     │▣│ │▣▣│ │▣│ │ …   two blocks of 2,048: the horizon's and the next
//!   level 1   a slot is a block of level 0            two blocks of 128 slots
//!   …         each 128 times as wide, up to the end of time
//! ```
//!
//! In a level, the earlier of two slots is the one whose bit comes first, so the next release is found by
//! counting zeros. A flow is inserted on the lowest level that reaches its time. While the horizon goes
//! through a block, the slot of the level above that is the next block is *open*: its flows move down a few
//! at a time, whenever a flow is inserted, so that no operation has to move all of them when the horizon gets
//! there.
//!
//! There is at most one departure a flow, mostly within some milliseconds, and hardly any is cancelled. So
//! one short linked list per slot suffices.

use alloc::boxed::Box;

use super::node::{Bucket, Node};
use crate::wheel::sizes::NIL;

/// All slots, and the flows in them by their numbers.
#[derive(Debug)]
pub(super) struct Calendar {
    /// Everything here is at or after this, in units of the width of a slot of level 0.
    horizon: u64,
    heads: Box<[u32; HEADS]>,
    /// The occupied slots, 64 a word, and the words of each block of level 0 that are occupied.
    occupied: Box<[u64; HEADS / 64]>,
    words: [u64; 2],
    /// Levels whose open slot is occupied, by bit.
    open: u32,
    flows: u32,
}

/// A slot: the level, and there the time in units of the slot's width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    level: usize,
    unit: u64,
}

impl Slot {
    fn index(self) -> usize {
        match self.level {
            0 => self.unit as usize % (2 * BLOCK),
            level => 2 * BLOCK + (level - 1) * 2 * BLOCK_ABOVE + self.unit as usize % (2 * BLOCK_ABOVE),
        }
    }

    fn start(self) -> u64 {
        self.unit << shift(self.level)
    }
}

/// The flows of a slot that was taken out: names the first of them.
#[derive(Debug)]
pub(super) struct List(u32);

/// The logarithm of the width of a level's slots, in slots of level 0.
fn shift(level: usize) -> u32 {
    if level == 0 { 0 } else { BLOCK_BITS + (level as u32 - 1) * BLOCK_BITS_ABOVE }
}

/// The block of a level that a time is in.
fn block(level: usize, granule: u64) -> u64 {
    granule >> shift(level + 1).min(u64::BITS - 1)
}

impl Calendar {
    pub(super) fn new() -> Self {
        Calendar {
            horizon: 0,
            heads: Box::new([NIL; HEADS]),
            occupied: Box::new([0; HEADS / 64]),
            words: [0; 2],
            open: 0,
            flows: 0,
        }
    }

    /// Moves the horizon of an empty calendar to the present, so that the next insertions are near it.
    #[inline]
    pub(super) fn begin(&mut self, now: u64) {
        if self.flows == 0 && granule(now) > self.horizon {
            (self.horizon, self.open) = (granule(now), 0);
        }
    }

    /// Returns whether a time is before the horizon.
    #[inline]
    pub(super) fn is_past(&self, time: u64) -> bool {
        granule(time) < self.horizon
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.flows == 0
    }

    /// Inserts a flow whose time is not [past](Self::is_past): O(1).
    #[inline(always)]
    pub(super) fn link(&mut self, flow: u32, nodes: &mut [Node]) {
        let granule = granule(nodes[flow as usize].key.due);
        let is_near = (granule >> BLOCK_BITS) - (self.horizon >> BLOCK_BITS) <= 1;
        let level = if is_near { 0 } else { self.level_above(granule) };
        let index = Slot { level, unit: granule >> shift(level) }.index();
        let head = core::mem::replace(&mut self.heads[index], flow);
        let node = &mut nodes[flow as usize];
        (node.next, node.prev, node.place) = (head, NIL, Bucket(index as u32));
        if head == NIL {
            self.mark(index);
        } else {
            nodes[head as usize].prev = flow;
        }
        self.flows += 1;
    }

    /// [`link`](Self::link), out of line.
    #[inline(never)]
    fn link_again(&mut self, flow: u32, nodes: &mut [Node]) {
        self.link(flow, nodes);
    }

    /// The lowest level that reaches a time which level 0 does not.
    #[inline(never)]
    fn level_above(&self, granule: u64) -> usize {
        let mut level = 1;
        while block(level, granule) - block(level, self.horizon) > 1 {
            level += 1;
        }
        level
    }

    /// Takes a flow out: O(1).
    pub(super) fn unlink(&mut self, flow: u32, nodes: &mut [Node]) {
        let Node { next, prev, place, .. } = nodes[flow as usize];
        if next != NIL {
            nodes[next as usize].prev = prev;
        }
        if prev != NIL {
            nodes[prev as usize].next = next;
        } else {
            self.heads[place.0 as usize] = next;
            if next == NIL {
                self.unmark(place.0 as usize);
            }
        }
        self.flows -= 1;
    }

    /// Takes out the first slot that begins by `until`, and puts the horizon behind it. None if there is no such
    /// slot; then the horizon is behind `until`.
    #[inline]
    pub(super) fn next(&mut self, until: u64, nodes: &mut [Node]) -> Option<List> {
        let until = granule(until);
        while until >= self.horizon && self.flows > 0 {
            let Some(first) = self.here().or_else(|| self.first(nodes)) else { break };
            if first.start() > until {
                break;
            }
            if first.level == 0 {
                let list = self.take(first);
                self.move_to(first.unit + 1, nodes);
                return Some(list);
            }
            self.move_to(first.start(), nodes);
        }
        if until >= self.horizon {
            self.move_to(until + 1, nodes);
        }
        None
    }

    /// Moves a few flows of open slots to their present slots.
    #[inline]
    pub(super) fn tidy(&mut self, nodes: &mut [Node]) {
        if self.open != 0 {
            self.move_some(nodes);
        }
    }

    #[inline(never)]
    fn move_some(&mut self, nodes: &mut [Node]) {
        for _ in 0..MOVES {
            if self.open == 0 {
                return;
            }
            let level = self.open.trailing_zeros() as usize;
            let flow = self.heads[self.open_slot(level).index()];
            self.unlink(flow, nodes);
            self.link_again(flow, nodes);
        }
    }

    /// The least time here; [`u64::MAX`] if there is none. O(flows in the slots that may hold it).
    pub(super) fn least(&self, nodes: &[Node]) -> u64 {
        match self.here() {
            Some(slot) => self.least_of(slot, nodes),
            None if self.flows == 0 => u64::MAX,
            None => self.least_beyond(nodes),
        }
    }

    /// Returns the least time beyond level 0: each level has its least in its first slot, and no slot has
    /// times before its beginning.
    #[inline(never)]
    fn least_beyond(&self, nodes: &[Node]) -> u64 {
        let slots = (0..LEVELS).filter_map(|level| self.first_of(level));
        slots.fold(u64::MAX, |least, slot| {
            if granule(least) < slot.start() { least } else { least.min(self.least_of(slot, nodes)) }
        })
    }

    fn least_of(&self, slot: Slot, nodes: &[Node]) -> u64 {
        let (mut least, mut at) = (u64::MAX, self.heads[slot.index()]);
        while let Some(node) = nodes.get(at as usize) {
            (least, at) = (least.min(node.key.due), node.next);
        }
        least
    }

    /// The first occupied slot.
    ///
    /// Flows in open slots move down first: shortly before a boundary of several levels, the next block of the lowest
    /// level lies in the open slots of all of them. With those empty, the flows on a level come before all
    /// those above it.
    #[inline(never)]
    fn first(&mut self, nodes: &mut [Node]) -> Option<Slot> {
        while self.open != 0 {
            let highest = self.open.ilog2() as usize;
            self.pour(self.open_slot(highest), nodes);
        }
        (0..LEVELS).find_map(|level| self.first_of(level))
    }

    /// The first occupied slot of a level.
    fn first_of(&self, level: usize) -> Option<Slot> {
        let block = block(level, self.horizon);
        self.first_in(level, block).or_else(|| self.first_in(level, block + 1))
    }

    /// The first occupied slot in the horizon's block of level 0.
    #[inline]
    fn here(&self) -> Option<Slot> {
        self.first_in(0, self.horizon >> BLOCK_BITS)
    }

    /// The first occupied slot in a block of a level, the horizon's or the next.
    #[inline(always)]
    fn first_in(&self, level: usize, block: u64) -> Option<Slot> {
        let begin = Slot { level, unit: block << if level == 0 { BLOCK_BITS } else { BLOCK_BITS_ABOVE } };
        let words = &self.occupied[begin.index() / 64..];
        let word = match (level, self.words[block as usize % 2]) {
            (0, 0) => None,
            (0, occupied) => Some(occupied.trailing_zeros() as usize),
            _ => (0..2).find(|&word| words[word] != 0),
        }?;
        let bit = word * 64 + words[word].trailing_zeros() as usize;
        Some(Slot { level, unit: begin.unit + bit as u64 })
    }

    /// The slot of a level that is the next block of the level below.
    fn open_slot(&self, level: usize) -> Slot {
        Slot { level, unit: (self.horizon >> shift(level)) + 1 }
    }

    /// Moves all flows of a slot to the levels below.
    fn pour(&mut self, slot: Slot, nodes: &mut [Node]) {
        let mut list = self.take(slot);
        while let Some(flow) = self.pop(&mut list, nodes) {
            self.link_again(flow, nodes);
        }
    }

    fn take(&mut self, slot: Slot) -> List {
        let index = slot.index();
        let head = core::mem::replace(&mut self.heads[index], NIL);
        if head != NIL {
            self.unmark(index);
        }
        List(head)
    }

    /// Takes a flow out of a slot that was taken out.
    #[inline]
    pub(super) fn pop(&mut self, list: &mut List, nodes: &[Node]) -> Option<u32> {
        let flow = list.0;
        list.0 = nodes.get(flow as usize)?.next;
        self.flows -= 1;
        Some(flow)
    }

    /// Moves the horizon; no flow is before the new one.
    #[inline]
    fn move_to(&mut self, horizon: u64, nodes: &mut [Node]) {
        let from = core::mem::replace(&mut self.horizon, horizon);
        if (from ^ horizon) >> BLOCK_BITS != 0 {
            self.enter(from, nodes);
        }
    }

    /// Moves the flows of the horizon's new block down from the slots of higher levels.
    #[inline(never)]
    fn enter(&mut self, from: u64, nodes: &mut [Node]) {
        let entered = |level: &usize| (from ^ self.horizon) >> shift(*level) != 0;
        let above = (1..LEVELS).take_while(entered).count() + 1;
        for level in (1..above).rev() {
            self.pour(Slot { level, unit: self.horizon >> shift(level) }, nodes);
        }
        for level in 1..above {
            let occupied = self.heads[self.open_slot(level).index()] != NIL;
            self.open = self.open & !(1 << level) | u32::from(occupied) << level;
        }
    }

    #[inline]
    fn mark(&mut self, index: usize) {
        self.occupied[index / 64] |= 1 << (index % 64);
        if index < 2 * BLOCK {
            self.words[index / BLOCK] |= 1 << (index % BLOCK / 64);
        }
    }

    #[inline]
    fn unmark(&mut self, index: usize) {
        let word = &mut self.occupied[index / 64];
        *word &= !(1 << (index % 64));
        if index >= 2 * BLOCK {
            let level = (index - 2 * BLOCK) / (2 * BLOCK_ABOVE) + 1;
            if self.open_slot(level).index() == index {
                self.open &= !(1 << level);
            }
        } else if *word == 0 {
            self.words[index / BLOCK] &= !(1 << (index % BLOCK / 64));
        }
    }
}

fn granule(time: u64) -> u64 {
    time >> GRANULE_BITS
}

/// A slot of level 0 is 256 ns: at 10,000 flows of 1,000 packets/s there are two or three flows in it.
const GRANULE_BITS: u32 = 8;
/// Level 0 reaches 0.5 to 1 ms.
const BLOCK_BITS: u32 = 11;
const BLOCK: usize = 1 << BLOCK_BITS;
const BLOCK_BITS_ABOVE: u32 = 7;
const BLOCK_ABOVE: usize = 1 << BLOCK_BITS_ABOVE;
/// 8 + 11 + 7 · 7 bits: the whole range of time.
const LEVELS: usize = 8;
const HEADS: usize = 2 * BLOCK + (LEVELS - 1) * 2 * BLOCK_ABOVE;
/// Each flow that is inserted moves down once or twice before it comes out.
const MOVES: usize = 2;
