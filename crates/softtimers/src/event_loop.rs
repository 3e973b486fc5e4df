//! [`EventLoop`]: serves descriptors and runs timers, in one loop.
//!
//! It is a thin shell around `epoll`: one call, [`EventLoop::next`], returns the next ready source or
//! the next due event. You handle it and call again. Each call is a trigger state, so the clock is
//! checked after every handler, and once more before and after the program sleeps. Only the handlers of one
//! turn follow each other without a check, since a turn hands out the events that were due when it began:
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
//! Only a long handler makes events late in a busy program, since no descriptor can interrupt it. Inside one,
//! visit a trigger state yourself: `timers.trigger(…, events.now())`.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use softtimers_core::{Clock, Fired, Idle, Polling, SoftTimers, Timestamp, TriggerState, Turn, Wait};
use softtimers_linux::sched::{Slice, TimerSlack};

use crate::clock::Monotonic;
use crate::epoll::{Epoll, Events, Waiting};
use crate::idle::{Governor, HeldBack};

/// Names a registered source; any number that the program chooses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// The readiness that a source is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Interest {
    /// Readable.
    Readable,
    /// Writable.
    Writable,
    /// Readable or writable.
    Both,
}

/// An event of the loop: a ready source or a due event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happening<E> {
    /// A source is ready. Reports are level-triggered: unfinished work is reported again.
    Ready {
        /// The token that the source was registered with.
        token: Token,
        /// Whether it can be read, has an error, or its peer has hung up.
        readable: bool,
        /// Whether it can be written, or has an error.
        writable: bool,
    },
    /// An event is due.
    Due(Fired<E>),
}

/// The settings of an [`EventLoop`].
#[derive(Clone, Copy, Debug)]
pub struct LoopConfig {
    /// The idle policy.
    pub idle: Idle,
    /// The slice to request from the scheduler ([`Slice::ALLOWED`]), so that a wake-up does not wait for the
    /// slice of a program that computes; `None` leaves it unchanged. Threads that are started meanwhile
    /// inherit it.
    pub slice: Option<Duration>,
    /// A handler that takes longer than this between trigger states is counted.
    pub long_handler: Duration,
    /// Avoid `epoll_pwait2`, as on kernels before 5.11. For tests.
    pub without_pwait2: bool,
}

impl Default for LoopConfig {
    /// Returns the defaults: park when idle, keep the slice, count handlers from 1 ms on as long.
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
    /// Ready sources that were handed out.
    pub handed_out: u64,
    /// Waits that were allowed to sleep.
    pub waits: u64,
    /// Polls of the sources without sleep: the loop was spinning, or an event was already due.
    pub polls: u64,
    /// Waits that timed out: those that needed the backup timer.
    pub deadlines: u64,
    /// Handlers that took longer than [`LoopConfig::long_handler`].
    pub long_handlers: u64,
    /// The longest time between two calls of [`EventLoop::next`] that a handler took.
    pub longest_handler: Duration,
    /// The longest time between two trigger states while awake: the maximum lateness of an event while the
    /// program ran. A turn with many events is one such gap.
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
/// It runs on [`Monotonic`]. A child of fork(2) shares its epoll instance with the parent: make another loop there.
#[derive(Debug)]
pub struct EventLoop {
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
    /// Makes a loop without sources.
    ///
    /// # Errors
    /// If the kernel refuses another descriptor; `InvalidInput` for a slice outside
    /// [`Slice::ALLOWED`]. A slice that the kernel does not grant is no error: see
    /// [`has_slice`](Self::has_slice).
    pub fn new(config: LoopConfig) -> io::Result<Self> {
        let slice = match config.slice.map(Slice::hold) {
            Some(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
            other => other.and_then(Result::ok),
        };
        let now = Monotonic.now();
        let waiting = if config.without_pwait2 { Waiting::Ppoll } else { Waiting::Pwait2 };
        Ok(EventLoop {
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

    /// Returns the next due event or ready source. Sleeps until there is one.
    ///
    /// # Errors
    /// None that a working kernel gives. An error leaves the timers unchanged: call again.
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

    /// Returns the number of ready sources that are not handed out yet. If there are none, looks for some without
    /// sleeping: zero means that [`next`](Self::next) would sleep, unless an event is due.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn ready(&mut self) -> io::Result<usize> {
        if self.handed_out >= self.ready.len() {
            self.handed_out = 0;
            self.epoll.wait(&mut self.ready, Some(Duration::ZERO))?;
            self.stats.polls += 1;
        }
        Ok(self.ready.len() - self.handed_out)
    }

    /// Returns the current time of the clock that this loop's timers run on.
    pub fn now(&self) -> Timestamp {
        Monotonic.now()
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

    /// Returns whether the thread has the slice of [`LoopConfig::slice`]. Without one, a wake-up beside a
    /// program that computes can wait for milliseconds.
    pub fn has_slice(&self) -> bool {
        self.slice.is_some()
    }

    /// Returns the time that the idle policy has busy-polled, and how often its budget made it sleep.
    pub fn polling(&self) -> Polling {
        self.idle.polling()
    }

    /// Returns why the idle policy polled less than configured, the last time that it did for another reason
    /// than its budget.
    pub fn held_back(&self) -> Option<HeldBack> {
        self.idle.held_back()
    }

    /// Returns the counters since the beginning.
    pub fn stats(&self) -> LoopStats {
        self.stats
    }

    /// Notes that a handler is about to run.
    fn hand_out(&mut self) {
        self.handler_runs = true;
        self.idle.busy(self.now);
    }

    /// Reads the clock once for the end of a handler and the next trigger state.
    fn read_clock(&mut self) {
        let before = std::mem::replace(&mut self.now, Monotonic.now());
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
        self.stats.handed_out += 1;
        let failed = event.readiness.intersects(EventFlags::ERR);
        let ended = event.readiness.intersects(EventFlags::HUP | EventFlags::RDHUP);
        Some(Happening::Ready {
            token: Token(event.token),
            readable: failed || ended || event.readiness.contains(EventFlags::IN),
            writable: failed || event.readiness.contains(EventFlags::OUT),
        })
    }

    fn wait<E>(&mut self, timers: &mut SoftTimers<E>) -> io::Result<Turn> {
        // Do not sleep if an event fell due during the last turn; it waits until the sources have been
        // polled.
        let due = timers.next_due().is_some_and(|due| due <= self.now);
        let wait = if due { Wait::Poll } else { self.idle.wait_for(self.now, timers) };
        let timeout = match wait {
            Wait::Poll => Some(Duration::ZERO),
            Wait::Until(wake) => Some(wake.saturating_duration_since(self.now)),
            Wait::Forever => None,
        };
        self.end_gap();
        self.handed_out = 0;
        self.epoll.wait(&mut self.ready, timeout)?;
        self.now = Monotonic.now();
        self.triggered = self.now;
        let (counter, source) = match wait {
            Wait::Poll => (&mut self.stats.polls, TriggerState::Idle),
            _ => (&mut self.stats.waits, TriggerState::Backup),
        };
        *counter += 1;
        let source = if self.ready.is_empty() { source } else { TriggerState::Readiness };
        // A signal can end a wait early, which says nothing about wake-ups.
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

/// Sources taken from the kernel per wait; the others stay ready. More would save system calls only for
/// programs that have hundreds of sources ready at once.
const EVENTS_PER_WAIT: usize = 64;
