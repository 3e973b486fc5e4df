//! The rate clock over every kind of schedule: the one rule for when a packet is due, what is given up
//! after a stall, and that neither distorts the pattern.

mod machine;

use core::time::Duration;

use machine::Random;
use proptest::prelude::*;
use softtimers_core::{CatchUp, OnOff, PaceConfig, Pattern, Rate, RateClock, Schedule, Strategy, Timestamp};

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn on_off(on: u64, off: u64) -> Pattern {
    Pattern::OnOff(OnOff::new(micros(on), micros(off)).unwrap())
}

fn clock(interval: u64, pattern: Pattern, catch_up: CatchUp) -> RateClock {
    let rate = Rate::every(micros(interval)).unwrap();
    RateClock::new(PaceConfig { pattern, catch_up, ..PaceConfig::new(rate) }).unwrap()
}

/// Departures of a sender that is late each time by up to `most_late`.
fn departures(mut clock: RateClock, packets: usize, most_late: u64) -> Vec<Timestamp> {
    let mut random = Random::new(11);
    let mut due = clock.start(Timestamp::from_micros(1_000));
    let mut departures: Vec<Timestamp> = Vec::with_capacity(packets);
    while departures.len() < packets {
        let now = due.max(departures.last().copied().unwrap_or(due))
            + Duration::from_nanos(random.below(most_late * 1_000 + 1));
        departures.push(now);
        due = clock.departed(now);
    }
    departures
}

fn gaps_in_micros(departures: &[Timestamp]) -> Vec<f64> {
    let gap = |pair: &[Timestamp]| pair[1].saturating_duration_since(pair[0]).as_nanos() as f64 / 1e3;
    departures.windows(2).map(gap).collect()
}

/// A sender that is always a little late: the mean is kept, and so is the share of short gaps, which a
/// burst interval of 9/16 would cut off from 43% to nothing.
#[test]
#[cfg_attr(miri, ignore = "100,000 departures")]
fn lateness_does_not_even_out_a_poisson_flow() {
    let gaps =
        gaps_in_micros(&departures(clock(100, Pattern::Poisson { seed: 3 }, CatchUp::ALL), 100_000, 5));
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count).sqrt();
    assert!((mean - 100.0).abs() < 2.0, "{mean}");
    assert!((deviation / mean - 1.0).abs() < 0.05, "{deviation} at a mean of {mean}");
    let shorter = |micros: f64| gaps.iter().filter(|&&gap| gap < micros).count() as f64 / count;
    for (limit, expected) in [(25.0, 0.221), (56.25, 0.430), (200.0, 0.865)] {
        assert!((shorter(limit) - expected).abs() < 0.04, "below {limit}: {}", shorter(limit));
    }
}

/// Each on period begins at its absolute time, however late the packets of the last one were.
#[test]
fn on_periods_begin_on_time() {
    let sent = departures(clock(100, on_off(1_000, 9_000), CatchUp::ALL), 200, 30);
    for (period, train) in sent.chunks(10).enumerate() {
        let start = Timestamp::from_micros(1_000 + 10_000 * period as u64);
        let late = train[0].checked_duration_since(start).expect("not before its time");
        assert!(late <= micros(30), "period {period} began {late:?} late");
        assert!(train[9] < start + micros(1_000), "period {period} ran into the silence");
    }
}

/// A stall that begins in an on period and ends in the silence: what it held up leaves at the burst
/// interval, as after any stall, and the next on period begins on time.
#[test]
fn silence_is_no_reason_to_burst() {
    let mut clock = clock(100, on_off(1_000, 9_000), CatchUp::ALL);
    let start = clock.start(Timestamp::from_micros(0));
    clock.departed(start);
    let mut now = Timestamp::from_micros(5_000);
    for _ in 0..8 {
        let due = clock.departed(now);
        assert_eq!(due, now + Duration::from_nanos(56_250));
        now = due;
    }
    assert_eq!(clock.behind(now), 1);
    assert_eq!(clock.departed(now), Timestamp::from_micros(10_000));
    assert_eq!((clock.behind(now), clock.forfeited()), (0, 0));
}

/// An hour at up to a place each nanosecond, in time and in packets: answered at once, and whatever
/// bound is set holds.
#[test]
fn an_hour_of_stall_is_one_step() {
    let hour = Timestamp::from_micros(3_600_000_000);
    for packets in [25_000u64, 1_000_000_000] {
        let rate = Rate::per_second(packets).unwrap();
        for pattern in [Pattern::Constant, Pattern::Poisson { seed: 9 }, on_off(1_000, 3_000)] {
            let mean = pattern.mean_rate(rate).packets_per_second();
            let places = 3_600.0 * mean;
            for catch_up in [
                CatchUp::NONE,
                CatchUp::default(),
                CatchUp { time: Duration::MAX, packets: 100 },
                CatchUp { time: micros(50_000), packets: 1_000_000 },
                CatchUp::ALL,
            ] {
                let config = PaceConfig { pattern, catch_up, ..PaceConfig::new(rate) };
                let mut clock = RateClock::new(config).unwrap();
                clock.start(Timestamp::ZERO);
                let due = clock.departed(hour);
                let (behind, forfeited) = (clock.behind(hour) as f64, clock.forfeited() as f64);
                let words = format!("{packets}/s, {pattern:?}, {catch_up:?}: {behind} behind");
                assert!(due >= hour, "{words}");
                let in_time = catch_up.time.as_secs_f64() * packets as f64;
                let most = in_time.min(catch_up.packets as f64);
                // Places at random are bounded on average: five standard deviations, and a stretch.
                assert!(behind <= most + 5.0 * most.sqrt() + 1.0, "{words}");
                assert!(((behind + forfeited + 1.0) / places - 1.0).abs() < 1e-4, "{words}");
            }
        }
    }
}

/// Times and rates at the ends of their ranges saturate; nothing wraps, and nothing loops.
#[test]
fn the_ends_of_the_ranges_are_served() {
    let longest = Duration::from_nanos(u64::MAX / 2);
    for rate in [Rate::per_second(1_000_000_000), Rate::per_second(999_999_999), Rate::every(longest)] {
        let rate = rate.unwrap();
        let year = OnOff::new(longest, Duration::from_nanos(1)).unwrap();
        let shortest = OnOff::new(Duration::from_nanos(1), Duration::from_nanos(1)).unwrap();
        for pattern in
            [Pattern::Constant, Pattern::Poisson { seed: 1 }, Pattern::OnOff(year), Pattern::OnOff(shortest)]
        {
            for catch_up in [CatchUp::NONE, CatchUp::default(), CatchUp::ALL] {
                let config = PaceConfig { pattern, catch_up, ..PaceConfig::new(rate) };
                assert!(config.mean_rate().packets_per_second() > 0.0);
                let mut clock = RateClock::new(config).unwrap();
                clock.start(Timestamp::ZERO);
                let mut now = Timestamp::from_nanos(u64::MAX - 1_000);
                for _ in 0..10 {
                    clock.behind(now);
                    now = clock.departed(now).max(now);
                }
                assert!(clock.departed(Timestamp::MAX) == Timestamp::MAX && clock.departures() == 11);
            }
        }
    }
}

#[test]
fn nothing_is_made_up_if_nothing_may_be() {
    for pattern in [Pattern::Constant, Pattern::Poisson { seed: 2 }, on_off(1_000, 3_000)] {
        let mut clock = clock(40, pattern, CatchUp::NONE);
        let mut now = clock.start(Timestamp::ZERO);
        for stall in [3u64, 70, 900, 5_000, 40] {
            now += micros(stall);
            clock.departed(now);
            assert_eq!(clock.behind(now), 0, "{pattern:?}");
            assert!(clock.place() >= now);
        }
    }
}

/// Another rate: Poisson goes on at random with the new mean, trains in the periods they had. What has not
/// begun begins when it was to.
#[test]
#[cfg_attr(miri, ignore = "100,000 departures")]
fn patterns_take_a_new_rate() {
    let fast = Rate::every(micros(20)).unwrap();
    for pattern in [Pattern::Poisson { seed: 5 }, on_off(1_000, 4_000)] {
        let mut clock = clock(100, pattern, CatchUp::ALL);
        let begin = clock.start(Timestamp::from_micros(1_000));
        assert_eq!(clock.set_rate(Timestamp::from_micros(10), fast), begin, "{pattern:?}");
        clock.set_rate(begin, Rate::every(micros(100)).unwrap());

        let mut due = begin;
        while due < Timestamp::from_micros(2_100) {
            due = clock.departed(due);
        }
        let changed = Timestamp::from_micros(2_150);
        let mut due = clock.set_rate(changed, fast);
        assert!(due >= changed, "{pattern:?}");
        let departures = 50_000u32;
        for _ in 0..departures {
            if let Pattern::OnOff(_) = pattern {
                assert!((due.as_nanos() - 1_000_000) % 5_000_000 < 1_000_000, "{due:?} is in an off period");
            }
            due = clock.departed(due);
        }
        let mean = pattern.mean_rate(fast).interval().as_nanos() as f64;
        let measured = due.saturating_duration_since(changed).as_nanos() as f64 / f64::from(departures);
        assert!((measured / mean - 1.0).abs() < 0.02, "{pattern:?}: {measured} ns, not {mean} ns");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// A walk along the bare schedule, with the rule of the module's documentation, says the same; each
    /// place is used, given up or still owed; and no delay that is made up is longer than allowed.
    #[test]
    fn every_kind_follows_the_one_rule(
        interval in 1u64..200,
        kind in 0usize..3,
        seed: u64,
        (on, off) in (1u64..5_000, 1u64..20_000),
        most_late in prop::option::of(0u64..20_000),
        delays in prop::collection::vec(prop_oneof![4 => 0u64..50, 1 => 0u64..3_000], 1..100),
    ) {
        let rate = Rate::every(micros(interval)).unwrap();
        let pattern = [Pattern::Constant, Pattern::Poisson { seed }, on_off(on, off)][kind];
        let catch_up = most_late.map_or(CatchUp::ALL, |late| CatchUp::within(micros(late)));
        let mut clock = clock(interval, pattern, catch_up);
        let mut places = Schedule::new(rate, pattern, Timestamp::from_micros(77));
        let burst = clock.burst_interval();
        let mut counted = 0;

        let mut due = clock.start(Timestamp::from_micros(77));
        for delay in delays {
            let now = due + micros(delay);
            let last = places.place();
            prop_assert_eq!(clock.place(), last);
            due = clock.departed(now);
            places.advance();
            let mut given_up = 0u64;
            while places.place() != clock.place() {
                prop_assert!(places.place() < clock.place(), "{:?} is not of the schedule", clock.place());
                places.advance();
                given_up += 1;
            }
            let place = places.place();
            let own_gap = place.saturating_duration_since(last);
            prop_assert_eq!(due, place.max(now + burst.min(own_gap)));
            prop_assert!(now.saturating_duration_since(place) <= catch_up.time);
            prop_assert!(given_up == 0 || most_late.is_some());
            // A leap at random that is too long to be counted counts its mean.
            counted += if kind != 1 || given_up < 200 { given_up } else { clock.forfeited() - counted };
            prop_assert_eq!(clock.forfeited(), counted);
        }
    }

    /// The two-speed rule waits the schedule's own gap while on schedule, silence included.
    #[test]
    fn two_speeds_keep_to_the_silence(on in 1u64..1_000, off in 1u64..1_000) {
        let config = PaceConfig { strategy: Strategy::TwoSpeed, pattern: on_off(on, off), ..PaceConfig::new(Rate::every(micros(40)).unwrap()) };
        let mut clock = RateClock::new(config).unwrap();
        let mut now = clock.start(Timestamp::ZERO);
        for _ in 0..100 {
            now = clock.departed(now);
            prop_assert!(now.as_nanos() % ((on + off) * 1_000) < on * 1_000);
        }
    }
}
