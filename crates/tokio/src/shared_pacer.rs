//! [`SharedPacer`]: one pace for many tasks; [`KeyedPacer`]: one for each client, address or key.
//!
//! A [`Pacer`](crate::Pacer) belongs to one task. The handlers of a server share a pace: any number of them wait, some go
//! away, and each must have its turn.
//!
//! ```text
//!   handler ─ ready().await ─┐             ┌─ leaves
//!   handler ─ ready().await ─┼─▶ in line ──┤
//!   handler ─ ready().await ─┘   first in, └─ one timer, set for the first one's time: each departure wakes one task
//!                                first out
//! ```
//!
//! Nobody reserves a time ahead. A caller that is dropped while it waits, by a time-out or a client that went away, has
//! taken nothing: the next in line leaves in its place, and nobody waits for longer than the line before it.
//!
//! One that is woken and not polled again, because its task waits for something else meanwhile, holds the line up for
//! 2 ms; then the next one goes first.

mod keyed;
mod line;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use softtimers_core::{CatchUp, PaceConfig, PaceError, Rate, RateClock, Slack, Timestamp};
use tokio::task::coop;
use tokio::time::Instant;

use crate::clock;
use crate::timer::Timer;
pub use keyed::KeyedPacer;
use line::Line;

/// A pace that tasks share: each waits for its turn, and they leave one by one, evenly. A clone is another handle.
///
/// ```
/// use std::time::Duration;
/// use softtimers_tokio::{Rate, SharedPacer, timeout};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let pacer = SharedPacer::from(Rate::pps(2_000));
/// let handlers = (0..4).map(|_| {
///     let pacer = pacer.clone();
///     tokio::spawn(async move {
///         pacer.ready().await; // one each 500 µs
///         // … ask the backend …
///     })
/// });
/// for handler in handlers.collect::<Vec<_>>() {
///     handler.await?;
/// }
/// // A client that does not wait for its turn takes nothing from the others.
/// pacer.ready().await;
/// assert!(timeout(Duration::from_micros(1), pacer.ready()).await.is_err());
/// assert_eq!(pacer.clock().departures(), 5);
/// # Ok::<(), tokio::task::JoinError>(())
/// # }).unwrap();
/// ```
///
/// Times that nobody waits for are lost: after an idle time the calls are no closer together than before, unless you
/// [ask for a burst](Self::with_burst). If those who wait are late, because the machine stalled, they catch up at the
/// burst interval, within [`PaceConfig::catch_up`].
///
/// # Cost
/// A lock that is held for some 100 ns; for one that waits, O(log n) with n in line, one wake-up, and a timer for all of them.
#[derive(Clone, Debug)]
pub struct SharedPacer(Arc<Shared>);

#[derive(Debug)]
struct Shared(Mutex<State>);

#[derive(Debug)]
struct State {
    line: Line<Waker>,
    /// Wakes the first in line, through [`Shared::wake`].
    timer: Timer,
    /// What the timer is set to.
    set_to: Option<Timestamp>,
    slack: Slack,
}

impl SharedPacer {
    /// Makes a pacer whose first call may leave at once.
    ///
    /// # Errors
    /// As [`RateClock::new`].
    #[track_caller]
    pub fn new(config: PaceConfig) -> Result<Self, PaceError> {
        Ok(Self::with_clock(RateClock::new(config)?, config.catch_up))
    }

    #[track_caller]
    fn with_clock(clock: RateClock, catch_up: CatchUp) -> Self {
        let mut timer = Timer::new(clock::now());
        timer.set_slack(Slack::EXACT);
        let state = State { line: Line::new(clock, catch_up), timer, set_to: None, slack: Slack::EXACT };
        SharedPacer(Arc::new(Shared(Mutex::new(state))))
    }

    /// Lets up to `calls` leave at once, at the beginning and after an idle time that long; one by default. The rate over
    /// time stays as it is.
    ///
    /// ```
    /// use softtimers_tokio::{Rate, SharedPacer};
    ///
    /// let pacer = SharedPacer::from(Rate::pps(2)).with_burst(3);
    /// assert_eq!([(); 4].map(|()| pacer.try_ready().is_ok()), [true, true, true, false]);
    /// ```
    #[must_use]
    pub fn with_burst(self, calls: u32) -> Self {
        self.0.lock().line.set_burst(calls);
        self
    }

    /// Sets the slack, by which calls may leave later, for fewer wake-ups; none by default.
    #[must_use]
    pub fn with_slack(self, slack: Slack) -> Self {
        let mut state = self.0.lock();
        state.slack = slack;
        state.timer.set_slack(slack);
        drop(state);
        self
    }

    /// Waits in line for a turn, and takes it. Takes one byte where the rate counts bytes: see
    /// [`ready_for`](Self::ready_for).
    ///
    /// Cancel-safe: dropped before it is ready, it has taken nothing, and loses its place in line.
    ///
    /// # Panics
    /// If it has to wait, as [`sleep`](fn@crate::sleep).
    pub fn ready(&self) -> impl Future<Output = ()> + Send + Unpin + use<> {
        self.ready_for(1)
    }

    /// As [`ready`](Self::ready), for a packet of `bytes`, which matters where the rate
    /// [counts](PaceConfig::counts) them.
    ///
    /// ```
    /// use softtimers_tokio::{PaceConfig, SharedPacer};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let pacer = SharedPacer::new(PaceConfig::bits_per_second(100_000_000)?)?;
    /// for _ in 0..3 {
    ///     pacer.ready_for(1_250).await; // 100 µs each
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn ready_for(&self, bytes: u32) -> impl Future<Output = ()> + Send + Unpin + use<> {
        Ready { turn: Turn::new(self), bytes }
    }

    /// Takes a turn if one is free now: the time has come, and nobody waits in line.
    ///
    /// # Errors
    /// When it is worth asking again, if nobody else comes: after all who wait, each an interval later.
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers_tokio::{Instant, Rate, SharedPacer};
    ///
    /// let pacer = SharedPacer::from(Rate::pps(10));
    /// assert_eq!(pacer.try_ready(), Ok(()));
    /// let again = pacer.try_ready().unwrap_err(); // of a server: 429, Retry-After
    /// assert!(again > Instant::now() + Duration::from_millis(50));
    /// ```
    pub fn try_ready(&self) -> Result<(), Instant> {
        self.0.lock().line.try_leave(clock::timestamp(), 1).map_err(clock::instant_of)
    }

    /// Changes the rate for all, also for those who wait, without a burst: the elapsed part of the gap counts at the old
    /// rate.
    pub fn set_rate(&self, rate: Rate) {
        self.0.change_anywhere(|state, now| state.line.set_rate(now, rate));
    }

    /// Returns the number of tasks that wait.
    pub fn waiting(&self) -> usize {
        self.0.lock().line.len()
    }

    /// Returns a copy of the clock, with the rate and the counts of departures and of skipped times.
    pub fn clock(&self) -> RateClock {
        self.0.lock().line.clock().clone()
    }

    /// Returns whether this is the only handle, and a new pacer would do the same.
    fn is_as_new(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && self.0.lock().line.is_as_new(clock::timestamp())
    }
}

/// One departure an interval, and [`PaceConfig::new`]'s defaults.
impl From<Rate> for SharedPacer {
    fn from(rate: Rate) -> Self {
        SharedPacer::with_clock(RateClock::from(rate), CatchUp::default())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the line for a task that is being polled: sets the timer to what is next, and wakes the one whose time has
    /// come.
    #[track_caller]
    fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut State, Timestamp) -> R) -> R {
        let now = clock::timestamp();
        let mut state = self.lock();
        let result = change(&mut state, now);
        let called = state.set_timer(self, now, SetFrom::Poll);
        drop(state);
        if let Some(called) = called {
            called.wake();
        }
        result
    }

    /// As [`change`](Self::change), from any place: where the timer cannot be set, the first in line is woken to do it.
    fn change_anywhere<R>(self: &Arc<Self>, change: impl FnOnce(&mut State, Timestamp) -> R) -> R {
        let now = clock::timestamp();
        let mut state = self.lock();
        let result = change(&mut state, now);
        let called = state.set_timer(self, now, SetFrom::Anywhere);
        drop(state);
        if let Some(called) = called {
            called.wake();
        }
        result
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SetFrom {
    Poll,
    Anywhere,
}

impl State {
    /// Sets the timer for the line. Returns the waker of one to be woken now.
    #[track_caller]
    fn set_timer(&mut self, shared: &Arc<Shared>, now: Timestamp, from: SetFrom) -> Option<Waker> {
        let called = self.line.call(now);
        let due = self.line.due(now);
        if self.set_to == due && !(from == SetFrom::Poll && self.timer.is_elsewhere()) {
            return called;
        }
        self.set_to = None;
        let Some(due) = due else {
            self.timer.unset();
            return called;
        };
        if from == SetFrom::Anywhere && !self.timer.may_be_set_anywhere() {
            return called.or_else(|| self.line.call_first(now));
        }
        if self.timer.is_elsewhere() {
            // That runtime may have ended, or not be running; the one that polls is.
            self.timer = Timer::new(clock::now());
            self.timer.set_slack(self.slack);
        } else if self.timer.is_shutting_down() {
            // So is this task's runtime, which is about to drop it.
            return called;
        }
        if self.timer.set(now, due, &Waker::from(shared.clone())) {
            self.set_to = Some(due);
            return called;
        }
        // It is over for a timer of milliseconds.
        called.or_else(|| self.line.call_first(now))
    }
}

/// The timer went off.
impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        let mut all = Vec::new();
        self.change_anywhere(|state, _| {
            state.set_to = None;
            if state.timer.has_ended() {
                all = state.line.call_all();
            }
        });
        all.into_iter().for_each(Waker::wake);
    }
}

/// A place in line, and then a departure; dropped, either is given up.
#[derive(Debug)]
pub(crate) struct Turn {
    pacer: Arc<Shared>,
    ticket: Option<u64>,
    /// A departure was counted for it, and is not [used](Self::used) yet.
    taken: bool,
}

impl Turn {
    pub(crate) fn new(pacer: &SharedPacer) -> Self {
        Turn { pacer: pacer.0.clone(), ticket: None, taken: false }
    }

    /// Ready when it may leave, if another does not do so first.
    #[cfg(feature = "tower")]
    #[track_caller]
    pub(crate) fn poll_may_leave(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_with(cx, |line, ticket, now| match ticket {
            Some(ticket) => line.may_leave(ticket, now),
            None => line.may_leave_at_once(now),
        })
    }

    /// Ready when it has left.
    #[track_caller]
    pub(crate) fn poll_leave(&mut self, cx: &mut Context<'_>, bytes: u32) -> Poll<()> {
        let left = self.poll_with(cx, |line, ticket, now| match ticket {
            Some(ticket) => line.leave(ticket, now, bytes),
            None => line.try_leave(now, bytes).is_ok(),
        });
        if left.is_ready() {
            self.ticket = None;
            self.taken = true;
        }
        left
    }

    /// Asks the line, and waits in it if that says no.
    #[track_caller]
    fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        ask: impl FnOnce(&mut Line<Waker>, Option<u64>, Timestamp) -> bool,
    ) -> Poll<()> {
        let ticket = &mut self.ticket;
        // The waker that it had is dropped without the lock.
        let mut _before = None;
        self.pacer.change(|state, now| {
            let line = &mut state.line;
            if ask(line, *ticket, now) {
                return Poll::Ready(());
            }
            match *ticket {
                None => *ticket = Some(line.join(cx.waker().clone())),
                Some(ticket) if line.waker(ticket).is_some_and(|waker| waker.will_wake(cx.waker())) => {}
                Some(ticket) => _before = line.wait(ticket, cx.waker().clone()),
            }
            Poll::Pending
        })
    }

    /// Lets others leave before this one, which cannot yet for another reason.
    #[cfg(feature = "tower")]
    pub(crate) fn step_aside(&mut self) {
        let ticket = self.ticket;
        let ticket = self.pacer.change_anywhere(|state, _| state.line.step_aside(ticket));
        self.ticket = Some(ticket);
    }

    /// Returns whether it has left, and the departure is still to be used.
    #[cfg(feature = "tower")]
    pub(crate) fn is_taken(&self) -> bool {
        self.taken
    }

    /// The departure was used: the next poll begins another turn.
    pub(crate) fn used(&mut self) {
        self.taken = false;
    }

    /// Begins again, at the end of the line.
    pub(crate) fn give_up(&mut self) {
        let (ticket, taken) = (self.ticket.take(), std::mem::take(&mut self.taken));
        if let Some(ticket) = ticket {
            let _before = self.pacer.change_anywhere(|state, _| state.line.give_up(ticket));
        }
        if taken {
            self.pacer.change_anywhere(|state, _| state.line.give_back());
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Future of [`SharedPacer::ready`].
#[derive(Debug)]
struct Ready {
    turn: Turn,
    bytes: u32,
}

impl Future for Ready {
    type Output = ();

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let progress = std::task::ready!(coop::poll_proceed(cx));
        let bytes = self.bytes;
        let polled = self.turn.poll_leave(cx, bytes);
        if polled.is_ready() {
            self.turn.used();
            progress.made_progress();
        }
        polled
    }
}
