//! The places of a recording: at its own times from the start on, and none after the last.
//!
//! A recording has no interval of its own by which a delay could be made up: the mean of all gaps says nothing about a
//! regular run beside a long pause. So it is cut into *stretches* of a tenth of a second, and each has a burst interval
//! of its own, 9/16 of the mean gap in it; a gap from one stretch to another has 9/16 of itself:
//!
//! ```text
//!   recorded   │||||    ||||   |    │                         │   |    |    |    |   │
//!              └ 9/16 of the mean ──┘                         └ 9/16 of the mean ────┘
//!                gaps below it are kept, a pause makes up       every gap makes up
//! ```
//!
//! The gaps of a stretch, each at most that long, take at most 9/16 of its time. So a late flow makes up 7/16 of each
//! whole stretch, whatever its shape: a delay is over within 9/7 of its length and two stretches. Inside a stretch short gaps
//! stay as recorded as long as longer ones can make up for them.

use core::ops::Range;
use core::time::Duration;

use super::nine_sixteenths;
use super::trace::Trace;
use crate::time::saturating_nanos;
use crate::{Rate, Timestamp};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Recorded {
    trace: Trace,
    start: Timestamp,
    at: Timestamp,
    /// The index of the packet at the current place; after the last, the number of packets.
    index: usize,
    /// The stretch of that packet, or of the last one.
    stretch: Stretch,
}

/// Packets of the same tenth of a second.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stretch {
    packets: Range<usize>,
    /// In nanoseconds.
    burst_interval: u64,
}

impl Recorded {
    pub(super) fn starting(trace: Trace, start: Timestamp) -> Self {
        let stretch = Stretch::around(&trace, 0);
        Recorded { trace, start, at: start, index: 0, stretch }
    }

    pub(super) fn restart(&mut self, start: Timestamp) {
        (self.start, self.at, self.index) = (start, start, 0);
        self.stretch = Stretch::around(&self.trace, 0);
    }

    /// Returns the current place; after the last packet, the end of time.
    pub(super) fn place(&self) -> Timestamp {
        self.at
    }

    pub(super) fn rate(&self) -> Rate {
        self.trace.mean_rate()
    }

    pub(super) fn length(&self) -> Option<u16> {
        self.trace.length(self.index)
    }

    /// Moves on by `places`. O(1), and O(log n) where a stretch begins.
    pub(super) fn advance(&mut self, places: u64) {
        let packets = self.trace.packets();
        self.index += usize::try_from(places).unwrap_or(usize::MAX).min(packets - self.index);
        self.at = self.trace.time(self.index).map_or(Timestamp::MAX, |time| self.start + time);
        if self.index >= self.stretch.packets.end {
            self.stretch = Stretch::around(&self.trace, self.index.min(packets - 1));
        }
    }

    /// Returns the burst interval of the gap that leads to the current place, in nanoseconds.
    pub(super) fn burst_interval(&self) -> u64 {
        if self.index > self.stretch.packets.start || self.index == 0 {
            return self.stretch.burst_interval;
        }
        // A late flow need not sit out a long pause: a stretch keeps the traffic before it at a distance.
        nine_sixteenths(saturating_nanos(self.gap_behind(1)).min(STRETCH))
    }

    /// Returns the length of the gap of `places` places that leads to the current one; to the first, or past the
    /// last, there is none.
    pub(super) fn gap_behind(&self, places: u64) -> Duration {
        let earlier = self.index.saturating_sub(usize::try_from(places).unwrap_or(usize::MAX));
        let times = self.trace.time(earlier).zip(self.trace.time(self.index));
        times.map_or(Duration::ZERO, |(earlier, here)| here - earlier)
    }

    /// The least number of places after which this is at or past `time`. O(log n).
    pub(super) fn places_before(&self, time: Timestamp) -> u64 {
        self.trace.before(self.index, time.saturating_duration_since(self.start)) as u64
    }
}

impl Stretch {
    /// Returns the stretch of the packet with this index. O(log n).
    fn around(trace: &Trace, index: usize) -> Self {
        let packets = trace.alike(index, |nanos| nanos / STRETCH);
        let time = |index| trace.time(index).map_or(0, saturating_nanos);
        let gaps = packets.len() as u64 - 1;
        let span = time(packets.end - 1) - time(packets.start);
        Stretch { burst_interval: span.checked_div(gaps).map_or(0, nine_sixteenths), packets }
    }
}

/// In nanoseconds. Longer than the pauses between video frames or between the flights of a connection, so that bursts keep
/// their gaps; and soon over.
const STRETCH: u64 = 100_000_000;
