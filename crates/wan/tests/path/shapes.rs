//! Distributions of delays, order, correlated loss, bursts and turns: what a direction makes of them.

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_wan::{
    Aqm, Bottleneck, DelayTable, Direction, FqCodelConfig, Jitter, Loss, PathConfig, Probability, Queue,
    Spread, Traits,
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

/// Of 50,000 packets at 5% and a correlation of a half.
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

/// What waits when the management changes is neither lost nor, of a flow, out of order.
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
