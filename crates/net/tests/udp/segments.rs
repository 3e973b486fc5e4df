//! Sends that the kernel cuts into datagrams: what arrives, what is counted, and what happens where it will
//! not cut.

use std::net;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;
use softtimers::Monotonic;
use softtimers::{Clock, Random};
use softtimers_net::udp::{RecvBatch, Segmentation, SendBatch, Stopped, UdpSocket};

use crate::network::{SEND_TIME_LIMIT, TICK, departed, in_slow_network, slow_socket, wait_for_departures};
use crate::{pairs, receive_all, v4_pair};

fn segmented(capacity: usize, max_datagram: usize) -> SendBatch {
    let mut batch = SendBatch::new(capacity, max_datagram);
    batch.set_segmentation(true);
    batch
}

#[test]
fn segments_arrive_as_datagrams_of_their_own() {
    for (receiver, sender) in pairs() {
        let (mut outgoing, mut incoming) = (segmented(64, 1_200), RecvBatch::new(64, 2_000));
        for size in 1..=64u8 {
            (0..size).for_each(|number| outgoing.push(&[number; 1_200], None).unwrap());
            let outcome = sender.send_batch(&mut outgoing);
            assert!(outcome.stopped.is_none() && outgoing.is_empty(), "{outcome:?}");
            // 54 of them are 64,800 bytes; the rest is a send of its own, in the same call.
            let alone = usize::from(size == 1 || size == 55);
            assert_eq!((outcome.calls, outcome.retried), (1, 0), "{size}: {outcome:?}");
            assert_eq!((outcome.sent, outcome.segments), (size.into(), usize::from(size) - alone));
            receive_all(&receiver, &mut incoming, size.into(), |number, datagram| {
                assert_eq!(datagram.payload, [number as u8; 1_200], "{number} of {size}");
            });
        }
        assert!(matches!(outgoing.segmentation(), Segmentation::On));
    }
}

/// Lengths and destinations that differ make more sends of it, in the same order and the same call.
#[test]
fn what_is_not_alike_leaves_apart_and_in_order() {
    let (first, sender) = v4_pair();
    let second = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addresses = [&first, &second].map(|socket| Some(socket.local_addr().unwrap()));
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut outgoing = segmented(16, 100);
    let lengths = [100, 100, 100, 40, 40, 0, 7, 100, 100, 1];
    for (number, &length) in lengths.iter().enumerate() {
        outgoing.push(&vec![number as u8; length], addresses[number / 5]).unwrap();
    }
    let outcome = free.send_batch(&mut outgoing);
    // [100 100 100 40] [40], and to the other one [0] [7] [100 100 1].
    assert_eq!((outcome.sent, outcome.calls, outcome.segments), (10, 1, 7), "{outcome:?}");
    let mut incoming = RecvBatch::new(16, 200);
    for (receiver, half) in [(&first, 0), (&second, 5)] {
        receive_all(receiver, &mut incoming, 5, |index, datagram| {
            let number = half + index;
            assert_eq!(datagram.payload, vec![number as u8; lengths[number]]);
        });
    }
    assert!(outgoing.push(b"connected", None).is_ok());
    assert_eq!(sender.send_batch(&mut outgoing).sent, 1);
}

/// Whatever is joined, whatever is discarded, wherever the ring ends: each datagram arrives once, in order.
#[test]
fn nothing_is_lost_or_sent_twice_in_a_ring_that_goes_round() {
    let (receiver, sender) = v4_pair();
    let (mut outgoing, mut incoming) = (segmented(13, 64), RecvBatch::new(64, 64));
    let (mut pushed, mut random) = (0u32, Random::stream(1, 0));
    for _ in 0..500 {
        let mut expected = Vec::new();
        let mut push = |outgoing: &mut SendBatch, length: usize| {
            let mut payload = vec![0; length];
            payload[..4].copy_from_slice(&pushed.to_ne_bytes());
            if outgoing.push(&payload, None).is_ok() {
                expected.push(payload);
                pushed += 1;
            }
        };
        (0..random.below(14))
            .for_each(|_| push(&mut outgoing, [16, 16, 16, 40, 9][random.below(5) as usize]));
        let discarded = (0..random.below(4)).filter(|_| outgoing.discard_first()).count();
        (0..random.below(6)).for_each(|_| push(&mut outgoing, 16));
        let waiting = outgoing.len();
        assert_eq!(waiting, expected.len() - discarded);
        let outcome = sender.send_batch(&mut outgoing);
        assert_eq!((outcome.sent, outgoing.len()), (waiting, 0), "{outcome:?}");
        assert!(outcome.calls <= 2 && outcome.segments <= waiting, "{outcome:?}");
        receive_all(&receiver, &mut incoming, waiting, |index, datagram| {
            assert_eq!(datagram.payload, expected[discarded + index]);
        });
    }
}

#[test]
fn a_closed_port_loses_none_of_the_segments() {
    for (receiver, sender) in pairs() {
        drop(receiver);
        sender.set_nonblocking(true).unwrap();
        let mut outgoing = segmented(64, 16);
        let met = (0..100).any(|_| {
            while outgoing.push(b"anybody?", None).is_ok() {}
            let outcome = sender.send_batch(&mut outgoing);
            assert!(outcome.stopped.is_none() && outgoing.is_empty(), "{outcome:?}");
            assert_eq!((outcome.sent, outcome.segments), (64, 64));
            outcome.retried > 0
        });
        assert!(met && matches!(outgoing.segmentation(), Segmentation::On));
    }
}

/// A socket whose kernel does not know the option is never asked to cut: it would send one long datagram.
#[test]
fn where_it_is_not_known_each_datagram_is_a_send() {
    let (one, other) = UnixDatagram::pair().unwrap();
    other.set_read_timeout(Some(SEND_TIME_LIMIT)).unwrap();
    let socket = UdpSocket::from(net::UdpSocket::from(OwnedFd::from(one)));
    let mut outgoing = segmented(4, 16);
    (0..4).for_each(|number| outgoing.push(&[number; 16], None).unwrap());
    let outcome = socket.send_batch(&mut outgoing);
    assert_eq!((outcome.sent, outcome.calls, outcome.segments), (4, 1, 0), "{outcome:?}");
    assert!(matches!(outgoing.segmentation(), Segmentation::Refused(_)), "{outgoing:?}");
    let mut packet = [0; 64];
    for number in 0..4 {
        assert_eq!(other.recv(&mut packet).unwrap(), 16);
        assert_eq!(packet[0], number);
    }
}

/// Segments have to fit the device's packets; datagrams that do not are cut by IP instead, if they are sent one by
/// one.
#[test]
fn what_the_device_cannot_take_as_segments_leaves_one_by_one() {
    in_slow_network("100mbit", 1_000_000, || {
        let socket = slow_socket();
        let mut outgoing = segmented(4, 3_000);
        (0..4).for_each(|_| outgoing.push(&[0; 2_000], None).unwrap());
        let outcome = socket.send_batch(&mut outgoing);
        assert!(outcome.stopped.is_none(), "{outcome:?}");
        assert_eq!((outcome.sent, outcome.calls, outcome.segments), (4, 2, 0), "{outcome:?}");
        let Segmentation::Refused(error) = outgoing.segmentation() else { panic!("{outgoing:?}") };
        assert!([Some(libc::EINVAL), Some(libc::EMSGSIZE)].contains(&error.raw_os_error()), "{error}");

        // An error of a datagram's own is no reason to give segmentation up.
        let mut outgoing = segmented(4, 1_000);
        let foreign = Some("[::1]:9".parse().unwrap());
        (0..2).for_each(|_| outgoing.push(&[0; 1_000], foreign).unwrap());
        let outcome = socket.send_batch(&mut outgoing);
        assert!(matches!(outcome.stopped, Some(Stopped::Error(_))), "{outcome:?}");
        assert_eq!((outcome.sent, outgoing.len()), (0, 2));
        assert!(matches!(outgoing.segmentation(), Segmentation::On), "{outgoing:?}");
    });
}

#[test]
fn a_full_send_buffer_loses_no_segment() {
    in_slow_network("1mbit", 1_000_000, || {
        let socket = slow_socket();
        sockopt::set_socket_send_buffer_size(&socket, 1).unwrap();
        let (before, deadline) = (departed(), Monotonic.now() + SEND_TIME_LIMIT);
        let mut outgoing = segmented(32, 1_000);
        let (mut pushed, mut sent, mut blocked) = (0, 0, 0);
        // Four at a time are alike.
        while pushed < 32 || !outgoing.is_empty() {
            while pushed < 32 && outgoing.push(&vec![0; 1_000 - pushed / 4], None).is_ok() {
                pushed += 1;
            }
            let outcome = socket.send_batch(&mut outgoing);
            sent += outcome.sent;
            assert_eq!(pushed, sent + outgoing.len(), "{outcome:?}");
            if let Some(stopped) = outcome.stopped {
                assert!(matches!(stopped, Stopped::WouldBlock), "{stopped:?}");
                blocked += 1;
                assert!(Monotonic.now() < deadline, "{outgoing:?}");
                poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&TICK)).unwrap();
            }
        }
        assert!(blocked > 0 && matches!(outgoing.segmentation(), Segmentation::On), "{outgoing:?}");
        wait_for_departures(before + 32);
    });
}

/// The limit of it: a queue that cuts by itself tells of a send, not of its segments.
#[test]
fn a_queue_that_takes_some_segments_hides_the_loss_of_the_others() {
    in_slow_network("8kbit", 5_000, || {
        let socket = slow_socket();
        socket.report_queue_drops(true).unwrap();
        let mut outgoing = segmented(16, 1_000);
        while outgoing.push(&[0; 1_000], None).is_ok() {}
        let outcome = socket.send_batch(&mut outgoing);
        assert_eq!((outcome.sent, outcome.segments), (16, 16), "with room for five: {outcome:?}");
        assert!(outcome.stopped.is_none());
    });
}

/// A release time is refused where it was not enabled; where it was, the kernel takes it together with
/// segments. On loopback nothing keeps it.
#[test]
fn release_times_go_with_segments() {
    let (receiver, sender) = v4_pair();
    let mut outgoing = segmented(8, 100);
    let release = Monotonic.now() + Duration::from_millis(1);
    (0..4).for_each(|number| outgoing.push_at(&[number; 100], None, release).unwrap());
    let outcome = sender.send_batch(&mut outgoing);
    match outcome.stopped {
        Some(Stopped::Error(error)) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL)),
        other => panic!("{other:?}"),
    }
    assert_eq!((outcome.sent, outgoing.len()), (0, 4));
    assert!(matches!(outgoing.segmentation(), Segmentation::On), "it was not the segments");

    sender.enable_release_times().unwrap();
    let later = release + Duration::from_millis(1);
    (4..8).for_each(|number| outgoing.push_at(&[number; 100], None, later).unwrap());
    let outcome = sender.send_batch(&mut outgoing);
    assert_eq!((outcome.sent, outcome.calls, outcome.segments), (8, 1, 8), "{outcome:?}");
    receive_all(&receiver, &mut RecvBatch::new(8, 200), 8, |number, datagram| {
        assert_eq!(datagram.payload, [number as u8; 100]);
    });
}
