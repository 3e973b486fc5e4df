//! [`Timers`]: clock, timers and backup in one object, for a program that only wants to know what is due.
//!
//! It is a thin shell: [`SoftTimers`](crate::SoftTimers) holds the events, [`Monotonic`] tells the time, a `timerfd` under
//! an [`Alarm`] is the backup, and each repeating event has a [`RateClock`](crate::RateClock). A program that needs another
//! clock, other idle policies or statistics by trigger state takes the parts themselves.
//!
//! ```text
//!            next_due() ── now < check_at? ──▶ None          one clock read, one compare
//!                │ no
//!                ▼
//!            a turn: what was due when it began, one by one ──▶ Some(due)
//!                │ over
//!                ▼
//!            the descriptor, if somebody has asked for it, is armed for the earliest deadline ──▶ None
//! ```

mod repeats;

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use softtimers_core::{
    Alarm, Clock, Command, Config, Fired, Histogram, Idle, NotPending, Rate, Slack, SoftTimers, Stats,
    TimerId, Timestamp, TriggerState, Turn, Wait,
};
use softtimers_linux::timerfd::TimerFd;
use softtimers_linux::wait::wait_readable;

use crate::clock::{IntoTimestamp, Monotonic};
use crate::idle::Governor;
use repeats::{Repeats, Ticking};

/// Events with due times, the clock that they are compared with, and the kernel timer behind them.
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
/// - **The program is busy**, or sleeps elsewhere: call [`next_due`](Self::next_due) where it passes anyway. Each call is
///   a clock check, about 20 ns when nothing is due.
/// - **It has a poll(2)**, epoll or mio: the object is a descriptor ([`AsFd`]) that is readable when something is due.
///   Or give the wait a time-out from [`timeout`](Self::timeout), if it takes nanoseconds.
/// - **It has neither**: [`wait`](Self::wait) and [`wait_readable`](Self::wait_readable) sleep until the next event.
///
/// # What holds
///
/// Events come never early, in the order of their due times, and once. What a handler schedules, even for now, belongs to
/// the next turn: every `while let Some(due) = timers.next_due()` ends. Handlers may schedule and cancel; an event that is
/// cancelled before it was handed out does not come, also if it was due already. See
/// [`SoftTimers`](crate::timers) for the whole contract.
///
/// # Cost
///
/// Nothing is allocated for an event, only for more pending timers than ever before. One descriptor, from the beginning.
#[derive(Debug)]
pub struct Timers<E> {
    timers: SoftTimers<Pending<E>>,
    repeats: Repeats<E>,
    turn: Option<Turn>,
    /// Before this time nothing is due and the descriptor is right.
    check_at: Cell<Timestamp>,
    timer: TimerFd,
    /// Of a watched descriptor never later than the earliest deadline.
    alarm: Cell<Alarm>,
    /// Somebody has asked for the descriptor.
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
    /// Names its timer: to cancel one that repeats. A timer that fires once has fired.
    pub timer: TimerHandle,
    /// The scheduled time. Of a timer that repeats, the time of this tick in the even schedule; so two of them tell how
    /// many ticks were skipped in between.
    pub due: Timestamp,
    /// How long ago that was when the event was handed out.
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
/// assert_eq!(timers.cancel(connection.idle), None); // gone, whatever is scheduled now
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TimerHandle(Name);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Name {
    Once(TimerId),
    Repeating(Ticking),
}

/// What waits in the wheel.
#[derive(Debug)]
enum Pending<E> {
    Once(E),
    /// The next tick.
    Repeating(Ticking),
}

impl<E> Timers<E> {
    /// A set without timers, on `CLOCK_MONOTONIC`, with a resolution of 1 µs.
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
            timer,
            alarm: Cell::new(Alarm::new()),
            watched: Cell::new(false),
            idle: Governor::new(Idle::park()),
        })
    }

    /// Schedules `event` for `delay` from now. Asleep it may come later by [`Slack::DEFAULT`], a tenth of the delay and at
    /// most 50 µs, so that timers share wake-ups.
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
    /// timers.at(Monotonic.now() + Duration::from_micros(200), "second");
    /// timers.at(start, "first");
    /// assert_eq!(timers.wait()?.map(|due| due.event), Some("first"));
    /// assert_eq!(timers.wait()?.map(|due| due.event), Some("second"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn at(&mut self, time: impl IntoTimestamp, event: E) -> TimerHandle {
        self.at_within(time, Slack::DEFAULT, event)
    }

    /// As [`at`](Self::at), with another slack: how much later is still good while the program sleeps.
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

    /// Schedules a copy of `event` at each tick of an even schedule: the first one interval from now, and so on until it is
    /// [cancelled](Self::cancel). Takes a [`Duration`], or a [`Rate`] where an interval in whole nanoseconds would drift.
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
    /// The rule of [`RateClock`](crate::RateClock). Ticks that a stall has delayed by up to 10 ms are made up, at gaps of
    /// no less than nine sixteenths of the interval, until the schedule is reached again; so a receiver of packets sees a
    /// slightly higher rate for a while, and no burst. Ticks that lie further back are skipped, and counted by
    /// [`skipped`](Self::skipped). For another rule, keep a `RateClock` and schedule each departure with [`at`](Self::at).
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

    /// Takes a pending event back; `None` if it has been handed out or cancelled. A timer that repeats is pending until it
    /// is cancelled.
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

    /// Moves a pending event to `delay` from now, as for an idle time-out; one that repeats goes on from there. Its slack
    /// is then that of [`after`](Self::after).
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers::Timers;
    ///
    /// let mut timers = Timers::new()?;
    /// let idle = timers.after(Duration::from_secs(30), "idle");
    /// timers.reset(idle, Duration::from_secs(30))?; // a packet has come
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

    /// The next event of this turn, or `None`: nothing was due when the turn began, or all of it has been handed out. After
    /// `None` the next call begins another turn.
    ///
    /// This is a method and no iterator, so that the body of the loop may schedule and cancel:
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
    /// When nothing is due, one clock read and one compare. Else O(1), and a system call after a turn if the descriptor is
    /// in use and has to be armed anew.
    #[inline]
    pub fn next_due(&mut self) -> Option<Due<E>> {
        let now = Monotonic.now();
        if now < self.check_at.get() {
            return None;
        }
        self.next_due_at(now)
    }

    /// Sleeps until an event is due; `None` if there is none to sleep for. For a program without another descriptor.
    ///
    /// Signals do not end it. It wakes up a little before the deadline and watches the clock for the rest, as
    /// [`Idle::park`] does: a few percent of a CPU at 100 µs.
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers::Timers;
    ///
    /// let mut timers = Timers::new()?;
    /// for millis in [3, 1, 2] {
    ///     timers.after(Duration::from_millis(millis), millis);
    /// }
    /// let mut order = Vec::new();
    /// while let Some(due) = timers.wait()? {
    ///     order.push(due.event);
    /// }
    /// assert_eq!(order, [1, 2, 3]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// None that a working kernel gives. The timers are untouched by one: call again.
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

    /// Sleeps until an event is due or `source` is readable, which is `None`. At most one turn of events comes between two
    /// looks at the source, so neither can starve the other.
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
    /// None that a working kernel gives. The timers are untouched by one: call again.
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

    /// The earliest deadline, due time and slack: the time until which the program may sleep. `None` if nothing pending
    /// needs it to wake up. It may be the time of an event that has been cancelled.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.timers.poll_at()
    }

    /// How long from now on the program may sleep; zero if something is due already. For a wait with a time-out in
    /// nanoseconds, such as ppoll(2) or `epoll_pwait2`, whose thread should have a [timer slack](crate::TimerSlack) of
    /// 1 ns. Rounded to the milliseconds of poll(2) and `epoll_wait` it would be late: use the descriptor there.
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

    /// Returns the number of pending timers; one that repeats counts as one.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether no timer is pending.
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

    /// Returns the distribution of lateness, in nanoseconds. It is that of the timers: a tick that is made up counts from
    /// the time to which that had moved it.
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

    /// As [`next_due`](Self::next_due); what ran since the last sleep was not polling.
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
        if let Some(source) = source {
            if wait_readable(source, Some(Duration::ZERO))? {
                self.idle.busy(Monotonic.now());
                return Ok(Slept::Source);
            }
        }
        let now = Monotonic.now();
        // What fell due in the last turn is not slept over, whatever its slack.
        let wait = if self.is_due(now) { Wait::Poll } else { self.idle.wait(now, self.timers.poll_at()) };
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

    /// Sleeps until the descriptor or the source is readable, or a signal has come; says whether it was the source.
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

    /// The descriptor is to be readable at `wake`. As [`Backup::arm`](crate::Backup::arm).
    fn arm(&self, now: Timestamp, wake: Option<Timestamp>) {
        let mut alarm = self.alarm.get();
        if wake.is_some() && alarm.armed().is_some_and(|armed| armed <= now) {
            // It has gone off. Set again, also for the same time, it tells a loop that is edge-triggered.
            alarm.expired();
        }
        let done = match alarm.want(now, wake) {
            Command::Keep => Ok(()),
            Command::Set(time) => self.timer.arm_at(time),
            Command::Clear => self.timer.disarm(),
        };
        if done.is_err() {
            // `new` has set this timer once, so the kernel is not expected to refuse it. If it does, the next call tries again.
            alarm.expired();
        }
        self.alarm.set(alarm);
    }

    /// After a change: a watched descriptor is armed early enough, and the next check is in time.
    #[inline]
    fn settle(&self) {
        let mut check_at = self.timers.gate();
        if self.watched.get() {
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

/// The descriptor is readable when something is due; then call [`Timers::next_due`] until it returns `None`. Nothing is to be
/// read from it.
///
/// It is armed from the first call on, for the earliest deadline and lazily: a system call when that comes nearer, and after
/// a turn when the armed time has passed. A program that never asks for it pays nothing.
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
///     // … the packets of the socket …
///     if let Some(due) = timers.next_due() {
///         break due;
///     }
/// };
/// assert_eq!(due.event, "tick");
/// # Ok::<(), std::io::Error>(())
/// ```
impl<E> AsFd for Timers<E> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        if !self.watched.replace(true) {
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

/// How a sleep ended.
enum Slept {
    Source,
    /// Or a signal; or there was no sleep.
    Timer,
    /// There was nothing to sleep for.
    Forever,
}
