//! Rate-based clocking of one flow (soft timers §4.1), against a schedule written out by hand and
//! under the trigger intervals of a busy server.

mod machine;

use core::time::Duration;

use machine::{Machine, Random};
use proptest::prelude::*;
use softtimers_core::{CatchUp, Config, PaceConfig, Rate, RateClock, Slack, SoftTimers, Strategy, Timestamp};

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn clock(target: u64, burst: u64, strategy: Strategy, catch_up: CatchUp) -> RateClock {
    let rate = Rate::every(micros(target)).unwrap();
    RateClock::new(PaceConfig {
        burst_interval: Some(micros(burst)),
        strategy,
        catch_up,
        ..PaceConfig::new(rate)
    })
    .unwrap()
}

/// Sends for `packets` departures under a busy server's trigger states; returns the departures.
fn departures(mut clock: RateClock, packets: usize, seed: u64) -> Vec<Timestamp> {
    let mut random = Random::new(seed);
    let mut machine = Machine::one_shot(SoftTimers::new(Config::default()));
    let start = clock.start(Timestamp::from_micros(100));
    machine.timers.schedule_at(Timestamp::ZERO, start, Slack::DEFERRABLE, ());
    let mut departures = Vec::with_capacity(packets);
    let end = Timestamp::from_micros(200 * packets as u64);
    machine.run(
        end,
        || Some(random.web_server_gap()),
        |timers, now, _| {
            if departures.len() < packets {
                departures.push(now);
                timers.schedule_at(now, clock.departed(now), Slack::DEFERRABLE, ());
            }
            assert!(timers.len() <= 1, "a flow has more than one event outstanding");
        },
    );
    assert_eq!(departures.len(), packets);
    departures
}

fn gaps(departures: &[Timestamp]) -> Vec<f64> {
    departures
        .windows(2)
        .map(|pair| pair[1].saturating_duration_since(pair[0]).as_nanos() as f64 / 1e3)
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Table VIII and IX: the target is held while the burst interval leaves room, and lost, more and
/// more, when it does not.
#[test]
#[cfg_attr(miri, ignore = "240,000 departures take minutes under Miri")]
fn a_target_of_40_us_is_held_at_a_burst_interval_of_12() {
    for strategy in [Strategy::ExactDeadline, Strategy::TwoSpeed] {
        let means: Vec<f64> = [12, 15, 20, 25, 30, 35]
            .into_iter()
            .map(|burst| mean(&gaps(&departures(clock(40, burst, strategy, CatchUp::ALL), 20_000, 5))))
            .collect();
        assert!((means[0] - 40.0).abs() < 0.3, "{strategy:?}: {means:?}");
        assert!(means.windows(2).all(|pair| pair[0] < pair[1] + 0.3), "{strategy:?}: {means:?}");
        assert!(means[5] > 60.0, "{strategy:?}: {means:?}");
    }
}

/// After a stall of a millisecond the series bursts; the adaptive rules send no two packets together.
#[test]
fn only_the_fixed_series_bursts_after_a_stall() {
    let burst_after_stall = |strategy| {
        let mut clock = clock(40, 12, strategy, CatchUp::ALL);
        let mut now = clock.start(Timestamp::from_micros(10));
        let mut sent = Vec::new();
        for packet in 0..200 {
            sent.push(now);
            let next = clock.departed(now);
            now = next.max(now + micros(if packet == 50 { 1_000 } else { 0 }));
        }
        let together = gaps(&sent).split(|&gap| gap >= 12.0).map(<[f64]>::len).max().unwrap();
        together + 1
    };
    assert!(burst_after_stall(Strategy::FixedSeries) > 20);
    assert_eq!(burst_after_stall(Strategy::ExactDeadline), 1);
    assert_eq!(burst_after_stall(Strategy::TwoSpeed), 1);
}

/// At the maximum rate a pending packet leaves at every trigger state: none is skipped, none sent twice.
#[test]
fn at_the_maximum_rate_every_trigger_state_sends_one_packet() {
    let span = if cfg!(miri) { 2_000 } else { 100_000 };
    let mut clock = clock(1_000, 0, Strategy::EveryTrigger, CatchUp::ALL);
    let mut machine = Machine::one_shot(SoftTimers::new(Config::default()));
    machine.timers.schedule_at(Timestamp::ZERO, clock.start(Timestamp::ZERO), Slack::DEFERRABLE, 0u32);
    let (mut random, mut sent) = (Random::new(23), Vec::new());
    machine.run(
        Timestamp::from_micros(span),
        || Some(random.web_server_gap()),
        |timers, now, fired| {
            sent.push(fired.event);
            timers.schedule_at(now, clock.departed(now), Slack::DEFERRABLE, fired.event + 1);
        },
    );
    assert!(sent.len() as u64 > span / 50);
    assert!(sent.iter().copied().eq(0..sent.len() as u32), "lost or out of order");
    assert_eq!(machine.timers.stats().triggers.total(), sent.len() as u64);
}

/// A train that starts after an idle time owes nothing for it.
#[test]
fn an_idle_flow_restarts_without_catching_up() {
    let mut clock = clock(40, 12, Strategy::ExactDeadline, CatchUp::ALL);
    let first = clock.start(Timestamp::from_micros(10));
    clock.departed(first);
    let resumed = Timestamp::from_micros(5_000_000);
    assert_eq!(clock.start(resumed), resumed);
    assert_eq!(clock.behind(resumed), 0);
    assert_eq!(clock.departed(resumed), resumed + micros(40));
    assert_eq!((clock.departures(), clock.forfeited()), (2, 0));
}

/// The part of a stall that lies further back than the catch-up bound is given up, and counted.
#[test]
fn a_stall_is_made_up_only_within_the_bound() {
    // A 50 ms stall at 40 µs: 1,250 places pass.
    for (catch_up, made_up) in [
        (CatchUp::NONE, 0),
        (CatchUp::within(Duration::from_millis(10)), 250),
        (CatchUp { time: Duration::from_millis(10), packets: 7 }, 7),
        (CatchUp::ALL, 1_249),
    ] {
        let mut clock = clock(40, 30, Strategy::ExactDeadline, catch_up);
        clock.start(Timestamp::ZERO);
        let late = Timestamp::from_micros(50_000);
        clock.departed(late);
        assert_eq!(clock.forfeited(), 1_249 - made_up, "{catch_up:?}");
        assert_eq!(clock.behind(late), made_up, "{catch_up:?}");
    }
}

#[test]
fn a_burst_interval_beyond_the_target_is_refused() {
    let rate = Rate::every(micros(40)).unwrap();
    let config = PaceConfig { burst_interval: Some(micros(41)), ..PaceConfig::new(rate) };
    let error = RateClock::new(config).unwrap_err().to_string();
    assert_eq!(error, "burst interval 41µs: at most the target interval, 40µs");
}

/// The rules written from the paper's text, in nanoseconds and with nothing shared.
struct ByHand {
    target: u64,
    burst: u64,
    most_behind: u64,
    place: u64,
    given_up: u64,
}

impl ByHand {
    fn departed(&mut self, now: u64, strategy: Strategy) -> u64 {
        let in_time = now <= self.place;
        self.place += self.target;
        while now > self.place && (now - self.place).div_ceil(self.target) > self.most_behind {
            self.place += self.target;
            self.given_up += 1;
        }
        match strategy {
            Strategy::TwoSpeed if in_time => now + self.target,
            Strategy::TwoSpeed => now + self.burst,
            Strategy::FixedSeries => self.place,
            Strategy::Relative => now + self.target,
            _ => self.place.max(now + self.burst),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Draw for draw the same departures as the rules by hand; never faster than the burst interval;
    /// and every place of the schedule is used, given up, or still owed.
    #[test]
    fn every_departure_is_where_the_rules_put_it(
        target in 1u64..200,
        burst_share in 0u64..=100,
        most_behind in 0u64..50,
        strategy in prop_oneof![Just(Strategy::ExactDeadline), Just(Strategy::TwoSpeed), Just(Strategy::FixedSeries), Just(Strategy::Relative)],
        delays in prop::collection::vec(prop_oneof![4 => 0u64..5_000, 1 => 0u64..2_000_000], 1..200),
    ) {
        let (target, start) = (target * 1_000, 77u64);
        let burst = target * burst_share / 100;
        let mut clock = RateClock::new(PaceConfig {
            burst_interval: Some(Duration::from_nanos(burst)),
            catch_up: CatchUp { time: Duration::MAX, packets: most_behind },
            strategy,
            ..PaceConfig::new(Rate::every(Duration::from_nanos(target)).unwrap())
        }).unwrap();
        let mut by_hand = ByHand { target, burst, most_behind, place: start, given_up: 0 };

        let mut due = clock.start(Timestamp::from_nanos(start));
        let mut last = None;
        for delay in delays {
            let now = last.map_or(due, |last| due.max(last)) + Duration::from_nanos(delay);
            if let (Some(last), true) = (last, strategy != Strategy::FixedSeries) {
                prop_assert!(now.saturating_duration_since(last) >= Duration::from_nanos(burst));
            }
            due = clock.departed(now);
            prop_assert_eq!(due.as_nanos(), by_hand.departed(now.as_nanos(), strategy));
            prop_assert_eq!(clock.forfeited(), by_hand.given_up);
            let places = (now.as_nanos().saturating_sub(start)).div_ceil(target);
            let accounted = clock.departures() + clock.forfeited() + clock.behind(now);
            prop_assert!(accounted >= places, "{} places, {} accounted for", places, accounted);
            prop_assert!(clock.behind(now) <= most_behind);
            last = Some(now);
        }
    }
}
