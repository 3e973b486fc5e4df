//! Many flows, each at its own rate: packets go in as they come and come out when they may leave.
//!
//! One `softtimers_flows` is enough for all connections of a program: `softtimers_flows_turn`, then
//! `softtimers_flows_pop` until 0; `softtimers_flows_poll_at` returns when to check next.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::time::Duration;

use softtimers::queue::{
    DepartureQueue, DepartureTurn, FlowConfig, FlowId, Limits, Popped, QueueConfig, Reject,
};
use softtimers::{Seal, Timestamp};

use super::clock::SOFTTIMERS_NEVER;
use super::pace::softtimers_pace_config;
use crate::object::{Errno, Kind, Object};

impl Kind for Flows {
    const NAME: &'static str = "softtimers_flows";
}

/// A queue of the packets of many flows.
pub(crate) type softtimers_flows = Object<Flows>;

/// The state behind a `softtimers_flows`.
#[derive(Debug)]
pub(crate) struct Flows {
    queue: DepartureQueue<u64>,
    seal: Seal,
    turn: Option<DepartureTurn>,
}

/// A packet that leaves.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_departure {
    /// The flow it belongs to.
    pub(crate) flow: u64,
    /// The packet that was enqueued.
    pub(crate) packet: u64,
    /// Its scheduled time.
    pub(crate) place: u64,
    /// The time between its scheduled time and its departure, in nanoseconds.
    pub(crate) lateness_ns: u64,
    /// The length of the packet.
    pub(crate) bytes: u32,
    /// Always zero.
    pub(crate) reserved: u32,
}

/// Makes a queue for at most `packets` packets of all flows together; 0 for a million. Departures are collected at whole
/// multiples of `slot_ns`, best a whole part of the flows' intervals, so that each flow keeps its gaps; 0 for none.
/// -EINVAL: `out` is NULL.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_flows_new(
    packets: u32,
    slot_ns: u64,
    out: Option<&mut MaybeUninit<*mut softtimers_flows>>,
) -> c_int {
    let default = QueueConfig::default();
    let packets = if packets == 0 { default.packets } else { packets };
    Object::make(out, || {
        let queue =
            DepartureQueue::new(QueueConfig { packets, slot: Duration::from_nanos(slot_ns), ..default });
        Ok(Flows { queue, seal: Seal::new(softtimers::bsd::owner()), turn: None })
    })
}

/// Frees a queue and discards its packets. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_flows_free(flows: Option<&'static softtimers_flows>) -> c_int {
    Object::free(flows)
}

/// Adds a flow, of which at most `packets` may wait; 0 for 100. Its handle is written to `flow`.
/// -EINVAL: a NULL argument, or a pace that `softtimers_pace_new` would refuse. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_flows_add(
    flows: Option<&softtimers_flows>,
    pace: Option<&softtimers_pace_config>,
    packets: u32,
    flow: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    Object::with(flows, |Flows { queue, seal, .. }| {
        let out = flow.ok_or(Errno::INVALID)?;
        let mut config = FlowConfig::new(pace.ok_or(Errno::INVALID)?.read()?);
        config.limits.packets = if packets == 0 { Limits::default().packets } else { packets };
        let id = queue.add_flow(config).map_err(|_| Errno::INVALID)?;
        out.write(seal.close(id.to_bits()));
        Ok(0)
    })
}

/// Removes a flow and discards its waiting packets; returns their number. -EINVAL: an invalid handle. Thread:
/// its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_flows_remove(flows: Option<&softtimers_flows>, flow: u64) -> c_int {
    Object::with(flows, |flows| {
        let id = flows.open(flow)?;
        let removed = flows.queue.remove_flow(id).ok_or(Errno::INVALID)?;
        Ok(c_int::try_from(removed.len()).unwrap_or(c_int::MAX))
    })
}

/// Changes a flow's rate from `now` on, without a burst, to that of `pace`, in the same unit as before.
/// -EINVAL: a NULL argument, no rate or two, or an invalid handle. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_flows_set_rate(
    flows: Option<&softtimers_flows>,
    now: u64,
    flow: u64,
    pace: Option<&softtimers_pace_config>,
) -> c_int {
    Object::with(flows, |flows| {
        let (rate, _) = pace.ok_or(Errno::INVALID)?.rate()?;
        let id = flows.open(flow)?;
        flows.queue.set_rate(Timestamp::from_nanos(now), id, rate).map_err(|_| Errno::INVALID)?;
        Ok(0)
    })
}

/// Enqueues a packet of `bytes` bytes that may leave from `now` on. O(1).
/// -EINVAL: an invalid handle. -ENOBUFS: the flow or the queue is full. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_flows_enqueue(
    flows: Option<&softtimers_flows>,
    now: u64,
    flow: u64,
    bytes: u32,
    packet: u64,
) -> c_int {
    Object::with(flows, |flows| {
        let id = flows.open(flow)?;
        let done = flows.queue.enqueue(Timestamp::from_nanos(now), id, bytes, packet);
        done.map_err(|rejected| match rejected.reason {
            Reject::NoSuchFlow => Errno::INVALID,
            _ => Errno(libc::ENOBUFS),
        })?;
        Ok(0)
    })
}

/// Begins a turn: `softtimers_flows_pop` hands out what may leave at `now`. A compare when nothing may.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_flows_turn(flows: Option<&softtimers_flows>, now: u64) -> c_int {
    Object::with(flows, |flows| {
        flows.turn = Some(flows.queue.turn(Timestamp::from_nanos(now)));
        Ok(0)
    })
}

/// The next packet of the turn, in the order of release times: 1 and it is written to `departure`, or 0. If
/// one cannot be sent for want of room, keep it, and take no other until there is room: its departure has
/// been counted. -EINVAL: no `departure`. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_flows_pop(
    flows: Option<&softtimers_flows>,
    departure: Option<&mut MaybeUninit<softtimers_departure>>,
) -> c_int {
    Object::with(flows, |Flows { queue, seal, turn }| {
        let out = departure.ok_or(Errno::INVALID)?;
        let popped = turn.as_ref().and_then(|turn| queue.pop_due(turn));
        // No flow here has a limit on its delay, so nothing expires.
        let Some(Popped::Departure(packet)) = popped else {
            *turn = None;
            return Ok(0);
        };
        out.write(softtimers_departure {
            flow: seal.close(packet.flow.to_bits()),
            packet: packet.token,
            place: packet.place.as_nanos(),
            lateness_ns: u64::try_from(packet.lateness.as_nanos()).unwrap_or(u64::MAX),
            bytes: packet.bytes,
            reserved: 0,
        });
        Ok(1)
    })
}

/// The earliest release time; SOFTTIMERS_NEVER if nothing waits.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_flows_poll_at(flows: Option<&softtimers_flows>) -> u64 {
    Object::ask(flows, SOFTTIMERS_NEVER, |flows| {
        flows.queue.poll_at().map_or(SOFTTIMERS_NEVER, Timestamp::as_nanos)
    })
}

/// Packets waiting.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_flows_len(flows: Option<&softtimers_flows>) -> usize {
    Object::ask(flows, 0, |flows| flows.queue.len())
}

impl Flows {
    fn open(&self, flow: u64) -> Result<FlowId, Errno> {
        self.queue.id_of(self.seal.open(flow)).ok_or(Errno::INVALID)
    }
}
