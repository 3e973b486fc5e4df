//! [`VirtualTask`]: moves a test's paused clock from one of these timers to the next, to the nanosecond.
//!
//! tokio moves its paused clock in whole milliseconds, and only to its own timers. So this task takes the last stretch
//! before a deadline itself: it keeps tokio from moving the clock, waits until the runtime has nothing to do, and then
//! advances the clock to the deadline.
//!
//! ```text
//!   now ──────── whole milliseconds: tokio's own auto-advance ────────┬── the rest: this task ──▶ due
//!                other timers of tokio's come in between              │  nothing else is tokio's before `due`
//! ```
//!
//! The runtime has nothing to do when it parks. A byte in a socket pair is seen only when the runtime looks for events:
//! every so many polls, and when it parks; its count of parks tells these apart.

use std::future::{Future, poll_fn};
use std::io;
use std::mem::take;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use softtimers::shared::{Entry, Shared};
use softtimers_core::TriggerState;
use tokio::net::UnixStream;
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::runtimes;
use super::timers::{End, Timers, WOKEN_AT_ONCE};
use crate::clock;

/// Tells the task that a deadline has changed, or that a test waits until nothing is left to do.
#[derive(Debug, Default)]
pub(super) struct Bell(Mutex<Rope>);

#[derive(Debug, Default)]
struct Rope {
    rung: bool,
    task: Option<Waker>,
    /// Those who wait until the runtime has nothing to do.
    settling: Vec<oneshot::Sender<()>>,
}

impl Bell {
    pub(super) fn ring(&self) {
        let mut rope = self.lock();
        rope.rung = true;
        let task = take(&mut rope.task);
        drop(rope);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Returns once nothing is left to do at the present time.
    pub(super) async fn settled(&self) {
        let (done, settled) = oneshot::channel();
        self.lock().settling.push(done);
        self.ring();
        let _ = settled.await;
    }

    /// Returns whether it has been rung since the last time, otherwise the next ring wakes this task.
    fn poll_rung(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut rope = self.lock();
        if take(&mut rope.rung) {
            return Poll::Ready(());
        }
        rope.task = Some(cx.waker().clone());
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, Rope> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that serves the timers of a runtime whose clock is virtual.
#[derive(Debug)]
pub(super) struct VirtualTask {
    timers: Arc<Timers>,
    shared: Shared<Entry<Waker>>,
    metrics: RuntimeMetrics,
    /// A byte written to one is an event for the other.
    event: (UnixStream, UnixStream),
    /// While it is held, a blocking task keeps tokio from moving the clock.
    held: Option<mpsc::Sender<()>>,
}

impl VirtualTask {
    #[track_caller]
    pub(super) fn new(
        timers: Arc<Timers>,
        shared: Shared<Entry<Waker>>,
        handle: &Handle,
    ) -> io::Result<Self> {
        let event = UnixStream::pair()?;
        Ok(VirtualTask { timers, shared, metrics: handle.metrics(), event, held: None })
    }

    pub(super) async fn run(mut self) {
        loop {
            self.wake_due();
            let settling = self.bell(|bell| !bell.lock().settling.is_empty());
            if settling {
                if self.is_idle().await {
                    let settled = self.bell(|bell| take(&mut bell.lock().settling));
                    for done in settled {
                        let _ = done.send(());
                    }
                }
                continue;
            }
            let Some(due) = self.timers.next_due() else {
                self.held = None;
                self.rung().await;
                continue;
            };
            self.approach(clock::instant_of(due)).await;
        }
    }

    /// Waits, or moves the clock, until `due`; or less far, if something has changed.
    async fn approach(&mut self, due: Instant) {
        let left = due.saturating_duration_since(clock::now());
        if left.is_zero() {
            return tokio::task::yield_now().await;
        }
        if !clock::stands_still() {
            self.held = None;
            return self.rung_or(tokio::time::sleep_until(due)).await;
        }
        // The auto-advance takes whole milliseconds, at most one more than this.
        let whole = Duration::from_millis(left.as_millis() as u64);
        if whole >= MILLISECOND * 2 {
            self.held = None;
            let near = clock::now() + whole - MILLISECOND;
            return self.rung_or(tokio::time::sleep_until(near)).await;
        }
        let before = clock::now();
        if self.is_idle().await && clock::now() == before && clock::stands_still() {
            tokio::time::advance(left).await;
        }
    }

    /// Wakes the tasks whose timers are due.
    fn wake_due(&mut self) {
        let now = clock::timestamp();
        while let Some(turn) = self.shared.trigger(TriggerState::Backup, now) {
            if self.timers.wake_some(&turn, now) < WOKEN_AT_ONCE {
                break;
            }
        }
    }

    /// Returns true when the runtime has nothing to do, and false if a deadline has changed meanwhile.
    async fn is_idle(&mut self) -> bool {
        self.held.get_or_insert_with(|| {
            let (held, let_go) = mpsc::channel();
            tokio::task::spawn_blocking(move || let_go.recv());
            held
        });
        let mut parked = 0;
        // Twice: what woke it from the first may have woken other tasks, too.
        while parked < 2 {
            let parks = self.metrics.worker_park_count(0);
            let _ = self.event.0.try_write(&[0]);
            let rung = poll_fn(|cx| {
                if self.bell(|bell| bell.poll_rung(cx)).is_ready() {
                    return Poll::Ready(true);
                }
                self.event.1.poll_read_ready(cx).map(|_| false)
            });
            let rung = rung.await;
            while self.event.1.try_read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
            if rung {
                return false;
            }
            parked = if self.metrics.worker_park_count(0) > parks { parked + 1 } else { 0 };
        }
        true
    }

    async fn rung(&self) {
        poll_fn(|cx| self.bell(|bell| bell.poll_rung(cx))).await;
    }

    async fn rung_or(&self, other: impl Future<Output = ()>) {
        let mut other = pin!(other);
        poll_fn(|cx| match self.bell(|bell| bell.poll_rung(cx)) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => other.as_mut().poll(cx),
        })
        .await;
    }

    fn bell<R>(&self, ask: impl FnOnce(&Bell) -> R) -> R {
        ask(self.timers.bell().expect("timers on a virtual clock have one"))
    }
}

impl Drop for VirtualTask {
    fn drop(&mut self) {
        runtimes::forget(&self.timers);
        self.timers.end(End::ShutDown);
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);
