//! [`Task`]: takes what is due and hands it to the kernel.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use softtimers_core::pace::queue::{DepartureQueue, Popped, QueueConfig};
use softtimers_core::{Slack, Timestamp};
use softtimers_net::udp::{self, SendBatch, SendOutcome, Stopped};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::coop;

use super::{Common, Datagram, Ending, MAX_PAYLOAD, SendError};
use crate::clock;
use crate::driver::Driver;
use crate::timer::Timer;

/// It ends when the sender does, or with its runtime, which drops it; nobody is left waiting for it.
pub(super) struct Task {
    common: Arc<Common>,
    /// For its readiness.
    socket: Arc<UdpSocket>,
    /// The same socket, for its batches.
    twin: udp::UdpSocket,
    batch: SendBatch,
    /// Those of the batch.
    offered: VecDeque<Datagram>,
    timer: Timer,
}

impl Task {
    pub(super) fn new(
        common: Arc<Common>,
        socket: Arc<UdpSocket>,
        twin: udp::UdpSocket,
        driver: &Driver,
    ) -> Self {
        let mut batch = SendBatch::new(AT_ONCE, MAX_PAYLOAD as usize);
        batch.set_segmentation(true);
        let mut timer = Timer::on(driver, clock::now());
        // The queue has its own.
        timer.set_slack(Slack::EXACT);
        Task { common, socket, twin, batch, offered: VecDeque::with_capacity(AT_ONCE), timer }
    }

    pub(super) async fn run(mut self) {
        while self.wait().await {
            self.take();
            if !self.send().await {
                break;
            }
            // Others have their turn, too.
            coop::consume_budget().await;
        }
    }

    /// Waits until something is due; `false` when the sender has ended.
    async fn wait(&mut self) -> bool {
        poll_fn(|cx| self.poll_due(cx)).await
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            let mut state = self.common.lock();
            state.sleeps = None;
            let at = state.queue.poll_at();
            match (state.ending, at) {
                (Ending::Now, _) | (Ending::WhenEmpty, None) => return Poll::Ready(false),
                (_, Some(at)) if at <= clock::timestamp() => return Poll::Ready(true),
                _ => {}
            }
            let until = at.unwrap_or(Timestamp::MAX);
            state.sleeps = Some((until, cx.waker().clone()));
            drop(state);
            if at.is_none() {
                return Poll::Pending;
            }
            self.timer.reset(clock::instant_of(until));
            if self.timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Fills the batch with what is due. The bytes are copied, and everybody is told, without the lock.
    fn take(&mut self) {
        let (mut expired, mut cancelled) = (Vec::new(), Vec::new());
        let mut state = self.common.lock();
        let turn = state.queue.turn(clock::timestamp());
        // Also of those that do not leave: how long the lock is held has a bound.
        for _ in 0..AT_ONCE {
            match state.queue.pop_due(&turn) {
                None => break,
                Some(Popped::Expired { token, .. }) => expired.push(token),
                Some(Popped::Departure(departure)) if departure.token.is_cancelled() => {
                    cancelled.push(departure.token);
                }
                Some(Popped::Departure(departure)) => self.offered.push_back(departure.token),
            }
        }
        state.stats.cancelled += cancelled.len() as u64;
        drop(state);
        for datagram in &self.offered {
            self.batch.push(&datagram.bytes, Some(datagram.to)).expect("room for all that is taken at once");
        }
        expired.into_iter().for_each(|datagram| datagram.finish(Err(SendError::Expired)));
    }

    /// Hands the batch to the kernel, however long that takes; `false` if the sender was closed meanwhile, or the runtime
    /// shuts down.
    async fn send(&mut self) -> bool {
        while !self.batch.is_empty() {
            if self.common.open().is_err() {
                return false;
            }
            let outcome = self.twin.send_batch(&mut self.batch);
            self.count(&outcome);
            self.offered.drain(..outcome.sent).for_each(|datagram| datagram.finish(Ok(())));
            match outcome.stopped {
                None => {}
                Some(Stopped::WouldBlock) if self.writable().await.is_err() => return false,
                Some(Stopped::WouldBlock) => {}
                Some(Stopped::NoBuffers) => crate::sleep(FULL_QUEUE).await,
                Some(Stopped::Error(error)) => {
                    self.batch.discard_first();
                    if let Some(datagram) = self.offered.pop_front() {
                        datagram.finish(Err(SendError::Io(error)));
                    }
                }
            }
        }
        true
    }

    fn count(&self, outcome: &SendOutcome) {
        let stats = &mut self.common.lock().stats;
        stats.sent += outcome.sent as u64;
        stats.calls += outcome.calls as u64;
        stats.segments += outcome.segments as u64;
        stats.failed += u64::from(matches!(outcome.stopped, Some(Stopped::Error(_))));
    }

    /// Waits until the socket has room, however often it was believed to have some.
    ///
    /// # Errors
    /// If the runtime is shutting down: from then on it would say so at once, again and again.
    async fn writable(&mut self) -> io::Result<()> {
        let mut first = true;
        // tokio believes a socket to be writable until somebody tells it otherwise.
        let told = self.socket.async_io(Interest::WRITABLE, || {
            if std::mem::take(&mut first) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        told.await
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // Nothing is queued from here on. What is has nobody to send it: who awaits it sees that it is gone.
        self.common.end(Ending::Now);
        let mut state = self.common.lock();
        let queued = std::mem::replace(&mut state.queue, DepartureQueue::new(QueueConfig::default()));
        state.ended = Some(queued.stats());
        drop(state);
        drop(queued);
    }
}

/// The most that leave before others have their turn.
const AT_ONCE: usize = 64;

/// A device's queue that is full has room again soon.
const FULL_QUEUE: Duration = Duration::from_micros(500);
