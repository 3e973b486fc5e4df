//! [`Interval`]: ticks at a period, on a schedule that does not drift.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use softtimers_core::Slack;
use tokio::time::{Instant, MissedTickBehavior};

use crate::clock;
use crate::missed_tick::{next_tick, tolerance_of};
use crate::timer::Timer;

/// Ticks every `period`, the first time at once.
///
/// As `tokio::time::interval`, for periods from some tens of microseconds. Each tick's time is the one before plus the
/// period, so a tick that comes late does not delay the others.
///
/// # Panics
/// If `period` is zero; [`tick`](Interval::tick) as [`sleep`](fn@crate::sleep).
///
/// ```
/// use std::time::Duration;
/// use softtimers_tokio::interval;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut interval = interval(Duration::from_micros(100)); // 10 kHz
/// let first = interval.tick().await;
/// assert_eq!(interval.tick().await - first, Duration::from_micros(100));
/// # });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(clock::now(), period)
}

/// Ticks every `period`, the first time at `start`; as [`interval`].
///
/// # Panics
/// As [`interval`].
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(period > Duration::ZERO, "`period` must be non-zero.");
    Interval {
        timer: Timer::new(start),
        scheduled: start,
        period,
        missed_tick_behavior: MissedTickBehavior::default(),
        tolerance: tolerance_of(period),
    }
}

/// An interval, as [`interval`] and [`interval_at`] return it.
#[derive(Debug)]
pub struct Interval {
    timer: Timer,
    /// The deadline to which the timer is set, even if long past.
    scheduled: Instant,
    period: Duration,
    missed_tick_behavior: MissedTickBehavior,
    tolerance: Duration,
}

impl Interval {
    /// Sets this slack instead of [`Slack::DEFAULT`], a tenth of the period and at most 50 µs.
    pub fn with_slack(mut self, slack: Slack) -> Self {
        self.timer.set_slack(slack);
        self
    }

    /// Waits for the next tick; returns the time it was scheduled for.
    ///
    /// Cancel-safe: dropping a `tick` before it is ready loses none.
    pub fn tick(&mut self) -> impl Future<Output = Instant> + Send + '_ {
        Tick(self)
    }

    /// As [`tick`](Self::tick). While pending, the task of the latest `cx` is woken for it.
    #[track_caller]
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let now = ready!(self.timer.poll(cx)).map_or_else(clock::now, clock::instant_of);
        let tick = self.scheduled;
        let next = next_tick(self.missed_tick_behavior, tick, now, self.period, self.tolerance);
        self.reset_at(next.unwrap_or_else(clock::far_future));
        Poll::Ready(tick)
    }

    /// Moves the next tick to one period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Moves the next tick to now.
    pub fn reset_immediately(&mut self) {
        self.reset_at(clock::now());
    }

    /// Moves the next tick to `after` from now.
    pub fn reset_after(&mut self, after: Duration) {
        self.reset_at(clock::after(after));
    }

    /// Moves the next tick to `deadline`; the others follow from it.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.scheduled = deadline;
        self.timer.reset(deadline);
    }

    /// Returns the behaviour for missed ticks: `Burst` by default.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed_tick_behavior
    }

    /// Sets the behaviour for missed ticks, as in tokio except for the tolerance of periods below 5 ms.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed_tick_behavior = behavior;
    }

    /// Sets how late a tick may be and still count as on time; by default 5 ms as in tokio, but at most the
    /// period.
    ///
    /// With tokio's 5 ms and a shorter period, a burst would follow a stall of up to 5 ms, whatever the
    /// behaviour. With zero every late tick counts as missed.
    pub fn set_missed_tick_tolerance(&mut self, tolerance: Duration) {
        self.tolerance = tolerance;
    }

    /// Returns the time from one tick to the next.
    pub fn period(&self) -> Duration {
        self.period
    }
}

/// Future of [`Interval::tick`]: not an `async fn`, so that a panic names the line that waits.
struct Tick<'a>(&'a mut Interval);

impl Future for Tick<'_> {
    type Output = Instant;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        self.0.poll_tick(cx)
    }
}
