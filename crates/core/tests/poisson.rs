//! Places at random: that they are exponential and independent, also across the seams of the generator,
//! and what they are for a seed.

use softtimers_core::{Pattern, Rate, Schedule, Timestamp};

/// Nanoseconds from the start.
fn places(packets: u64, seed: u64) -> impl Iterator<Item = u64> {
    let rate = Rate::per_second(packets).unwrap();
    let mut schedule = Schedule::new(rate, Pattern::Poisson { seed }, Timestamp::ZERO);
    std::iter::from_fn(move || {
        let place = schedule.place().as_nanos();
        schedule.advance();
        Some(place)
    })
}

/// Gaps in mean intervals.
fn gaps(packets: u64, seed: u64, count: usize) -> Vec<f64> {
    let places: Vec<u64> = places(packets, seed).take(count + 1).collect();
    places.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * packets as f64 / 1e9).collect()
}

/// A recorded run can be repeated by its seed with any later version. Past the first stretch, too.
#[test]
fn the_places_of_a_seed_are_a_promise() {
    let places: Vec<u64> = places(25_000, 42).take(1_001).collect();
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
    let mut counts = vec![0f64; windows as usize + 1];
    // From the middle of a stretch to the middle of the next, at one place a microsecond.
    let places = places(1_000_000, 7).map(|place| (place / 1_000 + width / 2) / width);
    places.take_while(|&window| window <= windows).for_each(|window| counts[window as usize] += 1.0);
    let counts = &counts[1..];
    let mean = counts.iter().sum::<f64>() / windows as f64;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / windows as f64;
    assert!((mean / width as f64 - 1.0).abs() < 4.0 / ((windows * width) as f64).sqrt(), "{mean}");
    assert!((variance / width as f64 - 1.0).abs() < 4.0 * (2.0 / windows as f64).sqrt(), "{variance}");
}
