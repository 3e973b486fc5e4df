//! The state machine of one flow: told when a packet left, it says when the next one may.

use core::time::Duration;

use super::{PaceConfig, PaceError, Pattern, Schedule, Strategy};
use crate::time::saturating_nanos;
use crate::{Rate, Timestamp};

/// Departure times of one flow. It reads no clock and sends nothing: tell it when a packet left and
/// it says when the next one may.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{PaceConfig, Rate, RateClock, Timestamp};
///
/// let mut clock = RateClock::new(PaceConfig::new(Rate::every(Duration::from_micros(40))?))?;
/// let at = Timestamp::from_micros;
///
/// assert_eq!(clock.start(at(1_000)), at(1_000));
/// assert_eq!(clock.departed(at(1_000)), at(1_040));
/// assert_eq!(clock.departed(at(1_043)), at(1_080)); // a little late: the schedule stands
/// assert_eq!(clock.departed(at(1_150)), at(1_172) + Duration::from_nanos(500)); // behind: 22.5 µs
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # Cost
/// 120 bytes, no allocation; each operation costs what the [`Schedule`]'s do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateClock {
    schedule: Schedule,
    /// In nanoseconds; at most the interval.
    burst_interval: u64,
    /// The longest delay that is made up, in nanoseconds.
    most_late: u64,
    /// Places that may be behind before the rest is given up.
    most_behind: u64,
    strategy: Strategy,
    departures: u64,
    forfeited: u64,
}

impl RateClock {
    /// A clock that has not started.
    ///
    /// # Errors
    /// [`PaceError`] if the burst interval is longer than the target interval.
    pub fn new(config: PaceConfig) -> Result<Self, PaceError> {
        let PaceConfig { rate, pattern, catch_up, strategy, .. } = config;
        let target = rate.interval();
        let burst_interval = config.shortest_gap();
        if burst_interval > target {
            return Err(PaceError { burst_interval, target });
        }
        let in_time = catch_up.time.as_nanos() / target.as_nanos();
        let in_time = if pattern == Pattern::Constant { u64::try_from(in_time).ok() } else { None };
        Ok(RateClock {
            schedule: Schedule::new(rate, pattern, Timestamp::ZERO),
            burst_interval: saturating_nanos(burst_interval),
            most_late: saturating_nanos(catch_up.time),
            most_behind: in_time.unwrap_or(u64::MAX).min(catch_up.packets),
            strategy,
            departures: 0,
            forfeited: 0,
        })
    }

    /// Begins a train: the first packet is due at `now`, and nothing before counts. Call it at the
    /// start and after the flow has been idle, so that idleness is not taken for falling behind.
    pub fn start(&mut self, now: Timestamp) -> Timestamp {
        self.schedule.restart(now);
        now
    }

    /// A packet has left at `now`; returns the earliest time for the next one.
    ///
    /// Times must not go backwards.
    pub fn departed(&mut self, now: Timestamp) -> Timestamp {
        self.departures += 1;
        let last = self.schedule.place();
        self.schedule.advance();
        let gap = self.schedule.place().saturating_duration_since(last);
        self.forfeit(now);
        let place = self.schedule.place();
        let own_gap = place.saturating_duration_since(last);
        let shortest = own_gap.min(self.burst_interval());
        match self.strategy {
            Strategy::ExactDeadline => place.max(now + shortest),
            Strategy::TwoSpeed if now <= last => now + own_gap,
            Strategy::TwoSpeed => now + shortest,
            Strategy::FixedSeries => place,
            Strategy::Relative => now + gap,
            Strategy::EveryTrigger => now,
        }
    }

    /// Gives up the places that lie further back than [`CatchUp`](super::CatchUp) allows.
    fn forfeit(&mut self, now: Timestamp) {
        if now <= self.schedule.place() {
            return;
        }
        let oldest = now.saturating_sub(Duration::from_nanos(self.most_late));
        let given_up = self.schedule.give_up(oldest, now, self.most_behind);
        self.forfeited = self.forfeited.saturating_add(given_up);
    }

    /// Where the next departure belongs in the schedule: the intended time, against which lateness is
    /// measured. The time it may leave can be later, when the flow is catching up.
    pub fn place(&self) -> Timestamp {
        self.schedule.place()
    }

    /// Packets that have left, over all trains.
    pub fn departures(&self) -> u64 {
        self.departures
    }

    /// Places given up because the flow fell behind by more than [`CatchUp`](super::CatchUp) allows,
    /// counted as by [`Schedule::advance_to`].
    pub fn forfeited(&self) -> u64 {
        self.forfeited
    }

    /// Places of the schedule that have passed unused and may still be made up.
    pub fn behind(&self, now: Timestamp) -> u64 {
        self.schedule.places_before(now)
    }

    /// The shortest gap this clock asks for, except where the schedule's own are shorter.
    pub fn burst_interval(&self) -> Duration {
        Duration::from_nanos(self.burst_interval)
    }

    /// The configured rate: the mean, or the rate while on.
    pub fn rate(&self) -> Rate {
        self.schedule.rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There may be a hundred thousand of them.
    #[test]
    fn a_clock_is_small_whatever_its_pattern() {
        assert!(size_of::<Schedule>() <= 72 && size_of::<RateClock>() <= 120);
    }
}
