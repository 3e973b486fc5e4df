//! Timers for streams: [`IntervalStream`], and [`StreamExt`] with time-outs and a throttle, in microseconds.
//!
//! The names and rules are those of tokio-stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;
use softtimers_core::Slack;
use tokio::time::Instant;

use crate::clock;
use crate::interval::Interval;
use crate::timeout::Elapsed;
use crate::timer::Timer;

/// The ticks of an [`Interval`] as a stream, which does not end.
///
/// ```
/// use std::time::Duration;
/// use futures_util::StreamExt;
/// use softtimers_tokio::interval;
/// use softtimers_tokio::stream::IntervalStream;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let ticks = IntervalStream::new(interval(Duration::from_micros(200)));
/// let times: Vec<_> = ticks.take(3).collect().await;
/// assert_eq!(times[2] - times[0], Duration::from_micros(400));
/// # });
/// ```
#[derive(Debug)]
pub struct IntervalStream(Interval);

impl IntervalStream {
    /// Makes a stream of this interval's ticks.
    pub fn new(interval: Interval) -> Self {
        IntervalStream(interval)
    }

    /// Returns the interval.
    pub fn into_inner(self) -> Interval {
        self.0
    }
}

impl Stream for IntervalStream {
    type Item = Instant;

    #[track_caller]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.0.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

/// Time limits for the items of any stream.
///
/// ```
/// use std::time::Duration;
/// use futures_util::{StreamExt as _, stream};
/// use softtimers_tokio::stream::StreamExt;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let start = std::time::Instant::now();
/// let items: Vec<_> = stream::iter([1, 2, 3]).throttle(Duration::from_micros(300)).collect().await;
/// assert_eq!(items, [1, 2, 3]);
/// assert!(start.elapsed() >= Duration::from_micros(600));
///
/// let mut silent = Box::pin(stream::pending::<()>().timeout(Duration::from_micros(300)));
/// assert!(silent.next().await.unwrap().is_err());
/// # });
/// ```
pub trait StreamExt: Stream {
    /// Yields `Err` when no item comes for `duration`, once, and then waits for the next item again.
    #[track_caller]
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        let timer = Timer::new(clock::after(duration));
        Timeout { stream: self, timer, duration, runs: true }
    }

    /// Keeps items at least `duration` apart; the first one is not delayed.
    #[track_caller]
    fn throttle(self, duration: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        let timer = Timer::new(clock::now());
        Throttle { stream: self, timer, duration }
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}

pin_project! {
    /// Stream of [`StreamExt::timeout`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Timeout<S> {
        #[pin]
        stream: S,
        timer: Timer,
        duration: Duration,
        // Until it has been yielded that the time is over.
        runs: bool,
    }
}

impl<S> Timeout<S> {
    /// Sets this slack instead of [`Slack::DEFAULT`].
    pub fn with_slack(mut self, slack: Slack) -> Self {
        self.timer.set_slack(slack);
        self
    }
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    #[track_caller]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.timer.reset(clock::after(*this.duration));
                *this.runs = true;
            }
            return Poll::Ready(item.map(Ok));
        }
        if !*this.runs {
            return Poll::Pending;
        }
        ready!(this.timer.poll(cx));
        *this.runs = false;
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.stream.size_hint();
        // An error before each item, and one at the end.
        (least, most.and_then(|most| most.checked_mul(2)?.checked_add(1)))
    }
}

pin_project! {
    /// Stream of [`StreamExt::throttle`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Throttle<S> {
        #[pin]
        stream: S,
        timer: Timer,
        duration: Duration,
    }
}

impl<S> Throttle<S> {
    /// Sets this slack instead of [`Slack::DEFAULT`].
    pub fn with_slack(mut self, slack: Slack) -> Self {
        self.timer.set_slack(slack);
        self
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    #[track_caller]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        ready!(this.timer.poll(cx));
        let item = ready!(this.stream.poll_next(cx));
        if item.is_some() {
            this.timer.reset(clock::after(*this.duration));
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}
