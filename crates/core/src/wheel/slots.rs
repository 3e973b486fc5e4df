//! All slots of the wheel and their contents: the levels, the chunks, and where a timer goes.

use super::chunk::{Chunks, Kept};
use super::front::Chain;
use super::level::{LEVELS, Level, ROWS, Reach, SLOTS, SlotId, Spare};
use super::record::{Filed, Location};
use super::sizes::CHUNK_ROOM;
use super::terms::Terms;

#[derive(Debug)]
pub(super) struct Slots {
    pub(super) reach: Reach,
    pub(super) levels: [Level; LEVELS],
    pub(super) chunks: Chunks,
    pub(super) kept: Kept,
    pub(super) spare: Spare,
}

impl Slots {
    pub(super) const fn new() -> Self {
        Slots {
            reach: Reach::NONE,
            levels: [const { Level::EMPTY }; LEVELS],
            chunks: Chunks::new(),
            kept: Kept::NONE,
            spare: Spare::new(),
        }
    }

    /// Makes room for `timers` more in any slots: a chunk for each slot that they may begin, and for each
    /// that they fill.
    pub(super) fn reserve(&mut self, timers: usize) {
        self.chunks.reserve(timers.div_ceil(CHUNK_ROOM) + timers.min(2 * SLOTS));
        self.spare.reserve(timers.min(3 * ROWS));
    }

    /// Returns whether the bounds of a timer's slot hold for these terms.
    #[inline(never)]
    pub(super) fn is_promised(&self, place: Location, terms: &Terms, chain: &Chain) -> bool {
        let Filed::Chunk { chunk, .. } = place.filed() else { return false };
        let home = self.chunks.home(chunk);
        let id = SlotId::of_home(home);
        let slot = self.levels[id.level].slot(id.index).filter(|_| !chain.is(home));
        slot.is_some_and(|slot| slot.least_due <= terms.due() && slot.least_deadline <= terms.deadline)
    }

    /// Puts a timer that is not below the horizon into its slot. Returns its place, and the slot's level if
    /// it is in a new chunk.
    #[inline(always)]
    pub(super) fn link(
        &mut self,
        timer: u32,
        granule: u64,
        due: u64,
        deadline: u64,
    ) -> (Location, Option<usize>) {
        let id = SlotId::filing(granule, &self.reach);
        let slot = self.levels[id.level].fill(id.index, due, deadline, &mut self.spare);
        if let Some((chunk, at)) = self.chunks.append(slot.list, timer) {
            return (Location::in_chunk(chunk, at), None);
        }
        let chunk = self.chunks.begin(&mut slot.list, id.home(granule), timer);
        slot.chunks += 1;
        (Location::in_chunk(chunk, 0), Some(id.level))
    }
}
