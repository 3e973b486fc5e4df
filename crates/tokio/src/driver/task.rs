//! [`Task`]: fires timers that no trigger state has fired, by an [`Expiry`] that the runtime calls where it takes events from
//! the kernel.
//!
//! ```text
//!   epoll_wait ─▶ descriptor readable ─▶ Expiry: wakes due tasks, arms the descriptor ─▶ they run      no task in between
//!                                          │ many are due, or the deadline is to be polled for
//!                                          └─▶ Task: portions, between which others run; polls by yielding
//! ```
//!
//! A task that waited for the descriptor would run behind others, and each expiry would cost its wake-up, its poll and a
//! read of the descriptor. The runtime watches for edges, and setting the timer again clears it, so nothing has to be read.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use softtimers::shared::{Entry, Shared};
use softtimers_core::{Timestamp, TriggerState, Wait};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::runtimes;
use super::timers::{End, Timers, WOKEN_AT_ONCE};
use crate::clock;

/// The driver's task. It ends with its runtime, which drops it; its drop wakes all pending timers.
#[derive(Debug)]
pub(super) struct Task {
    timers: Arc<Timers>,
    expiry: Arc<Expiry>,
}

/// The waker of the descriptor.
#[derive(Debug)]
struct Expiry {
    timers: Arc<Timers>,
    /// `None` once the runtime has dropped the task: the runtime's registration keeps this, and this the registration.
    descriptor: Mutex<Option<AsyncFd<Shared<Entry<Waker>>>>>,
    /// Tells the task that it has something to do.
    call: Notify,
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
        let descriptor = Mutex::new(Some(AsyncFd::with_interest(shared, Interest::READABLE)?));
        let expiry = Arc::new(Expiry { timers: timers.clone(), descriptor, call: Notify::new() });
        Ok(Task { timers, expiry })
    }

    pub(super) async fn run(self) {
        let end = match self.serve().await {
            Ok(end) => end,
            Err(error) => End::Failed(error),
        };
        self.timers.end(end);
    }

    async fn serve(&self) -> io::Result<End> {
        loop {
            // First: what it forgets is found below.
            let watched = tokio::task::unconstrained(poll_fn(|_| Poll::Ready(self.expiry.watch()))).await;
            if !watched {
                return Ok(End::ShutDown);
            }
            if clock::was_paused() {
                return Ok(End::ClockPaused);
            }
            if self.wake_all().await > 0 {
                // Woken tasks may set their next timers before this task decides.
                behind_the_others().await;
            }
            match self.timers.idle(clock::timestamp()) {
                None => tokio::task::yield_now().await,
                Some(lead) => {
                    self.expiry.arm(lead)?;
                    self.expiry.call.notified().await;
                }
            }
        }
    }

    /// Wakes due tasks, in portions, between which other tasks run. Returns how many were found.
    async fn wake_all(&self) -> usize {
        let mut found = 0;
        loop {
            let portion = self.expiry.wake_some(clock::timestamp());
            found += portion;
            if portion < WOKEN_AT_ONCE {
                break;
            }
            behind_the_others().await;
        }
        found
    }
}

impl Expiry {
    fn lock(&self) -> MutexGuard<'_, Option<AsyncFd<Shared<Entry<Waker>>>>> {
        self.descriptor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the runtime call this at the next edge. Returns false if the runtime shuts down.
    fn watch(self: &Arc<Self>) -> bool {
        let waker = Waker::from(self.clone());
        let mut cx = Context::from_waker(&waker);
        let mut descriptor = self.lock();
        let Some(descriptor) = &mut *descriptor else { return false };
        loop {
            match descriptor.poll_read_ready(&mut cx) {
                Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                Poll::Ready(Err(_)) => return false,
                Poll::Pending => return true,
            }
        }
    }

    /// Begins a turn of the backup, and wakes its tasks without the lock, up to [`WOKEN_AT_ONCE`]; returns how many were found.
    fn wake_some(&self, now: Timestamp) -> usize {
        let turn = self.lock().as_mut().and_then(|shared| {
            let shared = shared.get_mut();
            if let Some(armed) = shared.went_off(now) {
                self.timers.governor().woke(armed, now);
            }
            shared.trigger(TriggerState::Backup, now)
        });
        turn.map_or(0, |turn| self.timers.wake_some(&turn, now))
    }

    /// Arms the descriptor, `lead` before a deadline without slack, also one that is set from now on.
    fn arm(&self, lead: Duration) -> io::Result<()> {
        let mut descriptor = self.lock();
        let Some(descriptor) = &mut *descriptor else { return Ok(()) };
        descriptor.get_mut().arm_ahead(clock::timestamp(), lead).map(drop)
    }
}

impl Wake for Expiry {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Called in the runtime's I/O driver.
    fn wake_by_ref(self: &Arc<Self>) {
        let done = self.watch() && !clock::was_paused() && self.wake_some(clock::timestamp()) < WOKEN_AT_ONCE;
        let lead = if done { self.timers.idle(clock::timestamp()) } else { None };
        // An error is met again by the task.
        if lead.is_none_or(|lead| self.arm(lead).is_err()) {
            self.call.notify_one();
        }
    }
}

impl Timers {
    /// Decides whether to poll until the earliest deadline, or to sleep with which lead.
    fn idle(&self, now: Timestamp) -> Option<Duration> {
        let poll_at = self.poll_at();
        let slack = self.slack_left(self.governor().lead());
        let mut governor = self.governor();
        match (governor.wait_within(now, poll_at, slack), poll_at) {
            (Wait::Poll, _) => None,
            // Without budget it is no more than the slack.
            (Wait::Until(wake), Some(deadline)) => Some((deadline + slack).saturating_duration_since(wake)),
            _ => Some(governor.lead()),
        }
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
        // The runtime's registration and this keep each other.
        let descriptor = self.expiry.lock().take();
        drop(descriptor);
        self.timers.end(End::ShutDown);
    }
}
