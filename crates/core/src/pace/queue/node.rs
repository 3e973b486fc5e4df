//! The key under which a flow is inserted, and its position.

use crate::Timestamp;

/// A release time and when it was inserted.
///
/// Insertions are counted in 32 bits: two with the same time are ordered correctly if they are less than 2³¹
/// insertions apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Filed {
    pub(super) time: u64,
    pub(super) sequence: u32,
}

impl Filed {
    #[inline]
    pub(super) fn new(time: Timestamp, sequence: u32) -> Self {
        Filed { time: time.as_nanos(), sequence }
    }

    #[inline]
    pub(super) fn time(self) -> Timestamp {
        Timestamp::from_nanos(self.time)
    }

    #[inline]
    pub(super) fn is_before(self, other: Filed) -> bool {
        // Branchless, because the branch would be unpredictable.
        let earlier = (self.sequence.wrapping_sub(other.sequence) as i32) < 0;
        (self.time < other.time) | (self.time == other.time) & earlier
    }

    /// Returns a number that orders the entries inserted before the sequence reached `present`.
    #[inline]
    pub(super) fn order(self, present: u32) -> u128 {
        u128::from(self.time) << u32::BITS | u128::from(self.sequence.wrapping_sub(present))
    }
}

/// The links of a flow in the calendar: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Node {
    pub(super) time: u64,
    pub(super) sequence: u32,
    pub(super) next: u32,
    pub(super) prev: u32,
    pub(super) place: Bucket,
}

/// The place of a flow: a slot of the calendar, or one of those below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bucket(pub(super) u32);

impl Bucket {
    pub(super) const NOWHERE: Bucket = Bucket(u32::MAX);
    pub(super) const RUN: Bucket = Bucket(u32::MAX - 1);
}

impl Node {
    pub(super) const NOWHERE: Node =
        Node { time: 0, sequence: 0, next: NIL, prev: NIL, place: Bucket::NOWHERE };

    #[inline]
    pub(super) fn filed(&self) -> Filed {
        Filed { time: self.time, sequence: self.sequence }
    }
}

/// The index of no flow.
pub(super) const NIL: u32 = u32::MAX;
