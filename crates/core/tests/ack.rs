//! Pacing what ACKs release (soft timers, appendix A): lumps are spread, the rest passes. What that does to a
//! path is tested where there is one, in `softtimers-sim`.

mod machine;

use core::time::Duration;

use machine::Random;
use proptest::prelude::*;
use softtimers_core::StartRate;
use softtimers_core::{AckPacer, PaceConfig, Percent, Rate, RateClock, Timestamp};

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn pacer(burst_interval: u64) -> AckPacer {
    AckPacer::new().with_burst_interval(micros(burst_interval))
}

/// Sends what `acks` release, each packet as late as `lateness` says.
fn departures(
    pacer: &mut AckPacer,
    acks: impl IntoIterator<Item = (Timestamp, u64)>,
    mut lateness: impl FnMut() -> Duration,
) -> Vec<Timestamp> {
    let (mut departures, mut clock) = (Vec::new(), Timestamp::ZERO);
    for (arrival, packets) in acks.into_iter().chain([(Timestamp::MAX, 0)]) {
        let mut late = lateness();
        let due = |pacer: &AckPacer, clock: Timestamp, late| pacer.poll_at().map(|due| clock.max(due + late));
        while let Some(now) = due(pacer, clock, late).filter(|&now| now < arrival) {
            departures.push(now);
            pacer.departed(now);
            (clock, late) = (now, lateness());
        }
        clock = arrival;
        pacer.on_ack(arrival, packets);
    }
    departures
}

fn shortest_gap(departures: &[Timestamp]) -> Duration {
    departures.windows(2).map(|pair| pair[1].saturating_duration_since(pair[0])).min().unwrap()
}

/// ACKs of one packet, one each `gap`, of which `compressed` come together; with or without the long gap
/// before them that holding them up leaves.
fn with_a_burst(gap: u64, compressed: u64, held_up: bool) -> Vec<(Timestamp, u64)> {
    let before = (1..=100).map(|ack| ack * gap * 1_000);
    let burst = (100 + if held_up { compressed } else { 1 }) * gap * 1_000;
    let together = (0..compressed).map(|ack| burst + ack * 500);
    let after = (1..=200).map(|ack| burst + compressed * 500 + ack * gap * 1_000);
    before.chain(together).chain(after).map(|nanos| (Timestamp::from_nanos(nanos), 1)).collect()
}

#[test]
fn a_compressed_burst_of_ten_leaves_at_the_mean_gap() {
    for gap in [12, 40, 120, 1_000] {
        for held_up in [true, false] {
            let mut pacer = pacer(1);
            let sent = departures(&mut pacer, with_a_burst(gap, 10, held_up), || Duration::ZERO);
            assert_eq!(sent.len(), 310);
            let shortest = shortest_gap(&sent);
            assert!(
                shortest >= micros(gap) * 4 / 5,
                "{shortest:?} at a mean of {gap} µs, held up: {held_up}"
            );
            assert_eq!(pacer.compressed_acks(), 9);
        }
    }
}

/// A lump does not stand in the sender's queue for ever: the spacing is a little less than the mean.
#[test]
fn what_a_burst_left_waiting_is_gone_soon() {
    let mut pacer = pacer(1);
    let acks = with_a_burst(100, 10, false);
    let end = acks.last().unwrap().0;
    let sent = departures(&mut pacer, acks, || Duration::ZERO);
    assert!(*sent.last().unwrap() <= end, "the last ACK's packet waited");
}

#[test]
fn of_a_big_ack_no_two_leave_closer_than_the_burst_interval() {
    for burst_interval in [12, 30, 150] {
        let steady = (1..=50).map(|ack| (at(ack * 240), 2));
        let acks = steady.chain([(at(50 * 240 + 2_400), 20)]);
        let mut pacer = pacer(burst_interval);
        let mut random = Random::new(3);
        let sent = departures(&mut pacer, acks, || random.web_server_gap());
        assert_eq!((sent.len(), pacer.big_acks()), (120, 1));
        let shortest = shortest_gap(&sent);
        assert!(shortest >= micros(burst_interval), "{shortest:?}");
    }
}

/// An endpoint that polls (§5.8) sees ACKs in groups; its packets leave as if it had seen each in time.
#[test]
fn acks_that_are_read_in_groups_are_spread() {
    let groups = (1..=100).flat_map(|group| core::iter::repeat_n((at(group * 800), 1), 8));
    let mut pacer = AckPacer::starting_at(Rate::every(micros(100)).unwrap()).with_burst_interval(micros(1));
    let sent = departures(&mut pacer, groups, || Duration::ZERO);
    assert_eq!(sent.len(), 800);
    assert!(shortest_gap(&sent) >= micros(80), "{:?}", shortest_gap(&sent));
    let span = sent[799].saturating_duration_since(sent[0]);
    assert!(span <= micros(100 * 800), "{span:?}");
}

/// Soft timers §6, A.2: what an idle connection may send at once leaves at the rate of its last busy
/// period, whichever of the two clocks it uses.
#[test]
fn after_an_idle_time_the_first_train_runs_at_the_stored_rate() {
    let mut pacer = pacer(12);
    departures(&mut pacer, (1..=100).map(|ack| (at(ack * 150), 1)), || Duration::ZERO);
    let stored = pacer.rate().rate().unwrap();
    let mut start = StartRate::new(Rate::of_bits(100_000_000, 1_500).unwrap(), Percent::HALF).unwrap();
    start.proved(at(15_000), stored);

    let later = at(60_000_000);
    let mut clock = RateClock::new(PaceConfig::new(start.rate(later))).unwrap();
    let mut now = clock.start(later);
    assert_eq!(pacer.restart(later, 20), Some(later));
    for packet in 1..20u32 {
        now = clock.departed(now);
        assert!(now.saturating_duration_since(later).abs_diff(micros(150) * packet) <= micros(1));
        let paced = pacer.departed(pacer.poll_at().unwrap()).unwrap();
        assert!(paced.saturating_duration_since(later).abs_diff(micros(135) * packet) <= micros(1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever ACKs come and however late events run: everything released leaves or waits, no two
    /// packets are closer than the burst interval, nothing leaves before it was released.
    #[test]
    fn every_released_packet_leaves_once_and_none_too_close(
        acks in prop::collection::vec((prop_oneof![3 => 0u64..50, 3 => 50u64..300, 1 => 300u64..100_000], 0u64..30), 1..200),
        burst_interval in 0u64..100,
        lateness in prop::collection::vec(0u64..200, 1..50),
    ) {
        let mut now = Timestamp::ZERO;
        let acks: Vec<_> = acks.into_iter().map(|(gap, packets)| { now += micros(gap); (now, packets) }).collect();
        let mut late = lateness.into_iter().cycle();
        let mut pacer = pacer(burst_interval);
        let sent = departures(&mut pacer, acks.clone(), || micros(late.next().unwrap()));
        prop_assert_eq!(pacer.waiting(), 0);
        prop_assert_eq!(sent.len() as u64, acks.iter().map(|&(_, packets)| packets).sum::<u64>());
        prop_assert!(sent.len() < 2 || shortest_gap(&sent) >= micros(burst_interval));
        let released = acks.iter().flat_map(|&(at, packets)| (0..packets).map(move |_| at));
        prop_assert!(released.zip(&sent).all(|(released, &sent)| released <= sent));
    }
}
