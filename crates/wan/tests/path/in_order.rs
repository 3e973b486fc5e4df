//! Jitter in order is the jitter that was set, at every rate: mean and quantiles of minutes to hours of virtual time.

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_wan::{DelayTable, Direction, Jitter, PathConfig, Probability, Spread};

use super::micros;

/// Of 100 ms ± 20 (normal), as at 1,000 packets a second for half an hour: through the whole path, each packet counted.
#[test]
fn a_whole_path_keeps_the_delay_that_was_set() {
    let jitter = Jitter::uniform(micros(20_000)).spread(Spread::Normal);
    let path = PathConfig::default().delay(micros(100_000)).jitter(jitter);
    let mut direction = Direction::new(path, 7).unwrap();
    let (mut expected, mut sum) = (0u64, 0.0);
    let count = 1_800_000u64;
    for number in 0..count {
        let now = Timestamp::ZERO + micros(1_000) * number as u32;
        direction.offer(now, 100, number);
        while let Some(delivery) = direction.pop_due(now) {
            assert_eq!(delivery.packet, expected);
            expected += 1;
            sum += delivery.due.saturating_duration_since(delivery.offered).as_secs_f64();
        }
    }
    let counters = direction.counters();
    assert_eq!((counters.offered, counters.reordered), (count, 0));
    assert_eq!(counters.offered, counters.delivered + counters.held);
    let mean = sum / expected as f64;
    assert!((mean / 0.1 - 1.0).abs() < 0.01, "{mean}");
}

/// Packets further apart than delays differ are independent; close ones are alike.
#[test]
fn neighbours_are_as_alike_as_order_needs() {
    let alike = |gap: u64, correlated: Probability| {
        let jitter = Jitter::uniform(micros(20_000)).correlated(correlated);
        let path = PathConfig::default().delay(micros(50_000)).jitter(jitter);
        let mut direction = Direction::new(path, 3).unwrap();
        let mut delays = Vec::new();
        for number in 0..20_000u64 {
            let now = Timestamp::ZERO + micros(gap) * number as u32;
            direction.offer(now, 100, number);
            while let Some(one) = direction.pop_due(now) {
                delays.push(one.due.saturating_duration_since(one.offered).as_secs_f64() * 1e3 - 50.0);
            }
        }
        let product = delays.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
        product / delays.iter().map(|delay| delay * delay).sum::<f64>()
    };
    let [apart, close] = [200_000, 100].map(|gap| alike(gap, Probability::NEVER));
    assert!(apart.abs() < 0.03 && close > 0.99, "{apart} {close}");
    let asked = alike(200_000, Probability::once_in(2));
    assert!((asked - 0.5).abs() < 0.06, "{asked}");
}

/// How long a run must be, and which delays cannot be, is known before.
#[test]
fn what_a_run_cannot_show_is_known() {
    let normal = Jitter::uniform(micros(20_000)).spread(Spread::Normal);
    let settles = normal.settles_within();
    assert!((Duration::from_secs(2)..Duration::from_secs(20)).contains(&settles), "{settles:?}");
    assert_eq!(normal.clone().reordering().settles_within(), Duration::ZERO);
    let far = DelayTable::histogram(b"0,99\n40,1\n").unwrap();
    let far = Jitter::uniform(micros(1_000)).spread(Spread::Table(far)).settles_within();
    assert!((Duration::from_secs(15)..Duration::from_secs(60)).contains(&far), "{far:?}");
    // A tenth of a normal distribution is below −1.28 deviations.
    let cut = normal.share_cut(micros(25_600)).as_f64();
    assert!((cut - 0.1).abs() < 0.002, "{cut}");
    assert_eq!(normal.share_cut(micros(100_000)), Probability::NEVER);
}

/// A burst arrives as one, and a jitter that changes stays in order.
#[test]
fn order_holds_through_bursts_and_changes() {
    let spreads = [
        Spread::Uniform,
        Spread::Normal,
        Spread::Exponential,
        Spread::Table(DelayTable::parse(b"-8192 -8192 16384").unwrap()),
        Spread::Table(DelayTable::parse(b"5").unwrap()),
    ];
    let path = |round: u64| {
        let jitter =
            Jitter::uniform(micros(1 + round * 1_777 % 9_000)).spread(spreads[round as usize % 5].clone());
        PathConfig::default().delay(micros(10_000)).jitter(jitter)
    };
    let mut direction = Direction::new(path(0), 9).unwrap();
    let (mut number, mut expected) = (0u64, 0u64);
    for round in 0..2_000u64 {
        let now = Timestamp::ZERO + micros(round * round % 7_919 + round * 400);
        if round % 3 == 0 {
            direction.set(now, path(round)).unwrap();
        }
        for _ in 0..round % 5 {
            direction.offer(now, 100, number);
            number += 1;
        }
        while let Some(delivery) = direction.pop_due(now) {
            assert_eq!(delivery.packet, expected);
            expected += 1;
        }
    }
    assert!(expected > 3_900 && direction.counters().reordered == 0, "{expected}");
}
