//! [`Task`]: waits for the one descriptor, and fires timers that no trigger state has fired.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};

use softtimers::shared::{Entry, Shared};
use softtimers_core::{Timestamp, TriggerState, Wait};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::runtimes;
use super::timers::{End, Timers, WOKEN_AT_ONCE};
use crate::clock;

/// The driver's task. It ends with its runtime, which drops it; its drop wakes all pending timers.
#[derive(Debug)]
pub(super) struct Task {
    timers: Arc<Timers>,
    descriptor: AsyncFd<Shared<Entry<Waker>>>,
}

impl Task {
    /// Creates the task; call it in the runtime.
    ///
    /// # Panics
    /// If the runtime does no I/O.
    #[track_caller]
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for descriptors that may be closed; `Shared` owns this one and closes it last"
    )]
    pub(super) fn new(timers: Arc<Timers>, shared: Shared<Entry<Waker>>) -> io::Result<Self> {
        let descriptor = AsyncFd::with_interest(shared, Interest::READABLE)?;
        Ok(Task { timers, descriptor })
    }

    pub(super) async fn run(mut self) {
        let end = match self.serve().await {
            Ok(end) => end,
            Err(error) => End::Failed(error),
        };
        self.timers.end(end);
    }

    async fn serve(&mut self) -> io::Result<End> {
        loop {
            match self.idle(clock::timestamp()) {
                Wait::Poll => tokio::task::yield_now().await,
                Wait::Until(wake) if !self.sleep(Some(wake)).await? => return Ok(End::ShutDown),
                Wait::Forever if !self.sleep(None).await? => return Ok(End::ShutDown),
                Wait::Until(_) | Wait::Forever => {}
            }
            if clock::was_paused() {
                return Ok(End::ClockPaused);
            }
            if self.wake_all().await > 0 {
                // Woken tasks may set their next timers before this task decides.
                behind_the_others().await;
            }
        }
    }

    /// Wakes due tasks, in portions, between which other tasks run. Returns how many were found.
    async fn wake_all(&mut self) -> usize {
        let mut found = 0;
        loop {
            let now = clock::timestamp();
            let Some(turn) = self.descriptor.get_mut().trigger(TriggerState::Backup, now) else { break };
            let portion = self.timers.wake_some(&turn, now);
            found += portion;
            if portion < WOKEN_AT_ONCE {
                break;
            }
            behind_the_others().await;
        }
        found
    }

    /// Decides what to do until the earliest deadline.
    fn idle(&self, now: Timestamp) -> Wait {
        let poll_at = self.timers.poll_at();
        self.timers.governor().wait(now, poll_at)
    }

    /// Sleeps until the descriptor is readable, at `wake` unless an earlier deadline is set meanwhile;
    /// returns `false` when the runtime has shut down.
    async fn sleep(&mut self, wake: Option<Timestamp>) -> io::Result<bool> {
        let shared = self.descriptor.get_mut();
        let lead = match (self.timers.poll_at(), wake) {
            (Some(deadline), Some(wake)) => deadline.saturating_duration_since(wake),
            _ => self.timers.governor().lead(),
        };
        // From here to the next trigger state, threads that schedule re-arm the descriptor.
        let armed = shared.arm_ahead(clock::timestamp(), lead)?;
        let Ok(mut ready) = self.descriptor.readable_mut().await else { return Ok(false) };
        ready.clear_ready();
        let expirations = self.descriptor.get_mut().expired()?;
        if let (Some(armed), 1..) = (armed, expirations) {
            let now = clock::timestamp();
            // Otherwise another thread has set an earlier one meanwhile.
            if now >= armed {
                self.timers.governor().woke(armed, now);
            }
        }
        Ok(true)
    }
}

/// Moves this task to the back of the run queue, from which another worker may take it: until it sleeps
/// again, nothing else serves the descriptor. A task that calls tokio's `yield_now` waits for its own worker,
/// however long that is busy.
async fn behind_the_others() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Drop for Task {
    fn drop(&mut self) {
        runtimes::forget(&self.timers);
        self.timers.end(End::ShutDown);
    }
}
