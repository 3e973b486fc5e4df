//! Few timers: the next ones sorted at the front, the others unsorted beside it, and no wheel.
//!
//! Up to a thousand timers an array with an occasional scan is faster than any wheel, and three timers do not
//! justify a wheel's memory. Few timers are all in the front and in [`later`](super::later); the front's
//! horizon is at the end of time, so that none is inserted in slots.
//!
//! ```text
//!   timers   1 ………… 256 ………… 1,024 | 1,025 …      horizon = the present granule: from here on new timers go to slots
//!                    ◀── new timers are among the few again; small once the slots are empty
//! ```
//!
//! No timer is moved at a limit. Timers set while there are few stay where they are, whatever their time,
//! until they come next, are cancelled or postponed, and so do those in slots. So crossing a limit costs no
//! more than any other timer, and a load near the limit does not switch back and forth.

use super::level::Reach;
use super::migration::Migrations;
use super::sizes::{MORE_SHIFT, MOST_SHIFT};
use super::terms::Key;
use super::{Step, Wheel};

impl<E> Wheel<E> {
    /// Returns whether no timer is in a slot, and new ones do not go there.
    #[inline]
    pub(super) fn is_small(&self) -> bool {
        self.horizon == u64::MAX
    }

    /// Takes out the first of the queue, which is the least while there are few, and sets the gate to the
    /// next at once. `None` if it does not come before `limit`, or was postponed.
    #[inline(always)]
    pub(super) fn take_queued(&mut self, limit: Key) -> Option<u32> {
        let &first = self.front.queue.first()?;
        if !first.key().is_before(limit) || !self.records[first.timer].is_at(&first) {
            return None;
        }
        self.front.queue.drop_first();
        self.forget_one();
        match self.front.queue.first() {
            Some(next) if self.later.is_after(next.key()) => self.gate = next.due,
            _ if self.len == 0 => {}
            _ => self.settle_now(),
        }
        Some(first.timer)
    }

    /// [`pop`](Self::pop) while there are few. Sets the gate to the next at once.
    #[inline]
    pub(super) fn pop_of_few(&mut self, limit: Key) -> Step<u32> {
        let Some(least) = self.front.take_least(limit, &mut self.records) else { return Step::Done };
        let record = &self.records[least.timer];
        let found = if record.is_at(&least) {
            self.forget_one();
            Step::Fired(least.timer)
        } else {
            self.file_of_few(record.entry(least.timer));
            Step::MoreWork
        };
        self.settle();
        found
    }

    /// Begins a wheel when there are too many for an array: moves the horizon to the present, for timers set
    /// from now on.
    #[inline(never)]
    pub(super) fn begin_wheel(&mut self, now: u64) {
        self.refresh_earliest();
        // Until now only the front knew the least.
        self.least = self.gate;
        // A granule about as wide as the timers are apart: there will be more of them, and those of a slot
        // share its cost.
        let apart = self.later.ahead(now) / u64::from(self.len - self.later.len() as u32 / 2);
        let most = MOST_SHIFT.min(self.least_shift + MORE_SHIFT);
        self.shift = apart.max(1).ilog2().clamp(self.least_shift, most);
        let horizon = (now >> self.shift) + 1;
        (self.horizon, self.slots.reach) = (horizon, Reach::from(horizon));
    }

    /// Returns whether new timers are handled as few although there is a wheel: few are left, and the slots
    /// drain.
    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        self.len <= self.small / 4
    }

    /// Ends the wheel after a turn, if no timer is left in slots.
    #[inline]
    pub(super) fn end_wheel(&mut self) {
        let no_slots = self.inbox.is_empty()
            && self.front.chain.is_empty()
            && self.front.run.is_empty()
            && self.front.len() + self.later.len() == self.len();
        if self.len <= self.small && no_slots {
            self.drop_wheel();
        }
    }

    #[inline(never)]
    fn drop_wheel(&mut self) {
        // Free the chunks that were kept for another timer: the bounds of their slots would be stale later.
        for chunk in self.slots.kept.drain() {
            if let Some(home) = self.slots.chunks.idle(chunk) {
                self.unlink(chunk, home);
            }
        }
        debug_assert!(self.slots.levels.iter().all(super::level::Level::is_empty));
        self.horizon = u64::MAX;
        self.migrations = Migrations::new();
        // The slots' bounds are too early where timers were cancelled.
        self.earliest.gone = true;
    }
}
