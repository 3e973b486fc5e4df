//! The rate clock along a recording: its own gaps are kept, what is behind is made up in longer ones, what
//! lies too far back is given up and counted, and then it is over.

use core::time::Duration;

use proptest::prelude::*;
use softtimers_core::Counts;
use softtimers_core::{
    CatchUp, PaceConfig, PaceError, Random, Rate, RateClock, Recovery, Schedule, Speed, Strategy as Placing,
    Timestamp, Trace, TraceBuilder,
};

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Packets this far apart, each one byte longer than the one before it.
fn trace(gaps: &[u64]) -> Trace {
    let mut builder = TraceBuilder::default();
    let mut time = Timestamp::from_micros(1_000_000);
    builder.push(time, 100);
    for (gap, length) in gaps.iter().zip(101..) {
        time += micros(*gap);
        builder.push(time, length);
    }
    builder.finish().unwrap()
}

fn clock(trace: &Trace, catch_up: CatchUp, strategy: Placing) -> RateClock {
    let config = PaceConfig { catch_up, strategy, ..PaceConfig::new(trace.mean_rate()) };
    RateClock::replay(trace.clone(), config).unwrap()
}

#[test]
fn a_sender_in_time_sends_the_recording() {
    let trace = trace(&[5, 0, 300, 5]).at_speed(Speed::new(1, 2).unwrap());
    let mut clock = clock(&trace, CatchUp::default(), Placing::default());
    let mut due = clock.start(Timestamp::from_micros(77));
    let mut sent = Vec::new();
    while !clock.is_over() {
        assert_eq!(due, clock.place());
        sent.push((due.as_nanos() / 1_000 - 77, clock.length().unwrap()));
        due = clock.departed(due);
    }
    assert_eq!(sent, [(0, 100), (10, 101), (10, 102), (610, 103), (620, 104)]);
    assert_eq!((due, clock.length(), clock.forfeited()), (Timestamp::MAX, None, 0));
    // It can be begun again.
    assert_eq!(clock.start(Timestamp::from_micros(900)), Timestamp::from_micros(900));
    assert_eq!((clock.is_over(), clock.length()), (false, Some(100)));
}

/// Its times are its own: another rate only bounds a configured burst interval, by which a delay is made up.
#[test]
fn a_change_of_the_rate_moves_no_place() {
    let at = |time| Timestamp::ZERO + micros(time);
    let rate = |interval| Rate::every(micros(interval)).unwrap();
    for (burst_interval, [first, then]) in [(Some(micros(100)), [16, 32]), (None, [150, 150])] {
        let trace = trace(&[400, 5, 400]);
        let config =
            PaceConfig { burst_interval, catch_up: CatchUp::ALL, ..PaceConfig::new(trace.mean_rate()) };
        let mut clock = RateClock::replay(trace, config).unwrap();
        clock.start(at(0));
        assert_eq!(clock.departed(at(0)), at(400));
        assert_eq!(clock.set_rate(at(100), rate(16)), at(400));
        assert_eq!(
            (clock.burst_interval().as_micros(), clock.rate().interval().as_nanos()),
            (first, 268_333)
        );
        // Five microseconds, as recorded; then the burst interval instead of four hundred, for it is as late as that.
        assert_eq!(clock.departed(at(900)), at(905));
        assert_eq!(clock.set_rate(at(901), rate(16)), at(905));
        let place = at(805);
        assert_eq!(clock.departed(at(905)).saturating_duration_since(at(905)).as_micros(), first);
        assert_eq!(clock.place(), place);
        assert_eq!(clock.set_rate(at(906), rate(32)).saturating_duration_since(at(905)).as_micros(), then);
        assert_eq!(clock.departed(at(1_100)), Timestamp::MAX);
        assert_eq!(clock.set_rate(at(1_101), rate(16)), Timestamp::MAX);
    }
}

#[test]
fn a_recording_counts_packets() {
    let trace = trace(&[400]);
    let bytes = PaceConfig { counts: Counts::Bytes, ..PaceConfig::new(trace.mean_rate()) };
    assert_eq!(RateClock::replay(trace, bytes).unwrap_err(), PaceError::BytesOfPackets);
}

/// Trains of 10 µs gaps, a millisecond apart: a delay in a train is kept to its end, not squeezed into it.
#[test]
fn what_is_behind_is_made_up_in_the_pauses() {
    let gaps = [10, 10, 10, 1_000, 10, 10];
    let mut clock = clock(&trace(&gaps), CatchUp::ALL, Placing::default());
    let start = clock.start(Timestamp::ZERO);
    let mut due = clock.departed(start + micros(25));
    let mut departures = vec![25];
    while !clock.is_over() {
        departures.push(due.as_nanos() / 1_000);
        due = clock.departed(due);
    }
    assert_eq!(departures, [25, 35, 45, 55, 1_030, 1_040, 1_050]);
}

/// Recordings of different shapes, as gaps in microseconds, each some ten seconds or more.
fn shapes() -> Vec<(&'static str, Vec<u64>)> {
    let repeat = |pattern: &[u64], times: usize| pattern.repeat(times);
    let mut random = Random::stream(7, 0);
    let mut drawn = |least: u64, below: u64| least + random.below(below);
    vec![
        ("a call after a pause", [&[9_000_000][..], &[10_000; 999]].concat()),
        ("an even run", vec![10_000; 500]),
        ("a fast run after a long silence", [&[600_000_000][..], &[40; 25_000]].concat()),
        ("a call with pauses", repeat(&[&[20_000; 100][..], &[3_000_000]].concat(), 5)),
        ("on and off", repeat(&[&[100; 100][..], &[90_000]].concat(), 100)),
        ("frames of a video", repeat(&[&[12; 29][..], &[33_000]].concat(), 300)),
        ("slower and slower", (1..60).map(|gap| gap * gap * 300).collect()),
        ("faster and faster", (1..60).rev().map(|gap| gap * gap * 300).collect()),
        (
            "pauses that grow",
            repeat(&[10_000; 30], 1).into_iter().flat_map(|gap| [gap, gap * 3, 1_000_000]).collect(),
        ),
        (
            "web pages",
            (0..300)
                .flat_map(|_| {
                    let (packets, pause) = (drawn(1, 60) as usize, drawn(1_000, 400_000));
                    [vec![12; packets], vec![30_000, 12, 12, 12, pause]].concat()
                })
                .collect(),
        ),
    ]
}

/// Plays a recording with a stop of this length at a packet. Returns by how much each packet was late, and each gap.
fn with_a_stop(gaps: &[u64], stopped: usize, stop: Duration) -> Vec<(Duration, Duration)> {
    let mut clock = clock(&trace(gaps), CatchUp::ALL, Placing::default());
    let (mut due, mut left, mut last) = (clock.start(Timestamp::ZERO), Vec::new(), Timestamp::ZERO);
    while !clock.is_over() {
        let now = if left.len() == stopped { due + stop } else { due };
        left.push((now.saturating_duration_since(clock.place()), now.saturating_duration_since(last)));
        last = now;
        due = clock.departed(now);
    }
    left
}

/// Whatever the shape, and wherever the stop: no mean over all of it decides.
#[test]
fn a_delay_is_made_up_in_a_stated_time() {
    for (name, gaps) in shapes() {
        let packets = gaps.len() + 1;
        let stops = (0..packets).step_by((packets / if cfg!(miri) { 2 } else { 40 }).max(1));
        for (stopped, stop) in stops.flat_map(|at| [1_000, 50_000, 300_000, 2_000_000].map(|stop| (at, stop)))
        {
            let left = with_a_stop(&gaps, stopped, micros(stop));
            let delay = left[stopped].0;
            assert!(delay == micros(stop), "{name}: {delay:?}");
            // From the end of the stop on.
            let mut taken = Duration::ZERO;
            for (at, &(late, gap)) in left.iter().enumerate().skip(stopped + 1) {
                taken += gap;
                if late.is_zero() {
                    break;
                }
                let most = delay * 9 / 7 + micros(200_000);
                assert!(taken <= most, "{name}, {delay:?} at {stopped}: {late:?} at {at}, {taken:?} later");
            }
        }
    }
}

/// Looks at the clock every 25 ms only. Late by 2.5 intervals each time, one packet at a time never catches up.
#[test]
fn trains_make_up_a_delay_where_checks_are_rarer_than_packets() {
    let late_at_the_end = |gaps: &[u64], recovery: Recovery| {
        let trace = trace(gaps);
        let config = PaceConfig { catch_up: CatchUp::ALL, recovery, ..PaceConfig::new(trace.mean_rate()) };
        let mut clock = RateClock::replay(trace, config).unwrap();
        let (mut due, mut late) = (clock.start(Timestamp::ZERO), Duration::ZERO);
        let mut departures: Vec<u64> = Vec::new();
        while !clock.is_over() {
            let check = due.as_nanos().div_ceil(25_000_000) * 25_000_000 + 1;
            let now = Timestamp::from_nanos(departures.last().copied().unwrap_or(0).max(check));
            let now = if departures.last() == Some(&due.as_nanos()) { due } else { now };
            late = now.saturating_duration_since(clock.place());
            departures.push(now.as_nanos());
            due = clock.departed(now);
        }
        let most = departures.chunk_by(|one, next| one == next).map(<[u64]>::len).max();
        (late, most.unwrap_or(0))
    };
    for gaps in [vec![10_000; 1_000], [&[9_000_000][..], &[10_000; 1_000]].concat()] {
        let (late, most) = late_at_the_end(&gaps, Recovery::trains(3));
        assert!(late <= micros(60_000) && most == 3, "{late:?} {most}");
        let (late, most) = late_at_the_end(&gaps, Recovery::NONE);
        assert!(late >= micros(10_000_000) && most == 1, "{late:?} {most}");
    }
}

/// In the frames of a video a late packet does not squeeze those behind it: the pause makes up for it.
#[test]
fn short_gaps_of_a_late_run_are_kept_where_a_pause_is_near() {
    let gaps = [&[12; 29][..], &[33_000]].concat().repeat(10);
    for (at, &(_, gap)) in with_a_stop(&gaps, 120, micros(400)).iter().enumerate().skip(121) {
        // One gap in a tenth of a second leads into the next one.
        let own = micros(gaps[at - 1]);
        assert!(gap == own || own > micros(12) || at == 181, "{gap:?} at {at}");
    }
}

/// The packets of one tenth of a second have one burst interval; a gap between two has its own.
fn expected_burst_interval(times: &[u64], packet: usize) -> Duration {
    const STRETCH: u64 = 100_000_000;
    let stretch = |packet: usize| times[packet] / STRETCH;
    let nine_sixteenths = |nanos: u64| Duration::from_nanos(nanos * 9 / 16);
    if stretch(packet - 1) != stretch(packet) {
        return nine_sixteenths((times[packet] - times[packet - 1]).min(STRETCH));
    }
    let alike: Vec<u64> = times.iter().copied().filter(|time| time / STRETCH == stretch(packet)).collect();
    nine_sixteenths((alike[alike.len() - 1] - alike[0]) / (alike.len() as u64 - 1))
}

/// A stall in the middle: the recording loses what lies more than 10 ms back, and its lengths go on with the
/// packets they belong to.
#[test]
fn what_is_too_far_back_is_given_up_with_its_length() {
    let trace = trace(&[1_000; 50]);
    let mut clock = clock(&trace, CatchUp::within(micros(10_000)), Placing::default());
    let start = clock.start(Timestamp::ZERO);
    clock.departed(start);
    let late = Timestamp::from_micros(30_500);
    assert_eq!((clock.behind(late), clock.length()), (30, Some(101)));
    clock.departed(late);
    // 2 to 20 ms are more than 10 ms back.
    assert_eq!((clock.forfeited(), clock.length()), (19, Some(121)));
    assert_eq!(clock.behind(late), 10);
    // A stall beyond the end gives up all that is left.
    clock.departed(Timestamp::from_micros(3_600_000_000));
    assert!(clock.is_over());
    assert_eq!(clock.departures() + clock.forfeited(), 51);
}

#[test]
fn a_burst_interval_beyond_the_mean_is_refused() {
    let trace = trace(&[40, 40]);
    let config = PaceConfig { burst_interval: Some(micros(41)), ..PaceConfig::new(trace.mean_rate()) };
    assert!(RateClock::replay(trace, config).is_err());
}

#[test]
fn one_packet_is_a_recording_too() {
    let alone = trace(&[]);
    for strategy in [Placing::ExactDeadline, Placing::TwoSpeed, Placing::FixedSeries] {
        let mut clock = clock(&alone, CatchUp::NONE, strategy);
        let start = clock.start(Timestamp::from_micros(5));
        assert_eq!(clock.departed(start + micros(7)), Timestamp::MAX);
        assert!(clock.is_over() && clock.behind(Timestamp::MAX) == 0);
    }
}

/// Walking it costs nothing but arithmetic: also in a signal's handler.
#[test]
fn a_walk_allocates_nothing() {
    let trace = trace(&[3; 1_000]);
    let mut clock = clock(&trace, CatchUp::default(), Placing::default());
    let counted = allocation_counter::measure(|| {
        let mut due = clock.start(Timestamp::ZERO);
        while !clock.is_over() {
            due = clock.departed(due + micros(due.as_nanos() % 7));
        }
    });
    assert_eq!(counted.count_total, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// A walk along the bare schedule, with the rule of the module's documentation, says the same; each
    /// packet is sent with its own length, given up, or still owed.
    #[test]
    fn recordings_follow_the_one_rule(
        gaps in prop::collection::vec(prop_oneof![Just(0u64), 0u64..50, 0u64..5_000, 0u64..300_000], 0..100),
        (numerator, denominator) in (1u32..20, 1u32..20),
        most_late in prop::option::of(0u64..20_000),
        most_packets in prop_oneof![Just(u64::MAX), 0u64..20],
        delays in prop::collection::vec(prop_oneof![4 => 0u64..50, 1 => 0u64..9_000], 1..100),
    ) {
        let trace = trace(&gaps).at_speed(Speed::new(numerator, denominator).unwrap());
        let time = most_late.map_or(Duration::MAX, micros);
        let mut clock = clock(&trace, CatchUp { time, packets: most_packets }, Placing::default());
        let mut places = Schedule::replay(trace.clone(), Timestamp::from_micros(77));
        let times: Vec<u64> = trace.iter().map(|(time, _)| time.as_nanos() as u64).collect();
        let mut packet = 0;
        let mut due = clock.start(Timestamp::from_micros(77));
        for delay in delays {
            if clock.is_over() {
                break;
            }
            prop_assert_eq!(clock.length(), trace.length(packet));
            prop_assert_eq!(clock.place(), Timestamp::from_micros(77) + trace.time(packet).unwrap());
            let now = due + micros(delay);
            let last = places.place();
            let forfeited = clock.forfeited();
            due = clock.departed(now);
            packet += 1 + (clock.forfeited() - forfeited) as usize;
            (0..1 + clock.forfeited() - forfeited).for_each(|_| places.advance());
            prop_assert_eq!(places.place(), clock.place());
            if packet < times.len() {
                let own_gap = places.place().saturating_duration_since(last);
                let burst = expected_burst_interval(&times, packet);
                prop_assert_eq!(clock.burst_interval(), burst);
                prop_assert_eq!(due, places.place().max(now + burst.min(own_gap)));
            }
            prop_assert!(now.saturating_duration_since(clock.place()) <= time);
            prop_assert!(clock.behind(now) <= most_packets);
            let accounted = clock.departures() + clock.forfeited();
            prop_assert_eq!(accounted, packet as u64);
        }
        if clock.is_over() {
            prop_assert_eq!(packet, trace.packets());
        }
    }

    /// Leaps reach what steps reach, and counts are those of steps.
    #[test]
    fn leaps_are_steps(gaps in prop::collection::vec(0u64..50, 0..50), from in 0usize..50, time in 0u64..2_000) {
        let mut stepped = Schedule::replay(trace(&gaps), Timestamp::from_micros(9));
        (0..from).for_each(|_| stepped.advance());
        let mut leapt = stepped.clone();
        let time = Timestamp::from_micros(time);
        let mut steps = 0;
        while stepped.place() < time {
            stepped.advance();
            steps += 1;
        }
        prop_assert_eq!(leapt.places_before(time), steps);
        prop_assert_eq!(leapt.advance_to(time), steps);
        prop_assert_eq!(leapt, stepped);
    }
}
