//! All data arrives, whatever the path does.

use std::time::Duration;

use quinn::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use softtimers_quinn::KnownCapacity;
use softtimers_wan::{Bottleneck, Loss, PathConfig, Probability, Queue};

use crate::harness::{Pair, Path, receive, run, send, size, socket, transport};

/// 200 Mbit/s, `millis` milliseconds each way.
fn path(millis: u64) -> PathConfig {
    PathConfig::default()
        .bottleneck(Bottleneck::bits_per_second(200_000_000).unwrap())
        .queue(Queue::time(Duration::from_millis(20)))
        .delay(Duration::from_millis(millis))
}

/// The client sends `bytes` bytes over this path; the gate had something to do.
async fn carried(pair: &Pair, path: Path, bytes: u64) {
    arrives(pair, path, bytes).await;
    let counters = pair.near.counters();
    assert!(counters.gated > 0, "{counters:?}");
}

async fn arrives(pair: &Pair, path: Path, bytes: u64) {
    let (client, server) = pair.connect(path.address).await;
    let (received, ()) = tokio::join!(receive(&server), send(&client, bytes));
    assert_eq!(received, bytes);
}

#[test]
fn over_a_path_that_loses_a_hundredth() {
    run(async {
        let pair = Pair::smooth();
        let lossy = path(1).loss(Loss::Random(Probability::once_in(100)));
        carried(&pair, Path::to(&pair.server, lossy), size(4 << 20, 100_000_000)).await;
    });
}

#[test]
fn over_a_path_that_reorders() {
    run(async {
        let pair = Pair::smooth();
        let shaken = path(3).late(Probability::once_in(50), Duration::from_millis(1));
        carried(&pair, Path::to(&pair.server, shaken), size(4 << 20, 100_000_000)).await;
    });
}

/// Both directions are dead for two seconds in the middle of it. Probes after a time-out find the path alive again.
#[test]
fn across_a_blackout_of_two_seconds() {
    run(async {
        let pair = Pair::smooth();
        let dead = path(5).loss(Loss::Random(Probability::ALWAYS));
        let millis = Duration::from_millis;
        let phases = vec![(millis(150), path(5)), (millis(2_000), dead), (millis(600_000), path(5))];
        carried(&pair, Path::changing(&pair.server, phases), size(8 << 20, 100_000_000)).await;
    });
}

/// The client moves to another socket three times while it sends, and so does the gate.
#[test]
fn while_the_client_moves() {
    run(async {
        let pair = Pair::smooth();
        let path = Path::to(&pair.server, path(5));
        let (client, server) = pair.connect(path.address).await;
        let bytes = size(8 << 20, 100_000_000);
        let moving = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                pair.client.rebind(socket()).unwrap();
                let before = pair.near.counters().gated;
                tokio::time::sleep(Duration::from_millis(100)).await;
                println!("gated after a move: {}", pair.near.counters().gated - before);
            }
        };
        let before = server.remote_address();
        let (received, (), ()) = tokio::join!(receive(&server), send(&client, bytes), moving);
        assert_eq!(received, bytes);
        assert_ne!(server.remote_address(), before);
    });
}

/// The server sends, and its gates belong to the connections that it accepted.
#[test]
fn from_the_server_to_four_clients() {
    run(async {
        let pair = Pair::smooth();
        let path = Path::to(&pair.server, path(2));
        let bytes = size(1 << 20, 25_000_000);
        let mut transfers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (client, server) = pair.connect(path.address).await;
            transfers.spawn(async move {
                let (received, ()) = tokio::join!(receive(&client), send(&server, bytes));
                assert_eq!(received, bytes);
            });
        }
        while let Some(done) = transfers.join_next().await {
            done.unwrap();
        }
        assert!(pair.far.counters().gated > 0);
        // Who only receives sends ACKs, and none of them waits.
        let acks = pair.near.counters();
        assert_eq!((acks.gated, acks.overdue), (0, 0), "{acks:?}");
    });
}

#[test]
fn under_every_controller() {
    run(async {
        let known = KnownCapacity::bits_per_second(150_000_000).unwrap();
        let transports = [
            transport(true, NewRenoConfig::default()),
            transport(true, known),
            transport(true, CubicConfig::default()),
        ];
        for transport in transports {
            let pair = Pair::new(true, transport);
            carried(&pair, Path::to(&pair.server, path(2)), size(1 << 20, 25_000_000)).await;
        }
    });
}

/// It is left to quinn's own pacer.
#[test]
fn under_bbr_nothing_waits() {
    run(async {
        let pair = Pair::new(true, transport(true, BbrConfig::default()));
        arrives(&pair, Path::to(&pair.server, path(2)), size(1 << 20, 25_000_000)).await;
        assert_eq!(pair.near.counters().gated, 0);
    });
}
