//! The packets that a queue hands out or refuses, and its counters.

use core::fmt;
use core::time::Duration;

use super::id::FlowId;
use crate::{Rate, Timestamp};

/// A packet that [`DepartureQueue::pop_due`](super::DepartureQueue::pop_due) hands out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Popped<T> {
    /// A packet to send now.
    Departure(Departure<T>),
    /// A packet that has waited longer than its flow's [`Limits::delay`](super::Limits::delay), by a stall or
    /// because the rate fell after it was accepted. It used no scheduled time: the next packet of the flow
    /// leaves instead. Never occurs with the default limits.
    Expired {
        /// The flow it belongs to.
        flow: FlowId,
        /// The token that was enqueued.
        token: T,
        /// The packet's length in bytes.
        bytes: u32,
        /// The time that it has waited since it could have left.
        waited: Duration,
    },
}

/// A packet that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure<T> {
    /// The flow it belongs to.
    pub flow: FlowId,
    /// The token that was enqueued.
    pub token: T,
    /// The packet's length in bytes.
    pub bytes: u32,
    /// The scheduled time. Packets that leave in one go share it.
    pub place: Timestamp,
    /// The earliest time at which it might have left: later than its scheduled time while the flow catches
    /// up.
    pub due: Timestamp,
    /// The time between its scheduled time and its departure.
    pub lateness: Duration,
    /// The time from which its owner let it leave: when it was enqueued or its `not_before`, whichever is
    /// later.
    pub ready: Timestamp,
    /// Another packet of the flow leaves together with it and is handed out next: with `UDP_SEGMENT`
    /// both belong into one send. See [`Quantum`](super::Quantum).
    pub more: bool,
}

/// A packet that was not taken, and why; the token goes back to the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejected<T> {
    /// The reason for the refusal.
    pub reason: Reject,
    /// The token that was to be enqueued.
    pub token: T,
}

/// Why a packet, or a change of a flow, was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Reject {
    /// The flow has been removed.
    NoSuchFlow,
    /// All flows together have [`QueueConfig::packets`](super::QueueConfig::packets) waiting.
    QueueFull,
    /// The flow has [`Limits::packets`](super::Limits::packets) or
    /// [`Limits::bytes`](super::Limits::bytes) waiting.
    FlowFull,
    /// The packet would have to wait longer than [`Limits::delay`](super::Limits::delay), even without a
    /// stall.
    TooLate,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reject::NoSuchFlow => "the flow has been removed",
            Reject::QueueFull => "the queue is full",
            Reject::FlowFull => "the flow has as much waiting as it may",
            Reject::TooLate => "the packet would wait longer than its flow allows",
        })
    }
}

impl<T> fmt::Display for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl core::error::Error for Reject {}
impl<T: fmt::Debug> core::error::Error for Rejected<T> {}

/// Counters of one flow. At any time `enqueued == sent + expired + waiting`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowStats {
    /// Number of packets accepted, without those taken out again
    /// ([`remove_packet`](super::DepartureQueue::remove_packet)).
    pub enqueued: u64,
    /// Packets handed out to be sent.
    pub sent: u64,
    /// Bytes of the packets sent.
    pub sent_bytes: u64,
    /// Packets handed out as expired.
    pub expired: u64,
    /// Packets not accepted; not in `enqueued`.
    pub refused: u64,
    /// Number of packets waiting now.
    pub waiting: u32,
    /// Bytes of the packets waiting now.
    pub waiting_bytes: u64,
    /// Scheduled times, of packets or of bytes, skipped because the flow fell behind by more than its
    /// [`CatchUp`](crate::CatchUp) allows.
    pub forfeited: u64,
    /// The flow's present rate.
    pub rate: Rate,
}

/// Counters of a queue. At any time `enqueued == sent + expired + removed + waiting`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueStats {
    /// Number of flows now.
    pub flows: u32,
    /// Number of packets accepted.
    pub enqueued: u64,
    /// Packets handed out to be sent.
    pub sent: u64,
    /// Packets handed out as expired.
    pub expired: u64,
    /// Packets that waited when their flow was removed, or were taken out.
    pub removed: u64,
    /// Packets not accepted; not in `enqueued`.
    pub refused: u64,
    /// Number of packets waiting now.
    pub waiting: u32,
}
