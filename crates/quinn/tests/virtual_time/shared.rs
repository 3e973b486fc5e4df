//! Connections that share a link: who has how much of it. Windows need half a minute to find their place, and chance several
//! seeds, so these run with `SOFTTIMERS_FULL=1` only.

use std::time::Duration;

use crate::network::{Kind, Link, Network};
/// Whether minutes of transfers are asked for.
fn is_asked_for() -> bool {
    let full = std::env::var_os("SOFTTIMERS_FULL").is_some();
    if !full {
        println!("skipped: minutes of transfers; SOFTTIMERS_FULL=1 runs them");
    }
    full
}

/// What each has of 100 Mbit/s, 20 ms, in the mean of all seeds, after the beginning; and what it would have if all had the same.
fn shares(kinds: &[Kind], packets: u32) -> Vec<f64> {
    let (seeds, seconds) = (6, 30);
    let mut sums = vec![0.0; kinds.len()];
    for seed in 0..seeds {
        let mut network = Network::new(Link::new(100, packets, 20), seed);
        for (number, &kind) in kinds.iter().enumerate() {
            // Not all at the same time, and not the same always first.
            let place = if seed % 2 == 0 { number } else { kinds.len() - 1 - number } as u64;
            network.open(kind, Duration::from_millis(137 * place + 11 * seed), 1 << 40);
        }
        network.run(Duration::from_secs(seconds) + Duration::from_millis(20));
        let rates = network.rates(Duration::from_secs(seconds / 6), Duration::from_secs(seconds));
        sums.iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate / seeds as f64);
    }
    let rates: Vec<String> = sums.iter().map(|rate| format!("{rate:.1}")).collect();
    println!("queue of {packets}: {kinds:?} have {} Mbit/s", rates.join(", "));
    sums
}

fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    sum * sum / (rates.len() as f64 * rates.iter().map(|rate| rate * rate).sum::<f64>())
}

/// What quinn's CUBIC keeps of its fair share, which is that of all that was carried.
fn kept(even: usize, packets: u32) -> f64 {
    let kinds = [vec![Kind::Both; even], vec![Kind::Stock; even]].concat();
    let rates = shares(&kinds, packets);
    let stock: f64 = rates[even..].iter().sum();
    stock * 2.0 / rates.iter().sum::<f64>()
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
        let jain = jain(&shares(&[Kind::Both; 4], packets));
        assert!(jain >= 0.95, "{packets} packets: {jain:.3}");
    }
}
