//! A network path in virtual time: delay, rate, queue and loss, for tests, the same for the same seed.
//!
//! Packets go in with `softtimers_wan_offer` and come out of `softtimers_wan_pop_due`; the caller supplies
//! the time.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::time::Duration;

use ::softtimers_wan::{
    Admission, Bottleneck, Jitter, Loss, PathConfig, Probability, ProbabilityError, Queue, Wan, Way,
};
use softtimers::Timestamp;

use super::clock::SOFTTIMERS_NEVER;
use crate::object::{Errno, Kind, Object};

impl Kind for Wan<u64> {
    const NAME: &'static str = "softtimers_wan";
}

/// A path, both ways.
pub(crate) type softtimers_wan = Object<Wan<u64>>;

/// One direction of a path. Zeros are a perfect wire.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_path {
    /// The rate of the slowest link; 0 for none.
    pub(crate) bits_per_second: u64,
    /// The limit of the queue in packets. At most one of the three limits may be nonzero; if all are zero,
    /// 1,000 packets.
    pub(crate) queue_packets: u32,
    /// Bytes a packet takes on the link beyond its own, at most 65,535.
    pub(crate) overhead: u32,
    /// The limit of the queue in bytes.
    pub(crate) queue_bytes: u64,
    /// The limit of the queue in nanoseconds of waiting.
    pub(crate) queue_ns: u64,
    /// The delay of a packet behind the link, in nanoseconds.
    pub(crate) delay_ns: u64,
    /// The most that the delay varies either way, in nanoseconds, at most the delay; packets stay in order.
    pub(crate) jitter_ns: u64,
    /// Lost packets of 10^9.
    pub(crate) loss_ppb: u32,
    /// Packets of 10^9 that come twice.
    pub(crate) duplicate_ppb: u32,
    /// Packets of 10^9 with one bit flipped.
    pub(crate) corrupt_ppb: u32,
    /// Must be zero.
    pub(crate) reserved: u32,
}

/// A packet that has arrived.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_delivery {
    /// The packet that was offered.
    pub(crate) packet: u64,
    /// When it was offered.
    pub(crate) offered: u64,
    /// The time at which it arrives.
    pub(crate) due: u64,
    /// The bit that is to be flipped, counted from the first byte's least significant one; SOFTTIMERS_NEVER for none.
    pub(crate) flipped: u64,
    /// The length of the packet.
    pub(crate) bytes: u32,
    /// SOFTTIMERS_UP or SOFTTIMERS_DOWN.
    pub(crate) way: u32,
    /// 1 if it is the second copy, otherwise 0.
    pub(crate) copy: u32,
    /// Always zero.
    pub(crate) reserved: u32,
}

/// The fates of all packets of one direction.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_wan_counters {
    /// Packets that came in.
    pub(crate) offered: u64,
    /// Second copies that were made.
    pub(crate) duplicated: u64,
    /// Packets that came out.
    pub(crate) delivered: u64,
    /// Packets that found the queue full.
    pub(crate) queue_drops: u64,
    /// Packets beyond the emulator's own limit.
    pub(crate) overflowed: u64,
    /// Lost on the way.
    pub(crate) lost: u64,
    /// Packets that are under way.
    pub(crate) held: u64,
}

/// From the client to the server.
pub const SOFTTIMERS_UP: u32 = 0;
/// From the server to the client.
pub const SOFTTIMERS_DOWN: u32 = 1;

/// The packet is under way.
pub const SOFTTIMERS_ACCEPTED: c_int = 0;
/// The queue is full.
pub const SOFTTIMERS_QUEUE_FULL: c_int = 1;
/// The emulator's own limit is reached: a quarter of a million packets, 256 MiB.
pub const SOFTTIMERS_OVERFLOW: c_int = 2;

/// Makes a path. `up` and `down` may be NULL, for a perfect wire; `seed` decides everything random. -EINVAL:
/// `out` is NULL, or an invalid path: two kinds of queue, a share above 10^9, a jitter above the delay.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_wan_new(
    up: Option<&softtimers_path>,
    down: Option<&softtimers_path>,
    seed: u64,
    out: Option<&mut MaybeUninit<*mut softtimers_wan>>,
) -> c_int {
    Object::make(out, || {
        let [up, down] = [up, down].map(|path| path.copied().unwrap_or_default().read());
        Wan::builder().up(up?).down(down?).seed(seed).build().map_err(|_| Errno::INVALID)
    })
}

/// Frees a path and the packets under way. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_wan_free(wan: Option<&'static softtimers_wan>) -> c_int {
    Object::free(wan)
}

/// Offers a packet of `bytes` at `now`: SOFTTIMERS_ACCEPTED, SOFTTIMERS_QUEUE_FULL or SOFTTIMERS_OVERFLOW. An
/// accepted packet may still be lost. -EINVAL: an unknown direction. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_wan_offer(
    wan: Option<&softtimers_wan>,
    now: u64,
    way: u32,
    bytes: u32,
    packet: u64,
) -> c_int {
    Object::with(wan, |wan| {
        Ok(match wan.offer(Timestamp::from_nanos(now), read_way(way)?, bytes, packet) {
            Admission::Accepted | Admission::Marked => SOFTTIMERS_ACCEPTED,
            Admission::QueueFull => SOFTTIMERS_QUEUE_FULL,
            Admission::Overflow => SOFTTIMERS_OVERFLOW,
        })
    })
}

/// Returns when to check next: SOFTTIMERS_NEVER if no packet is held. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_wan_poll_at(wan: Option<&softtimers_wan>) -> u64 {
    Object::ask(wan, SOFTTIMERS_NEVER, |wan| wan.poll_at().map_or(SOFTTIMERS_NEVER, Timestamp::as_nanos))
}

/// The next packet that has arrived by `now`, in order of arrival: 1 and it is written to `delivery`, or 0.
/// -EINVAL: no `delivery`.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_wan_pop_due(
    wan: Option<&softtimers_wan>,
    now: u64,
    delivery: Option<&mut MaybeUninit<softtimers_delivery>>,
) -> c_int {
    Object::with(wan, |wan| {
        let out = delivery.ok_or(Errno::INVALID)?;
        let Some((way, delivery)) = wan.pop_due(Timestamp::from_nanos(now)) else { return Ok(0) };
        out.write(softtimers_delivery {
            packet: delivery.packet,
            offered: delivery.offered.as_nanos(),
            due: delivery.due.as_nanos(),
            flipped: delivery.flipped.unwrap_or(SOFTTIMERS_NEVER),
            bytes: delivery.bytes,
            way: if way == Way::Up { SOFTTIMERS_UP } else { SOFTTIMERS_DOWN },
            copy: delivery.copy.into(),
            reserved: 0,
        });
        Ok(1)
    })
}

/// Counts the packets of one direction. -EINVAL: an unknown direction, or no `counters`. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_wan_count(
    wan: Option<&softtimers_wan>,
    way: u32,
    counters: Option<&mut MaybeUninit<softtimers_wan_counters>>,
) -> c_int {
    Object::with(wan, |wan| {
        let out = counters.ok_or(Errno::INVALID)?;
        let counters = wan.direction(read_way(way)?).counters();
        out.write(softtimers_wan_counters {
            offered: counters.offered,
            duplicated: counters.duplicated,
            delivered: counters.delivered,
            queue_drops: counters.queue_drops,
            overflowed: counters.overflowed,
            lost: counters.lost,
            held: counters.held,
        });
        Ok(0)
    })
}

impl softtimers_path {
    fn read(&self) -> Result<PathConfig, Errno> {
        let share = |ppb| Probability::per_billion(ppb).map_err(|_: ProbabilityError| Errno::INVALID);
        let queue = match (self.queue_packets, self.queue_bytes, self.queue_ns) {
            (0, 0, 0) => Queue::default(),
            (packets, 0, 0) => Queue::packets(packets),
            (0, bytes, 0) => Queue::bytes(bytes),
            (0, 0, nanos) => Queue::time(Duration::from_nanos(nanos)),
            _ => return Err(Errno::INVALID),
        };
        let bottleneck = match self.bits_per_second {
            0 => Bottleneck::NONE,
            bits => Bottleneck::bits_per_second(bits).map_err(|_| Errno::INVALID)?,
        };
        let loss = if self.loss_ppb == 0 { Loss::None } else { Loss::Random(share(self.loss_ppb)?) };
        let path = PathConfig::default()
            .bottleneck(bottleneck)
            .queue(queue)
            .overhead(self.overhead)
            .delay(Duration::from_nanos(self.delay_ns))
            .jitter(Jitter::uniform(Duration::from_nanos(self.jitter_ns)))
            .loss(loss)
            .duplicate(share(self.duplicate_ppb)?)
            .corrupt(share(self.corrupt_ppb)?);
        path.check().map_err(|_| Errno::INVALID)?;
        if self.reserved == 0 { Ok(path) } else { Err(Errno::INVALID) }
    }
}

fn read_way(way: u32) -> Result<Way, Errno> {
    match way {
        SOFTTIMERS_UP => Ok(Way::Up),
        SOFTTIMERS_DOWN => Ok(Way::Down),
        _ => Err(Errno::INVALID),
    }
}
