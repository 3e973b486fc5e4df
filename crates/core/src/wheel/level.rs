//! Levels of slots: the time of a slot, and the search for the first one that is not empty.
//!
//! A *granule* is the slot width of level 0. Level `l` has slots of 4,096^l granules, and 8,192 of them: two
//! blocks of 4,096, the one in which the horizon is and the one after. A timer goes to the lowest level
//! that reaches it, so that a slot of a higher level never starts within the block of the level below in
//! which the horizon is.
//!
//! ```text
//!    level 1   │ slot │ slot │ slot │ …                        one slot = one block of level 0
//!              ╱      ╲
//!    level 0  │ block, │ block  │                  blocks take turns in the two halves:
//!             │ 4,096  │ after  │                  half = block number mod 2
//!                 ▲
//!              horizon
//!
//!    a level:  which rows of a half are occupied     [ 64 bits ] [ 64 bits ]
//!              128 rows, each there while occupied   [ row ][ – ][ row ] …
//!    a row:    which slots are occupied [ 64 bits ], 64 slots: first and last chunk, least due, least deadline
//! ```
//!
//! The first occupied slot is found by counting trailing zeros twice. Rows come from a pool and go back when
//! empty: a wheel of a hundred timers touches a few of them, again and again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::chunk::{Home, List};

/// One slot of a level: its timers and lower bounds of what they hold.
///
/// The bounds are not raised when a timer leaves; a stale one costs a check that is too early.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct Slot {
    pub(super) list: List,
    pub(super) chunks: u32,
    pub(super) least_due: u64,
    pub(super) least_deadline: u64,
}

/// A row of 64 slots.
#[derive(Clone, Debug)]
pub(super) struct Row {
    occupied: u64,
    /// A lower bound of its slots' least deadlines.
    pub(super) least_deadline: u64,
    slots: [Slot; SLOTS_IN_ROW],
}

#[derive(Debug)]
pub(super) struct Level {
    /// The rows of each half that are occupied.
    occupied: [u64; 2],
    rows: [Option<Box<Row>>; ROWS],
}

/// Rows that no level uses.
#[derive(Debug)]
pub(super) struct Spare(#[expect(clippy::vec_box, reason = "what is handed on is the box")] Vec<Box<Row>>);

/// The level and the index of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotId {
    pub(super) level: usize,
    pub(super) index: usize,
}

/// The first granule beyond the two blocks of each level but the highest.
#[derive(Debug)]
pub(super) struct Reach([u64; LEVELS - 1]);

impl Reach {
    pub(super) const NONE: Reach = Reach([0; LEVELS - 1]);

    pub(super) fn from(horizon: u64) -> Reach {
        Reach(core::array::from_fn(|level| {
            let bits = BLOCK_BITS as usize * (level + 1);
            ((horizon >> bits) + 2) << bits
        }))
    }
}

impl SlotId {
    /// Returns the slot of `granule` on `level`.
    #[inline]
    pub(super) fn at_granule(level: usize, granule: u64) -> SlotId {
        SlotId { level, index: (granule >> (BLOCK_BITS as usize * level)) as usize % SLOTS }
    }

    /// Returns the slot for a timer of `granule`, which is not before the horizon.
    #[inline]
    pub(super) fn filing(granule: u64, reach: &Reach) -> SlotId {
        let level = reach.0.iter().position(|&end| granule < end).unwrap_or(LEVELS - 1);
        SlotId::at_granule(level, granule)
    }

    /// Returns the beginning of the slot in this block of its level, in granules.
    #[inline]
    pub(super) fn start(self, block: u64) -> u64 {
        (block << BLOCK_BITS | (self.index % BLOCK) as u64) << (BLOCK_BITS as usize * self.level)
    }

    /// Returns the `home` of the chunks in this slot.
    ///
    /// On level 0 it includes one more bit of the granule, which distinguishes a list that is being handed
    /// out from one that a later block has meanwhile begun in the same slot.
    #[inline]
    pub(super) fn home(self, granule: u64) -> Home {
        let again = self.level == 0 && granule as usize & SLOTS != 0;
        Home(((if again { LEVELS } else { self.level }) * SLOTS + self.index) as u16)
    }

    #[inline]
    pub(super) fn of_home(home: Home) -> SlotId {
        let home = usize::from(home.0);
        SlotId { level: home / SLOTS % LEVELS, index: home % SLOTS }
    }
}

impl Level {
    pub(super) const EMPTY: Level = Level { occupied: [0; 2], rows: [const { None }; ROWS] };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.occupied == [0; 2]
    }

    /// The slot, if it is occupied.
    #[inline]
    pub(super) fn slot(&self, index: usize) -> Option<&Slot> {
        let row = self.rows[index / SLOTS_IN_ROW].as_deref()?;
        (row.occupied >> (index % SLOTS_IN_ROW) & 1 != 0).then(|| &row.slots[index % SLOTS_IN_ROW])
    }

    /// The slot, if it is occupied.
    #[inline]
    pub(super) fn slot_mut(&mut self, index: usize) -> Option<&mut Slot> {
        let row = self.rows[index / SLOTS_IN_ROW].as_deref_mut()?;
        (row.occupied >> (index % SLOTS_IN_ROW) & 1 != 0).then(|| &mut row.slots[index % SLOTS_IN_ROW])
    }

    /// Returns the slot to put a timer in, marked as occupied and with bounds that include the timer.
    #[inline(always)]
    pub(super) fn fill(&mut self, index: usize, due: u64, deadline: u64, spare: &mut Spare) -> &mut Slot {
        let at = index / SLOTS_IN_ROW;
        let row = match &mut self.rows[at] {
            Some(row) => row,
            none => {
                self.occupied[index / BLOCK] |= 1 << (at % ROWS_IN_HALF);
                none.insert(spare.take())
            }
        };
        let bit = 1 << (index % SLOTS_IN_ROW);
        let slot = &mut row.slots[index % SLOTS_IN_ROW];
        if row.occupied & bit == 0 {
            row.occupied |= bit;
            *slot = Slot { list: List::EMPTY, chunks: 0, least_due: due, least_deadline: deadline };
            row.least_deadline = row.least_deadline.min(deadline);
            return slot;
        }
        // Both are rare: saving a store is worth a branch.
        if due < slot.least_due {
            slot.least_due = due;
        }
        if deadline < slot.least_deadline {
            slot.least_deadline = deadline;
            row.least_deadline = row.least_deadline.min(deadline);
        }
        slot
    }

    /// Marks a slot as empty.
    #[inline]
    pub(super) fn clear(&mut self, index: usize, spare: &mut Spare) {
        let at = index / SLOTS_IN_ROW;
        let Some(row) = self.rows[at].as_deref_mut() else { return };
        row.occupied &= !(1 << (index % SLOTS_IN_ROW));
        if row.occupied == 0 {
            self.occupied[index / BLOCK] &= !(1 << (at % ROWS_IN_HALF));
            if let Some(row) = self.rows[at].take() {
                spare.0.push(row);
            }
        }
    }

    /// The index of the first occupied slot of a half.
    #[inline]
    pub(super) fn first(&self, half: usize) -> Option<usize> {
        let rows = self.occupied[half];
        if rows == 0 {
            return None;
        }
        let at = half * ROWS_IN_HALF + rows.trailing_zeros() as usize;
        let row = self.rows[at].as_deref()?;
        Some(at * SLOTS_IN_ROW + row.occupied.trailing_zeros() as usize)
    }

    /// The occupied rows of a half in the order of time, and where their slots begin.
    pub(super) fn rows(&self, half: usize) -> impl Iterator<Item = (usize, &Row)> {
        Bits(self.occupied[half]).filter_map(move |bit| {
            let at = half * ROWS_IN_HALF + bit;
            Some((at * SLOTS_IN_ROW, self.rows[at].as_deref()?))
        })
    }
}

impl Row {
    const EMPTY: Row = Row {
        occupied: 0,
        least_deadline: u64::MAX,
        slots: [Slot { list: List::EMPTY, chunks: 0, least_due: u64::MAX, least_deadline: u64::MAX };
            SLOTS_IN_ROW],
    };

    /// The occupied slots in the order of time, with their index in the row.
    pub(super) fn slots(&self) -> impl Iterator<Item = (usize, &Slot)> {
        Bits(self.occupied).map(|at| (at, &self.slots[at]))
    }
}

impl Spare {
    pub(super) const fn new() -> Self {
        Spare(Vec::new())
    }

    /// Adds spare rows.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.0.extend((0..rows).map(|_| Box::new(Row::EMPTY)));
    }

    #[inline(never)]
    fn take(&mut self) -> Box<Row> {
        if self.0.len() < ROWS_AT_ONCE {
            // One more than requested: the number that a steady load needs varies a little over time.
            self.0.push(Box::new(Row::EMPTY));
        }
        let mut row = self.0.pop().unwrap_or_else(|| Box::new(Row::EMPTY));
        row.least_deadline = u64::MAX;
        row
    }
}

/// The set bits of a word, lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        (self.0 != 0).then(|| {
            self.0 &= self.0 - 1;
            bit
        })
    }
}

/// A block is 2¹² slots: any timer up to a block ahead is inserted once; each factor of 4,096 beyond is one move.
pub(super) const BLOCK_BITS: u32 = 12;
pub(super) const BLOCK: usize = 1 << BLOCK_BITS;
/// Two blocks: the one of the horizon, and the next.
pub(super) const SLOTS: usize = 2 * BLOCK;
/// The levels cover 60 bits of granules; 57 suffice for the whole range of time, because a granule is at
/// least 128 ns.
pub(super) const LEVELS: usize = 5;
pub(super) const SLOTS_IN_ROW: usize = 64;
pub(super) const ROWS: usize = SLOTS / SLOTS_IN_ROW;
const ROWS_IN_HALF: usize = ROWS / 2;
const ROWS_AT_ONCE: usize = 4;

const _: () = assert!(size_of::<Slot>() == 32 && (LEVELS + 1) * SLOTS <= 1 << u16::BITS);

/// Laws of any granule that is inserted while the horizon is not after it: tests try them, and Kani proves
/// them.
#[cfg(any(test, kani))]
mod laws {
    use super::*;

    /// The largest granule there is: the last nanosecond, in granules of 128 ns.
    pub(super) const LAST_GRANULE: u64 = u64::MAX >> 7;

    /// A granule goes to the lowest level that reaches it, and its slot's home names no other level.
    pub(super) fn a_granule_has_one_slot(horizon: u64, granule: u64) {
        let id = SlotId::filing(granule, &Reach::from(horizon));
        assert!(id.level < LEVELS && id.index < SLOTS);
        let blocks =
            |level: usize| (granule >> (12 * (level as u32 + 1))) - (horizon >> (12 * (level as u32 + 1)));
        assert!(blocks(id.level) <= 1, "it reaches");
        assert!(id.level == 0 || blocks(id.level - 1) > 1, "no lower one does");
        assert_eq!(SlotId::of_home(id.home(granule)), id);
    }

    /// A search finds a slot again by its block: it begins no later than the granule inserted in it, and ends
    /// after it.
    pub(super) fn a_slot_begins_where_it_is_looked_for(horizon: u64, granule: u64) {
        let id = SlotId::filing(granule, &Reach::from(horizon));
        let bits = BLOCK_BITS * id.level as u32;
        let block = horizon >> bits >> BLOCK_BITS;
        // The half of the index selects one of the two blocks.
        let block = if block % 2 == (id.index / BLOCK) as u64 { block } else { block + 1 };
        let start = id.start(block);
        assert!(start <= granule && granule - start < 1 << bits);
        assert!(id.level == 0 || start > horizon, "a slot above the lowest level lies ahead");
    }
}

/// Run by `cargo kani -p softtimers-core`: for all 2⁵⁷ horizons and all granules from there on.
#[cfg(kani)]
mod proofs {
    use super::laws::*;

    fn any() -> (u64, u64) {
        let (horizon, granule) = (kani::any(), kani::any());
        kani::assume(horizon <= granule && granule <= LAST_GRANULE);
        (horizon, granule)
    }

    /// No granule overflows, and each is inserted on the lowest level that reaches it, which its home names.
    #[kani::proof]
    fn a_granule_has_one_slot_whatever_the_horizon() {
        let (horizon, granule) = any();
        a_granule_has_one_slot(horizon, granule);
    }

    /// A search for a slot in the block of the horizon and the one after finds the time that was inserted there.
    #[kani::proof]
    fn a_slot_begins_where_it_is_looked_for_whatever_the_horizon() {
        let (horizon, granule) = any();
        a_slot_begins_where_it_is_looked_for(horizon, granule);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 20_000 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// The laws that Kani proves of all granules, tried with many: near the horizon and far from it, at the begin
        /// of time and its end.
        #[test]
        fn the_laws_of_slots_hold(begin in 0..=64u32, ahead in 0..=57u32, noise in any::<[u64; 2]>()) {
            let most = |bits: u32| laws::LAST_GRANULE.checked_shr(bits).unwrap_or(0);
            let horizon = if begin == 64 { laws::LAST_GRANULE } else { noise[0] & most(begin) };
            let granule = horizon.saturating_add(noise[1] & most(ahead)).min(laws::LAST_GRANULE);
            laws::a_granule_has_one_slot(horizon, granule);
            laws::a_slot_begins_where_it_is_looked_for(horizon, granule);
        }
    }

    /// A slot's index is its time modulo the size, and the level the lowest that reaches so far.
    #[test]
    fn a_timer_lies_in_the_slot_of_its_time_modulo_the_size() {
        assert!(SLOTS.is_power_of_two());
        for horizon in [0u64, 1, 4_095, 4_096, 5_000, (1 << 24) - 1, 1 << 24, (1 << 36) + 77, (1 << 57) - 9] {
            let reach = Reach::from(horizon);
            for ahead in (0..57).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]) {
                let granule = horizon + ahead;
                let id = SlotId::filing(granule, &reach);
                let width = 1u64 << (12 * id.level);
                assert_eq!(id.index as u64, granule / width % SLOTS as u64);
                // Two blocks of its level, and not of the level below.
                let blocks = |level: usize| (granule >> (12 * (level + 1))) - (horizon >> (12 * (level + 1)));
                assert!(id.level == LEVELS - 1 || blocks(id.level) <= 1);
                assert!(id.level == 0 || blocks(id.level - 1) > 1);
                assert_eq!(SlotId::of_home(id.home(granule)), id);
            }
        }
    }

    #[test]
    fn the_first_occupied_slot_is_found_and_empty_rows_go_back() {
        let (mut level, mut spare) = (Level::EMPTY, Spare::new());
        let filled = [5_000, 64, 4_097, 63, 8_191, 4_096];
        for index in filled {
            level.fill(index, 7, 9, &mut spare);
        }
        for (first, half) in [(63, 0), (64, 0), (4_096, 1), (4_097, 1), (5_000, 1), (8_191, 1)] {
            assert_eq!(level.first(half), Some(first));
            assert!(level.slot(first).is_some());
            level.clear(first, &mut spare);
            assert!(level.slot(first).is_none());
        }
        assert!(level.is_empty());
        assert!(spare.0.len() >= 4);
    }
}
