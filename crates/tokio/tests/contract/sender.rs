//! Many flows on one socket: who is sent when, who is told what, and what is left of what is dropped.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use softtimers_tokio::paced_sender::{Flow, FlowConfig, Limits, PacedSender, Quantum, Reject, SendError};
use softtimers_tokio::{Instant, PaceConfig, Rate, sleep, timeout};
use tokio::net::UdpSocket;

use crate::{bounded, current_thread, micros, on_each};

/// A sender, and who receives.
async fn pair() -> (PacedSender, UdpSocket, SocketAddr) {
    let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let to = receiver.local_addr().unwrap();
    (PacedSender::new(&socket).unwrap(), receiver, to)
}

fn every(interval: Duration) -> FlowConfig {
    FlowConfig::new(PaceConfig::new(Rate::every(interval).unwrap()))
}

async fn received(receiver: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 2_000];
    let length = receiver.recv(&mut buffer).await.unwrap();
    buffer[..length].to_vec()
}

/// Each flow in order, at its own rate, no datagram before its time and none lost; from many tasks.
#[test]
fn flows_leave_in_order_and_at_their_rates() {
    const FLOWS: usize = 20;
    const EACH: u8 = 10;
    // The receiver's buffer has room for all of them, however late it is.
    const ALL: u64 = FLOWS as u64 * EACH as u64;
    on_each(async || {
        let (sender, receiver, to) = pair().await;
        let begin = Instant::now();
        let tasks: Vec<_> = (0..FLOWS as u8)
            .map(|number| {
                let (sender, gap) = (sender.clone(), micros(500 + 50 * u64::from(number)));
                tokio::spawn(async move {
                    let flow = sender.add(to, every(gap)).unwrap();
                    for packet in 0..EACH {
                        sender.send_to(&flow, &[number, packet]).await.unwrap();
                        // The first leaves at once, and what is late is caught up with, but nothing is early.
                        assert!(begin.elapsed() >= gap * u32::from(packet));
                    }
                })
            })
            .collect();
        let mut next = [0; FLOWS];
        for _ in 0..ALL {
            let packet = received(&receiver).await;
            assert_eq!(packet[1], next[usize::from(packet[0])]);
            next[usize::from(packet[0])] += 1;
        }
        for task in tasks {
            task.await.unwrap();
        }
        let stats = sender.stats();
        assert_eq!((stats.sent, stats.failed, stats.cancelled, stats.queue.waiting), (ALL, 0, 0, 0));
    });
}

/// Packets that are due at one time, of whichever flows, leave by one call.
#[test]
fn flows_that_are_due_together_leave_together() {
    bounded(|| {
        current_thread().block_on(async {
            let (sender, receiver, to) = pair().await;
            for number in 0..50 {
                let flow = sender.add(to, every(Duration::from_secs(3_600))).unwrap();
                // Each of another length: none is a segment. The sender's task has no turn meanwhile.
                sender.queue(&flow, &vec![number; 100 + usize::from(number)]).unwrap();
            }
            for number in 0..50 {
                assert_eq!(received(&receiver).await, vec![number; 100 + usize::from(number)]);
            }
            let stats = sender.stats();
            assert_eq!((stats.sent, stats.segments), (50, 0));
            assert!(stats.calls < 10, "{stats:?}");
        });
    });
}

/// A datagram that the kernel refuses fails for who awaits it, and for nobody else.
#[test]
fn an_error_is_one_datagrams() {
    on_each(async || {
        let (sender, receiver, to) = pair().await;
        let flow = sender.add(to, every(micros(50))).unwrap();
        // No IPv6 on a socket of IPv4.
        let nowhere = sender.add("[2001:db8::1]:9".parse().unwrap(), every(micros(50))).unwrap();
        for number in 0..5 {
            sender.send_to(&flow, &[number]).await.unwrap();
            let error = sender.send_to(&nowhere, b"nobody").await.unwrap_err();
            assert!(matches!(error, SendError::Io(_)), "{error:?}");
            assert_eq!(received(&receiver).await, [number]);
        }
        let stats = sender.stats();
        assert_eq!((stats.sent, stats.failed), (5, 5));
        let long = sender.queue(&flow, &[0; 70_000]).unwrap_err();
        assert_eq!(io::Error::from(long).kind(), io::ErrorKind::InvalidInput);
    });
}

/// An ICMP answer to one flow's datagram is reported to whichever send comes next: that one leaves all the same.
#[test]
fn a_peer_that_nobody_listens_at_stops_no_other() {
    on_each(async || {
        let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let gone = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        // Only a connected socket is told.
        socket.connect(gone).await.unwrap();
        let sender = PacedSender::new(&socket).unwrap();
        let refused = sender.add(gone, every(micros(100))).unwrap();
        let fine = sender.add(receiver.local_addr().unwrap(), every(micros(100))).unwrap();
        for number in 0..20 {
            sender.send_to(&refused, b"nobody").await.unwrap();
            sender.send_to(&fine, &[number]).await.unwrap();
            assert_eq!(received(&receiver).await, [number]);
        }
        assert_eq!(sender.stats().failed, 0);
    });
}

/// A flow that is full refuses the newest, from whichever thread, and keeps nobody else's place.
#[test]
fn a_full_flow_refuses_and_the_others_go_on() {
    on_each(async || {
        let (sender, receiver, to) = pair().await;
        let full = slow(&sender, to).await;
        assert_eq!(received(&receiver).await, b"first");
        let other = sender.clone();
        let of_another_thread = std::thread::spawn(move || {
            for _ in 0..Limits::default().packets {
                other.queue(&full, b"waits").unwrap();
            }
            other.queue(&full, b"too many").unwrap_err()
        });
        assert!(matches!(of_another_thread.join().unwrap(), SendError::Refused(Reject::FlowFull)));
        let flow = sender.add(to, every(micros(100))).unwrap();
        for number in 0..10 {
            sender.send_to(&flow, &[number]).await.unwrap();
            assert_eq!(received(&receiver).await, [number]);
        }
        sender.close();
        // What was counted stays, also when the task has dropped what waited.
        sleep(micros(2_000)).await;
        assert_eq!((sender.stats().sent, sender.stats().queue.refused), (11, 1));
    });
}

/// A future that is dropped leaves nothing: those behind it move up, and its room in the queue is free.
#[test]
fn sends_that_are_given_up_keep_nothing() {
    on_each(async || {
        let (sender, receiver, to) = pair().await;
        let flow = slow(&sender, to).await;
        assert_eq!(received(&receiver).await, b"first");
        // Far more than the flow may have waiting, at an hour each.
        for number in 0..3 * Limits::default().packets {
            assert!(timeout(micros(1), sender.send_to(&flow, b"given up")).await.is_err(), "{number}");
            assert_eq!(sender.flow_stats(&flow).unwrap().waiting, 0);
        }
        assert_eq!(sender.stats().cancelled, 3 * u64::from(Limits::default().packets));
        let waits: Vec<_> = ["a", "b", "c", "d"]
            .map(|bytes| {
                let sender = sender.clone();
                tokio::spawn(async move { sender.send_to(&flow, bytes.as_bytes()).await })
            })
            .into_iter()
            .collect();
        while sender.stats().queue.waiting < 4 {
            sleep(micros(100)).await;
        }
        waits[0].abort();
        waits[2].abort();
        while sender.stats().queue.waiting > 2 {
            sleep(micros(100)).await;
        }
        sender.set_rate(&flow, Rate::pps(10_000)).unwrap();
        let mut left = [received(&receiver).await, received(&receiver).await];
        left.sort();
        assert_eq!(left, [b"b", b"d"]);
    });
}

/// Futures that outlive the sender, because its runtime ends or it is closed, are dropped as any others.
#[test]
fn sends_may_be_given_up_after_the_end() {
    on_each(async || {
        let (sender, receiver, to) = pair().await;
        let flow = slow(&sender, to).await;
        assert_eq!(received(&receiver).await, b"first");
        let mut given_up = Box::pin(sender.send_to(&flow, b"waits"));
        let mut told = Box::pin(sender.send_to(&flow, b"waits, too"));
        assert!(timeout(micros(1), &mut given_up).await.is_err());
        assert!(timeout(micros(1), &mut told).await.is_err());
        sender.close();
        assert!(matches!(told.await, Err(SendError::Closed)));
        drop(given_up);
    });
    bounded(|| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let waits: Vec<_> = runtime.block_on(async {
            let (sender, receiver, to) = pair().await;
            let flow = slow(&sender, to).await;
            assert_eq!(received(&receiver).await, b"first");
            let send = |sender: PacedSender| async move { sender.send_to(&flow, b"waits").await };
            let waits = (0..20).map(|_| tokio::spawn(send(sender.clone()))).collect();
            while sender.stats().queue.waiting < 20 {
                sleep(micros(100)).await;
            }
            waits
        });
        drop(runtime);
        for wait in waits {
            match current_thread().block_on(wait) {
                Ok(sent) => assert!(matches!(sent, Err(SendError::Closed)), "{sent:?}"),
                Err(error) => assert!(error.is_cancelled(), "{error:?}"),
            }
        }
    });
}

/// A future that is dropped before its time does not leave.
#[test]
fn a_send_is_safe_to_cancel() {
    on_each(async || {
        let (sender, receiver, to) = pair().await;
        let (begin, gap) = (Instant::now(), Duration::from_millis(20));
        let flow = sender.add(to, every(gap)).unwrap();
        sender.send_to(&flow, b"first").await.unwrap();
        let dropped = timeout(micros(500), sender.send_to(&flow, b"dropped")).await;
        // Else its time may have come before it was dropped, and it may have left.
        let in_time = dropped.is_err() && begin.elapsed() < gap;
        sender.send_to(&flow, b"last").await.unwrap();
        let cancelled = sender.stats().cancelled;
        assert!(cancelled <= u64::from(dropped.is_err()) && cancelled >= u64::from(in_time), "{cancelled}");
        assert_eq!(received(&receiver).await, b"first");
        assert_eq!(received(&receiver).await, if cancelled == 1 { &b"last"[..] } else { &b"dropped"[..] });
    });
}

/// Slow for now: far more than the test takes.
async fn slow(sender: &PacedSender, to: SocketAddr) -> Flow {
    let flow = sender.add(to, every(Duration::from_secs(3_600))).unwrap();
    sender.send_to(&flow, b"first").await.unwrap();
    flow
}

#[test]
fn a_rate_is_changed_while_packets_wait() {
    on_each(async || {
        let (sender, receiver, to) = pair().await;
        let flow = slow(&sender, to).await;
        sender.queue(&flow, b"second").unwrap();
        sleep(micros(2_000)).await;
        assert_eq!(sender.flow_stats(&flow).unwrap().waiting, 1);
        sender.set_rate(&flow, Rate::pps(1_000)).unwrap();
        assert_eq!(received(&receiver).await, b"first");
        assert_eq!(received(&receiver).await, b"second");
    });
}

/// Whatever goes, who awaits a datagram is told.
#[test]
fn who_waits_is_told_what_became_of_it() {
    on_each(async || {
        let (sender, _receiver, to) = pair().await;
        let flow = slow(&sender, to).await;
        let waits = |sender: &PacedSender| {
            let sender = sender.clone();
            tokio::spawn(async move { sender.send_to(&flow, b"waits").await })
        };
        let removed = waits(&sender);
        while sender.stats().queue.waiting == 0 {
            sleep(micros(200)).await;
        }
        assert_eq!(sender.remove(&flow), Some(1));
        assert!(matches!(removed.await.unwrap(), Err(SendError::Removed)));
        assert_eq!(sender.remove(&flow), None);
        assert!(matches!(sender.queue(&flow, b"gone"), Err(SendError::Refused(_))));

        let limits = Limits { delay: Duration::from_secs(60), ..Limits::default() };
        let flow = sender.add(to, FlowConfig { limits, ..every(Duration::from_secs(3_600)) }).unwrap();
        sender.send_to(&flow, b"first").await.unwrap();
        assert!(matches!(sender.send_to(&flow, b"too late").await, Err(SendError::Refused(_))));

        let flow = slow(&sender, to).await;
        let other = sender.clone();
        let closed = tokio::spawn(async move { other.send_to(&flow, b"waits").await });
        while sender.stats().queue.waiting == 0 {
            sleep(micros(200)).await;
        }
        sender.close();
        assert!(matches!(closed.await.unwrap(), Err(SendError::Closed)));
        assert!(matches!(sender.queue(&flow, b"late"), Err(SendError::Closed)));
    });
}

/// Packets queued when the last clone goes leave at their times; with the runtime nothing does.
#[test]
fn what_is_queued_leaves_without_its_sender_but_not_without_its_runtime() {
    on_each(async || {
        let (sender, receiver, to) = pair().await;
        let flow = sender.add(to, every(micros(300))).unwrap();
        for number in 0..10 {
            sender.queue(&flow, &[number]).unwrap();
        }
        drop(sender);
        for number in 0..10 {
            assert_eq!(received(&receiver).await, [number]);
        }
    });
    bounded(|| {
        let (first, second) = (current_thread(), current_thread());
        let (sender, flow) = first.block_on(async {
            let (sender, _receiver, to) = pair().await;
            let flow = slow(&sender, to).await;
            (sender, flow)
        });
        let (other, waits) = (sender.clone(), Duration::from_millis(5));
        second.block_on(async move {
            assert!(timeout(waits, other.send_to(&flow, b"waits")).await.is_err());
        });
        drop(first);
        assert!(matches!(sender.queue(&flow, b"late"), Err(SendError::Closed)));
    });
}

/// A flow whose quantum is of several sends them by one call, and each arrives by itself.
#[test]
fn packets_of_a_quantum_leave_together() {
    on_each(async || {
        let (sender, receiver, to) = pair().await;
        let config = every(micros(100));
        let flow = sender
            .add(to, FlowConfig { quantum: Quantum::segments(Duration::from_millis(2)), ..config })
            .unwrap();
        for number in 0..40 {
            sender.queue(&flow, &[number; 100]).unwrap();
        }
        for number in 0..40 {
            assert_eq!(received(&receiver).await, [number; 100]);
        }
        let stats = sender.stats();
        assert!(stats.calls < 40, "{stats:?}");
    });
}
