//! The purpose of the crate: packets that come one pair at a time.

use std::time::Duration;

use softtimers_wan::{Bottleneck, PathConfig, Queue};

use crate::harness::{Pair, Path, receive, run, send};

/// 40 Mbit/s, 20 ms.
fn link() -> PathConfig {
    PathConfig::default()
        .bottleneck(Bottleneck::bits_per_second(40_000_000).unwrap())
        .queue(Queue::packets(100))
        .delay(Duration::from_millis(10))
}

/// The number of packets that came, and of bursts: with less than 60 µs between them.
async fn bursts(pair: &Pair) -> [usize; 2] {
    let path = Path::to(&pair.server, link());
    let (client, server) = pair.connect(path.address).await;
    tokio::join!(receive(&server), send(&client, 4 << 20));
    let arrivals = path.finish();
    let gaps = arrivals.windows(2).filter(|pair| pair[1] - pair[0] > 60_000).count();
    [arrivals.len(), gaps + 1]
}

#[test]
fn bursts_are_shorter_than_those_of_stock() {
    run(async {
        // All that a machine which stands still holds up comes in one burst: a doubtful result counts, and more is measured.
        let (mut all, mut rounds) = ([[0; 2]; 2], 0);
        let [stock, smooth] = loop {
            for (sum, pair) in all.iter_mut().zip([Pair::stock(), Pair::smooth()]) {
                let seen = bursts(&pair).await;
                (0..2).for_each(|figure| sum[figure] += seen[figure]);
            }
            rounds += 1;
            let means @ [stock, smooth] = all.map(|[packets, bursts]| packets as f64 / bursts as f64);
            if smooth < stock || rounds == 5 {
                break means;
            }
        };
        println!("packets in a burst, in the mean: {smooth:.2}; {stock:.2} with stock");
        assert!(smooth < stock, "{smooth:.2} and {stock:.2}");
    });
}

/// A gate that is off is none.
#[test]
fn switched_off_nothing_waits() {
    run(async {
        let pair = Pair::smooth();
        let path = Path::to(&pair.server, link());
        // Before there is a rate, at which something might wait.
        pair.near.set_enabled(false);
        let (client, server) = pair.connect(path.address).await;
        tokio::join!(receive(&server), send(&client, 1 << 20));
        assert_eq!(pair.near.counters().gated, 0);
        pair.near.set_enabled(true);
        tokio::join!(receive(&server), send(&client, 1 << 20));
        assert!(pair.near.counters().gated > 0);
    });
}

/// A runtime that nobody tells a rate is tokio's.
#[test]
fn without_the_controller_nothing_waits() {
    run(async {
        let cubic = quinn::congestion::CubicConfig::default();
        let pair = Pair::new(true, crate::harness::transport(false, cubic));
        let path = Path::to(&pair.server, link());
        let (client, server) = pair.connect(path.address).await;
        tokio::join!(receive(&server), send(&client, 1 << 20));
        assert_eq!(pair.near.counters().gated, 0);
    });
}
