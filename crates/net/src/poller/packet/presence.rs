//! [`Presence`] and [`Losses`]: the state and the drops of a packet socket's interface.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use softtimers_linux::{packet, sockopt};

use super::is_link_error;
use crate::poller::device::Drops;
use crate::rtnetlink;

/// Whether the interface is there, and how often it was found switched off.
#[derive(Debug, Default)]
pub(super) struct Presence {
    condition: Condition,
    pub(super) outages: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Condition {
    #[default]
    There,
    /// The interface was removed, which has not been reported yet.
    Removed,
    Gone,
}

impl Presence {
    /// Fetches the socket's pending error about its interface.
    pub(super) fn look_at_link(&mut self, socket: BorrowedFd<'_>) {
        match sockopt::take_error(socket) {
            Err(error) if is_link_error(&error) => self.link_is_down(socket),
            _ => {}
        }
    }

    pub(super) fn link_is_down(&mut self, socket: BorrowedFd<'_>) {
        if self.condition == Condition::There {
            self.outages += 1;
            self.look_for_removal(socket);
        }
    }

    /// Checks for removal: the kernel reports that an interface was switched off, but not that it was then
    /// removed.
    pub(super) fn look_for_removal(&mut self, socket: BorrowedFd<'_>) {
        if self.condition == Condition::There && matches!(packet::is_bound(socket), Ok(false)) {
            self.condition = Condition::Removed;
        }
    }

    /// # Errors
    /// `ENODEV` once, if the interface was removed.
    pub(super) fn tell(&mut self) -> io::Result<()> {
        if self.has_news() {
            self.condition = Condition::Gone;
            return Err(Errno::NODEV.into());
        }
        Ok(())
    }

    /// Returns whether it was removed, and that has not been reported.
    pub(super) fn has_news(&self) -> bool {
        self.condition == Condition::Removed
    }

    /// Returns whether it was removed.
    pub(super) fn is_gone(&self) -> bool {
        self.condition != Condition::There
    }

    /// Returns whether a removal still has to be detected or reported.
    pub(super) fn is_watched(&self) -> bool {
        self.condition != Condition::Gone
    }
}

/// The drops of the interface itself since the device was opened.
#[derive(Debug)]
pub(super) struct Losses {
    interface: u32,
    /// The interface's drops before, if this device reports them.
    before: Option<u64>,
    /// Frames that came by the ring, and those of them with a tag that the kernel had taken out.
    pub(super) looked: u64,
    pub(super) tagged: u64,
}

impl Losses {
    pub(super) fn since_now(interface: u32) -> Self {
        Losses { interface, before: rtnetlink::dropped(interface).ok(), looked: 0, tagged: 0 }
    }

    /// Leaves the interface's drops to another device.
    pub(super) fn leave_to_another(&mut self) {
        self.before = None;
    }

    /// Brings the interface's drops up to date.
    pub(super) fn count(&self, drops: &mut Drops) {
        if let (Some(before), Ok(now)) = (self.before, rtnetlink::dropped(self.interface)) {
            // How many of those that the ring dropped had tags is unknown: assume the same share as of the
            // others.
            let missed = u128::from(drops.ring) * u128::from(self.tagged);
            let missed = (missed / u128::from(self.looked.max(1))) as u64;
            drops.interface = now.saturating_sub(before).saturating_sub(self.tagged + missed);
        }
    }
}
