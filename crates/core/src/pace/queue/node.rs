//! How a flow is filed: under which time, and where.

use crate::Timestamp;

/// A release time and when it was filed, in one number that is quickly compared. No two are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Filed(u128);

impl Filed {
    #[inline]
    pub(super) fn new(time: Timestamp, sequence: u64) -> Self {
        Filed(u128::from(time.as_nanos()) << u64::BITS | u128::from(sequence))
    }

    #[inline]
    pub(super) fn time(self) -> Timestamp {
        Timestamp::from_nanos((self.0 >> u64::BITS) as u64)
    }
}

/// The links of a flow in the calendar: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Node {
    pub(super) time: u64,
    pub(super) sequence: u64,
    pub(super) next: u32,
    pub(super) prev: u32,
    pub(super) place: Place,
}

/// The place of a flow: a slot of the calendar, or one of those below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(pub(super) u32);

impl Place {
    pub(super) const NOWHERE: Place = Place(u32::MAX);
    pub(super) const RUN: Place = Place(u32::MAX - 1);
    pub(super) const SOLE: Place = Place(u32::MAX - 2);
}

impl Node {
    pub(super) const NOWHERE: Node =
        Node { time: 0, sequence: 0, next: NIL, prev: NIL, place: Place::NOWHERE };

    #[inline]
    pub(super) fn filed(&self) -> Filed {
        Filed::new(Timestamp::from_nanos(self.time), self.sequence)
    }
}

/// The index that is no flow's.
pub(super) const NIL: u32 = u32::MAX;
