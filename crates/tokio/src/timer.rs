//! [`Timer`]: one deadline that a task waits for. What all futures of this crate are made of.
//!
//! ```text
//!   new ─▶ idle ── poll, too early ──▶ waits, a waker set ── fires, wakes ──▶ poll: elapsed
//!                                       │  ▲
//!             drop: cancel, O(1) ◀──────┤  └─ poll with another waker: set anew
//!                                       └─ reset: O(1), to a later time two writes
//! ```
//!
//! Whether it has elapsed is the clock's to say, not the waker's: a poll at or after the deadline is ready whoever
//! caused it, and takes the waker back. What the timers share of it is theirs
//! ([`Registration`]), made with the first poll that has to wait and kept.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use softtimers_core::{Slack, Timestamp, TriggerState};
use tokio::task::coop;
use tokio::time::Instant;

use crate::clock;
use crate::driver::{Driver, Registration, Timers};

#[derive(Debug)]
pub(crate) enum Timer {
    Soft(Soft),
    Tokio(Pin<Box<tokio::time::Sleep>>),
}

#[derive(Debug)]
pub(crate) struct Soft {
    timers: Arc<Timers>,
    due: Timestamp,
    registration: Option<Registration>,
    slack: Slack,
    elapsed: bool,
}

impl Timer {
    /// A timer of the current runtime.
    #[track_caller]
    pub(crate) fn new(deadline: Instant) -> Self {
        Timer::on(&Driver::current(), deadline)
    }

    /// A timer of this driver's runtime.
    pub(crate) fn on(driver: &Driver, deadline: Instant) -> Self {
        match driver.timers() {
            Some(timers) => Timer::Soft(Soft {
                timers: timers.clone(),
                due: clock::timestamp_of(deadline),
                registration: None,
                slack: Slack::DEFAULT,
                elapsed: false,
            }),
            None => Timer::Tokio(Box::pin(tokio::time::sleep_until(deadline))),
        }
    }

    /// What it was set to; the epoch, if that lies before it.
    pub(crate) fn deadline(&self) -> Instant {
        match self {
            Timer::Soft(soft) => clock::instant_of(soft.due),
            Timer::Tokio(sleep) => sleep.deadline(),
        }
    }

    /// Counts from the next registration on.
    pub(crate) fn set_slack(&mut self, slack: Slack) {
        match self {
            Timer::Soft(soft) => soft.slack = slack,
            // tokio has its own: a millisecond.
            Timer::Tokio(_) => {}
        }
    }

    pub(crate) fn is_elapsed(&self) -> bool {
        match self {
            Timer::Soft(soft) => soft.elapsed,
            Timer::Tokio(sleep) => sleep.is_elapsed(),
        }
    }

    /// Ready once the deadline has come. Also a trigger state for all other timers of the runtime.
    ///
    /// Takes part in tokio's cooperative scheduling: a task that finds timer after timer elapsed is made to yield.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Timer::Soft(soft) => pin!(coop::cooperative(poll_fn(|cx| soft.poll(cx)))).poll(cx),
            Timer::Tokio(sleep) => sleep.as_mut().poll(cx),
        }
    }

    /// Moves the deadline. A task that waits goes on waiting, for the new one.
    pub(crate) fn reset(&mut self, deadline: Instant) {
        match self {
            Timer::Soft(soft) => soft.reset(clock::timestamp_of(deadline)),
            Timer::Tokio(sleep) => sleep.as_mut().reset(deadline),
        }
    }
}

impl Soft {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.elapsed {
            return Poll::Ready(());
        }
        let now = clock::timestamp();
        if now >= self.due {
            self.elapsed = true;
            // Before the trigger state, which would wake this very task.
            self.take_back();
        } else {
            self.register(cx.waker(), now);
        }
        self.timers.trigger(TriggerState::ProtocolTimer, now);
        if self.elapsed { Poll::Ready(()) } else { Poll::Pending }
    }

    fn register(&mut self, waker: &Waker, now: Timestamp) {
        let registration = self.registration.get_or_insert_with(Registration::new);
        if !registration.look(|before| before.is_some_and(|before| before.will_wake(waker))) {
            drop(self.timers.set(registration, now, self.due, self.slack, waker.clone()));
            self.timers.check_clock(now);
        }
        // Also of one that is registered: what was woken by an end that came too early has to hear of it.
        self.timers.check();
    }

    fn take_back(&mut self) {
        if let Some(registration) = &mut self.registration {
            drop(self.timers.cancel(registration));
        }
    }

    fn reset(&mut self, due: Timestamp) {
        self.due = due;
        self.elapsed = false;
        if let Some(registration) = &mut self.registration {
            // If it is not pending it has fired, and the task is awake and will poll; or it has elapsed.
            let _ = self.timers.reset(registration, due);
        }
    }
}

/// Dropped timers wake nobody.
impl Drop for Soft {
    fn drop(&mut self) {
        self.take_back();
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;

    /// A program may have a hundred thousand of them in its futures.
    #[test]
    fn a_timer_is_small() {
        assert!(size_of::<Timer>() <= 48, "{}", size_of::<Timer>());
    }
}
