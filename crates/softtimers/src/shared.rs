//! [`Shared`]: timers that any thread may set and cancel, and one thread expires.
//!
//! Most programs give each thread its own timers and do not need this. It is for the others: a worker that
//! sets a time-out on one of the loop's connections, a computation that must not delay other threads' events.
//! The *owner* visits trigger states; all other threads have a [`Remote`].
//!
//! ```text
//!   Remote ─ schedule, cancel ─┐                       ┌─ trigger: two loads, two compares, no lock
//!   Remote ─ schedule, cancel ─┤  lock ▢ timers ▢ lock ├─ next:    a lock for each event
//!   Remote ─ schedule, cancel ─┘     │ earliest due    └─ arm:     before the owner sleeps
//!                                    ▼                                    │
//!                       gate (atomic)   backup's descriptor ◀── a Remote moves it earlier, if the owner sleeps
//! ```
//!
//! 1. **Bounded lock-out.** The lock is held for one operation, or for one [`step`](SoftTimers::step) of
//!    expiry: a few microseconds, however many timers fall due together (Costello & Varghese, figure 5).
//!    Claiming [several](Remote::claim_some) at a time holds it for that many steps. Only an owner that goes
//!    to sleep after a peak holds it for longer, once, while it frees memory. Between two steps any thread
//!    may cancel the next event; it then does not come.
//! 2. **Handlers run unlocked.** Events are values. A handler may schedule and cancel anything, take any
//!    time, and panic: no other event is lost.
//! 3. **No wake-up is lost.** A deadline that a remote sets reaches the owner: at its next trigger state if
//!    it runs, by its [`arm`](Shared::arm) if it is about to sleep, by the backup if it sleeps.
//! 4. **Exactly once**: an event is handed to the owner, to a remote's turn, or to the helper, or returned by
//!    one cancel.
//!
//! Any thread may expire timers. A program with one loop leaves it to the owner; an executor whose workers
//! all pass trigger states lets each of them run due events ([`Remote::trigger`]), and the owner then only
//! waits for the descriptor.
//!
//! # When the owner is stuck
//!
//! No descriptor can interrupt a long computation, so the owner's lateness is bounded only by the time
//! between its trigger states. Events that are `Send` can be bounded further: a [`Helper`] is a thread
//! that sleeps until the earliest deadline has passed by more than a grace period, and then runs the due
//! events itself. It costs a sleeping thread, and a wake-up for each grace period in which something was
//! pending; while the owner is on time it does nothing else.
//!
//! # When not to use this
//!
//! When one thread has all the timers: [`SoftTimers`] needs no lock at all. In a child of fork(2), which has none of the
//! other threads, and shares the descriptor with its parent: make another set there.

mod common;
mod helper;
mod sync;
#[cfg(test)]
mod tests;
mod timer;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use softtimers_core::{
    Config, Fired, NotPending, Slack, SoftTimers, Stats, Step, TimerId, Timestamp, TriggerState, Turn,
};

use crate::backup::{Backup, BackupStats};
use common::Common;
use sync::Arc;

pub use helper::Helper;
pub use timer::{Entry, Found, Timer};

/// The owner's side of timers that other threads share. See the [module documentation](self).
///
/// ```
/// use std::thread;
/// use std::time::Duration;
/// use softtimers::shared::Shared;
/// use softtimers::{Clock, Config, Monotonic, Slack, TriggerState};
///
/// let mut timers = Shared::new(Config::default())?;
/// let remote = timers.remote();
/// let other = thread::spawn(move || {
///     remote.schedule(Monotonic.now(), Duration::from_micros(300), Slack::EXACT, "from afar");
/// });
///
/// let mut seen = None;
/// while seen.is_none() {
///     timers.arm(Monotonic.now())?; // before each sleep
///     timers.wait(Duration::from_secs(1))?; // in a real loop: your own poll, epoll, mio …
///     if let Some(turn) = timers.trigger(TriggerState::Backup, Monotonic.now()) {
///         while let Some(fired) = timers.next(&turn) {
///             seen = Some(fired.event);
///         }
///     }
/// }
/// assert_eq!(seen, Some("from afar"));
/// # other.join().unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Shared<E> {
    common: Arc<Common<E>>,
    /// A duplicate of the backup's descriptor, for loops: the backup itself is behind the lock.
    descriptor: OwnedFd,
}

/// Sets and cancels timers of a [`Shared`] from any thread, and lets that thread run due events.
#[derive(Debug)]
pub struct Remote<E>(Arc<Common<E>>);

impl<E> Shared<E> {
    /// Creates an empty set of timers.
    ///
    /// # Errors
    /// If the kernel refuses two descriptors.
    pub fn new(config: Config) -> io::Result<Self> {
        let backup = Backup::deadline()?;
        let descriptor = backup.as_fd().try_clone_to_owned()?;
        Ok(Shared { common: Arc::new(Common::new(Box::new(SoftTimers::new(config)), backup)), descriptor })
    }

    /// Returns a handle to set and cancel timers from another thread.
    pub fn remote(&self) -> Remote<E> {
        Remote(self.common.clone())
    }

    /// As [`SoftTimers::schedule`], under the lock.
    pub fn schedule(&self, now: Timestamp, delay: Duration, slack: Slack, event: E) -> TimerId {
        self.common.change(now, now + delay, |timers| timers.schedule(now, delay, slack, event))
    }

    /// As [`SoftTimers::reschedule`], under the lock.
    ///
    /// # Errors
    /// [`NotPending`] if the event was handed out or cancelled before.
    pub fn reschedule(
        &self,
        now: Timestamp,
        id: TimerId,
        delay: Duration,
        slack: Slack,
    ) -> Result<(), NotPending> {
        self.common.change(now, now + delay, |timers| timers.reschedule(now, id, delay, slack))
    }

    /// As [`SoftTimers::cancel`], under the lock.
    pub fn cancel(&self, id: TimerId) -> Option<E> {
        self.common.cancel(id)
    }

    /// Visits a trigger state: returns a turn if something is due at `now`.
    ///
    /// # Cost
    /// When nothing is due: two loads and two compares, and a store after a sleep; no lock.
    #[inline]
    pub fn trigger(&mut self, source: TriggerState, now: Timestamp) -> Option<Turn> {
        self.common.awake();
        if now < self.common.gate() { None } else { Some(self.common.begin_turn(source, now)) }
    }

    /// Returns the next event of the turn, or `None` when the turn is over.
    ///
    /// # Cost
    /// As [`SoftTimers::next`]. The lock is taken for each step and free between them.
    pub fn next(&mut self, turn: &Turn) -> Option<Fired<E>> {
        self.common.next(turn)
    }

    /// As [`next`](Self::next), in pieces, each of which holds the lock once: for an owner that must also
    /// bound its own work.
    ///
    /// # Cost
    /// As [`SoftTimers::step`], and the lock: however many events fall due together, others wait for one step.
    pub fn step(&mut self, turn: &Turn) -> Step<Fired<E>> {
        self.common.step_while(turn, |_| true).unwrap_or(Step::Done)
    }

    /// Arms the descriptor to become readable at the earliest deadline, also if a remote sets that while the
    /// owner sleeps. Call it before each sleep, after the last trigger state: a trigger state marks the owner
    /// as running, and no remote moves the descriptor until the next `arm`.
    ///
    /// # Cost
    /// As [`Backup::arm`]. After a peak of 16,384 timers or more of which a sixteenth is left, also [`SoftTimers::shrink_to_fit`],
    /// once.
    ///
    /// # Errors
    /// None that a working kernel gives; also reports the error of a remote's arming, if it had one.
    pub fn arm(&mut self, now: Timestamp) -> io::Result<()> {
        self.common.arm(now, Duration::ZERO).map(|_| ())
    }

    /// As [`arm`](Self::arm), but the descriptor becomes readable before the earliest deadline, also if a remote sets that,
    /// by what `lead` exceeds its slack by: for an owner that wakes early and busy-polls
    /// ([`Idle::wait_within`](crate::Idle::wait_within)).
    /// Returns that time, as of now.
    ///
    /// # Errors
    /// As [`arm`](Self::arm).
    pub fn arm_ahead(&mut self, now: Timestamp, lead: Duration) -> io::Result<Option<Timestamp>> {
        self.common.arm(now, lead)
    }

    /// Sets the least time between two wake-ups of a sleeping owner: fewer of them, for events that may be up
    /// to `apart` late beyond their slack. Zero by default. Within the slack wake-ups are coalesced anyway:
    /// one serves all events whose slack it falls into.
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers::shared::Shared;
    /// use softtimers::{Clock, Config, Monotonic, Slack};
    ///
    /// let mut timers = Shared::new(Config::default())?;
    /// timers.coalesce(Duration::from_millis(2));
    /// let start = Monotonic.now();
    /// timers.schedule(start, Duration::ZERO, Slack::EXACT, "first");
    /// let first = timers.arm_ahead(start, Duration::ZERO)?.unwrap();
    /// timers.wait(Duration::from_secs(1))?;
    /// timers.schedule(start, Duration::from_micros(10), Slack::EXACT, "second");
    /// let second = timers.arm_ahead(Monotonic.now(), Duration::ZERO)?.unwrap();
    /// assert_eq!(second, first + Duration::from_millis(2));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn coalesce(&mut self, apart: Duration) {
        self.common.coalesce(apart);
    }

    /// Drains the descriptor, as [`Backup::expired`]; call it when that was reported readable.
    /// [`wait`](Self::wait) does so itself.
    ///
    /// # Cost
    /// The lock and a system call.
    ///
    /// # Errors
    /// None that a working kernel gives.
    pub fn expired(&mut self) -> io::Result<u64> {
        self.common.expired()
    }

    /// Notes that the descriptor was reported readable at `now`; returns the time for which it was armed, `None` if the report
    /// is stale. In place of [`expired`](Self::expired) where the loop watches it for edges (`EPOLLET`), as executors do:
    /// it is not drained.
    ///
    /// # Cost
    /// The lock.
    pub fn went_off(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.common.went_off(now)
    }

    /// Sleeps until the descriptor is readable, at most `longest`. For programs without a loop.
    ///
    /// # Errors
    /// None that a working kernel gives.
    pub fn wait(&mut self, longest: Duration) -> io::Result<()> {
        if softtimers_linux::wait::wait_readable(self.descriptor.as_fd(), Some(longest))? {
            self.expired()?;
        }
        Ok(())
    }

    /// As [`SoftTimers::poll_at`], under the lock.
    ///
    /// # Cost
    /// As [`SoftTimers::poll_at`]; blocks while another thread holds the lock, at most for one operation.
    pub fn poll_at(&self) -> Option<Timestamp> {
        self.common.poll_at()
    }

    /// Returns the counters since the beginning. Trigger states at which nothing was due are not counted.
    ///
    /// # Cost
    /// A copy of some numbers; blocks while another thread holds the lock, at most for one operation.
    pub fn stats(&self) -> Stats {
        self.common.stats()
    }
}

impl<E> AsFd for Shared<E> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl<E> AsRawFd for Shared<E> {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl<E> Remote<E> {
    /// As [`SoftTimers::schedule`]. Wakes a sleeping owner at the new deadline.
    ///
    /// # Cost
    /// The lock, and the cost of `schedule`; a system call if the owner sleeps beyond the deadline. The owner
    /// counts as asleep from [`Shared::arm`] to its next [`Shared::trigger`].
    pub fn schedule(&self, now: Timestamp, delay: Duration, slack: Slack, event: E) -> TimerId {
        self.0.change(now, now + delay, |timers| timers.schedule(now, delay, slack, event))
    }

    /// Moves a timer, as [`SoftTimers::reschedule`] does.
    ///
    /// # Errors
    /// [`NotPending`] if the event was handed out or cancelled before.
    pub fn reschedule(
        &self,
        now: Timestamp,
        id: TimerId,
        delay: Duration,
        slack: Slack,
    ) -> Result<(), NotPending> {
        self.0.change(now, now + delay, |timers| timers.reschedule(now, id, delay, slack))
    }

    /// As [`SoftTimers::schedule_at`]; otherwise as [`schedule`](Self::schedule).
    pub fn schedule_at(&self, now: Timestamp, due: Timestamp, slack: Slack, event: E) -> TimerId {
        self.0.change(now, due, |timers| timers.schedule_at(now, due, slack, event))
    }

    /// Moves a timer to a time, as [`SoftTimers::reschedule_at`] does.
    ///
    /// # Errors
    /// [`NotPending`] if the event was handed out or cancelled before.
    pub fn reschedule_at(
        &self,
        now: Timestamp,
        id: TimerId,
        due: Timestamp,
        slack: Slack,
    ) -> Result<(), NotPending> {
        self.0.change(now, due, |timers| timers.reschedule_at(now, id, due, slack))
    }

    /// As [`SoftTimers::cancel`]: returns the event, if it has not been handed out.
    ///
    /// Does not touch the backup: it may go off once for nothing, which is cheaper than a system call for
    /// each cancelled time-out.
    pub fn cancel(&self, id: TimerId) -> Option<E> {
        self.0.cancel(id)
    }

    /// Visits a trigger state of this thread: returns a turn if something is due at `now`. Several threads
    /// may have one at a time; each event goes to one of them. Does not wake the owner.
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers::shared::Shared;
    /// use softtimers::{Clock, Config, Monotonic, Slack, TriggerState};
    ///
    /// let timers = Shared::new(Config::default())?;
    /// let worker = timers.remote();
    /// let now = Monotonic.now();
    /// worker.schedule(now, Duration::from_micros(40), Slack::EXACT, "due");
    /// assert!(worker.trigger(TriggerState::HandlerExit, now).is_none());
    /// let turn = worker.trigger(TriggerState::HandlerExit, now + Duration::from_micros(41)).unwrap();
    /// assert_eq!(worker.next(&turn).map(|fired| fired.event), Some("due"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Cost
    /// When nothing is due: one load and one compare; no lock.
    #[inline]
    pub fn trigger(&self, source: TriggerState, now: Timestamp) -> Option<Turn> {
        if now < self.0.gate() { None } else { Some(self.0.begin_turn(source, now)) }
    }

    /// Returns the time before which a turn has nothing to do, as [`SoftTimers::gate`]: for callers that must
    /// decide something before a turn.
    ///
    /// # Cost
    /// One load; no lock.
    #[inline]
    pub fn gate(&self) -> Timestamp {
        self.0.gate()
    }

    /// Returns the next event of the turn, as [`Shared::next`].
    pub fn next(&self, turn: &Turn) -> Option<Fired<E>> {
        self.0.next(turn)
    }

    /// Returns the time of the next check, as [`Shared::poll_at`] does.
    pub fn poll_at(&self) -> Option<Timestamp> {
        self.0.poll_at()
    }

    /// As [`SoftTimers::slack_left`], under the lock.
    pub fn slack_left(&self, most: Duration) -> Duration {
        self.0.slack_left(most)
    }

    /// Returns the counters, as [`Shared::stats`] does.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Returns the cost of the backup so far.
    pub fn backup_stats(&self) -> BackupStats {
        self.0.backup_stats()
    }
}

impl<E> Clone for Remote<E> {
    fn clone(&self) -> Self {
        Remote(self.0.clone())
    }
}
