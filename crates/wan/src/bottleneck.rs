//! The slow link: [`Bottleneck`], and when each packet is through it.
//!
//! A link serves one packet after the other. The time of one packet is not a whole number of nanoseconds; rounding each
//! separately, 100 Mbit/s would drift by seconds in a year. So a busy link follows one exact schedule of bytes, and
//! starts a new one only after it was idle:
//!
//! ```text
//!   arrivals   ↓↓↓                    ↓
//!   link       ▐████████▐████████▐████████   ▐████████
//!   through             t₀+T     t₀+2T    t₀+3T       t₁+T
//! ```

use std::time::Duration;

use softtimers_core::{Pattern, Rate, RateError, Schedule, Timestamp};

use crate::DeliveryTrace;
use crate::trace::Chances;

/// The speed of the slowest link of the path.
///
/// ```
/// use softtimers_wan::{Bottleneck, DeliveryTrace};
///
/// let cable = Bottleneck::bits_per_second(50_000_000)?;
/// let radio = Bottleneck::trace(DeliveryTrace::parse(b"1\n1\n4\n")?);
/// assert_eq!([cable.mean_bps(), radio.mean_bps()], [Some(50_000_000), Some(9_000_000)]);
/// assert_eq!(Bottleneck::NONE.mean_bps(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bottleneck(Kind);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Kind {
    #[default]
    None,
    Constant {
        bits_per_second: u64,
        /// The rate in bytes.
        rate: Rate,
    },
    Trace(DeliveryTrace),
}

impl Bottleneck {
    /// No link is slow: packets take no time, and none waits.
    pub const NONE: Bottleneck = Bottleneck(Kind::None);

    /// Creates a link of constant rate.
    ///
    /// # Errors
    /// [`RateError`] for zero.
    pub fn bits_per_second(bits_per_second: u64) -> Result<Self, RateError> {
        Ok(Bottleneck(Kind::Constant { bits_per_second, rate: Rate::bytes(bits_per_second)? }))
    }

    /// Creates a link that repeats a recording. The recording begins with the first packet.
    pub fn trace(trace: DeliveryTrace) -> Self {
        Bottleneck(Kind::Trace(trace))
    }

    /// Returns the mean rate in bits a second; `None` if there is no bottleneck.
    pub fn mean_bps(&self) -> Option<u64> {
        match &self.0 {
            Kind::None => None,
            Kind::Constant { bits_per_second, .. } => Some(*bits_per_second),
            Kind::Trace(trace) => Some(trace.mean_bps()),
        }
    }

    /// Returns the recording, if it is one.
    pub fn recording(&self) -> Option<&DeliveryTrace> {
        if let Kind::Trace(trace) = &self.0 { Some(trace) } else { None }
    }
}

/// A link at work. It serves one packet after the other, in the caller's order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    None,
    /// A schedule of bytes: the last packet is through `burst` before its place in it, or when it came.
    Constant {
        schedule: Schedule,
        burst: Duration,
    },
    Trace(Chances),
}

impl Link {
    pub(crate) fn new(bottleneck: &Bottleneck, burst: u32) -> Self {
        match &bottleneck.0 {
            Kind::None => Link::None,
            Kind::Constant { rate, .. } => {
                let schedule = Schedule::new(*rate, Pattern::Constant, Timestamp::ZERO);
                Link::Constant { schedule, burst: length(*rate, u64::from(burst)) }
            }
            Kind::Trace(trace) => Link::Trace(Chances::new(trace.clone())),
        }
    }

    /// Returns when a packet is through whose turn comes at `at`: no sooner than the one before it.
    pub(crate) fn serve(&mut self, at: Timestamp, bytes: u64) -> Timestamp {
        match self {
            Link::None => at,
            Link::Constant { schedule, burst } => {
                // A packet that follows at once keeps the fraction of a nanosecond.
                if schedule.place() < at {
                    schedule.restart(at);
                }
                schedule.leap(bytes);
                schedule.place().saturating_sub(*burst).max(at)
            }
            Link::Trace(chances) => chances.serve(at, bytes),
        }
    }

    /// Returns when `bytes` more would be through, if the link sent them right away.
    pub(crate) fn through(&self, now: Timestamp, bytes: u64) -> Timestamp {
        match self {
            Link::None => now,
            Link::Constant { schedule, burst } => {
                let mut ahead = schedule.clone();
                ahead.leap(bytes);
                ahead.place().saturating_sub(*burst)
            }
            Link::Trace(chances) => chances.through(bytes),
        }
    }

    /// Becomes another link at `now`. If it is `serving` a packet of this many bytes that would be through at the given
    /// time, returns the new time. Changing to the same link has no effect.
    pub(crate) fn change(
        &mut self,
        now: Timestamp,
        bottleneck: &Bottleneck,
        depth: u32,
        serving: Option<(Timestamp, u64)>,
    ) -> Option<Timestamp> {
        match (&mut *self, &bottleneck.0) {
            (Link::None, Kind::None) => return serving.map(|(done, _)| done),
            (Link::Trace(chances), Kind::Trace(trace)) if chances.trace() == trace => {
                return serving.map(|(done, _)| done);
            }
            // The part of the packet sent so far stays sent.
            (Link::Constant { schedule, burst: Duration::ZERO }, Kind::Constant { rate, .. })
                if depth == 0 =>
            {
                schedule.set_rate(now, *rate, serving.map_or(0, |(_, bytes)| bytes));
                return serving.map(|_| schedule.place());
            }
            (Link::Constant { schedule, burst }, Kind::Constant { rate, .. }) => {
                let new_burst = length(*rate, u64::from(depth));
                if schedule.rate() == *rate && *burst == new_burst {
                    return serving.map(|(done, _)| done);
                }
                // The bucket keeps its content, up to the new depth, and any debt.
                let full = now + *burst;
                let lacks = schedule.place().saturating_duration_since(full);
                let has = full.saturating_duration_since(schedule.place().max(now));
                let lacks = length(*rate, bytes_in(schedule.rate(), lacks));
                let has = length(*rate, bytes_in(schedule.rate(), has)).min(new_burst);
                schedule.set_rate(now, *rate, 0);
                schedule.restart((now + new_burst + lacks).saturating_sub(has));
                *burst = new_burst;
                return serving.map(|_| schedule.place().saturating_sub(new_burst).max(now));
            }
            _ => {}
        }
        let left = serving.map(|(done, bytes)| match self {
            Link::None => 0,
            // The bytes whose scheduled times are past.
            Link::Constant { schedule, .. } => {
                bytes_in(schedule.rate(), done.saturating_duration_since(now)).min(bytes)
            }
            Link::Trace(chances) => chances.left(now, bytes),
        });
        *self = Link::new(bottleneck, depth);
        left.map(|bytes| self.serve(now, bytes))
    }

    /// Says whether more idle time would make no difference to an idle link.
    pub(crate) fn is_rested(&self, now: Timestamp) -> bool {
        !matches!(self, Link::Constant { schedule, .. } if schedule.place() > now)
    }
}

/// Returns the time that `bytes` take.
fn length(rate: Rate, bytes: u64) -> Duration {
    let mut since = Schedule::new(rate, Pattern::Constant, Timestamp::ZERO);
    since.leap(bytes);
    since.place().saturating_duration_since(Timestamp::ZERO)
}

/// Returns the bytes that pass in this time.
fn bytes_in(rate: Rate, time: Duration) -> u64 {
    Schedule::new(rate, Pattern::Constant, Timestamp::ZERO).advance_to(Timestamp::ZERO + time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: u64 = 1_000;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn constant(bits_per_second: u64) -> Bottleneck {
        Bottleneck::bits_per_second(bits_per_second).unwrap()
    }

    /// A year of packets of 1,499 bytes, at a rate that takes no whole number of nanoseconds for one.
    #[test]
    fn a_busy_link_does_not_drift() {
        let mut link = Link::new(&constant(99_999_989), 0);
        let each = 8_000_000_000u128 * 1_499;
        for packet in 1..=10_000u128 {
            let done = link.serve(at(0), 1_499);
            assert_eq!(u128::from(done.as_nanos()), packet * each / 99_999_989);
        }
        let ahead = link.through(at(0), 1_499 * 250_000_000_000);
        assert_eq!(u128::from(ahead.as_nanos()), 250_000_010_000 * each / 99_999_989);
    }

    #[test]
    fn a_change_takes_what_is_left_of_the_packet() {
        // 12,000 bits: 120 µs at 100 Mbit/s, 60 at 200. Half of it has been sent.
        let mut link = Link::new(&constant(100_000_000), 0);
        let done = link.serve(at(1_000), 1_500);
        assert_eq!(done, at(1_120));
        let mut faster = link.clone();
        let done = faster.change(at(1_060), &constant(200_000_000), 0, Some((done, 1_500)));
        assert_eq!(done, Some(at(1_090)));
        let mut to_trace = link.clone();
        let trace = Bottleneck::trace(DeliveryTrace::parse(b"1\n").unwrap());
        let done = to_trace.change(at(1_060), &trace, 0, Some((at(1_120), 1_500)));
        assert_eq!(done, Some(at(2_060)));
        assert_eq!(to_trace.through(at(1_060), 750).as_nanos(), 2_060 * MICRO);
        assert_eq!(link.change(at(1_060), &Bottleneck::NONE, 0, Some((at(1_120), 1_500))), Some(at(1_060)));
    }

    /// Setting the same link with every packet has no effect.
    #[test]
    fn the_same_bottleneck_again_changes_nothing() {
        let trace = Bottleneck::trace(DeliveryTrace::parse(b"1\n3\n").unwrap());
        for bottleneck in [constant(33_333_333), trace, Bottleneck::NONE] {
            let (mut told, mut untold) = (Link::new(&bottleneck, 0), Link::new(&bottleneck, 0));
            let mut now = at(7);
            for bytes in [1_500, 1, 40, 65_535, 1_499] {
                let done = told.serve(now, bytes);
                assert_eq!(untold.serve(now, bytes), done);
                assert_eq!(told.change(now, &bottleneck, 0, Some((done, bytes))), Some(done));
                now = done;
            }
        }
    }

    /// 8 Mbit/s is a byte a microsecond.
    #[test]
    fn a_bucket_lets_a_burst_through_and_then_its_rate() {
        let mut link = Link::new(&constant(8_000_000), 3_000);
        let done: Vec<_> = (0..4).map(|_| link.serve(at(0), 1_000)).collect();
        assert_eq!(done, [at(0), at(0), at(0), at(1_000)]);
        // Half of it has refilled, and a long packet waits for the missing half.
        assert_eq!(link.serve(at(2_500), 1_500), at(2_500));
        assert_eq!(link.serve(at(2_500), 500), at(3_000));
        assert_eq!(link.serve(at(10_000), 5_000), at(12_000));
        assert!(!link.is_rested(at(14_999)) && link.is_rested(at(15_000)));
        // It keeps its content: a thousand bytes after a wait for half a packet.
        let mut faster = Link::new(&constant(8_000_000), 3_000);
        faster.serve(at(0), 2_000);
        assert_eq!(faster.change(at(0), &constant(16_000_000), 6_000, None), None);
        assert_eq!([faster.serve(at(0), 1_000), faster.serve(at(0), 1_000)], [at(0), at(500)]);
        let mut waiting = Link::new(&constant(8_000_000), 3_000);
        let done = waiting.serve(at(0), 4_000);
        assert_eq!(done, at(1_000));
        let done = waiting.change(at(500), &constant(16_000_000), 3_000, Some((done, 4_000)));
        assert_eq!(done, Some(at(750)));
    }
}
