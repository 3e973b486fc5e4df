//! An owner's request for one timer: [`Terms`], and the [`Key`] by which timers come out in order.

use core::num::NonZeroU32;

/// A counter that orders timers with equal due times as they were set. It wraps: correct for timers less than
/// 2³¹ insertions apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sequence(NonZeroU32);

impl Sequence {
    pub(crate) const FIRST: Sequence = Sequence(NonZeroU32::MIN);

    #[inline]
    pub(crate) fn is_before(self, other: Sequence) -> bool {
        (self.0.get().wrapping_sub(other.0.get()) as i32) < 0
    }

    /// Returns this one and advances the counter.
    #[inline]
    pub(crate) fn advance(&mut self) -> Sequence {
        let next = Sequence(self.0.checked_add(1).unwrap_or(NonZeroU32::MIN));
        core::mem::replace(self, next)
    }

    /// For tests that begin below the wrap.
    pub(crate) const fn starting(at: NonZeroU32) -> Sequence {
        Sequence(at)
    }
}

/// The order timers come out in: due time in nanoseconds, and among equal ones the sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) due: u64,
    pub(crate) sequence: Sequence,
}

impl Key {
    /// Before all timers that slots can hold.
    pub(crate) const ZERO: Key = Key { due: 0, sequence: Sequence::FIRST };

    #[inline]
    pub(crate) fn is_before(self, other: Key) -> bool {
        // Branchless, because the branch would be unpredictable.
        (self.due < other.due) | (self.due == other.due) & self.sequence.is_before(other.sequence)
    }
}

/// The key that decides the order, and the timer: its record, or a flow of a queue of departures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) due: u64,
    pub(crate) sequence: Sequence,
    pub(crate) timer: u32,
}

impl Entry {
    #[inline]
    pub(crate) fn new(Key { due, sequence }: Key, timer: u32) -> Entry {
        Entry { due, sequence, timer }
    }

    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key { due: self.due, sequence: self.sequence }
    }

    #[inline]
    pub(crate) fn is_before(&self, other: &Entry) -> bool {
        self.key().is_before(other.key())
    }

    /// Returns a number that sorts entries whose sequences are within 2³¹ of `other`.
    #[inline]
    pub(crate) fn order(&self, other: Sequence) -> u128 {
        let sequence = self.sequence.0.get().wrapping_sub(other.0.get()) ^ 1 << 31;
        u128::from(self.due) << u32::BITS | u128::from(sequence)
    }
}

/// An owner's terms for a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    pub(crate) key: Key,
    /// The requested time, not after the due time.
    pub(crate) asked: u64,
    /// When the backup must fire, not before the due time; [`u64::MAX`] is never.
    pub(crate) deadline: u64,
}

impl Terms {
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        self.key.due
    }

    /// Makes terms that are due at the requested time, without a deadline.
    #[inline]
    pub(crate) fn plain(key: Key) -> Terms {
        Terms { key, asked: key.due, deadline: u64::MAX }
    }
}
