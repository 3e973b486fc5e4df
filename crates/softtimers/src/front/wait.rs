//! Waiting for [`Timers`]: their own sleep, or the time-out for yours.
//!
//! The idle policy is that of every loop of this crate, [`Idle::park`](softtimers_core::Idle::park). It
//! sleeps on the descriptor, not with a time-out, so the thread's timer slack does not have to change: a
//! time-out would be late by it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use softtimers_core::{Clock, Timestamp, Wait};
use softtimers_linux::wait::wait_readable;

use super::{Due, Timers};
use crate::clock::Monotonic;

impl<E> Timers<E> {
    /// Sleeps until an event is due, and returns it; `None` if nothing pending needs it to wake up. For a program without
    /// descriptors of its own.
    ///
    /// A signal does not end it. It wakes up shortly before the deadline and then busy-polls the clock, as
    /// [`Idle::park`](crate::Idle::park) does.
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers::Timers;
    ///
    /// let mut timers = Timers::new()?;
    /// for millis in [900, 300, 600] {
    ///     timers.after(Duration::from_millis(millis), millis);
    /// }
    /// let mut order = Vec::new();
    /// while let Some(due) = timers.wait()? {
    ///     order.push(due.event);
    /// }
    /// assert_eq!(order, [300, 600, 900]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// In a child of fork(2), if it has no descriptor left for a timer of its own; otherwise none that a working kernel
    /// gives. An error leaves the timers unchanged: call again.
    pub fn wait(&mut self) -> io::Result<Option<Due<E>>> {
        loop {
            if let Some(due) = self.next_due_after_work() {
                return Ok(Some(due));
            }
            if let Slept::Forever = self.sleep(None)? {
                return Ok(None);
            }
        }
    }

    /// Sleeps until an event is due, and returns it, or until `source` is readable, and returns `None`. At most one turn of
    /// events comes between two polls of the source, so neither can starve the other.
    ///
    /// ```
    /// use std::net::UdpSocket;
    /// use std::time::Duration;
    /// use softtimers::Timers;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0")?;
    /// socket.send_to(b"hello", socket.local_addr()?)?;
    /// let mut timers = Timers::new()?;
    /// timers.after(Duration::from_millis(1), "tick");
    ///
    /// let (mut buffer, mut seen) = ([0; 2048], Vec::new());
    /// while seen.len() < 2 {
    ///     match timers.wait_readable(&socket)? {
    ///         Some(due) => seen.push(due.event),
    ///         None => {
    ///             socket.recv_from(&mut buffer)?;
    ///             seen.push("packet");
    ///         }
    ///     }
    /// }
    /// seen.sort();
    /// assert_eq!(seen, ["packet", "tick"]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_readable(&mut self, source: &impl AsFd) -> io::Result<Option<Due<E>>> {
        loop {
            if let Some(due) = self.next_due_after_work() {
                return Ok(Some(due));
            }
            if let Slept::Source = self.sleep(Some(source.as_fd()))? {
                return Ok(None);
            }
        }
    }

    /// Returns the earliest deadline (due time plus slack), until which the program may sleep; `None` if nothing pending
    /// needs it to wake up. It may still be the deadline of a timer that was cancelled.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.timers.poll_at()
    }

    /// Returns how long the program may sleep from now on; zero if something is due already. Give it to a wait with a
    /// time-out in nanoseconds, such as ppoll(2) or `epoll_pwait2`, in a thread with a [timer slack](crate::TimerSlack) of
    /// 1 ns. poll(2) and `epoll_wait` round to milliseconds: use the descriptor there.
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers::Timers;
    ///
    /// let mut timers = Timers::new()?;
    /// assert_eq!(timers.timeout(), None); // until a source is ready
    /// timers.after(Duration::from_secs(1), "tick");
    /// assert!(timers.timeout().is_some_and(|timeout| timeout <= Duration::from_millis(1_001)));
    /// timers.after(Duration::ZERO, "now");
    /// assert_eq!(timers.timeout(), Some(Duration::ZERO));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn timeout(&self) -> Option<Duration> {
        let now = Monotonic.now();
        if self.is_due(now) {
            return Some(Duration::ZERO);
        }
        self.timers.poll_at().map(|deadline| deadline.saturating_duration_since(now))
    }

    /// As [`next_due`](Self::next_due), but counts the time since the last sleep as work, not as polling.
    fn next_due_after_work(&mut self) -> Option<Due<E>> {
        let due = self.next_due();
        if due.is_some() {
            self.idle.busy(Monotonic.now());
        }
        due
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.timers.next_due().is_some_and(|due| due <= now)
    }

    /// Sleeps until the source is readable or the earliest deadline is near.
    fn sleep(&mut self, source: Option<BorrowedFd<'_>>) -> io::Result<Slept> {
        self.own()?;
        if let Some(source) = source {
            if wait_readable(source, Some(Duration::ZERO))? {
                self.idle.busy(Monotonic.now());
                return Ok(Slept::Source);
            }
        }
        let now = Monotonic.now();
        // Do not sleep if an event fell due in the last turn, whatever its slack.
        let wait = if self.is_due(now) { Wait::Poll } else { self.idle.wait_for(now, &self.timers) };
        let wake = match wait {
            Wait::Poll => return Ok(Slept::Timer),
            Wait::Until(wake) => Some(wake),
            Wait::Forever if source.is_none() => return Ok(Slept::Forever),
            Wait::Forever => None,
        };
        self.arm(now, wake);
        let found = self.wait_for(source)?;
        let now = Monotonic.now();
        match wake {
            Some(wake) if !found && now >= wake => self.idle.woke(wake, now),
            _ => {}
        }
        Ok(if found { Slept::Source } else { Slept::Timer })
    }

    /// Sleeps until the descriptor or the source is readable, or a signal has come; returns whether it was
    /// the source.
    fn wait_for(&self, source: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        let timer = PollFd::new(&self.timer, PollFlags::IN);
        let found = match source {
            Some(source) => {
                let mut both = [timer, PollFd::from_borrowed_fd(source, PollFlags::IN)];
                poll(&mut both, None).map(|_| !both[1].revents().is_empty())
            }
            None => poll(&mut [timer], None).map(|_| false),
        };
        match found {
            Err(Errno::INTR) => Ok(false),
            found => Ok(found?),
        }
    }
}

/// The reason why a sleep ended.
enum Slept {
    Source,
    /// The timer, a signal, or there was no sleep.
    Timer,
    /// No timer to sleep for.
    Forever,
}
