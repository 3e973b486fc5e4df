//! [`Task`]: waits for the one descriptor, and serves what no trigger state has met.

use std::io;
use std::sync::Arc;
use std::task::Waker;

use softtimers::shared::Shared;
use softtimers_core::TriggerState;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::registry;
use super::timers::{AT_ONCE, End, Timers};
use crate::clock;

/// It ends with its runtime, which drops it; whatever the reason, nothing is left waiting for it.
#[derive(Debug)]
pub(super) struct Task {
    timers: Arc<Timers>,
    descriptor: AsyncFd<Shared<Waker>>,
}

impl Task {
    /// Has to be called in the runtime.
    ///
    /// # Panics
    /// If the runtime does no I/O.
    #[track_caller]
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for descriptors that may be closed; `Shared` owns this one and closes it last"
    )]
    pub(super) fn new(timers: Arc<Timers>, shared: Shared<Waker>) -> Self {
        let descriptor = AsyncFd::with_interest(shared, Interest::READABLE);
        let descriptor =
            descriptor.unwrap_or_else(|error| panic!("the runtime cannot watch a timerfd: {error}"));
        Task { timers, descriptor }
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
            // From here to the next trigger state, those who schedule see to the descriptor.
            self.descriptor.get_mut().arm(clock::timestamp())?;
            let Ok(mut ready) = self.descriptor.readable_mut().await else { return Ok(End::ShutDown) };
            ready.clear_ready();
            self.descriptor.get_mut().expired()?;
            if clock::was_paused() {
                return Ok(End::ClockPaused);
            }
            while let Some(turn) = self.descriptor.get_mut().trigger(TriggerState::Backup, clock::timestamp())
            {
                if self.timers.wake_some(&turn) < AT_ONCE {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        registry::forget(&self.timers);
        self.timers.end(End::ShutDown);
    }
}
