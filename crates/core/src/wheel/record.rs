//! What the wheel knows of one timer: [`Record`], half a cache line.
//!
//! Everything that scheduling, re-arming and expiry read or write of a timer is here, so that each of
//! them costs one cold cache line at a million timers; the event lies apart and is touched when it comes out.
//!
//! ```text
//!    0         8         16     20     24     28     32
//!    ├─────────┼─────────┼──────┼──────┼──────┼──────┤
//!    │ due     │ sequence│ place│ gen. │ early│ late │
//!    └─────────┴─────────┴──────┴──────┴──────┴──────┘
//!      order it comes out in  │          asked for = due − early    └ deadline = due + 24 bits of it;
//!                             └─ where it is filed                    8 bits: how long put off since filed
//! ```

use super::segments::Segments;

/// One timer. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Record {
    /// The time it comes out at, together with `sequence` the order it comes out in.
    pub(crate) due: u64,
    pub(crate) sequence: u64,
    pub(super) place: Place,
    /// For owners of records that hand out handles; the wheel does not look at it.
    pub(crate) generation: u32,
    /// For the owner; the wheel does not look at it.
    pub(crate) early: u32,
    /// How long after `due` the backup must look: a [`Late`]; above it a [`PutOff`].
    late: u32,
}

/// What an owner says of a timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) due: u64,
    pub(crate) sequence: u64,
    pub(crate) early: u32,
    pub(crate) late: Late,
}

impl Terms {
    #[inline]
    pub(super) fn deadline(&self) -> u64 {
        deadline(self.due, self.late)
    }
}

/// The time from a timer's due time to its deadline, rounded down to 20 significant bits: exact up to a millisecond,
/// and two millionths less than it is at the most; up to six days, or no deadline at all. A deadline may be looked at
/// too early, not too late.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Late(u32);

impl Late {
    /// There is no deadline.
    pub(crate) const NEVER: Late = Late((1 << LATE_BITS) - 1);

    /// A floating-point number of 19 bits and 5 of exponent, the highest bit left out.
    #[inline]
    pub(crate) fn from_nanos(nanos: u64) -> Late {
        if nanos < 1 << FRACTION { Late(nanos as u32) } else { Late::from_long(nanos) }
    }

    /// From half a millisecond on.
    #[inline(never)]
    fn from_long(nanos: u64) -> Late {
        let above = nanos.min((1 << (FRACTION + 30)) - 1).ilog2() - FRACTION;
        let fraction = (nanos.min((1 << (FRACTION + 30)) - 1) >> above) as u32 & ((1 << FRACTION) - 1);
        Late((above + 1) << FRACTION | fraction)
    }

    /// From half a millisecond on.
    #[inline(never)]
    fn long_nanos(self) -> u64 {
        let (above, fraction) = (self.0 >> FRACTION, u64::from(self.0 & ((1 << FRACTION) - 1)));
        if self == Late::NEVER { u64::MAX } else { (fraction | 1 << FRACTION) << (above - 1) }
    }
}

/// How long a timer has been put off since it was filed: never more than it was, and a fifth less at the most; below
/// 8 ns not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PutOff(u8);

impl PutOff {
    #[inline]
    fn from_nanos(nanos: u64) -> PutOff {
        if nanos < 8 {
            return PutOff(0);
        }
        let above = nanos.ilog2() - 2;
        PutOff((above << 2) as u8 | (nanos >> above) as u8 & 3)
    }

    #[inline]
    fn nanos(self) -> u64 {
        if self.0 == 0 { 0 } else { u64::from(4 | self.0 & 3) << (self.0 >> 2) }
    }
}

/// Where a record is filed.
///
/// In the low four bits the index in a chunk, whose own index is above them, or one of the marks below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(u32);

/// A [`Place`], taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Filed {
    Chunk {
        chunk: u32,
        at: usize,
    },
    /// In the sorted run at the front.
    Run,
    Inbox {
        at: usize,
    },
    Heap {
        at: usize,
    },
    Nowhere,
}

impl Place {
    pub(super) const NOWHERE: Place = Place(u32::MAX);
    pub(super) const RUN: Place = Place(RUN);

    #[inline]
    pub(super) fn in_chunk(chunk: u32, at: usize) -> Place {
        Place(chunk << MARK_BITS | at as u32)
    }

    #[inline]
    pub(super) fn in_heap(at: usize) -> Place {
        Place((at as u32) << MARK_BITS | HEAP)
    }

    #[inline]
    pub(super) fn in_inbox(at: u32) -> Place {
        Place(at << MARK_BITS | INBOX)
    }

    #[inline]
    pub(super) fn filed(self) -> Filed {
        let above = self.0 >> MARK_BITS;
        match self.0 & MARKS {
            HEAP if self == Place::NOWHERE => Filed::Nowhere,
            HEAP => Filed::Heap { at: above as usize },
            RUN => Filed::Run,
            INBOX => Filed::Inbox { at: above as usize },
            at => Filed::Chunk { chunk: above, at: at as usize },
        }
    }
}

impl Record {
    /// A record that is filed nowhere.
    pub(crate) const fn new(generation: u32) -> Self {
        Record { due: 0, sequence: 0, place: Place::NOWHERE, generation, early: 0, late: Late::NEVER.0 }
    }

    #[inline]
    pub(crate) fn is_filed(&self) -> bool {
        self.place != Place::NOWHERE
    }

    #[inline]
    pub(super) fn deadline(&self) -> u64 {
        deadline(self.due, self.late())
    }

    #[inline]
    fn late(&self) -> Late {
        Late(self.late & ((1 << LATE_BITS) - 1))
    }

    #[inline]
    pub(super) fn entry(&self, timer: u32) -> Entry {
        Entry { due: self.due, sequence: self.sequence, timer, late: self.late() }
    }

    /// Takes the terms over.
    #[inline]
    pub(super) fn agree(&mut self, terms: &Terms) {
        (self.due, self.sequence) = (terms.due, terms.sequence);
        (self.early, self.late) = (terms.early, terms.late.0);
    }

    /// It is in a slot from now on.
    #[inline]
    pub(super) fn file(&mut self, place: Place) {
        self.place = place;
        self.late &= (1 << LATE_BITS) - 1;
    }

    /// Takes the terms over, if it may stay in its slot for them: if neither its due time nor its deadline comes
    /// before what it was filed with, which are what the slot promises.
    #[inline]
    pub(super) fn wait(&mut self, terms: &Terms) -> bool {
        let filed = self.due - PutOff((self.late >> LATE_BITS) as u8).nanos();
        let put_off = if terms.due >= filed && terms.late >= self.late() {
            PutOff::from_nanos(terms.due - filed)
        } else if terms.due >= self.due && terms.deadline() >= self.deadline() {
            PutOff(0)
        } else {
            return false;
        };
        self.agree(terms);
        self.late |= u32::from(put_off.0) << LATE_BITS;
        true
    }
}

/// What decides the order, and the record that has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) due: u64,
    pub(super) sequence: u64,
    pub(super) timer: u32,
    pub(super) late: Late,
}

impl Entry {
    /// Both in one number, which is compared without a branch.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.due) << 64 | u128::from(self.sequence)
    }

    #[inline]
    pub(super) fn deadline(&self) -> u64 {
        deadline(self.due, self.late)
    }

    #[inline]
    pub(super) fn is_before(&self, other: &Entry) -> bool {
        self.key() < other.key()
    }
}

/// When the backup must look; [`u64::MAX`] is never.
#[inline]
pub(super) fn deadline(due: u64, late: Late) -> u64 {
    due.saturating_add(if late.0 >> FRACTION == 0 { u64::from(late.0) } else { late.long_nanos() })
}

pub(crate) type Records = Segments<Record>;

/// The most records there can be: what is left of a [`Place`] beside its mark, less one for "nowhere".
pub(crate) const MOST: usize = (1 << (u32::BITS - MARK_BITS)) - 1;

const LATE_BITS: u32 = FRACTION + 5;
const FRACTION: u32 = 19;
const MARK_BITS: u32 = 4;
const MARKS: u32 = (1 << MARK_BITS) - 1;
const HEAP: u32 = 15;
const RUN: u32 = 14;
const INBOX: u32 = 13;

const _: () = assert!(size_of::<Record>() == 32 && super::chunk::ROOM <= INBOX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers about each power of two, and some between.
    fn numbers() -> impl Iterator<Item = u64> {
        (0..64).flat_map(|bit| {
            let power = 1u64 << bit;
            [power - 1, power, power | 1, power | power >> 1, power | power >> 3 | 5, power | (power - 1)]
        })
    }

    #[test]
    fn a_deadline_is_exact_to_a_millisecond_and_to_two_millionths_beyond() {
        for nanos in numbers() {
            let kept = deadline(0, Late::from_nanos(nanos));
            assert!(kept <= nanos);
            assert!(nanos >= 1 << 20 || kept == nanos);
            assert!(nanos >= 1 << 49 || nanos - kept <= nanos >> 19, "{nanos} is kept as {kept}");
            assert!(nanos < 1 << 49 || kept >= (1 << 49) - (1 << 29));
            assert_ne!(Late::from_nanos(nanos), Late::NEVER);
            // The order of what is kept is that of the numbers.
            for other in numbers().filter(|&other| other <= nanos) {
                assert!(Late::from_nanos(other) <= Late::from_nanos(nanos));
            }
        }
        assert_eq!(deadline(5, Late::NEVER), u64::MAX);
        assert_eq!(deadline(u64::MAX - 1, Late::from_nanos(7)), u64::MAX);
    }

    #[test]
    fn being_put_off_is_never_overestimated_and_not_by_much_under() {
        for nanos in numbers() {
            let kept = PutOff::from_nanos(nanos).nanos();
            assert!(kept <= nanos && (nanos < 8 || nanos - kept <= nanos / 5), "{nanos} is kept as {kept}");
        }
    }

    /// A timer stays in its slot for all terms that the slot's promises cover, and for no others.
    #[test]
    fn a_record_waits_for_what_its_slot_promises() {
        let terms = |due, late| Terms { due, sequence: 1, early: 0, late: Late::from_nanos(late) };
        let filed = || {
            let mut record = Record::new(1);
            record.agree(&terms(1_000_000, 500));
            record.file(Place::in_chunk(0, 0));
            record
        };
        assert!(filed().wait(&terms(1_000_000, 500)) && filed().wait(&terms(2_000_000, 500)));
        assert!(filed().wait(&terms(1_000_400, 100)), "a later time, a later deadline");
        assert!(!filed().wait(&terms(999_999, 5_000)) && !filed().wait(&terms(1_000_000, 499)));
        let mut record = filed();
        assert!(record.wait(&terms(9_000_000, 500)) && record.wait(&terms(4_000_000, 500)), "back again");
        assert!(record.due == 4_000_000 && !record.wait(&terms(999_999, 500)));
        assert!(!record.wait(&terms(3_000_000, 499)), "an earlier deadline than may have been promised");
    }

    /// A place says what it was made from, up to the last one there can be, and nowhere is none of them.
    #[test]
    fn a_place_says_what_it_was_made_from() {
        for at in [0, 1, 12, MOST - 1] {
            for within in 0..super::super::chunk::ROOM {
                let place = Place::in_chunk(at as u32, within);
                assert_eq!(place.filed(), Filed::Chunk { chunk: at as u32, at: within });
            }
            assert_eq!(Place::in_heap(at).filed(), Filed::Heap { at });
            assert_eq!(Place::in_inbox(at as u32).filed(), Filed::Inbox { at });
        }
        assert_eq!((Place::RUN.filed(), Place::NOWHERE.filed()), (Filed::Run, Filed::Nowhere));
    }
}
