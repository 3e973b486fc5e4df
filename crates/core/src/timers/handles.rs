//! Handles for the wheel's records (index and generation), and the list of free records.
//!
//! A record's generation changes each time it is given back, so a stale handle finds nothing instead of
//! another event. A 32-bit generation would wrap after 4 × 10⁹ uses of one record; the record is retired
//! before that, at the cost of its 32 bytes (Costello & Varghese keep a similar count in their handles,
//! §"Interfaces").

use core::num::NonZeroU32;

use crate::TimerId;
use crate::slots::Instance;
use crate::wheel::record::{MOST_RECORDS, Record, Records};

#[derive(Debug)]
pub(super) struct Handles {
    /// The first free record. It names the next.
    free: u32,
    first_generation: NonZeroU32,
    instance: Instance,
}

impl Handles {
    pub(super) fn new(first_generation: NonZeroU32) -> Self {
        Handles { free: NONE, first_generation, instance: Instance::new() }
    }

    /// Takes a free record: O(1).
    ///
    /// # Panics
    /// If there are [`MOST_RECORDS`] records.
    #[inline]
    pub(super) fn take<E>(&mut self, records: &mut Records<E>) -> u32 {
        match records.get(self.free) {
            Some(record) => core::mem::replace(&mut self.free, record.next_free()),
            None => self.first_use(records),
        }
    }

    #[cold]
    #[inline(never)]
    fn first_use<E>(&self, records: &mut Records<E>) -> u32 {
        let index = records.len();
        assert!(index < MOST_RECORDS, "more than {MOST_RECORDS} timers pending or retired");
        records.push(Record::new(self.first_generation.get()));
        index as u32
    }

    /// Frees a record; its handle is dead afterwards.
    #[inline]
    pub(super) fn give_back<E>(&mut self, record: &mut Record<E>, index: u32) {
        // The last generation is used once, and then the record is never handed out again.
        record.generation = record.generation.wrapping_add(1);
        if record.generation != RETIRED {
            record.link_free(core::mem::replace(&mut self.free, index));
        }
    }

    /// Adds `timers` free records, or fewer if [`MOST_RECORDS`] does not allow that, and touches their memory.
    pub(super) fn reserve<E>(&mut self, timers: usize, records: &mut Records<E>) {
        let first = records.len();
        let len = first.saturating_add(timers).min(MOST_RECORDS);
        (first..len).for_each(|_| records.push(Record::new(self.first_generation.get())));
        for index in (first as u32..len as u32).rev() {
            records[index].link_free(core::mem::replace(&mut self.free, index));
        }
    }

    /// Drops the records at the end that are free, and puts the others in order. O(n).
    ///
    /// A dropped record may be allocated again while handles to it still exist: it then starts with a
    /// generation that none of them has.
    pub(super) fn shrink<E>(&mut self, records: &mut Records<E>) {
        let mut len = records.len();
        while let Some(record) = len.checked_sub(1).and_then(|last| records.get(last as u32)) {
            match NonZeroU32::new(record.generation) {
                Some(generation) if !record.is_filed() => {
                    self.first_generation = self.first_generation.max(generation);
                }
                _ => break,
            }
            len -= 1;
        }
        records.truncate(len);
        self.free = NONE;
        for index in (0..len as u32).rev() {
            let record = &mut records[index];
            if !record.is_filed() && record.generation != RETIRED {
                record.link_free(core::mem::replace(&mut self.free, index));
            }
        }
    }

    /// Returns the record that a handle names, while its event is pending.
    #[inline]
    pub(super) fn record<'a, E>(&self, records: &'a Records<E>, id: TimerId) -> Option<(u32, &'a Record<E>)> {
        self.instance.check(id);
        let record = records.get(id.index())?;
        (record.generation == id.generation().get()).then_some((id.index(), record))
    }

    /// Returns the handle with these bits, whether or not it names anything; `None` if no handle has them.
    #[inline]
    pub(super) fn id_of(&self, bits: u64) -> Option<TimerId> {
        self.instance.id_of(bits)
    }

    /// Returns the handle of a record in use.
    #[inline]
    pub(super) fn id(&self, index: u32, generation: u32) -> TimerId {
        TimerId::new(index, NonZeroU32::new(generation).unwrap_or(NonZeroU32::MAX), &self.instance)
    }
}

const NONE: u32 = u32::MAX;
/// No handle has this generation.
const RETIRED: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_retired_before_its_generation_wraps() {
        let mut records = Records::<()>::new();
        let mut handles = Handles::new(NonZeroU32::new(u32::MAX - 1).unwrap());
        let mut ids = alloc::vec::Vec::new();
        for index in [0, 0, 1, 1, 2] {
            assert_eq!(handles.take(&mut records), index);
            ids.push(handles.id(index, records[index].generation));
            assert_eq!(handles.record(&records, ids[ids.len() - 1]).map(|found| found.0), Some(index));
            handles.give_back(&mut records[index], index);
            assert!(ids.iter().all(|&id| handles.record(&records, id).is_none()));
        }
        assert!(ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id)), "a handle came twice");
    }

    /// A record that was dropped and comes back has no generation that it had before.
    #[test]
    fn shrinking_brings_no_handle_back_to_life() {
        let mut records = Records::<()>::new();
        let mut handles = Handles::new(NonZeroU32::MIN);
        let mut dead = alloc::vec::Vec::new();
        for round in 0..5 {
            let taken: alloc::vec::Vec<u32> = (0..10).map(|_| handles.take(&mut records)).collect();
            dead.extend(taken.iter().map(|&index| handles.id(index, records[index].generation)));
            taken.iter().for_each(|&index| handles.give_back(&mut records[index], index));
            handles.shrink(&mut records);
            assert_eq!((records.len(), round), (0, round));
            let index = handles.take(&mut records);
            assert!(dead.iter().all(|&id| handles.record(&records, id).is_none()));
            handles.give_back(&mut records[index], index);
        }
    }
}
