//! [`Timers`] as a descriptor: armed from its first use on, lazily, and never later than the earliest
//! deadline.
//!
//! ```text
//!   schedule        the deadline moves nearer ─▶ armed at once
//!   in a turn       deadlines come and go      ─▶ nothing, unless one is before the armed time
//!   the turn ends   armed for a time that has passed, or will pass for nothing ─▶ armed for the earliest deadline
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use softtimers_core::{Alarm, Command, Timestamp};

use super::Timers;

impl<E> Timers<E> {
    /// Arms the descriptor to be readable at `wake`, as [`Backup::arm`](crate::Backup::arm).
    pub(super) fn arm(&self, now: Timestamp, wake: Option<Timestamp>) {
        if self.own().is_err() {
            // A child of fork(2) without a descriptor left. It must not arm its parent's timer.
            return;
        }
        let mut alarm = self.alarm.get();
        if wake.is_some() && alarm.armed().is_some_and(|armed| armed <= now) {
            // It has gone off. Setting it again, even for the same time, notifies an edge-triggered loop.
            alarm.expired();
        }
        let done = match alarm.want(now, wake) {
            Command::Keep => Ok(()),
            Command::Set(time) => self.timer.arm_at(time),
            Command::Clear => self.timer.disarm(),
        };
        if done.is_err() {
            // `new` has set this timer once, so a failure is not expected. If it fails, the next call tries
            // again.
            alarm.expired();
        }
        self.alarm.set(alarm);
    }

    /// Makes the timer this process's own, if it was inherited by fork(2): it is disarmed then.
    pub(super) fn own(&self) -> io::Result<()> {
        let process = self.timer.own()?;
        if self.process.replace(process) != process {
            self.alarm.set(Alarm::new());
        }
        Ok(())
    }

    /// Called after a change: arms a watched descriptor early enough, and updates the time of the next check.
    #[inline]
    pub(super) fn settle(&self) {
        let mut check_at = self.timers.gate();
        if self.watched.get() {
            // `arm` tells whether it could be.
            let _ = self.own();
            // Only for an earlier deadline: a later one can wait until the turn is over.
            let deadline = self.timers.poll_at();
            let armed = self.alarm.get().armed().unwrap_or(Timestamp::MAX);
            if deadline.is_some_and(|deadline| deadline < armed) {
                self.arm(Timestamp::ZERO, deadline);
            }
            check_at = check_at.min(self.alarm.get().armed().unwrap_or(Timestamp::MAX));
        }
        self.check_at.set(if self.turn.is_some() { Timestamp::ZERO } else { check_at });
    }
}

/// The descriptor is readable when something is due. Call [`Timers::next_due`] then until it returns `None`; there is nothing
/// to read from it.
///
/// The first call arms it, and from then on it stays armed for the earliest deadline: one system call when that moves nearer,
/// one after a turn when the armed time has passed. Register it once, or pass it to each poll(2). It costs
/// nothing until it is used.
///
/// ```
/// use std::net::UdpSocket;
/// use std::time::Duration;
/// use rustix::event::{PollFd, PollFlags, poll};
/// use softtimers::Timers;
///
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// let mut timers = Timers::new()?;
/// timers.after(Duration::from_millis(1), "tick");
///
/// let due = loop {
///     poll(&mut [PollFd::new(&socket, PollFlags::IN), PollFd::new(&timers, PollFlags::IN)], None)?;
///     // … handle the socket's packets …
///     if let Some(due) = timers.next_due() {
///         break due;
///     }
/// };
/// assert_eq!(due.event, "tick");
/// # Ok::<(), std::io::Error>(())
/// ```
impl<E> AsFd for Timers<E> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let inherited = self.timer.own().is_ok_and(|process| process != self.process.get());
        if !self.watched.replace(true) || inherited {
            self.settle();
        }
        self.timer.as_fd()
    }
}

/// As [`AsFd`], for loops that take a number, such as mio's `SourceFd`.
impl<E> AsRawFd for Timers<E> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
