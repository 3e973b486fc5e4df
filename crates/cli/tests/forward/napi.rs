//! `forward --udp --driver napi` behind a cable whose receive queue can be polled.

use std::thread;

use softtimers::{Clock, Monotonic};
use softtimers_linux::ethtool::Offload;
use softtimers_net::napi::{Deferral, Napi};

use super::common::hosts::{self, Hosts, ip};
use super::common::{offloads, skipped};
use super::*;

/// Gives the middle a queue, and addresses to both ends; unless this machine has no such queue.
fn with_queue(test: &str, body: impl FnOnce(&Hosts)) {
    hosts::with(test, |hosts| {
        for (host, number, end) in [("near", 1, "eth"), ("middle", 3, "wa")] {
            ip(&["-n", &hosts.host(host), "addr", "add", &format!("10.97.0.{number}/24"), "dev", end])
                .unwrap();
        }
        hosts.set_offload("near", Offload::Tso, false).unwrap();
        hosts.at("middle", || offloads::set("wa", Offload::Gro, true)).join().unwrap().unwrap();
        match hosts.at("middle", Napi::all).join().unwrap() {
            Ok(all) if !all.is_empty() => body(hosts),
            other => skipped(&format!("no queue to be polled: {other:?}")),
        }
    });
}

fn deferrals(hosts: &Hosts) -> Vec<Deferral> {
    let all = hosts.at("middle", Napi::all).join().unwrap().unwrap();
    all.into_iter().map(|napi| napi.deferral).collect()
}

fn bound(hosts: &Hosts, host: &str, address: &'static str) -> UdpSocket {
    let socket = hosts.at(host, move || UdpSocket::bind(address).unwrap()).join().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

fn relay(hosts: &Hosts, to: &UdpSocket) -> Relay {
    let to = to.local_addr().unwrap();
    let line = format!("forward --udp 0.0.0.0:0 --public --to {to} --duration 60s --json --driver napi");
    Relay::begin(&mut hosts.command(&format!("{line} --max-delay 5ms")))
}

#[test]
fn a_queue_is_polled_in_a_flood_and_as_before_when_that_is_over() {
    with_queue("napi-flood", |hosts| {
        let before = deferrals(hosts);
        let server = bound(hosts, "middle", "127.0.0.1:0");
        let relay = relay(hosts, &server);
        let address = SocketAddr::from(([10, 97, 0, 3], relay.address.port()));
        let (client, over) = (bound(hosts, "near", "10.97.0.1:0"), &AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let _ = client.send_to(b"flood", address);
                }
            });
            let until = Monotonic.now() + Duration::from_secs(30);
            let mut after = deferrals(hosts);
            while after == before && Monotonic.now() < until {
                after = deferrals(hosts);
            }
            over.store(true, Ordering::Relaxed);
            assert_ne!(after, before, "never polled");
        });
        let report = relay.finish();
        assert_eq!(report["config"]["driver"], "napi");
        assert_eq!(deferrals(hosts), before);
    });
}

#[test]
fn datagrams_without_a_queue_come_by_interrupts_and_that_is_said() {
    with_queue("napi-none", |hosts| {
        let server = bound(hosts, "middle", "127.0.0.1:0");
        let mut relay = relay(hosts, &server);
        let client = bound(hosts, "middle", "127.0.0.1:0");
        for text in [b"one", b"two"] {
            client.send_to(text, ("127.0.0.1", relay.address.port())).unwrap();
            let mut buffer = [0; 9];
            assert_eq!(server.recv(&mut buffer).unwrap(), 3);
            assert_eq!(&buffer[..3], text);
        }
        assert_eq!(relay.says(), "driver udp: its packets come by no queue that can be polled");
        assert_eq!(relay.finish()["in"], 2);
    });
}

#[test]
fn without_any_queue_it_is_not_possible() {
    hosts::with("napi-never", |hosts| {
        let line = "forward --udp 127.0.0.1:0 --to 127.0.0.1:9 --driver napi";
        let message = refusal(&hosts.command(line).output().unwrap(), 77);
        assert!(message.contains("--driver napi: "), "{message}");
    });
}
