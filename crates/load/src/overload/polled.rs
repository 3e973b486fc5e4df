//! The stable receiver: a [`Poller`] with a quota, and feedback if there is a second stage. [`run`].

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use softtimers::{Clock, Monotonic, Timestamp, Token};
use softtimers_net::poller::{Device, Poller, UdpDevice};
use softtimers_net::udp::UdpSocket;
use softtimers_poll::{AnyPolicy, FeedbackConfig, Preset, SourceConfig, SourceId};

use super::beat::Beat;
use super::queue::{Queue, ROOM};
use super::quiet::Quiet;
use super::receiver::Stage;
use super::second::Item;
use super::stats::Stats;
use super::window::Busy;

/// Receives until the trial is over and no more datagrams come. Without a queue it filters and sends, too.
pub(crate) fn run(
    stage: &Stage<'_>,
    socket: UdpSocket,
    sink: SocketAddr,
    queue: Option<&Queue<Item>>,
) -> io::Result<Stats> {
    let plan = stage.plan;
    let mut poller: Poller<UdpDevice, AnyPolicy> = Poller::new()?;
    let device = UdpDevice::new(socket)?.with_timestamps()?;
    let config = SourceConfig::new(plan.looking.policy()).with_quota(plan.looking.quota());
    let source = poller.add(device, config)?;
    poller.limit_cpu(plan.cpu_limit.map(|share| plan.looking.limit(share)));
    poller.watch(&stage.stop, STOP)?;
    let marks = FeedbackConfig::preset(Preset::Measured, ROOM).map_err(io::Error::other)?;
    let attached = queue.map(|queue| poller.attach_queue(&queue.gauge, marks, &[source])).transpose()?;
    let mut receiver = FirstStage { stage, sink, queue, waiting: Vec::new(), stats: Stats::default() };
    let (mut busy, mut quiet) = (Busy::default(), Quiet::default());
    let _ = stage.ready.send(());
    let (mut beat, mut sent) = (Beat::new(Monotonic.now()), 0);
    let mut now = Monotonic.now();
    while !quiet.is_over(now, receiver.stats.received, waits(queue, &mut poller, source)) {
        let next = beat.fire(stage.window, now);
        let until = [next, quiet.until()].into_iter().flatten().min();
        poller.wait(until, |packet, outputs| {
            let item = Item::new(packet.bytes, packet.from, packet.arrived);
            receiver.take(&item, |payload, to| outputs.send(source, payload, Some(to)));
        })?;
        now = Monotonic.now();
        let left = poller.stats().sent;
        receiver.account(now, left - std::mem::replace(&mut sent, left));
        busy.look(stage.window, now);
        if poller.ready().contains(&STOP) {
            poller.unwatch(&stage.stop)?;
            // Draining the remainder is not part of the measurement, and could take many periods.
            receiver.stats.cpu_limited = poller.cpu_inhibited();
            poller.limit_cpu(None);
            quiet.begin(now, receiver.stats.received);
        }
    }
    let (drops, polling) = (poller.drops(source)?, poller.source_stats(source));
    let mut stats = receiver.stats;
    stats.cpu = busy.used();
    (stats.dropped.ring, stats.dropped.output) = (drops.ring, drops.output);
    stats.wakeups = poller.stats().sleeps;
    (stats.polls, stats.empty_polls) = (polling.looks, polling.empty_looks);
    stats.mode_switches = poller.policy(source).switches();
    stats.feedback = attached.map(|queue| poller.queue_stats(queue));
    stats.timer_share = beat.share(stage.window);
    Ok(stats)
}

/// The state that the handler works on.
struct FirstStage<'a, 'b> {
    stage: &'a Stage<'b>,
    sink: SocketAddr,
    queue: Option<&'a Queue<Item>>,
    /// This round's datagrams: for the queue, or to be counted.
    waiting: Vec<Item>,
    stats: Stats,
}

impl FirstStage<'_, '_> {
    #[inline]
    fn take(&mut self, item: &Item, send: impl FnOnce(&[u8], SocketAddr) -> bool) {
        if self.stats.received == 0 {
            // Now, not at the end of the turn: datagrams sent within it would count, but not the time that it took.
            self.stage.window.begin(item.arrived().unwrap_or_else(|| Monotonic.now()));
        }
        self.stats.received += 1;
        let keep = match self.queue {
            None => {
                let accepted = self.stage.filter.accepts(item.from(), item.payload());
                self.stats.dropped.rule += u64::from(!accepted);
                accepted && send(item.payload(), self.sink)
            }
            Some(queue) => {
                let admitted = queue.admits();
                self.stats.dropped.queue += u64::from(!admitted);
                admitted
            }
        };
        if keep {
            self.waiting.push(*item);
        }
    }

    /// After a round: queues the datagrams received, or counts the `sent` ones.
    fn account(&mut self, now: Timestamp, sent: u64) {
        let window = self.stage.window;
        window.received.store(self.stats.received, Ordering::Relaxed);
        match self.queue {
            Some(queue) if !self.waiting.is_empty() => queue.put(self.waiting.drain(..)),
            Some(_) => {}
            None => {
                let in_time = window.deliver(now, sent);
                let left = self.waiting.drain(..(sent as usize).min(self.waiting.len()));
                for arrived in left.filter_map(|item| item.arrived().filter(|_| in_time)) {
                    self.stats.latency.record_duration(now.saturating_duration_since(arrived));
                }
            }
        }
    }
}

/// Says whether datagrams wait to leave, or for the second stage: feedback may keep the input shut meanwhile.
fn waits(queue: Option<&Queue<Item>>, poller: &mut Poller<UdpDevice, AnyPolicy>, source: SourceId) -> bool {
    match queue {
        None => poller.device_mut(source).transmitter().waiting() > 0,
        Some(queue) => queue.gauge.depth() > 0,
    }
}

const STOP: Token = Token(0);
