//! The wheel's record of one timer: [`Record`], half a cache line with an event of up to eight bytes.
//!
//! Everything that scheduling, re-arming and expiry read or write is here, the event included, so that each
//! of them costs one cold cache line at a million timers.
//!
//! ```text
//!    0         8          12       16        24      28      32
//!    ├─────────┼──────────┼────────┼─────────┼───────┼───────┤
//!    │ due     │ sequence │ margin │ event   │ place │ gen.  │
//!    └─────────┴──────────┴────────┴─────────┴───────┴───────┘
//!      order it comes out in  │                └─ where it is inserted
//!                             └─ the time asked for, and the deadline
//! ```

use super::margin::{Margin, Margins};
use super::segments::Segments;
use super::terms::{Entry, Key, Sequence, Terms};

/// One timer. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct Record<E> {
    /// The time at which it comes out; with the sequence, the order in which it comes out.
    pub(crate) due: u64,
    /// `None` while nothing is pending here.
    pub(super) held: Option<Held<E>>,
    pub(super) place: Location,
    /// For owners of records that issue handles; the wheel does not read it.
    pub(crate) generation: u32,
}

/// The state of a timer that is pending.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Held<E> {
    pub(super) sequence: Sequence,
    pub(super) margin: Margin,
    pub(super) event: E,
}

/// The place where a record is inserted; for one that is not, the next free record.
///
/// In the low four bits the index in a chunk, whose own index is above them, or one of the marks below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Location(u32);

/// A [`Location`], taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Filed {
    Chunk { chunk: u32, at: usize },
    Run { at: u32 },
    Queue { at: u32 },
    Near { at: u32 },
    Later { at: usize },
    Inbox { at: usize },
    Heap { at: usize },
}

impl Location {
    /// Returns the place with this number in the list that `mark` names.
    #[inline]
    pub(super) fn new(mark: u32, at: usize) -> Location {
        Location((at as u32) << MARK_BITS | mark)
    }

    #[inline]
    pub(super) fn in_chunk(chunk: u32, at: usize) -> Location {
        Location::new(at as u32, chunk as usize)
    }

    /// Returns the index among the [later](super::later) ones, if it is there.
    #[inline]
    pub(super) fn at_later(self) -> Option<usize> {
        (self.0 & (FEW | MARKS) == LATER).then_some(((self.0 & !FEW) >> MARK_BITS) as usize)
    }

    /// Returns the index in the heap, if it is there.
    #[inline]
    pub(super) fn at_heap(self) -> Option<usize> {
        (self.0 & MARKS == HEAP).then_some((self.0 >> MARK_BITS) as usize)
    }

    /// Returns whether it is in a run or the heap.
    #[inline]
    pub(super) fn is_at_front(self) -> bool {
        self.0 & MARKS >= RUN
    }

    #[inline]
    pub(super) fn filed(self) -> Filed {
        let above = self.0 >> MARK_BITS;
        match self.0 & MARKS {
            HEAP => Filed::Heap { at: above as usize },
            RUN if self.0 & FEW != 0 => Filed::Queue { at: above & COUNTED },
            RUN if self.0 & NEAR & !RUN != 0 => Filed::Near { at: above & COUNTED },
            RUN => Filed::Run { at: above },
            INBOX if self.0 & FEW != 0 => Filed::Later { at: (above & COUNTED) as usize },
            INBOX => Filed::Inbox { at: above as usize },
            at => Filed::Chunk { chunk: above, at: at as usize },
        }
    }
}

impl<E> Record<E> {
    /// Makes a record that is not inserted.
    pub(crate) const fn new(generation: u32) -> Self {
        Record { due: 0, held: None, place: Location(0), generation }
    }

    #[inline]
    pub(crate) fn is_filed(&self) -> bool {
        self.held.is_some()
    }

    /// Links a record that is not inserted before the free record `next`.
    #[inline]
    pub(crate) fn link_free(&mut self, next: u32) {
        self.place = Location(next);
    }

    #[inline]
    pub(crate) fn next_free(&self) -> u32 {
        self.place.0
    }

    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key { due: self.due, sequence: self.held.as_ref().map_or(Sequence::FIRST, |held| held.sequence) }
    }

    /// Returns whether this entry is current: the timer has not been postponed since.
    #[inline]
    pub(super) fn is_at(&self, entry: &Entry) -> bool {
        self.due == entry.due && self.held.as_ref().is_some_and(|held| held.sequence == entry.sequence)
    }

    #[inline]
    pub(super) fn deadline(&self, margins: &Margins) -> u64 {
        self.held.as_ref().map_or(u64::MAX, |held| margins.deadline(held.margin, self.due))
    }

    /// Gives a pending record other terms.
    #[inline(always)]
    pub(super) fn agree(&mut self, terms: &Terms, margins: &mut Margins) {
        self.due = terms.due();
        if let Some(held) = &mut self.held {
            margins.release(held.margin);
            (held.sequence, held.margin) = (terms.key.sequence, margins.keep(terms));
        }
    }

    #[inline]
    pub(super) fn entry(&self, timer: u32) -> Entry {
        Entry::new(self.key(), timer)
    }
}

pub(crate) type Records<E> = Segments<Record<E>>;

/// The maximum number of records: the bits of a [`Location`] beside its mark, less one.
pub(crate) const MOST_RECORDS: usize = (1 << (u32::BITS - MARK_BITS)) - 1;

const MARK_BITS: u32 = 4;
const MARKS: u32 = (1 << MARK_BITS) - 1;
/// Marks of places, by the list.
pub(super) const HEAP: u32 = 15;
pub(super) const RUN: u32 = 14;
pub(super) const INBOX: u32 = 13;
pub(super) const QUEUE: u32 = FEW | RUN;
pub(super) const NEAR: u32 = 1 << 30 | RUN;
pub(super) const LATER: u32 = FEW | INBOX;
/// The bit of places that are used while there are few timers.
const FEW: u32 = 1 << 31;
/// The number up to which a run counts before it wraps to zero.
pub(super) const COUNTED: u32 = (1 << (u32::BITS - MARK_BITS - 2)) - 1;

const _: () = assert!(size_of::<Record<u64>>() == 32 && super::sizes::CHUNK_ROOM <= INBOX as usize);
