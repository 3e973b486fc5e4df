//! The lane of a flow that is on schedule: the part of its [`RateClock`](super::RateClock) that a departure
//! needs, in half a cache line.
//!
//! A clock has 120 bytes, because it serves every pattern, strategy and unit. Most flows of a queue have the plain ones,
//! and are on schedule or a little behind. Their departures need a scheduled time, an interval and a burst interval:
//!
//! ```text
//!   lane    place floor interval burst counts      open: departures are counted here, and the clock does not know yet
//!     ▲ │
//!     │ └─ settle: the clock takes over what has departed
//!     └─── open: the clock lends its state
//!   clock   schedule, pattern, strategy, counts, catch-up, …
//! ```
//!
//! The rule of a departure on schedule is written twice for that, here and in `departed_together` of the
//! clock. Anything else (another rate, places to skip, the end of time) settles the lane and is left to the
//! clock.

use crate::Timestamp;

/// The part of a flow's pace that a departure on schedule reads and writes. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Lane {
    pub(super) place: u64,
    /// For an open lane, the end of the burst interval that the last departure began; for a closed one, when the next
    /// packet may leave.
    pub(super) floor: u64,
    /// Zero: the lane is closed, and each departure is the clock's.
    pub(super) interval: u32,
    pub(super) burst: u32,
    /// Bytes that have departed since the lane was opened.
    pub(super) bytes: u32,
    pub(super) packets: u16,
    /// The most places that a departure may leave behind without skipping any.
    pub(super) most_behind: u8,
    /// A train has begun, and nothing of it has left.
    pub(super) beginning: bool,
}

impl Lane {
    /// The lane of no flow.
    pub(super) const CLOSED: Lane = Lane {
        place: 0,
        floor: 0,
        interval: 0,
        burst: 0,
        bytes: 0,
        packets: 0,
        most_behind: 0,
        beginning: true,
    };

    /// Returns when the next packet may leave.
    #[inline]
    pub(super) fn release(&self) -> Timestamp {
        Timestamp::from_nanos(if self.is_open() { self.place.max(self.floor) } else { self.floor })
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.interval != 0
    }

    /// Begins a train, which is no sooner than the next packet might have left. Only of an open lane.
    #[inline]
    pub(super) fn start(&mut self, now: Timestamp) {
        (self.place, self.beginning) = (now.as_nanos(), true);
    }

    /// Counts a departure. Returns false, without a change, if the clock must do it.
    #[inline(always)]
    pub(super) fn departed(&mut self, now: Timestamp, bytes: u32) -> bool {
        let now = now.as_nanos();
        let interval = u64::from(self.interval);
        let place = self.place.saturating_add(interval);
        let floor = now.saturating_add(u64::from(self.burst));
        let (sum, too_many_bytes) = self.bytes.overflowing_add(bytes);
        let behind = now.saturating_sub(place) > u64::from(self.most_behind) * interval;
        let at_an_end = (self.packets == u16::MAX) | ((place | floor) >= END);
        if !self.is_open() | behind | too_many_bytes | at_an_end {
            return false;
        }
        (self.place, self.floor, self.bytes) = (place, floor, sum);
        self.packets += 1;
        self.beginning = false;
        true
    }
}

/// From here on the clock handles departures, which keeps time from overflowing: 292 years.
const END: u64 = 1 << 63;

const _: () = assert!(size_of::<Lane>() == 32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CatchUp, PaceConfig, Rate, RateClock};
    use core::time::Duration;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        /// A packet leaves this long after it might have.
        Depart(u64),
        /// The flow was idle for this long.
        Start(u64),
        SetRate(u64),
        Settle,
    }

    fn ops() -> impl Strategy<Value = Op> {
        let late = prop_oneof![3 => Just(0u64), 3 => 0u64..30_000, 2 => 0u64..400_000, 1 => 0u64..1 << 62];
        prop_oneof![
            8 => late.prop_map(Op::Depart),
            1 => (0u64..1_000_000).prop_map(Op::Start),
            1 => (1u64..200_000).prop_map(Op::SetRate),
            1 => Just(Op::Settle),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// A clock with a lane and one without tell the same times, whenever the lane is settled.
        #[test]
        fn a_lane_is_its_clock(
            interval in 1u64..100_000, burst in prop::option::of(0u64..=100), catch_up in 0u64..3_000_000,
            packets in prop_oneof![Just(u64::MAX), 0u64..4], ops in prop::collection::vec(ops(), 1..crate::effort::operations(200) as usize),
        ) {
            let pace = PaceConfig {
                burst_interval: burst.map(|percent| Duration::from_nanos(interval * percent / 100)),
                catch_up: CatchUp { time: Duration::from_nanos(catch_up), packets },
                ..PaceConfig::new(Rate::every(Duration::from_nanos(interval)).unwrap())
            };
            let (mut alone, mut clock) = (RateClock::new(pace).unwrap(), RateClock::new(pace).unwrap());
            let mut release = alone.start(Timestamp::ZERO);
            clock.start(Timestamp::ZERO);
            let mut lane = clock.lane(release, true);
            prop_assert!(lane.is_open());
            for op in ops {
                match op {
                    Op::Depart(late) => {
                        let now = release.after(late);
                        release = alone.departed(now);
                        if !lane.departed(now, 1) {
                            clock.settle(&lane);
                            lane = { let release = clock.departed(now); clock.lane(release, true) };
                        }
                    }
                    Op::Start(later) => {
                        release = alone.start(release.after(later));
                        lane.start(release);
                    }
                    Op::SetRate(nanos) => {
                        let (now, rate) = (release.saturating_sub(Duration::from_nanos(nanos / 2)), Rate::every(Duration::from_nanos(nanos)).unwrap());
                        release = alone.set_rate(now, rate);
                        clock.settle(&lane);
                        lane = { let release = clock.set_rate(now, rate); clock.lane(release, true) };
                    }
                    Op::Settle => {
                        clock.settle(&lane);
                        lane = clock.lane(lane.release(), true);
                        prop_assert_eq!(&clock, &alone);
                    }
                }
                prop_assert_eq!((lane.release(), lane.place), (release, alone.place().as_nanos()));
            }
            clock.settle(&lane);
            prop_assert_eq!(clock, alone);
        }
    }

    /// Returns a lane that makes up at most `most_behind` places, and its clock.
    fn lane(most_behind: u64) -> (RateClock, Lane) {
        let catch_up = CatchUp { time: Duration::MAX, packets: most_behind };
        let rate = Rate::every(Duration::from_nanos(INTERVAL)).unwrap();
        let mut clock = RateClock::new(PaceConfig { catch_up, ..PaceConfig::new(rate) }).unwrap();
        let release = clock.start(Timestamp::ZERO);
        let lane = clock.lane(release, true);
        (clock, lane)
    }

    const INTERVAL: u64 = 1_000;

    /// A departure is the lane's up to the last nanosecond at which the clock would skip no place for it.
    #[test]
    fn a_lane_ends_where_the_clock_would_skip_a_place() {
        for most_behind in [0, 1, 3, 255] {
            let last = (1 + most_behind) * INTERVAL;
            for (now, on_schedule) in [(last - 1, true), (last, true), (last + 1, false)] {
                let (mut clock, mut lane) = lane(most_behind);
                let at = Timestamp::from_nanos(now);
                assert_eq!(lane.departed(at, 1), on_schedule, "{now}, {most_behind} behind");
                clock.departed(at);
                assert_eq!(clock.forfeited() == 0, on_schedule, "{now}, {most_behind} behind");
            }
        }
    }

    /// The count of packets is full once, and goes on after the clock has taken it over.
    #[test]
    #[cfg_attr(miri, ignore = "70,000 departures")]
    fn a_lane_counts_as_far_as_it_can() {
        let (mut clock, mut lane) = lane(1);
        for packet in 0..70_000 {
            let now = lane.release();
            if !lane.departed(now, 0) {
                assert_eq!((packet, lane.packets), (u64::from(u16::MAX), u16::MAX));
                clock.settle(&lane);
                lane = {
                    let release = clock.departed(now);
                    clock.lane(release, true)
                };
            }
        }
        clock.settle(&lane);
        assert_eq!((clock.departures(), clock.place().as_nanos()), (70_000, 70_000 * INTERVAL));
    }
}
