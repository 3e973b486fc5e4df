//! [`EventLoop`]: the shortest way to a program that serves descriptors and keeps time.
//!
//! It is a thin shell around `epoll`: one call, [`EventLoop::next`], returns the next ready source or
//! the next due event. You handle it and call again. Each call is a trigger state, so the clock is
//! checked after every handler, and once more before and after the program sleeps. Only the handlers
//! of one turn follow each other without a check, since a turn hands out what was due when it began:
//!
//! ```text
//!            ┌────────────── next() ──────────────────────────────────────────────┐
//!   handler ─┤ HandlerExit ─▶ ready source left? ─▶ Idle ─▶ epoll_pwait2 ─▶ Readiness├─▶ handler
//!            │  due events       hand it out       due events    until the     or    │
//!            │  first                              first         deadline    Backup  │
//!            └────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Between two ready sources at most one turn of due events is handed out, and between two turns at
//! most one ready source: neither can starve the other.
//!
//! A long handler is the one thing that makes events late in a busy program, since no descriptor can
//! interrupt it. Inside one, visit a trigger state yourself: `timers.trigger(…, events.now())`.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use softtimers_core::{Fired, Idle, Polling, SoftTimers, Timestamp, TriggerState, Turn, Wait};
use softtimers_linux::sched::{Slice, TimerSlack};

use crate::clock::{LoopClock, Monotonic};
use crate::epoll::{Epoll, Events, Waiting};
use crate::idle::{Governor, HeldBack};

/// Names a registered source; any number the program likes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// The readiness that a source is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Interest {
    /// That it can be read.
    Readable,
    /// That it can be written.
    Writable,
    /// That it can be read or written.
    Both,
}

/// An event of the loop: a ready source or a due event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happening<E> {
    /// A source is ready. Reports are level-triggered: what you leave undone is reported again.
    Ready {
        /// The token that the source was registered with.
        token: Token,
        /// It can be read, has an error, or its peer has hung up.
        readable: bool,
        /// It can be written, or has an error.
        writable: bool,
    },
    /// An event is due.
    Due(Fired<E>),
}

/// The settings of an [`EventLoop`].
#[derive(Clone, Copy, Debug)]
pub struct LoopConfig {
    /// The policy for the time when there is nothing to do.
    pub idle: Idle,
    /// The slice that the thread asks the scheduler for ([`Slice::ALLOWED`]), so that a wake-up beside
    /// a program that computes does not wait for the other's; `None` leaves it. Threads that are
    /// started meanwhile inherit it.
    pub slice: Option<Duration>,
    /// A handler that keeps the loop away from its trigger states for longer than this is counted.
    pub long_handler: Duration,
    /// Do without `epoll_pwait2`, as on kernels before 5.11. For tests.
    pub without_pwait2: bool,
}

impl Default for LoopConfig {
    /// Park when idle; the slice as it is; a handler is long from 1 ms on.
    fn default() -> Self {
        LoopConfig {
            idle: Idle::park(),
            slice: None,
            long_handler: Duration::from_millis(1),
            without_pwait2: false,
        }
    }
}

/// Counters of an [`EventLoop`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoopStats {
    /// Waits that were allowed to sleep.
    pub waits: u64,
    /// Looks at the sources that were not: the loop was spinning, or an event was already due.
    pub polls: u64,
    /// Waits that ran out: what the backup timer was needed for.
    pub deadlines: u64,
    /// Handlers that took longer than [`LoopConfig::long_handler`].
    pub long_handlers: u64,
    /// The longest time from handing something out to the next call.
    pub longest_handler: Duration,
    /// The longest time between two trigger states while awake: the most that an event can have been
    /// late while the program ran. A turn with many events is one such gap.
    pub longest_gap: Duration,
}

/// An event loop on `epoll` with nanosecond time-outs, for the thread that made it.
///
/// Creating one sets this thread's timer slack to 1 ns, dropping it restores it; threads spawned
/// meanwhile inherit the 1 ns.
///
/// ```
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
/// use std::time::Duration;
/// use softtimers::{Config, EventLoop, Happening, Interest, LoopConfig, Slack, SoftTimers, Token};
///
/// let (mut near, far) = UnixStream::pair()?;
/// let mut events = EventLoop::new(LoopConfig::default())?;
/// events.register(&far, Token(7), Interest::Readable)?;
/// let mut timers = SoftTimers::new(Config::default());
/// timers.schedule(events.now(), Duration::from_micros(300), Slack::EXACT, "write");
///
/// loop {
///     match events.next(&mut timers)? {
///         Happening::Due(fired) if fired.event == "write" => near.write_all(b"x")?,
///         Happening::Due(_) => unreachable!(),
///         Happening::Ready { token, .. } => break assert_eq!(token, Token(7)),
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// It runs on [`Monotonic`] unless it is made [`with_clock`](Self::with_clock).
#[derive(Debug)]
pub struct EventLoop<C = Monotonic> {
    clock: C,
    epoll: Epoll,
    ready: Events,
    /// Sources of `ready` already handed out.
    handed_out: usize,
    turn: Option<Turn>,
    /// The last reading of the clock, and whether a handler has been running since.
    now: Timestamp,
    handler_runs: bool,
    /// The last trigger state, or the end of the last sleep.
    triggered: Timestamp,
    config: LoopConfig,
    idle: Governor,
    stats: LoopStats,
    slack: Option<TimerSlack>,
    slice: Option<Slice>,
}

impl EventLoop {
    /// A loop that watches nothing yet.
    ///
    /// # Errors
    /// If the kernel refuses another descriptor; `InvalidInput` for a slice outside
    /// [`Slice::ALLOWED`]. A slice that the kernel does not grant is no error: see
    /// [`has_slice`](Self::has_slice).
    pub fn new(config: LoopConfig) -> io::Result<Self> {
        Self::with_clock(config, Monotonic)
    }
}

impl<C: LoopClock> EventLoop<C> {
    /// A loop that watches nothing yet and reads `clock`, such as a [`Tsc`](crate::clock::Tsc).
    ///
    /// # Errors
    /// As for [`new`](EventLoop::new).
    pub fn with_clock(config: LoopConfig, clock: C) -> io::Result<Self> {
        let slice = match config.slice.map(Slice::hold) {
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
            other => other.and_then(Result::ok),
        };
        let now = clock.now();
        let waiting = if config.without_pwait2 { Waiting::Ppoll } else { Waiting::Pwait2 };
        Ok(EventLoop {
            clock,
            epoll: Epoll::new(waiting)?,
            ready: Events::with_capacity(EVENTS_PER_WAIT),
            handed_out: 0,
            turn: None,
            now,
            handler_runs: false,
            triggered: now,
            idle: Governor::new(config.idle),
            config,
            stats: LoopStats::default(),
            slack: TimerSlack::hold(Duration::from_nanos(1)).ok(),
            slice,
        })
    }

    /// Watches `source`. Deregister it before it closes if a duplicate of it may stay open.
    ///
    /// # Errors
    /// `AlreadyExists` if it is watched; `PermissionDenied` if it is a regular file.
    pub fn register(&self, source: &impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        self.epoll.add(source.as_fd(), token.0, interest.flags())
    }

    /// Watches a registered source under another token or for something else.
    ///
    /// # Errors
    /// `NotFound` if it is not watched.
    pub fn reregister(&self, source: &impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        self.epoll.modify(source.as_fd(), token.0, interest.flags())
    }

    /// Stops watching `source`. It may still be reported once, from a wait that has already ended.
    ///
    /// # Errors
    /// `NotFound` if it is not watched.
    pub fn deregister(&self, source: &impl AsFd) -> io::Result<()> {
        self.epoll.delete(source.as_fd())
    }

    /// The next due event or ready source. Sleeps until there is one.
    ///
    /// # Errors
    /// None that a working kernel gives. The timers are untouched by one: call again.
    pub fn next<E>(&mut self, timers: &mut SoftTimers<E>) -> io::Result<Happening<E>> {
        self.read_clock();
        let mut turn = match self.turn.take() {
            Some(unfinished) => unfinished,
            None => {
                self.end_gap();
                timers.trigger(self.before_next(), self.now)
            }
        };
        loop {
            if let Some(fired) = timers.next(&turn) {
                self.turn = Some(turn);
                self.hand_out();
                return Ok(Happening::Due(fired));
            }
            if let Some(ready) = self.next_ready() {
                self.hand_out();
                return Ok(ready);
            }
            turn = self.wait(timers)?;
        }
    }

    /// The current time of the clock that this loop's timers run on.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The clock that this loop reads.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Returns the way in which the loop sleeps here; it may change from `Pwait2` to `Ppoll` in the first wait.
    pub fn waiting(&self) -> Waiting {
        self.epoll.waiting()
    }

    /// Returns whether this thread's timer slack could be set. Where a sandbox forbids it, sleeps end up to 50 µs
    /// later; nothing else changes.
    pub fn has_slack(&self) -> bool {
        self.slack.is_some()
    }

    /// Returns whether the thread has the slice of [`LoopConfig::slice`]. Where the kernel does not grant one, a
    /// wake-up beside a program that computes can wait for milliseconds, as it would without.
    pub fn has_slice(&self) -> bool {
        self.slice.is_some()
    }

    /// Returns the time that the idle policy has busy-polled, and how often its budget made it sleep.
    pub fn polling(&self) -> Polling {
        self.idle.polling()
    }

    /// Why the idle policy polled less than it was asked to, the last time that it did for another
    /// reason than its budget.
    pub fn held_back(&self) -> Option<HeldBack> {
        self.idle.held_back()
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> LoopStats {
        self.stats
    }

    /// A handler is about to run.
    fn hand_out(&mut self) {
        self.handler_runs = true;
        self.idle.busy(self.now);
    }

    /// One reading serves the end of one handler and the beginning of what comes next.
    fn read_clock(&mut self) {
        let before = std::mem::replace(&mut self.now, self.clock.now());
        if std::mem::take(&mut self.handler_runs) {
            let took = self.now.saturating_duration_since(before);
            self.stats.longest_handler = self.stats.longest_handler.max(took);
            self.stats.long_handlers += u64::from(took > self.config.long_handler);
        }
    }

    fn end_gap(&mut self) {
        let gap = self.now.saturating_duration_since(self.triggered);
        self.stats.longest_gap = self.stats.longest_gap.max(gap);
        self.triggered = self.now;
    }

    /// The trigger state at the beginning of [`next`](Self::next).
    fn before_next(&self) -> TriggerState {
        if self.handed_out < self.ready.len() { TriggerState::HandlerExit } else { TriggerState::Idle }
    }

    fn next_ready<E>(&mut self) -> Option<Happening<E>> {
        let event = self.ready.iter().nth(self.handed_out)?;
        self.handed_out += 1;
        let failed = event.readiness.intersects(EventFlags::ERR);
        let ended = event.readiness.intersects(EventFlags::HUP | EventFlags::RDHUP);
        Some(Happening::Ready {
            token: Token(event.token),
            readable: failed || ended || event.readiness.contains(EventFlags::IN),
            writable: failed || event.readiness.contains(EventFlags::OUT),
        })
    }

    fn wait<E>(&mut self, timers: &mut SoftTimers<E>) -> io::Result<Turn> {
        // What fell due while the last turn ran is not slept over, and does not go before the sources.
        let due = timers.next_due().is_some_and(|due| due <= self.now);
        let wait = if due { Wait::Poll } else { self.idle.wait(self.now, timers.poll_at()) };
        let timeout = match wait {
            Wait::Poll => Some(Duration::ZERO),
            Wait::Until(wake) => Some(wake.saturating_duration_since(self.now)),
            Wait::Forever => None,
        };
        self.end_gap();
        self.handed_out = 0;
        self.epoll.wait(&mut self.ready, timeout)?;
        self.now = if wait == Wait::Poll { self.clock.now() } else { self.clock.woke() };
        self.triggered = self.now;
        let (counter, source) = match wait {
            Wait::Poll => (&mut self.stats.polls, TriggerState::Idle),
            _ => (&mut self.stats.waits, TriggerState::Backup),
        };
        *counter += 1;
        let source = if self.ready.is_empty() { source } else { TriggerState::Readiness };
        // A signal can end a wait early, which teaches nothing.
        match wait {
            Wait::Until(wake) if self.ready.is_empty() && self.now >= wake => {
                self.idle.woke(wake, self.now);
                self.stats.deadlines += 1;
            }
            _ => {}
        }
        Ok(timers.trigger(source, self.now))
    }
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Readable => EventFlags::IN | EventFlags::RDHUP,
            Interest::Writable => EventFlags::OUT,
            Interest::Both => EventFlags::IN | EventFlags::RDHUP | EventFlags::OUT,
        }
    }
}

/// Sources taken from the kernel per wait; the rest stay ready. More would save system calls only
/// for programs that have hundreds of sources ready at once.
const EVENTS_PER_WAIT: usize = 64;
