//! The state machine of one flow: given when a packet left, it returns when the next one may.

use alloc::boxed::Box;
use core::time::Duration;

use super::lane::Lane;
use super::recovery::{Behind, Spell};
use super::{Counts, PaceConfig, PaceError, Recovery, Schedule, Strategy, Trace, nine_sixteenths};
use crate::time::saturating_nanos;
use crate::{Rate, Timestamp};

/// Departure times of one flow. It reads no clock and sends nothing: tell it when a packet left, and it
/// returns when the next one may.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{Rate, RateClock, Timestamp};
///
/// let mut clock = RateClock::from(Rate::pps(25_000)); // RateClock::new takes all of a PaceConfig
/// let at = Timestamp::from_micros;
///
/// assert_eq!(clock.start(at(1_000)), at(1_000));
/// assert_eq!(clock.departed(at(1_000)), at(1_040));
/// assert_eq!(clock.departed(at(1_043)), at(1_080)); // a little late: the schedule stands
/// assert_eq!(clock.departed(at(1_150)), at(1_172) + Duration::from_nanos(500)); // behind: 22.5 µs
/// ```
///
/// # Cost
/// 120 bytes, and what its [`Schedule`] allocates; each operation costs what the [`Schedule`]'s do.
// In this order in memory: first what each departure touches, then what only a change of the rate or a
// flow that is behind needs. With ten thousand flows a departure costs the cache lines that it touches.
#[repr(C)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateClock {
    schedule: Schedule,
    /// In nanoseconds, of one packet.
    burst_interval: u64,
    departures: u64,
    /// The packets that left last, for a change of the rate.
    latest: Batch,
    strategy: Strategy,
    counts: Counts,
    /// No burst interval was set: it is nine sixteenths of the gap, or that of the recording.
    burst_by_rate: bool,
    /// A train has begun, and nothing of it has left.
    beginning: bool,
    seldom: Seldom,
}

/// The state that few departures need.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seldom {
    /// The configured burst interval, which may be too long for a higher rate.
    asked: u64,
    /// The longest delay that is made up, in nanoseconds.
    most_late: u64,
    /// The number of packets that a flow may be behind before it skips the others.
    most_behind: u64,
    forfeited: u64,
    /// The catch-up in progress, where trains may end it: few flows have one.
    spell: Option<Box<Spell>>,
}

/// The packets that leave at once: one, or several as a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Batch {
    at: Timestamp,
    packets: u32,
    /// Scheduled times that they take.
    places: u32,
}

impl RateClock {
    /// A clock that has not started.
    ///
    /// # Errors
    /// [`PaceError`] if the burst interval is longer than the target interval, or bytes are counted and
    /// the pattern is not constant.
    pub fn new(config: PaceConfig) -> Result<Self, PaceError> {
        RateClock::along(Schedule::new(config.rate, config.pattern, Timestamp::ZERO), config)
    }

    /// Makes a clock for the scheduled times of a recording. `config.rate` limits a configured burst interval, so it
    /// is best the recording's [mean](Trace::mean_rate); `config.pattern` is ignored.
    ///
    /// The rule is that of every schedule: the recording's own gaps are kept, and the flow catches up in
    /// those that are longer than the burst interval. If none is configured, it is nine sixteenths of the mean gap
    /// within each tenth of a second of the recording. So a delay is made up within 9/7 of its length and 0.2 s, whatever
    /// the shape of the recording, where the flow is told of each packet in time. Once the last packet has left, the next
    /// departure is at [`Timestamp::MAX`].
    ///
    /// # Errors
    /// [`PaceError`] if the burst interval is longer than that of `config.rate`, or bytes are counted.
    pub fn replay(trace: Trace, config: PaceConfig) -> Result<Self, PaceError> {
        RateClock::along(Schedule::replay(trace, Timestamp::ZERO), config)
    }

    fn along(schedule: Schedule, config: PaceConfig) -> Result<Self, PaceError> {
        let (burst_interval, target) = (config.shortest_gap(), config.rate.interval());
        let counts = config.counts;
        if counts == Counts::Bytes && !schedule.is_even() {
            return Err(PaceError::BytesOfPackets);
        }
        if counts == Counts::Packets && burst_interval > target {
            return Err(PaceError::LongBurstInterval { burst_interval, target });
        }
        Ok(RateClock::along_checked(schedule, config))
    }

    fn along_checked(schedule: Schedule, config: PaceConfig) -> Self {
        let burst_interval = config.shortest_gap();
        let PaceConfig { catch_up, strategy, counts, recovery, .. } = config;
        // The other strategies keep no gap that trains could shorten.
        let spaced = matches!(strategy, Strategy::ExactDeadline | Strategy::TwoSpeed);
        RateClock {
            schedule,
            burst_interval: saturating_nanos(burst_interval),
            departures: 0,
            latest: Batch { at: Timestamp::ZERO, packets: 0, places: 0 },
            strategy,
            counts,
            burst_by_rate: config.burst_interval.is_none(),
            beginning: true,
            seldom: Seldom {
                asked: saturating_nanos(burst_interval),
                most_late: saturating_nanos(catch_up.time),
                most_behind: catch_up.packets,
                forfeited: 0,
                spell: (spaced && recovery.train > 1).then(|| Box::new(Spell::new(recovery))),
            },
        }
    }

    /// Begins a train: the first packet is due at `now`, and nothing before counts. Call it at the
    /// start and after the flow has been idle, so that idleness is not taken for falling behind.
    pub fn start(&mut self, now: Timestamp) -> Timestamp {
        self.schedule.restart(now);
        self.beginning = true;
        now
    }

    /// Counts a packet that left at `now`; returns the earliest time for the next one. (For a clock that
    /// counts bytes it is a packet of one byte.)
    ///
    /// Times must not go backwards.
    pub fn departed(&mut self, now: Timestamp) -> Timestamp {
        self.departed_together(now, 1, 1)
    }

    /// Counts `packets` that have left together at `now`, with `bytes` in all; returns the earliest time
    /// for the next one. They take as many scheduled times as they would have one by one, so the gap after
    /// them is that of all of them, and so is the burst interval.
    ///
    /// Times must not go backwards.
    ///
    /// ```
    /// use softtimers_core::{PaceConfig, RateClock, Timestamp};
    ///
    /// let mut clock = RateClock::new(PaceConfig::bits_per_second(100_000_000)?)?;
    /// let at = Timestamp::from_micros;
    /// clock.start(at(1_000));
    /// assert_eq!(clock.departed_together(at(1_000), 1, 1_500), at(1_120));
    /// assert_eq!(clock.departed_together(at(1_120), 4, 4 * 1_500), at(1_600));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    // Inlined always: with one packet at a time half of it is constant, which saves 7% of a queue's
    // departure.
    #[inline(always)]
    pub fn departed_together(&mut self, now: Timestamp, packets: u32, bytes: u32) -> Timestamp {
        self.departures += u64::from(packets);
        let places = if self.counts == Counts::Bytes { bytes } else { packets };
        let before = core::mem::replace(&mut self.latest, Batch { at: now, packets, places });
        let first = core::mem::replace(&mut self.beginning, false);
        let last = self.schedule.place();
        self.schedule.leap(u64::from(places));
        let gap = self.schedule.place().nanos_since(last);
        if now > self.schedule.place() && self.is_hurried(before.at, first, gap) {
            return now;
        }
        if self.is_over() {
            return Timestamp::MAX;
        }
        let place = self.schedule.place();
        let own_gap = place.nanos_since(last);
        let shortest = own_gap.min(self.shortest_after(packets, gap));
        match self.strategy {
            Strategy::ExactDeadline => place.max(now.after(shortest)),
            Strategy::TwoSpeed if now <= last => now.after(own_gap),
            Strategy::TwoSpeed => now.after(shortest),
            Strategy::FixedSeries => place,
            Strategy::Relative => now.after(gap),
            Strategy::EveryTrigger => now,
        }
    }

    /// Changes the rate from `now` on, without a burst; returns the earliest time for the next departure.
    ///
    /// The rate is integrated, so that a flow whose rate changes all the time keeps its mean: a gap of which
    /// a third has passed is a third over at the new rate, and a flow that is three packets behind still is.
    /// The next departure is never sooner after the last one than the new burst interval:
    ///
    /// ```text
    ///   at 40 µs       ●───────────┊───────────│
    ///   then at 10 µs  ●───────────┊──●  ●  ●  ●     half of a gap was left
    ///   or at 80 µs    ●───────────┊───────────────────────●
    /// ```
    ///
    /// ```
    /// use core::time::Duration;
    /// use softtimers_core::{PaceConfig, Rate, RateClock, Timestamp};
    ///
    /// let every = |micros| Rate::every(Duration::from_micros(micros));
    /// let at = Timestamp::from_micros;
    /// let mut clock = RateClock::new(PaceConfig::new(every(40)?))?;
    /// clock.start(at(1_000));
    /// assert_eq!(clock.departed(at(1_000)), at(1_040));
    /// assert_eq!(clock.set_rate(at(1_020), every(10)?), at(1_025));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// [Patterns](crate::Pattern) with gaps of their own no longer catch up: a Poisson flow draws its next
    /// gap anew, trains take their next scheduled time in the same periods. A recording keeps its times, and its own
    /// burst intervals. A configured burst interval is kept; if the new interval is shorter,
    /// it takes the place of the burst interval, and the flow cannot catch up.
    pub fn set_rate(&mut self, now: Timestamp, rate: Rate) -> Timestamp {
        let Batch { at, packets, places } = self.latest;
        let under_way = if self.beginning { 0 } else { u64::from(places) };
        self.schedule.set_rate(now, rate, under_way);
        let interval = saturating_nanos(rate.interval());
        self.burst_interval = match self.counts {
            _ if self.burst_by_rate => nine_sixteenths(interval),
            Counts::Packets => self.seldom.asked.min(interval),
            Counts::Bytes => self.seldom.asked,
        };
        if self.is_over() {
            return Timestamp::MAX;
        }
        let gap = self.schedule.gap_behind(u64::from(places));
        let shortest = gap.min(self.shortest_after(packets, gap));
        match self.strategy {
            Strategy::EveryTrigger => now,
            Strategy::Relative if !self.beginning => at.after(gap),
            Strategy::FixedSeries | Strategy::Relative => self.place(),
            Strategy::ExactDeadline | Strategy::TwoSpeed => self.place().max(at.after(shortest)),
        }
    }

    /// Lends the state that departures on schedule need, where the next packet may leave at `release`. The
    /// lane is closed if another rule holds for this clock, or `may_open` is false.
    pub(super) fn lane(&self, release: Timestamp, may_open: bool) -> Lane {
        let (place, floor) = (self.place().as_nanos(), release.as_nanos());
        let closed = Lane { place, floor, beginning: self.beginning, ..Lane::CLOSED };
        let plain = self.strategy == Strategy::ExactDeadline && self.counts == Counts::Packets;
        let (interval, burst) = (self.schedule.whole_interval(), u32::try_from(self.burst_interval));
        let (Some(interval), Ok(burst)) = (interval, burst) else { return closed };
        if !(may_open && plain && self.seldom.spell.is_none()) {
            return closed;
        }
        let kept = self.seldom.most_behind.min(self.seldom.most_late / u64::from(interval));
        Lane { interval, burst, most_behind: u8::try_from(kept).unwrap_or(u8::MAX), ..closed }
    }

    /// Takes over the departures of a lane that this clock lent.
    pub(super) fn settle(&mut self, lane: &Lane) {
        if !lane.is_open() {
            return;
        }
        self.schedule.restart(Timestamp::from_nanos(lane.place));
        self.beginning = lane.beginning;
        self.departures += u64::from(lane.packets);
        if lane.packets > 0 {
            let at = Timestamp::from_nanos(lane.floor - u64::from(lane.burst));
            self.latest = Batch { at, packets: 1, places: 1 };
        }
    }

    /// Returns the burst interval of `packets` packets, whose own gap is `gap`; all in nanoseconds.
    #[inline]
    fn shortest_after(&self, packets: u32, gap: u64) -> u64 {
        match self.counts {
            Counts::Packets => self.burst_of_one().saturating_mul(u64::from(packets)),
            Counts::Bytes if self.burst_by_rate => nine_sixteenths(gap),
            Counts::Bytes => self.burst_interval.saturating_mul(u64::from(packets)).min(gap),
        }
    }

    /// Skips scheduled times that lie too far back when the flow is behind. Returns whether the next packet
    /// may leave at once, in a train, so that the catch-up ends in time.
    #[inline(never)]
    fn is_hurried(&mut self, before: Timestamp, first: bool, gap: u64) -> bool {
        let Batch { at: now, packets, .. } = self.latest;
        self.forfeit(now);
        let place = self.schedule.place();
        let places = u64::from(self.latest.places);
        let interval = match self.schedule.recorded_burst_interval() {
            // The mean of a recording is that of no part of it.
            Some(burst) if self.burst_by_rate => (burst / 9 * 16).saturating_mul(places),
            _ => self.schedule.rate().span_nanos(places),
        };
        let behind = Behind {
            now,
            gap: now.nanos_since(before),
            by: now.nanos_since(place),
            interval,
            shortest: self.shortest_after(packets, gap),
            packets,
            departures: self.departures as u32,
            first,
        };
        let spell = self.seldom.spell.as_mut().filter(|_| now > place);
        spell.is_some_and(|spell| spell.departed(behind))
    }

    /// Skips the scheduled times that lie further back than [`CatchUp`](super::CatchUp) allows.
    fn forfeit(&mut self, now: Timestamp) {
        // Bytes do not say how many packets are behind: assume packets as long as those that have just left.
        let Batch { packets, places, .. } = self.latest;
        let each = u64::from(places / packets.max(1));
        let most = self.seldom.most_behind.saturating_mul(each.max(1));
        let given_up = self.schedule.give_up(now, self.seldom.most_late, most);
        self.seldom.forfeited = self.seldom.forfeited.saturating_add(given_up);
    }

    /// Returns the scheduled time of the next departure: the intended time, against which lateness is measured. The
    /// time it may leave can be later, when the flow is catching up. [`Timestamp::ZERO`] before the flow was started.
    #[inline]
    pub fn place(&self) -> Timestamp {
        self.schedule.place()
    }

    /// Returns the length in bytes of the packet at that scheduled time, if a recording has it.
    pub fn length(&self) -> Option<u16> {
        self.schedule.length()
    }

    /// Returns whether no scheduled time is left: a recording is over.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.place() == Timestamp::MAX
    }

    /// Returns the number of packets that have left, over all trains.
    pub fn departures(&self) -> u64 {
        self.departures
    }

    /// Returns the number of scheduled times, of packets or of bytes, skipped because the flow fell behind by
    /// more than [`CatchUp`](super::CatchUp) allows, counted as by [`Schedule::advance_to`].
    pub fn forfeited(&self) -> u64 {
        self.seldom.forfeited
    }

    /// Returns the number of scheduled times that have passed unused and may still be made up.
    pub fn behind(&self, now: Timestamp) -> u64 {
        self.schedule.places_before(now)
    }

    /// Returns the time that `packets` packets, of `bytes` in all, take at the rate; the mean of other patterns.
    pub fn time_of(&self, packets: u32, bytes: u64) -> Duration {
        let places = if self.counts == Counts::Bytes { bytes } else { u64::from(packets) };
        Duration::from_nanos(self.schedule.rate().span_nanos(places))
    }

    /// Returns the shortest gap that this clock keeps before the current place, except where the schedule's own are
    /// shorter. If none was set, it is the [recording's](Self::replay) there; and where bytes are counted, it depends
    /// on the packet: nine sixteenths of its gap.
    pub fn burst_interval(&self) -> Duration {
        Duration::from_nanos(self.burst_of_one())
    }

    /// Returns the burst interval of one packet, in nanoseconds.
    #[inline]
    fn burst_of_one(&self) -> u64 {
        match self.schedule.recorded_burst_interval() {
            Some(recorded) if self.burst_by_rate => recorded,
            _ => self.burst_interval,
        }
    }

    /// Returns the trains that may end a catch-up; none for a strategy without a burst interval.
    pub fn recovery(&self) -> Recovery {
        self.seldom.spell.as_ref().map_or(Recovery::NONE, |spell| spell.recovery())
    }

    /// Returns what the rate counts.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the rate: the mean, or the rate while on.
    pub fn rate(&self) -> Rate {
        self.schedule.rate()
    }
}

/// The defaults at this rate, which are always valid.
impl From<Rate> for RateClock {
    fn from(rate: Rate) -> Self {
        let config = PaceConfig::new(rate);
        RateClock::along_checked(Schedule::new(rate, config.pattern, Timestamp::ZERO), config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There may be a hundred thousand of them.
    #[test]
    fn a_clock_is_small_whatever_its_pattern() {
        assert!(size_of::<Schedule>() <= 40 && size_of::<RateClock>() <= 120);
    }
}
