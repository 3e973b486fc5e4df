//! Few timers: all of them at the front, and no wheel behind it.
//!
//! For a thousand timers no wheel is as quick as a queue of those in order beside a heap of the others, and nobody wants a
//! wheel's memory for three timers. Both *are* the front, with its horizon at the end of time, so that nothing is filed
//! behind it.
//!
//! ```text
//!   timers   1 ………… 256 ………… 1,024 | 1,025 …      horizon = the present granule: what is set from here on is in slots
//!                    ◀── what is set goes to the front again; small once the slots are empty
//! ```
//!
//! Nothing is moved from one to the other. The front's timers stay where they are, of whatever time, until they are
//! handed out, cancelled or put off, and so do those in slots. So growing beyond a limit costs what any other timer
//! costs, and a load about the limit does not move to and fro.

use super::Wheel;
use super::level::Reach;
use super::migration::Migrations;

impl<E> Wheel<E> {
    /// Says whether all timers are at the front.
    #[inline]
    pub(super) fn is_small(&self) -> bool {
        self.horizon == u64::MAX
    }

    /// Too many for the front alone: puts the horizon at the present, for what is set from now on.
    #[inline(never)]
    pub(super) fn begin_wheel(&mut self, now: u64) {
        self.refresh_earliest();
        // The front alone knew the least until now.
        self.least = self.gate;
        let horizon = (now >> self.shift) + 1;
        (self.horizon, self.slots.reach) = (horizon, Reach::from(horizon));
    }

    /// Whether what is set goes to the front although there is a wheel: few are left, and the slots are to become empty.
    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        self.len <= self.small / 4
    }

    /// After a turn: if all that is left is at the front, there is no wheel any more.
    #[inline]
    pub(super) fn end_wheel(&mut self) {
        let at_front = self.inbox.is_empty() && self.front.chain.is_empty() && self.front.len() == self.len();
        if self.len <= self.small && at_front {
            self.drop_wheel();
        }
    }

    #[inline(never)]
    fn drop_wheel(&mut self) {
        // Chunks that were kept for another timer: what their slots promise would be taken for true later.
        for chunk in self.slots.kept.drain() {
            if let Some(home) = self.slots.chunks.idle(chunk) {
                self.unlink(chunk, home);
            }
        }
        debug_assert!(self.slots.levels.iter().all(super::level::Level::is_empty));
        self.horizon = u64::MAX;
        self.migrations = Migrations::new();
        // What the slots promised is early where timers were cancelled.
        self.earliest.gone = true;
    }
}

/// Above this many timers, a wheel: as a heap of so many has five levels, and fits the nearest cache.
pub(crate) const MOST: usize = 1_024;
