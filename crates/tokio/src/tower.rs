//! [`PaceLayer`]: the calls of a [`tower_service::Service`] leave one by one, evenly spaced.
//!
//! tower's own `RateLimit` lets the calls of a period go at once and then none, waits by tokio's timers, which count
//! milliseconds, and cannot be cloned. Here each call takes a place of a schedule, and clones share the schedule.
//!
//! ```text
//!   RateLimit 8 per 8 ms   ●●●●●●●●·······················●●●●●●●●·······················
//!   PaceLayer 1 per 1 ms   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●
//! ```
//!
//! After a stall the calls whose places have passed do not leave together: two calls are apart by nine sixteenths of the
//! interval at the least, which makes up for the stall in some steps.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use softtimers_core::{Rate, Slack};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use crate::clock;
use crate::sleep::{Sleep, sleep_until};

/// A layer whose services are ready for a call when its place has come, at a rate and evenly spaced.
///
/// Each service that it makes has a schedule of its own, which its clones share. Make one for all to pace them together, or
/// one for each client.
///
/// ```
/// use softtimers_tokio::{PaceLayer, Rate, Slack};
/// use tower_layer::Layer;
///
/// let layer = PaceLayer::new(Rate::per_second(2_000)?).with_slack(Slack::micros(50));
/// let paced = layer.layer("any service");
/// assert_eq!(*paced.get_ref(), "any service");
/// # Ok::<(), softtimers_tokio::RateError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaceLayer {
    interval: Duration,
    slack: Slack,
}

impl PaceLayer {
    /// One call per interval of `rate`. Places that nobody has taken are gone: after an idle time calls are no closer together
    /// than before.
    pub fn new(rate: Rate) -> Self {
        PaceLayer { interval: rate.interval(), slack: Slack::DEFAULT }
    }

    /// With this slack, by which a call may leave later for the sake of fewer wake-ups; [`Slack::DEFAULT`] unless set.
    #[must_use]
    pub const fn with_slack(mut self, slack: Slack) -> Self {
        self.slack = slack;
        self
    }
}

impl<S> Layer<S> for PaceLayer {
    type Service = Paced<S>;

    fn layer(&self, inner: S) -> Paced<S> {
        let now = clock::now();
        let schedule = Schedule { interval: self.interval, next: now, not_before: now };
        Paced { inner, schedule: Arc::new(Mutex::new(schedule)), slack: self.slack, call: Call::Unplaced }
    }
}

/// The places of the calls of all clones.
#[derive(Debug)]
struct Schedule {
    interval: Duration,
    /// The next place that nobody has taken.
    next: Instant,
    /// The earliest time of the next call, after the one that left last.
    not_before: Instant,
}

impl Schedule {
    fn take_place(&mut self, now: Instant) -> Instant {
        let place = self.next.max(now);
        self.next = place + self.interval;
        place
    }

    /// Lets a call leave, or says when to ask again.
    fn leave(&mut self, now: Instant) -> Result<(), Instant> {
        if now < self.not_before {
            return Err(self.not_before);
        }
        self.not_before = now + self.interval / 16 * 9;
        Ok(())
    }
}

/// A service that [`PaceLayer`] makes.
///
/// A clone shares the schedule and takes places of its own. One that is dropped while it waits has wasted its place.
#[derive(Debug)]
pub struct Paced<S> {
    inner: S,
    schedule: Arc<Mutex<Schedule>>,
    slack: Slack,
    call: Call,
}

/// The call that this clone is asked for.
#[derive(Debug)]
enum Call {
    Unplaced,
    Waits(Sleep),
    MayLeave,
}

impl<S> Paced<S> {
    /// The service inside.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service inside.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The service inside, without its schedule.
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// Changes the rate, for all clones, from the next place on that nobody has taken.
    pub fn set_rate(&self, rate: Rate) {
        self.schedule().interval = rate.interval();
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Clone> Clone for Paced<S> {
    fn clone(&self) -> Self {
        Paced {
            inner: self.inner.clone(),
            schedule: self.schedule.clone(),
            slack: self.slack,
            call: Call::Unplaced,
        }
    }
}

impl<S: Service<Request>, Request> Service<Request> for Paced<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        loop {
            match &mut self.call {
                Call::Unplaced => {
                    let place = self.schedule().take_place(clock::now());
                    self.call = Call::Waits(sleep_until(place).with_slack(self.slack));
                }
                Call::Waits(sleep) => {
                    ready!(Pin::new(sleep).poll(cx));
                    let left = self.schedule().leave(clock::now());
                    self.call = match left {
                        Ok(()) => Call::MayLeave,
                        Err(not_before) => Call::Waits(sleep_until(not_before).with_slack(self.slack)),
                    };
                }
                Call::MayLeave => return self.inner.poll_ready(cx),
            }
        }
    }

    /// # Panics
    /// If [`poll_ready`](Service::poll_ready) has not said that it is ready, as tower's own limits do.
    fn call(&mut self, request: Request) -> S::Future {
        assert!(matches!(self.call, Call::MayLeave), "service not ready; poll_ready must be called first");
        self.call = Call::Unplaced;
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, poll_fn, ready};

    use super::*;

    #[derive(Clone)]
    struct Echo;

    impl Service<u32> for Echo {
        type Response = u32;
        type Error = Infallible;
        type Future = Ready<Result<u32, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: u32) -> Self::Future {
            ready(Ok(request))
        }
    }

    const INTERVAL: Duration = Duration::from_millis(1);

    fn paced() -> Paced<Echo> {
        PaceLayer::new(Rate::every(INTERVAL).unwrap()).layer(Echo)
    }

    async fn call(paced: &mut Paced<Echo>) {
        poll_fn(|cx| Service::<u32>::poll_ready(paced, cx)).await.unwrap();
        assert_eq!(paced.call(7).await, Ok(7));
    }

    /// Calls are no sooner than their places, those of clones as well; an idle time saves none up.
    #[tokio::test]
    async fn calls_of_all_clones_are_spaced() {
        let mut one = paced();
        let mut other = one.clone();
        for _ in 0..2 {
            let start = Instant::now();
            for _ in 0..5 {
                tokio::join!(call(&mut one), call(&mut other));
            }
            assert!(start.elapsed() >= 9 * INTERVAL, "{:?}", start.elapsed());
            crate::sleep(20 * INTERVAL).await;
        }
    }

    /// What a stall has delayed does not leave together.
    #[test]
    fn a_stall_is_made_up_in_steps() {
        let start = clock::now();
        let mut schedule = Schedule { interval: INTERVAL, next: start, not_before: start };
        let places: Vec<Instant> = (0..8).map(|_| schedule.take_place(start)).collect();
        assert_eq!(places[7] - places[0], 7 * INTERVAL);
        let mut now = start + 5 * INTERVAL;
        for _ in 0..4 {
            assert_eq!(schedule.leave(now), Ok(()));
            let again = schedule.leave(now).unwrap_err();
            assert_eq!(again - now, INTERVAL / 16 * 9);
            now = again;
        }
        // Nobody has asked for long: the next place is now.
        assert_eq!(schedule.take_place(start + 50 * INTERVAL), start + 50 * INTERVAL);
    }

    #[tokio::test]
    #[should_panic(expected = "poll_ready must be called first")]
    async fn a_call_without_a_place_is_refused() {
        drop(paced().call(1));
    }
}
