//! What each toxic does to the bytes and the end of a stream.

use super::*;
use crate::Probability;

const ZERO: Timestamp = Timestamp::ZERO;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn chain(toxics: &[Toxic]) -> Chain {
    let mut chain = Chain::new(1);
    chain.set(ZERO, &doses(toxics));
    chain
}

fn doses(toxics: &[Toxic]) -> Vec<Dose> {
    let dose =
        |(toxic, id): (&Toxic, u64)| Dose { id, revision: 0, toxic: *toxic, toxicity: Probability::ALWAYS };
    toxics.iter().zip(1..).map(dose).collect()
}

/// Returns all output until nothing is left, with its time in milliseconds.
fn drain(chain: &mut Chain) -> Vec<(u64, Passed)> {
    let mut all = Vec::new();
    while let Some(at) = chain.poll_at() {
        while let Some(passed) = chain.pop_due(at) {
            all.push((at.as_nanos() / 1_000_000, passed));
        }
    }
    all
}

fn bytes(length: usize) -> Box<[u8]> {
    (0..length).map(|byte| byte as u8).collect()
}

#[test]
fn latency_delays_and_keeps_the_order() {
    let mut chain = chain(&[Toxic::Latency { latency: ms(100), jitter: ms(90) }]);
    for number in 0..50 {
        chain.offer(ZERO + ms(number), vec![number as u8].into());
    }
    chain.end(ZERO + ms(50));
    let all = drain(&mut chain);
    assert!(all.is_sorted_by_key(|(at, _)| *at));
    let order = all.iter().flat_map(|(_, passed)| match passed {
        Passed::Bytes(bytes) => bytes.to_vec(),
        _ => vec![],
    });
    assert_eq!(order.collect::<Vec<u8>>(), (0..50).collect::<Vec<u8>>());
    assert_eq!(all.last().map(|(_, passed)| passed), Some(&Passed::End));
    assert!(all[0].0 >= 10 && all[50].0 <= 49 + 190);
}

#[test]
fn bandwidth_is_exact_and_the_end_waits() {
    // 1,000 bytes at 1 kB/s, in tenths of a second.
    let mut chain = chain(&[Toxic::Bandwidth { rate: 1_000 }]);
    chain.offer(ZERO, bytes(1_000));
    chain.end(ZERO);
    let all = drain(&mut chain);
    let times: Vec<_> = all.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000, 1_000]);
    assert_eq!(all[10].1, Passed::End);
}

/// The usual way to cut a line: what comes is held, also its end, until the toxic changes or goes.
#[test]
fn a_rate_of_zero_holds_everything_until_it_changes_or_goes() {
    let none = Toxic::Bandwidth { rate: 0 };
    let cut = || {
        let mut chain = chain(&[none, Toxic::Latency { latency: ms(3), jitter: ms(0) }]);
        chain.offer(ZERO, bytes(7));
        chain.offer(ZERO + ms(1), bytes(5));
        chain.end(ZERO + ms(2));
        assert_eq!((chain.poll_at(), chain.pop_due(ZERO + ms(9_000_000))), (None, None));
        chain
    };
    let passed = [(9, Passed::Bytes(bytes(7))), (9, Passed::Bytes(bytes(5))), (9, Passed::End)];
    for after in [vec![], doses(&[Toxic::Bandwidth { rate: 1_000 }])] {
        let mut chain = cut();
        chain.set(ZERO + ms(9), &after);
        assert_eq!(drain(&mut chain), passed);
    }
    // An end behind which nothing is held passes; what comes after a change is held again.
    let mut chain = chain(&[none]);
    chain.end(ZERO);
    assert_eq!(drain(&mut chain), [(0, Passed::End)]);
    let mut again = super::tests::chain(&[Toxic::Bandwidth { rate: 5 }]);
    again.set(ZERO, &doses(&[none]));
    again.offer(ZERO + ms(1), bytes(1));
    assert_eq!(again.poll_at(), None);
}

/// A limit that is lowered below what has passed closes at the next data; one that was reached closes all the same.
#[test]
fn a_limit_that_changes_counts_what_has_passed() {
    let limit = |bytes| Toxic::LimitData { bytes };
    let mut chain = chain(&[limit(5_000)]);
    chain.offer(ZERO, bytes(100));
    assert_eq!(drain(&mut chain), [(0, Passed::Bytes(bytes(100)))]);
    chain.set(ZERO + ms(1), &doses(&[limit(10)]));
    assert_eq!(chain.poll_at(), None);
    chain.offer(ZERO + ms(2), bytes(1));
    assert_eq!((drain(&mut chain), chain.swallowed()), (vec![(2, Passed::Close)], 1));
    let latency = Toxic::Latency { latency: ms(50), jitter: ms(0) };
    let mut chain = super::tests::chain(&[limit(10), latency]);
    chain.offer(ZERO, bytes(10));
    chain.set(ZERO + ms(1), &doses(&[limit(99), latency]));
    assert_eq!(drain(&mut chain), [(1, Passed::Bytes(bytes(10))), (1, Passed::Close)]);
}

#[test]
fn a_slow_close_holds_the_end_only() {
    let mut chain = chain(&[Toxic::SlowClose { delay: ms(30) }]);
    chain.offer(ZERO, bytes(3));
    chain.end(ZERO + ms(1));
    assert_eq!(drain(&mut chain), [(0, Passed::Bytes(bytes(3))), (31, Passed::End)]);
}

#[test]
fn a_timeout_swallows_and_closes_in_time_or_when_it_is_removed() {
    let mut chain = chain(&[Toxic::Timeout { timeout: ms(20) }]);
    chain.offer(ZERO, bytes(7));
    assert_eq!(drain(&mut chain), [(20, Passed::Close)]);
    assert_eq!(chain.swallowed(), 7);
    let mut chain = super::tests::chain(&[Toxic::Timeout { timeout: Duration::ZERO }]);
    chain.offer(ZERO, bytes(7));
    assert_eq!(chain.poll_at(), None);
    chain.set(ZERO + ms(9), &[]);
    assert_eq!(drain(&mut chain), [(9, Passed::Close)]);
}

#[test]
fn a_reset_comes_its_time_after_the_first_piece() {
    let mut chain = chain(&[Toxic::ResetPeer { timeout: ms(5) }]);
    assert_eq!(chain.poll_at(), None);
    chain.offer(ZERO + ms(10), bytes(1));
    chain.offer(ZERO + ms(12), bytes(1));
    assert_eq!(drain(&mut chain), [(15, Passed::Reset)]);
    assert_eq!(chain.swallowed(), 2);
    // Also where nothing but the end comes.
    let mut chain = super::tests::chain(&[Toxic::ResetPeer { timeout: ms(5) }]);
    chain.end(ZERO);
    assert_eq!(drain(&mut chain), [(5, Passed::Reset)]);
}

#[test]
fn limited_data_pass_to_the_byte_and_then_it_closes() {
    let mut chain =
        chain(&[Toxic::LimitData { bytes: 10 }, Toxic::Latency { latency: ms(4), jitter: ms(0) }]);
    chain.offer(ZERO, bytes(6));
    chain.offer(ZERO + ms(1), bytes(6));
    chain.offer(ZERO + ms(2), bytes(6));
    let expected = [(4, Passed::Bytes(bytes(6))), (5, Passed::Bytes(bytes(4))), (5, Passed::Close)];
    assert_eq!(drain(&mut chain), expected);
    assert_eq!(chain.swallowed(), 8);
}

#[test]
fn slices_are_whole_and_apart() {
    for (average, variation) in [(100, 20), (1, 0), (7, 7), (0, 0), (1_000_000, 5)] {
        let delay = Duration::from_micros(1_000);
        let mut chain = chain(&[Toxic::Slicer { average_size: average, size_variation: variation, delay }]);
        chain.offer(ZERO, bytes(2_000));
        let all = drain(&mut chain);
        let lengths = all.iter().map(|(_, passed)| length(passed));
        assert!(lengths.clone().all(|slice| slice > 0));
        assert_eq!(lengths.sum::<usize>(), 2_000);
        assert!(all.iter().zip(0..).all(|((at, _), number)| *at == number));
    }
}

#[test]
fn the_number_of_slices_that_are_held_is_bounded() {
    let slicer = [Toxic::Slicer { average_size: 1, size_variation: 0, delay: ms(1) }];
    let fed = || {
        let mut chain = chain(&slicer);
        for number in 0..8 {
            chain.offer(ZERO + ms(number), bytes(40_000));
        }
        chain.end(ZERO + ms(9));
        assert!(chain.held.len() < MOST_PIECES + 40_000);
        chain
    };
    let all = drain(&mut fed());
    assert_eq!(all.len(), 320_001);
    assert!(all.iter().zip(0..320_000).all(|((at, passed), due)| *at == due && length(passed) == 1));
    assert_eq!(all.last(), Some(&(320_000, Passed::End)));
    // Released data includes what was not cut yet, and so does dropped data.
    let mut chain = fed();
    chain.set(ZERO + ms(10), &[]);
    let all = drain(&mut chain);
    assert_eq!(all.iter().map(|(_, passed)| length(passed)).sum::<usize>(), 320_000);
    assert_eq!(all.last(), Some(&(10, Passed::End)));
    let mut chain = fed();
    chain.set(ZERO + ms(10), &doses(&[slicer[0], Toxic::Timeout { timeout: ms(5) }]));
    assert_eq!((drain(&mut chain).pop(), chain.swallowed()), (Some((15, Passed::Close)), 320_000 - 16));
}

#[test]
fn what_is_held_goes_at_once_when_a_toxic_is_removed() {
    let slow = [Toxic::Latency { latency: ms(10_000), jitter: ms(0) }];
    let mut chain = chain(&slow);
    chain.offer(ZERO, bytes(1));
    chain.set(ZERO + ms(1), &doses(&slow));
    assert_eq!(chain.poll_at(), Some(ZERO + ms(10_000)), "the same is no change");
    let mut again = super::tests::chain(&slow);
    again.offer(ZERO, bytes(1));
    again.set(ZERO + ms(1), &[Dose { revision: 1, ..doses(&slow)[0] }]);
    assert_eq!(drain(&mut again), [(1, Passed::Bytes(bytes(1)))]);
    chain.set(ZERO + ms(2), &[]);
    chain.offer(ZERO + ms(3), bytes(2));
    assert_eq!(drain(&mut chain), [(2, Passed::Bytes(bytes(1))), (3, Passed::Bytes(bytes(2)))]);
    assert!(chain.is_clear());
}

#[test]
fn toxicity_is_a_share_of_the_connections() {
    let toxic = Toxic::Latency { latency: ms(1), jitter: ms(0) };
    let dose = Dose { id: 1, revision: 0, toxic, toxicity: Probability::per_million(250_000).unwrap() };
    let met = (0..4_000).filter(|&seed| {
        let mut chain = Chain::new(seed);
        chain.set(ZERO, &[dose]);
        chain.offer(ZERO, bytes(1));
        chain.poll_at() != Some(ZERO)
    });
    let met = met.count();
    // Four standard deviations around 1,000; the seeds are fixed.
    assert!((890..1_110).contains(&met), "{met}");
}
