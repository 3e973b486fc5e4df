//! Paths that change by themselves.

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_wan::{
    Aqm, Bottleneck, Change, CodelConfig, Delivery, DeliveryTrace, Direction, Loss, PathConfig, PathError,
    Probability, Scenario, Wan, Way,
};

use super::rough;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_micros(millis * 1_000)
}

fn mbit(rate: u64) -> Change {
    Change::Bottleneck(Bottleneck::bits_per_second(rate * 1_000_000).unwrap())
}

fn everything() -> Scenario {
    let trace = DeliveryTrace::parse(b"1\n2\n2\n9\n").unwrap();
    Scenario::default()
        .at(millis(100), None, Change::Loss(Loss::Random(Probability::once_in(20))))
        .at(millis(130), Some(Way::Up), Change::Aqm(Aqm::Codel(CodelConfig::default())))
        .outage(millis(200), None, millis(30))
        .outage(millis(220), Some(Way::Up), millis(50))
        .at(millis(300), Some(Way::Down), Change::Bottleneck(Bottleneck::trace(trace)))
        .at(millis(400), None, Change::Delay(millis(2)))
        .at(millis(400), None, mbit(50))
        .repeat(millis(500))
        .unwrap()
}

/// All fates of three rounds of traffic over a rough path that changes, taken out whenever `looks` says so.
fn run(seed: u64, looks: impl Fn(Timestamp, Option<Timestamp>) -> Timestamp) -> Vec<(Way, Delivery<u64>)> {
    let mut wan = Wan::builder().both(rough()).seed(seed).build().unwrap();
    wan.play(at(7), &everything()).unwrap();
    let mut fates = Vec::new();
    let mut now = Timestamp::ZERO;
    for packet in 0..5_000 {
        let next = Timestamp::from_micros(packet * 317);
        while now < next {
            now = looks(now, wan.poll_at()).min(next);
            fates.extend(std::iter::from_fn(|| wan.pop_due(now)));
        }
        let way = if packet % 3 == 0 { Way::Up } else { Way::Down };
        wan.offer(next, way, 1_200, packet);
    }
    while let Some(now) = wan.poll_at() {
        fates.extend(std::iter::from_fn(|| wan.pop_due(now)));
    }
    fates
}

/// Bit for bit, however often one looks.
#[test]
fn a_scenario_is_replayed_by_its_seed() {
    let when_due =
        run(3, |now, poll_at| poll_at.unwrap_or(Timestamp::MAX).max(now + Duration::from_nanos(1)));
    assert!(when_due.len() > 3_000);
    for step in [millis(1), millis(700), Duration::from_micros(77)] {
        assert!(run(3, |now, _| now + step) == when_due, "looked at every {step:?}");
    }
    assert!(run(4, |now, _| now + millis(1)) != when_due);
}

#[test]
fn changes_come_at_their_times_and_again() {
    let scenario = everything();
    let mut wan = Wan::builder().both(PathConfig::default().delay(millis(20))).build::<()>().unwrap();
    wan.play(at(0), &scenario).unwrap();
    let up = |time| wan.direction(Way::Up).path_at(at(time));
    assert_eq!(up(99), PathConfig::default().delay(millis(20)));
    for round in [0, 500, 5_000_000] {
        assert_eq!(up(round + 100).loss, Loss::Random(Probability::once_in(20)));
        // Two outages that overlap are one.
        let outages = [199, 200, 229, 230, 269, 270].map(|time| up(round + time).outage);
        assert_eq!(outages, [false, true, true, true, true, false]);
        let rate = |time| up(round + time).bottleneck.mean_bps();
        assert_eq!([399, 400, 499, 500].map(rate), [None, Some(50_000_000), Some(50_000_000), None]);
    }
    let down = wan.direction(Way::Down).path_at(at(350));
    assert!(down.bottleneck.recording().is_some() && down.aqm == Aqm::DropTail && !down.outage);
}

/// The rate rises tenfold while a packet is on the link.
#[test]
fn a_packet_on_the_link_meets_the_change() {
    let slow = PathConfig::default().bottleneck(Bottleneck::bits_per_second(120_000).unwrap());
    let scenario = Scenario::default().at(millis(50), None, mbit(12));
    let mut direction = Direction::new(slow, 1).unwrap();
    direction.play(at(0), &scenario, Way::Up).unwrap();
    // 100 ms of the slow rate, half of it when it changes; the rest takes a hundredth.
    direction.offer(at(0), 1_500, ());
    let mut looks = 0;
    let due = loop {
        looks += 1;
        let now = direction.poll_at().unwrap();
        if let Some(delivery) = direction.pop_due(now) {
            break delivery.due;
        }
    };
    assert_eq!((due, looks), (Timestamp::from_micros(50_500), 2));
}

#[test]
fn an_outage_loses_all_and_is_counted() {
    let mut direction = Direction::new(PathConfig::default().delay(millis(5)), 1).unwrap();
    direction.play(at(0), &Scenario::default().outage(millis(10), None, millis(20)), Way::Down).unwrap();
    for packet in 0..40 {
        direction.offer(at(packet), 100, packet);
    }
    let mut arrived = Vec::new();
    while let Some(now) = direction.poll_at() {
        arrived.extend(std::iter::from_fn(|| direction.pop_due(now)).map(|delivery| delivery.packet));
    }
    assert_eq!(arrived, (0..10).chain(30..40).collect::<Vec<_>>());
    let counters = direction.counters();
    assert_eq!((counters.lost, counters.delivered, counters.held), (20, 20, 0));
}

#[test]
fn what_cannot_be_is_refused_before_it_begins() {
    let uniform = Change::Jitter(softtimers_wan::Jitter::uniform(millis(10)));
    let scenario = Scenario::default().at(millis(5), None, uniform);
    let mut wan = Wan::builder().up(PathConfig::default().delay(millis(50))).build::<()>().unwrap();
    let refused = wan.play(at(0), &scenario).unwrap_err();
    assert!(matches!(refused, PathError::LongJitter { .. }));
    // Nor in the direction where it could be.
    assert_eq!(wan.direction(Way::Up).path_at(at(10)).jitter, PathConfig::default().jitter);
    let late = Scenario::default().outage(millis(60), None, millis(1)).repeat(millis(60));
    assert_eq!(late, Err(PathError::Round { period: millis(60), last: millis(60) }));
    assert!(Scenario::default().repeat(millis(9)).is_err());
}

#[test]
fn a_skipped_wait_brings_what_follows_sooner() {
    let scenario = Scenario::default().at(millis(100), Some(Way::Up), Change::Delay(millis(1))).outage(
        millis(200),
        None,
        millis(50),
    );
    let mut wan = Wan::builder().build::<()>().unwrap();
    assert!(!wan.skip(at(5)));
    wan.play(at(1_000), &scenario).unwrap();
    assert!(wan.skip(at(1_030)));
    let state = |wan: &Wan<()>, way, time| {
        let path = wan.direction(way).path_at(at(time));
        (path.delay, path.outage)
    };
    assert_eq!([1_029, 1_030].map(|time| state(&wan, Way::Up, time).0), [millis(0), millis(1)]);
    for way in [Way::Up, Way::Down] {
        assert_eq!(
            [1_129, 1_130, 1_179, 1_180].map(|time| state(&wan, way, time).1),
            [false, true, true, false]
        );
    }
    for (time, out) in [(1_040, true), (1_041, false)] {
        assert!(wan.skip(at(time)));
        assert_eq!([Way::Up, Way::Down].map(|way| state(&wan, way, time).1), [out; 2]);
    }
    assert!(!wan.skip(at(1_042)));
}
