//! Later: while there are few timers, those that do not come next, unordered.
//!
//! Most timers are cancelled or postponed, so keeping them sorted would be wasted work. While there are few,
//! only those that come next are sorted. Setting, moving or cancelling one of the others writes one entry.
//! When no sorted one is left, the next ones are selected, about the square root of all, or a sixteenth from
//! 256 on, and sorted:
//!
//! ```text
//!   set ─▶ [ 9 4 12 7 15 6 11 … ]        all come after `until`
//!            ▲      ▲       ▲            the least of every n-th: 7
//!            those up to it, sorted ─▶ near [ 4 6 7 ]        until = 7
//! ```
//!
//! On average n timers precede the minimum of every n-th one, however their times are spread. So the n that
//! come out share the cost of one pass over all of them. Never more than [`MOST_SORTED`] are sorted at once.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::Wheel;
use super::record::{LATER, Location, Records};
use super::sizes::{HEAP_ARITY, MOST_SORTED};
use super::terms::{Entry, Key};

#[derive(Debug)]
pub(super) struct Later {
    entries: Vec<Entry>,
    /// The key after which all of them come.
    pub(super) until: Key,
}

impl Later {
    pub(super) const fn new() -> Self {
        Later { entries: Vec::new(), until: Key::ZERO }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns whether all of them come after this.
    #[inline]
    pub(super) fn is_after(&self, key: Key) -> bool {
        self.is_empty() || !self.until.is_before(key)
    }

    /// Adds a timer that comes after `until`.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) -> Location {
        let place = Location::new(LATER, self.entries.len());
        self.entries.push(entry);
        place
    }

    /// Moves the timer in a place, if it still comes after `until`; returns whether it does.
    #[inline]
    pub(super) fn put_off(&mut self, at: usize, Key { due, sequence }: Key) -> bool {
        let stays = self.until.is_before(Key { due, sequence });
        if let Some(entry) = self.entries.get_mut(at).filter(|_| stays) {
            (entry.due, entry.sequence) = (due, sequence);
        }
        stays
    }

    #[inline]
    pub(super) fn remove<E>(&mut self, at: usize, records: &mut Records<E>) {
        let Some(last) = self.entries.pop() else { return };
        if let Some(gap) = self.entries.get_mut(at) {
            *gap = last;
            records[last.timer].place = Location::new(LATER, at);
        }
    }

    /// Moves those that come next to the end, the very next last, and raises `until` to them. Returns the
    /// number of the others. There must be at least one timer.
    fn sort_out<E>(&mut self, records: &mut Records<E>) -> usize {
        let entries = &mut self.entries;
        let len = entries.len();
        // Odd: timers are often set in pairs, a short one and a long one.
        let every = (len / 16).max(1 << (len.max(1).ilog2() / 2)) | 1;
        let lesser =
            |least: Key, entry: &Entry| if entry.key().is_before(least) { entry.key() } else { least };
        let some = entries[every / 2..].iter().step_by(every);
        let until = some.fold(entries[every / 2].key(), lesser);
        let mut left = len;
        for at in (0..len).rev() {
            let entry = &entries[at];
            if entry.due <= until.due && !until.is_before(entry.key()) {
                left -= 1;
                entries.swap(at, left);
                records[entries[at].timer].place = Location::new(LATER, at);
            }
        }
        // Sorting needs a total order: the sequence relative to that of one of them.
        let order = |entry: &Entry| Reverse(entry.order(until.sequence));
        if let Some(excess) = (len - left).checked_sub(MOST_SORTED) {
            entries[left..].select_nth_unstable_by_key(excess, order);
            for (entry, at) in entries[left..left + excess].iter().zip(left..) {
                records[entry.timer].place = Location::new(LATER, at);
            }
            left += excess;
        }
        entries[left..].sort_unstable_by_key(order);
        self.until = entries[left].key();
        left
    }

    /// Returns the median time from `now` to a sample of them; 0 when empty.
    pub(super) fn ahead(&self, now: u64) -> u64 {
        let every = (self.entries.len() / SOME).max(1);
        let mut ahead = [0; SOME];
        let some = ahead.iter_mut().zip(self.entries.iter().step_by(every));
        let count = some.map(|(ahead, entry)| *ahead = entry.due.saturating_sub(now)).count();
        ahead[..count].sort_unstable();
        ahead[count / 2]
    }

    /// The entries that it has room for.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.entries.capacity()
    }

    /// Makes room for `timers` entries.
    pub(super) fn reserve(&mut self, timers: usize) {
        self.entries.reserve(timers);
    }

    pub(super) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }
}

impl<E> Wheel<E> {
    /// Returns whether one of the later timers may be before the least entry of the front.
    #[inline]
    pub(super) fn wants_refill(&self) -> bool {
        !self.later.is_empty() && self.front.least().is_none_or(|least| !self.later.is_after(least.key()))
    }

    /// Moves the next of the later timers to the front. Nothing may be near.
    #[inline(never)]
    pub(super) fn refill(&mut self) {
        let left = self.later.sort_out(&mut self.records);
        for entry in self.later.entries.drain(left..).rev() {
            self.records[entry.timer].place = self.front.near.append(entry, &mut self.records);
        }
    }

    /// Returns whether an entry that does not come in order belongs to the later ones, or to the front. Only
    /// while there are few.
    #[inline]
    fn is_for_later(&mut self, entry: &Entry) -> bool {
        let comes_later = !self.later.is_empty() && self.later.until.is_before(entry.key());
        // All that came since may be before the later ones. A pass over the later ones pays when a quarter as
        // many have come.
        if comes_later || self.front.heap.len() <= self.later.len() / 4 + LEAST_CROWD {
            return comes_later;
        }
        if self.wants_refill() {
            // With slots, the front may not have been refilled since a cancel: some later timers are before
            // all that are here.
            self.refill();
        } else {
            self.leave_least_near();
        }
        self.later.until.is_before(entry.key())
    }

    /// Moves all timers after the least to the later ones, also those that were near. The least is at the
    /// front.
    #[inline(never)]
    fn leave_least_near(&mut self) {
        let Some(&least) = self.front.least() else { return };
        self.later.until = least.key();
        let kept = self.front.near.first().copied().filter(|first| first.timer == least.timer);
        while let Some(&Entry { timer, .. }) = self.front.near.first() {
            self.front.near.drop_first();
            if timer != least.timer {
                self.records[timer].place = self.push_later(self.records[timer].entry(timer));
            }
        }
        if let Some(least) = kept {
            self.records[least.timer].place = self.front.near.append(least, &mut self.records);
        }
    }

    /// Makes room, at the first timer, for those that will be out of order, later or near, or have wide
    /// margins: otherwise a program with a steady number of timers would allocate at some later time, when it
    /// has the first such one.
    #[cold]
    pub(super) fn make_room_for_few(&mut self) {
        self.front.heap.reserve(FIRST);
        self.later.reserve(FIRST);
        self.margins.reserve_few();
        self.make_room_near();
    }

    /// Makes room near for as many as may be moved from the later ones at once.
    #[inline]
    fn make_room_near(&mut self) {
        self.front.near.reserve(self.later.room().min(MOST_SORTED), &mut self.records);
    }

    /// Adds a later timer, and makes room for it among those that are near.
    #[inline]
    fn push_later(&mut self, entry: Entry) -> Location {
        let place = self.later.push(entry);
        self.make_room_near();
        place
    }

    /// Finds a place for an entry while there are few, and puts it there.
    #[inline(always)]
    pub(super) fn place_of_few(&mut self, entry: Entry) -> Location {
        if !self.front.is_for_queue(&entry) {
            return self.place_out_of_order(entry);
        }
        if self.front.queue.is_full() && self.later.room() == 0 {
            self.make_room_for_few();
        }
        self.front.queue.append(entry, &mut self.records)
    }

    #[inline(never)]
    fn place_out_of_order(&mut self, entry: Entry) -> Location {
        if self.is_for_later(&entry) {
            self.push_later(entry)
        } else {
            self.front.heap.push(entry, &mut self.records)
        }
    }

    /// Inserts a timer while there are few.
    #[inline]
    pub(super) fn file_of_few(&mut self, entry: Entry) {
        self.records[entry.timer].place = self.place_of_few(entry);
    }

    /// Called after a change at the front while there are few: ensures that the least of all is there, and
    /// sets the gate to its due time.
    #[inline(never)]
    pub(super) fn settle_now(&mut self) {
        self.settle();
    }

    #[inline(always)]
    pub(super) fn settle(&mut self) {
        self.gate = match self.front.least() {
            Some(least) if self.later.is_after(least.key()) => least.due,
            None if self.later.is_empty() => u64::MAX,
            _ => {
                self.refill();
                self.front.least_due()
            }
        };
    }
}

/// The size of the sample of [`Later::ahead`].
const SOME: usize = 32;
/// The initial room for later timers.
const FIRST: usize = 16;
/// The number of out-of-order entries that the front keeps however few are later: those of a heap with two
/// levels.
pub(super) const LEAST_CROWD: usize = HEAP_ARITY;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::num::NonZeroU32;

    use super::super::record::Record;
    use super::super::terms::Sequence;
    use super::*;

    /// For any times, the next ones are moved to the end in order, no more than are sorted at once, and each
    /// record knows its entry's place: also if only far ones are sampled, all times are equal, or the
    /// sequence wraps.
    #[test]
    fn those_that_come_next_are_found_in_order() {
        let times: [fn(u64) -> u64; 5] = [
            |at| at,
            |at| 2_000 - at,
            |_| 7,
            |at| at * 389 % 1_009,
            // Only the sampled ones of a thousand are far.
            |at| if at % 63 == 31 { 5_000 + at } else { at * 389 % 1_009 },
        ];
        let most = crate::effort::operations(1_000) as u32;
        for (time, len) in times
            .iter()
            .step_by(if cfg!(miri) { 2 } else { 1 })
            .flat_map(|time| [1, 2, 8, 64, 129, most].map(|len| (time, len)))
        {
            let (mut later, mut records) = (Later::new(), Records::<()>::new());
            let mut sequence = Sequence::starting(NonZeroU32::new(u32::MAX - 60).unwrap());
            for timer in 0..len {
                let key = Key { due: time(u64::from(timer)), sequence: sequence.advance() };
                records.push(Record::new(1));
                records[timer].place = later.push(Entry::new(key, timer));
            }
            let mut out: Vec<Entry> = Vec::new();
            while !later.is_empty() {
                let left = later.sort_out(&mut records);
                let taken = later.entries.len() - left;
                assert!((1..=MOST_SORTED).contains(&taken));
                out.extend(later.entries.drain(left..).rev());
                assert!(later.entries.iter().all(|entry| later.until.is_before(entry.key())));
                let places = later.entries.iter().map(|entry| records[entry.timer].place.at_later());
                assert!(places.eq((0..later.entries.len()).map(Some)));
            }
            assert!(out.len() == len as usize && out.is_sorted_by(Entry::is_before));
        }
    }

    /// The median of a few is exact; that of many is of a sample. Returns 0 when empty.
    #[test]
    fn the_median_of_what_some_are_ahead_is_told() {
        let ahead = |len: u64| {
            let mut later = Later::new();
            for at in 0..len {
                later.push(Entry { due: 1_000 + at, sequence: Sequence::FIRST, timer: at as u32 });
            }
            later.ahead(1_000)
        };
        assert_eq!([0, 1, 2, 5, 31, 32].map(ahead), [0, 0, 1, 2, 15, 16]);
        for len in [64, 100, 1_000] {
            assert!(ahead(len).abs_diff(len / 2) <= len / 16, "{} of {len}", ahead(len));
        }
    }
}
