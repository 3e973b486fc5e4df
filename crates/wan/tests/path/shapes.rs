//! Distributions of delays, order, correlated loss, bursts and turns: what a direction makes of them.

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_wan::{
    Aqm, Bottleneck, DelayTable, Direction, FqCodelConfig, Incidence, Jitter, Loss, PathConfig, Probability,
    Queue, Slots, Spread, Traits,
};

use super::{at, drain, micros};

const PACKETS: u32 = 50_000;

/// The delays of packets a millisecond apart, in the order in which they were offered, in microseconds.
fn delays(path: PathConfig) -> Vec<f64> {
    let mut direction = Direction::new(path, 11).unwrap();
    for packet in 0..PACKETS {
        direction.offer(at(u64::from(packet) * 1_000), 100, packet);
    }
    let mut delays = vec![0.0; PACKETS as usize];
    for delivery in drain(&mut direction) {
        let delay = delivery.due.saturating_duration_since(delivery.offered);
        delays[delivery.packet as usize] = delay.as_nanos() as f64 / 1e3;
    }
    delays
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn correlation(values: &[f64]) -> f64 {
    let center = mean(values.iter().copied());
    let variance = mean(values.iter().map(|value| (value - center).powi(2)));
    mean(values.windows(2).map(|pair| (pair[0] - center) * (pair[1] - center))) / variance
}

fn jittered(spread: Spread, correlation: Probability) -> Vec<f64> {
    let jitter = Jitter::uniform(micros(1_000)).spread(spread).correlated(correlation).reordering();
    delays(PathConfig { most_packets: PACKETS, ..PathConfig::default() }.delay(micros(20_000)).jitter(jitter))
}

/// Each value of a histogram comes as often as it was counted, as far as chance goes, with a memory and without.
#[test]
fn delays_are_those_of_the_histogram() {
    let table = DelayTable::histogram(b"ms,count\n-3,500\n0,7000\n1,2000\n2.5,400\n40,100\n").unwrap();
    for correlation in [Probability::NEVER, Probability::once_in(4)] {
        let delays = jittered(Spread::Table(table.clone()), correlation);
        let mut seen = 0;
        for (value, share) in [(-3.0, 0.05), (0.0, 0.7), (1.0, 0.2), (2.5, 0.04), (40.0, 0.01)] {
            let count =
                delays.iter().filter(|&&delay| (delay - 20_000.0 - 1_000.0 * value).abs() < 1.0).count();
            let expected = f64::from(PACKETS) * share;
            // Five deviations; those of correlated draws are larger.
            let bound = 5.0
                * (expected * (1.0 - share)).sqrt()
                * if correlation == Probability::NEVER { 1.0 } else { 1.5 };
            assert!((count as f64 - expected).abs() < bound, "{value}: {count}, not {expected} ± {bound}");
            seen += count;
        }
        assert_eq!(seen, PACKETS as usize);
    }
}

/// The deciles of a draw with memory are those of one without, and neighbours resemble each other as asked.
#[test]
fn correlation_leaves_the_distribution_as_it_is() {
    let half = Probability::once_in(2);
    let spreads = [
        Spread::Uniform,
        Spread::Normal,
        Spread::Exponential,
        Spread::Table(DelayTable::pareto()),
        Spread::Table(DelayTable::pareto_normal()),
    ];
    for spread in spreads {
        let [mut alone, mut alike] =
            [Probability::NEVER, half].map(|correlation| jittered(spread.clone(), correlation));
        let (none, some) = (correlation(&alone), correlation(&alike));
        assert!(none.abs() < 0.03 && (some - 0.5).abs() < 0.1, "{spread:?}: {none} {some}");
        alone.sort_by(f64::total_cmp);
        alike.sort_by(f64::total_cmp);
        for decile in 1..10 {
            let place = PACKETS as usize * decile / 10;
            let (alone, alike) = (alone[place], alike[place]);
            assert!((alone - alike).abs() < 45.0, "{spread:?} at {decile} tenths: {alone} {alike}");
        }
    }
}

/// netem's Pareto: no earlier than two thirds of the size, no later than four, the mean about where it was.
#[test]
fn a_table_bounds_its_delays() {
    let pareto = jittered(Spread::Table(DelayTable::pareto()), Probability::NEVER);
    let (least, most) =
        pareto.iter().fold((f64::MAX, 0.0f64), |(least, most), &value| (least.min(value), most.max(value)));
    assert!((19_333.0..19_340.0).contains(&least) && (23_900.0..24_000.0).contains(&most), "{least} {most}");
    let center = mean(pareto.iter().copied());
    assert!((center - 20_000.0).abs() < 50.0, "{center}");
    // Longer than the delay: the earliest come at once, and none before it is sent.
    let early = Jitter::uniform(micros(1_000)).spread(Spread::Table(DelayTable::parse(b"-16384").unwrap()));
    assert!(
        delays(PathConfig::default().delay(micros(1_500)).jitter(early)).iter().all(|&delay| delay == 0.0)
    );
}

#[test]
fn every_fifth_packet_goes_ahead_as_in_netem() {
    let path = PathConfig::default().delay(micros(20_000));
    for (packet, delay) in delays(path.clone().ahead(Probability::ALWAYS, 5)).iter().enumerate() {
        let expected = if packet % 5 == 4 { 0.0 } else { 20_000.0 };
        assert_eq!(*delay, expected, "packet {packet}");
    }
    let some = delays(path.ahead(Probability::once_in(2), 1));
    let ahead = some.iter().filter(|&&delay| delay == 0.0).count() as f64 / f64::from(PACKETS);
    assert!((ahead - 0.5).abs() < 0.01, "{ahead}");
}

/// Tried with 50,000 packets at 5% and a correlation of a half.
#[test]
fn correlated_losses_keep_their_share() {
    let [share, half] = [Probability::once_in(20), Probability::once_in(2)];
    let mut direction = Direction::new(PathConfig::default().loss(Loss::correlated(share, half)), 5).unwrap();
    let mut lost = vec![1.0; PACKETS as usize];
    for packet in 0..PACKETS {
        direction.offer(at(u64::from(packet)), 100, packet);
    }
    drain(&mut direction).iter().for_each(|delivery| lost[delivery.packet as usize] = 0.0);
    let (found, like) = (mean(lost.iter().copied()), correlation(&lost));
    assert!((found - 0.05).abs() < 0.006 && (like - 0.5).abs() < 0.04, "{found} {like}");
}

/// 10 kB at once through a bucket of 4 kB that fills with a byte a microsecond.
#[test]
fn a_burst_passes_and_the_rest_at_the_rate() {
    let rate = Bottleneck::bits_per_second(8_000_000).unwrap();
    let mut direction = Direction::new(PathConfig::default().bottleneck(rate).burst(4_000), 1).unwrap();
    (0..10).for_each(|packet| _ = direction.offer(at(0), 1_000, packet));
    let due: Vec<_> = drain(&mut direction).iter().map(|delivery| delivery.due).collect();
    assert_eq!(due[..4], [at(0); 4]);
    assert_eq!(due[4..], (1..7).map(|milli| at(milli * 1_000)).collect::<Vec<_>>());
}

/// Two flows that send twice what the link takes and one that sends 1% of it, each counted.
fn shared(aqm: Aqm, queue: Queue) -> ([Vec<f64>; 3], softtimers_wan::Counters) {
    let rate = Bottleneck::bits_per_second(12_000_000).unwrap();
    let path = PathConfig::default().bottleneck(rate).queue(queue).aqm(aqm);
    let mut direction = Direction::new(path, 3).unwrap();
    let mut waits = [vec![], vec![], vec![]];
    for step in 0..20_000u64 {
        let now = Timestamp::ZERO + Duration::from_micros(1_000) * step as u32;
        for flow in [0, 0, 1, 1] {
            direction.offer_of(now, 1_500, Traits { flow, ..Traits::default() }, flow);
        }
        if step % 20 == 0 {
            direction.offer_of(now, 200, Traits { flow: 2, ..Traits::default() }, 2);
        }
        while let Some(delivery) = direction.pop_due(now) {
            let wait = delivery.due.saturating_duration_since(delivery.offered);
            waits[delivery.packet as usize].push(wait.as_nanos() as f64 / 1e3);
        }
    }
    (waits, direction.counters())
}

#[test]
fn flows_take_turns_and_a_small_one_does_not_wait() {
    let fair = Aqm::FqCodel(FqCodelConfig::default());
    let ([first, second, small], counters) = shared(fair, Queue::packets(1_000));
    let share = first.len() as f64 / second.len() as f64;
    assert!((0.98..1.02).contains(&share), "{share}");
    // Nothing of the small one is lost, and it waits for a turn of the others at most.
    let longest = small.iter().copied().fold(0.0, f64::max);
    assert!(small.len() >= 999 && longest < 5_000.0, "{} {longest}", small.len());
    assert!(counters.aqm_drops > 100 && counters.queue_drops > counters.aqm_drops, "{counters:?}");
    let gone = counters.delivered + counters.queue_drops + counters.overflowed + counters.lost;
    assert_eq!(counters.offered, gone + counters.held);
    // Without turns it waits behind the others, and loses with them.
    let ([.., small], _) = shared(Aqm::DropTail, Queue::packets(1_000));
    assert!(small.len() < 900 && small.iter().any(|&wait| wait > 500_000.0));
    // A limit in time holds as well.
    let ([.., small], counters) = shared(fair, Queue::time(micros(50_000)));
    assert!(small.len() >= 999 && counters.queue_drops > counters.aqm_drops);
}

/// Packets that wait when the management changes are neither lost nor, within a flow, out of order.
#[test]
fn a_queue_may_change_while_packets_wait() {
    let rate = Bottleneck::bits_per_second(12_000_000).unwrap();
    let path = |aqm| PathConfig::default().bottleneck(rate.clone()).aqm(aqm);
    let fair = Aqm::FqCodel(FqCodelConfig::default());
    let mut direction = Direction::new(path(Aqm::DropTail), 3).unwrap();
    for packet in 0..300u64 {
        if packet % 50 == 25 {
            let aqm = if packet % 100 == 25 { fair } else { Aqm::DropTail };
            direction.set(at(packet), path(aqm)).unwrap();
        }
        direction.offer_of(at(packet), 1_500, Traits { flow: packet % 3, ..Traits::default() }, packet);
    }
    assert_eq!(direction.queued(at(300)), 299);
    let came: Vec<u64> = drain(&mut direction).iter().map(|delivery| delivery.packet).collect();
    assert_eq!(came.len(), 300);
    for flow in 0..3 {
        assert!(came.iter().filter(|&packet| packet % 3 == flow).is_sorted());
    }
}

/// Tried with 50,000 packets at 5% and a correlation of a half, copies and damage each.
#[test]
fn correlated_copies_and_damage_keep_their_share() {
    let often = Incidence::from(Probability::once_in(20)).correlated(Probability::once_in(2));
    let path = PathConfig { most_packets: 2 * PACKETS, ..PathConfig::default() };
    let mut direction = Direction::new(path.duplicate(often).corrupt(often), 5).unwrap();
    let [mut copied, mut damaged] = [(); 2].map(|()| vec![0.0; PACKETS as usize]);
    for packet in 0..PACKETS {
        direction.offer(at(u64::from(packet)), 100, packet);
    }
    let mut arrivals = vec![];
    for delivery in drain(&mut direction) {
        arrivals.push(f64::from(delivery.flipped.is_some()));
        copied[delivery.packet as usize] += f64::from(delivery.copy);
        damaged[delivery.packet as usize] += f64::from(delivery.flipped.is_some());
    }
    // Copies are damaged by themselves, so damage is in a row of arrivals.
    for (name, found) in [("copied", &copied), ("damaged", &arrivals)] {
        let (share, like) = (mean(found.iter().copied()), correlation(found));
        assert!((share - 0.05).abs() < 0.006 && (like - 0.5).abs() < 0.04, "{name}: {share} {like}");
    }
    let counters = direction.counters();
    assert_eq!(counters.duplicated as f64, copied.iter().sum::<f64>());
    assert_eq!(counters.corrupted as f64, damaged.iter().sum::<f64>());
}

/// Where nothing happens, and where everything does, a correlation changes nothing.
#[test]
fn a_correlation_leaves_never_and_always_alone() {
    let half = Probability::once_in(2);
    for (share, copies) in [(Probability::NEVER, 0), (Probability::ALWAYS, 100)] {
        let often = Incidence::from(share).correlated(half);
        let mut direction = Direction::new(PathConfig::default().duplicate(often), 5).unwrap();
        (0..100).for_each(|packet| _ = direction.offer(at(packet), 100, packet));
        assert_eq!(direction.counters().duplicated, copies);
    }
}

/// Packets a millisecond apart, 1,000 bytes each, and slots 2.5 ms after they are wanted: when each leaves, in microseconds.
fn in_slots(slots: Slots, packets: u64) -> Vec<u64> {
    let mut direction = Direction::new(PathConfig::default().slots(slots), 5).unwrap();
    (0..packets).for_each(|packet| _ = direction.offer(at(packet * 1_000), 1_000, packet));
    let deliveries = drain(&mut direction);
    assert!(deliveries.is_sorted_by_key(|delivery| delivery.packet) && deliveries.len() as u64 == packets);
    deliveries.iter().map(|delivery| delivery.due.as_nanos() / 1_000).collect()
}

#[test]
fn packets_leave_in_slots_as_in_netem() {
    let slots = Slots::every(micros(2_500), micros(2_500));
    // Whoever comes until the slot is there leaves in it; the next one wants another.
    assert_eq!(in_slots(slots, 7), [2_500, 2_500, 2_500, 5_500, 5_500, 5_500, 8_500]);
    // A full slot is followed by another, counted from its beginning.
    let two = Slots { packets: 2, ..slots };
    assert_eq!(in_slots(two, 6), [2_500, 2_500, 5_000, 5_000, 7_500, 7_500]);
    let bytes = Slots { bytes: 1_001, ..slots };
    assert_eq!(in_slots(bytes, 6), in_slots(two, 6));
    // More come than slots take: each waits longer than the one before.
    assert_eq!(in_slots(Slots { packets: 1, ..slots }, 4), [2_500, 5_000, 7_500, 10_000]);
    // Gaps of any length in between are as likely.
    let varied = in_slots(Slots { packets: 1, ..Slots::every(micros(2_000), micros(6_000)) }, 5_000);
    let gaps: Vec<f64> = varied.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    assert!(gaps.iter().all(|gap| (1_999.0..=6_001.0).contains(gap)));
    assert!((mean(gaps.iter().copied()) - 4_000.0).abs() < 100.0);
    let path = PathConfig::default().slots(Slots::every(micros(2), micros(1)));
    assert!(path.check().unwrap_err().to_string().starts_with("slots from 2µs to 1µs apart"));
}
