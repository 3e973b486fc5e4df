//! The order in which flows leave: by release time, and among equal ones as they were filed.

use crate::Timestamp;
use crate::heap::IndexedHeap;

/// For each flow with packets: when its first may leave, and its turn among equal ones.
#[derive(Debug)]
pub(super) struct Releases {
    order: IndexedHeap<Filed>,
    sequence: u64,
}

/// A release time and when it was filed: no two are equal.
pub(super) type Filed = (Timestamp, u64);

impl Releases {
    pub(super) const fn new() -> Self {
        Releases { order: IndexedHeap::new(), sequence: 0 }
    }

    /// The least, and whose it is.
    #[inline]
    pub(super) fn first(&self) -> Option<(Filed, u32)> {
        self.order.peek()
    }

    /// What is filed from here on sorts behind this, if its time is not before `now`.
    #[inline]
    pub(super) fn line(&self, now: Timestamp) -> Filed {
        (now, self.sequence)
    }

    /// Files a flow under a release time, anew if it was filed before; `None` takes it out.
    ///
    /// What is due at `now` already queues behind all that is due by then.
    #[inline]
    pub(super) fn file(&mut self, flow: u32, release: Option<Timestamp>, now: Timestamp) {
        let Some(release) = release else {
            self.order.remove(flow);
            return;
        };
        self.order.set(flow, (release.max(now), self.sequence));
        self.sequence += 1;
    }
}
