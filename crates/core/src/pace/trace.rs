//! Recorded traffic: [`Trace`], the times and lengths of captured packets.
//!
//! A recording is foreign data, and it can be long. So it is stored once, ten bytes a packet, shared by all
//! its schedules, and its times are normalised when it is read:
//!
//! ```text
//!   recorded   7.0   7.2   7.1   9.0   s since some epoch; a clock was set back
//!   kept       0     0.2   0.2   2.0   since the first packet; none before the one before it
//!   at 2x      0     0.1   0.1   1.0   each time for itself: rounding does not add up
//! ```

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};
use core::ops::Range;
use core::time::Duration;

use crate::{Rate, Timestamp};

/// Recorded packets, at least one: the time of each, counted from the first, and its length. Clones share the
/// recording.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::Timestamp;
/// use softtimers_core::{Speed, TraceBuilder};
///
/// let mut builder = TraceBuilder::default();
/// for (micros, length) in [(1_000, 60), (1_040, 1_500), (1_400, 60)] {
///     builder.push(Timestamp::from_micros(micros), length);
/// }
/// let trace = builder.finish().expect("three packets");
/// assert_eq!(trace.span(), Duration::from_micros(400));
/// assert_eq!(trace.mean_rate().interval(), Duration::from_micros(200));
///
/// let twice = trace.at_speed(Speed::new(2, 1).expect("above zero"));
/// assert!(twice.iter().eq([(0, 60), (20, 1_500), (200, 60)].map(|(us, len)| (Duration::from_micros(us), len))));
/// ```
///
/// # Cost
/// Ten bytes a packet.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    packets: Arc<Packets>,
    speed: Speed,
}

#[derive(PartialEq, Eq)]
struct Packets {
    /// In nanoseconds from the first one, which is zero; none is less than the one before it.
    times: Vec<u64>,
    lengths: Vec<u16>,
}

impl Trace {
    /// Returns the same recording, replayed at `speed` times its own.
    #[must_use]
    pub fn at_speed(&self, speed: Speed) -> Self {
        Trace { packets: Arc::clone(&self.packets), speed }
    }

    /// Returns the number of packets: at least one.
    pub fn packets(&self) -> usize {
        self.packets.times.len()
    }

    /// Returns the time after the first packet at which the one with this index leaves; `None` beyond the last.
    pub fn time(&self, index: usize) -> Option<Duration> {
        self.packets.times.get(index).map(|&nanos| Duration::from_nanos(self.speed.scale(nanos)))
    }

    /// Returns the length of that packet in bytes; `None` beyond the last.
    pub fn length(&self, index: usize) -> Option<u16> {
        self.packets.lengths.get(index).copied()
    }

    /// Iterates over all packets: times and lengths.
    pub fn iter(&self) -> impl Iterator<Item = (Duration, u16)> + '_ {
        let times = self.packets.times.iter().map(|&nanos| Duration::from_nanos(self.speed.scale(nanos)));
        times.zip(self.packets.lengths.iter().copied())
    }

    /// Returns the time from the first packet to the last.
    pub fn span(&self) -> Duration {
        self.time(self.packets() - 1).unwrap_or_default()
    }

    /// Returns the mean rate: the number of gaps over their total time, at most one a nanosecond. A single
    /// packet has no gap and counts as one a second.
    pub fn mean_rate(&self) -> Rate {
        let gaps = NonZeroU64::new(self.packets() as u64 - 1);
        match gaps {
            Some(gaps) => Rate::mean(crate::time::saturating_nanos(self.span()), gaps),
            None => Rate::mean(crate::time::NANOS_PER_SEC, NonZeroU64::MIN),
        }
    }

    /// Returns the most packets within any `window`, its end not included.
    ///
    /// # Cost
    /// Two passes over the recording.
    pub fn peak(&self, window: Duration) -> usize {
        let (mut first, mut most) = (0, 0);
        for (index, (time, _)) in self.iter().enumerate() {
            while self.time(first).is_some_and(|earliest| time - earliest >= window) && first < index {
                first += 1;
            }
            most = most.max(index + 1 - first);
        }
        most
    }

    /// Returns the indices around `index` whose times, in nanoseconds, have the same `key`, which must not fall.
    ///
    /// # Cost
    /// O(log n).
    pub(super) fn alike(&self, index: usize, key: impl Fn(u64) -> u64) -> Range<usize> {
        let key = |&nanos: &u64| key(self.speed.scale(nanos));
        let (times, index) = (&self.packets.times, index.min(self.packets() - 1));
        let own = key(&times[index]);
        let first = times[..index].partition_point(|time| key(time) < own);
        let end = index + times[index..].partition_point(|time| key(time) <= own);
        first..end
    }

    /// Returns the number of packets from `index` on that leave earlier than `elapsed` after the first.
    ///
    /// # Cost
    /// O(log n).
    pub(super) fn before(&self, index: usize, elapsed: Duration) -> usize {
        let earlier = |&nanos: &u64| Duration::from_nanos(self.speed.scale(nanos)) < elapsed;
        self.packets.times.get(index..).map_or(0, |times| times.partition_point(earlier))
    }
}

/// Prints a summary, not a million packets.
impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("packets", &self.packets())
            .field("span", &self.span())
            .field("speed", &self.speed)
            .finish()
    }
}

/// Builds a [`Trace`] from packets in the order in which they leave.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    first: Option<Timestamp>,
    times: Vec<u64>,
    lengths: Vec<u16>,
    out_of_order: u64,
}

impl TraceBuilder {
    /// Adds a packet. Only differences of times matter. One that is earlier than the packet before it was
    /// recorded by a clock that was set back, or on another CPU: it leaves at once after that packet, and is
    /// counted.
    pub fn push(&mut self, time: Timestamp, length: u16) {
        let first = *self.first.get_or_insert(time);
        let latest = self.times.last().copied().unwrap_or(0);
        // A time before the first packet is before the latest, too.
        let nanos = time.as_nanos().checked_sub(first.as_nanos()).filter(|&nanos| nanos >= latest);
        self.out_of_order += u64::from(nanos.is_none());
        self.times.push(nanos.unwrap_or(latest));
        self.lengths.push(length);
    }

    /// Returns the number of packets that were earlier than one before them.
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// Returns the recording, at its own speed; `None` if it has no packets.
    pub fn finish(mut self) -> Option<Trace> {
        self.times.shrink_to_fit();
        self.lengths.shrink_to_fit();
        let packets = Packets { times: self.times, lengths: self.lengths };
        (!packets.times.is_empty()).then(|| Trace { packets: Arc::new(packets), speed: Speed::RECORDED })
    }
}

/// The speed at which a recording is replayed, as an exact fraction of its own speed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Speed {
    numerator: NonZeroU32,
    denominator: NonZeroU32,
}

impl Speed {
    /// The speed at which it was recorded.
    pub const RECORDED: Speed = Speed { numerator: NonZeroU32::MIN, denominator: NonZeroU32::MIN };

    /// `numerator / denominator` times as fast; `None` if either is zero.
    pub const fn new(numerator: u32, denominator: u32) -> Option<Self> {
        match (NonZeroU32::new(numerator), NonZeroU32::new(denominator)) {
            (Some(numerator), Some(denominator)) => Some(Speed { numerator, denominator }),
            _ => None,
        }
    }

    /// Returns it as a number, for display.
    pub fn as_f64(self) -> f64 {
        f64::from(self.numerator.get()) / f64::from(self.denominator.get())
    }

    /// The time that `nanos` take at this speed, rounded down; at most 584 years.
    fn scale(self, nanos: u64) -> u64 {
        if self.numerator == self.denominator {
            return nanos;
        }
        let scaled =
            u128::from(nanos) * u128::from(self.denominator.get()) / u128::from(self.numerator.get());
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

impl Default for Speed {
    fn default() -> Self {
        Speed::RECORDED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(packets: &[(u64, u16)]) -> Trace {
        let mut builder = TraceBuilder::default();
        packets.iter().for_each(|&(micros, length)| builder.push(Timestamp::from_micros(micros), length));
        builder.finish().unwrap()
    }

    #[test]
    fn nothing_is_no_trace() {
        assert_eq!(TraceBuilder::default().finish(), None);
    }

    #[test]
    fn a_clock_that_was_set_back_holds_nothing_up() {
        let mut builder = TraceBuilder::default();
        for micros in [50, 60, 40, 59, 60, 61] {
            builder.push(Timestamp::from_micros(micros), 1);
        }
        assert_eq!(builder.out_of_order(), 2);
        let times: Vec<u128> = builder.finish().unwrap().iter().map(|(time, _)| time.as_micros()).collect();
        assert_eq!(times, [0, 10, 10, 10, 10, 11]);
    }

    #[test]
    fn means_and_peaks() {
        let burst = trace(&[(0, 1), (10, 1), (20, 1), (1_000, 1)]);
        assert_eq!(burst.mean_rate().interval(), Duration::from_nanos(333_333));
        let peak = |micros| burst.peak(Duration::from_micros(micros));
        assert_eq!([peak(1), peak(10), peak(11), peak(21), peak(1_000), peak(1_001)], [1, 1, 2, 3, 3, 4]);
        assert_eq!(burst.at_speed(Speed::new(1, 10).unwrap()).peak(Duration::from_micros(21)), 1);
        assert_eq!(trace(&[(7, 1)]).mean_rate().packets_per_second(), 1.0);
        assert_eq!(trace(&[(7, 1), (7, 1)]).mean_rate().packets_per_second(), 1e9);
        assert_eq!(trace(&[(7, 1), (7, 1)]).peak(Duration::from_nanos(1)), 2);
    }

    #[test]
    fn each_time_is_scaled_for_itself() {
        let thirds = Speed::new(3, 1).unwrap();
        let scaled = trace(&[(0, 1), (1, 1), (2, 1), (3, 1)]).at_speed(thirds);
        let nanos: Vec<u128> = scaled.iter().map(|(time, _)| time.as_nanos()).collect();
        assert_eq!(nanos, [0, 333, 666, 1_000]);
        assert_eq!((Speed::new(0, 1), Speed::new(1, 0)), (None, None));
        let slowest = Speed::new(1, u32::MAX).unwrap();
        assert_eq!(
            trace(&[(0, 1), (u64::MAX / 1_000, 1)]).at_speed(slowest).span().as_nanos(),
            u128::from(u64::MAX)
        );
        assert_eq!(Speed::new(5, 10).unwrap().as_f64(), 0.5);
    }
}
