//! How several flows go together: `--phase`, `--train`, and the slack that they have by default.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::Serialize;
use softtimers_core::{PaceConfig, Pattern, Random, Rate, TrainLimit};

use crate::args::{PhaseName, SendArgs, Timer, Train};
use crate::failure::Failure;
use crate::units::show_duration;

/// When each of several flows begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// One after the other within an interval, so that the sum of even flows is even.
    #[default]
    Spread,
    /// All at once.
    Together,
    /// Anywhere within an interval.
    Random {
        /// The same number, the same phases.
        seed: u64,
    },
}

impl Phase {
    /// How much later than the run a flow of so many begins, each at this rate.
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

    /// The number that decides random ones.
    pub fn seed(self) -> Option<u64> {
        if let Phase::Random { seed } = self { Some(seed) } else { None }
    }

    /// As it is typed.
    pub fn name(self) -> PhaseName {
        match self {
            Phase::Spread => PhaseName::Spread,
            Phase::Together => PhaseName::Together,
            Phase::Random { .. } => PhaseName::Random,
        }
    }
}

impl Serialize for Phase {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

/// The phase, and the most datagrams in a row; `None` for no limit.
///
/// # Errors
/// A usage failure if one flow is asked for what only several have.
pub(super) fn together(
    args: &SendArgs,
    pattern: Pattern,
    quantum: u32,
    seed: u64,
) -> Result<(Phase, Option<NonZeroU32>), Failure> {
    let given = args.phase.map(|phase| format!("--phase {phase}"));
    let given = given.or_else(|| args.train.map(|train| format!("--train {train}")));
    if let Some(given) = given.filter(|_| args.flows == 1) {
        return Err(Failure::usage(format_args!(
            "{given}: one flow has none; allowed with --flows 2 or more"
        )));
    }
    if let Some(train) = args.train.filter(|_| args.engine.timer == Timer::Kernel) {
        return Err(Failure::usage(format_args!(
            "--train {train}: not with --timer kernel, which hands datagrams over ahead of their times"
        )));
    }
    let phase = match args.phase.unwrap_or_default() {
        PhaseName::Spread => Phase::Spread,
        PhaseName::Together => Phase::Together,
        PhaseName::Random => Phase::Random { seed },
    };
    // A quantum is a train that was asked for.
    let even = phase == Phase::Spread && !matches!(pattern, Pattern::Poisson { .. }) && quantum == 1;
    let kernel = args.engine.timer == Timer::Kernel;
    let train = match args.train {
        Some(Train::AtMost(most)) => Some(most),
        Some(Train::None) => None,
        None => (args.flows > 1 && even && !kernel).then_some(SHORT_TRAIN),
    };
    Ok((phase, train))
}

/// What [`SendPlan::train`](super::SendPlan::train) comes to, for flows of this pace: trains that are apart,
/// however short the burst interval.
pub(super) fn limit(train: Option<NonZeroU32>, pace: &PaceConfig, flows: u32) -> TrainLimit {
    // A shorter pause would be none: what is closer than half of the common interval sticks together.
    let pause = pace.rate.interval() / flows / 2 + Duration::from_nanos(1);
    train.map_or(TrainLimit::NONE, |most| TrainLimit::new(most, pause.max(pace.shortest_gap() / flows)))
}

/// How late a departure may be if nobody says: of one flow not at all. Several collect what is due within a
/// short time, so that a wake-up serves more than one of them.
///
/// # Errors
/// A usage failure if a slack is given to a timer that would ignore it.
pub(super) fn slack(
    given: Option<Duration>,
    timer: Timer,
    flows: u32,
    interval: Duration,
) -> Result<Duration, Failure> {
    match given {
        Some(slack) if slack > Duration::ZERO && timer != Timer::Soft => Err(Failure::usage(format_args!(
            "--slack {}: only --timer soft has slack; the other timers aim at the due time",
            show_duration(slack)
        ))),
        Some(slack) => Ok(slack),
        None if timer == Timer::Soft && flows > 1 => Ok(MOST_SLACK.min(interval / SLACK_SHARE)),
        None => Ok(Duration::ZERO),
    }
}

/// A queue on the path that holds less than this holds hardly anything.
const SHORT_TRAIN: NonZeroU32 = NonZeroU32::new(8).unwrap();

/// Gaps between departures that are late by anything up to 20 µs have a standard deviation of 8 µs. At 64,000
/// packets/s a wake-up then serves two.
const MOST_SLACK: Duration = Duration::from_micros(20);

/// No gap is off by more than 3% for it.
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

    /// After a pause of 1,000 flows: whatever the burst interval, a train ends where the report says it does.
    #[test]
    fn trains_are_apart_however_short_the_burst_interval() {
        let most = NonZeroU32::new(3).unwrap();
        for (interval, burst, flows) in
            [(1_000_000, 1, 1_000), (1_001_999, 999, 1_000), (777_777, 600_000, 7)]
        {
            let rate = Rate::every(Duration::from_nanos(interval)).unwrap();
            let burst_interval = Some(Duration::from_nanos(burst));
            let pace = PaceConfig { burst_interval, ..PaceConfig::new(rate) };
            let mut limit = limit(Some(most), &pace, flows);
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
            |given, timer, flows, interval| slack(given, timer, flows, interval).map_err(|e| e.to_string());
        assert_eq!(slack(None, Timer::Soft, 1, INTERVAL), Ok(Duration::ZERO));
        assert_eq!(slack(None, Timer::Soft, 2, 10 * INTERVAL), Ok(MOST_SLACK));
        assert_eq!(slack(None, Timer::Soft, 2, INTERVAL / 10), Ok(Duration::from_nanos(3_125)));
        assert_eq!(slack(None, Timer::Loop, 2, INTERVAL), Ok(Duration::ZERO));
        assert_eq!(slack(Some(Duration::ZERO), Timer::Soft, 2, INTERVAL), Ok(Duration::ZERO));
        assert!(slack(Some(INTERVAL), Timer::Loop, 2, INTERVAL).unwrap_err().contains("only --timer soft"));
    }
}
