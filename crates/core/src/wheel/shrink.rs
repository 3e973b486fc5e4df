//! Giving memory back, when asked.
//!
//! A wheel keeps what it once needed, so that a steady load never allocates. After a peak its owner may
//! ask for the rest back. Chunks, rows and records are freed by being made anew: what is filed in chunks is
//! filed again, into as few chunks as it takes. The order of timers does not depend on it, since the
//! [front](super::front) makes the order.

use super::Wheel;
use super::chunk::{Chunks, Kept, List};
use super::level::{LEVELS, Level, Spare};
use super::record::Filed;

impl Wheel {
    /// Gives back all memory but that of what is filed. O(n).
    ///
    /// Records stay: only the owner knows which of them are in use.
    pub(crate) fn shrink(&mut self) {
        (self.chunks, self.kept, self.spare) = (Chunks::new(), Kept::NONE, Spare::new());
        self.levels = [const { Level::EMPTY }; LEVELS];
        self.front.chain.list = List::EMPTY;
        for timer in 0..self.records.len() as u32 {
            if matches!(self.records[timer].place.filed(), Filed::Chunk { .. }) {
                self.refile(timer);
            }
        }
        self.front.heap.shrink();
        self.spare = Spare::new();
        if !self.is_small() {
            self.restart_migrations();
        }
    }
}
