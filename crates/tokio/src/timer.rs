//! [`Timer`]: one deadline that a task waits for; the base of all futures of this crate.
//!
//! ```text
//!   new ─▶ a value ── poll, too early ──▶ waits, a waker set ── fires, wakes ──▶ poll: elapsed
//!          of nobody                       │  ▲
//!             drop: cancel, O(1) ◀─────────┤  └─ poll with another waker: set anew
//!                                          └─ reset: O(1), to a later time one write
//! ```
//!
//! The clock decides whether it has elapsed, not the waker: a poll at or after the deadline is ready,
//! whatever caused it, and removes the waker. So a timer needs a runtime only at its first poll that has to
//! wait, and then belongs to that runtime. Only the first poll of a long timer does not read the clock, and
//! uses the time when the timer was made: if the deadline has passed by then, it waits until the driver wakes
//! it. It does so even if tokio's clock can be paused: so a program behaves the same in its tests.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use softtimers_core::{Slack, Timestamp, TriggerState};
use tokio::task::coop;
use tokio::time::Instant;

use crate::clock;
use crate::driver::{Driver, Registration, Timers};

#[derive(Debug)]
pub(crate) struct Timer {
    /// Not known yet while it is [new](Of::New).
    due: Timestamp,
    slack: Slack,
    of: Of,
    elapsed: bool,
}

/// The owner of the timer.
#[derive(Debug)]
enum Of {
    /// Without a runtime, as it was made. Most time-outs never get further.
    New(New),
    /// Without a runtime, with a due time; made in this place.
    Unregistered(Place),
    Soft(Soft),
    Tokio(Pin<Box<tokio::time::Sleep>>),
}

#[derive(Clone, Copy, Debug)]
struct New {
    made: Instant,
    /// In nanoseconds, which takes less room than a [`Duration`].
    delay: u64,
    place: Place,
}

type Place = &'static Location<'static>;

#[derive(Debug)]
struct Soft {
    timers: Arc<Timers>,
    registration: Registration,
    /// The task that it wakes, as long as it is pending.
    wakes: Identity,
}

/// Identifies the task of a waker, without holding the waker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity {
    data: usize,
    vtable: usize,
}

impl Identity {
    /// The identity of no waker: none has its functions at zero.
    const NONE: Identity = Identity { data: 0, vtable: 0 };

    fn of(waker: &Waker) -> Self {
        Identity { data: waker.data().addr(), vtable: ptr::from_ref(waker.vtable()).addr() }
    }
}

impl Timer {
    /// Makes a timer for the runtime in which it is first polled before its deadline.
    #[track_caller]
    pub(crate) fn new(deadline: Instant) -> Self {
        Timer::of(Of::Unregistered(Location::caller()), clock::timestamp_of(deadline))
    }

    /// `delay` from now, or far ahead.
    #[inline]
    #[track_caller]
    pub(crate) fn after(delay: Duration) -> Self {
        let delay = delay.min(clock::FAR).as_nanos() as u64;
        let new = New { made: clock::now(), delay, place: Location::caller() };
        Timer::of(Of::New(new), Timestamp::ZERO)
    }

    /// Makes a timer of this driver's runtime.
    pub(crate) fn on(driver: &Driver, deadline: Instant) -> Self {
        let due = clock::timestamp_of(deadline);
        Timer::of(Of::driver(driver.clone(), due), due)
    }

    #[inline]
    fn of(of: Of, due: Timestamp) -> Self {
        Timer { due, slack: Slack::DEFAULT, of, elapsed: false }
    }

    /// Returns its deadline; the epoch, if the deadline lies before it.
    pub(crate) fn deadline(&self) -> Instant {
        match &self.of {
            Of::New(new) => new.made + Duration::from_nanos(new.delay),
            Of::Tokio(sleep) => sleep.deadline(),
            Of::Unregistered(_) | Of::Soft(_) => clock::instant_of(self.due),
        }
    }

    /// Sets the slack from the next registration on.
    pub(crate) fn set_slack(&mut self, slack: Slack) {
        // tokio's timers have their own: a millisecond.
        self.slack = slack;
    }

    pub(crate) fn is_elapsed(&self) -> bool {
        match &self.of {
            Of::Tokio(sleep) => sleep.is_elapsed(),
            _ => self.elapsed,
        }
    }

    /// Polls the timer: ready once the deadline has come, with the time if the clock was read. Also a trigger
    /// state for all other timers of the runtime.
    ///
    /// Takes part in tokio's cooperative scheduling: a task that finds timer after timer elapsed is made to yield.
    ///
    /// # Panics
    /// If it has to wait and has no runtime, outside of a runtime.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Timestamp>> {
        if let Of::Tokio(sleep) = &mut self.of {
            return sleep.as_mut().poll(cx).map(|()| None);
        }
        let progress = ready!(coop::poll_proceed(cx));
        let polled = self.poll_soft(cx);
        if polled.is_ready() {
            progress.made_progress();
        }
        polled
    }

    fn poll_soft(&mut self, cx: &mut Context<'_>) -> Poll<Option<Timestamp>> {
        if self.elapsed {
            return Poll::Ready(None);
        }
        let now = self.look();
        if now >= self.due {
            self.elapsed = true;
            // Before the trigger state, which would wake this very task.
            match &mut self.of {
                Of::Soft(soft) => {
                    soft.take_back();
                    soft.timers.trigger_in_passing(now);
                }
                _ => {
                    crate::driver::trigger_at(TriggerState::ProtocolTimer, now);
                }
            }
            return Poll::Ready(Some(now));
        }
        self.wait(cx, now).map(|()| None)
    }

    /// Returns the time; at the first poll of a long timer, the time when it was made: a clock read is a
    /// fifth of such a timer's cost.
    fn look(&mut self) -> Timestamp {
        let Of::New(New { made, delay, place }) = self.of else { return clock::timestamp() };
        let made = clock::timestamp_of(made);
        let delay = Duration::from_nanos(delay);
        self.due = made + delay;
        self.of = Of::Unregistered(place);
        if delay >= LONG { made } else { clock::timestamp() }
    }

    fn wait(&mut self, cx: &mut Context<'_>, now: Timestamp) -> Poll<()> {
        if let Of::Unregistered(place) = self.of {
            self.of = Of::driver(Driver::of_timer(place), self.due);
        }
        match &mut self.of {
            Of::Soft(soft) => {
                soft.register(cx.waker(), now, self.due, self.slack);
                soft.timers.trigger_in_passing(now);
                Poll::Pending
            }
            Of::Tokio(sleep) => sleep.as_mut().poll(cx),
            Of::New(_) | Of::Unregistered(_) => unreachable!("it has a runtime now"),
        }
    }

    /// Moves the deadline. A waiting task now waits for the new one.
    pub(crate) fn reset(&mut self, deadline: Instant) {
        match &mut self.of {
            Of::Tokio(sleep) => sleep.as_mut().reset(deadline),
            of => {
                self.due = clock::timestamp_of(deadline);
                self.elapsed = false;
                if let Of::New(new) = of {
                    *of = Of::Unregistered(new.place);
                } else if let Of::Soft(soft) = of {
                    // If it is not pending it has fired, and the task is awake and will poll; or it has elapsed.
                    if soft.timers.reset(&mut soft.registration, self.slack, self.due).is_err() {
                        soft.wakes = Identity::NONE;
                    }
                }
            }
        }
    }
}

impl Of {
    fn driver(driver: Driver, due: Timestamp) -> Self {
        match driver.into_timers() {
            Some(timers) => {
                Of::Soft(Soft { timers, registration: Registration::new(), wakes: Identity::NONE })
            }
            None => Of::Tokio(Box::pin(tokio::time::sleep_until(clock::instant_of(due)))),
        }
    }
}

impl Soft {
    fn register(&mut self, waker: &Waker, now: Timestamp, due: Timestamp, slack: Slack) {
        let identity = Identity::of(waker);
        if self.wakes != identity {
            drop(self.timers.set(&mut self.registration, now, due, slack, waker.clone()));
            self.wakes = identity;
            // A near one wakes the driver's task, which checks the clock itself.
            if clock::PAUSABLE && due.saturating_duration_since(now) > NEAR {
                self.timers.check_clock(now);
            }
        }
        // Also for a registered timer: one woken early by the timers' end has to panic.
        self.timers.check();
    }

    fn take_back(&mut self) {
        self.wakes = Identity::NONE;
        drop(self.timers.cancel(&mut self.registration));
    }
}

/// Cancels the timer, so that a dropped one wakes no task.
impl Drop for Soft {
    fn drop(&mut self) {
        drop(self.timers.cancel(&mut self.registration));
    }
}

/// How long a task may wait before it learns that the clock stands still.
const NEAR: Duration = Duration::from_millis(1);

/// The delay from which on the first poll need not check the clock. If that poll comes after the delay, the
/// task sleeps and is woken at once.
const LONG: Duration = Duration::from_millis(10);

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// The first poll of a long timer need not check the clock; one that comes too late is still woken
    /// without another event.
    #[tokio::test]
    async fn a_long_timer_that_is_polled_late_is_woken_at_once() {
        let mut timer = Timer::after(LONG);
        let due = timer.deadline();
        while Instant::now() <= due {
            std::thread::yield_now();
        }
        let mut polls = 0;
        poll_fn(|cx| {
            polls += 1;
            timer.poll(cx)
        })
        .await;
        assert_eq!((polls, timer.deadline()), (2, due));
    }

    /// A short one does, and is over.
    #[test]
    fn a_short_timer_that_is_polled_late_is_over() {
        let mut timer = Timer::after(Duration::from_nanos(1));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(timer.poll(&mut cx).is_ready());
    }

    /// A program may have a hundred thousand of them in its futures.
    #[test]
    fn a_timer_is_small() {
        assert!(size_of::<Timer>() <= 72, "{}", size_of::<Timer>());
        assert!(size_of::<Timer>() < size_of::<tokio::time::Sleep>());
    }
}
