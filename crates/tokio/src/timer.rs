//! [`Timer`]: one deadline that a task waits for. What all futures of this crate are made of.
//!
//! ```text
//!   new ─▶ a value ── poll, too early ──▶ waits, a waker set ── fires, wakes ──▶ poll: elapsed
//!          of nobody                       │  ▲
//!             drop: cancel, O(1) ◀─────────┤  └─ poll with another waker: set anew
//!                                          └─ reset: O(1), to a later time one write
//! ```
//!
//! Whether it has elapsed is the clock's to say, not the waker's: a poll at or after the deadline is ready whoever
//! caused it, and takes the waker back. So a timer needs a runtime no sooner than its first poll that has to wait. The runtime
//! of that poll is its runtime from then on. Only the first poll of a long timer leaves the clock alone, and takes the time when
//! the timer was made: one whose time is over by then waits until the driver has woken it. It does so where tokio's clock can be
//! paused as well: what the tests of a program meet is what the program does.

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
    /// Nobody's: what its maker said, and nothing made of it. Most time-outs never get further.
    New(New),
    /// Nobody's, with a due time, made in this place.
    Nobody(Place),
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

/// Tells whether two wakers wake the same, without having one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity {
    data: usize,
    vtable: usize,
}

impl Identity {
    /// No waker's: none has its functions at zero.
    const NOBODY: Identity = Identity { data: 0, vtable: 0 };

    fn of(waker: &Waker) -> Self {
        Identity { data: waker.data().addr(), vtable: ptr::from_ref(waker.vtable()).addr() }
    }
}

impl Timer {
    /// For the runtime that it is first polled in before its deadline.
    #[track_caller]
    pub(crate) fn new(deadline: Instant) -> Self {
        Timer::of(Of::Nobody(Location::caller()), clock::timestamp_of(deadline))
    }

    /// `delay` from now, or far ahead.
    #[inline]
    #[track_caller]
    pub(crate) fn after(delay: Duration) -> Self {
        let delay = delay.min(clock::FAR).as_nanos() as u64;
        let new = New { made: clock::now(), delay, place: Location::caller() };
        Timer::of(Of::New(new), Timestamp::ZERO)
    }

    /// A timer of this driver's runtime.
    pub(crate) fn on(driver: &Driver, deadline: Instant) -> Self {
        let due = clock::timestamp_of(deadline);
        Timer::of(Of::driver(driver.clone(), due), due)
    }

    #[inline]
    fn of(of: Of, due: Timestamp) -> Self {
        Timer { due, slack: Slack::DEFAULT, of, elapsed: false }
    }

    /// The deadline that it was set to; the epoch, if that lies before it.
    pub(crate) fn deadline(&self) -> Instant {
        match &self.of {
            Of::New(new) => new.made + Duration::from_nanos(new.delay),
            Of::Tokio(sleep) => sleep.deadline(),
            Of::Nobody(_) | Of::Soft(_) => clock::instant_of(self.due),
        }
    }

    /// Counts from the next registration on.
    pub(crate) fn set_slack(&mut self, slack: Slack) {
        // tokio has its own: a millisecond.
        self.slack = slack;
    }

    pub(crate) fn is_elapsed(&self) -> bool {
        match &self.of {
            Of::Tokio(sleep) => sleep.is_elapsed(),
            _ => self.elapsed,
        }
    }

    /// Ready once the deadline has come, with the time if the clock was read. Also a trigger state for all other timers of the
    /// runtime.
    ///
    /// Takes part in tokio's cooperative scheduling: a task that finds timer after timer elapsed is made to yield.
    ///
    /// # Panics
    /// If it has to wait and belongs to nobody, outside of a runtime.
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

    /// The time; at the first poll of a long timer still that when it was made: a clock is a fifth of what such a timer costs.
    fn look(&mut self) -> Timestamp {
        let Of::New(New { made, delay, place }) = self.of else { return clock::timestamp() };
        let made = clock::timestamp_of(made);
        let delay = Duration::from_nanos(delay);
        self.due = made + delay;
        self.of = Of::Nobody(place);
        if delay >= LONG { made } else { clock::timestamp() }
    }

    fn wait(&mut self, cx: &mut Context<'_>, now: Timestamp) -> Poll<()> {
        if let Of::Nobody(place) = self.of {
            self.of = Of::driver(Driver::of_timer(place), self.due);
        }
        match &mut self.of {
            Of::Soft(soft) => {
                soft.register(cx.waker(), now, self.due, self.slack);
                soft.timers.trigger_in_passing(now);
                Poll::Pending
            }
            Of::Tokio(sleep) => sleep.as_mut().poll(cx),
            Of::New(_) | Of::Nobody(_) => unreachable!("it has got somebody"),
        }
    }

    /// Moves the deadline. A task that waits goes on waiting, for the new one.
    pub(crate) fn reset(&mut self, deadline: Instant) {
        match &mut self.of {
            Of::Tokio(sleep) => sleep.as_mut().reset(deadline),
            of => {
                self.due = clock::timestamp_of(deadline);
                self.elapsed = false;
                if let Of::New(new) = of {
                    *of = Of::Nobody(new.place);
                } else if let Of::Soft(soft) = of {
                    // If it is not pending it has fired, and the task is awake and will poll; or it has elapsed.
                    if soft.timers.reset(&mut soft.registration, self.slack, self.due).is_err() {
                        soft.wakes = Identity::NOBODY;
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
                Of::Soft(Soft { timers, registration: Registration::new(), wakes: Identity::NOBODY })
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
            // One that is near wakes the driver's task, which looks for itself.
            if clock::PAUSABLE && due.saturating_duration_since(now) > NEAR {
                self.timers.check_clock(now);
            }
        }
        // Also of one that is registered: what was woken by an end that came too early has to hear of it.
        self.timers.check();
    }

    fn take_back(&mut self) {
        self.wakes = Identity::NOBODY;
        drop(self.timers.cancel(&mut self.registration));
    }
}

/// Dropped timers wake nobody.
impl Drop for Soft {
    fn drop(&mut self) {
        drop(self.timers.cancel(&mut self.registration));
    }
}

/// The time that a task may wait before it is told that the clock stands still.
const NEAR: Duration = Duration::from_millis(1);

/// A delay from which on the first poll need not check the clock. If it comes only when the delay is over, the task
/// is woken for the timer at once rather than not put to sleep.
const LONG: Duration = Duration::from_millis(10);

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// The first poll of a long timer need not check the clock; one that comes when all is over waits for no other
    /// event.
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
