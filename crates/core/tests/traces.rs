//! The rate clock along a recording: its own gaps are kept, what is behind is made up in longer ones, what
//! lies too far back is given up and counted, and then it is over.

use core::time::Duration;

use proptest::prelude::*;
use softtimers_core::pace::Counts;
use softtimers_core::{
    CatchUp, PaceConfig, PaceError, Rate, RateClock, Schedule, Speed, Strategy as Placing, Timestamp, Trace,
    TraceBuilder,
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

/// Its times are its own: another rate only moves the burst interval, by which a delay is made up.
#[test]
fn a_change_of_the_rate_moves_no_place() {
    let mut clock = clock(&trace(&[400, 5, 400]), CatchUp::ALL, Placing::default());
    let at = |time| Timestamp::ZERO + micros(time);
    clock.start(at(0));
    assert_eq!(clock.departed(at(0)), at(400));
    let rate = |interval| Rate::every(micros(interval)).unwrap();
    assert_eq!(clock.set_rate(at(100), rate(16)), at(400));
    assert_eq!((clock.burst_interval(), clock.rate().interval()), (micros(9), Duration::from_nanos(268_333)));
    // Five microseconds, as recorded; then nine instead of four hundred, for it is as late as that.
    assert_eq!(clock.departed(at(900)), at(905));
    assert_eq!(clock.set_rate(at(901), rate(16)), at(905));
    assert_eq!(clock.departed(at(905)), at(914));
    assert_eq!(clock.set_rate(at(906), rate(32)), at(923));
    assert_eq!(clock.departed(at(923)), Timestamp::MAX);
    assert_eq!(clock.set_rate(at(924), rate(16)), Timestamp::MAX);
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
        gaps in prop::collection::vec(prop_oneof![Just(0u64), 0u64..50, 0u64..5_000], 0..100),
        (numerator, denominator) in (1u32..20, 1u32..20),
        most_late in prop::option::of(0u64..20_000),
        most_packets in prop_oneof![Just(u64::MAX), 0u64..20],
        delays in prop::collection::vec(prop_oneof![4 => 0u64..50, 1 => 0u64..9_000], 1..100),
    ) {
        let trace = trace(&gaps).at_speed(Speed::new(numerator, denominator).unwrap());
        let time = most_late.map_or(Duration::MAX, micros);
        let mut clock = clock(&trace, CatchUp { time, packets: most_packets }, Placing::default());
        let mut places = Schedule::replay(trace.clone(), Timestamp::from_micros(77));
        let (burst, mut packet) = (clock.burst_interval(), 0);
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
            let own_gap = places.place().saturating_duration_since(last);
            prop_assert_eq!(due, places.place().max(now + burst.min(own_gap)));
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
