//! Leaps keep to the sequence, however far. `tests/poisson.rs` tests the sequence itself.

use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

fn poisson(packets: u64, seed: u64) -> Poisson {
    Poisson::starting(Rate::per_second(packets).unwrap(), seed, Timestamp::ZERO)
}

fn places(mut poisson: Poisson) -> impl Iterator<Item = u64> {
    core::iter::from_fn(move || {
        let place = poisson.place().as_nanos();
        poisson.advance();
        Some(place)
    })
}

/// A stall of an hour at a place each nanosecond: a leap, not 3.6 × 10¹² steps.
#[test]
fn a_leap_is_short_however_far() {
    let mut poisson = poisson(1_000_000_000, 3);
    let hour = Timestamp::from_micros(3_600_000_000);
    let left = poisson.advance_to(hour) as f64;
    assert!((left / 3.6e12 - 1.0).abs() < 1e-9, "{left}");
    assert!(poisson.place() >= hour && poisson.place() < hour + Duration::from_nanos(50));
    assert_eq!(poisson.clone().advance_to(hour), 0);
}

/// 584 years on, at the fastest and the slowest rate and from the first place, times saturate and do not
/// wrap.
#[test]
fn the_end_of_time_is_no_place() {
    let slowest = Rate::every(Duration::from_nanos(u64::MAX)).unwrap();
    for rate in [Rate::per_second(1_000_000_000).unwrap(), Rate::per_second(1).unwrap(), slowest] {
        let mut poisson = Poisson::starting(rate, 4, Timestamp::ZERO);
        poisson.advance_to(Timestamp::MAX);
        poisson.advance();
        assert_eq!((poisson.place(), poisson.places_before(Timestamp::MAX)), (Timestamp::MAX, 0));
        (0..1_000).for_each(|_| poisson.advance());
        assert_eq!(poisson.place(), Timestamp::MAX);
    }
}

#[test]
fn each_train_has_gaps_of_its_own() {
    let mut clock = poisson(1_000, 1);
    clock.restart(Timestamp::from_micros(5));
    let first: Vec<u64> = places(clock.clone()).take(5).map(|place| place - 5_000).collect();
    assert_eq!(first, places(poisson(1_000, 1)).take(5).collect::<Vec<_>>());
    clock.advance();
    clock.restart(Timestamp::ZERO);
    assert_ne!(first, places(clock).take(5).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 128 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Leaps of any length end at the first place from a time on, of those that steps would find; the
    /// count is exact as far as it can be.
    #[test]
    fn leaps_keep_to_the_sequence(
        packets in 1u64..=1_000_000_000, seed: u64, leaps in prop::collection::vec(0u64..200_000, 1..6),
    ) {
        let mut stepped = poisson(packets, seed);
        let mut leapt = stepped.clone();
        let mut time = 0;
        for leap in leaps {
            // In hundredths of the mean interval, up to eight stretches.
            let gap = u64::try_from(u128::from(leap) * 10_000_000 / u128::from(packets)).unwrap();
            time += gap;
            let time = Timestamp::from_nanos(time);
            let mut steps = 0;
            while stepped.place() < time {
                stepped.advance();
                steps += 1;
            }
            prop_assert_eq!(leapt.places_before(time), leapt.clone().advance_to(time));
            let counted = leapt.advance_to(time);
            prop_assert_eq!(&stepped, &leapt);
            if leap < 25_000 {
                prop_assert_eq!(counted, steps);
            } else {
                prop_assert!(counted.abs_diff(steps) < 400, "{} is far from {}", counted, steps);
            }
        }
    }
}
