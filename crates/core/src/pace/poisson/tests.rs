//! The distribution, and that leaps keep to the sequence.

extern crate std;

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

/// In mean intervals.
fn gaps(packets: u64, seed: u64, count: usize) -> Vec<f64> {
    let places: Vec<u64> = places(poisson(packets, seed)).take(count + 1).collect();
    places.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * packets as f64 / 1e9).collect()
}

/// A recorded run can be repeated by its seed with any later version. Past the first stretch, too.
#[test]
fn the_places_of_a_seed_are_a_promise() {
    let places: Vec<u64> = places(poisson(25_000, 42)).take(1_001).collect();
    // Worked out apart from this code, with logarithms of 50 digits.
    assert_eq!(places[..6], [0, 19_468, 51_399, 114_518, 151_183, 162_901]);
    assert_eq!(places[998..], [36_577_048, 36_602_080, 36_672_309]);
}

/// Mean 1, variance 1, neighbours uncorrelated, and the largest distance of the distribution from
/// 1 − e⁻ˣ (Kolmogorov–Smirnov) within what one sample in a thousand exceeds. Five seeds.
#[test]
#[cfg_attr(miri, ignore = "a quarter of a million logarithms")]
fn gaps_are_exponential_and_independent() {
    let count = 50_000;
    let root = (count as f64).sqrt();
    for seed in 0..5 {
        let mut gaps = gaps(1_000, seed, count);
        let mean = gaps.iter().sum::<f64>() / count as f64;
        let squares = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
        let products = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        // Standard errors: 1 for the mean, √8 for the variance, 1 for the correlation, over √count.
        assert!((mean - 1.0).abs() < 4.0 / root, "seed {seed}: mean {mean}");
        assert!((squares / count as f64 - 1.0).abs() < 12.0 / root, "seed {seed}: {squares}");
        assert!((products / squares).abs() < 4.0 / root, "seed {seed}: {products}");

        gaps.sort_by(f64::total_cmp);
        let distance = gaps.iter().enumerate().map(|(rank, gap)| {
            let expected = 1.0 - (-gap).exp();
            (expected - rank as f64 / count as f64).abs().max((rank as f64 + 1.0) / count as f64 - expected)
        });
        let distance = distance.fold(0.0, f64::max);
        assert!(distance * root < 1.95, "seed {seed}: {distance}");
    }
}

/// The seams between stretches do not show: in a million mean intervals come a million places, and
/// their number in windows that lie across seams varies as it should.
#[test]
#[cfg_attr(miri, ignore = "a million logarithms")]
fn counts_are_poisson_across_the_seams() {
    let (windows, width) = (4_000u64, 256u64);
    let mut counts = std::vec![0f64; windows as usize + 1];
    // From the middle of a stretch to the middle of the next, at one place a microsecond.
    let places = places(poisson(1_000_000, 7)).map(|place| (place / 1_000 + width / 2) / width);
    places.take_while(|&window| window <= windows).for_each(|window| counts[window as usize] += 1.0);
    let counts = &counts[1..];
    let mean = counts.iter().sum::<f64>() / windows as f64;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / windows as f64;
    assert!((mean / width as f64 - 1.0).abs() < 4.0 / ((windows * width) as f64).sqrt(), "{mean}");
    assert!((variance / width as f64 - 1.0).abs() < 4.0 * (2.0 / windows as f64).sqrt(), "{variance}");
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

/// 584 years on, at the fastest and the slowest rate and from the first place: saturated, not wrapped.
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
