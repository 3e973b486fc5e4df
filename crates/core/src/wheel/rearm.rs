//! Re-arming: a pending timer gets other terms.

use super::Wheel;
use super::record::Entry;
use super::terms::Terms;

impl<E> Wheel<E> {
    /// Puts a pending timer off, if nothing but its record has to be written: if it comes out later than now and has a
    /// later deadline, or its slot promises no more. It moves on when its slot, or its turn at the front, comes up. One of few
    /// that does not come next is moved at once.
    #[inline(always)]
    pub(crate) fn put_off(&mut self, timer: u32, terms: &Terms) -> bool {
        if self.len == 1 && self.is_small() && self.move_only(timer, terms) {
            return true;
        }
        let record = &mut self.records[timer];
        let (before, place) = (record.deadline(&self.margins), record.place);
        let stays = if let Some(at) = place.at_later() {
            // Where there are slots, it moves there.
            self.horizon == u64::MAX && self.later.put_off(at, terms.key)
        } else if !place.is_at_front() && terms.due().min(record.due) >> self.shift < self.horizon {
            false
        } else {
            let is_later = terms.due() >= record.due && terms.deadline >= before;
            is_later || self.slots.is_promised(place, terms, &self.front.chain)
        };
        if stays {
            record.agree(terms, &mut self.margins);
            self.earliest.exclude(|| before);
            self.earliest.include(terms.deadline);
        }
        stays
    }

    /// Moves the only timer that there is, to whatever time; false if it is not in the queue.
    #[inline(always)]
    fn move_only(&mut self, timer: u32, terms: &Terms) -> bool {
        let Some(first) = self.front.queue.first_mut() else { return false };
        (first.due, first.sequence) = (terms.due(), terms.key.sequence);
        self.records[timer].agree(terms, &mut self.margins);
        self.gate = terms.due();
        self.earliest.clear();
        self.earliest.include(terms.deadline);
        true
    }

    /// Moves a pending timer: O(1), or O(log n) at the front.
    ///
    /// If two timers have equal due times, the one with the lower sequence comes out first.
    #[inline(never)]
    pub(crate) fn move_to(&mut self, now: u64, timer: u32, terms: &Terms) {
        let record = &mut self.records[timer];
        let (before, place) = (record.deadline(&self.margins), record.place);
        record.agree(terms, &mut self.margins);
        self.earliest.exclude(|| before);
        self.take_out(place);
        if !self.is_small() {
            return self.admit(now, timer, terms);
        }
        self.earliest.include(terms.deadline);
        self.file_of_few(Entry::new(terms.key, timer));
        self.settle_now();
    }
}
