//! One flow of a queue: its clock and its account.

use core::time::Duration;

use super::account::{FlowStats, Reject};
use super::config::{FlowConfig, Limits, Quantum};
use super::packets::Fifo;
use crate::{PaceError, Rate, RateClock, Timestamp};

/// In this order in memory, from the beginning of a cache line on: first the two lines that every packet
/// touches, then what a flow that is behind needs. What it was set up with lies apart ([`Terms`]): with ten
/// thousand flows none of it is in the nearest cache, and a packet costs the lines that it touches.
///
/// What follows from other counts is not counted again: what was enqueued is what left or waits, and what was
/// sent is what the clock saw depart.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) waiting: Fifo,
    /// When the clock lets the next packet leave.
    release: Timestamp,
    sent_bytes: u64,
    /// The most packets that may wait, if that is the only limit, else zero: ask the terms.
    room: u32,
    /// The quantum at the rate, in packets.
    most_packets: u32,
    clock: RateClock,
    /// The quantum at the rate, in bytes.
    most_bytes: u32,
    pub(super) refused: u64,
    pub(super) expired: u64,
    /// The latest time before which a packet may not leave, and none behind it; kept where the delay is limited.
    held_until: Timestamp,
}

/// The settings of a flow, beside its pace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) quantum: Quantum,
    pub(super) limits: Limits,
}

impl Flow {
    pub(super) fn new(config: FlowConfig) -> Result<(Self, Terms), PaceError> {
        let FlowConfig { pace, quantum, limits } = config;
        let (most_packets, most_bytes) = quantum.at(pace.rate, pace.counts);
        let only_packets = limits.bytes == u64::MAX && limits.delay == Duration::MAX;
        let flow = Flow {
            waiting: Fifo::EMPTY,
            release: Timestamp::ZERO,
            sent_bytes: 0,
            room: if only_packets { limits.packets } else { 0 },
            most_packets,
            clock: RateClock::new(pace)?,
            most_bytes,
            refused: 0,
            expired: 0,
            held_until: Timestamp::ZERO,
        };
        Ok((flow, Terms { quantum, limits }))
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

    /// Says whether one more packet may wait, whatever it is.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.waiting.packets < self.room
    }

    /// Says whether one more packet may wait. If so, it does.
    pub(super) fn admit(
        &mut self,
        limits: &Limits,
        now: Timestamp,
        ready: Timestamp,
        bytes: u32,
    ) -> Result<(), Reject> {
        let Limits { packets, bytes: most_bytes, delay } = *limits;
        let full = self.waiting.packets >= packets
            || self.waiting.bytes.saturating_add(u64::from(bytes)) > most_bytes;
        if full {
            return Err(Reject::FlowFull);
        }
        if delay == Duration::MAX {
            return Ok(());
        }
        let ahead = self.clock.time_of(self.waiting.packets, self.waiting.bytes);
        // What has left did so after its time: only those that wait can hold this one up.
        let leaves = (self.release.max(now) + ahead).max(self.held_until);
        if leaves.saturating_duration_since(ready) > delay {
            return Err(Reject::TooLate);
        }
        self.held_until = self.held_until.max(ready);
        Ok(())
    }

    /// A packet has become the first; says when it may leave. If it could leave only
    /// later than the clock would have let one leave, the flow was idle: a new train begins, and owes nothing.
    #[inline]
    pub(super) fn head(&mut self, ready: Timestamp) -> Timestamp {
        if ready > self.release {
            self.release = self.clock.start(ready);
        }
        self.release
    }

    /// Says whether there are limits beside the one on packets.
    #[inline]
    pub(super) fn is_bounded(&self) -> bool {
        self.room == 0
    }

    /// Says whether a packet of this length may still join what is leaving.
    #[inline]
    pub(super) fn joins(&self, quantum: &Quantum, batch: &Batch, bytes: u32) -> bool {
        let fits = batch.packets < self.most_packets
            && batch.bytes.checked_add(bytes).is_some_and(|sum| sum <= self.most_bytes);
        fits && (!quantum.alike || (batch.latest == batch.first && bytes <= batch.first))
    }

    /// Says whether more than one packet can ever leave in one go.
    #[inline]
    pub(super) fn batches(&self) -> bool {
        self.most_packets > 1
    }

    #[inline(always)]
    pub(super) fn departed(&mut self, now: Timestamp, packets: u32, bytes: u32) {
        self.sent_bytes += u64::from(bytes);
        self.release = self.clock.departed_together(now, packets, bytes).max(now);
    }

    pub(super) fn restart(&mut self, now: Timestamp) {
        self.release = self.clock.start(self.release.max(now));
    }

    pub(super) fn set_rate(&mut self, quantum: &Quantum, now: Timestamp, rate: Rate) {
        self.release = self.clock.set_rate(now, rate);
        (self.most_packets, self.most_bytes) = quantum.at(rate, self.clock.counts());
    }

    /// Its account, where this much of it is leaving and the clock has not seen it yet.
    pub(super) fn stats(&self, leaving: Option<&Batch>) -> FlowStats {
        let (packets, bytes) = leaving.map_or((0, 0), |batch| (batch.packets, batch.bytes));
        let sent = self.clock.departures() + u64::from(packets);
        FlowStats {
            enqueued: sent + self.expired + u64::from(self.waiting.packets),
            sent,
            sent_bytes: self.sent_bytes + u64::from(bytes),
            expired: self.expired,
            refused: self.refused,
            waiting: self.waiting.packets,
            waiting_bytes: self.waiting.bytes,
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
        assert!(size_of::<Option<Flow>>() <= 192, "{} bytes", size_of::<Option<Flow>>());
    }

    #[test]
    fn a_packet_touches_two_cache_lines_of_its_flow() {
        let seldom = core::mem::offset_of!(Flow, clock) + RateClock::SELDOM;
        assert!(seldom <= 128, "{seldom} bytes");
    }
}
