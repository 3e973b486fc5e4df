//! [`Timers`]: clock, timers and backup in one object, for a program that only needs its due events.
//!
//! It is a thin shell: [`SoftTimers`](crate::SoftTimers) holds the events, [`Monotonic`] tells the time, a `timerfd` under
//! an [`Alarm`] is the backup, and each repeating event has a [`RateClock`](crate::RateClock). A program that
//! needs another clock, other idle policies or statistics by trigger state uses the parts directly.
//!
//! ```text
//!            next_due() ── now < check_at? ──▶ None          one clock read, one compare
//!                │ no
//!                ▼
//!            a turn: the events due when it began, one by one ──▶ Some(due)
//!                │ over
//!                ▼
//!            the descriptor, if it is in use, is armed for the earliest deadline ──▶ None
//! ```

mod descriptor;
mod repeats;
mod wait;

use std::cell::Cell;
use std::io;
use std::time::Duration;

use softtimers_core::{
    Alarm, Clock, Config, Fired, Histogram, Idle, NotPending, Rate, Slack, SoftTimers, Stats, TimerId,
    Timestamp, TriggerState, Turn,
};
use softtimers_linux::timerfd::TimerFd;

use crate::clock::{IntoTimestamp, Monotonic};
use crate::idle::Governor;
use repeats::Repeats;

/// Timers, the clock that they run on, and the kernel timer that wakes the program for them.
///
/// ```
/// use std::time::Duration;
/// use softtimers::Timers;
///
/// let mut timers = Timers::new()?;
/// timers.every(Duration::from_micros(40), "send");
/// timers.after(Duration::from_millis(2), "stop");
///
/// let mut sent = 0;
/// 'serve: loop {
///     // … the work of the program: packets, requests, frames …
///     while let Some(due) = timers.next_due() {
///         match due.event {
///             "send" => sent += 1,
///             _ => break 'serve,
///         }
///     }
/// }
/// assert!(sent > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Three ways to wait
///
/// - **The program is busy**: call [`next_due`](Self::next_due) at its natural checkpoints. Each call is a clock check,
///   20 to 30 ns when nothing is due.
/// - **It has a poll(2)**, epoll or mio: the object is a descriptor ([`AsFd`](std::os::fd::AsFd)) that is readable when something is due. A wait
///   with a time-out in nanoseconds can take [`timeout`](Self::timeout) instead.
/// - **It has neither**: [`wait`](Self::wait) and [`wait_readable`](Self::wait_readable) sleep until the next event.
///
/// # Guarantees
///
/// An event never comes early; events come in the order of their due times, and once each. An event that a
/// handler schedules, even for now, belongs to the next turn, so every `while let Some(due) =
/// timers.next_due()` ends. A handler can cancel an event that is due but not handed out yet.
/// [`SoftTimers`] has the whole contract.
///
/// # After fork
///
/// A child has a copy of the pending timers, and would share the descriptor: arming it there would wake the parent. So
/// the child gets a kernel timer of its own, behind the same descriptor, in its first call that waits, or asks for the
/// descriptor, or arms it. An epoll instance stays shared with the parent: the child needs one of its own, in which it
/// registers the descriptor again.
///
/// # Cost
///
/// Allocates only when the number of pending timers reaches a new maximum. Uses one descriptor.
#[derive(Debug)]
pub struct Timers<E> {
    timers: SoftTimers<Pending<E>>,
    repeats: Repeats<E>,
    turn: Option<Turn>,
    /// The time before which no event is due and the descriptor needs no change.
    check_at: Cell<Timestamp>,
    timer: TimerFd,
    /// The process that the alarm is about, as [`TimerFd::own`] counts.
    process: Cell<u32>,
    /// The alarm of a watched descriptor, which is never later than the earliest deadline.
    alarm: Cell<Alarm>,
    /// Whether the descriptor has been asked for.
    watched: Cell<bool>,
    idle: Governor,
}

/// An event that is handed out by [`Timers`].
///
/// ```
/// use std::time::Duration;
/// use softtimers::{Due, Timers};
///
/// fn report(due: &Due<&str>) -> String {
///     format!("{} was due at {:?}, {:?} ago", due.event, due.due, due.lateness)
/// }
///
/// let mut timers = Timers::new()?;
/// timers.after(Duration::from_micros(50), "sample");
/// assert!(timers.wait()?.is_some_and(|due| report(&due).starts_with("sample was due at ")));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Due<E> {
    /// The event that was scheduled.
    pub event: E,
    /// The handle of its timer, to cancel one that repeats; of one that does not, it is dead.
    pub timer: TimerHandle,
    /// The scheduled time. For a timer that repeats, the time of this tick in the even schedule; the
    /// difference of two shows how many ticks were skipped in between.
    pub due: Timestamp,
    /// The time from `due` until the event was handed out.
    pub lateness: Duration,
}

/// Names a timer of [`Timers`]. It never names another one of them, however long it is kept.
///
/// ```
/// use std::time::Duration;
/// use softtimers::{TimerHandle, Timers};
///
/// struct Connection {
///     idle: TimerHandle,
/// }
///
/// let mut timers = Timers::new()?;
/// let connection = Connection { idle: timers.after(Duration::from_secs(30), "idle") };
/// assert_eq!(timers.cancel(connection.idle), Some("idle"));
/// assert_eq!(timers.cancel(connection.idle), None); // it has fired; a stale handle names no other timer
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TimerHandle(Name);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Name {
    Once(TimerId),
    Repeating(TimerId),
}

/// A timer that waits in the wheel.
#[derive(Debug)]
enum Pending<E> {
    Once(E),
    /// A timer that repeats, with its next tick.
    Repeating(TimerId),
}

impl<E> Timers<E> {
    /// Creates an empty set. It runs on `CLOCK_MONOTONIC`, with a resolution of 1 µs.
    ///
    /// # Errors
    /// If the kernel refuses a descriptor or a sandbox refuses timers.
    pub fn new() -> io::Result<Self> {
        let timer = TimerFd::new()?;
        timer.disarm()?;
        Ok(Timers {
            timers: SoftTimers::new(Config::default()),
            repeats: Repeats::new(),
            turn: None,
            check_at: Cell::new(Timestamp::MAX),
            process: Cell::new(timer.own()?),
            timer,
            alarm: Cell::new(Alarm::new()),
            watched: Cell::new(false),
            idle: Governor::new(Idle::park()),
        })
    }

    /// Schedules `event` for `delay` from now. If the program sleeps then, the event may come later by
    /// [`Slack::DEFAULT`], a tenth of the delay and at most 50 µs, so that timers share wake-ups.
    pub fn after(&mut self, delay: Duration, event: E) -> TimerHandle {
        let id = self.timers.schedule(Monotonic.now(), delay, Slack::DEFAULT, Pending::Once(event));
        self.settle();
        TimerHandle(Name::Once(id))
    }

    /// Schedules `event` for a [`Timestamp`] or a [`std::time::Instant`], with the slack of [`after`](Self::after). A time
    /// in the past is due at once.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use softtimers::{Clock, Monotonic, Timers};
    ///
    /// # #[expect(clippy::disallowed_methods, reason = "an example")]
    /// let start = Instant::now();
    /// let mut timers = Timers::new()?;
    /// timers.at(start, "first");
    /// timers.at(Monotonic.now() + Duration::from_micros(200), "second");
    /// assert_eq!(timers.wait()?.map(|due| due.event), Some("first"));
    /// assert_eq!(timers.wait()?.map(|due| due.event), Some("second"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn at(&mut self, time: impl IntoTimestamp, event: E) -> TimerHandle {
        self.at_within(time, Slack::DEFAULT, event)
    }

    /// Schedules `event` as [`at`](Self::at) does, with your own slack: how much later it may come.
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers::{Clock, Monotonic, Slack, Timers};
    ///
    /// let mut timers = Timers::new()?;
    /// timers.at_within(Monotonic.now() + Duration::from_micros(100), Slack::EXACT, "to the microsecond");
    /// assert_eq!(timers.wait()?.map(|due| due.event), Some("to the microsecond"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn at_within(&mut self, time: impl IntoTimestamp, slack: Slack, event: E) -> TimerHandle {
        let due = time.into_timestamp();
        let id = self.timers.schedule_at(Monotonic.now(), due, slack, Pending::Once(event));
        self.settle();
        TimerHandle(Name::Once(id))
    }

    /// Schedules `event` again and again at an even interval, first one interval from now, until you
    /// [cancel](Self::cancel) it. The interval is a [`Duration`], or a [`Rate`] where whole nanoseconds would drift.
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers::{Rate, Timers};
    ///
    /// let mut timers = Timers::new()?;
    /// timers.every(Duration::from_micros(40), "sample");
    /// let packets = timers.every(Rate::pps(83_333), "packet"); // one each 12.000048 µs
    /// assert_eq!(timers.cancel(packets), Some("packet"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Missed ticks
    /// The rule is that of [`RateClock`](crate::RateClock). Ticks delayed by up to 10 ms are made up, with
    /// gaps of at least nine sixteenths of the interval, until the schedule is reached again: a receiver of
    /// packets sees a higher rate for a while, and no burst. Ticks further back are skipped, and
    /// [`skipped`](Self::skipped) counts them. For another rule, keep a `RateClock` and schedule each
    /// departure with [`at`](Self::at).
    ///
    /// ```text
    ///   scheduled   │     │     │     │     │     │     │     │
    ///   handed out  ●     ●──── stall ────────●───●───●──●     ●
    /// ```
    ///
    /// An interval of zero is taken as 1 ns.
    pub fn every(&mut self, interval: impl Into<Rate>, event: E) -> TimerHandle
    where
        E: Clone,
    {
        let now = Monotonic.now();
        let timers = &mut self.timers;
        let name = self.repeats.insert(event, interval.into(), now, |name, first| {
            timers.schedule_at(now, first, Slack::EXACT, Pending::Repeating(name))
        });
        self.settle();
        TimerHandle(Name::Repeating(name))
    }

    /// Cancels a timer and returns its event; `None` if it has fired or been cancelled before. A timer that repeats stays
    /// pending until you cancel it.
    ///
    /// # Cost
    /// No system call: a descriptor that was armed for this event may still become readable at its time, with nothing due.
    pub fn cancel(&mut self, timer: TimerHandle) -> Option<E> {
        let event = match timer.0 {
            Name::Once(id) => match self.timers.cancel(id)? {
                Pending::Once(event) => Some(event),
                Pending::Repeating(_) => None,
            },
            Name::Repeating(name) => {
                let (event, id) = self.repeats.remove(name)?;
                self.timers.cancel(id);
                Some(event)
            }
        };
        self.settle();
        event
    }

    /// Moves a pending timer to `delay` from now, with the slack of [`after`](Self::after): for idle
    /// time-outs. A timer that repeats continues from there, without slack.
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers::Timers;
    ///
    /// let mut timers = Timers::new()?;
    /// let idle = timers.after(Duration::from_secs(30), "idle");
    /// timers.reset(idle, Duration::from_secs(30))?; // a packet arrived
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NotPending`] if it has been handed out or cancelled.
    pub fn reset(&mut self, timer: TimerHandle, delay: Duration) -> Result<(), NotPending> {
        let now = Monotonic.now();
        match timer.0 {
            Name::Once(id) => self.timers.reschedule(now, id, delay, Slack::DEFAULT)?,
            Name::Repeating(name) => {
                let id = self.repeats.restart(name, now + delay).ok_or(NotPending)?;
                self.timers.reschedule_at(now, id, now + delay, Slack::EXACT)?;
            }
        }
        self.settle();
        Ok(())
    }

    /// Returns the next due event, or `None` when the turn is over: all events that were due when it began
    /// have been handed out. The call after that checks the clock for another turn.
    ///
    /// It is not an iterator, so that the body of the loop can schedule and cancel:
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers::Timers;
    ///
    /// let mut timers = Timers::new()?;
    /// timers.after(Duration::ZERO, 3);
    /// while let Some(due) = timers.wait()? {
    ///     if due.event > 0 {
    ///         timers.after(Duration::from_micros(100), due.event - 1);
    ///     }
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Cost
    /// When nothing is due, one clock read and one compare. Otherwise O(1), and one system call after a turn
    /// if the descriptor is in use and must be armed again.
    #[inline]
    pub fn next_due(&mut self) -> Option<Due<E>> {
        let now = Monotonic.now();
        if now < self.check_at.get() {
            return None;
        }
        self.next_due_at(now)
    }

    /// Returns the number of pending timers; one that repeats counts as one.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Returns whether no timer is pending.
    pub fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// Returns the number of ticks that [`every`](Self::every) has skipped.
    pub fn skipped(&self) -> u64 {
        self.repeats.skipped()
    }

    /// Returns the counters since the beginning. Clock checks with nothing due are not counted.
    pub fn stats(&self) -> Stats {
        self.timers.stats()
    }

    /// Returns the distribution of lateness, in nanoseconds. The lateness of a tick that is made up counts
    /// from its catch-up time.
    pub fn lateness(&self) -> &Histogram {
        self.timers.lateness()
    }

    fn next_due_at(&mut self, now: Timestamp) -> Option<Due<E>> {
        let turn = self.turn.unwrap_or_else(|| {
            let backup = self.alarm.get().armed().is_some_and(|armed| armed <= now);
            let source = if backup { TriggerState::Backup } else { TriggerState::HandlerExit };
            self.timers.trigger(source, now)
        });
        let due = self.timers.next(&turn).and_then(|fired| self.hand_out(fired, now));
        self.turn = due.is_some().then_some(turn);
        if due.is_none() && self.watched.get() {
            self.arm(now, self.timers.poll_at());
        }
        self.settle();
        due
    }

    fn hand_out(&mut self, fired: Fired<Pending<E>>, now: Timestamp) -> Option<Due<E>> {
        let (event, timer, due) = match fired.event {
            Pending::Once(event) => (event, Name::Once(fired.id), fired.due),
            Pending::Repeating(name) => {
                let timers = &mut self.timers;
                let (event, due) = self.repeats.tick(name, now, |next| {
                    timers.schedule_at(now, next, Slack::EXACT, Pending::Repeating(name))
                })?;
                (event, Name::Repeating(name), due)
            }
        };
        Some(Due { event, timer: TimerHandle(timer), due, lateness: now.saturating_duration_since(due) })
    }
}
