//! Many connections.

use std::time::Duration;

use quinn::congestion::CubicConfig;
use softtimers_tokio::Driver;

use crate::harness::{Pair, run, size, transport};

/// Connections that do nothing by themselves, but for the idle time-out, far away.
fn quiet() -> Pair {
    let mut transport = transport(true, CubicConfig::default());
    transport.mtu_discovery_config(None).max_idle_timeout(Some(quinn::VarInt::from_u32(600_000).into()));
    Pair::new(true, transport)
}

#[test]
fn connections_that_are_gone_leave_no_timer() {
    run(async {
        let pair = quiet();
        let driver = Driver::current();
        let mut open = vec![];
        for _ in 0..size(200, 1_000) {
            open.push(pair.connect(pair.direct()).await);
        }
        for (client, _) in &open {
            let mut stream = client.open_uni().await.unwrap();
            stream.write_all(&[0x55; 30_000]).await.unwrap();
        }
        // One that has just fired is set again when its task is polled.
        assert!(driver.stats().pending as usize >= open.len());
        for (client, _) in &open {
            client.close(0u32.into(), b"");
        }
        drop(open);
        tokio::join!(pair.client.wait_idle(), pair.server.wait_idle());
        // The tasks end just after that.
        while driver.stats().pending > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn idle_connections_wake_nobody_up() {
    run(async {
        let pair = quiet();
        let driver = Driver::current();
        let mut open = vec![];
        for _ in 0..size(200, 10_000) {
            open.push(pair.connect(pair.direct()).await);
        }
        let metrics = tokio::runtime::Handle::current().metrics();
        let busy =
            || (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum();
        // What the last packets left behind, such as the keys of the handshake, goes after some round trips, and how long
        // those took on a machine that stood still nobody knows. Who never comes to rest runs out of time.
        let after = loop {
            let (before, busy_before): (_, Duration) = (driver.stats(), busy());
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (after, busy_after): (_, Duration) = (driver.stats(), busy());
            // A time-out that was postponed is still met once at its old time.
            if after.fired == before.fired && after.wake_ups - before.wake_ups <= 3 {
                println!("{} idle connections: {:?} busy in a second", open.len(), busy_after - busy_before);
                break after;
            }
        };
        assert!(after.pending as usize >= open.len());
    });
}
