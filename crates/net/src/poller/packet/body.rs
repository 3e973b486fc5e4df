//! [`Body`]: what the devices of a packet socket have in common, whatever the layout of their ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use softtimers::RealtimeOffset;
use softtimers_linux::packet;

use super::presence::{Losses, Presence};
use crate::packet::{Filter, Interface};
use crate::poller::device::Drops;
use crate::poller::watchdog::PERIOD;

/// A packet socket, its interface's state, and the counts of its frames.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) socket: OwnedFd,
    pub(super) realtime: RealtimeOffset,
    /// Whether to include frames that this machine sends.
    pub(super) outgoing: bool,
    /// Whether frames came since the wake-up was last enabled.
    busy: bool,
    pub(super) presence: Presence,
    pub(super) drops: Drops,
    pub(super) losses: Losses,
}

/// How a device listens to its interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listening<'a> {
    /// In promiscuous mode.
    pub(super) promiscuous: bool,
    /// Also to frames that this machine sends.
    pub(super) outgoing: bool,
    pub(super) filter: Option<&'a Filter>,
}

impl Body {
    /// Opens a socket, which `map` gives its ring before the first frame can come.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn open(
        interface: &Interface,
        listening: Listening<'_>,
        map: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
    ) -> io::Result<Self> {
        let Listening { promiscuous, outgoing, filter } = listening;
        let socket = packet::frames(interface.index(), libc::ETH_P_ALL as u16, |socket| {
            map(socket.as_fd())?;
            if !outgoing {
                // On a kernel without this option, they are skipped when read.
                let _ = packet::ignore_outgoing(socket.as_fd());
            }
            filter.map_or(Ok(()), |filter| packet::attach_filter(socket.as_fd(), filter.program()))
        })?;
        if promiscuous {
            packet::hear_all(socket.as_fd(), interface.index())?;
        }
        let mut body = Body {
            socket,
            realtime: RealtimeOffset::sample(),
            outgoing,
            busy: false,
            presence: Presence::default(),
            drops: Drops::default(),
            losses: Losses::since_now(interface.index()),
        };
        // An interface that is switched off says so at once.
        body.presence.look_at_link(body.socket.as_fd());
        Ok(body)
    }

    /// Accepts no more frames, whatever the filter was.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn close(&self) -> io::Result<()> {
        packet::attach_filter(self.socket.as_fd(), Filter::nothing().program())
    }

    /// Counts the frames of a turn.
    pub(super) fn took(&mut self, frames: usize) {
        self.busy |= frames > 0;
        self.losses.looked += frames as u64;
    }

    /// Returns whether the program may wait for a wake-up.
    pub(super) fn arm(&mut self, is_ready: impl FnOnce() -> bool) -> bool {
        // A wake-up without a frame means a change of the link.
        if !std::mem::take(&mut self.busy) {
            self.presence.look_at_link(self.socket.as_fd());
        }
        !is_ready() && !self.presence.has_news()
    }

    /// A second: a poller wakes up this often for this device alone.
    pub(super) fn watchdog_period(&self) -> Option<Duration> {
        self.presence.is_watched().then_some(PERIOD)
    }

    /// Finds out whether the interface was removed.
    ///
    /// # Errors
    /// `ENODEV` once, if it was.
    pub(super) fn look_for_removal(&mut self) -> io::Result<()> {
        self.presence.look_for_removal(self.socket.as_fd());
        // A send may have detected it, which a turn that waits for its wake-up does not see.
        self.presence.tell()
    }

    /// Brings the interface's drops up to date.
    pub(super) fn drops(&mut self) -> Drops {
        self.losses.count(&mut self.drops);
        self.drops
    }
}
