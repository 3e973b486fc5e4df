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
//!      order it comes out in  │          asked for = due − early      deadline = due + late
//!                             └─ where it is filed, or the next free record
//! ```

use super::heap::Entry;
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
    /// How long after `due` the backup must look.
    pub(crate) late: Late,
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

/// The least time from a timer's due time to its deadline, in 32 bits: up to 4.29 s, or no deadline at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Late(u32);

impl Late {
    /// There is no deadline.
    pub(crate) const NEVER: Late = Late(u32::MAX);

    /// What is longer than 4.29 s is taken as that: a deadline may be looked at too early, not too late.
    #[inline]
    pub(crate) fn from_nanos(nanos: u64) -> Late {
        Late(nanos.min(u64::from(u32::MAX - 1)) as u32)
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
    pub(super) fn filed(self) -> Filed {
        let above = self.0 >> MARK_BITS;
        match self.0 & MARKS {
            HEAP if self == Place::NOWHERE => Filed::Nowhere,
            HEAP => Filed::Heap { at: above as usize },
            RUN => Filed::Run,
            at => Filed::Chunk { chunk: above, at: at as usize },
        }
    }
}

impl Record {
    /// A record that is filed nowhere.
    pub(crate) const fn new(generation: u32) -> Self {
        Record { due: 0, sequence: 0, place: Place::NOWHERE, generation, early: 0, late: Late::NEVER }
    }

    #[inline]
    pub(crate) fn is_filed(&self) -> bool {
        self.place != Place::NOWHERE
    }

    #[inline]
    pub(super) fn deadline(&self) -> u64 {
        deadline(self.due, self.late)
    }

    #[inline]
    pub(super) fn entry(&self, timer: u32) -> Entry {
        Entry { due: self.due, sequence: self.sequence, timer, late: self.late }
    }

    #[inline]
    pub(super) fn agree(&mut self, terms: &Terms) {
        (self.due, self.sequence) = (terms.due, terms.sequence);
        (self.early, self.late) = (terms.early, terms.late);
    }
}

/// When the backup must look; [`u64::MAX`] is never.
#[inline]
pub(super) fn deadline(due: u64, late: Late) -> u64 {
    if late == Late::NEVER { u64::MAX } else { due.saturating_add(u64::from(late.0)) }
}

pub(crate) type Records = Segments<Record>;

/// The most records there can be: what is left of a [`Place`] beside its mark, less one for "nowhere".
pub(crate) const MOST: usize = (1 << (u32::BITS - MARK_BITS)) - 1;

const MARK_BITS: u32 = 4;
const MARKS: u32 = (1 << MARK_BITS) - 1;
const HEAP: u32 = 15;
const RUN: u32 = 14;

const _: () = assert!(size_of::<Record>() == 32 && super::chunk::ROOM <= RUN as usize);
