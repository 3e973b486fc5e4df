//! Re-arming: a pending timer gets other terms.

use super::Wheel;
use super::level::SlotId;
use super::record::{Entry, Filed, Place};
use super::terms::Terms;

impl<E> Wheel<E> {
    /// Puts a pending timer off, if nothing but its record has to be written: if it comes out later than now and has a
    /// later deadline, or its slot promises no more. It moves on when its slot, or its turn at the front, comes up.
    #[inline(always)]
    pub(crate) fn put_off(&mut self, timer: u32, terms: &Terms) -> bool {
        let record = &self.records[timer];
        let (before, place) = (record.deadline(&self.margins), record.place);
        if !place.is_at_front() && terms.due().min(record.due) >> self.shift < self.horizon {
            return false;
        }
        let is_later = terms.due() >= record.due && terms.deadline >= before;
        if !is_later && !self.is_promised(place, terms) {
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
            return self.move_in_front(place, timer, terms);
        }
        self.take_out(place);
        self.admit(now, timer, terms);
    }

    /// Moves one of few: a place in the heap may do for its new time as well.
    #[inline]
    fn move_in_front(&mut self, place: Place, timer: u32, terms: &Terms) {
        self.announce_at_front(terms);
        let (entry, filed) = (Entry::new(terms.key, timer), place.filed());
        match filed {
            Filed::Heap { at } if !self.front.queue.has_room_for(&entry) => {
                self.front.heap.replace(at, entry, &mut self.records);
            }
            _ => {
                self.front.remove(filed, &mut self.records);
                self.front.insert_of_few(entry, &mut self.records);
            }
        }
    }
}
