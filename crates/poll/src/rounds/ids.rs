//! The names of sources and gates: index and generation, so that one kept too long names nothing.

use core::num::NonZeroU32;

/// Names a source of a [`Rounds`](super::Rounds). Once that was removed it names nothing, however long it is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceId {
    pub(super) index: u32,
    pub(super) generation: NonZeroU32,
}

/// Names a gate of a [`Rounds`](super::Rounds): a reason for which input may be shut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GateId {
    pub(super) index: u32,
    pub(super) generation: NonZeroU32,
}

impl SourceId {
    /// The source that was added after `index` others, if none has been removed yet.
    pub const fn from_index(index: u32) -> Self {
        SourceId { index, generation: NonZeroU32::MIN }
    }

    /// Sources are numbered from zero in the order they were added; one that is added after others were removed
    /// may have the number of one of those.
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// This name as a number of 2³² or more, other than that of every other source: a token for a poll of the system.
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

    /// The source of this number; `None` for one below 2³².
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match NonZeroU32::new((bits >> 32) as u32) {
            Some(generation) => Some(SourceId { index: bits as u32, generation }),
            None => None,
        }
    }
}
