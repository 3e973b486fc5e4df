//! [`Wrapped`]: every poll of a task is a trigger state.
//!
//! A busy runtime polls its descriptors only rarely: tokio after 61 polls. With wrapped tasks, timers due in
//! between fire at the end of each poll, for the cost of a clock read.
//!
//! ```text
//!   wrapped:   poll ▪ poll ▪ poll ▪ poll ▪      ▪ trigger: timers due during the poll are woken here
//!   not:       poll   poll   poll   poll … (61) … epoll: the timerfd is seen
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use softtimers_core::TriggerState;
use tokio::task::JoinHandle;

use crate::driver::Driver;

/// Makes the end of each poll of `future` a trigger state.
///
/// Wrap tasks that are polled often: the task of each connection, rather than the one that waits for the
/// timers.
///
/// # Cost
/// At each poll, the clock, one load and one compare while nothing is due. Otherwise that of the wake-ups,
/// see [`Driver::trigger`].
///
/// ```
/// use softtimers_tokio::wrap;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let task = tokio::spawn(wrap(async { 6 * 7 }));
/// assert_eq!(task.await.unwrap(), 42);
/// # });
/// ```
pub fn wrap<F: Future>(future: F) -> Wrapped<F> {
    Wrapped { future, driver: None }
}

/// Spawns a wrapped future: `tokio::spawn(wrap(future))`.
///
/// # Panics
/// As `tokio::spawn`.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(wrap(future))
}

pin_project! {
    /// The future that [`wrap`] returns; each poll of it is a trigger state.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Wrapped<F> {
        #[pin]
        future: F,
        // Looked up at the first poll: the future may be made before its runtime.
        driver: Option<Driver>,
    }
}

impl<F: Future> Future for Wrapped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let polled = this.future.poll(cx);
        this.driver.get_or_insert_with(Driver::current).trigger(TriggerState::HandlerExit);
        polled
    }
}
