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
//! of that poll is its runtime from then on.

use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use softtimers_core::{Slack, Timestamp, TriggerState};
use tokio::task::coop;
use tokio::time::Instant;

use crate::clock;
use crate::driver::{Driver, Registration, Timers};

#[derive(Debug)]
pub(crate) struct Timer {
    due: Timestamp,
    slack: Slack,
    of: Of,
    elapsed: bool,
}

/// The owner of the timer.
#[derive(Debug)]
enum Of {
    /// It is nobody's yet.
    Nobody(Made),
    Soft(Soft),
    Tokio(Pin<Box<tokio::time::Sleep>>),
}

/// When, if the clock was read, and where.
#[derive(Clone, Copy, Debug)]
struct Made {
    time: Option<Timestamp>,
    place: &'static Location<'static>,
}

#[derive(Debug)]
struct Soft {
    timers: Arc<Timers>,
    registration: Registration,
    /// Whom it wakes, as long as it is pending.
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
        let made = Made { time: None, place: Location::caller() };
        Timer::of(Of::Nobody(made), clock::timestamp_of(deadline))
    }

    /// `duration` from now, or far ahead.
    #[track_caller]
    pub(crate) fn after(duration: Duration) -> Self {
        let now = clock::timestamp();
        let made = Made { time: Some(now), place: Location::caller() };
        Timer::of(Of::Nobody(made), now + duration.min(clock::FAR))
    }

    /// A timer of this driver's runtime.
    pub(crate) fn on(driver: &Driver, deadline: Instant) -> Self {
        let due = clock::timestamp_of(deadline);
        Timer::of(Of::driver(driver.clone(), due), due)
    }

    fn of(of: Of, due: Timestamp) -> Self {
        Timer { due, slack: Slack::DEFAULT, of, elapsed: false }
    }

    /// The deadline that it was set to; the epoch, if that lies before it.
    pub(crate) fn deadline(&self) -> Instant {
        match &self.of {
            Of::Tokio(sleep) => sleep.deadline(),
            _ => clock::instant_of(self.due),
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

    /// Ready once the deadline has come. Also a trigger state for all other timers of the runtime.
    ///
    /// Takes part in tokio's cooperative scheduling: a task that finds timer after timer elapsed is made to yield.
    ///
    /// # Panics
    /// If it has to wait and belongs to nobody, outside of a runtime.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.of {
            Of::Tokio(sleep) => sleep.as_mut().poll(cx),
            _ => pin!(coop::cooperative(poll_fn(|cx| self.poll_soft(cx)))).poll(cx),
        }
    }

    fn poll_soft(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.elapsed {
            return Poll::Ready(());
        }
        let now = clock::timestamp();
        if now >= self.due {
            self.elapsed = true;
            // Before the trigger state, which would wake this very task.
            match &mut self.of {
                Of::Soft(soft) => {
                    soft.take_back();
                    soft.timers.trigger(TriggerState::ProtocolTimer, now);
                }
                _ => {
                    crate::driver::trigger_at(TriggerState::ProtocolTimer, now);
                }
            }
            return Poll::Ready(());
        }
        self.wait(cx, now)
    }

    fn wait(&mut self, cx: &mut Context<'_>, now: Timestamp) -> Poll<()> {
        let mut unlike = None;
        if let Of::Nobody(made) = self.of {
            unlike = made.time;
            self.of = Of::driver(Driver::of_timer(made.place), self.due);
        }
        match &mut self.of {
            Of::Soft(soft) => {
                soft.register(cx.waker(), now, self.due, self.slack, unlike);
                soft.timers.trigger(TriggerState::ProtocolTimer, now);
                Poll::Pending
            }
            Of::Tokio(sleep) => sleep.as_mut().poll(cx),
            Of::Nobody(_) => unreachable!("it has got somebody"),
        }
    }

    /// Moves the deadline. A task that waits goes on waiting, for the new one.
    pub(crate) fn reset(&mut self, deadline: Instant) {
        match &mut self.of {
            Of::Tokio(sleep) => sleep.as_mut().reset(deadline),
            of => {
                self.due = clock::timestamp_of(deadline);
                self.elapsed = false;
                if let Of::Soft(soft) = of {
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
    /// `unlike` is a time that the clock has shown: if it still does, it stands still.
    fn register(
        &mut self,
        waker: &Waker,
        now: Timestamp,
        due: Timestamp,
        slack: Slack,
        unlike: Option<Timestamp>,
    ) {
        let identity = Identity::of(waker);
        if self.wakes != identity {
            drop(self.timers.set(&mut self.registration, now, due, slack, waker.clone()));
            self.wakes = identity;
            // One that is near wakes the driver's task, which looks for itself.
            if due.saturating_duration_since(now) > NEAR {
                self.timers.check_clock(now, unlike);
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

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;

    /// A program may have a hundred thousand of them in its futures.
    #[test]
    fn a_timer_is_small() {
        assert!(size_of::<Timer>() <= 72, "{}", size_of::<Timer>());
        assert!(size_of::<Timer>() < size_of::<tokio::time::Sleep>());
    }
}
