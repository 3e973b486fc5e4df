//! One flow of a queue: its clock, its packets, its limits and its account.

use core::time::Duration;

use super::account::{FlowStats, Reject};
use super::config::{FlowConfig, Limits, Quantum};
use super::packets::Fifo;
use crate::{PaceError, Rate, RateClock, Timestamp};

#[derive(Debug)]
pub(super) struct Flow {
    clock: RateClock,
    pub(super) waiting: Fifo,
    /// When the clock lets the next packet leave.
    release: Timestamp,
    /// The quantum at the rate.
    most_packets: u32,
    most_bytes: u32,
    quantum: Quantum,
    limits: Limits,
    pub(super) enqueued: u64,
    pub(super) refused: u64,
    pub(super) expired: u64,
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
}

impl Flow {
    pub(super) fn new(config: FlowConfig) -> Result<Self, PaceError> {
        let FlowConfig { pace, quantum, limits } = config;
        let (most_packets, most_bytes) = quantum.at(pace.rate, pace.counts);
        Ok(Flow {
            clock: RateClock::new(pace)?,
            waiting: Fifo::EMPTY,
            release: Timestamp::ZERO,
            most_packets,
            most_bytes,
            quantum,
            limits,
            enqueued: 0,
            refused: 0,
            expired: 0,
            sent: 0,
            sent_bytes: 0,
        })
    }

    /// When the next packet may leave.
    #[inline]
    pub(super) fn release(&self) -> Timestamp {
        self.release
    }

    /// The intended time of the next packet.
    #[inline]
    pub(super) fn place(&self) -> Timestamp {
        self.clock.place()
    }

    /// Whether one more packet may wait.
    pub(super) fn admit(&self, now: Timestamp, ready: Timestamp, bytes: u32) -> Result<(), Reject> {
        let Limits { packets, bytes: most_bytes, delay } = self.limits;
        let full = self.waiting.packets >= packets
            || self.waiting.bytes.saturating_add(u64::from(bytes)) > most_bytes;
        if full {
            return Err(Reject::FlowFull);
        }
        if delay == Duration::MAX {
            return Ok(());
        }
        let ahead = self.clock.time_of(self.waiting.packets, self.waiting.bytes);
        let leaves = self.release.max(now) + ahead;
        if leaves.saturating_duration_since(ready) > delay { Err(Reject::TooLate) } else { Ok(()) }
    }

    /// A packet has become the first. If it could leave only later than the clock would have let one
    /// leave, the flow was idle: a new train begins, and owes nothing.
    #[inline]
    pub(super) fn head(&mut self, ready: Timestamp) {
        if ready > self.release {
            self.release = self.clock.start(ready);
        }
    }

    /// Whether a packet that could have left at `ready` has waited too long.
    #[inline]
    pub(super) fn overstayed(&self, now: Timestamp, ready: Timestamp) -> bool {
        self.limits.delay != Duration::MAX && now.saturating_duration_since(ready) > self.limits.delay
    }

    /// Whether a packet of this length may still join what is leaving.
    #[inline]
    pub(super) fn joins(&self, batch: &Batch, bytes: u32) -> bool {
        let fits = batch.packets < self.most_packets
            && batch.bytes.checked_add(bytes).is_some_and(|sum| sum <= self.most_bytes);
        fits && (!self.quantum.alike || (batch.latest == batch.first && bytes <= batch.first))
    }

    /// Whether more than one packet can ever leave in one go.
    #[inline]
    pub(super) fn batches(&self) -> bool {
        self.most_packets > 1
    }

    #[inline]
    pub(super) fn departed(&mut self, now: Timestamp, packets: u32, bytes: u32) {
        self.release = self.clock.departed_together(now, packets, bytes).max(now);
    }

    pub(super) fn restart(&mut self, now: Timestamp) {
        self.release = self.clock.start(self.release.max(now));
    }

    pub(super) fn set_rate(&mut self, now: Timestamp, rate: Rate) {
        self.release = self.clock.set_rate(now, rate);
        (self.most_packets, self.most_bytes) = self.quantum.at(rate, self.clock.counts());
    }

    pub(super) fn stats(&self) -> FlowStats {
        FlowStats {
            enqueued: self.enqueued,
            sent: self.sent,
            sent_bytes: self.sent_bytes,
            expired: self.expired,
            refused: self.refused,
            waiting: self.waiting.packets,
            waiting_bytes: self.waiting.bytes,
            forfeited: self.clock.forfeited(),
            rate: self.clock.rate(),
        }
    }
}

/// What is leaving of one flow in one go.
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
        assert!(size_of::<Flow>() <= 312, "{} bytes", size_of::<Flow>());
    }
}
