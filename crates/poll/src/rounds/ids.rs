//! The ids of sources and gates: index and generation, so that a stale one names nothing.

use core::num::NonZeroU32;

/// Names a source of a [`Rounds`](super::Rounds). After that source is removed it names nothing, however long
/// it is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceId {
    pub(super) index: u32,
    pub(super) generation: NonZeroU32,
}

/// Names a gate of a [`Rounds`](super::Rounds): a reason to shut input.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GateId {
    pub(super) index: u32,
    pub(super) generation: NonZeroU32,
}

impl SourceId {
    /// Returns the id of the source that was added after `index` others, if none has been removed yet.
    pub const fn from_index(index: u32) -> Self {
        SourceId { index, generation: NonZeroU32::MIN }
    }

    /// Returns the source's number: from zero in the order of addition; a source added after others were
    /// removed may reuse the number of one of those.
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// Returns the id as a number of 2³² or more, unique among all sources: a token for epoll or mio.
    ///
    /// ```
    /// use softtimers_poll::SourceId;
    ///
    /// let source = SourceId::from_index(7);
    /// assert_eq!(SourceId::from_bits(source.to_bits()), Some(source));
    /// assert_eq!(SourceId::from_bits(7), None);
    /// ```
    pub const fn to_bits(self) -> u64 {
        (self.generation.get() as u64) << 32 | self.index as u64
    }

    /// Returns the source of this number; `None` for one below 2³².
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match NonZeroU32::new((bits >> 32) as u32) {
            Some(generation) => Some(SourceId { index: bits as u32, generation }),
            None => None,
        }
    }
}
