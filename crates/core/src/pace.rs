//! Rate-based clocking of one flow: [`RateClock`] says when the next packet may leave.
//!
//! A soft event runs a little late, so the time of the next departure is decided in the handler of
//! the last one, against the schedule of the whole train (soft timers §4.1). A flow therefore has at
//! most one event outstanding, and what a stall delayed is made up in small steps, not in one burst:
//!
//! ```text
//!   target T    │     │     │     │     │     │     │     │     the schedule
//!   sent        ●     ●     ●────── stall ──────●───●───●──●    gaps of the burst interval until
//!                                               │ behind   │    the schedule is reached again
//!                                                          on schedule
//! ```
//!
//! How far a flow may fall behind before places are given up is bounded in time and in packets
//! ([`CatchUp`]); what is given up is counted.

use core::fmt;
use core::time::Duration;

use crate::rate::Schedule;
use crate::{Rate, Timestamp};

/// How the next departure is placed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// At its place in the schedule, but no sooner than the burst interval after this departure.
    #[default]
    ExactDeadline,
    /// The paper's rule: one target interval from now while on schedule, one burst interval from now
    /// while behind. The mean is the same, the gaps vary more.
    TwoSpeed,
    /// At its place in the schedule, however close: the baseline that bursts after each stall.
    FixedSeries,
    /// At once: one departure at every trigger state, as in the overhead experiment of soft timers
    /// §5.5. The rate only counts what would have been given up.
    EveryTrigger,
}

/// How much of what a stall delayed is made up. The tighter of the two bounds holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CatchUp {
    /// The longest delay that is made up.
    pub time: Duration,
    /// The most packets that are made up.
    pub packets: u64,
}

impl CatchUp {
    /// Missed places are given up at once: the next departure takes the next place of the schedule.
    pub const NONE: CatchUp = CatchUp { time: Duration::ZERO, packets: 0 };
    /// Everything is made up, however long that takes.
    pub const ALL: CatchUp = CatchUp { time: Duration::MAX, packets: u64::MAX };

    /// Up to `time` is made up, however many packets that is.
    pub const fn within(time: Duration) -> Self {
        CatchUp { time, packets: u64::MAX }
    }
}

impl Default for CatchUp {
    /// 10 ms: longer than the pauses a virtual machine's host inserts, shorter than a receiver's
    /// play-out buffer.
    fn default() -> Self {
        CatchUp::within(Duration::from_millis(10))
    }
}

/// The parameters of a [`RateClock`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaceConfig {
    /// The rate to hold on average over a train.
    pub rate: Rate,
    /// The shortest gap when catching up; `None` is nine sixteenths of the target interval: as fast as
    /// it can be without a receiver seeing two packets back to back. Trigger states come some time
    /// after that, so a longer one may hardly catch up at all.
    pub burst_interval: Option<Duration>,
    /// What is made up after a stall.
    pub catch_up: CatchUp,
    /// How the next departure is placed.
    pub strategy: Strategy,
}

impl PaceConfig {
    /// The defaults at this rate.
    pub fn new(rate: Rate) -> Self {
        PaceConfig { rate, burst_interval: None, catch_up: CatchUp::default(), strategy: Strategy::default() }
    }

    /// The burst interval in effect: the one that was set, or the default.
    pub fn shortest_gap(&self) -> Duration {
        self.burst_interval.unwrap_or(self.rate.interval() * 9 / 16)
    }
}

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateClock {
    config: PaceConfig,
    burst_interval: Duration,
    /// Places that may be behind before the rest is given up.
    most_behind: u64,
    /// The place in the schedule of the next departure.
    next: Schedule,
    departures: u64,
    forfeited: u64,
}

impl RateClock {
    /// A clock that has not started.
    ///
    /// # Errors
    /// [`PaceError`] if the burst interval is longer than the target interval.
    pub fn new(config: PaceConfig) -> Result<Self, PaceError> {
        let target = config.rate.interval();
        let burst_interval = config.shortest_gap();
        if burst_interval > target {
            return Err(PaceError { burst_interval, target });
        }
        let in_time = config.catch_up.time.as_nanos() / target.as_nanos();
        Ok(RateClock {
            config,
            burst_interval,
            most_behind: u64::try_from(in_time).unwrap_or(u64::MAX).min(config.catch_up.packets),
            next: Schedule::starting(config.rate, Timestamp::ZERO),
            departures: 0,
            forfeited: 0,
        })
    }

    /// Begins a train: the first packet is due at `now`, and nothing before counts. Call it at the
    /// start and after the flow has been idle, so that idleness is not taken for falling behind.
    pub fn start(&mut self, now: Timestamp) -> Timestamp {
        self.next = Schedule::starting(self.config.rate, now);
        now
    }

    /// A packet has left at `now`; returns the earliest time for the next one.
    ///
    /// Times must not go backwards. O(1).
    pub fn departed(&mut self, now: Timestamp) -> Timestamp {
        self.departures += 1;
        let on_schedule = now <= self.next.at();
        self.next.advance(1);
        self.forfeit(now);
        let place = self.next.at();
        match self.config.strategy {
            Strategy::ExactDeadline => place.max(now + self.burst_interval),
            Strategy::TwoSpeed if on_schedule => now + self.config.rate.interval(),
            Strategy::TwoSpeed => now + self.burst_interval,
            Strategy::FixedSeries => place,
            Strategy::EveryTrigger => now,
        }
    }

    /// Gives up the places that lie further back than [`CatchUp`] allows.
    fn forfeit(&mut self, now: Timestamp) {
        if now <= self.next.at() {
            return;
        }
        let lost = self.next.places_until(now).saturating_sub(self.most_behind);
        self.next.advance(lost);
        self.forfeited += lost;
    }

    /// Where the next departure belongs in the schedule: the intended time, against which lateness is
    /// measured. The time it may leave can be later, when the flow is catching up.
    pub fn place(&self) -> Timestamp {
        self.next.at()
    }

    /// Packets that have left, over all trains.
    pub fn departures(&self) -> u64 {
        self.departures
    }

    /// Places given up because the flow fell behind by more than [`CatchUp`] allows.
    pub fn forfeited(&self) -> u64 {
        self.forfeited
    }

    /// Places of the schedule that have passed unused and may still be made up.
    pub fn behind(&self, now: Timestamp) -> u64 {
        self.next.places_until(now)
    }

    /// The shortest gap this clock asks for.
    pub fn burst_interval(&self) -> Duration {
        self.burst_interval
    }

    /// The configured rate.
    pub fn rate(&self) -> Rate {
        self.config.rate
    }
}

/// The burst interval is longer than the target interval, so the target could never be held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaceError {
    burst_interval: Duration,
    target: Duration,
}

impl fmt::Display for PaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "burst interval {:?}: at most the target interval, {:?}", self.burst_interval, self.target)
    }
}

impl core::error::Error for PaceError {}
