//! The part of a flow that few packets touch: its clock, its limits and its counters.

use alloc::boxed::Box;
use core::time::Duration;

use super::super::lane::Lane;
use super::account::{FlowStats, Reject};
use super::config::{FlowConfig, Limits, Quantum};
use super::hot::Hot;
use super::packets::Fifo;
use crate::{PaceError, Rate, RateClock, Timestamp};

/// A flow that is plain, even and one at a time, leaves this alone while it is on schedule and has one packet waiting:
/// its [`Lane`] is open then. The counts are those of the clock, and of the lane since it was opened.
///
/// Counts that follow from others are not kept: the enqueued packets are those that left or wait, and the
/// sent ones are the clock's departures.
#[derive(Debug)]
pub(super) struct Flow {
    /// The packets behind the first.
    pub(super) behind: Fifo,
    clock: RateClock,
    sent_bytes: u64,
    pub(super) refused: u64,
    pub(super) expired: u64,
    /// `None` for most flows: those that send one packet at a time and limit only the number of packets.
    terms: Option<Box<Terms>>,
    /// The most packets that may wait.
    room: u32,
    /// The quantum at the rate, in packets and in bytes.
    most_packets: u32,
    most_bytes: u32,
}

/// The settings of a flow, beside its pace.
#[derive(Clone, Copy, Debug)]
struct Terms {
    quantum: Quantum,
    limits: Limits,
    /// The latest `not_before` of the waiting packets, which holds up those behind it; kept where the delay
    /// is limited.
    held_until: Timestamp,
}

impl Flow {
    pub(super) fn new(config: FlowConfig) -> Result<Self, PaceError> {
        let FlowConfig { pace, quantum, limits } = config;
        let (most_packets, most_bytes) = quantum.at(pace.rate, pace.counts);
        let usual =
            quantum == Quantum::ONE && limits == Limits { packets: limits.packets, ..Limits::default() };
        let terms = Terms { quantum, limits, held_until: Timestamp::ZERO };
        Ok(Flow {
            behind: Fifo::EMPTY,
            clock: RateClock::new(pace)?,
            sent_bytes: 0,
            refused: 0,
            expired: 0,
            terms: (!usual).then(|| Box::new(terms)),
            room: limits.packets,
            most_packets,
            most_bytes,
        })
    }

    /// Returns the lane of a flow whose next packet may leave at `release`, and whose last lane has been
    /// [settled](Self::settle).
    pub(super) fn lane(&self, release: Timestamp) -> Lane {
        self.clock.lane(release, self.terms.is_none() && self.room > 0)
    }

    /// Takes over the departures of the lane. Replace the lane by another one afterwards.
    fn settle(&mut self, lane: &Lane) {
        self.clock.settle(lane);
        self.sent_bytes += u64::from(lane.bytes);
    }

    /// Counts one more waiting packet, if the limits allow it.
    pub(super) fn admit<T>(
        &mut self,
        hot: &Hot<T>,
        now: Timestamp,
        ready: Timestamp,
        bytes: u32,
    ) -> Result<(), Reject> {
        let (packets, waiting_bytes) = self.waiting(hot);
        if packets >= self.room {
            return Err(Reject::FlowFull);
        }
        let Some(Terms { limits, held_until, .. }) = self.terms.as_deref_mut() else { return Ok(()) };
        if waiting_bytes.saturating_add(u64::from(bytes)) > limits.bytes {
            return Err(Reject::FlowFull);
        }
        if limits.delay == Duration::MAX {
            return Ok(());
        }
        let ahead = self.clock.time_of(packets, waiting_bytes);
        // Packets that have left did so after their `not_before`: only waiting ones can hold this one up.
        let leaves = (hot.lane.release().max(now) + ahead).max(*held_until);
        if leaves.saturating_duration_since(ready) > limits.delay {
            return Err(Reject::TooLate);
        }
        *held_until = (*held_until).max(ready);
        Ok(())
    }

    /// Sets the latest `not_before` of the waiting packets, after one was removed.
    pub(super) fn hold_until(&mut self, latest_ready: Timestamp) {
        if let Some(terms) = self.terms.as_deref_mut() {
            terms.held_until = latest_ready;
        }
    }

    /// Returns the number of waiting packets, and their bytes.
    pub(super) fn waiting<T>(&self, hot: &Hot<T>) -> (u32, u64) {
        let first = hot.first.bytes();
        let packets = self.behind.packets + u32::from(first.is_some());
        (packets, self.behind.bytes + u64::from(first.unwrap_or(0)))
    }

    /// Says whether a packet that could have left at `ready` has waited too long.
    #[inline]
    pub(super) fn overstayed(&self, now: Timestamp, ready: Timestamp) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.limits.overstayed(now, ready))
    }

    /// Returns whether a packet of this length may still join the quantum under way.
    #[inline]
    pub(super) fn joins(&self, batch: &Batch, bytes: u32) -> bool {
        let fits = batch.packets < self.most_packets
            && batch.bytes.checked_add(bytes).is_some_and(|sum| sum <= self.most_bytes);
        let alike = self.terms.as_ref().is_some_and(|terms| terms.quantum.alike);
        fits && (!alike || (batch.latest == batch.first && bytes <= batch.first))
    }

    /// Returns whether more than one packet can ever leave in one go.
    #[inline]
    pub(super) fn batches(&self) -> bool {
        self.most_packets > 1
    }

    /// Counts the departure of `packets`, in the cases that no [lane](Lane::departed) handles.
    pub(super) fn departed(&mut self, lane: &mut Lane, now: Timestamp, packets: u32, bytes: u32) {
        self.settle(lane);
        self.sent_bytes += u64::from(bytes);
        let release = self.clock.departed_together(now, packets, bytes).max(now);
        *lane = self.lane(release);
    }

    /// Begins a train.
    pub(super) fn start(&mut self, lane: &mut Lane, now: Timestamp) {
        self.settle(lane);
        let release = self.clock.start(now);
        *lane = self.lane(release);
    }

    pub(super) fn set_rate(&mut self, lane: &mut Lane, now: Timestamp, rate: Rate) {
        self.settle(lane);
        let release = self.clock.set_rate(now, rate);
        *lane = self.lane(release);
        if let Some(terms) = &self.terms {
            (self.most_packets, self.most_bytes) = terms.quantum.at(rate, self.clock.counts());
        }
    }

    /// Returns its counters, with the packets under way that the clock has not counted yet.
    pub(super) fn stats<T>(&self, hot: &Hot<T>, leaving: Option<&Batch>) -> FlowStats {
        let (packets, bytes) = leaving.map_or((0, 0), |batch| (batch.packets, batch.bytes));
        let sent = self.clock.departures() + u64::from(hot.lane.packets) + u64::from(packets);
        let (waiting, waiting_bytes) = self.waiting(hot);
        FlowStats {
            enqueued: sent + self.expired + u64::from(waiting),
            sent,
            sent_bytes: self.sent_bytes + u64::from(hot.lane.bytes) + u64::from(bytes),
            expired: self.expired,
            refused: self.refused,
            waiting,
            waiting_bytes,
            forfeited: self.clock.forfeited(),
            rate: self.clock.rate(),
        }
    }
}

/// The packets that leave of one flow in one go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Batch {
    pub(super) flow: u32,
    /// When its latest packet left.
    pub(super) at: Timestamp,
    pub(super) packets: u32,
    pub(super) bytes: u32,
    /// The length of the first packet.
    pub(super) first: u32,
    /// The length of the latest packet.
    pub(super) latest: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There may be a hundred thousand of them.
    #[test]
    fn a_flow_is_small() {
        assert!(size_of::<Option<Flow>>() <= 184, "{} bytes", size_of::<Option<Flow>>());
    }
}
