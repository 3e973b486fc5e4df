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
//! After a stall the delayed calls do not leave together: two calls are apart by at least nine sixteenths of
//! the interval, which makes up for the stall in some steps. Each waiting call gets its own time, so not all
//! of them wake up for each that leaves. A call counts as having left once the inner service was ready for
//! it, too.

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

/// A layer whose services are ready for a call at its scheduled time, at a rate and evenly spaced.
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
    /// Makes a layer that allows one call per interval of `rate`. Unused scheduled times are lost: after an
    /// idle time calls are no closer together than before.
    pub fn new(rate: Rate) -> Self {
        PaceLayer { interval: rate.interval(), slack: Slack::DEFAULT }
    }

    /// Sets the slack, by which a call may leave later, for fewer wake-ups; [`Slack::DEFAULT`] by default.
    #[must_use]
    pub const fn with_slack(mut self, slack: Slack) -> Self {
        self.slack = slack;
        self
    }
}

impl<S> Layer<S> for PaceLayer {
    type Service = Paced<S>;

    fn layer(&self, inner: S) -> Paced<S> {
        let schedule = Arc::new(Mutex::new(Schedule::new(self.interval, clock::now())));
        Paced { inner, schedule, slack: self.slack, call: Call::Unplaced }
    }
}

/// The schedule of the calls of all clones.
#[derive(Debug)]
struct Schedule {
    interval: Duration,
    /// The scheduled time that was taken last.
    taken: Option<Instant>,
    /// When the last call left.
    left: Option<Instant>,
    /// The end of the queue, after all promises.
    free: Instant,
    /// Each promise holds a clone, so its count is the length of the queue.
    line: Arc<()>,
}

/// A promised time at which a call may ask again.
#[derive(Debug)]
struct Promise {
    time: Instant,
    _line: Arc<()>,
}

impl Schedule {
    fn new(interval: Duration, now: Instant) -> Self {
        Schedule { interval, taken: None, left: None, free: now, line: Arc::default() }
    }

    fn take_place(&mut self, now: Instant) -> Instant {
        let place = self.taken.map_or(now, |taken| now.max(taken + self.interval));
        self.taken = Some(place);
        place
    }

    /// Returns the least distance of two calls.
    fn apart(&self) -> Duration {
        self.interval / 16 * 9
    }

    fn promise(&self, time: Instant) -> Promise {
        Promise { time, _line: self.line.clone() }
    }

    /// Returns `Ok` if a call may leave, otherwise a promise. A call that asks in time for its promise need
    /// only keep its distance from the last one, which may have been late; one that asks later, after another
    /// stall, gets a new promise.
    fn ask(&mut self, now: Instant, promise: Option<&Promise>) -> Result<(), Promise> {
        let apart = self.apart();
        let soonest = self.left.map_or(now, |left| left + apart);
        let in_time = promise.is_some_and(|promise| now < promise.time + apart);
        // Somewhat more than the least distance, or each call that wakes a little late would make the next
        // one ask again.
        let step = self.interval / 16 * 11;
        let earliest = if in_time {
            soonest
        } else {
            // The queue may be shorter than promised: calls were dropped, or the rate changed.
            let others = Arc::strong_count(&self.line) - 1 - usize::from(promise.is_some());
            let others = u32::try_from(others).unwrap_or(u32::MAX);
            self.free.clamp(soonest, soonest.max(now) + step * others)
        };
        if now >= earliest {
            return Ok(());
        }
        if !in_time {
            self.free = earliest + step;
        }
        Err(self.promise(earliest))
    }

    /// Counts a call that has asked as leaving, unless another one has left since.
    fn leave(&mut self, now: Instant) -> Result<(), Promise> {
        match self.left.map(|left| left + self.apart()) {
            Some(soonest) if now < soonest => Err(self.promise(soonest)),
            _ => {
                self.left = Some(now);
                Ok(())
            }
        }
    }
}

fn lock(schedule: &Mutex<Schedule>) -> MutexGuard<'_, Schedule> {
    schedule.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A service that [`PaceLayer`] makes.
///
/// A clone shares the schedule and takes its own scheduled times. One that is dropped while it waits wastes
/// its time, but after a stall delays no other. The inner service is polled for readiness only when the call
/// could leave, so its permits are not held meanwhile; a call that it delays leaves when it is ready, at a
/// distance from the others as after a stall.
#[derive(Debug)]
pub struct Paced<S> {
    inner: S,
    schedule: Arc<Mutex<Schedule>>,
    slack: Slack,
    call: Call,
}

/// The state of this clone's next call.
#[derive(Debug)]
enum Call {
    Unplaced,
    /// Waits for its scheduled time, or for a promised one.
    Waits {
        sleep: Sleep,
        promise: Option<Promise>,
    },
    MayLeave,
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

    /// Returns the inner service, without its schedule.
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// Changes the rate for all clones: the next scheduled time is an interval of this rate after the last
    /// one that was taken. Waiting calls keep their times.
    pub fn set_rate(&self, rate: Rate) {
        lock(&self.schedule).interval = rate.interval();
    }

    fn wait_until(&mut self, time: Instant, promise: Option<Promise>) {
        self.call = Call::Waits { sleep: sleep_until(time).with_slack(self.slack), promise };
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
                    let place = lock(&self.schedule).take_place(clock::now());
                    self.wait_until(place, None);
                }
                Call::Waits { sleep, promise } => {
                    ready!(Pin::new(sleep).poll(cx));
                    let mut asked = lock(&self.schedule).ask(clock::now(), promise.as_ref());
                    if asked.is_ok() {
                        // Only now: others could use the inner service meanwhile, for example its permits.
                        ready!(self.inner.poll_ready(cx))?;
                        asked = lock(&self.schedule).leave(clock::now());
                    }
                    if let Err(promise) = asked {
                        self.wait_until(promise.time, Some(promise));
                        continue;
                    }
                    self.call = Call::MayLeave;
                    return Poll::Ready(Ok(()));
                }
                Call::MayLeave => return self.inner.poll_ready(cx),
            }
        }
    }

    /// # Panics
    /// If [`poll_ready`](Service::poll_ready) has not returned ready, as tower's own limits do.
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
    use std::sync::atomic::{AtomicU32, Ordering};

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

    const APART: Duration = Duration::from_nanos(INTERVAL.as_nanos() as u64 / 16 * 9);
    const STEP: Duration = Duration::from_nanos(INTERVAL.as_nanos() as u64 / 16 * 11);

    /// Calls delayed by a stall do not leave together, nor do all of them wake up for each that leaves.
    #[test]
    fn a_stall_is_made_up_in_steps() {
        let start = clock::now();
        let mut schedule = Schedule::new(INTERVAL, start);
        let places: Vec<Instant> = (0..8).map(|_| schedule.take_place(start)).collect();
        assert_eq!(places[7] - places[0], 7 * INTERVAL);
        let now = start + 20 * INTERVAL;
        assert!(schedule.ask(now, None).is_ok() && schedule.leave(now).is_ok());
        // Another thread asked before that one left, and comes now.
        assert_eq!(schedule.leave(now).unwrap_err().time, now + APART);
        let promises: Vec<Promise> = (1..8).map(|_| schedule.ask(now, None).unwrap_err()).collect();
        let due = |number: u32| now + APART + number * STEP;
        assert!((0..7_u32).all(|number| promises[number as usize].time == due(number)));
        // After a long idle time the next scheduled time is now.
        assert_eq!(schedule.take_place(start + 50 * INTERVAL), start + 50 * INTERVAL);
    }

    /// Calls keep their distance, and ask only a few times each, however late each is woken, and after
    /// another stall in between.
    #[test]
    fn calls_keep_their_distance_while_they_catch_up() {
        let mut random = softtimers_core::Random::stream(35, 0);
        for stall in [0, 3, 40] {
            let start = clock::now();
            let mut schedule = Schedule::new(INTERVAL, start);
            let mut waits: Vec<(Instant, Option<Promise>)> =
                (0..32).map(|_| (schedule.take_place(start), None)).collect();
            let (mut now, mut left, mut asked) = (start + 10 * INTERVAL, Vec::new(), 0);
            while let Some(next) = (0..waits.len()).min_by_key(|number| waits[*number].0) {
                let (time, promise) = waits.swap_remove(next);
                now = now.max(time + INTERVAL.mul_f64(random.next_u64() as f64 / u64::MAX as f64));
                if left.len() == 5 {
                    now = now.max(start + (20 + stall) * INTERVAL);
                }
                asked += 1;
                match schedule.ask(now, promise.as_ref()).and_then(|()| schedule.leave(now)) {
                    Ok(()) => left.push(now),
                    Err(promise) => waits.push((promise.time, Some(promise))),
                }
            }
            assert_eq!(left.len(), 32);
            assert!(left.windows(2).all(|two| two[1] - two[0] >= APART), "{left:?}");
            assert!(asked <= 7 * 32, "{asked}");
        }
    }

    /// A new rate counts from the next scheduled time on, not from the one after it.
    #[test]
    fn a_new_rate_counts_for_the_next_place() {
        let start = clock::now();
        let paced = paced();
        assert_eq!(lock(&paced.schedule).take_place(start), start);
        paced.set_rate(Rate::every(5 * INTERVAL).unwrap());
        assert_eq!(lock(&paced.schedule).take_place(start), start + 5 * INTERVAL);
        paced.set_rate(Rate::every(INTERVAL).unwrap());
        assert_eq!(lock(&paced.schedule).take_place(start), start + 6 * INTERVAL);
    }

    /// A faster rate holds at once: for the distance from the last call, and for the queue.
    #[test]
    fn a_faster_rate_waits_for_no_interval_of_the_slower_one() {
        let start = clock::now();
        let paced = PaceLayer::new(Rate::every(10_000 * INTERVAL).unwrap()).layer(Echo);
        let schedule = || lock(&paced.schedule);
        assert!(schedule().leave(start).is_ok());
        paced.set_rate(Rate::every(INTERVAL).unwrap());
        let now = start + 1_000 * INTERVAL;
        assert!(schedule().ask(now, None).is_ok());

        paced.set_rate(Rate::every(10_000 * INTERVAL).unwrap());
        let _waits = [(); 2].map(|()| schedule().ask(now, None).unwrap_err());
        paced.set_rate(Rate::every(INTERVAL).unwrap());
        assert_eq!(schedule().ask(now, None).unwrap_err().time, now + 2 * STEP);
    }

    /// Dropped calls do not delay others.
    #[test]
    fn the_line_is_no_longer_than_those_who_wait() {
        let start = clock::now();
        let mut schedule = Schedule::new(INTERVAL, start);
        assert!(schedule.leave(start).is_ok());
        let mut promises: Vec<Promise> = (0..1_000).map(|_| schedule.ask(start, None).unwrap_err()).collect();
        let now = start + APART;
        assert_eq!(schedule.ask(now, None).unwrap_err().time, now + 1_000 * STEP);
        promises.truncate(1);
        assert_eq!(schedule.ask(now, None).unwrap_err().time, now + STEP);
        promises.clear();
        assert!(schedule.ask(now, None).is_ok());
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

    /// A call counts as having left only once the inner service is ready.
    #[tokio::test]
    async fn a_call_leaves_when_the_service_inside_is_ready() {
        let inner = Limited { full: true, ..Limited::default() };
        let mut paced = PaceLayer::new(Rate::every(INTERVAL).unwrap()).layer(inner);
        for _ in 0..3 {
            // Its scheduled time has come: it only waits for the service.
            assert!(!is_ready(&mut paced).await);
            assert!(matches!(paced.call, Call::Waits { promise: None, .. }));
            assert_eq!(lock(&paced.schedule).left, None);
        }
        paced.get_mut().full = false;
        assert!(is_ready(&mut paced).await);
        assert!(lock(&paced.schedule).left.is_some());
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

    #[tokio::test]
    #[should_panic(expected = "poll_ready must be called first")]
    async fn a_call_without_a_place_is_refused() {
        drop(paced().call(1));
    }
}
