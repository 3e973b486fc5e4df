//! Connections that share a link, and the share of each. Windows need half a minute to find their place, and chance several
//! seeds, so these run with `SOFTTIMERS_FULL=1` only.

use std::time::Duration;

use crate::network::{Kind, Link, Network};

/// Returns whether minutes of transfers are wanted.
fn is_asked_for() -> bool {
    let full = std::env::var_os("SOFTTIMERS_FULL").is_some();
    if !full {
        println!("skipped: minutes of transfers; SOFTTIMERS_FULL=1 runs them");
    }
    full
}

/// The share of each in 100 Mbit/s, 20 ms, after the beginning: a run for each seed. A mean would hide a winner that changes with
/// the seed.
fn shares(kinds: &[Kind], packets: u32) -> Vec<Vec<f64>> {
    let (seeds, seconds) = (6, 30);
    let run = |seed: u64| {
        let mut network = Network::new(Link::new(100, packets, 20), seed);
        for (number, &kind) in kinds.iter().enumerate() {
            // Not all at the same time, and not the same always first.
            let place = if seed % 2 == 0 { number } else { kinds.len() - 1 - number } as u64;
            network.open(kind, Duration::from_millis(137 * place + 11 * seed), 1 << 40);
        }
        network.run(Duration::from_secs(seconds) + Duration::from_millis(20));
        let rates = network.rates(Duration::from_secs(seconds / 6), Duration::from_secs(seconds));
        let printed: Vec<String> = rates.iter().map(|rate| format!("{rate:.1}")).collect();
        println!("queue of {packets}, seed {seed}: {kinds:?} have {} Mbit/s", printed.join(", "));
        rates
    };
    (0..seeds).map(run).collect()
}

/// The mean over all runs; prints the least beside it.
fn mean(name: &str, runs: &[Vec<f64>], of: impl Fn(&[f64]) -> f64) -> f64 {
    let each: Vec<f64> = runs.iter().map(|rates| of(rates)).collect();
    let mean = each.iter().sum::<f64>() / each.len() as f64;
    let least = each.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{name}: {mean:.3} in the mean, {least:.3} at the least");
    mean
}

fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    sum * sum / (rates.len() as f64 * rates.iter().map(|rate| rate * rate).sum::<f64>())
}

/// The share that quinn's CUBIC keeps of its fair share, counted of all that was carried.
fn kept(even: usize, packets: u32) -> f64 {
    let kinds = [vec![Kind::Both; even], vec![Kind::Stock; even]].concat();
    mean("stock keeps", &shares(&kinds, packets), |rates| {
        let stock: f64 = rates[even..].iter().sum();
        stock * 2.0 / rates.iter().sum::<f64>()
    })
}

#[test]
fn beside_it_stock_keeps_its_share_of_a_short_queue() {
    if !is_asked_for() {
        return;
    }
    let kept = kept(1, 20);
    assert!(kept >= 0.8, "{kept:.2}");
}

#[test]
fn beside_it_stock_keeps_its_share_of_a_longer_queue() {
    if !is_asked_for() {
        return;
    }
    let kept = kept(1, 100);
    assert!(kept >= 0.8, "{kept:.2}");
}

#[test]
fn beside_two_of_it_two_of_stock_keep_their_share() {
    if !is_asked_for() {
        return;
    }
    for packets in [20, 100] {
        let kept = kept(2, packets);
        assert!(kept >= 0.8, "{packets} packets: {kept:.2}");
    }
}

#[test]
fn four_alike_have_the_same() {
    if !is_asked_for() {
        return;
    }
    for packets in [20, 100] {
        let jain = mean("Jain's index", &shares(&[Kind::Both; 4], packets), jain);
        assert!(jain >= 0.95, "{packets} packets: {jain:.3}");
    }
}
