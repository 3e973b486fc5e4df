use super::*;
use crate::constants::Machine;

const DELAYED_ACKS: Duration = Machine::PAPERS.path.delayed_acks;

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn pacer(burst_interval: u64) -> AckPacer {
    AckPacer::new().with_burst_interval(micros(burst_interval))
}

/// The share of ACKs that acknowledge more than three packets, when 40 packets come in a train each 10 ms.
fn big_ack_share(receiver: AckReceiver, gap: Duration) -> f64 {
    let trains = (0..50).flat_map(|train| (0..40u32).map(move |packet| at(10_000 * train) + gap * packet));
    let acks = acks(receiver, trains);
    assert_eq!(acks.iter().map(|&(_, packets)| packets).sum::<u64>(), 2_000);
    acks.iter().filter(|&&(_, packets)| packets > 3).count() as f64 / acks.len() as f64
}

/// Soft timers A.3: while each packet is processed before the next one arrives, every second (third) one is
/// acknowledged; otherwise interrupts starve the reader, and ACKs grow.
#[test]
fn acks_are_big_when_processing_takes_longer_than_the_interarrival_time() {
    let receiver = AckReceiver::new(micros(40), micros(60), DELAYED_ACKS);
    let third = AckReceiver { every: 3, ..receiver.clone() };
    for gap in [101, 120, 200] {
        assert_eq!(big_ack_share(receiver.clone(), micros(gap)), 0.0);
        assert_eq!(big_ack_share(third.clone(), micros(gap)), 0.0);
    }
    // 1,500 bytes at 1 Gbit/s: nothing is read before the train ends, and it is acknowledged at once.
    assert_eq!(big_ack_share(receiver.clone(), micros(12)), 1.0);
    let shares = [90, 60, 45].map(|gap| big_ack_share(receiver.clone(), micros(gap)));
    assert!(shares[0] > 0.0 && shares.is_sorted(), "{shares:?}");
}

/// A browser that is drawing does not read: one ACK follows for all packets, from the delayed-ACK timer or
/// the next read.
#[test]
fn acks_are_big_when_the_application_reads_late() {
    let receiver = AckReceiver::new(micros(10), micros(20), DELAYED_ACKS);
    let steady = || (0..10_000).map(|packet| at(120 * packet));
    assert!(acks(receiver.clone(), steady()).iter().all(|&(_, packets)| packets <= 2));

    let away = (Duration::from_millis(1_000), Duration::from_millis(450));
    let acks = acks(AckReceiver { away, ..receiver }, steady());
    let big: Vec<_> = acks.iter().filter(|&&(_, packets)| packets > 3).collect();
    // Two from the timer while it is away, one from the read after it, in each period.
    assert_eq!(big[0], &(at(200_000), 1_667));
    assert_eq!(big[1], &(at(400_000), 1_667));
    assert!(big[2].0 > at(450_000) && big[2].0 < at(460_000), "{big:?}");
}

/// The same path and receiver for each answer: 100 Mbit/s, a round trip of 10 ms, and an application that
/// stops reading in each 200 ms; if for longer than the round trip, one ACK releases the whole window.
fn with(answer: Answer, away: u64) -> PathStats {
    let away = (Duration::from_millis(200), Duration::from_millis(away));
    let receiver = AckReceiver { away, ..AckReceiver::new(micros(20), micros(40), DELAYED_ACKS) };
    let path = Path {
        access_link: Machine::PAPERS.path.access_link,
        answer,
        window: 100,
        link: micros(120),
        delay: Duration::from_millis(5),
        receiver,
    };
    path.run(at(100_000), at(4_100_000), &Steps::unwatched())
}

fn paced() -> Answer {
    Answer::Paced(pacer(12))
}

/// Soft timers A.3: cutting the window or capping the burst also keeps the queue short, but drains the
/// pipe. Pacing keeps the queue short and the pipe full.
#[test]
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

/// A pause means that the receiver did not read, not that the path is slow, so the mean does not follow it.
#[test]
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
/// self-clocking continues that for ever, though the window is far below the capacity of both. Pacing ends it
/// (soft timers A.3).
#[test]
fn pacing_ends_what_bursts_and_big_acks_make_of_each_other() {
    let send = |answer| {
        let receiver = AckReceiver::new(micros(40), micros(60), DELAYED_ACKS);
        let path = Path {
            access_link: Machine::PAPERS.path.access_link,
            answer,
            window: 20,
            link: micros(12),
            delay: Duration::from_millis(5),
            receiver,
        };
        path.run(at(0), at(1_000_000), &Steps::unwatched())
    };
    let (clocked, spread) = (send(Answer::SelfClocked), send(paced()));
    let report = [&clocked, &spread].map(|outcome| (outcome.acknowledged, outcome.acks, outcome.big_acks));
    println!("{report:?}");
    assert!(clocked.big_acks * 10 >= clocked.acks * 9, "{report:?}");
    assert!(spread.big_acks * 10 <= spread.acks, "{report:?}");
    assert!(spread.acknowledged * 100 >= clocked.acknowledged * 95, "{report:?}");
}

/// With a short round trip and an unhindered sender, pacing makes no difference to the network: only there
/// can its cost be measured alone (soft timers §5.5).
#[test]
fn on_a_local_network_pacing_changes_nothing_but_its_own_cost() {
    let send = |answer| {
        let receiver = AckReceiver::new(micros(20), micros(40), DELAYED_ACKS);
        Path {
            access_link: Machine::PAPERS.path.access_link,
            answer,
            window: 20,
            link: micros(120),
            delay: micros(50),
            receiver,
        }
        .run(at(0), at(1_000_000), &Steps::unwatched())
        .acknowledged
    };
    let (clocked, spread) = (send(Answer::SelfClocked), send(paced()));
    assert!(clocked.abs_diff(spread) * 1_000 <= clocked, "{clocked}, {spread}");
}

/// The ACKs for packets that come whatever is acknowledged: when, and for how many.
fn acks(mut receiver: AckReceiver, arrivals: impl IntoIterator<Item = Timestamp>) -> Vec<(Timestamp, u64)> {
    let mut acks = Vec::new();
    let mut act_until = |receiver: &mut AckReceiver, end: Timestamp| {
        while let Some(at) = receiver.poll_at().filter(|&at| at < end) {
            acks.extend(receiver.act(at).map(|packets| (at, packets)));
        }
    };
    for arrival in arrivals {
        act_until(&mut receiver, arrival);
        receiver.packet(arrival);
    }
    act_until(&mut receiver, Timestamp::MAX);
    acks
}
