//! Pacing at the egress, in this kernel: the departure times that packets get, and that an interface without `fq` is refused.
//! Without the privileges or the kernel for it, each test says so.

use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use softtimers_bpf::{Egress, EgressCounts, EgressPace, Error};
use softtimers_core::Timestamp;

const PORT: u16 = 5004;

fn skipped(reason: &str) {
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let line = format!("skipped: {name}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// The programs, loaded; else says why not.
fn loaded(of: Egress, bits_per_second: u64) -> Option<EgressPace> {
    match EgressPace::load(of, NonZeroU64::new(bits_per_second).unwrap()) {
        Ok(pace) => Some(pace),
        Err(error @ (Error::Privilege { .. } | Error::TooOld { .. })) => {
            skipped(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn now() -> Timestamp {
    let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap();
    Timestamp::from_nanos(now.as_nanos() as u64)
}

/// Returns an Ethernet frame with a datagram of IPv4 or IPv6 from this port, of `length` bytes in all.
fn frame(v6: bool, port: u16, length: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64]);
        frame.extend([1; 32]);
    } else {
        frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend([127, 0, 0, 1, 127, 0, 0, 1]);
    }
    frame.extend(port.to_be_bytes());
    frame.resize(length, 0);
    frame
}

/// Each frame's departure is its length after the one before, unless it came later than that; the first leaves at once.
#[test]
fn departures_are_as_far_apart_as_the_rate_says() {
    for v6 in [false, true] {
        let Some(mut pace) = loaded(Egress::Port(PORT), 80_000) else { return };
        // 1,000 bytes take 100 ms.
        let (frame, gap) = (frame(v6, PORT, 1_000), Duration::from_millis(100));
        let first = now();
        assert_eq!(pace.departure(&frame).unwrap(), None);
        let mut places = (first, now());
        for number in 1..15 {
            let departure = pace.departure(&frame).unwrap();
            let called = now();
            match departure {
                Some(place) => {
                    assert!(place >= places.0 + gap, "{number}: {place:?} after {places:?}");
                    // It was there before the earlier one's time was over, so that is what it continues.
                    if called < places.0 + gap {
                        assert!(place <= places.1 + gap, "{number}: {place:?} after {places:?}");
                    }
                    places = (place, place);
                }
                None => {
                    assert!(called >= places.0 + gap, "{number}: at once, after {places:?}");
                    places = (places.0 + gap, called);
                }
            }
        }
        let counts = pace.counts().unwrap();
        assert_eq!((counts.packets, counts.bytes, counts.dropped), (15, 15_000, 0));
    }
}

#[test]
fn others_are_not_paced() {
    let Some(mut pace) = loaded(Egress::Port(PORT), 8_000) else { return };
    let mut tcp = frame(false, PORT, 100);
    tcp[14 + 9] = 6;
    let mut piece = frame(false, PORT, 100);
    piece[14 + 7] = 1;
    let mut arp = frame(false, PORT, 100);
    arp[13] = 6;
    for other in [tcp, piece, arp, frame(false, PORT + 1, 100), frame(true, PORT + 1, 100)] {
        for _ in 0..3 {
            assert_eq!(pace.departure(&other).unwrap(), None);
        }
    }
    assert_eq!(pace.counts().unwrap(), EgressCounts::default());
}

/// At 8 kbit/s a frame of 1,000 bytes takes a second: the fourth in a moment would wait for three.
#[test]
fn who_asks_for_too_much_loses_it() {
    let Some(mut pace) = loaded(Egress::Port(PORT), 8_000) else { return };
    let frame = frame(false, PORT, 1_000);
    let refused = (0..30).filter(|_| pace.departure(&frame).is_err()).count() as u64;
    let counts = pace.counts().unwrap();
    assert_eq!((counts.packets + counts.dropped, counts.dropped), (30, refused));
    assert!(refused > 0, "thirty seconds' worth in a moment");
}

/// `fq` has room for a hundred of a flow: the ninety-first that waits is refused, and another flow is not.
#[test]
fn a_flow_has_at_most_ninety_waiting() {
    // 1,000 bytes take 20 ms, so ninety wait for less than the two seconds.
    let Some(mut pace) = loaded(Egress::Port(PORT), 400_000) else { return };
    let gap = Duration::from_millis(20);
    let mut frame = frame(false, PORT, 1_000);
    let (began, mut places, mut refused) = (now(), Vec::new(), 0);
    for _ in 0..300 {
        let waiting = |places: &[Timestamp], at| places.iter().filter(|place| **place > at).count();
        let before = now();
        match pace.departure(&frame) {
            Ok(place) => {
                assert!(waiting(&places, now()) < EgressPace::WAITING, "{places:?}");
                places.extend(place);
            }
            Err(_) => {
                refused += 1;
                assert_eq!(waiting(&places, before), EgressPace::WAITING, "{places:?}");
            }
        }
    }
    assert_eq!(pace.counts().unwrap().dropped, refused);
    // Slow as it may be, this took less than what they all would.
    assert!(refused > 0 || now() > began + gap * (300 - EgressPace::WAITING as u32 - 1));
    // One of them may have the same hash.
    let others = (1..9).filter(|port| {
        frame[37] = *port;
        pace.departure(&frame).is_ok()
    });
    assert!(others.count() > 0, "every flow has to wait for one");
}

/// A packet that waits keeps its time, and the packet behind it has the new rate.
#[test]
fn a_new_rate_holds_from_the_next_packet_on() {
    let Some(mut pace) = loaded(Egress::Port(PORT), 8_000) else { return };
    let (frame, millisecond) = (frame(false, PORT, 1_000), Duration::from_millis(1));
    let waiting = loop {
        if let Some(place) = pace.departure(&frame).unwrap() {
            break place;
        }
    };
    pace.set_rate(NonZeroU64::new(8_000_000).unwrap()).unwrap();
    match pace.departure(&frame).unwrap() {
        Some(place) => assert_eq!(place, waiting + millisecond),
        None => assert!(now() >= waiting + millisecond),
    }
    // At 8 bit/s it would keep the port for a quarter of an hour.
    pace.set_rate(NonZeroU64::new(8).unwrap()).unwrap();
    assert!(pace.departure(&frame).is_err());
    pace.set_rate(NonZeroU64::new(8_000_000).unwrap()).unwrap();
    pace.departure(&frame).unwrap();
}

#[test]
fn an_interface_without_fq_is_refused() {
    let Some(mut pace) = loaded(Egress::Port(PORT), 8_000_000) else { return };
    match pace.attach("lo") {
        Err(error @ Error::NoFq { .. }) => {
            let said = error.to_string();
            assert!(
                said.contains("lo: its queue is ") && said.contains("tc qdisc replace dev lo root fq"),
                "{said}"
            );
        }
        Ok(()) => skipped("somebody gave lo an fq"),
        Err(error) => panic!("{error}"),
    }
    assert!(matches!(pace.attach("no-such-one"), Err(Error::System(_))));
}

/// Runs this test once more in a network of its own; `false` there.
fn is_outside(name: &str) -> bool {
    if std::env::var_os("SOFTTIMERS_IN_A_NETWORK").is_some() {
        return false;
    }
    let script = format!("ip link set lo up && exec \"$0\" {name} --exact --nocapture");
    let inside = Command::new("unshare")
        .args(["--net", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env("SOFTTIMERS_IN_A_NETWORK", "1")
        .output();
    match inside {
        Err(why) => skipped(&format!("unshare: {why}")),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let reason = said.lines().find_map(|line| line.strip_prefix(&format!("skipped: {name}: ")));
            match (output.status.success(), reason) {
                (_, Some(reason)) => skipped(reason),
                (true, None) => {}
                (false, None) => {
                    assert!(said.contains("unshare: ") || said.contains("ip: "), "{said}");
                    skipped(said.trim());
                }
            }
        }
    }
    true
}

/// The number of this process's cgroup, where version 2 is mounted.
fn own_cgroup() -> Option<u64> {
    let (groups, mounts) =
        (fs::read_to_string("/proc/self/cgroup").ok()?, fs::read_to_string("/proc/self/mounts").ok()?);
    let mine = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let place = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?.split(' ').nth(1)?;
    Some(fs::metadata(format!("{place}{mine}")).ok()?.ino())
}

/// Real packets of a socket, from a port and from this process's cgroup.
#[test]
fn packets_of_sockets_are_paced() {
    if is_outside("packets_of_sockets_are_paced") {
        return;
    }
    let mut all = vec![Egress::Port(PORT)];
    match own_cgroup() {
        Some(cgroup) => all.push(Egress::Cgroup(cgroup)),
        None => eprintln!("no cgroup of version 2 is seen here"),
    }
    for of in all {
        let Some(mut pace) = loaded(of, 8_000_000) else { return };
        pace.attach_before_fq("lo").unwrap();
        let (socket, other) =
            (UdpSocket::bind(("127.0.0.1", PORT)).unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        for _ in 0..40 {
            socket.send_to(&[0; 958], other.local_addr().unwrap()).unwrap();
            other.recv(&mut [0; 2_000]).unwrap();
            if matches!(of, Egress::Port(_)) {
                other.send_to(&[0; 958], socket.local_addr().unwrap()).unwrap();
            }
        }
        let counts = pace.counts().unwrap();
        assert_eq!((counts.packets, counts.bytes, counts.dropped), (40, 40_000, 0), "{of:?}");
        // Nothing on loopback waits for its time, so the next one is there in much less than the millisecond that one takes.
        assert!(counts.delayed > 0, "{of:?}: {counts:?}");
        drop(pace);
    }
}

/// The packets are with the queue until their times, and it drops none: where the kernel has one that keeps them.
#[test]
fn fq_keeps_the_times() {
    if is_outside("fq_keeps_the_times") {
        return;
    }
    let run = |words: &str| {
        let output = Command::new("sh").args(["-c", words]).output().unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    };
    let laid =
        // Without addresses of IPv6 nothing else is on the cable.
        run("ip link add near type veth peer name far && \
         for end in near far; do ip link set $end addrgenmode none; ip link set $end up; done && \
         ip addr add 10.9.0.1/24 dev near && ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev near");
    if let Err(why) = laid {
        return skipped(&why);
    }
    if let Err(why) = run("tc qdisc replace dev near root fq") {
        return skipped(&format!("no fq here: {why}"));
    }
    let Some(mut pace) = loaded(Egress::Port(PORT), 80_000) else { return };
    pace.attach("near").unwrap();
    let socket = UdpSocket::bind(("10.9.0.1", PORT)).unwrap();
    // /sys is still that of the network outside.
    let came = || -> u64 {
        let devices = fs::read_to_string("/proc/net/dev").unwrap();
        let far = devices.lines().find_map(|line| line.trim().strip_prefix("far:")).unwrap();
        far.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let (before, began) = (came(), now());
    for _ in 0..300 {
        socket.send_to(&[0; 58], "10.9.0.2:9").unwrap();
    }
    let counts = pace.counts().unwrap();
    assert_eq!(counts.packets + counts.dropped, 300);
    // 10 ms each.
    while came() < before + counts.packets {
        assert!(now() < began + Duration::from_secs(60), "{} of {counts:?} came", came() - before);
    }
    let least = Duration::from_millis(10) * (counts.packets as u32 - 1);
    assert!(now() + Duration::from_millis(40) >= began + least, "they came at once");
}
