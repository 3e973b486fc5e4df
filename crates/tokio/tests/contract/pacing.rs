//! Departures at a rate.

use std::time::Duration;

use softtimers::Monotonic;
use softtimers_tokio::{CatchUp, Instant, PaceConfig, PacedUdpSocket, Pacer, Rate, Slack, timeout};
use tokio::net::UdpSocket;

use crate::{LONGEST_TEST, micros, on_each};

const GAP: Duration = micros(200);
const BURST: Duration = micros(120);

fn config() -> PaceConfig {
    PaceConfig { burst_interval: Some(BURST), ..PaceConfig::new(Rate::every(GAP).unwrap()) }
}

/// Each at its place or later, and never nearer than the burst interval to the one before, also after stalls.
#[test]
fn departures_keep_their_places_and_never_burst() {
    on_each(async || {
        let mut pacer = Pacer::new(config()).unwrap();
        let (mut place, mut last) = (None, None::<Instant>);
        for packet in 0..60u32 {
            pacer.ready().await;
            let now = Instant::now();
            assert!(pacer.next_departure() <= now);
            // Of the first packet; and this one's distance to it.
            let first = *place.get_or_insert(pacer.clock().place());
            let after = Monotonic::timestamp_of(now.into_std()).saturating_duration_since(first);
            if let Some(last) = last {
                assert!(now - last >= BURST, "packet {packet}: {:?}", now - last);
                assert!(after + micros(1) >= GAP * packet, "packet {packet}: {after:?}");
            }
            if packet % 20 == 10 {
                while now.elapsed() < 7 * GAP {
                    std::hint::spin_loop();
                }
            }
            // The time of a departure lies between these two.
            last = Some(Instant::now());
            pacer.departed();
        }
        assert_eq!(pacer.clock().departures(), 60);
    });
}

/// A `ready` that is dropped has not departed; one that is ready stays so.
#[test]
fn waiting_for_a_departure_is_safe_to_cancel() {
    on_each(async || {
        let mut pacer = Pacer::new(config()).unwrap().with_slack(Slack::DEFAULT);
        pacer.ready().await;
        pacer.ready().await;
        pacer.departed();
        let next = pacer.next_departure();
        while timeout(micros(10), pacer.ready()).await.is_err() {
            assert_eq!(pacer.next_departure(), next);
        }
        assert!(Instant::now() >= next);
        assert_eq!(pacer.clock().departures(), 1);
    });
}

/// Beyond the bound a stall's departures are given up, and counted.
#[test]
fn a_long_stall_is_given_up() {
    on_each(async || {
        let catch_up = CatchUp { packets: 2, ..CatchUp::ALL };
        let mut pacer = Pacer::new(PaceConfig { catch_up, ..config() }).unwrap();
        pacer.ready().await;
        let start = Instant::now();
        while start.elapsed() < 20 * GAP {
            std::hint::spin_loop();
        }
        pacer.departed();
        assert!(pacer.clock().forfeited() >= 17, "{}", pacer.clock().forfeited());
        // An idle time is none; only what passes from here on may be.
        let before = pacer.clock().forfeited();
        tokio::time::sleep(20 * GAP).await;
        let begin = Instant::now();
        pacer.restart();
        pacer.ready().await;
        pacer.departed();
        let forfeited = u128::from(pacer.clock().forfeited() - before);
        assert!(forfeited <= begin.elapsed().as_nanos() / GAP.as_nanos(), "{forfeited}");
    });
}

#[test]
fn a_rate_can_change_while_a_task_waits() {
    on_each(async || {
        let mut pacer = Pacer::every(Duration::from_secs(3_000)).unwrap();
        pacer.departed();
        assert!(timeout(micros(500), pacer.ready()).await.is_err());
        pacer.set_rate(Rate::per_second(10_000).unwrap());
        pacer.ready().await;
    });
}

/// Every datagram arrives, in order, and the last one not before its time.
#[test]
fn a_paced_socket_sends_in_order_and_not_too_soon() {
    on_each(async || {
        let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let target = receiver.local_addr().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(target).await.unwrap();
        // 1,000 bytes at 40 Mbit/s take 200 µs.
        let pacer = Pacer::new(PaceConfig::bits_per_second(40_000_000).unwrap()).unwrap();
        let mut paced = PacedUdpSocket::new(socket, pacer);
        let start = Instant::now();
        for packet in 0..50u8 {
            let datagram = [packet; 1_000];
            let sent = match packet % 2 {
                0 => paced.send(&datagram).await,
                _ => paced.send_to(&datagram, target).await,
            };
            assert_eq!(sent.unwrap(), 1_000);
        }
        assert!(start.elapsed() >= 49 * micros(200) - micros(1));
        assert_eq!(paced.pacer().clock().departures(), 50);
        let mut buffer = [0; 2_000];
        for packet in 0..50u8 {
            let received = tokio::time::timeout(LONGEST_TEST, receiver.recv(&mut buffer)).await.unwrap();
            assert_eq!((received.unwrap(), buffer[0]), (1_000, packet));
        }
        // The other direction is not paced.
        receiver.send_to(b"answer", paced.socket().local_addr().unwrap()).await.unwrap();
        let (bytes, from) =
            tokio::time::timeout(LONGEST_TEST, paced.recv_from(&mut buffer)).await.unwrap().unwrap();
        assert_eq!((bytes, from), (6, target));
        receiver.send_to(b"more", paced.socket().local_addr().unwrap()).await.unwrap();
        assert_eq!(tokio::time::timeout(LONGEST_TEST, paced.recv(&mut buffer)).await.unwrap().unwrap(), 4);
    });
}

/// A datagram that the kernel refuses takes no place.
#[test]
fn a_datagram_that_is_refused_did_not_depart() {
    on_each(async || {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let target = socket.local_addr().unwrap();
        let mut paced = PacedUdpSocket::new(socket, Pacer::every(GAP).unwrap());
        assert!(paced.send_to(&[0; 70_000], target).await.is_err());
        assert_eq!(paced.pacer().clock().departures(), 0);
        paced.pacer_mut().set_rate(Rate::per_second(1_000).unwrap());
        let (socket, pacer) = paced.into_parts();
        assert_eq!(socket.local_addr().unwrap(), target);
        assert_eq!(pacer.clock().departures(), 0);
    });
}
