//! The inbox: timers that have been set or moved, and not inserted yet.
//!
//! A request sets its time-out, the answer comes, the time-out is cancelled: most timers end so, and many
//! before the wheel is checked again. Such a timer need not be inserted at all. It waits here, where only its
//! due time and its deadline matter, and the next check of the wheel inserts those that are left. Inserting
//! them together overlaps their cache misses.
//!
//! ```text
//!   set ─▶ [ 7 12 9 · … ]  16 at most ──a look, or no room──▶ front, or a slot's chunk
//!             ▲
//!             └─ cancelled: the last one takes its place
//! ```

use super::Wheel;
use super::record::{INBOX, Location, Records};

#[derive(Debug)]
pub(super) struct Inbox {
    timers: [u32; ROOM],
    len: u32,
    /// The time before which none of them is due.
    pub(super) least_due: u64,
}

impl Inbox {
    pub(super) const fn new() -> Self {
        Inbox { timers: [0; ROOM], len: 0, least_due: u64::MAX }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a timer; `None` if there is no room.
    #[inline]
    pub(super) fn push(&mut self, timer: u32, due: u64) -> Option<Location> {
        let at = self.len;
        *self.timers.get_mut(at as usize)? = timer;
        self.len += 1;
        self.least_due = self.least_due.min(due);
        Some(Location::new(INBOX, at as usize))
    }

    pub(super) fn timers(&self) -> &[u32] {
        &self.timers[..self.len as usize]
    }

    /// Removes the timer that came last, if this is its place.
    #[inline]
    pub(super) fn take_back(&mut self, place: Location) -> bool {
        let last = self.len.wrapping_sub(1);
        let is_last = place == Location::new(INBOX, last as usize);
        if is_last {
            self.len = last;
        }
        is_last
    }

    #[inline]
    pub(super) fn remove<E>(&mut self, at: usize, records: &mut Records<E>) {
        self.len -= 1;
        let last = self.len as usize;
        if at != last {
            let moved = self.timers[last];
            self.timers[at] = moved;
            records[moved].place = Location::new(INBOX, at);
        }
    }
}

impl<E> Wheel<E> {
    /// Inserts the timers of the inbox: a quantum of work.
    ///
    /// The horizon has not moved since they were set: they go behind older ones with the same due time, not
    /// on a level below them.
    #[inline(never)]
    pub(super) fn file_inbox(&mut self) {
        // The least of both, so that no index is checked.
        for at in 0..(self.inbox.len as usize).min(ROOM) {
            self.file(self.inbox.timers[at]);
        }
        (self.inbox.len, self.inbox.least_due) = (0, u64::MAX);
    }
}

/// Holds most time-outs that are cancelled early; inserting 16 takes only a microsecond.
const ROOM: usize = 16;
