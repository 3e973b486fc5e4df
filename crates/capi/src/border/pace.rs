//! Pacing: when the next packet of a flow may leave.
//!
//! Tell it when a packet left, and it returns when the next one may: on schedule at the rate, after a stall a
//! little faster, never in a burst. It reads no clock and sends nothing.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::time::Duration;

use softtimers::{CatchUp, Counts, PaceConfig, Rate, RateClock, Strategy, Timestamp};

use super::clock::SOFTTIMERS_NEVER;
use crate::object::{Errno, Kind, Object};

impl Kind for RateClock {
    const NAME: &'static str = "softtimers_pace";
}

/// The departures of one flow.
pub(crate) type softtimers_pace = Object<RateClock>;

/// The pace of a flow. Exactly one of the first three is not zero; zeros of the others are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_pace_config {
    /// The gap between packets.
    pub(crate) interval_ns: u64,
    /// The rate in packets a second.
    pub(crate) packets_per_second: u64,
    /// Bits a second, for packets of any length: each is followed by the time its bytes take.
    pub(crate) bits_per_second: u64,
    /// The shortest gap when catching up: nine sixteenths of the gap by default, at most the gap.
    pub(crate) burst_interval_ns: u64,
    /// The longest delay that is made up: 10 ms by default; SOFTTIMERS_NEVER for no limit.
    pub(crate) catch_up_ns: u64,
    /// The most packets that are made up: no limit by default.
    pub(crate) catch_up_packets: u64,
    /// One of the constants.
    pub(crate) strategy: u32,
}

/// At its scheduled time, but no sooner than the burst interval after the last.
pub const SOFTTIMERS_PACE_EXACT: u32 = 0;
/// The paper's rule: one interval from now, or one burst interval while behind.
pub const SOFTTIMERS_PACE_TWO_SPEED: u32 = 1;
/// At its scheduled time, however close: it bursts after each stall.
pub const SOFTTIMERS_PACE_FIXED: u32 = 2;
/// One interval after the last: it drifts.
pub const SOFTTIMERS_PACE_RELATIVE: u32 = 3;

/// Makes a flow that has not started. Call softtimers_pace_start first: until then the schedule begins at
/// time zero. -EINVAL: `config` or `out` is NULL, no rate or two, a burst interval longer than the gap, or an
/// unknown strategy. Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_pace_new(
    config: Option<&softtimers_pace_config>,
    out: Option<&mut MaybeUninit<*mut softtimers_pace>>,
) -> c_int {
    Object::make(out, || {
        let config = config.ok_or(Errno::INVALID)?.read()?;
        RateClock::new(config).map_err(|_| Errno::INVALID)
    })
}

/// Frees a flow. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_pace_free(pace: Option<&'static softtimers_pace>) -> c_int {
    Object::free(pace)
}

/// Begins a train: the first packet may leave at `now`, which is returned, and earlier times do not count.
/// Call it at the start and after an idle time. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_pace_start(pace: Option<&softtimers_pace>, now: u64) -> u64 {
    Object::ask(pace, SOFTTIMERS_NEVER, |pace| pace.start(Timestamp::from_nanos(now)).as_nanos())
}

/// Records that `packets` packets of `bytes` bytes in all left together at `now`; returns the earliest time for the next one.
/// Times must not go backwards. A packet that the kernel has refused uses up its scheduled time: call this
/// for it, too. One that failed with -EAGAIN does not: send it when the socket is writable. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_pace_departed(
    pace: Option<&softtimers_pace>,
    now: u64,
    packets: u32,
    bytes: u32,
) -> u64 {
    Object::ask(pace, SOFTTIMERS_NEVER, |pace| {
        pace.departed_together(Timestamp::from_nanos(now), packets, bytes).as_nanos()
    })
}

/// Changes the rate from `now` on, without a burst, to that of `config`, in the same unit as before: packets
/// or bits. The other fields of `config` are ignored. Writes the earliest time for the next packet to `next`.
/// -EINVAL: a NULL argument, no rate or two, or bits for packets. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_pace_set_rate(
    pace: Option<&softtimers_pace>,
    now: u64,
    config: Option<&softtimers_pace_config>,
    next: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    Object::with(pace, |pace| {
        let (rate, counts) = config.ok_or(Errno::INVALID)?.rate()?;
        if counts != pace.counts() {
            return Err(Errno::INVALID);
        }
        let time = pace.set_rate(Timestamp::from_nanos(now), rate).as_nanos();
        crate::object::write(next, time);
        Ok(0)
    })
}

/// Returns the scheduled time of the next departure, against which lateness is measured: call it before
/// softtimers_pace_departed. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_pace_place(pace: Option<&softtimers_pace>) -> u64 {
    Object::ask(pace, SOFTTIMERS_NEVER, |pace| pace.place().as_nanos())
}

/// Packets that have left.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_pace_departures(pace: Option<&softtimers_pace>) -> u64 {
    Object::ask(pace, 0, |pace| pace.departures())
}

/// Scheduled times skipped because the flow fell too far behind.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_pace_forfeited(pace: Option<&softtimers_pace>) -> u64 {
    Object::ask(pace, 0, |pace| pace.forfeited())
}

/// Scheduled times that have passed unused and may still be made up. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_pace_behind(pace: Option<&softtimers_pace>, now: u64) -> u64 {
    Object::ask(pace, 0, |pace| pace.behind(Timestamp::from_nanos(now)))
}

impl softtimers_pace_config {
    pub(super) fn rate(&self) -> Result<(Rate, Counts), Errno> {
        let rate = match (self.interval_ns, self.packets_per_second, self.bits_per_second) {
            (interval, 0, 0) => (Rate::every(Duration::from_nanos(interval)), Counts::Packets),
            (0, packets, 0) => (Rate::per_second(packets), Counts::Packets),
            (0, 0, bits) => (Rate::bytes(bits), Counts::Bytes),
            _ => return Err(Errno::INVALID),
        };
        Ok((rate.0.map_err(|_| Errno::INVALID)?, rate.1))
    }

    pub(super) fn read(&self) -> Result<PaceConfig, Errno> {
        let (rate, counts) = self.rate()?;
        let strategy = match self.strategy {
            SOFTTIMERS_PACE_EXACT => Strategy::ExactDeadline,
            SOFTTIMERS_PACE_TWO_SPEED => Strategy::TwoSpeed,
            SOFTTIMERS_PACE_FIXED => Strategy::FixedSeries,
            SOFTTIMERS_PACE_RELATIVE => Strategy::Relative,
            _ => return Err(Errno::INVALID),
        };
        let time = match self.catch_up_ns {
            0 => CatchUp::default().time,
            SOFTTIMERS_NEVER => Duration::MAX,
            nanos => Duration::from_nanos(nanos),
        };
        let packets = if self.catch_up_packets == 0 { u64::MAX } else { self.catch_up_packets };
        let burst_interval =
            (self.burst_interval_ns != 0).then(|| Duration::from_nanos(self.burst_interval_ns));
        let catch_up = CatchUp { time, packets };
        Ok(PaceConfig { counts, burst_interval, catch_up, strategy, ..PaceConfig::new(rate) })
    }
}
