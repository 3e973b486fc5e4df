//! The traffic of a run: scheduled times, flows, and the end. No part of this module uses a socket.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Serialize;
use softtimers_core::{PaceConfig, PaceError, Pattern, Random, Rate, RateClock, Recovery, Trace};

use crate::pattern::SendPattern;
use crate::train::TrainLimit;

/// The traffic of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Traffic {
    /// Rate, pattern with its seed, burst interval and catch-up of each flow.
    pub pace: PaceConfig,
    /// The recording that replaces the pattern, if any: the rate is then its mean.
    pub trace: Option<Trace>,
    /// Payload bytes of each datagram, or of a recording's longest: [`wire::MIN_SIZE`](crate::wire::MIN_SIZE) to
    /// [`wire::MAX_SIZE`](crate::wire::MAX_SIZE).
    pub size: usize,
    /// Flows side by side, each at that rate.
    pub flows: u32,
    /// When each of several begins.
    pub phase: Phase,
    /// The most datagrams of several flows in a row; `None` for no limit. One flow has [`Recovery`] in its pace.
    pub train: Option<NonZeroU32>,
    /// The time between two collections of the departures of several flows, by softtimers' departure queue; zero for none.
    pub slot: Duration,
    /// Datagrams of a flow that leave at once: 1 to 64.
    pub quantum: u32,
    /// Asks the kernel to segment a quantum into its datagrams.
    pub gso: bool,
    /// When the run ends: as soon as either bound is reached.
    pub end: End,
}

/// The bounds of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct End {
    /// The longest time that the run lasts.
    pub duration: Option<Duration>,
    /// The most datagrams that are sent.
    pub count: Option<u64>,
}

impl Traffic {
    /// The default trains that end a catch-up of one flow: they sustain 25,000 packets/s with 70 µs between two clock
    /// checks, and a queue on the path has room for three.
    pub const RECOVERY: Recovery = Recovery::trains(3);

    /// Creates one even flow of datagrams of 1,200 bytes, without an end.
    pub fn new(rate: Rate) -> Self {
        Traffic {
            pace: PaceConfig { recovery: Traffic::RECOVERY, ..PaceConfig::new(rate) },
            trace: None,
            size: USUAL_SIZE,
            flows: 1,
            phase: Phase::default(),
            train: None,
            slot: Duration::ZERO,
            quantum: 1,
            gso: true,
            end: End::default(),
        }
    }

    /// Returns the clock of a flow, not started.
    ///
    /// # Errors
    /// If the burst interval is longer than the interval.
    pub fn clock(&self) -> Result<RateClock, PaceError> {
        match &self.trace {
            Some(trace) => RateClock::replay(trace.clone(), self.pace),
            None => RateClock::new(self.pace),
        }
    }

    /// Returns the distribution of departures over time, as in a report.
    pub fn pattern(&self) -> String {
        if self.trace.is_some() {
            "recorded".to_owned()
        } else {
            SendPattern::from(self.pace.pattern).to_string()
        }
    }

    /// Returns the default limit of trains for these flows: a short one, where their sum is even.
    #[must_use]
    pub fn usual_train(&self) -> Option<NonZeroU32> {
        self.is_even_sum().then_some(SHORT_TRAIN)
    }

    /// Returns the slot for trains of `most` of these flows: a whole part of the interval, so that each flow keeps its own;
    /// zero where their sum is not even.
    #[must_use]
    pub fn slot_of(&self, most: NonZeroU32) -> Duration {
        if !self.is_even_sum() || self.pace.pattern != Pattern::Constant {
            return Duration::ZERO;
        }
        self.pace.rate.interval() / self.flows.div_ceil(most.get())
    }

    /// Returns whether there are several flows, whose departures together are even.
    fn is_even_sum(&self) -> bool {
        // A quantum is a requested train.
        let poisson = matches!(self.pace.pattern, Pattern::Poisson { .. });
        self.flows > 1 && !poisson && self.phase == Phase::Spread && self.quantum == 1
    }

    /// Returns the default slack of a departure. One flow may not be late at all; several collect departures within a
    /// short time, so that a wake-up serves more than one of them, unless a slot collects them.
    #[must_use]
    pub fn usual_slack(&self) -> Duration {
        if self.flows > 1 && self.slot.is_zero() {
            MOST_SLACK.min(self.pace.rate.interval() / SLACK_SHARE)
        } else {
            Duration::ZERO
        }
    }

    /// Returns the expected duration of the run, if it is known.
    pub fn expected(&self) -> Option<Duration> {
        let recorded = self.trace.as_ref().map(Trace::span);
        [self.end.duration, recorded].into_iter().flatten().min()
    }

    /// Returns the limit that keeps all flows together from leaving in one burst: trains with pauses between them,
    /// however short the burst interval.
    pub(crate) fn train_limit(&self) -> TrainLimit {
        // A shorter pause would not count: packets closer than half of the common interval are back to back.
        let pause = self.pace.rate.interval() / self.flows / 2 + Duration::from_nanos(1);
        let gap = self.pace.shortest_gap() / self.flows;
        self.train.map_or(TrainLimit::NONE, |most| TrainLimit::new(most, pause.max(gap)))
    }

    /// Returns the seed, if the traffic is random.
    pub fn seed(&self) -> Option<u64> {
        if let Pattern::Poisson { seed } = self.pace.pattern { Some(seed) } else { self.phase.seed() }
    }

    /// Returns departures a second, of all flows together.
    pub fn target_pps(&self) -> f64 {
        self.pace.mean_rate().packets_per_second() * f64::from(self.flows)
    }

    /// Returns the highest rate in departures a second, of all flows together: while on, or a recording's maximum
    /// within any second.
    pub fn highest_pps(&self) -> f64 {
        let mean = self.pace.mean_rate();
        let of_each = match &self.trace {
            Some(trace) => trace.peak(Duration::from_secs(1)) as f64,
            // On periods shorter than the interval begin faster than their rate says.
            None if mean.interval() < self.pace.rate.interval() => mean.packets_per_second(),
            None => self.pace.rate.packets_per_second(),
        };
        of_each * f64::from(self.flows)
    }
}

/// When each of several flows begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// One after the other within an interval, so that the sum of even flows is even.
    #[default]
    Spread,
    /// All flows begin at once.
    Together,
    /// Anywhere within an interval.
    Random {
        /// The seed: the same number gives the same phases.
        seed: u64,
    },
}

impl Phase {
    /// Returns by how much one of several flows, each at this rate, begins later than the run.
    pub fn offset(self, flow: u32, flows: u32, rate: Rate) -> Duration {
        let interval = rate.interval();
        let part = |nanos: u128| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        match self {
            Phase::Spread => part(interval.as_nanos() * u128::from(flow) / u128::from(flows)),
            Phase::Together => Duration::ZERO,
            Phase::Random { seed } => {
                let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
                Duration::from_nanos(Random::stream(seed, flow.into()).below(nanos))
            }
        }
    }

    /// Returns the seed of random ones.
    pub fn seed(self) -> Option<u64> {
        if let Phase::Random { seed } = self { Some(seed) } else { None }
    }

    /// Returns the name as typed.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Spread => "spread",
            Phase::Together => "together",
            Phase::Random { .. } => "random",
        }
    }
}

impl Serialize for Phase {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Saturates after 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const USUAL_SIZE: usize = 1_200;

/// Shorter than almost any queue on a path.
const SHORT_TRAIN: NonZeroU32 = NonZeroU32::new(8).unwrap();

/// Gaps between departures that are late by up to 20 µs have a standard deviation of 8 µs. At 64,000 packets/s a
/// wake-up then serves two.
const MOST_SLACK: Duration = Duration::from_micros(20);

/// No gap is off by more than 3% because of it.
const SLACK_SHARE: u32 = 32;

#[cfg(test)]
mod tests {
    use softtimers_core::Timestamp;

    use super::*;
    use crate::gaps::{self, Gaps};

    const INTERVAL: Duration = Duration::from_millis(1);

    #[test]
    fn phases_share_an_interval() {
        let rate = Rate::every(INTERVAL).unwrap();
        let offsets = |phase: Phase| (0..4).map(|flow| phase.offset(flow, 4, rate)).collect::<Vec<_>>();
        let micros = Duration::from_micros;
        assert_eq!(offsets(Phase::Spread), [micros(0), micros(250), micros(500), micros(750)]);
        assert_eq!(offsets(Phase::Together), [Duration::ZERO; 4]);
    }

    /// After a pause of 1,000 flows, a train ends where the report says, whatever the burst interval.
    #[test]
    fn trains_are_apart_however_short_the_burst_interval() {
        let most = NonZeroU32::new(3).unwrap();
        for (interval, burst, flows) in
            [(1_000_000, 1, 1_000), (1_001_999, 999, 1_000), (777_777, 600_000, 7)]
        {
            let rate = Rate::every(Duration::from_nanos(interval)).unwrap();
            let burst_interval = Some(Duration::from_nanos(burst));
            let pace = PaceConfig { burst_interval, ..PaceConfig::new(rate) };
            let mut limit = Traffic { pace, flows, train: Some(most), ..Traffic::new(rate) }.train_limit();
            let mut gaps = Gaps::new(Some(rate.interval() / flows));
            let (mut train, mut now) = (gaps::Train::default(), Timestamp::from_micros(1_000));
            for _ in 0..1_000 / most.get() {
                let leaving = limit.room(now);
                for _ in 0..leaving {
                    gaps.record(&mut train, now);
                }
                limit.departed(now, now, leaving);
                now = now.max(limit.earliest());
            }
            let report = gaps.report();
            assert_eq!((report.longest_burst, report.gap_ns.count), (Some(3), 998), "{interval} {burst}");
        }
    }

    #[test]
    fn random_phases_are_anywhere_and_the_seed_decides_where() {
        let phases = |seed| {
            let rate = Rate::every(INTERVAL).unwrap();
            let offset = move |flow| Phase::Random { seed }.offset(flow, 4_096, rate).as_nanos();
            (0..4_096).map(offset).collect::<Vec<_>>()
        };
        let offsets = phases(7);
        assert_eq!(offsets, phases(7));
        assert_ne!(offsets, phases(8_000));
        assert!(offsets.iter().all(|&offset| offset < INTERVAL.as_nanos()));
        for sixteenth in 0..16 {
            let inside = offsets.iter().filter(|&&offset| offset * 16 / INTERVAL.as_nanos() == sixteenth);
            // 256 on average; six standard deviations.
            assert!((160..352).contains(&inside.count()), "{sixteenth}");
        }
    }

    #[test]
    fn slack_is_a_small_part_of_the_interval_and_one_flow_has_none() {
        let slack =
            |flows, interval| Traffic { flows, ..Traffic::new(Rate::every(interval).unwrap()) }.usual_slack();
        assert_eq!(slack(1, INTERVAL), Duration::ZERO);
        assert_eq!(slack(2, 10 * INTERVAL), MOST_SLACK);
        assert_eq!(slack(2, INTERVAL / 10), Duration::from_nanos(3_125));
    }
}
