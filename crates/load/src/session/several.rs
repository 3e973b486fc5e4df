//! Several flows side by side from one socket, each at its own place in its own schedule.
//!
//! Their starts are spread over one interval, unless another phase is asked for. What is due when the engine
//! looks leaves in one turn, in one system call:
//!
//! ```text
//!   flow 0   ●           ●           ●           ●
//!   flow 1      ●           ●           ●           ●
//!   flow 2         ●           ●           ●           ●
//!   sent     ●  ●  ●     ●  ●  ●     ── busy ─●●●  ●  ●
//!                                             └ one turn, three flows
//! ```
//!
//! A flow is at most once in a turn, for its own datagrams stay a burst interval apart. With a quantum it is
//! there with several at once, which are alike, and so leave as one send that the kernel cuts. A single
//! flow with a quantum is a case of it, and so is one that is handed over ahead of its times: then what is due
//! at several times leaves by one call.
//!
//! All flows together share a [`TrainLimit`], so that a stall of the loop is no burst of as many packets as there are
//! flows.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use serde::Serialize;
use softtimers::{Clock, Monotonic};
use softtimers_core::{PaceConfig, PaceError, Pattern, Recovery, Timestamp, TriggerState};
use softtimers_linux::signal_timer::Departure;
use softtimers_net::udp::{Retries, SendBatch};

use crate::gaps::Train;
use crate::traffic::Traffic;
use crate::train::TrainLimit;

use super::ahead::HandOver;
use super::departures::Departures;
use super::header::Header;
use super::order::{Due, Order};
use super::sender::Sender;

/// The schedules of several flows, and an account of each.
#[derive(Debug)]
pub(super) struct Several {
    order: Order,
    lanes: Vec<Lane>,
    /// The datagram that leaves next, or could not leave yet; `staged` has the same with its time.
    batch: SendBatch,
    staged: VecDeque<(Due, Timestamp)>,
    /// With room in front of it for a frame's headers.
    packet: Vec<u8>,
    headroom: usize,
    header: Header,
    pace: PaceConfig,
    /// Places that are given up, as far as the datagrams that were due since have told.
    forfeited: u64,
    sent: u64,
    limit: TrainLimit,
    /// When the next would be due without that limit.
    ready: Timestamp,
    /// All flows together, as if they were one.
    train: Train,
    latest: Timestamp,
}

/// The account of one flow.
#[derive(Debug)]
struct Lane {
    start: Timestamp,
    /// Datagrams with a number so far.
    numbered: u64,
    sent: u64,
    forfeited: u64,
    train: Train,
}

/// The datagrams of each flow, as a share of those that its rate asks for.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct ShareReport {
    /// The share of the flow that had the least; `null` for one flow.
    pub min: Option<f64>,
    /// The share of the flow that had the most; `null` for one flow.
    pub max: Option<f64>,
}

impl Several {
    /// Flows that begin at `start`, or within an interval from there; in a [departure queue](Order::queue) if so asked.
    pub(super) fn new(
        traffic: &Traffic,
        queued: bool,
        header: Header,
        headroom: usize,
        start: Timestamp,
    ) -> Result<Self, PaceError> {
        let pace = traffic.pace;
        let mut order = match &traffic.trace {
            None if queued => Order::queue(traffic.size as u32, traffic.quantum),
            _ => Order::heap(traffic.quantum),
        };
        let mut batch = SendBatch::new(MOST_IN_ONE_TURN, headroom + traffic.size);
        // The kernel cuts what UDP sends, and no frames.
        batch.set_segmentation(traffic.gso && traffic.quantum > 1 && headroom == 0);
        let starts: Vec<Timestamp> = (0..traffic.flows)
            .map(|flow| start + traffic.phase.offset(flow, traffic.flows, pace.rate))
            .collect();
        for (flow, &start) in starts.iter().enumerate() {
            let pattern = own(pace.pattern, flow as u64);
            // Trains of all flows together are the limit's business.
            order.add(
                PaceConfig { pattern, recovery: Recovery::NONE, ..pace },
                traffic.trace.as_ref(),
                start,
            )?;
        }
        let lane = |start| Lane { start, numbered: 0, sent: 0, forfeited: 0, train: Train::default() };
        Ok(Several {
            order,
            lanes: starts.into_iter().map(lane).collect(),
            batch,
            staged: VecDeque::with_capacity(MOST_IN_ONE_TURN),
            packet: vec![0; headroom + traffic.size],
            headroom,
            header,
            pace,
            forfeited: 0,
            sent: 0,
            limit: traffic.train_limit(),
            ready: start,
            train: Train::default(),
            latest: start,
        })
    }

    pub(super) fn count(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// Sends what is due at `now`, of at most `left` datagrams, and returns when the next may leave. What the
    /// kernel has no room for is tried again a burst interval later, before anything else.
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
        // The engine's clock is this one, or kept to it.
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

    /// The time after `due`, when the next may leave, by which it may be late if it is to be no later than that after
    /// it is ready: what waits behind a full train has waited already.
    pub(super) fn slack_left(&self, due: Timestamp, slack: Duration) -> Duration {
        slack.saturating_sub(due.saturating_duration_since(self.ready))
    }

    /// Hands over what may be ahead of its time, of at most `left` datagrams; what the kernel had no room for
    /// comes first.
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
            let due = |flows: &Several| Some(flows.next_due()).filter(|_| flows.staged.len() as u64 != left);
            ahead.fill(now, due(self), |release| {
                let staged = self.stage(sender, release, left)?;
                Ok((staged, due(self)))
            })?;
        } else {
            // There may be more; the next look comes at once.
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

    /// Datagrams of all flows that have left.
    pub(super) fn all_sent(&self) -> u64 {
        self.sent
    }

    /// Datagrams of a flow that have left.
    pub(super) fn sent(&self, flow: u32) -> u64 {
        self.lanes.get(flow as usize).map_or(0, |lane| lane.sent)
    }

    /// Places in the schedules that were given up.
    pub(super) fn forfeited(&self) -> u64 {
        self.order.forfeited()
    }

    /// Returns the share that each flow sent of what it should have by the time that the last datagram of all left.
    pub(super) fn shares(&self) -> ShareReport {
        let per_second = self.pace.mean_rate().packets_per_second();
        let shares = self.lanes.iter().filter(|lane| lane.start <= self.latest).map(|lane| {
            let time = self.latest.saturating_duration_since(lane.start).as_secs_f64();
            // A whole number of intervals is not to be missed by a rounding.
            lane.sent as f64 / ((time * per_second + 1e-6).floor() + 1.0)
        });
        shares.fold(ShareReport::default(), |so_far, share| ShareReport {
            min: Some(so_far.min.map_or(share, |min| min.min(share))),
            max: Some(so_far.max.map_or(share, |max| max.max(share))),
        })
    }

    /// Puts what is due at `time` into the batch, as much as there is room for and `left` allows with what is
    /// in it already; how much that is.
    fn stage(&mut self, sender: &Sender, time: Timestamp, left: u64) -> io::Result<u32> {
        let before = self.staged.len();
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let most = left.min(MOST_IN_ONE_TURN).saturating_sub(before);
        let Several { order, lanes, batch, staged, packet, headroom, header, limit, forfeited, .. } = self;
        let earliest = limit.earliest();
        let mut pushed = Ok(());
        order.take(time, most, |due| {
            let lane = &mut lanes[due.flow as usize];
            header.data(due.flow, lane.numbered, due.place).write(&mut packet[*headroom..]);
            let length = due.length.map_or(packet.len(), |length| *headroom + usize::from(length));
            let packet = &mut packet[..length];
            pushed = std::mem::replace(&mut pushed, Ok(())).and_then(|()| sender.put(batch, packet, time));
            lane.numbered += 1;
            *forfeited += due.forfeited - std::mem::replace(&mut lane.forfeited, due.forfeited);
            // Behind a full train it is not the loop that is late.
            staged.push_back((Due { due: due.due.max(earliest), ..due }, time));
        })?;
        pushed.map_err(io::Error::other)?;
        Ok((self.staged.len() - before) as u32)
    }

    /// Sends what is in the batch at `now`; whether the kernel took all of it.
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
            let Several { staged, lanes, train, latest, .. } = self;
            departures.turn(told, source, |turn| {
                for (Due { flow, place, due, .. }, time) in staged.drain(..taken) {
                    let (lane, sent) = (&mut lanes[flow as usize], time.max(now));
                    lane.sent += 1;
                    turn.left(flow, &mut lane.train, Departure { sent, due, place });
                    turn.any_left(train, sent);
                    *latest = sent;
                }
            });
        }
        outcome.map(|()| self.staged.is_empty())
    }

    /// Returns when the next datagram may leave that is not in the batch; the end of time if there is none.
    fn next_due(&self) -> Timestamp {
        self.order.next_due().unwrap_or(Timestamp::MAX)
    }
}

/// Random flows must not be random in the same way. The first one is that of the seed itself.
fn own(pattern: Pattern, flow: u64) -> Pattern {
    match pattern {
        Pattern::Poisson { seed } => Pattern::Poisson { seed: seed.wrapping_add(flow) },
        other => other,
    }
}

/// As many as a system call makes cheap, and no more: beyond, the time of the turn is no longer that of its
/// last datagrams. What else is due leaves in the next turn, which follows at once.
const MOST_IN_ONE_TURN: usize = 64;
