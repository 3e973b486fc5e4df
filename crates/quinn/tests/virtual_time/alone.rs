//! One connection and ten megabytes: how long they take, and how much is dropped.

use std::time::Duration;

use softtimers_core::Timestamp;

use crate::network::{Kind, Link, Network};
use crate::size;

const BYTES: u64 = 10_000_000;

/// Goodput in Mbit/s with the handshake, drops in percent, and the largest window as a share of what the path holds.
struct Seen {
    goodput: f64,
    drops: f64,
    most: f64,
}

fn transfer(kind: Kind, link: Link, seed: u64) -> Seen {
    let mut network = Network::new(link, seed);
    network.open(kind, Duration::ZERO, BYTES);
    network.run_to_end(Duration::from_secs(60));
    let flow = &network.flows[0];
    let took = flow.finished.unwrap_or(Timestamp::MAX).saturating_duration_since(Timestamp::ZERO);
    let most = flow.samples.iter().map(|sample| sample.window).max().unwrap_or(0);
    let goodput = BYTES as f64 * 8e-6 / took.as_secs_f64();
    Seen { goodput, drops: flow.drops(), most: most as f64 / link.holds() }
}

/// The mean over the seeds of goodput against stock's, and drops of both.
fn contest(link: Link, kind: Kind) -> (f64, [f64; 2]) {
    let seeds = size(1, 5);
    let (mut ratio, mut drops) = (0.0, [0.0; 2]);
    for seed in 0..seeds {
        let [stock, even] = [Kind::Stock, kind].map(|kind| transfer(kind, link, seed));
        ratio += even.goodput / stock.goodput / seeds as f64;
        drops[0] += stock.drops / seeds as f64;
        drops[1] += even.drops / seeds as f64;
    }
    let [stock, even] = drops;
    println!("{link:?}, {kind:?}: {ratio:.2} of stock's goodput; drops {even:.2}%, stock {stock:.2}%");
    (ratio, drops)
}

#[test]
fn a_short_queue_at_100_mbit() {
    for kind in [Kind::Even, Kind::Both] {
        let (ratio, [stock, even]) = contest(Link::new(100, 20, 20), kind);
        assert!(ratio >= 1.25 && even <= stock / 2.0, "{kind:?}: {ratio:.2}, {even:.2}% and {stock:.2}%");
    }
}

#[test]
fn a_short_queue_at_300_mbit() {
    let (ratio, [stock, even]) = contest(Link::new(300, 30, 20), Kind::Both);
    assert!(ratio >= 1.2 && even <= stock, "{ratio:.2}, {even:.2}% and {stock:.2}%");
}

#[test]
fn short_and_long_round_trips() {
    for millis in [5, 100] {
        let (ratio, [stock, even]) = contest(Link::new(100, 20, millis), Kind::Both);
        assert!(ratio >= 0.99 && even <= stock, "{millis} ms: {ratio:.2}, {even:.2}% and {stock:.2}%");
    }
}

#[test]
fn a_deep_queue_is_not_filled() {
    let (ratio, [_, even]) = contest(Link::new(100, 500, 20), Kind::Both);
    assert!(ratio >= 0.98 && even <= 0.5, "{ratio:.2}, {even:.2}%");
}

/// Slow start ends where the path is full.
#[test]
fn the_overshoot_is_bounded() {
    for (link, bound) in
        [(Link::new(100, 20, 20), 1.2), (Link::new(300, 30, 20), 1.2), (Link::new(100, 500, 20), 1.2)]
    {
        for kind in [Kind::Even, Kind::Both] {
            let Seen { most, .. } = transfer(kind, link, 1);
            assert!(most < bound, "{link:?}, {kind:?}: {most:.2}");
        }
    }
}

/// quinn's BBR is left to quinn's pacer, so it has what it has without the gate. (It draws numbers of its own at random.)
#[test]
fn bbr_is_not_made_worse() {
    let mean =
        |kind| (0..3).map(|seed| transfer(kind, Link::new(100, 20, 20), seed).goodput).sum::<f64>() / 3.0;
    let (stock, gate) = (mean(Kind::Bbr), mean(Kind::GateBbr));
    println!("BBR: {stock:.1} Mbit/s, behind the gate {gate:.1}");
    assert!(gate > stock * 0.9, "{gate:.1} and {stock:.1}");
}

#[test]
fn a_run_can_be_repeated() {
    let run = || transfer(Kind::Both, Link::new(100, 20, 20), 3);
    let (once, again) = (run(), run());
    assert_eq!((once.goodput, once.drops), (again.goodput, again.drops));
}
