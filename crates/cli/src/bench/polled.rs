//! The receiver as it should be: a [`Poller`] with a quota, and feedback if there is a second stage. [`run`].

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use softtimers::poll::{CpuLimitConfig, FeedbackConfig, FeedbackStats, Preset, SourceConfig, SourceId};
use softtimers::{Clock, Monotonic, Timestamp, Token};
use softtimers_net::poller::{Device, Poller, UdpDevice};
use softtimers_net::udp::UdpSocket;

use super::beat::Beat;
use super::first::{Counts, Ended, Quiet};
use super::queue::{Queue, ROOM};
use super::second::{Found, Item};
use super::trial::Stage;
use super::window::Busy;
use crate::forward::mode::Looks;

/// Receives until the trial is over and nothing more comes. Without a queue it filters and sends, too.
pub(super) fn run(
    stage: &Stage<'_>,
    socket: UdpSocket,
    sink: SocketAddr,
    queue: Option<&Queue<Item>>,
) -> io::Result<(Ended, Found)> {
    let plan = stage.plan;
    let mut poller: Poller<UdpDevice, Looks> = Poller::new()?;
    let device = UdpDevice::new(socket)?.with_timestamps()?;
    let config = SourceConfig::new(plan.looking.policy()).with_quota(plan.looking.quota());
    let source = poller.add(device, config)?;
    poller.limit_cpu(plan.cpu_limit.map(CpuLimitConfig::new));
    poller.watch(&stage.stop, STOP)?;
    let marks = FeedbackConfig::preset(Preset::Measured, ROOM).map_err(io::Error::other)?;
    let attached = queue.map(|queue| poller.attach_queue(&queue.gauge, marks, &[source])).transpose()?;
    let mut receiver = Receiver {
        stage,
        source,
        sink,
        queue,
        waiting: Vec::new(),
        received: 0,
        refused: 0,
        rejected: 0,
        cpu_limited: 0,
    };
    let (mut found, mut busy, mut quiet) = (Found::new(), Busy::default(), Quiet::default());
    let (mut beat, mut sent) = (Beat::new(Monotonic.now()), 0);
    let mut now = Monotonic.now();
    while !quiet.is_over(now, receiver.received, waits(queue, &mut poller, source)) {
        let next = beat.fire(stage.window, now);
        let until = [next, quiet.until()].into_iter().flatten().min();
        poller.wait(until, |packet, outputs| {
            let item = Item::new(packet.bytes, packet.from, packet.arrived);
            receiver.take(&item, |payload, to| outputs.send(source, payload, Some(to)));
        })?;
        now = Monotonic.now();
        let left = poller.stats().sent;
        receiver.account(now, left - std::mem::replace(&mut sent, left), &mut found);
        busy.look(stage.window, now);
        if poller.ready().contains(&STOP) {
            poller.unwatch(&stage.stop)?;
            // What is left is not part of the measurement, and could take many periods.
            receiver.cpu_limited = poller.cpu_inhibited();
            poller.limit_cpu(None);
            quiet.begin(now, receiver.received);
        }
    }
    (found.used, found.rejected) = (busy.used(), receiver.rejected);
    let feedback = attached.map(|queue| poller.queue_stats(queue));
    ended(&mut poller, &receiver, feedback, &beat).map(|ended| (ended, found))
}

/// What the handler works on.
struct Receiver<'a, 'b> {
    stage: &'a Stage<'b>,
    source: SourceId,
    sink: SocketAddr,
    queue: Option<&'a Queue<Item>>,
    /// Of this round: for the queue, or to be accounted for.
    waiting: Vec<Item>,
    received: u64,
    /// By the queue.
    refused: u64,
    /// By the filter.
    rejected: u64,
    /// Periods in which the processor limit shut the input.
    cpu_limited: u64,
}

impl Receiver<'_, '_> {
    #[inline]
    fn take(&mut self, item: &Item, send: impl FnOnce(&[u8], SocketAddr) -> bool) {
        if self.received == 0 {
            // Not when its turn is over: what left in that would count, and not the time that it took.
            self.stage.window.begin(item.arrived().unwrap_or_else(|| Monotonic.now()));
        }
        self.received += 1;
        let keep = match self.queue {
            None => {
                let accepted = self.stage.filter.accepts(item.from(), item.payload());
                self.rejected += u64::from(!accepted);
                accepted && send(item.payload(), self.sink)
            }
            Some(queue) => {
                let admitted = queue.admits();
                self.refused += u64::from(!admitted);
                admitted
            }
        };
        if keep {
            self.waiting.push(*item);
        }
    }

    /// After a round: what was received goes to the queue, or `sent` of it have left.
    fn account(&mut self, now: Timestamp, sent: u64, found: &mut Found) {
        let window = self.stage.window;
        window.received.store(self.received, Ordering::Relaxed);
        match self.queue {
            Some(queue) if !self.waiting.is_empty() => queue.put(self.waiting.drain(..)),
            Some(_) => {}
            None => {
                let in_time = window.deliver(now, sent);
                let left = self.waiting.drain(..(sent as usize).min(self.waiting.len()));
                for arrived in left.filter_map(|item| item.arrived().filter(|_| in_time)) {
                    found.latency.record_duration(now.saturating_duration_since(arrived));
                }
            }
        }
    }
}

/// Whether something waits to leave, or for the second stage: feedback may keep input shut meanwhile.
fn waits(queue: Option<&Queue<Item>>, poller: &mut Poller<UdpDevice, Looks>, source: SourceId) -> bool {
    match queue {
        None => poller.device_mut(source).transmitter().waiting() > 0,
        Some(queue) => queue.gauge.depth() > 0,
    }
}

fn ended(
    poller: &mut Poller<UdpDevice, Looks>,
    receiver: &Receiver<'_, '_>,
    feedback: Option<FeedbackStats>,
    beat: &Beat,
) -> io::Result<Ended> {
    let source = receiver.source;
    let drops = poller.drops(source)?;
    let stats = poller.source_stats(source);
    Ok(Ended {
        counts: Counts {
            received: receiver.received,
            ring: drops.ring,
            queue: receiver.refused,
            output: drops.output,
            wakeups: poller.stats().sleeps,
            polls: stats.looks,
            empty_polls: stats.empty_looks,
            mode_switches: poller.policy(source).switches(),
            cpu_limited: receiver.cpu_limited,
            feedback,
        },
        timer_share: beat.share(receiver.stage.window),
    })
}

const STOP: Token = Token(0);
