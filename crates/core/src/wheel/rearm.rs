//! Re-arming: gives a pending timer other terms.

use super::Wheel;
use super::terms::{Entry, Terms};

impl<E> Wheel<E> {
    /// Postpones a pending timer, if only its record has to be written: if it comes out later than before and
    /// has a later deadline, or its slot's bounds hold for it. It moves on when its slot, or its turn at the
    /// front, comes up. While there are few, one that does not come next is moved at once, and so is a single
    /// timer.
    #[inline(always)]
    pub(crate) fn put_off(&mut self, timer: u32, terms: &Terms) -> bool {
        let is_small = self.is_small();
        let record = &mut self.records[timer];
        let (place, before) = (record.place, record.deadline(&self.margins));
        let is_later = terms.due() >= record.due;
        let stays = if let Some(at) = place.at_later() {
            // With slots, it moves there.
            is_small && self.later.put_off(at, terms.key)
        } else if !place.is_at_front() {
            let reaches_slots = terms.due().min(record.due) >> self.shift >= self.horizon;
            reaches_slots
                && (is_later && terms.deadline >= before
                    || self.slots.is_promised(place, terms, &self.front.chain))
        } else if is_small
            && self.len == 1
            && let Some(first) = self.front.queue.first_mut()
        {
            // It is the only timer, so gate and deadline are its own.
            *first = Entry::new(terms.key, timer);
            self.gate = terms.due();
            self.earliest.clear();
            true
        } else {
            if is_later
                && is_small
                && let Some(at) = place.at_heap()
            {
                self.front.heap.put_off(at, terms.key);
            }
            is_later
        };
        if stays {
            self.earliest.exclude(before);
            self.earliest.include(terms.deadline);
            record.agree(terms, &mut self.margins);
        }
        stays
    }

    /// Moves a pending timer: O(1), or O(log n) at the front.
    ///
    /// If two timers have equal due times, the one with the lower sequence comes out first.
    #[inline(never)]
    pub(crate) fn move_to(&mut self, now: u64, timer: u32, terms: &Terms) {
        let record = &mut self.records[timer];
        let place = record.place;
        self.earliest.exclude(record.deadline(&self.margins));
        record.agree(terms, &mut self.margins);
        self.take_out(place);
        let is_few = self.is_small();
        self.records[timer].place = self.place(is_few, now, timer, terms);
        self.announce(terms);
        if is_few {
            self.settle_now();
        }
    }
}
