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
use std::mem;
use std::panic::Location;
use std::pin::{Pin, pin};
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
    due: Timestamp,
    slack: Slack,
    owner: Owner,
    elapsed: bool,
}

/// Who serves the timer.
#[derive(Debug)]
enum Owner {
    /// Nobody: as it was made. Most time-outs never get further.
    New(New),
    /// Nobody yet, with a deadline.
    Nobody(Unregistered),
    Soft(Soft),
    Tokio(OfTokio),
}

#[derive(Clone, Copy, Debug)]
struct New {
    /// In nanoseconds, which takes less room than a [`Duration`]; zero from the first poll on.
    delay: u64,
    place: &'static Location<'static>,
}

#[derive(Clone, Copy, Debug)]
struct Unregistered {
    /// As it was given: a timestamp cannot represent all of them.
    deadline: Instant,
    /// Where it was made, or moved to this deadline.
    place: &'static Location<'static>,
}

#[derive(Debug)]
struct Soft {
    timers: Arc<Timers>,
    registration: Registration,
    /// The task that it wakes, as long as it is pending.
    wakes: Identity,
}

#[derive(Debug)]
struct OfTokio {
    sleep: Pin<Box<tokio::time::Sleep>>,
    /// The runtime has soft timers as soon as the kernel gives it a descriptor.
    stopgap: bool,
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

    fn of_waker(waker: &Waker) -> Self {
        Identity { data: waker.data().addr(), vtable: ptr::from_ref(waker.vtable()).addr() }
    }
}

impl Timer {
    /// Makes a timer for the runtime in which it is first polled before its deadline.
    #[track_caller]
    pub(crate) fn new(deadline: Instant) -> Self {
        Timer::owned(Owner::nobody(deadline, Location::caller()), clock::timestamp_of(deadline))
    }

    /// `delay` from now, or far ahead.
    #[inline]
    #[track_caller]
    pub(crate) fn after(delay: Duration) -> Self {
        let delay = delay.min(clock::FAR).as_nanos() as u64;
        let due = Timestamp::from_nanos(clock::timestamp().as_nanos() + delay);
        Timer::owned(Owner::New(New { delay, place: Location::caller() }), due)
    }

    /// Makes a timer of this driver's runtime.
    #[track_caller]
    pub(crate) fn on(driver: &Driver, deadline: Instant) -> Self {
        let due = clock::timestamp_of(deadline);
        let owner = if is_within(due) {
            Owner::served_by(driver.clone(), || deadline)
        } else {
            Owner::nobody(deadline, Location::caller())
        };
        Timer::owned(owner, due)
    }

    #[inline]
    fn owned(owner: Owner, due: Timestamp) -> Self {
        Timer { due, slack: Slack::DEFAULT, owner, elapsed: false }
    }

    /// Returns its deadline, as it was given.
    pub(crate) fn deadline(&self) -> Instant {
        match &self.owner {
            Owner::Tokio(of_tokio) => of_tokio.sleep.deadline(),
            Owner::Nobody(nobody) => nobody.deadline,
            Owner::New(_) | Owner::Soft(_) => clock::instant_of(self.due),
        }
    }

    /// Sets the slack from the next registration on.
    pub(crate) fn set_slack(&mut self, slack: Slack) {
        // tokio's timers have their own: a millisecond.
        self.slack = slack;
    }

    pub(crate) fn is_elapsed(&self) -> bool {
        match &self.owner {
            Owner::Tokio(of_tokio) => of_tokio.sleep.is_elapsed(),
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
    #[track_caller]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Timestamp>> {
        if let Owner::Tokio(of_tokio) = &mut self.owner {
            return of_tokio.sleep.as_mut().poll(cx).map(|()| None);
        }
        let progress = ready!(coop::poll_proceed(cx));
        let polled = self.poll_soft(cx);
        if polled.is_ready() {
            progress.made_progress();
        }
        polled
    }

    #[track_caller]
    fn poll_soft(&mut self, cx: &mut Context<'_>) -> Poll<Option<Timestamp>> {
        if self.elapsed {
            return Poll::Ready(None);
        }
        let now = self.read_clock();
        if now >= self.due {
            self.elapsed = true;
            // Before the trigger state, which would wake this very task.
            match &mut self.owner {
                Owner::Soft(soft) => {
                    soft.take_back();
                    soft.timers.trigger_in_passing(now);
                }
                _ => {
                    crate::driver::trigger_at(TriggerState::ProtocolTimer, now);
                }
            }
            return Poll::Ready(Some(now));
        }
        if self.due == Timestamp::MAX {
            // In some hundred years.
            return Poll::Pending;
        }
        self.find_owner();
        match &mut self.owner {
            Owner::Soft(soft) => {
                // A near one wakes the driver's task, which checks the clock itself.
                let is_far = clock::PAUSABLE && self.due.saturating_duration_since(now) > NEAR_DEADLINE;
                if soft.register(cx.waker(), now, self.due, self.slack) && is_far {
                    soft.timers.check_clock(now);
                }
                // Also for a registered timer: one woken early by the timers' end has to panic.
                soft.timers.check();
                soft.timers.trigger_in_passing(now);
                Poll::Pending
            }
            Owner::Tokio(of_tokio) => of_tokio.sleep.as_mut().poll(cx).map(|()| None),
            Owner::New(_) | Owner::Nobody(_) => unreachable!("it has an owner now"),
        }
    }

    /// Returns the time; at the first poll of a long timer, the time when it was made: a clock read is a
    /// fifth of such a timer's cost.
    fn read_clock(&mut self) -> Timestamp {
        match &mut self.owner {
            Owner::New(New { delay, .. }) if *delay >= LONG_DELAY.as_nanos() as u64 => {
                // One that is still new at a later poll found no runtime at its first, and panicked.
                Timestamp::from_nanos(self.due.as_nanos() - mem::take(delay))
            }
            _ => clock::timestamp(),
        }
    }

    /// Gives it to the timers of the current runtime, unless it has an owner.
    #[track_caller]
    fn find_owner(&mut self) {
        if let Owner::New(New { place, .. }) | Owner::Nobody(Unregistered { place, .. }) = self.owner {
            let owner = Owner::served_by(Driver::of_timer(place), || self.deadline());
            // Nothing has to be dropped, which only the code around this knows.
            mem::forget(mem::replace(&mut self.owner, owner));
        }
    }

    /// Moves the deadline. A waiting task now waits for the new one.
    #[track_caller]
    pub(crate) fn reset(&mut self, deadline: Instant) {
        let due = clock::timestamp_of(deadline);
        match &mut self.owner {
            Owner::Tokio(of_tokio) if !of_tokio.stopgap || !of_tokio.sleep.is_elapsed() => {
                of_tokio.sleep.as_mut().reset(deadline);
            }
            Owner::Soft(soft) if is_within(due) => {
                // If it is not pending it has fired, and the task is awake and will poll; or it has elapsed.
                if soft.timers.reset(&mut soft.registration, self.slack, due).is_err() {
                    soft.wakes = Identity::NONE;
                }
            }
            Owner::New(New { place, .. }) | Owner::Nobody(Unregistered { place, .. }) => {
                self.owner = Owner::nobody(deadline, place);
            }
            Owner::Soft(_) | Owner::Tokio(_) => self.owner = Owner::nobody(deadline, Location::caller()),
        }
        self.due = due;
        self.elapsed = false;
    }

    /// Sets it to wake this crate's own `waker` at `due`: outside of any task's budget, and without a look at other
    /// timers, which would call wakers. Returns false if that time has come for tokio's timers.
    ///
    /// # Panics
    /// As [`poll`](Self::poll).
    #[track_caller]
    pub(crate) fn set(&mut self, now: Timestamp, due: Timestamp, waker: &Waker) -> bool {
        self.reset(clock::instant_of(due));
        self.find_owner();
        match &mut self.owner {
            Owner::Soft(soft) => {
                soft.register(waker, now, due, self.slack);
                soft.timers.check();
                true
            }
            Owner::Tokio(of_tokio) => {
                let sleep = pin!(coop::unconstrained(of_tokio.sleep.as_mut()));
                sleep.poll(&mut Context::from_waker(waker)).is_pending()
            }
            Owner::New(_) | Owner::Nobody(_) => unreachable!("it has an owner now"),
        }
    }

    /// Takes it back: it wakes nobody.
    pub(crate) fn unset(&mut self) {
        match &mut self.owner {
            Owner::Soft(soft) => soft.take_back(),
            Owner::Tokio(OfTokio { sleep, .. }) => {
                self.owner = Owner::nobody(sleep.deadline(), Location::caller());
            }
            Owner::New(_) | Owner::Nobody(_) => {}
        }
    }

    /// Returns whether it may be set from any thread, at any time: not when its runtime has ended, and not where
    /// tokio's timers serve, which panic then.
    pub(crate) fn may_be_set_anywhere(&self) -> bool {
        matches!(&self.owner, Owner::Soft(soft) if !soft.timers.has_ended())
    }

    /// Returns whether it belongs to another runtime than the current one, which may not be running.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(&self.owner, Owner::Soft(soft) if soft.timers.is_elsewhere())
    }

    /// Returns whether the timers that it belongs to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(&self.owner, Owner::Soft(soft) if soft.timers.has_ended())
    }

    /// Returns whether the current runtime, to which it belongs, is shutting down.
    pub(crate) fn is_shutting_down(&self) -> bool {
        matches!(&self.owner, Owner::Soft(soft) if soft.timers.is_shutting_down_here())
    }
}

/// Returns whether a timestamp can represent the deadline that became this one.
#[inline]
fn is_within(due: Timestamp) -> bool {
    due != Timestamp::ZERO && due != Timestamp::MAX
}

impl Owner {
    fn nobody(deadline: Instant, place: &'static Location<'static>) -> Self {
        Owner::Nobody(Unregistered { deadline, place })
    }

    #[track_caller]
    fn served_by(driver: Driver, deadline: impl FnOnce() -> Instant) -> Self {
        match driver.into_timers() {
            Some(timers) => {
                Owner::Soft(Soft { timers, registration: Registration::new(), wakes: Identity::NONE })
            }
            None => {
                let sleep = Box::pin(tokio::time::sleep_until(deadline()));
                Owner::Tokio(OfTokio { sleep, stopgap: Driver::is_short_of_descriptors() })
            }
        }
    }
}

impl Soft {
    /// Sets it for this waker; returns whether it was not yet.
    fn register(&mut self, waker: &Waker, now: Timestamp, due: Timestamp, slack: Slack) -> bool {
        let identity = Identity::of_waker(waker);
        let anew = self.wakes != identity;
        if anew {
            drop(self.timers.set(&mut self.registration, now, due, slack, waker.clone()));
            self.wakes = identity;
        }
        anew
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
const NEAR_DEADLINE: Duration = Duration::from_millis(1);

/// The delay from which on the first poll need not check the clock. If that poll comes after the delay, the
/// task sleeps and is woken at once.
const LONG_DELAY: Duration = Duration::from_millis(10);

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {
    use std::future::poll_fn;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// The first poll of a long timer need not check the clock; one that comes too late is still woken
    /// without another event.
    #[tokio::test]
    async fn a_long_timer_that_is_polled_late_is_woken_at_once() {
        let mut timer = Timer::after(LONG_DELAY);
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

    /// Without a runtime the first poll panics; if that is caught, a later one reads the clock.
    #[test]
    fn a_long_timer_whose_first_poll_panicked_is_over_in_time() {
        let mut timer = Timer::after(LONG_DELAY);
        let due = timer.deadline();
        let mut poll = || timer.poll(&mut Context::from_waker(Waker::noop()));
        assert!(catch_unwind(AssertUnwindSafe(&mut poll)).is_err());
        while Instant::now() <= due {
            std::thread::yield_now();
        }
        assert!(poll().is_ready());
    }

    /// Also one before the machine's start, and one in a thousand years.
    #[tokio::test]
    async fn a_deadline_is_returned_as_given() {
        let now = Instant::now();
        let year = Duration::from_secs(86_400 * 365);
        let far = now.checked_add(1_000 * year).unwrap_or(now);
        let past = now.checked_sub(10 * year).unwrap_or(now);
        let mut cx = Context::from_waker(Waker::noop());
        for (given, over) in [(now, true), (past, true), (far, false), (now + year, false)] {
            let mut timers =
                [Timer::new(given), Timer::on(&Driver::current(), given), Timer::after(LONG_DELAY)];
            timers[2].reset(given);
            for timer in &mut timers {
                assert_eq!(timer.deadline(), given);
                assert_eq!(timer.poll(&mut cx).is_ready(), over);
                assert_eq!(timer.deadline(), given);
                timer.reset(now + year);
                assert!(timer.poll(&mut cx).is_pending());
                timer.reset(given);
                assert_eq!((timer.deadline(), timer.poll(&mut cx).is_ready()), (given, over));
            }
        }
    }

    /// A program may have a hundred thousand of them in its futures.
    #[test]
    fn a_timer_is_small() {
        assert!(size_of::<Timer>() <= 72, "{}", size_of::<Timer>());
        assert!(size_of::<Timer>() < size_of::<tokio::time::Sleep>());
    }
}
