//! Cases that loopback never shows: a socket that is full, and a path that does not cut segments.
//!
//! Packets wait for the address of a neighbour that never answers, and count as the socket's until then: in a network
//! of its own, which a second process of this very test is in.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use softtimers_tokio::paced_sender::{Flow, FlowConfig, Limits, PacedSender, SendError};
use softtimers_tokio::{PaceConfig, Rate};
use tokio::net::UdpSocket;

use crate::{bounded, current_thread, on_each};

/// The sender of a socket that has room for a few of these only.
async fn sender_of_many() -> (PacedSender, Flow) {
    let socket = Arc::new(UdpSocket::bind("10.99.0.1:0").await.unwrap());
    let sender = PacedSender::new(&socket).unwrap();
    let limits = Limits { packets: 2 * MANY, ..Limits::default() };
    let config = FlowConfig { limits, ..FlowConfig::new(PaceConfig::new(Rate::pps(1_000_000))) };
    let flow = sender.add(BEYOND.parse::<SocketAddr>().unwrap(), config).unwrap();
    (sender, flow)
}

/// Queues more than the socket has room for, and waits until nothing moves any more.
async fn fill(sender: &PacedSender, flow: &Flow) {
    for _ in 0..MANY {
        sender.queue(flow, &[0; 1_200]).unwrap();
    }
    // Several times in a row: a task that gets no CPU for a moment does not move either.
    let (mut before, mut still) = (sender.stats(), 0);
    while still < 10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let now = sender.stats();
        still = if now.sent > 0 && now == before { still + 1 } else { 0 };
        before = now;
    }
}

#[test]
fn what_waits_for_room_leaves_when_there_is_some() {
    where_nothing_leaves("what_waits_for_room_leaves_when_there_is_some", || {
        on_each(async || {
            let (sender, flow) = sender_of_many().await;
            for round in 1..=20 {
                fill(&sender, &flow).await;
                assert!(sender.stats().sent < round * u64::from(MANY), "nothing was full");
                neighbour(ANSWERS);
                while sender.stats().sent < round * u64::from(MANY) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                neighbour(GONE);
            }
            let stats = sender.stats();
            assert_eq!((stats.failed, stats.unsent), (0, 0), "{stats:?}");
        });
    });
}

#[test]
fn a_full_socket_does_not_keep_its_sender() {
    where_nothing_leaves("a_full_socket_does_not_keep_its_sender", || {
        on_each(async || {
            let (sender, flow) = sender_of_many().await;
            fill(&sender, &flow).await;
            let other = sender.clone();
            let waits = tokio::spawn(async move { other.send_to(&flow, b"waits").await });
            while sender.stats().queue.enqueued <= u64::from(MANY) {
                tokio::task::yield_now().await;
            }
            sender.close();
            assert!(matches!(waits.await.unwrap(), Err(SendError::Closed)));
            // What was due counts, too.
            while sender.stats().unsent == 0 {
                tokio::task::yield_now().await;
            }
            assert!(sender.stats().sent < u64::from(MANY));
        });
    });
}

/// Datagrams longer than the device's packets are not cut, and those after them are, some seconds later.
#[test]
fn segments_that_were_refused_are_tried_again() {
    where_nothing_leaves("segments_that_were_refused_are_tried_again", || {
        bounded(|| {
            current_thread().block_on(async {
                neighbour(ANSWERS);
                let (sender, flow) = sender_of_many().await;
                let other = FlowConfig::new(PaceConfig::new(Rate::pps(1_000_000)));
                let other = sender.add(flow.to(), other).unwrap();
                let mut sent = 0;
                let mut two_of = async |length: usize| {
                    // Of two flows, and due together: the sender's task has no turn before the sleep.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    sender.queue(&flow, &vec![0; length]).unwrap();
                    sender.queue(&other, &vec![0; length]).unwrap();
                    sent += 2;
                    while sender.stats().sent < sent {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    sender.stats().segments
                };
                let before = two_of(1_000).await;
                assert_eq!((before, two_of(2_000).await, two_of(1_000).await), (2, 2, 2));
                while two_of(1_000).await == before {}
                assert_eq!(sender.stats().failed, 0);
            });
        });
    });
}

const ANSWERS: &[&str] = &["replace", "10.99.0.2", "lladdr", "02:00:00:00:00:01", "dev", "slow"];
const GONE: &[&str] = &["del", "10.99.0.2", "dev", "slow"];

fn neighbour(change: &[&str]) {
    assert!(Command::new("ip").arg("neigh").args(change).status().unwrap().success());
}

/// Runs the test of this name in a network of its own; skips it where that is not permitted.
fn where_nothing_leaves(name: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let this = std::env::current_exe().unwrap();
    let name = format!("own_network::{name}");
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", SET_UP]).arg(this).args(["--exact", &name, "--nocapture"]);
    let output = match command.env(INSIDE, "1").output() {
        Ok(output) => output,
        Err(error) => return println!("skipped: {name}: no unshare: {error}"),
    };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !out.contains("ready") {
        return println!("skipped: {name}: no network of our own: {err}");
    }
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
}

/// The neighbour is asked for its address once a minute, and all that is for it waits.
const SET_UP: &str = "set -e
    ip link add slow type veth peer name end
    ip addr add 10.99.0.1/24 dev slow
    ip link set slow up
    ip link set end up
    echo 60000 > /proc/sys/net/ipv4/neigh/slow/retrans_time_ms
    echo 100000000 > /proc/sys/net/ipv4/neigh/slow/unres_qlen_bytes
    echo ready
    exec \"$0\" \"$@\"";

const INSIDE: &str = "SOFTTIMERS_WHERE_NOTHING_LEAVES";

const BEYOND: &str = "10.99.0.2:9";

const MANY: u32 = 1_000;
