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
//! A flow is at most once in a turn, for its own datagrams stay a burst interval apart. Of all together a
//! [`TrainLimit`] makes trains, so that a stall of the loop is no burst of as many as there are flows.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use serde::Serialize;
use softtimers::signal_timer::Departure;
use softtimers::udp::{Retries, SendBatch};
use softtimers::{Clock, Monotonic, PaceConfig, PaceError, Pattern, Timestamp, TrainLimit, TriggerState};

use crate::args::Timer;
use crate::gaps::{GapReport, Gaps, Train};
use crate::plan::SendPlan;
use crate::wire::{Datagram, Token};

use super::order::{Due, Order};
use super::outlet::Outlet;
use super::tally::Tally;

/// The schedules of several flows, and an account of each.
#[derive(Debug)]
pub(super) struct Flows {
    order: Order,
    lanes: Vec<Lane>,
    /// What leaves next, or could not leave yet; `staged` says the same of it.
    batch: SendBatch,
    staged: VecDeque<Due>,
    packet: Vec<u8>,
    pace: PaceConfig,
    limit: TrainLimit,
    /// When the next would be due without that limit.
    ready: Timestamp,
    /// All flows together, as if they were one.
    gaps: Gaps,
    train: Train,
    latest: Timestamp,
}

/// One flow's account.
#[derive(Debug)]
struct Lane {
    start: Timestamp,
    /// Datagrams with a number so far.
    numbered: u64,
    sent: u64,
    train: Train,
}

/// How the datagrams that belong to each flow compare with those that it sent.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct ShareReport {
    /// Of the flow that had the least; `null` for one flow.
    pub min: Option<f64>,
    /// Of the flow that had the most; `null` for one flow.
    pub max: Option<f64>,
}

impl Flows {
    /// Flows that begin at `start`, or within an interval from there.
    pub(super) fn new(plan: &SendPlan, start: Timestamp) -> Result<Self, PaceError> {
        let (pace, interval) = (plan.pace, plan.pace.rate.interval());
        let mut order = match plan.timer {
            Timer::Soft => Order::queue(plan.size as u32),
            _ => Order::heap(),
        };
        let starts: Vec<Timestamp> =
            (0..plan.flows).map(|flow| start + plan.phase.offset(flow, plan.flows, pace.rate)).collect();
        for (flow, &start) in starts.iter().enumerate() {
            order.add(PaceConfig { pattern: own(pace.pattern, flow as u64), ..pace }, start)?;
        }
        let lane = |start| Lane { start, numbered: 0, sent: 0, train: Train::default() };
        Ok(Flows {
            order,
            lanes: starts.into_iter().map(lane).collect(),
            batch: SendBatch::new(MOST_IN_ONE_TURN, plan.size),
            staged: VecDeque::with_capacity(MOST_IN_ONE_TURN),
            packet: vec![0; plan.size],
            pace,
            limit: plan.train_limit(),
            ready: start,
            gaps: Gaps::new(Some(interval / plan.flows)),
            train: Train::default(),
            latest: start,
        })
    }

    /// How many there are.
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
        outlet: &mut Outlet,
        tally: &mut Tally,
        left: u64,
        now: Timestamp,
        source: TriggerState,
    ) -> io::Result<Timestamp> {
        if self.staged.is_empty() {
            self.stage(now, left)?;
        }
        let (taken, outcome) = outlet.transmit_batch(&mut self.batch, now);
        if taken > 0 {
            tally.turn();
            // The engine's clock is this one, or kept to it.
            self.limit.departed(now, now.max(Monotonic.now()), taken as u32);
            self.latest = now;
        }
        for Due { flow, place, due } in self.staged.drain(..taken) {
            let lane = &mut self.lanes[flow as usize];
            lane.sent += 1;
            tally.departed(&mut lane.train, Departure { sent: now, due, place }, source);
            self.gaps.record(&mut self.train, now);
        }
        outcome?;
        if self.staged.is_empty() {
            self.ready = self.order.next_due().unwrap_or(Timestamp::MAX);
            return Ok(self.ready.max(self.limit.earliest()));
        }
        let again = now + Retries::after(self.pace.shortest_gap());
        self.ready = again;
        self.staged.iter_mut().for_each(|staged| staged.due = again);
        Ok(again)
    }

    /// How much later than `due`, when the next may leave, it may be if it is to be no later than that
    /// after it is ready: what waits behind a full train has waited already.
    pub(super) fn slack_left(&self, due: Timestamp, slack: Duration) -> Duration {
        slack.saturating_sub(due.saturating_duration_since(self.ready))
    }

    /// Puts what is due into the batch.
    fn stage(&mut self, now: Timestamp, left: u64) -> io::Result<()> {
        let room = self.limit.room(now) as usize;
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(MOST_IN_ONE_TURN).min(room);
        let Flows { order, lanes, batch, staged, packet, pace, limit, .. } = self;
        let earliest = limit.earliest();
        let interval = pace.rate.interval();
        let mut pushed = Ok(());
        order.take(now, most, |due| {
            let lane = &mut lanes[due.flow as usize];
            let (flow, sequence, scheduled) = (due.flow, lane.numbered, due.place);
            Datagram::Data { flow, sequence, scheduled, interval }.write(packet);
            pushed = std::mem::replace(&mut pushed, Ok(())).and_then(|()| batch.push(packet, None));
            lane.numbered += 1;
            // Behind a full train it is not the loop that is late.
            staged.push_back(Due { due: due.due.max(earliest), ..due });
        })?;
        pushed.map_err(io::Error::other)
    }

    /// What a flow says at its end.
    pub(super) fn bye(&self, flow: u32, token: Option<Token>) -> Datagram {
        let sent = self.lanes.get(flow as usize).map_or(0, |lane| lane.sent);
        Datagram::Bye { flow, sent, token }
    }

    /// Places in the schedules that were given up.
    pub(super) fn forfeited(&self) -> u64 {
        self.order.forfeited()
    }

    /// Gaps and bursts of all flows together, judged by the interval that they have together.
    pub(super) fn gap_report(&self) -> GapReport {
        self.gaps.report()
    }

    /// What each flow sent, of what it should have by the time that the last datagram of all left.
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
