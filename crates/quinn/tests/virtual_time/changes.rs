//! Paths and programs that change meanwhile.

use std::net::SocketAddr;
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_wan::{Bottleneck, DeliveryTrace, Way};

use crate::network::{Cross, Kind, Link, Network};

const LINK: Link = Link::new(100, 50, 20);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The rate of the first connection between two times, in Mbit/s.
fn rate(network: &Network, from: u64, to: u64) -> f64 {
    network.rates(seconds(from), seconds(to))[0]
}

fn endless(kind: Kind) -> Network {
    let mut network = Network::new(LINK, 1);
    network.open(kind, Duration::ZERO, 1 << 40);
    network
}

/// Wherever there is something to send, something is received: no second in the first ten has less than half of the link.
#[test]
fn nothing_stands_still_after_slow_start() {
    let mut network = endless(Kind::Both);
    network.run(seconds(10) + Duration::from_millis(20));
    for second in 1..10 {
        let rate = rate(&network, second, second + 1);
        assert!(rate > 65.0, "second {second}: {rate:.1} Mbit/s");
    }
}

/// ACKs that a radio link brings eight at a time, each four milliseconds.
#[test]
fn compressed_acks_cost_no_more_than_they_cost_stock() {
    let trace = DeliveryTrace::parse("4\n".repeat(40).as_bytes()).unwrap();
    let mut goodput = [0.0; 2];
    for (kind, goodput) in [Kind::Stock, Kind::Both].into_iter().zip(&mut goodput) {
        let acks = LINK.acks().bottleneck(Bottleneck::trace(trace.clone()));
        let mut network = Network::over(LINK.data(), acks, 1);
        network.open(kind, Duration::ZERO, 10_000_000);
        network.run_to_end(seconds(60));
        let took = network.now.saturating_duration_since(Timestamp::ZERO);
        *goodput = 80.0 / took.as_secs_f64();
        println!("{kind:?}: {goodput:.1} Mbit/s, {:.2}% dropped", network.flows[0].drops());
    }
    assert!(goodput[1] >= goodput[0] * 0.95, "{goodput:?}");
}

/// Somebody sends 60 Mbit/s for the first second, who gives way to nobody.
#[test]
fn traffic_at_the_start_is_no_measure_for_later() {
    let mut network = endless(Kind::Both);
    let (next, until) = (Timestamp::ZERO, Timestamp::ZERO + seconds(1));
    network.cross.push(Cross { next, until, gap: Duration::from_micros(163), lump: 1 });
    network.run(seconds(8) + Duration::from_millis(20));
    let (during, after) = (rate(&network, 0, 1), rate(&network, 5, 8));
    println!("{during:.1} Mbit/s beside it, {after:.1} after");
    assert!(during > 10.0 && after > 70.0, "{during:.1} {after:.1}");
}

/// The route becomes longer by 40 ms, then shorter again.
#[test]
fn a_route_that_changes_is_followed() {
    let mut network = endless(Kind::Both);
    network.run(seconds(2));
    for millis in [60, 20] {
        let link = Link { millis, ..LINK };
        network.wan.set(network.now, Way::Down, link.data().overhead(28)).unwrap();
        network.wan.set(network.now, Way::Up, link.acks().overhead(28)).unwrap();
        network.run(seconds(12));
    }
    network.run(Duration::from_millis(20));
    let (longer, again) = (rate(&network, 9, 14), rate(&network, 20, 26));
    println!("{longer:.1} Mbit/s over 60 ms, {again:.1} over 20 again");
    assert!(longer > 50.0 && again > 80.0, "{longer:.1} {again:.1}");
    assert!(network.flows[0].drops() < 1.0, "{:.2}%", network.flows[0].drops());
}

/// A program that pauses for five seconds: what it sends then does not leave in one lump, and is hardly dropped.
#[test]
fn after_an_idle_time_it_goes_on_evenly() {
    let mut network = Network::new(LINK, 1);
    network.open(Kind::Both, Duration::ZERO, 10_000_000);
    network.run(seconds(5));
    let before = network.flows[0].sender.dropped;
    let window = network.flows[0].samples.last().map_or(0, |sample| sample.window);
    network.more(0, 5_000_000);
    network.run(seconds(2));
    let flow = &network.flows[0];
    assert!(flow.finished.is_some(), "{} bytes", flow.received);
    assert!(flow.sender.dropped - before <= 10, "{} dropped", flow.sender.dropped - before);
    assert!(flow.samples.iter().all(|sample| sample.window < window * 2), "it has grown while idle");
}

/// The client moves to another network: another controller is built, and packets of the old path are none of its business.
#[test]
fn a_migration_begins_anew() {
    let mut network = endless(Kind::Both);
    network.run(seconds(2));
    network.flows[0].receiver.address = SocketAddr::from(([10, 7, 7, 7], 4_433));
    network.run(seconds(4) + Duration::from_millis(20));
    let flow = &network.flows[0];
    let moved = flow.samples.iter().filter(|sample| sample.at > Timestamp::ZERO + seconds(2));
    let least = moved.map(|sample| sample.window).min().unwrap_or(u64::MAX);
    assert!(least <= 40_000, "{least} bytes: the controller is the old one");
    let after = rate(&network, 4, 6);
    assert!(after > 70.0, "{after:.1} Mbit/s");
}
