//! Batches over real sockets: the loopback interface, and where we may, a network of our own with a
//! slow device in it.

#[path = "udp/network.rs"]
mod network;
#[path = "udp/segments.rs"]
mod segments;
#[path = "../src/skipped.rs"]
mod skipped;

use std::io::ErrorKind;
use std::net::{self, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use softtimers::Monotonic;
use softtimers::{Clock, Timestamp};
use softtimers_net::udp::{Datagram, RecvBatch, SendBatch, Stopped, UdpSocket};

use network::{SEND_TIME_LIMIT, TICK, departed, in_slow_network, slow_socket, wait_for_departures};
use skipped::skipped;

/// A receiver, and a sender connected to it, on each loopback address that this machine has.
fn pairs() -> Vec<(UdpSocket, UdpSocket)> {
    let mut pairs = Vec::new();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        match UdpSocket::bind(address) {
            Ok(receiver) => {
                let sender = UdpSocket::bind(address).unwrap();
                sender.connect(receiver.local_addr().unwrap()).unwrap();
                // Whatever is lost, no test waits for it for ever.
                receiver.as_ref().set_read_timeout(Some(SEND_TIME_LIMIT)).unwrap();
                pairs.push((receiver, sender));
            }
            Err(error) => skipped(&format_args!("no socket on {address}: {error}")),
        }
    }
    pairs
}

fn v4_pair() -> (UdpSocket, UdpSocket) {
    pairs().swap_remove(0)
}

fn send_all(sender: &UdpSocket, batch: &mut SendBatch) {
    let waiting = batch.len();
    let outcome = sender.send_batch(batch);
    assert!(outcome.stopped.is_none(), "{outcome:?}");
    assert_eq!((outcome.sent, batch.len()), (waiting, 0));
}

/// Receives until `count` datagrams have come, and hands each to `check` with its number.
fn receive_all(
    receiver: &UdpSocket,
    batch: &mut RecvBatch,
    count: usize,
    mut check: impl FnMut(usize, Datagram<'_>),
) {
    let mut received = 0;
    while received < count {
        assert_eq!(receiver.recv_batch(batch).unwrap(), batch.len());
        assert_eq!(batch.iter().count(), batch.len());
        for datagram in batch.iter() {
            check(received, datagram);
            received += 1;
        }
    }
    assert_eq!(received, count, "none is received twice");
}

/// Bytes that differ between batches and datagrams; some datagrams are empty.
fn payload(batch: usize, index: usize) -> Vec<u8> {
    (0..(batch * 37 + index * 53) % 1_200).map(|i| (batch * 7 + index * 13 + i) as u8).collect()
}

#[test]
fn batches_of_every_size_arrive_whole_and_in_order() {
    for (receiver, sender) in pairs() {
        let (mut outgoing, mut incoming) = (SendBatch::new(64, 1_200), RecvBatch::new(64, 1_200));
        let from = sender.local_addr().unwrap();
        for size in 1..=64 {
            for index in 0..size {
                outgoing.push(&payload(size, index), None).unwrap();
            }
            send_all(&sender, &mut outgoing);
            receive_all(&receiver, &mut incoming, size, |index, datagram| {
                assert_eq!(datagram.payload, payload(size, index), "datagram {index} of {size}");
                assert_eq!((datagram.from, datagram.truncated, datagram.received), (from, false, None));
            });
        }
    }
}

#[test]
fn each_datagram_goes_to_its_own_address() {
    for (first, sender) in pairs() {
        let second = UdpSocket::bind((first.local_addr().unwrap().ip(), 0)).unwrap();
        let free = UdpSocket::bind((first.local_addr().unwrap().ip(), 0)).unwrap();
        let mut outgoing = SendBatch::new(8, 100);
        for index in 0..8 {
            let to = [&first, &second][index % 2].local_addr().unwrap();
            outgoing.push(&[index as u8], Some(to)).unwrap();
        }
        send_all(&free, &mut outgoing);
        // Without an address a slot that had one must not keep it.
        outgoing.push(b"connected", None).unwrap();
        send_all(&sender, &mut outgoing);

        let from = free.local_addr().unwrap();
        let mut incoming = RecvBatch::new(3, 100);
        receive_all(&second, &mut incoming, 4, |index, datagram| {
            assert_eq!((datagram.payload, datagram.from), (&[index as u8 * 2 + 1][..], from));
        });
        receive_all(&first, &mut incoming, 5, |index, datagram| match index {
            4 => assert_eq!(
                (datagram.payload, datagram.from),
                (&b"connected"[..], sender.local_addr().unwrap())
            ),
            _ => assert_eq!((datagram.payload, datagram.from), (&[index as u8 * 2][..], from)),
        });
    }
}

#[test]
fn the_ring_keeps_its_order_around_its_end() {
    let (receiver, sender) = v4_pair();
    let (mut outgoing, mut incoming) = (SendBatch::new(8, 1), RecvBatch::new(8, 1));
    for first in 0..8u8 {
        (0..8).for_each(|i| outgoing.push(&[i], None).unwrap());
        (0..first).for_each(|_| assert!(outgoing.discard_first()));
        (8..8 + first).for_each(|i| outgoing.push(&[i], None).unwrap());
        assert!(outgoing.is_full() && outgoing.push(&[0], None).is_err());
        send_all(&sender, &mut outgoing);
        receive_all(&receiver, &mut incoming, 8, |index, datagram| {
            assert_eq!(datagram.payload, [first + index as u8]);
        });
    }
    outgoing.push(b"x", None).unwrap();
    outgoing.clear();
    assert!(outgoing.is_empty() && !outgoing.discard_first());
}

#[test]
fn what_does_not_fit_is_cut_and_says_so() {
    for (receiver, sender) in pairs() {
        for length in [0, 99, 100, 101, 9_000] {
            sender.send(&vec![7; length]).unwrap();
        }
        let mut incoming = RecvBatch::new(8, 100);
        let mut seen = Vec::new();
        receive_all(&receiver, &mut incoming, 5, |_, datagram| {
            assert!(datagram.payload.iter().all(|byte| *byte == 7));
            seen.push((datagram.payload.len(), datagram.truncated));
        });
        assert_eq!(seen, [(0, false), (99, false), (100, false), (100, true), (100, true)]);
        // The next datagram has its whole buffer again.
        sender.send(&[8; 100]).unwrap();
        receive_all(&receiver, &mut incoming, 1, |_, datagram| assert_eq!(datagram.payload, [8; 100]));
    }
}

#[test]
fn receive_times_are_in_order_and_lie_between_sending_and_reading() {
    for (receiver, sender) in pairs() {
        switch_timestamps_on(&receiver, &sender);
        let mut incoming = RecvBatch::new(16, 16);
        let mut last = Timestamp::ZERO;
        for _ in 0..100 {
            let before = Monotonic.now();
            for _ in 0..16 {
                sender.send(b"tick").unwrap();
            }
            let mut stamps = Vec::new();
            receive_all(&receiver, &mut incoming, 16, |_, datagram| stamps.push(datagram.received.unwrap()));
            let after = Monotonic.now();
            // The conversion is off by less than 16 datagrams take.
            let allowed = after.saturating_duration_since(before);
            for stamp in stamps {
                assert!(stamp >= last, "{stamp:?} after {last:?}");
                assert!(stamp + allowed >= before && stamp <= after + allowed, "{stamp:?} of {before:?}");
                last = stamp;
            }
        }
        receiver.set_timestamps(false).unwrap();
        sender.send(b"tick").unwrap();
        receive_all(&receiver, &mut incoming, 1, |_, datagram| assert_eq!(datagram.received, None));
    }
}

/// The receive time does not contain the reader's delay; and since the kernel needs some time until
/// its stamps work, and gives the time of reading meanwhile, this waits for the first that does not.
fn switch_timestamps_on(receiver: &UdpSocket, sender: &UdpSocket) {
    receiver.set_timestamps(true).unwrap();
    let mut incoming = RecvBatch::new(1, 16);
    let deadline = Monotonic.now() + SEND_TIME_LIMIT;
    loop {
        let sent = Monotonic.now();
        assert!(sent < deadline, "no stamp was earlier than its reading");
        sender.send(b"tick").unwrap();
        while Monotonic.now() < sent + Duration::from_millis(1) {}
        receiver.recv_batch(&mut incoming).unwrap();
        let read = Monotonic.now();
        let received = incoming.iter().next().unwrap().received.unwrap();
        if received.saturating_duration_since(sent) * 4 < read.saturating_duration_since(received) {
            return;
        }
    }
}

#[test]
fn drops_are_counted_on_request_and_in_passing() {
    for (receiver, sender) in pairs() {
        receiver.set_drop_counter(true).unwrap();
        let granted = receiver.request_recv_buffer(8 * 1_024).unwrap();
        assert!(granted >= 8 * 1_024, "{granted}");
        assert_eq!(receiver.drops().unwrap(), 0);

        const SENT: usize = 100;
        for _ in 0..SENT {
            sender.send(&[0; 1_000]).unwrap();
        }
        let dropped = receiver.drops().unwrap();
        assert!(dropped > 0 && (dropped as usize) < SENT, "{dropped}");

        let mut incoming = RecvBatch::new(64, 1_000);
        receive_all(&receiver, &mut incoming, SENT - dropped as usize, |_, _| {});
        // What came in was queued before the first drop; the next datagram brings the news.
        assert_eq!(incoming.drops(), 0);
        sender.send(b"after").unwrap();
        receive_all(&receiver, &mut incoming, 1, |_, datagram| assert_eq!(datagram.payload, b"after"));
        assert_eq!(incoming.drops(), dropped);
        assert_eq!(receiver.drops().unwrap(), dropped);
    }
}

#[test]
fn nothing_to_receive_would_block_and_leaves_the_batch_empty() {
    for (receiver, sender) in pairs() {
        receiver.set_nonblocking(true).unwrap();
        let mut incoming = RecvBatch::new(4, 16);
        assert_eq!(receiver.recv_batch(&mut incoming).unwrap_err().kind(), ErrorKind::WouldBlock);
        sender.send(b"one").unwrap();
        receive_all(&receiver, &mut incoming, 1, |_, datagram| assert_eq!(datagram.payload, b"one"));
        assert_eq!(receiver.recv_batch(&mut incoming).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(incoming.is_empty() && incoming.iter().next().is_none());
    }
}

#[test]
fn a_blocking_receive_waits_for_one_datagram_only() {
    let (receiver, sender) = v4_pair();
    let mut incoming = RecvBatch::new(4, 16);
    let waiting = thread::spawn(move || {
        let received = receiver.recv_batch(&mut incoming).unwrap();
        (received, incoming.iter().next().map(|datagram| datagram.payload.to_vec()))
    });
    sender.send(b"one").unwrap();
    assert_eq!(waiting.join().unwrap(), (1, Some(b"one".to_vec())));
}

#[test]
fn a_closed_port_loses_none_of_what_we_send() {
    for (receiver, sender) in pairs() {
        drop(receiver);
        sender.set_nonblocking(true).unwrap();
        let mut outgoing = SendBatch::new(64, 16);
        // The ICMP answers come at once, unless the machine is so busy that it puts them off.
        let met = (0..100).any(|_| {
            while outgoing.push(b"anybody?", None).is_ok() {}
            let outcome = sender.send_batch(&mut outgoing);
            assert!(outcome.stopped.is_none() && outgoing.is_empty(), "{outcome:?}");
            assert_eq!(outcome.sent, 64);
            outcome.retried > 0
        });
        assert!(met);

        // Whichever call comes next hears of the last one; receiving, too.
        let mut incoming = RecvBatch::new(4, 16);
        let error = sender.recv_batch(&mut incoming).unwrap_err().kind();
        assert!([ErrorKind::ConnectionRefused, ErrorKind::WouldBlock].contains(&error), "{error:?}");
        assert!(incoming.is_empty());
    }
}

#[test]
fn a_datagram_that_cannot_be_sent_stops_at_itself() {
    let (receiver, sender) = v4_pair();
    let mut outgoing = SendBatch::new(8, usize::MAX);
    assert_eq!(outgoing.max_datagram(), 65_535);
    outgoing.push(b"before", None).unwrap();
    outgoing.push(&[0; 65_535], None).unwrap();
    outgoing.push(b"after", None).unwrap();

    let outcome = sender.send_batch(&mut outgoing);
    assert_eq!((outcome.sent, outcome.retried, outgoing.len()), (1, 0, 2));
    match outcome.stopped {
        Some(Stopped::Error(error)) => assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE)),
        other => panic!("{other:?}"),
    }
    assert!(outgoing.discard_first());
    send_all(&sender, &mut outgoing);
    let mut payloads = Vec::new();
    receive_all(&receiver, &mut RecvBatch::new(8, 16), 2, |_, datagram| {
        payloads.push(datagram.payload.to_vec());
    });
    assert_eq!(payloads, [b"before".to_vec(), b"after".to_vec()]);
}

#[test]
fn no_destination_and_a_foreign_family_are_errors() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for to in [None, Some("[::1]:9".parse::<SocketAddr>().unwrap())] {
        let mut outgoing = SendBatch::new(1, 1);
        outgoing.push(b"x", to).unwrap();
        let outcome = socket.send_batch(&mut outgoing);
        assert!(matches!(outcome.stopped, Some(Stopped::Error(_))), "{outcome:?}");
        assert_eq!((outcome.sent, outgoing.len()), (0, 1));
    }
}

#[test]
fn sizes_are_held_within_what_the_kernel_takes() {
    let (receiver, sender) = v4_pair();
    let mut smallest = (SendBatch::new(0, 0), RecvBatch::new(0, 0));
    smallest.0.push(b"x", None).unwrap();
    send_all(&sender, &mut smallest.0);
    receive_all(&receiver, &mut smallest.1, 1, |_, datagram| assert_eq!(datagram.payload, b"x"));

    let mut largest = (SendBatch::new(usize::MAX, 1), RecvBatch::new(usize::MAX, 1));
    assert_eq!((largest.0.capacity(), largest.1.capacity()), (1_024, 1_024));
    receiver.request_recv_buffer(usize::MAX).unwrap();
    while largest.0.push(b"x", None).is_ok() {}
    send_all(&sender, &mut largest.0);
    let dropped = receiver.drops().unwrap() as usize;
    receive_all(&receiver, &mut largest.1, 1_024 - dropped, |_, datagram| assert_eq!(datagram.payload, b"x"));
}

#[test]
fn a_batch_and_a_socket_can_change_threads() {
    let (receiver, sender) = v4_pair();
    let (mut outgoing, mut incoming) = (SendBatch::new(4, 16), RecvBatch::new(4, 16));
    outgoing.push(b"from here", None).unwrap();
    thread::spawn(move || send_all(&sender, &mut outgoing)).join().unwrap();
    receive_all(&receiver, &mut incoming, 1, |_, _| {});
    let incoming = thread::spawn(move || incoming).join().unwrap();
    assert_eq!(incoming.iter().next().unwrap().payload, b"from here");
}

#[test]
fn a_descriptor_that_is_no_udp_socket_does_no_harm() {
    let (one, other) = UnixDatagram::pair().unwrap();
    one.send(b"local").unwrap();
    let socket = UdpSocket::from(net::UdpSocket::from(OwnedFd::from(other)));
    socket.set_timestamps(true).unwrap();
    let mut incoming = RecvBatch::new(2, 16);
    receive_all(&socket, &mut incoming, 1, |_, datagram| {
        assert_eq!(datagram.payload, b"local");
        assert_eq!(datagram.from, "0.0.0.0:0".parse().unwrap());
    });
}

#[test]
fn std_sockets_convert_both_ways() {
    let standard = net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = standard.local_addr().unwrap();
    let socket = UdpSocket::from(standard);
    assert_eq!(socket.local_addr().unwrap(), address);
    assert_eq!(socket.as_ref().ttl().unwrap(), net::UdpSocket::from(socket).ttl().unwrap());
}

#[test]
fn a_full_send_buffer_loses_nothing() {
    in_slow_network("1mbit", 1_000_000, || {
        let socket = slow_socket();
        sockopt::set_socket_send_buffer_size(&socket, 1).unwrap();
        let before = departed();
        let mut outgoing = SendBatch::new(32, 1_000);
        let mut sent = 0;
        while outgoing.push(&[0; 1_000], None).is_ok() {}

        let outcome = socket.send_batch(&mut outgoing);
        assert!(matches!(outcome.stopped, Some(Stopped::WouldBlock)), "{outcome:?}");
        assert!(outcome.sent > 0 && outcome.sent + outgoing.len() == 32, "{outcome:?}");
        sent += outcome.sent;
        // The room that was made can be used while others wait.
        for _ in 0..outcome.sent {
            outgoing.push(&[0; 1_000], None).unwrap();
        }
        let total = 32 + outcome.sent;
        let deadline = Monotonic.now() + SEND_TIME_LIMIT;
        while !outgoing.is_empty() {
            assert!(Monotonic.now() < deadline, "{outgoing:?}");
            poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&TICK)).unwrap();
            sent += socket.send_batch(&mut outgoing).sent;
        }
        assert_eq!(sent, total);
        wait_for_departures(before + total as u64);
    });
}

#[test]
fn a_full_device_queue_is_reported_on_request_only() {
    in_slow_network("8kbit", 5_000, || {
        let socket = slow_socket();
        let mut outgoing = SendBatch::new(16, 1_000);
        while outgoing.push(&[0; 1_000], None).is_ok() {}
        let outcome = socket.send_batch(&mut outgoing);
        assert_eq!(outcome.sent, 16, "the kernel claims so, with room for five: {outcome:?}");

        socket.report_queue_drops(true).unwrap();
        while outgoing.push(&[0; 1_000], None).is_ok() {}
        let outcome = socket.send_batch(&mut outgoing);
        assert!(matches!(outcome.stopped, Some(Stopped::NoBuffers)), "{outcome:?}");
        assert_eq!(outcome.sent + outgoing.len(), 16);
        assert!(outgoing.len() > 8, "{outcome:?}");
        assert_eq!(socket.drain_errors().unwrap(), 0);
    });
}

#[test]
fn icmp_errors_queue_up_on_request_and_can_be_drained() {
    for (receiver, sender) in pairs() {
        sender.report_queue_drops(true).unwrap();
        drop(receiver);
        let mut outgoing = SendBatch::new(4, 16);
        while outgoing.push(b"anybody?", None).is_ok() {}
        let outcome = sender.send_batch(&mut outgoing);
        assert_eq!(outcome.sent, 4, "{outcome:?}");
        let mut fds = [PollFd::new(&sender, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })).unwrap();
        assert!(fds[0].revents().contains(PollFlags::ERR));
        assert!(sender.drain_errors().unwrap() > 0);
        assert_eq!(sender.drain_errors().unwrap(), 0);
    }
}
