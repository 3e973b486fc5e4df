//! [`Backup`]: the hardware timer behind the trigger states, as one file descriptor for any loop.
//!
//! Register it with the loop you have; after each batch of events call [`Backup::arm`] with
//! [`SoftTimers::poll_at`](crate::SoftTimers::poll_at). While the program keeps meeting trigger states
//! the descriptor hardly ever becomes readable; when the program sleeps, it wakes it at the deadline.
//!
//! ```text
//!    your loop:  poll ─▶ handle ─▶ trigger + next … ─▶ backup.arm(now, timers.poll_at()) ─┐
//!                  ▲                                                                      │
//!                  └──────────── sleeps; the descriptor is readable at the deadline ◀─────┘
//! ```
//!
//! | mode | armed | paper |
//! |---|---|---|
//! | [`Backup::deadline`] | once, at the earliest deadline, and only while something is pending | soft timers §5.9; smart timers |
//! | [`Backup::tick`] | periodically, always | soft timers §3: the periodic interrupt |
//!
//! After fork(2) a child shares its parent's descriptors, and so would arm the parent's timer. The first call of
//! [`arm`](Backup::arm), [`expired`](Backup::expired) or [`as_fd`](AsFd::as_fd) in the child gives it a timer of its own
//! behind the same descriptor, to be armed there. An epoll instance stays shared: a child needs one of its own.

use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use softtimers_core::{Alarm, Clock, Command, Timestamp};

use softtimers_linux::timerfd::TimerFd;

use crate::clock::Monotonic;

/// A kernel timer that is armed for the earliest deadline, as lazily as possible.
///
/// ```
/// use std::time::Duration;
/// use softtimers::{Backup, Clock, Config, Monotonic, Slack, SoftTimers, TriggerState};
///
/// let mut timers = SoftTimers::new(Config::default());
/// let mut backup = Backup::deadline()?;
/// timers.schedule(Monotonic.now(), Duration::from_micros(200), Slack::EXACT, "tick");
///
/// backup.arm(Monotonic.now(), timers.poll_at())?;
/// backup.wait()?; // in a real loop: your own poll, epoll, mio, libuv …
/// backup.expired()?;
/// let turn = timers.trigger(TriggerState::Backup, Monotonic.now());
/// assert_eq!(timers.next(&turn).map(|fired| fired.event), Some("tick"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Backup {
    timer: TimerFd,
    mode: Mode,
    /// The process that `mode` is about, as [`TimerFd::own`] counts.
    process: u32,
    stats: BackupStats,
}

#[derive(Debug)]
enum Mode {
    Deadline(Alarm),
    Tick(NonZeroU32),
}

/// The cost of a [`Backup`] so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackupStats {
    /// Calls to [`Backup::arm`].
    pub asked: u64,
    /// Calls among those that needed a system call to set the timer.
    pub set: u64,
    /// Calls among those that needed a system call to clear it.
    pub cleared: u64,
    /// Times the timer went off.
    pub expirations: u64,
}

impl Backup {
    /// Makes a backup that goes off at the earliest deadline: a one-shot timer, not armed yet.
    ///
    /// # Errors
    /// If the kernel refuses another descriptor.
    pub fn deadline() -> io::Result<Self> {
        Backup::new(TimerFd::new()?, Mode::Deadline(Alarm::new()))
    }

    /// Makes a backup that goes off `hz` times a second from `now` on, whether or not anything is pending:
    /// the paper's facility, for comparison and for events with [`Slack::DEFERRABLE`](crate::Slack).
    ///
    /// # Errors
    /// If the kernel refuses another descriptor.
    pub fn tick(hz: NonZeroU32, now: Timestamp) -> io::Result<Self> {
        let timer = TimerFd::new()?;
        start_ticking(&timer, hz, now)?;
        Backup::new(timer, Mode::Tick(hz))
    }

    fn new(timer: TimerFd, mode: Mode) -> io::Result<Self> {
        Ok(Backup { process: timer.own()?, timer, mode, stats: BackupStats::default() })
    }

    /// Makes the timer this process's own, if it was inherited by fork(2).
    fn own(&mut self) -> io::Result<()> {
        let process = self.timer.own()?;
        if process != self.process {
            match &mut self.mode {
                Mode::Deadline(alarm) => alarm.expired(),
                Mode::Tick(hz) => start_ticking(&self.timer, *hz, Monotonic.now())?,
            }
            self.process = process;
        }
        Ok(())
    }

    /// Arms the timer for `poll_at`, the earliest deadline: the descriptor becomes readable at that time at
    /// the latest. `None` disarms it. Does nothing to a tick.
    ///
    /// # Cost
    /// No system call while the armed time is early enough and not about to pass; else one: 0.6 µs, and 3 to 10 µs
    /// where the timer becomes the CPU's next interrupt; a wake-up for nothing would cost 7 to 27 µs. For one flow at
    /// tens of microseconds that is about one a departure.
    ///
    /// # Errors
    /// In a child of fork(2), if it has no descriptor left; otherwise none that a working kernel gives.
    pub fn arm(&mut self, now: Timestamp, poll_at: Option<Timestamp>) -> io::Result<()> {
        self.arm_by(Alarm::want, now, poll_at)
    }

    /// As [`arm`](Self::arm), for a thread other than the sleeper: rarely moves the timer later.
    pub(crate) fn arm_for_sleeper(&mut self, now: Timestamp, poll_at: Option<Timestamp>) -> io::Result<()> {
        self.arm_by(Alarm::want_for_sleeper, now, poll_at)
    }

    /// Returns whether [`arm_for_sleeper`](Self::arm_for_sleeper) would change nothing, if the only change is
    /// a deadline at `earliest` or later.
    pub(crate) fn keeps(&self, now: Timestamp, earliest: Timestamp) -> bool {
        match &self.mode {
            Mode::Deadline(alarm) => alarm.keeps(now, earliest),
            Mode::Tick(_) => true,
        }
    }

    fn arm_by(
        &mut self,
        decide: fn(&mut Alarm, Timestamp, Option<Timestamp>) -> Command,
        now: Timestamp,
        poll_at: Option<Timestamp>,
    ) -> io::Result<()> {
        self.own()?;
        self.stats.asked += 1;
        let Mode::Deadline(alarm) = &mut self.mode else { return Ok(()) };
        let done = match decide(alarm, now, poll_at) {
            Command::Keep => Ok(()),
            Command::Set(time) => {
                self.stats.set += 1;
                self.timer.arm_at(time)
            }
            Command::Clear => {
                self.stats.cleared += 1;
                self.timer.disarm()
            }
        };
        if done.is_err() {
            // The kernel timer's state is unknown: the next call sets it in any case.
            alarm.expired();
        }
        done
    }

    /// Drains the descriptor; call it when that was reported readable. Returns how often the timer has gone
    /// off since the last call; zero if the report was stale.
    ///
    /// # Errors
    /// As [`arm`](Self::arm).
    pub fn expired(&mut self) -> io::Result<u64> {
        self.own()?;
        let expirations = self.timer.drain()?;
        self.stats.expirations += expirations;
        if let (Mode::Deadline(alarm), true) = (&mut self.mode, expirations > 0) {
            alarm.expired();
        }
        Ok(expirations)
    }

    /// Notes that the timer has gone off, if it was armed for `now` or before; returns for when. For a descriptor that is watched
    /// for edges: it need not be drained, since setting the timer again does so.
    pub(crate) fn went_off(&mut self, now: Timestamp) -> Option<Timestamp> {
        let Mode::Deadline(alarm) = &mut self.mode else { return None };
        let armed = alarm.armed().filter(|&armed| armed <= now)?;
        alarm.expired();
        self.stats.expirations += 1;
        Some(armed)
    }

    /// Sleeps until the timer goes off. For programs without a loop, and for tests.
    ///
    /// # Errors
    /// `InvalidInput` if it is not armed: the sleep would never end.
    pub fn wait(&self) -> io::Result<()> {
        if self.armed().is_none() && self.tick_hz().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the backup is not armed"));
        }
        while !softtimers_linux::wait::wait_readable(self.timer.as_fd(), None)? {}
        Ok(())
    }

    /// Returns the time the one-shot timer is armed for.
    pub fn armed(&self) -> Option<Timestamp> {
        match &self.mode {
            Mode::Deadline(alarm) => alarm.armed(),
            Mode::Tick(_) => None,
        }
    }

    /// Returns the interrupts per second of a tick; `None` in deadline mode, whose resolution is the
    /// kernel's.
    #[doc(alias = "interrupt_clock_resolution")]
    pub fn tick_hz(&self) -> Option<NonZeroU32> {
        match self.mode {
            Mode::Deadline(_) => None,
            Mode::Tick(hz) => Some(hz),
        }
    }

    /// Returns the counters since the beginning.
    pub fn stats(&self) -> BackupStats {
        self.stats
    }
}

fn start_ticking(timer: &TimerFd, hz: NonZeroU32, now: Timestamp) -> io::Result<()> {
    let period = Duration::from_nanos(1_000_000_000 / u64::from(hz.get()));
    timer.arm_periodic(now + period, period)
}

impl AsFd for Backup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // A child without a descriptor for a timer learns it from its next call of `arm`.
        let _ = self.timer.own();
        self.timer.as_fd()
    }
}

impl AsRawFd for Backup {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
