//! The handle of a flow.

use crate::TimerId;

/// Names one flow. It never names another one, however long it is kept.
///
/// Using it on another [`DepartureQueue`](super::DepartureQueue) than the one it came from is a mistake: debug builds panic,
/// release builds treat it as any other index and generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlowId(TimerId);

impl FlowId {
    /// Returns a small number that no other existing flow has: below the highest number of flows so far.
    pub fn index(self) -> usize {
        self.0.index() as usize
    }

    /// Returns the handle as a number: see [`TimerId::to_bits`].
    /// [`DepartureQueue::id_of`](super::DepartureQueue::id_of) reverses it.
    pub fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    #[inline]
    pub(super) fn from_timer(id: TimerId) -> Self {
        FlowId(id)
    }

    #[inline]
    pub(super) fn timer(self) -> TimerId {
        self.0
    }
}
