//! Several flows side by side from one socket, each with its own schedule.
//!
//! Their starts are spread over one interval, unless another phase is requested. All datagrams due when the engine
//! checks leave in one turn, in one system call:
//!
//! ```text
//!   flow 0   ●           ●           ●           ●
//!   flow 1      ●           ●           ●           ●
//!   flow 2         ●           ●           ●           ●
//!   sent     ●  ●  ●     ●  ●  ●     ── busy ─●●●  ●  ●
//!                                             └ one turn, three flows
//! ```
//!
//! A flow is at most once in a turn, since its own datagrams stay a burst interval apart. With a quantum it has several
//! there at once, of equal length, which leave as one segmented send. A single flow with a quantum is a case of this,
//! and so is one that is handed over ahead of its times: then datagrams due at several times leave by one call.
//!
//! All flows share a [`TrainLimit`], so that a stall of the loop does not cause a burst of as many packets as there are
//! flows. Where departures are collected, the queue knows the slots; the pause behind a train that was late moves the next
//! one by what it lasts, not to the slot after.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_core::{PaceConfig, PaceError, Pattern, Recovery, Timestamp, TriggerState};
use softtimers_linux::signal_timer::Departure;
use softtimers_net::udp::{Retries, SendBatch};

use crate::gaps::Extremes;
use crate::traffic::Traffic;
use crate::train::TrainLimit;

use super::ahead::HandOver;
use super::departures::Departures;
use super::header::Header;
use super::order::{Due, Order};
use super::sender::Sender;

/// The schedules of several flows, and counts of each.
#[derive(Debug)]
pub(super) struct ManyFlows {
    order: Order,
    lanes: Vec<Lane>,
    /// The datagrams about to leave, or that could not leave yet; `staged` has the same with their times.
    batch: SendBatch,
    staged: VecDeque<(Due, Timestamp)>,
    /// With room in front for a frame's headers.
    packet: Vec<u8>,
    header: Header,
    pace: PaceConfig,
    /// Scheduled times skipped, as reported by the datagrams due since.
    forfeited: u64,
    sent: u64,
    limit: TrainLimit,
    /// When the next would be due without that limit.
    ready: Timestamp,
    latest: Timestamp,
}

/// The counts of one flow.
#[derive(Debug)]
struct Lane {
    start: Timestamp,
    /// Datagrams numbered so far.
    numbered: u64,
    sent: u64,
    forfeited: u64,
}

impl ManyFlows {
    /// Creates flows that begin at `start`, or within an interval from there; with a [departure queue](Order::queue) if
    /// asked.
    pub(super) fn new(
        traffic: &Traffic,
        queued: bool,
        header: Header,
        start: Timestamp,
    ) -> Result<Self, PaceError> {
        let pace = traffic.pace;
        let mut order = match &traffic.trace {
            None if queued => Order::queue(traffic.size as u32, traffic.quantum, traffic.slot),
            _ => Order::heap(traffic.quantum),
        };
        let mut batch = SendBatch::new(MOST_IN_ONE_TURN, traffic.size);
        batch.set_segmentation(traffic.gso && traffic.quantum > 1);
        let starts: Vec<Timestamp> = (0..traffic.flows)
            .map(|flow| start + traffic.phase.offset(flow, traffic.flows, pace.rate))
            .collect();
        for (flow, &start) in starts.iter().enumerate() {
            let pattern = own(pace.pattern, flow as u64);
            // The limit handles trains of all flows together.
            order.add(
                PaceConfig { pattern, recovery: Recovery::NONE, ..pace },
                traffic.trace.as_ref(),
                start,
            )?;
        }
        let lane = |start| Lane { start, numbered: 0, sent: 0, forfeited: 0 };
        Ok(ManyFlows {
            order,
            lanes: starts.into_iter().map(lane).collect(),
            batch,
            staged: VecDeque::with_capacity(MOST_IN_ONE_TURN),
            packet: vec![0; traffic.size],
            header,
            pace,
            forfeited: 0,
            sent: 0,
            limit: traffic.train_limit(),
            ready: start,
            latest: start,
        })
    }

    pub(super) fn count(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// Sends what is due at `now`, at most `left` datagrams, and returns when the next may leave. Datagrams that the
    /// kernel has no room for are tried again a burst interval later, before anything else.
    ///
    /// # Errors
    /// As for one flow.
    pub(super) fn depart(
        &mut self,
        sender: &mut Sender,
        departures: &mut Departures,
        left: u64,
        now: Timestamp,
        source: TriggerState,
    ) -> io::Result<Timestamp> {
        if self.staged.is_empty() {
            let room = u64::from(self.limit.room(now));
            self.stage(sender, now, left.min(room))?;
        }
        let before = self.staged.len();
        let flushed = self.flush(sender, departures, now, source);
        let taken = before - self.staged.len();
        // The engine's clock is this one, or kept in step with it.
        self.limit.departed(now, now.max(Monotonic.now()), taken as u32);
        if flushed? {
            self.ready = self.next_due();
            return Ok(self.ready.max(self.limit.earliest()));
        }
        let again = now + Retries::after(self.pace.shortest_gap());
        self.ready = again;
        self.staged.iter_mut().for_each(|(staged, _)| staged.due = again);
        Ok(again)
    }

    /// Returns how late after `due`, when the next may leave, it may be if it must be no later than `slack` after it is
    /// ready: a datagram behind a full train has already waited.
    pub(super) fn slack_left(&self, due: Timestamp, slack: Duration) -> Duration {
        slack.saturating_sub(due.saturating_duration_since(self.ready))
    }

    /// Hands over datagrams ahead of their times, at most `left`; those that the kernel had no room for come first.
    ///
    /// # Errors
    /// As for one flow.
    pub(super) fn hand_over(
        &mut self,
        ahead: &mut HandOver,
        sender: &mut Sender,
        departures: &mut Departures,
        left: u64,
        now: Timestamp,
        source: TriggerState,
    ) -> io::Result<()> {
        if self.staged.is_empty() {
            let due =
                |flows: &ManyFlows| Some(flows.next_due()).filter(|_| flows.staged.len() as u64 != left);
            ahead.fill(now, due(self), |release| {
                let staged = self.stage(sender, release, left)?;
                Ok((staged, due(self)))
            })?;
        } else {
            // There may be more; the next check follows at once.
            ahead.again(now);
        }
        if !self.flush(sender, departures, now, source)? {
            ahead.refused(now);
        }
        Ok(())
    }

    /// Says whether a recording is over, and all of it has left.
    pub(super) fn is_over(&self) -> bool {
        self.staged.is_empty() && self.next_due() == Timestamp::MAX
    }

    /// Returns the datagrams of all flows that have left.
    pub(super) fn all_sent(&self) -> u64 {
        self.sent
    }

    /// Returns the datagrams of a flow that have left.
    pub(super) fn sent(&self, flow: u32) -> u64 {
        self.lanes.get(flow as usize).map_or(0, |lane| lane.sent)
    }

    /// Returns the scheduled times that were skipped.
    pub(super) fn forfeited(&self) -> u64 {
        self.order.forfeited()
    }

    /// Returns each flow's datagrams as a share of those scheduled by the time that the last datagram of all left.
    pub(super) fn shares(&self) -> Extremes {
        let per_second = self.pace.mean_rate().packets_per_second();
        let shares = self.lanes.iter().filter(|lane| lane.start <= self.latest).map(|lane| {
            let time = self.latest.saturating_duration_since(lane.start).as_secs_f64();
            // Rounding must not turn a whole number of intervals into one less.
            lane.sent as f64 / ((time * per_second + 1e-6).floor() + 1.0)
        });
        shares.collect()
    }

    /// Adds the datagrams due at `time` to the batch, as far as there is room, and up to `left` including those already
    /// in it; returns their number.
    fn stage(&mut self, sender: &Sender, time: Timestamp, left: u64) -> io::Result<u32> {
        let before = self.staged.len();
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let most = left.min(MOST_IN_ONE_TURN).saturating_sub(before);
        let ManyFlows { order, lanes, batch, staged, packet, header, limit, forfeited, .. } = self;
        let earliest = limit.earliest();
        let mut pushed = Ok(());
        order.take(time, most, |due| {
            let lane = &mut lanes[due.flow as usize];
            header.data(due.flow, lane.numbered, due.place).write(packet);
            let length = due.length.map_or(packet.len(), usize::from);
            let packet = &packet[..length];
            pushed = std::mem::replace(&mut pushed, Ok(())).and_then(|()| sender.put(batch, packet, time));
            lane.numbered += 1;
            *forfeited += due.forfeited - std::mem::replace(&mut lane.forfeited, due.forfeited);
            // Behind a full train the loop is not to blame for the delay.
            staged.push_back((Due { due: due.due.max(earliest), ..due }, time));
        })?;
        pushed.map_err(io::Error::other)?;
        Ok((self.staged.len() - before) as u32)
    }

    /// Sends the batch at `now`; returns whether the kernel accepted all of it.
    fn flush(
        &mut self,
        sender: &mut Sender,
        departures: &mut Departures,
        now: Timestamp,
        source: TriggerState,
    ) -> io::Result<bool> {
        let (taken, outcome) = sender.transmit_batch(&mut self.batch, now);
        let told = (sender.take_calls(), self.forfeited);
        self.sent += taken as u64;
        if taken == 0 {
            departures.tell(told.0, told.1);
        } else {
            let ManyFlows { staged, lanes, latest, .. } = self;
            let left = staged.drain(..taken).map(|(Due { flow, place, due, .. }, time)| {
                let sent = time.max(now);
                lanes[flow as usize].sent += 1;
                *latest = sent;
                (flow, Departure { sent, due, place })
            });
            departures.record(told, source, left);
        }
        outcome.map(|()| self.staged.is_empty())
    }

    /// Returns when the next datagram after the batch may leave; the end of time if there is none.
    fn next_due(&self) -> Timestamp {
        self.order.next_due().unwrap_or(Timestamp::MAX)
    }
}

/// Gives each random flow its own seed. The first one has the run's.
fn own(pattern: Pattern, flow: u64) -> Pattern {
    match pattern {
        Pattern::Poisson { seed } => Pattern::Poisson { seed: seed.wrapping_add(flow) },
        other => other,
    }
}

/// Enough to make a system call cheap: with more, the turn's time would be too early for its last datagrams. Further
/// due datagrams leave in the next turn, which follows at once.
const MOST_IN_ONE_TURN: usize = 64;
