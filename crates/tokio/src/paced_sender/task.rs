//! [`Task`]: takes due datagrams and hands them to the kernel.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use softtimers_core::queue::{DepartureQueue, Popped, QueueConfig};
use softtimers_core::{Slack, Timestamp};
use softtimers_net::udp::{self, Segmentation, SendBatch, SendOutcome, Stopped};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::coop;

use super::{Common, Datagram, Ending, MAX_PAYLOAD, SendError};
use crate::clock;
use crate::driver::Driver;
use crate::timer::Timer;

/// The sender's task. It ends when the sender does, or with its runtime, which drops it; no future is left
/// waiting then.
pub(super) struct Task {
    common: Arc<Common>,
    /// For its readiness.
    socket: Arc<UdpSocket>,
    /// The same socket, for its batches.
    twin: udp::UdpSocket,
    batch: SendBatch,
    /// When segments are tried again, if they were refused.
    segments_again: Option<Timestamp>,
    /// The datagrams of the batch.
    offered: VecDeque<Datagram>,
    timer: Timer,
}

impl Task {
    pub(super) fn new(
        common: Arc<Common>,
        socket: Arc<UdpSocket>,
        twin: udp::UdpSocket,
        (driver, slack): (&Driver, Duration),
    ) -> Self {
        let mut batch = SendBatch::new(MOST_OFFERED, MAX_PAYLOAD as usize);
        batch.set_segmentation(true);
        let mut timer = Timer::on(driver, clock::now());
        // The timer has it, not its deadline: a wake-up's lead is taken off exact deadlines only.
        timer.set_slack(Slack::within(slack));
        let offered = VecDeque::with_capacity(MOST_OFFERED);
        Task { common, socket, twin, batch, segments_again: None, offered, timer }
    }

    pub(super) async fn run(mut self) {
        while self.wait().await {
            let more = self.take();
            self.allow_segments(clock::timestamp());
            if !self.send().await {
                break;
            }
            // Let other tasks run, too.
            if more { tokio::task::yield_now().await } else { coop::consume_budget().await }
        }
    }

    /// Waits until something is due; returns `false` when the sender has ended.
    async fn wait(&mut self) -> bool {
        poll_fn(|cx| self.poll_due(cx)).await
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            let mut state = self.common.lock();
            state.sleeps = None;
            let due = state.queue.next_due();
            match (state.ending, due) {
                (Ending::Now, _) | (Ending::WhenEmpty, None) => return Poll::Ready(false),
                (_, Some(due)) if due <= clock::timestamp() => return Poll::Ready(true),
                _ => {}
            }
            let until = due.unwrap_or(Timestamp::MAX);
            state.sleeps = Some((until, cx.waker().clone()));
            drop(state);
            if due.is_none() {
                return Poll::Pending;
            }
            self.timer.reset(clock::instant_of(until));
            if self.timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Fills the batch with due datagrams; returns whether there may be more. Copies the bytes and notifies
    /// the waiting tasks without the lock.
    fn take(&mut self) -> bool {
        let (mut expired, mut cancelled) = (Vec::new(), Vec::new());
        let mut state = self.common.lock();
        let turn = state.queue.turn(clock::timestamp());
        let mut taken = 0;
        // Counts also those that do not leave, to bound how long the lock is held.
        while taken < MOST_OFFERED {
            match state.queue.pop_due(&turn) {
                None => break,
                Some(Popped::Expired { token, .. }) => expired.push(token),
                Some(Popped::Departure(departure)) if departure.token.is_cancelled() => {
                    cancelled.push(departure.token);
                }
                Some(Popped::Departure(departure)) => self.offered.push_back(departure.token),
            }
            taken += 1;
        }
        state.stats.cancelled += cancelled.len() as u64;
        drop(state);
        for datagram in &self.offered {
            self.batch.push(&datagram.bytes, Some(datagram.to)).expect("room for all that is taken at once");
        }
        expired.into_iter().for_each(|datagram| datagram.finish(Err(SendError::Expired)));
        taken == MOST_OFFERED
    }

    /// Tries segments again after a while: a refusal by one path must not disable them for good.
    fn allow_segments(&mut self, now: Timestamp) {
        if !matches!(self.batch.segmentation(), Segmentation::Refused(_)) {
            return;
        }
        match self.segments_again {
            None => self.segments_again = Some(now + SEGMENTS_AGAIN),
            Some(again) if now >= again => {
                self.batch.set_segmentation(true);
                self.segments_again = None;
            }
            Some(_) => {}
        }
    }

    /// Hands the batch to the kernel, however long that takes; returns `false` if the sender was closed
    /// meanwhile, or the runtime shuts down.
    async fn send(&mut self) -> bool {
        while !self.batch.is_empty() {
            if self.common.open().is_err() {
                return false;
            }
            let Some(outcome) = self.offer().await else { return false };
            self.common.count(&outcome);
            self.offered.drain(..outcome.sent).for_each(|datagram| datagram.finish(Ok(())));
            match outcome.stopped {
                None => {}
                Some(Stopped::WouldBlock) if outcome.sent > 0 => {}
                Some(Stopped::WouldBlock | Stopped::NoBuffers) => crate::sleep(FULL_QUEUE).await,
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

    /// Offers the batch once the socket has room, which tokio assumes until a send fails. So the send is made
    /// where tokio sees its result: it then does not miss room that appears in between. `None` if the sender
    /// was closed meanwhile, or the runtime shuts down.
    async fn offer(&mut self) -> Option<SendOutcome> {
        let Task { common, socket, twin, batch, .. } = self;
        let mut refused = 0;
        let mut sending = pin!(socket.async_io(Interest::WRITABLE, || {
            let outcome = twin.send_batch(batch);
            let full = outcome.sent == 0 && matches!(outcome.stopped, Some(Stopped::WouldBlock));
            refused += usize::from(full);
            // After an ICMP error tokio considers the socket closed, and so writable for good.
            if !full || refused == MOST_REFUSED_SENDS {
                return Ok(outcome);
            }
            common.count(&outcome);
            Err(io::ErrorKind::WouldBlock.into())
        }));
        poll_fn(|cx| {
            if let Poll::Ready(outcome) = sending.as_mut().poll(cx) {
                return Poll::Ready(outcome.ok());
            }
            let mut state = common.lock();
            if state.ending == Ending::Now {
                return Poll::Ready(None);
            }
            // Time zero: only the sender's end wakes it, not a queued datagram.
            state.sleeps = Some((Timestamp::ZERO, cx.waker().clone()));
            Poll::Pending
        })
        .await
    }
}

impl Common {
    fn count(&self, outcome: &SendOutcome) {
        let stats = &mut self.lock().stats;
        stats.sent += outcome.sent as u64;
        stats.calls += outcome.calls as u64;
        stats.segments += outcome.segments as u64;
        stats.failed += u64::from(matches!(outcome.stopped, Some(Stopped::Error(_))));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // No datagram is queued from here on, and queued ones are not sent: their futures return an error.
        self.common.end(Ending::Now);
        let mut state = self.common.lock();
        let queued = std::mem::replace(&mut state.queue, DepartureQueue::new(QueueConfig::default()));
        state.ended = Some(queued.stats());
        state.stats.unsent += self.offered.len() as u64;
        drop(state);
        drop(queued);
    }
}

/// The most datagrams that leave before other tasks run.
const MOST_OFFERED: usize = 64;

/// The sends that may fail on a socket that tokio considers writable, before the task sleeps instead.
const MOST_REFUSED_SENDS: usize = 3;

/// The path may have changed by then.
const SEGMENTS_AGAIN: Duration = Duration::from_secs(5);

/// A device's full queue soon has room again.
const FULL_QUEUE: Duration = Duration::from_micros(500);

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use softtimers_core::{PaceConfig, Rate};

    use super::super::{FlowConfig, PacedSender};
    use super::*;

    /// Otherwise a lead as long as the slack would end each sleep for its first datagram.
    #[tokio::test]
    async fn a_wake_up_has_no_lead_where_there_is_slack() {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let config = QueueConfig { slack: Duration::from_millis(5), ..QueueConfig::default() };
        let sender = PacedSender::with_config(&socket, config).unwrap();
        let hourly = PaceConfig::new(Rate::every(Duration::from_secs(3_600)).unwrap());
        let flow = sender.add(socket.local_addr().unwrap(), FlowConfig::new(hourly)).unwrap();
        for datagram in [b"now", b"1 h"] {
            sender.queue(&flow, datagram).unwrap();
        }
        while sender.stats().sent == 0 || sender.0.0.lock().sleeps.is_none() {
            tokio::task::yield_now().await;
        }
        let timers = Driver::current().into_timers().unwrap();
        let lead = Duration::from_micros(20);
        assert_eq!(timers.slack_left(lead), lead);
    }
}
