//! Pacing what ACKs release (soft timers, appendix A): lumps are spread, the rest passes, and the pipe
//! stays full where other answers drain it.

mod machine;
mod path;

use core::time::Duration;

use machine::Random;
use path::receiver::{Receiver, acks};
use path::{Answer, Outcome, Path};
use proptest::prelude::*;
use softtimers_core::pace::StartRate;
use softtimers_core::{AckConfig, AckPacer, PaceConfig, Percent, Rate, RateClock, Timestamp};

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn config(burst_interval: u64) -> AckConfig {
    AckConfig { burst_interval: Some(micros(burst_interval)), ..AckConfig::default() }
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
            let mut pacer = AckPacer::new(config(1));
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
    let mut pacer = AckPacer::new(config(1));
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
        let mut pacer = AckPacer::new(config(burst_interval));
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
    let mut pacer = AckPacer::starting_at(Rate::every(micros(100)).unwrap(), config(1));
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
    let mut pacer = AckPacer::new(config(12));
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

/// The share of ACKs that acknowledge more than three packets, when 40 packets come in a train each 10 ms.
fn big_ack_share(receiver: Receiver, gap: Duration) -> f64 {
    let trains = (0..50).flat_map(|train| (0..40u32).map(move |packet| at(10_000 * train) + gap * packet));
    let acks = acks(receiver, trains);
    assert_eq!(acks.iter().map(|&(_, packets)| packets).sum::<u64>(), 2_000);
    acks.iter().filter(|&&(_, packets)| packets > 3).count() as f64 / acks.len() as f64
}

/// Soft timers A.3: as long as a packet is processed before the next one comes, every second (third) one is
/// acknowledged; as soon as it is not, interrupts starve the reader, and ACKs grow.
#[test]
#[cfg_attr(miri, ignore = "a simulated transfer takes minutes under Miri")]
fn acks_are_big_when_processing_takes_longer_than_the_interarrival_time() {
    let receiver = Receiver::new(micros(40), micros(60));
    let third = Receiver { every: 3, ..receiver.clone() };
    for gap in [101, 120, 200] {
        assert_eq!(big_ack_share(receiver.clone(), micros(gap)), 0.0);
        assert_eq!(big_ack_share(third.clone(), micros(gap)), 0.0);
    }
    // 1,500 bytes at 1 Gbit/s: nothing is read before the train ends, and it is acknowledged at once.
    assert_eq!(big_ack_share(receiver.clone(), micros(12)), 1.0);
    let shares = [90, 60, 45].map(|gap| big_ack_share(receiver.clone(), micros(gap)));
    assert!(shares[0] > 0.0 && shares.is_sorted(), "{shares:?}");
}

/// A browser that draws does not read: one ACK follows for everything, from the delayed-ACK timer or the
/// next read.
#[test]
#[cfg_attr(miri, ignore = "a simulated transfer takes minutes under Miri")]
fn acks_are_big_when_the_application_reads_late() {
    let receiver = Receiver::new(micros(10), micros(20));
    let steady = || (0..10_000).map(|packet| at(120 * packet));
    assert!(acks(receiver.clone(), steady()).iter().all(|&(_, packets)| packets <= 2));

    let away = (Duration::from_millis(1_000), Duration::from_millis(450));
    let acks = acks(Receiver { away, ..receiver }, steady());
    let big: Vec<_> = acks.iter().filter(|&&(_, packets)| packets > 3).collect();
    // Two from the timer while it is away, one from the read after it, in each period.
    assert_eq!(big[0], &(at(200_000), 1_667));
    assert_eq!(big[1], &(at(400_000), 1_667));
    assert!(big[2].0 > at(450_000) && big[2].0 < at(460_000), "{big:?}");
}

/// The same path and receiver for each answer: 100 Mbit/s, a round trip of 10 ms, and an application that
/// looks away in each 200 ms; if for longer than the round trip, one ACK empties the whole window.
fn with(answer: Answer, away: u64) -> Outcome {
    let away = (Duration::from_millis(200), Duration::from_millis(away));
    let receiver = Receiver { away, ..Receiver::new(micros(20), micros(40)) };
    let path = Path { answer, window: 100, link: micros(120), delay: Duration::from_millis(5), receiver };
    path.run(at(100_000), at(4_100_000))
}

fn paced() -> Answer {
    Answer::Paced(AckPacer::new(config(12)))
}

/// Soft timers A.3: cutting the window or capping the burst also keeps the queue short, but drains the
/// pipe. Paced sending keeps both.
#[test]
#[cfg_attr(miri, ignore = "a simulated transfer takes minutes under Miri")]
fn pacing_fills_the_pipe_where_other_answers_drain_it() {
    let clocked = with(Answer::SelfClocked, 15);
    let spread = with(paced(), 15);
    let capped = with(Answer::MaxBurst(4), 15);
    let cut = with(Answer::CutWindow, 15);
    let report =
        [("self-clocked", &clocked), ("paced", &spread), ("maxburst", &capped), ("window cut", &cut)].map(
            |(name, outcome)| {
                let of_the_link = outcome.acknowledged as f64 * 120e-6 / 4.0 * 100.0;
                format!("{name}: {of_the_link:.1}% of the link, longest queue {}", outcome.longest_queue)
            },
        );
    println!("{report:#?}");
    assert!(clocked.big_acks >= 19 && spread.big_acks >= 19, "{report:?}");
    assert!(spread.acknowledged * 100 >= clocked.acknowledged * 99, "{report:?}");
    assert!(capped.acknowledged * 100 <= spread.acknowledged * 90, "{report:?}");
    assert!(cut.acknowledged * 100 <= spread.acknowledged * 90, "{report:?}");
    assert!(clocked.longest_queue >= 80 && spread.longest_queue <= 20, "{report:?}");
}

/// A pause says that the receiver was away, not that the path is slow: the mean does not follow it.
#[test]
#[cfg_attr(miri, ignore = "a simulated transfer takes minutes under Miri")]
fn pauses_of_the_receiver_do_not_slow_the_sender_down() {
    for away in [2, 5, 10, 20, 30, 50, 80] {
        let (clocked, spread) = (with(Answer::SelfClocked, away), with(paced(), away));
        let rates = (clocked.acknowledged, spread.acknowledged);
        println!("away {away} ms: {rates:?}, queues {} and {}", clocked.longest_queue, spread.longest_queue);
        assert!(rates.1 * 100 >= rates.0 * 95, "away {away} ms: {rates:?}");
        assert!(spread.longest_queue <= clocked.longest_queue / 2 || away < 10);
    }
}

/// A receiver that is slower than the link answers a burst with a big ACK, which releases the next burst:
/// self-clocking keeps that up for ever, though the window is far from what either can carry. Pacing ends it
/// (soft timers A.3).
#[test]
#[cfg_attr(miri, ignore = "a simulated transfer takes minutes under Miri")]
fn pacing_ends_what_bursts_and_big_acks_make_of_each_other() {
    let send = |answer| {
        let receiver = Receiver::new(micros(40), micros(60));
        let path = Path { answer, window: 20, link: micros(12), delay: Duration::from_millis(5), receiver };
        path.run(at(0), at(1_000_000))
    };
    let (clocked, spread) = (send(Answer::SelfClocked), send(paced()));
    let report = [&clocked, &spread].map(|outcome| (outcome.acknowledged, outcome.acks, outcome.big_acks));
    println!("{report:?}");
    assert!(clocked.big_acks * 10 >= clocked.acks * 9, "{report:?}");
    assert!(spread.big_acks * 10 <= spread.acks, "{report:?}");
    assert!(spread.acknowledged * 100 >= clocked.acknowledged * 95, "{report:?}");
}

/// Where the round trip is short and nothing slows the sender down, pacing changes nothing that the network
/// would notice. So there its cost can be measured by itself (soft timers §5.5).
#[test]
#[cfg_attr(miri, ignore = "a simulated transfer takes minutes under Miri")]
fn on_a_local_network_pacing_changes_nothing_but_its_own_cost() {
    let send = |answer| {
        let receiver = Receiver::new(micros(20), micros(40));
        Path { answer, window: 20, link: micros(120), delay: micros(50), receiver }
            .run(at(0), at(1_000_000))
            .acknowledged
    };
    let (clocked, spread) = (send(Answer::SelfClocked), send(paced()));
    assert!(clocked.abs_diff(spread) * 1_000 <= clocked, "{clocked}, {spread}");
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
        let mut pacer = AckPacer::new(config(burst_interval));
        let sent = departures(&mut pacer, acks.clone(), || micros(late.next().unwrap()));
        prop_assert_eq!(pacer.waiting(), 0);
        prop_assert_eq!(sent.len() as u64, acks.iter().map(|&(_, packets)| packets).sum::<u64>());
        prop_assert!(sent.len() < 2 || shortest_gap(&sent) >= micros(burst_interval));
        let released = acks.iter().flat_map(|&(at, packets)| (0..packets).map(move |_| at));
        prop_assert!(released.zip(&sent).all(|(released, &sent)| released <= sent));
    }
}
