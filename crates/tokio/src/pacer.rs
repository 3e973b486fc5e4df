//! [`Pacer`]: departures at a rate, awaited one by one.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use softtimers_core::{PaceConfig, PaceError, Rate, RateClock, RateError, Slack, Timestamp};
use tokio::time::Instant;

use crate::clock;
use crate::timer::Timer;

/// Waits until the next packet, request or block may leave: an async [`RateClock`].
///
/// Unlike an [`Interval`](crate::Interval) it does not send back to back after a stall: missed departures are made up at no less
/// than the burst interval, and beyond a bound they are skipped and counted.
///
/// ```text
///   schedule   |    |    |    |    |    |    |    |    |
///   Interval   ●    ●──── stall ────●●●●●    ●    ●
///   Pacer      ●    ●──── stall ────●  ●  ●  ●  ●  ●    ●   catches up at the burst interval
/// ```
///
/// Without slack: the kernel timer is set to the next departure's time.
///
/// ```
/// use softtimers_tokio::{PaceConfig, Pacer, Rate};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut pacer = Pacer::new(PaceConfig::new(Rate::per_second(25_000)?))?;
/// for _ in 0..10 {
///     pacer.ready().await; // safe to cancel: nothing has left yet
///     // … send …
///     pacer.departed();
/// }
/// assert_eq!(pacer.clock().departures(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Pacer {
    clock: RateClock,
    timer: Timer,
    started: bool,
}

impl Pacer {
    /// Makes a pacer whose first departure may leave at once.
    ///
    /// # Errors
    /// As [`RateClock::new`].
    #[track_caller]
    pub fn new(config: PaceConfig) -> Result<Pacer, PaceError> {
        Ok(Pacer::from_clock(RateClock::new(config)?))
    }

    /// Makes a pacer with one departure every `interval` and [`PaceConfig::new`]'s defaults.
    ///
    /// # Errors
    /// [`RateError`] for an invalid interval: zero, or too long.
    #[track_caller]
    pub fn every(interval: Duration) -> Result<Pacer, RateError> {
        let config = PaceConfig::new(Rate::every(interval)?);
        Ok(Pacer::new(config).expect("the defaults fit any rate"))
    }

    /// Makes a pacer for a clock of any schedule, such as [`RateClock::replay`]'s. The first
    /// [`ready`](Self::ready) starts it.
    #[track_caller]
    pub fn from_clock(clock: RateClock) -> Pacer {
        let mut timer = Timer::new(clock::now());
        timer.set_slack(Slack::EXACT);
        Pacer { clock, timer, started: false }
    }

    /// Sets the slack: departures may be late, for fewer wake-ups.
    #[must_use]
    pub fn with_slack(mut self, slack: Slack) -> Self {
        self.timer.set_slack(slack);
        self
    }

    /// Waits until the next departure may leave. It stays ready until you call [`departed`](Self::departed),
    /// so dropping the future loses nothing.
    ///
    /// A recording that [is over](RateClock::is_over) has no next departure: this waits for good.
    pub fn ready(&mut self) -> impl Future<Output = ()> + Send + '_ {
        Ready(self)
    }

    /// Waits until the next departure may leave and counts it as departed: [`ready`](Self::ready) and
    /// [`departed`](Self::departed) in one. Returns the present time, not the scheduled one as `Interval::tick` does.
    ///
    /// Cancel-safe: a dropped `tick` counts none.
    ///
    /// ```
    /// use softtimers_tokio::{PaceConfig, Pacer, Rate};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let mut pacer = Pacer::new(PaceConfig::new(Rate::pps(25_000)))?;
    /// for _ in 0..10 {
    ///     pacer.tick().await;
    ///     // … send …
    /// }
    /// assert_eq!(pacer.clock().departures(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn tick(&mut self) -> impl Future<Output = Instant> + Send + '_ {
        Tick(self)
    }

    /// As [`ready`](Self::ready).
    #[track_caller]
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_ready_at(cx).map(drop)
    }

    /// Polls as `poll_ready` does. Returns the time if the clock was read.
    #[track_caller]
    fn poll_ready_at(&mut self, cx: &mut Context<'_>) -> Poll<Option<Timestamp>> {
        let now = ready!(self.timer.poll(cx));
        if !self.started {
            self.started = true;
            self.clock.start(now.unwrap_or_else(clock::timestamp));
        }
        Poll::Ready(now)
    }

    /// One packet has left.
    pub fn departed(&mut self) {
        self.departed_together(1, 1);
    }

    /// Counts `packets` that have left together, of `bytes` in all; the bytes matter where the rate
    /// [counts](PaceConfig::counts) them.
    pub fn departed_together(&mut self, packets: u32, bytes: u32) {
        self.departed_at(clock::timestamp(), packets, bytes);
    }

    fn departed_at(&mut self, now: Timestamp, packets: u32, bytes: u32) {
        if !self.started {
            self.started = true;
            self.clock.start(now);
        }
        let next = self.clock.departed_together(now, packets, bytes);
        self.wait_until(next);
    }

    /// Changes the rate, without a burst: the elapsed part of the gap counts at the old rate.
    pub fn set_rate(&mut self, rate: Rate) {
        let next = self.clock.set_rate(clock::timestamp(), rate);
        if self.started {
            self.wait_until(next);
        }
    }

    /// Begins again after an idle time: the next departure may leave at once, and earlier ones do not count
    /// as missed.
    pub fn restart(&mut self) {
        self.started = false;
        self.timer.reset(clock::now());
    }

    /// Returns when the next departure may leave.
    pub fn next_departure(&self) -> Instant {
        self.timer.deadline()
    }

    /// Returns the clock, with the rate and the counts of departures, of those behind and of those skipped.
    /// The first [`ready`](Self::ready), `tick` or send starts it, and its [`place`](RateClock::place) is
    /// meaningless before; for lateness, read that between `ready` and the departure.
    pub fn clock(&self) -> &RateClock {
        &self.clock
    }

    fn wait_until(&mut self, next: Timestamp) {
        self.timer.reset(clock::instant_of(next));
    }
}

/// Future of [`Pacer::ready`]: not an `async fn`, so that a panic names the line that waits.
struct Ready<'a>(&'a mut Pacer);

impl Future for Ready<'_> {
    type Output = ();

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_ready(cx)
    }
}

/// Future of [`Pacer::tick`].
struct Tick<'a>(&'a mut Pacer);

impl Future for Tick<'_> {
    type Output = Instant;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        let now = ready!(self.0.poll_ready_at(cx)).unwrap_or_else(clock::timestamp);
        self.0.departed_at(now, 1, 1);
        Poll::Ready(clock::instant_of(now))
    }
}
