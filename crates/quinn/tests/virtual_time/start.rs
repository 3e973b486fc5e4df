//! Slow start: how soon the path is full, what that costs, and what it costs a flow that is there already.

use std::time::Duration;

use crate::network::{Kind, Link, Network};

/// The round trips from the first byte until the window is nine tenths of what the path holds, and the packets dropped by
/// then and in ten round trips more.
fn filled(kind: Kind, link: Link, seed: u64) -> (f64, u64) {
    let mut network = Network::new(link, seed);
    network.open(kind, Duration::ZERO, 1 << 40);
    let round = Duration::from_millis(link.millis);
    network.run(40 * round);
    let flow = &network.flows[0];
    let first = flow.samples.iter().find(|sample| sample.received > 0).map(|sample| sample.at);
    let full = flow.samples.iter().find(|sample| sample.window as f64 >= 0.9 * link.holds());
    let (first, full) = first.zip(full.map(|sample| sample.at)).expect("it fills the path");
    // The first byte has taken half a round trip.
    let rounds = full.saturating_duration_since(first).as_secs_f64() / round.as_secs_f64() + 0.5;
    (rounds, flow.sender.dropped)
}

/// Doubling from ten packets takes more than four round trips to the 208 that 100 Mbit/s and 20 ms hold, and seven to those
/// of 100 ms. Trains tell the rate in the first of them.
#[test]
fn a_path_is_full_after_a_few_round_trips() {
    for (link, most) in
        [(Link::new(100, 20, 20), 4.0), (Link::new(300, 30, 20), 5.0), (Link::new(100, 20, 100), 6.0)]
    {
        for seed in 0..3 {
            let (stock, even) = (filled(Kind::Stock, link, seed), filled(Kind::Both, link, seed));
            println!("{link:?}, seed {seed}: stock {stock:.1?}, even {even:.1?}");
            assert!(even.0 <= most, "{link:?}: {:.1} round trips", even.0);
            assert!(even.1 * 10 <= stock.1.max(10), "{link:?}: {} dropped, stock {}", even.1, stock.1);
        }
    }
}

/// A flow joins one that has been there for four seconds: the Mbit/s of each in the second after, and the drops.
fn joined(kind: Kind, link: Link, seed: u64) -> ([f64; 2], u64) {
    let mut network = Network::new(link, seed);
    network.open(Kind::Stock, Duration::ZERO, 1 << 40);
    let joins = Duration::from_millis(4_000 + 37 * seed);
    network.open(kind, joins, 1 << 40);
    network.run(joins);
    let before: u64 = network.flows.iter().map(|flow| flow.sender.dropped).sum();
    let second = Duration::from_secs(1);
    network.run(second + Duration::from_millis(20));
    let after: u64 = network.flows.iter().map(|flow| flow.sender.dropped).sum();
    let rates = network.rates(joins, joins + second);
    ([rates[0], rates[1]], after - before)
}

/// A faster start leaves a flow that is there its fair share, and drops hardly more than stock's.
#[test]
fn a_flow_that_is_there_keeps_its_share() {
    const SEEDS: u64 = 8;
    let link = Link::new(100, 20, 20);
    let (mut kept, mut drops) = ([0.0; 2], [0; 2]);
    for seed in 0..SEEDS {
        for (number, kind) in [Kind::Stock, Kind::Both].into_iter().enumerate() {
            let ([there, joins], dropped) = joined(kind, link, seed);
            kept[number] += 2.0 * there / (there + joins) / SEEDS as f64;
            drops[number] += dropped;
            println!("seed {seed}: {kind:?} joins: {there:.1}, {joins:.1} Mbit/s, {dropped} dropped");
        }
    }
    println!("keeps {kept:.2?}, drops {drops:?}");
    assert!(kept[1] >= 0.85, "{kept:.2?} of its fair share");
    assert!(drops[1] <= drops[0] * 5 / 4, "{drops:?}");
}
