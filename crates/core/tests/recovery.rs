//! A catch-up with trains: bounded in length, over in time, and nothing sent that was not due.

use core::time::Duration;

use proptest::prelude::*;
use softtimers_core::Recovery;
use softtimers_core::{CatchUp, PaceConfig, Random, Rate, RateClock, Timestamp};

const TARGET: u64 = 40_000;
/// The usual burst interval: nine sixteenths.
const BURST: u64 = 22_500;

fn clock(recovery: Recovery, catch_up: CatchUp) -> RateClock {
    let rate = Rate::every(Duration::from_nanos(TARGET)).unwrap();
    RateClock::new(PaceConfig { recovery, catch_up, ..PaceConfig::new(rate) }).unwrap()
}

/// A departure: when it was, its scheduled time, and how late the next one is already.
#[derive(Clone, Copy, Debug)]
struct Left {
    at: u64,
    place: u64,
    behind: u64,
}

/// Sends at trigger states after these gaps, as much as may leave at each.
fn send(clock: &mut RateClock, gaps: &[u64]) -> Vec<Left> {
    let (mut now, mut left) = (1_000_000u64, Vec::new());
    let mut due = clock.start(Timestamp::from_nanos(now));
    for gap in gaps {
        now += gap;
        while due.as_nanos() <= now {
            let place = clock.place().as_nanos();
            due = clock.departed(Timestamp::from_nanos(now));
            left.push(Left { at: now, place, behind: now.saturating_sub(clock.place().as_nanos()) });
        }
    }
    left
}

/// The longest row of departures whose gaps are shorter than the burst interval.
fn longest_train(left: &[Left]) -> usize {
    left.chunk_by(|one, next| next.at - one.at < BURST).map(<[Left]>::len).max().unwrap_or(0)
}

#[test]
fn a_loop_that_passes_too_seldom_falls_behind_for_good_without_trains() {
    // 60 µs between trigger states, 40 µs between places: one at each is two thirds of the rate.
    let gaps = [60_000; 20_000];
    let mut alone = clock(Recovery::NONE, CatchUp::default());
    let mut trains = clock(Recovery::trains(2), CatchUp::default());
    let (one, two) = (send(&mut alone, &gaps), send(&mut trains, &gaps));
    assert_eq!((longest_train(&one), longest_train(&two)), (1, 2));
    assert!(alone.forfeited() > 9_000 && trains.forfeited() == 0, "{}", alone.forfeited());
    let latest = two.iter().map(|left| left.at - left.place).max().unwrap();
    assert!(latest < 10 * TARGET, "{latest}");
}

/// Where one packet at a time is soon done, none leave together.
#[test]
fn no_train_leaves_where_trigger_states_are_frequent() {
    let mut gaps = vec![9_000; 20_000];
    gaps[5_000] = 8_000_000;
    let mut clock = clock(Recovery::trains(3), CatchUp::default());
    let left = send(&mut clock, &gaps);
    assert_eq!((longest_train(&left), clock.forfeited()), (1, 0));
    let over = left.iter().rfind(|left| left.behind > 0).unwrap().at;
    assert!(over < 1_000_000 + 5_000 * 9_000 + 5 * 8_000_000, "{over}");
}

/// Nor does a gap above the interval in the middle of a catch-up call for one.
#[test]
fn one_late_check_makes_no_train() {
    let mut gaps = vec![5_000; 20_000];
    // A stall, and a first gap of the catch-up of 35 µs.
    (gaps[5_000], gaps[5_005]) = (300_000, 15_000);
    // A stall, and 80 µs on the way.
    (gaps[10_000], gaps[10_050]) = (3_000_000, 80_000);
    let left = send(&mut clock(Recovery::trains(3), CatchUp::default()), &gaps);
    assert_eq!(longest_train(&left), 1);
}

/// A loop of which every fourth gap is long is slow, however short the others are: its catch-up ends too.
#[test]
fn a_catch_up_of_a_loop_with_many_long_gaps_ends() {
    let mut gaps: Vec<u64> = [23_000, 23_000, 23_000, 95_000].into_iter().cycle().take(20_000).collect();
    gaps[200] = 9_000_000;
    let mut clock = clock(Recovery::trains(3), CatchUp::default());
    let left = send(&mut clock, &gaps);
    assert_eq!((longest_train(&left) <= 3, clock.forfeited()), (true, 0));
    let end = left.iter().find(|left| left.at > 20_000_000 && left.behind == 0).map(|left| left.at);
    assert!(end.is_some_and(|end| end < 100_000_000), "{end:?}");
}

/// A loop whose checks come in pairs, far apart: each group of an echo server's requests takes longer than three intervals,
/// and only its end has a second check soon after. Each such gap looks like a stall; all together they are the loop, and
/// the flow keeps its rate, as one does that gets a check every three intervals.
#[test]
fn long_gaps_that_keep_coming_are_no_stalls() {
    let rows: [&[u64]; 5] = [
        &[130_000, 1_000, 30_000],
        &[125_000, 40_000],
        &[125_000, 20_000, 20_000],
        &[200_000, 10_000, 10_000, 10_000],
        &[119_000],
    ];
    for row in rows {
        let gaps: Vec<u64> = row.iter().copied().cycle().take(row.len() * 10_000).collect();
        let mut clock = clock(Recovery::trains(3), CatchUp::default());
        let left = send(&mut clock, &gaps);
        let of_the_rate = left.len() as f64 * TARGET as f64 / gaps.iter().sum::<u64>() as f64;
        assert!(of_the_rate > 0.999, "{row:?}: {of_the_rate}");
        assert!(longest_train(&left) <= 3 && clock.forfeited() == 0, "{row:?}");
    }
}

/// A gap between two checks of a busy loop, in nanoseconds: mostly a few microseconds.
fn busy(random: &mut Random) -> u64 {
    let (least, most) = match random.below(2_049) {
        0 => (120_000, 3_000_000),
        1..9 => (40_000, 120_000),
        9..49 => (7_000, 15_000),
        _ => (3_000, 7_000),
    };
    least + random.below(most - least)
}

/// Where one at a time is fast enough, next to none leave together.
#[test]
fn few_trains_leave_in_a_busy_loop() {
    for seed in 0..if cfg!(miri) { 0 } else { 4 } {
        let mut random = Random::stream(11, seed);
        let gaps: Vec<u64> = (0..200_000).map(|_| busy(&mut random)).collect();
        let left = send(&mut clock(Recovery::trains(3), CatchUp::default()), &gaps);
        let together = left.windows(2).filter(|two| two[1].at - two[0].at < BURST).count();
        assert!(together * 1_000 <= left.len(), "{seed}: {together} of {}", left.len());
    }
}

/// Between two checks passes nearly what a flow has: still one at a time.
#[test]
fn few_trains_leave_where_gaps_are_just_short_enough() {
    for seed in 0..if cfg!(miri) { 0 } else { 4 } {
        let mut random = Random::stream(12, seed);
        let mut gap = || match random.below(10_000) {
            0..4 => 300_000 + random.below(5_700_000),
            4..40 => 60_000 + random.below(140_000),
            _ => 24_000 + random.below(14_000),
        };
        let gaps: Vec<u64> = (0..100_000).map(|_| gap()).collect();
        let left = send(&mut clock(Recovery::trains(3), CatchUp::default()), &gaps);
        let together = left.windows(2).filter(|two| two[1].at - two[0].at < BURST).count();
        assert!(together * 1_000 <= left.len(), "{seed}: {together} of {}", left.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the loop does: no longer train, nothing before its time, and what was due is what left, what was given
    /// up and what is still behind.
    #[test]
    fn trains_are_bounded_and_the_account_adds_up(
        train in 1u16..5,
        packets in prop_oneof![Just(u64::MAX), 0u64..300],
        gaps in prop::collection::vec(prop_oneof![8 => 0u64..90_000, 2 => 0u64..400_000, 1 => 0u64..20_000_000], 1..600),
    ) {
        let mut clock = clock(Recovery::trains(train), CatchUp { time: Duration::MAX, packets });
        let left = send(&mut clock, &gaps);
        prop_assert!(longest_train(&left) <= usize::from(train));
        for one in &left {
            prop_assert!(one.at >= one.place, "{one:?}");
        }
        let Some(last) = left.last() else { return Ok(()) };
        let places = (last.at - 1_000_000) / TARGET + 1;
        let behind = clock.behind(Timestamp::from_nanos(last.at + 1));
        prop_assert_eq!(clock.departures(), left.len() as u64);
        prop_assert_eq!(left.len() as u64 + clock.forfeited() + behind, places.max(left.len() as u64 + clock.forfeited()));
    }

    /// After a stall, if there are trigger states often enough for trains of three, the flow is on schedule when eight
    /// times the stall have passed, and 40 intervals more.
    #[test]
    fn a_catch_up_ends_in_time(
        stall in 100_000u64..12_000_000,
        gaps in prop::collection::vec(1u64..84_000, 4_000),
    ) {
        let mut gaps = gaps;
        gaps[200] = stall;
        let resumed = 1_000_000 + gaps[..=200].iter().sum::<u64>();
        let mut clock = clock(Recovery::trains(3), CatchUp::ALL);
        let left = send(&mut clock, &gaps);
        let bound = resumed + u64::from(Recovery::WITHIN) * stall + 40 * TARGET;
        let mut after = left.iter().filter(|left| left.at >= resumed);
        let end = after.find(|left| left.behind == 0).map(|left| left.at);
        prop_assert!(end.is_some_and(|end| end <= bound), "{end:?}, {bound}");
    }
}
