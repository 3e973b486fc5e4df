//! [`PaceLayer`]: spaces the calls of a [`tower_service::Service`] evenly.
//!
//! tower's own `RateLimit` lets all calls of a period go at once and then none, waits with tokio's
//! millisecond timers, and cannot be cloned. Here each call takes the next scheduled time, and clones share
//! the schedule.
//!
//! ```text
//!   RateLimit 8 per 8 ms   ●●●●●●●●·······················●●●●●●●●·······················
//!   PaceLayer 1 per 1 ms   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●   ●
//! ```
//!
//! It is [`SharedPacer`] for a service: after a stall the delayed calls do not leave together, each waiting call is woken
//! once, in order, and one that is dropped while it waits takes nothing from those behind it. A call counts as having left
//! once the inner service was ready for it, too.

use std::task::{Context, Poll, ready};

use softtimers_core::{Rate, Slack};
use tower_layer::Layer;
use tower_service::Service;

use crate::shared_pacer::{SharedPacer, Turn};

/// A layer whose services are ready for a call at its scheduled time, at a rate and evenly spaced.
///
/// Each service that [`new`](Self::new)'s layer makes has a pace of its own, which its clones share; those of
/// [`shared`](Self::shared)'s have one for all.
///
/// ```
/// use softtimers_tokio::{PaceLayer, Rate, SharedPacer, Slack};
/// use tower_layer::Layer;
///
/// let layer = PaceLayer::new(Rate::per_second(2_000)?).with_slack(Slack::micros(50));
/// let paced = layer.layer("any service");
/// assert_eq!(*paced.get_ref(), "any service");
///
/// // All routes of a server, and its other tasks, at one pace; ten calls may leave at once after an idle time.
/// let pacer = SharedPacer::from(Rate::pps(2_000)).with_burst(10);
/// let for_all = PaceLayer::shared(pacer.clone());
/// # let _ = for_all.layer("");
/// # Ok::<(), softtimers_tokio::RateError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PaceLayer(Pace);

#[derive(Clone, Debug)]
enum Pace {
    OfEach { rate: Rate, slack: Slack },
    OfAll(SharedPacer),
}

impl PaceLayer {
    /// Makes a layer that allows one call per interval of `rate`. Unused scheduled times are lost: after an
    /// idle time calls are no closer together than before.
    pub fn new(rate: Rate) -> Self {
        PaceLayer(Pace::OfEach { rate, slack: Slack::DEFAULT })
    }

    /// Makes a layer all of whose services keep this pace, together with whoever else waits for it.
    pub fn shared(pacer: SharedPacer) -> Self {
        PaceLayer(Pace::OfAll(pacer))
    }

    /// Sets the slack, by which a call may leave later, for fewer wake-ups; [`Slack::DEFAULT`] by default, and that of a
    /// shared pacer.
    #[must_use]
    pub fn with_slack(self, slack: Slack) -> Self {
        PaceLayer(match self.0 {
            Pace::OfEach { rate, .. } => Pace::OfEach { rate, slack },
            Pace::OfAll(pacer) => Pace::OfAll(pacer.with_slack(slack)),
        })
    }
}

impl<S> Layer<S> for PaceLayer {
    type Service = Paced<S>;

    fn layer(&self, inner: S) -> Paced<S> {
        let pacer = match &self.0 {
            Pace::OfEach { rate, slack } => SharedPacer::from(*rate).with_slack(*slack),
            Pace::OfAll(pacer) => pacer.clone(),
        };
        Paced { inner, turn: Turn::new(&pacer), pacer }
    }
}

/// A service that [`PaceLayer`] makes.
///
/// A clone shares the pace, and waits in line for itself. One that is dropped while it waits, or when it may leave and has
/// not been called, takes nothing from the others. The inner service is polled for readiness only when the call
/// could leave, so its permits are not held meanwhile; while it is not ready, the calls behind this one go first.
#[derive(Debug)]
pub struct Paced<S> {
    inner: S,
    pacer: SharedPacer,
    /// That of this clone's next call.
    turn: Turn,
}

impl<S> Paced<S> {
    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner service, without its pace.
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// Returns the pace, to change its rate for all clones, or to read how many calls have left and wait.
    pub fn pacer(&self) -> &SharedPacer {
        &self.pacer
    }
}

impl<S: Clone> Clone for Paced<S> {
    fn clone(&self) -> Self {
        Paced { inner: self.inner.clone(), pacer: self.pacer.clone(), turn: Turn::new(&self.pacer) }
    }
}

impl<S: Service<Request>, Request> Service<Request> for Paced<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if self.turn.is_taken() {
            return self.inner.poll_ready(cx);
        }
        ready!(self.turn.poll_may_leave(cx));
        // Only now: others could use the inner service meanwhile, for example its permits.
        let ready = self.inner.poll_ready(cx);
        match ready {
            Poll::Ready(Ok(())) => ready!(self.turn.poll_leave(cx, 1)),
            Poll::Ready(Err(_)) => self.turn.give_up(),
            Poll::Pending => self.turn.step_aside(),
        }
        ready
    }

    /// # Panics
    /// If [`poll_ready`](Service::poll_ready) has not returned ready, as tower's own limits do.
    fn call(&mut self, request: Request) -> S::Future {
        assert!(self.turn.is_taken(), "service not ready; poll_ready must be called first");
        self.turn.used();
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, poll_fn, ready};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::time::Instant;

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

    /// Calls are no sooner than their scheduled times, those of clones as well; an idle time saves none up.
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

    /// Of a shared pacer's layer also different services, and whoever else waits.
    #[tokio::test]
    async fn a_shared_pace_holds_for_all_services() {
        let pacer = SharedPacer::from(Rate::every(INTERVAL).unwrap());
        let layer = PaceLayer::shared(pacer.clone());
        let [mut one, mut other] = [layer.layer(Echo), layer.clone().layer(Echo)];
        let start = Instant::now();
        for _ in 0..3 {
            tokio::join!(call(&mut one), call(&mut other), pacer.ready());
        }
        assert!(start.elapsed() >= 8 * INTERVAL, "{:?}", start.elapsed());
        assert_eq!(pacer.clock().departures(), 9);
    }

    /// A service that is ready when set so, and counts polls.
    #[derive(Clone, Default)]
    struct Limited {
        full: bool,
        asked: Arc<AtomicU32>,
    }

    impl Service<u32> for Limited {
        type Response = u32;
        type Error = Infallible;
        type Future = Ready<Result<u32, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if self.full { Poll::Pending } else { Poll::Ready(Ok(())) }
        }

        fn call(&mut self, request: u32) -> Self::Future {
            ready(Ok(request))
        }
    }

    async fn is_ready(paced: &mut Paced<Limited>) -> bool {
        poll_fn(|cx| Poll::Ready(Service::<u32>::poll_ready(paced, cx).is_ready())).await
    }

    /// A call counts as having left only once the inner service is ready, and others go first until then.
    #[tokio::test]
    async fn a_call_leaves_when_the_service_inside_is_ready() {
        let inner = Limited { full: true, ..Limited::default() };
        let mut paced = PaceLayer::new(Rate::every(INTERVAL).unwrap()).layer(inner);
        let mut other = Paced { inner: Limited::default(), ..paced.clone() };
        for _ in 0..3 {
            // Its scheduled time has come: it only waits for the service.
            assert!(!is_ready(&mut paced).await);
            assert_eq!(paced.pacer().clock().departures(), 0);
        }
        assert!(is_ready(&mut other).await);
        paced.get_mut().full = false;
        poll_fn(|cx| Service::<u32>::poll_ready(&mut paced, cx)).await.unwrap();
        assert_eq!(paced.pacer().clock().departures(), 2);
        assert_eq!(paced.call(7).await, Ok(7));
    }

    /// After a stall, too, only calls that leave poll the inner service: its permits are not held in the
    /// queue.
    #[tokio::test(start_paused = true)]
    async fn calls_in_line_hold_nothing_of_the_service_inside() {
        let inner = Limited::default();
        let asked = inner.asked.clone();
        let mut first = PaceLayer::new(Rate::every(8 * INTERVAL).unwrap()).layer(inner);
        let mut calls = [first.clone(), first.clone(), first.clone()];
        poll_fn(|cx| Service::<u32>::poll_ready(&mut first, cx)).await.unwrap();
        for paced in &mut calls {
            assert!(!is_ready(paced).await);
        }
        tokio::time::advance(1_000 * INTERVAL).await;
        let mut left = 1;
        for paced in &mut calls {
            left += u32::from(is_ready(paced).await);
        }
        assert_eq!((left, asked.load(Ordering::Relaxed)), (2, 2));
        tokio::time::advance(1_000 * INTERVAL).await;
        assert!(is_ready(&mut calls[1]).await && !is_ready(&mut calls[2]).await);
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }

    /// One that may leave, and is dropped before it is called, was never there.
    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_not_made_gives_its_time_back() {
        let mut kept = PaceLayer::new(Rate::every(16 * INTERVAL).unwrap()).layer(Limited::default());
        assert!(is_ready(&mut kept).await);
        let mut dropped = kept.clone();
        assert!(!is_ready(&mut dropped).await);
        tokio::time::advance(16 * INTERVAL).await;
        assert!(is_ready(&mut dropped).await);
        let mut waits = kept.clone();
        assert!(!is_ready(&mut waits).await);
        drop(dropped);
        tokio::time::advance(9 * INTERVAL).await;
        assert!(is_ready(&mut waits).await);
    }

    #[tokio::test]
    #[should_panic(expected = "poll_ready must be called first")]
    async fn a_call_without_a_place_is_refused() {
        drop(paced().call(1));
    }
}
