//! [`Timeout`]: a future with a time limit.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use softtimers_core::Slack;
use tokio::task::coop;
use tokio::time::Instant;

use crate::sleep::{Sleep, sleep, sleep_until};

/// Waits for `future`, for at most `duration`.
///
/// As `tokio::time::timeout`: a future that is ready at the first poll is not timed out, however late that
/// is. If `duration` is 10 ms or more, neither is one that is ready at the second: the first poll does not
/// check the clock, so it does not detect that it blocked for longer. [`timeout_at`] detects it at once.
///
/// # Cost
/// As [`sleep`](fn@crate::sleep): a future that is ready at the first poll costs the clock and nothing else.
///
/// # Panics
/// As [`sleep`](fn@crate::sleep).
///
/// ```
/// use std::{future, time::Duration};
/// use softtimers_tokio::timeout;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let late = timeout(Duration::from_micros(200), future::pending::<()>()).await;
/// assert!(late.is_err());
/// assert_eq!(timeout(Duration::ZERO, async { 1 }).await, Ok(1));
/// # });
/// ```
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), sleep: sleep(duration) }
}

/// Waits for `future`, at most until `deadline`; as [`timeout`].
///
/// # Panics
/// As [`sleep`](fn@crate::sleep).
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), sleep: sleep_until(deadline) }
}

pin_project! {
    /// Future of [`timeout`] and [`timeout_at`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: Sleep,
    }
}

impl<F> Timeout<F> {
    /// Sets this slack instead of [`Slack::DEFAULT`].
    pub fn with_slack(mut self, slack: Slack) -> Self {
        self.sleep = self.sleep.with_slack(slack);
        self
    }

    /// Returns the future that is waited for.
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns the future that is waited for.
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the future that is waited for, without the time-out.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        let elapsed = if had_budget && !coop::has_budget_remaining() {
            // The future has used up the task's budget, and may do so each time; the time-out must still be
            // checked.
            pin!(coop::unconstrained(this.sleep)).poll(cx)
        } else {
            Pin::new(this.sleep).poll(cx)
        };
        elapsed.map(|()| Err(Elapsed(())))
    }
}

/// The time was over before the future was ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed(());

impl Elapsed {
    #[cfg(feature = "stream")]
    pub(crate) fn new() -> Self {
        Elapsed(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}
