//! `forward` between two hosts whose kernels know nothing of it, or take it for their router. Needs root and `ip`; says
//! so where it has not got them.
//!
//! ```text
//!   near: eth ── wa :middle: wb ── eth :far
//!                 forward wa wb
//! ```

#[path = "kernel.rs"]
mod kernel;
#[path = "links.rs"]
mod links;
#[path = "soak.rs"]
mod soak;
#[path = "turns.rs"]
mod turns;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, ipproto, recv, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use softtimers_linux::ethtool::Offload;
use softtimers_net::packet::{FrameBatch, FrameReceiver, FrameSender, Interface};
use softtimers_net::poller::XdpDevice;

use super::Scratch;
use crate::common::hosts::{self, FAR, Hosts, NEAR, WA, WB, ip};
use crate::common::{self, skipped};

/// The drivers that work here, each with its flag.
fn drivers(hosts: &Hosts) -> Vec<&'static str> {
    working(hosts, &["--driver packet", "--driver xdp"], "")
}

/// The drivers that route here.
fn routers(hosts: &Hosts) -> Vec<&'static str> {
    [working(hosts, &["--driver packet", "--driver xdp"], &routing()), fast(hosts)].concat()
}

/// Those whose kernel forwards.
fn fast(hosts: &Hosts) -> Vec<&'static str> {
    let drivers: &[_] =
        if takes_redirected(hosts) { &["--driver tc", "--driver xdp-fast"] } else { &["--driver tc"] };
    working(hosts, drivers, &routing())
}

/// Says whether both hosts take frames that programs of the router send: `xdp-fast` does without where they do not.
fn takes_redirected(hosts: &Hosts) -> bool {
    ["near", "far"].iter().all(|host| set_offload(hosts, host, Offload::Gro, true))
}

/// Says whether an offload of a host's interface could be switched.
fn set_offload(hosts: &Hosts, host: &str, offload: Offload, is_on: bool) -> bool {
    let set = hosts.set_offload(host, offload, is_on);
    if let Err(why) = &set {
        skipped(why);
    }
    set.is_ok()
}

fn working(hosts: &Hosts, drivers: &[&'static str], flags: &str) -> Vec<&'static str> {
    let works = |driver: &&str| {
        let line = format!("forward wa wb --duration 10ms {driver} {flags}");
        let output = hosts.command(&line).output().unwrap();
        let (code, said) = (output.status.code(), common::stderr(&output));
        assert!(matches!(code, Some(0 | 77)), "{said}");
        if code != Some(0) {
            skipped(said.trim_end());
        }
        code == Some(0)
    };
    drivers.iter().copied().filter(works).collect()
}

/// A `forward` that runs.
struct Forwarder {
    child: Child,
    words: BufReader<ChildStderr>,
}

impl Forwarder {
    fn start(hosts: &Hosts, flags: &str) -> Self {
        let line = format!("forward wa wb --json --duration 60s {flags}");
        let mut child = hosts.command(&line).spawn().unwrap();
        let words = BufReader::new(child.stderr.take().unwrap());
        let mut forwarder = Forwarder { child, words };
        let first = forwarder.says();
        assert!(first.ends_with("ing between wa and wb"), "{first}");
        forwarder
    }

    /// The next line on its stderr.
    fn says(&mut self) -> String {
        let mut line = String::new();
        self.words.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The address of its metrics, of which it has to speak next.
    fn metrics(&mut self) -> String {
        let said = self.says();
        let address = said.strip_prefix("metrics on http://").and_then(|rest| rest.strip_suffix("/metrics"));
        address.unwrap_or_else(|| panic!("{said}")).to_owned()
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32).unwrap()
    }

    fn finish(self) -> Value {
        let text = self.ended();
        let report = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        adds_up(&report);
        report
    }

    /// The report of `--json-stream`, whose lines add up to it.
    fn streamed(self) -> Value {
        let (lines, report) = common::streamed(self.ended().as_bytes(), "forward", "in");
        assert!(!lines.is_empty());
        adds_up(&report);
        report
    }

    fn ended(mut self) -> String {
        kill_process(self.id(), Signal::TERM).unwrap();
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        text
    }
}

/// Nothing that came is lost uncounted, and each that was refused has its reason.
fn adds_up(report: &Value) {
    super::adds_up(report);
    let by_rule = report["dropped"]["rule"].as_u64().unwrap();
    let reasons = report["refused"].as_object().unwrap().values();
    assert_eq!(reasons.filter_map(Value::as_u64).sum::<u64>(), by_rule, "{report}");
}

fn count(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {report}"))
}

/// Both hosts in one network.
fn with_cable(test: &str, body: impl FnOnce(&Hosts)) {
    hosts::with(test, |hosts| {
        for (host, number) in [("near", 1), ("far", 2)] {
            for address in [format!("10.97.0.{number}/24"), format!("fd97::{number}/64")] {
                ip(&["-n", &hosts.host(host), "addr", "add", &address, "dev", "eth", "nodad"]).unwrap();
            }
        }
        body(hosts);
    });
}

/// Each host in a network of its own, behind a router.
fn with_router(test: &str, body: impl FnOnce(&Hosts)) {
    hosts::with(test, |hosts| {
        for (host, number) in [("near", 1), ("far", 2)] {
            let host = hosts.host(host);
            for (address, gateway) in [
                (format!("10.98.{number}.9/24"), format!("10.98.{number}.1")),
                (format!("fd98:{number}::9/64"), format!("fd98:{number}::1")),
            ] {
                ip(&["-n", &host, "addr", "add", &address, "dev", "eth", "nodad"]).unwrap();
                ip(&["-n", &host, "route", "add", "default", "via", &gateway]).unwrap();
            }
        }
        body(hosts);
    });
}

fn routing() -> String {
    format!(
        "--routed --next-hop-a {NEAR} --next-hop-b {FAR} \
         --address-a 10.98.1.1,fd98:1::1 --address-b 10.98.2.1,fd98:2::1"
    )
}

/// A socket that gives up rather than hang.
fn bound(hosts: &Hosts, host: &str, address: &str) -> UdpSocket {
    let address: SocketAddr = address.parse().unwrap();
    let socket = hosts.at(host, move || UdpSocket::bind(address).unwrap()).join().unwrap();
    socket.set_read_timeout(Some(WAIT)).unwrap();
    socket
}

/// Sends a text there and back; what is lost, as while a link comes up, is sent again, and what else waits is passed
/// over.
fn echoed(near: &UdpSocket, far: &UdpSocket, text: &[u8]) {
    let to = far.local_addr().unwrap();
    let from = arrival(far, text, || near.send_to(text, to).unwrap());
    // The kernel takes a link that came up into use a little later, and at either end by itself.
    arrival(near, text, || far.send_to(text, from).unwrap());
}

/// Sends until it has come, and tells from where.
fn arrival(at: &UdpSocket, text: &[u8], send: impl Fn() -> usize) -> SocketAddr {
    let mut buffer = [0; 65_535];
    at.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let arrived = (0..100).find_map(|_| {
        assert_eq!(send(), text.len());
        loop {
            match at.recv_from(&mut buffer) {
                Ok((length, from)) if &buffer[..length] == text => return Some(from),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    });
    arrived.expect("an arrival")
}

/// Each byte, by the kernels' own TCP, offloads and all.
fn streamed(hosts: &Hosts, server: &str, bytes: usize) {
    let address: SocketAddr = server.parse().unwrap();
    let listener = hosts.at("far", move || TcpListener::bind(address).unwrap()).join().unwrap();
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        let mut all = Vec::new();
        socket.read_to_end(&mut all).unwrap();
        socket.write_all(b"thanks").unwrap();
        all
    });
    let sent: Vec<u8> = (0..bytes).map(|index| (index * 7 + index / 251) as u8).collect();
    let copy = sent.clone();
    let client = hosts.at("near", move || {
        let mut socket = TcpStream::connect_timeout(&address, WAIT).unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        socket.set_write_timeout(Some(WAIT)).unwrap();
        socket.write_all(&copy).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    });
    assert_eq!(client.join().unwrap(), "thanks");
    assert!(server.join().unwrap() == sent);
}

/// A raw socket on a host, which sees what its kernel is told.
fn raw(hosts: &Hosts, host: &str, family: AddressFamily, protocol: Protocol) -> OwnedFd {
    let socket = hosts.at(host, move || {
        let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol)).unwrap();
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(WAIT))
            .unwrap();
        socket
    });
    socket.join().unwrap()
}

/// The first packet for which `wanted` holds.
fn first(socket: &OwnedFd, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut buffer = [0; 65_535];
    for _ in 0..100 {
        let (length, _) = recv(socket, &mut buffer[..], RecvFlags::empty()).expect("a packet");
        if wanted(&buffer[..length]) {
            return buffer[..length].to_vec();
        }
    }
    panic!("not among a hundred packets");
}

const WAIT: Duration = Duration::from_secs(20);

#[test]
fn every_mode_carries_both_ways_and_adds_up() {
    with_cable("modes", |hosts| {
        let modes = ["poll", "interrupt", "hip", "hybrid", "naive"];
        let pairs = drivers(hosts).into_iter().flat_map(|driver| modes.map(|mode| (driver, mode)));
        for (driver, mode) in pairs {
            let forwarder = Forwarder::start(hosts, &format!("{driver} --mode {mode}"));
            let (near, far) = (bound(hosts, "near", "10.97.0.1:0"), bound(hosts, "far", "10.97.0.2:0"));
            for round in 0..20u8 {
                echoed(&near, &far, &vec![round; 1 + usize::from(round) * 400]);
            }
            let report = forwarder.finish();
            assert!(count(&report, "/up/sent") >= 20 && count(&report, "/down/sent") >= 20, "{report}");
            assert_eq!(report["config"]["mode"], mode);
            assert!(driver.ends_with(report["config"]["driver"].as_str().unwrap()), "{report}");
            assert_eq!(report["dropped"]["rule"], 0, "{report}");
        }
    });
}

#[test]
fn kernel_tcp_crosses_a_cable_and_nothing_stays_changed() {
    with_cable("tcp", |hosts| {
        for driver in drivers(hosts) {
            let forwarder = Forwarder::start(hosts, driver);
            streamed(hosts, "10.97.0.2:7000", 3_000_000);
            streamed(hosts, "[fd97::2]:7000", 3_000_000);
            let report = forwarder.finish();
            assert_eq!(report["dropped"]["rule"], 0, "{driver}: {report}");
            assert_is_quiet(hosts);
        }
    });
}

/// With what interfaces do by default: checksums left undone, segments joined.
#[test]
fn kernel_tcp_passes_a_router_by_every_driver_in_both_families() {
    with_router("tcps", |hosts| {
        for driver in routers(hosts) {
            let forwarder = Forwarder::start(hosts, &format!("{driver} {}", routing()));
            streamed(hosts, "10.98.2.9:7000", 3_000_000);
            streamed(hosts, "[fd98:2::9]:7000", 3_000_000);
            let report = forwarder.finish();
            assert!(
                count(&report, "/up/sent") > 40 && count(&report, "/down/sent") > 2,
                "{driver}: {report}"
            );
            assert_is_quiet(hosts);
        }
    });
}

/// Nobody listens to others' frames at the interfaces any more.
fn assert_is_quiet(hosts: &Hosts) {
    for end in ["wa", "wb"] {
        let shown =
            Command::new("ip").args(["-n", &hosts.host("middle"), "-d", "link", "show", end]).output();
        let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
        assert!(shown.contains("promiscuity 0") && !shown.contains("xdp"), "{shown}");
    }
}

#[test]
fn a_router_counts_hops_down_and_tells_the_sender_at_the_last() {
    with_router("hops", |hosts| {
        for driver in routers(hosts) {
            let forwarder = Forwarder::start(hosts, &format!("{driver} {}", routing()));
            for (family, icmp, time_exceeded, near, far, router) in [
                (AddressFamily::INET, ipproto::ICMP, 11, "10.98.1.9:0", "10.98.2.9:7000", "10.98.1.1"),
                (AddressFamily::INET6, ipproto::ICMPV6, 3, "[fd98:1::9]:0", "[fd98:2::9]:7000", "fd98:1::1"),
            ] {
                let (near, far) = (bound(hosts, "near", near), bound(hosts, "far", far));
                let told = raw(hosts, "near", family, icmp);
                let arrives =
                    (family == AddressFamily::INET).then(|| raw(hosts, "far", family, ipproto::UDP));
                // Each finds the other, then with hops to be counted.
                echoed(&near, &far, b"found");
                set_hops(&near, 33);
                echoed(&near, &far, b"counted");
                if let Some(arrives) = arrives {
                    let packet = first(&arrives, |packet| packet.ends_with(b"counted"));
                    assert_eq!(packet[8], 32, "{packet:?}");
                }
                set_hops(&near, 1);
                near.send_to(b"too far", far.local_addr().unwrap()).unwrap();
                let header = if family == AddressFamily::INET { 20 } else { 0 };
                let packet = first(&told, |packet| packet.get(header) == Some(&time_exceeded));
                // It quotes what was dropped.
                assert!(packet.ends_with(b"too far"), "{packet:?}");
                if header > 0 {
                    let IpAddr::V4(router) = router.parse().unwrap() else { unreachable!() };
                    assert_eq!(packet[12..16], router.octets());
                }
            }
            let report = forwarder.finish();
            assert_eq!(count(&report, "/refused/hop_limit"), 2, "{report}");
            assert_eq!(count(&report, "/made/told"), 2, "{report}");
            // Both families asked on both sides.
            assert!(count(&report, "/refused/answered") >= 4, "{report}");
            flush_neighbours(hosts);
        }
    });
}

/// Flushes the neighbour tables, so that the hosts ask again who has which address.
fn flush_neighbours(hosts: &Hosts) {
    for host in ["near", "far"] {
        ip(&["-n", &hosts.host(host), "neigh", "flush", "all"]).unwrap();
    }
}

fn set_hops(socket: &UdpSocket, hops: u8) {
    if socket.local_addr().unwrap().is_ipv4() {
        socket.set_ttl(hops.into()).unwrap();
    } else {
        rustix::net::sockopt::set_ipv6_unicast_hops(socket, Some(hops)).unwrap();
    }
}

/// The way out takes 1,280 bytes: the hosts' kernels find that by what the router says, and their TCP goes on.
#[test]
fn senders_learn_how_long_a_packet_may_be() {
    with_router("mtu", |hosts| {
        ip(&["-n", &hosts.host("middle"), "link", "set", "wb", "mtu", "1280"]).unwrap();
        for driver in routers(hosts) {
            let forwarder = Forwarder::start(hosts, &format!("{driver} {}", routing()));
            streamed(hosts, "10.98.2.9:7000", 500_000);
            streamed(hosts, "[fd98:2::9]:7000", 500_000);
            let report = forwarder.finish();
            assert!(count(&report, "/refused/too_long") >= 2, "{report}");
            assert!(count(&report, "/made/told") >= 2, "{report}");
            assert_eq!(report["dropped"]["output"], 0, "{report}");
            // What the hosts have learnt of the way.
            for family in ["-4", "-6"] {
                ip(&["-n", &hosts.host("near"), family, "route", "flush", "cache"]).unwrap();
            }
        }
    });
}

#[test]
fn a_link_that_goes_down_comes_back() {
    with_cable("link", |hosts| {
        for driver in drivers(hosts) {
            let mut forwarder = Forwarder::start(hosts, driver);
            let (near, far) = (bound(hosts, "near", "10.97.0.1:0"), bound(hosts, "far", "10.97.0.2:0"));
            let middle = hosts.host("middle");
            for round in 0..3 {
                echoed(&near, &far, format!("up {round}").as_bytes());
                for end in ["wa", "wb"] {
                    ip(&["-n", &middle, "link", "set", end, "down"]).unwrap();
                    for _ in 0..5 {
                        let _ = near.send_to(b"into nothing", far.local_addr().unwrap());
                    }
                    ip(&["-n", &middle, "link", "set", end, "up"]).unwrap();
                }
            }
            echoed(&near, &far, b"still");
            // A thread of its own hears of both links, and may be behind the frames.
            let mut ups = [0, 0];
            while ups != [3, 3] {
                let said = forwarder.says();
                assert!(!said.is_empty(), "{driver}: {ups:?} times up again, then no more");
                ups[usize::from(said.starts_with("wb"))] += usize::from(said.ends_with(": up again"));
            }
            let report = forwarder.finish();
            assert_eq!(report["outages"], serde_json::json!([3, 3]), "{driver}: {report}");
        }
    });
}

/// Frames that no sender makes by itself, in all the ways there are to cut one short or have it contradict itself.
fn hostile_frames() -> Vec<Vec<u8>> {
    let station =
        |text: &str| text.split(':').map(|two| u8::from_str_radix(two, 16).unwrap()).collect::<Vec<_>>();
    let mut whole =
        [station(WA), station(NEAR), vec![0x08, 0, 0x45, 0, 0, 60, 0, 1, 0, 0, 1, 17, 0, 0]].concat();
    whole.extend([10, 98, 1, 9, 10, 98, 2, 9, 0, 7, 0, 9, 0, 40, 0, 0]);
    whole.resize(74, 0x55);
    let mut frames: Vec<Vec<u8>> = (14..whole.len()).map(|length| whole[..length].to_vec()).collect();
    for at in 12..50 {
        for value in [0, 1, 0x0f, 0x4f, 0x60, 0x7f, 0xff] {
            let mut frame = whole.clone();
            frame[at] = value;
            frames.push(frame);
        }
    }
    for tags in 1..30 {
        let mut frame = whole.clone();
        frame.splice(12..12, [0x81, 0, 0, 7].repeat(tags));
        frames.push(frame);
    }
    let mut v6 = [station(WA), station(NEAR), vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 200, 60, 1]].concat();
    v6.extend([0xfd; 32]);
    v6.extend([60, 0, 0, 0, 0, 0, 0, 0].repeat(25));
    for next in [0, 6, 17, 43, 44, 51, 58, 60, 255] {
        v6[20] = next;
        frames.push(v6.clone());
        v6[62] = next;
        frames.push(v6.clone());
    }
    frames
}

/// Tags, one in another, groups that no bridge passes on, and types that nobody knows: on a cable all is the same.
#[test]
fn a_cable_changes_nothing() {
    with_cable("same", |hosts| {
        for driver in drivers(hosts) {
            let forwarder = Forwarder::start(hosts, driver);
            let receiver = hosts.at("far", || FrameReceiver::on(&Interface::named("eth").unwrap()).unwrap());
            let receiver = receiver.join().unwrap();
            let frames = [
                [&[2; 12][..], &[0x81, 0, 0x20, 7, 0x88, 0xb5], &[1; 46]].concat(),
                [&[2; 12][..], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x88, 0xb5], &[2; 1_400]].concat(),
                [&[2; 12][..], &[0x81, 0, 0, 7, 0x08, 0x00], &[3; 1_500]].concat(),
                [&[0x01, 0x80, 0xc2, 0, 0, 0, 2, 2, 2, 2, 2, 2][..], &[0, 4], &[4; 46]].concat(),
                [&[0xff; 6][..], &[2; 6], &[0x88, 0xb5], &[5; 1_500]].concat(),
                [&[2; 12][..], &LAST].concat(),
            ];
            let sent = frames.to_vec();
            let sender = hosts.at("near", move || {
                let sender = FrameSender::on(&Interface::named("eth").unwrap()).unwrap();
                sent.iter().for_each(|frame| sender.send(frame).unwrap());
            });
            sender.join().unwrap();
            let mut came = Vec::new();
            let last = arrives_last(&receiver, |bytes| came.push(bytes.to_vec()));
            assert!(last);
            came.retain(|frame| frames.contains(frame));
            assert_eq!(came, frames, "{driver}");
            assert_eq!(forwarder.finish()["dropped"]["output"], 0);
        }
    });
}

/// A datagram of IPv4 from a port, which the kernel can tell from others, with a number in it.
fn numbered(port: u16, number: u32) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
    frame.extend([port.to_be_bytes(), [0, 9], [0, 26], [0, 0]].concat());
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// Cables with four queues at each end: near's `eq` to `qa`, and `qb` to far's `eq`.
fn lay_queues(hosts: &Hosts) {
    let queues = ["numtxqueues", "4", "numrxqueues", "4"];
    for (host, own, end) in [("near", "eq", "qa"), ("far", "eq", "qb")] {
        let (host, middle) = (hosts.host(host), hosts.host("middle"));
        let link = ["-n", &host, "link", "add", own];
        let peer = ["peer", "name", end, "netns", &middle];
        ip(&[&link[..], &queues, &["type", "veth"], &peer, &queues].concat()).unwrap();
        for (host, end) in [(&host, own), (&middle, end)] {
            ip(&["-n", host, "link", "set", end, "addrgenmode", "none", "up"]).unwrap();
        }
    }
}

/// A forwarder between them with this number of threads, which all have begun.
fn between_queues(hosts: &Hosts, pollers: usize, driver: &str) -> Forwarder {
    let flags = format!("--pollers {pollers} --json-stream --duration 60s {driver}");
    let mut child = hosts.command(&format!("forward qa qb {flags}")).spawn().unwrap();
    let mut words = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    words.read_line(&mut first).unwrap();
    assert_eq!(first, "forwarding between qa and qb\n");
    let forwarder = Forwarder { child, words };
    let comm = |task: &fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    // A thread takes its name by itself, a little after it was begun.
    let named = |_| {
        let tasks = fs::read_dir(format!("/proc/{}/task", forwarder.child.id())).unwrap();
        let named = tasks.flatten().filter(|task| comm(task).starts_with("poller "));
        let all = named.count() == pollers - 1;
        if !all {
            thread::park_timeout(Duration::from_millis(5));
        }
        all
    };
    assert!((0..1_000).any(named));
    forwarder
}

/// Sends 2,000 numbered frames of 40 flows, and finds each of them once, in the order of its flow.
fn all_come_in_order(sender: &FrameSender, receiver: &FrameReceiver, by: &str) {
    let (mut came, mut batch) = (vec![Vec::<u32>::new(); 40], FrameBatch::new(64));
    for burst in 0..20u32 {
        for number in burst * 100..(burst + 1) * 100 {
            sender.send(&numbered(1_000 + (number % 40) as u16, number)).unwrap();
        }
        // Rings and buffers have room for a burst of 100.
        for _ in 0..4_000 {
            if came.iter().map(Vec::len).sum::<usize>() >= (burst as usize + 1) * 100 {
                break;
            }
            if receiver.recv_batch(&mut batch).is_err() {
                thread::park_timeout(Duration::from_millis(2));
                continue;
            }
            for frame in batch.iter().filter(|frame| frame.bytes[12..14] == [8, 0]) {
                let port = u16::from_be_bytes([frame.bytes[34], frame.bytes[35]]) - 1_000;
                let number = u32::from_be_bytes(frame.bytes[42..46].try_into().unwrap());
                came[usize::from(port)].push(number);
            }
        }
    }
    for (flow, numbers) in came.iter().enumerate() {
        let sent: Vec<_> = (0..2_000).filter(|number| number % 40 == flow as u32).collect();
        assert_eq!(*numbers, sent, "{by}, flow {flow}");
    }
}

/// One thread, two and four, each with its share: together they tell of every frame once, and none overtakes another of its flow.
#[test]
fn several_pollers_add_up_and_flows_keep_their_order() {
    with_cable("crew", |hosts| {
        lay_queues(hosts);
        for (driver, pollers) in
            drivers(hosts).into_iter().flat_map(|driver| [1, 2, 4].map(|of| (driver, of)))
        {
            let forwarder = between_queues(hosts, pollers, driver);
            let on = |host: &str, interface: &'static str| {
                let open = move || {
                    let interface = Interface::named(interface).unwrap();
                    (FrameSender::on(&interface).unwrap(), FrameReceiver::on(&interface).unwrap())
                };
                hosts.at(host, open).join().unwrap()
            };
            let ((near, back), (far, there)) = (on("near", "eq"), on("far", "eq"));
            let by = format!("{driver} --pollers {pollers}");
            all_come_in_order(&near, &there, &by);
            all_come_in_order(&far, &back, &by);
            // The lines of the stream are of all of them, too.
            let report = forwarder.streamed();
            assert_eq!(
                (&report["config"]["pollers"], &report["dropped"]["output"]),
                (&pollers.into(), &0.into())
            );
            let [up, down] = ["/up/sent", "/down/sent"].map(|way| count(&report, way));
            // And what the kernel says by itself, of which there is little.
            assert!((2_000..2_050).contains(&up) && (2_000..2_050).contains(&down), "{by}: {report}");
        }
    });
}

#[test]
fn several_pollers_have_no_rates_and_no_more_queues_than_there_are() {
    with_cable("crews", |hosts| {
        let rules = Scratch::new("crew.rules", "accept\n");
        let rated = Scratch::new("rated.rules", "port 9 rate 1kpps accept\naccept\n");
        let run =
            |words: String| hosts.command(&format!("forward wa wb --pollers 2 {words}")).output().unwrap();
        let message = common::refusal(&run(format!("--rules {}", rated.0.display())), 2);
        assert!(message.contains("rated.rules:1: a rate, which --pollers 1 can count"), "{message}");
        let message = common::refusal(&run("--assert snet>1 --duration 1s".to_owned()), 2);
        assert!(message.contains("snet"), "{message}");
        if drivers(hosts).len() == 2 {
            let message = common::refusal(&run("--driver xdp".to_owned()), 2);
            assert!(
                message.contains("wa: 2 shares of 1 queues that receive and 1 that send; each wants one"),
                "{message}"
            );
        }
        // One of them says what all of them notice.
        let mut forwarder = Forwarder::start(hosts, &format!("--pollers 2 --rules {}", rules.0.display()));
        let (near, far) = (bound(hosts, "near", "10.97.0.1:0"), bound(hosts, "far", "10.97.0.2:0"));
        echoed(&near, &far, b"here");
        super::rewrite(&rules.0, "port 9 rate 1kpps accept\naccept\n");
        let said = forwarder.says();
        assert!(said.contains("crew.rules:1: a rate") && said.ends_with("the old rules stay"), "{said}");
        super::rewrite(&rules.0, "port 9 accept\naccept\n");
        assert_eq!(forwarder.says(), "rules reloaded: 2 of them");
        echoed(&near, &far, b"still here");
        let report = forwarder.finish();
        assert_eq!((&report["rules"]["reloaded"], &report["rules"]["refused"]), (&1.into(), &1.into()));
    });
}

/// The counts of each rule by now, and of all decisions; of one scrape of two pollers.
#[derive(Default)]
struct Scrape {
    matched: Vec<(String, u64)>,
    retired: u64,
    decided: u64,
}

impl Scrape {
    fn of(text: &str) -> Self {
        let mut scrape = Scrape::default();
        for (name, value) in text.lines().filter_map(|line| line.rsplit_once(' ')) {
            let value = || value.parse::<u64>().unwrap();
            match name.strip_prefix("softtimers_forward_").unwrap_or_default() {
                "rule_retired_total" => scrape.retired = value(),
                "in_total" => scrape.decided += value(),
                "dropped_total{stage=\"ring\"}" => scrape.decided -= value(),
                name if name.starts_with("rule_matched_total{") => {
                    let rule = name.split("rule=\"").nth(1).unwrap().trim_end_matches("\"}");
                    scrape.matched.push((rule.to_owned(), value()));
                }
                _ => {}
            }
        }
        scrape
    }

    fn matched_by(&self, rule: &str) -> u64 {
        self.matched.iter().find(|(other, _)| other == rule).unwrap_or_else(|| panic!("{:?}", self.matched)).1
    }
}

/// Each takes the changed rules up when it comes to it. What a scrape tells meanwhile adds up, a rule that stays keeps its
/// count wherever it stands then, and what is counted by rules that are gone is not lost.
#[test]
#[allow(clippy::too_many_lines, reason = "one scene, from its setting to its end")]
fn several_pollers_count_exactly_while_rules_change() {
    with_cable("counts", |hosts| {
        let staying = ["from-port 1000-1019 accept", "accept"];
        let text = |change: u64| {
            let going = if change % 2 == 1 { "from-port 1030-1039 accept\n" } else { "" };
            let [first, last] = staying;
            format!("{}port {change} reject\n{going}{first}\n{last}\n", "#\n".repeat(change as usize % 3))
        };
        let rules = Scratch::new("counts.rules", &text(0));
        let flags = format!("--pollers 2 --metrics 127.0.0.1:0 --rules {}", rules.0.display());
        let mut forwarder = Forwarder::start(hosts, &flags);
        let address = forwarder.metrics();
        let over = Arc::new(AtomicBool::new(false));
        let traffic = hosts.at("near", {
            let over = Arc::clone(&over);
            move || {
                let sender = FrameSender::on(&Interface::named("eth").unwrap()).unwrap();
                for number in (0..).take_while(|_| !over.load(Ordering::Relaxed)) {
                    sender.send(&numbered(1_000 + (number % 40) as u16, number)).unwrap();
                    if number % 50 == 0 {
                        thread::park_timeout(Duration::from_millis(1));
                    }
                }
            }
        });
        let (told, scrapes) = mpsc::channel();
        let scraper = hosts.at("middle", {
            let over = Arc::clone(&over);
            move || {
                while !over.load(Ordering::Relaxed) {
                    told.send(Scrape::of(&scraped(&address))).unwrap();
                }
            }
        });
        let mut last = Scrape::default();
        for change in 1..=6 {
            super::rewrite(&rules.0, &text(change));
            assert_eq!(forwarder.says(), format!("rules reloaded: {} of them", 3 + change % 2));
            // All that were made meanwhile, and one that was begun afterwards.
            let mut left = 2;
            while left > 0 {
                let scrape = scrapes
                    .try_recv()
                    .or_else(|_| {
                        left -= 1;
                        scrapes.recv_timeout(WAIT)
                    })
                    .unwrap();
                let matched = scrape.matched.iter().map(|(_, matched)| matched).sum::<u64>();
                assert_eq!(matched + scrape.retired, scrape.decided);
                for rule in staying.iter().filter(|_| !last.matched.is_empty()) {
                    assert!(scrape.matched_by(rule) >= last.matched_by(rule), "{rule}");
                }
                last = scrape;
            }
        }
        over.store(true, Ordering::Relaxed);
        traffic.join().unwrap();
        scraper.join().unwrap();
        let report = forwarder.finish();
        let rules = &report["rules"];
        assert_eq!(rules["reloaded"], 6, "{rules}");
        let matched = rules["entries"].as_array().unwrap().iter().map(|entry| count(entry, "/matched"));
        let decided = count(&report, "/in") - count(&report, "/dropped/ring");
        assert_eq!(matched.sum::<u64>() + count(rules, "/retired"), decided, "{report}");
        assert!(count(rules, "/retired") > 0 && count(rules, "/entries/1/matched") > 0, "{rules}");
    });
}

/// Each would pass on every packet.
#[test]
fn a_second_forwarder_on_one_pair_is_refused() {
    with_cable("second", |hosts| {
        let mut first = Forwarder::start(hosts, "");
        for second in
            ["forward wb wa", "forward wb wa --driver xdp", "forward wa wb --take", "wan --ifaces wa,wb"]
        {
            let message = common::refusal(&hosts.command(second).output().unwrap(), 2);
            let holder = format!("is in use: process {} forwards through it", first.child.id());
            assert!(message.contains(&holder), "{second}: {message}");
        }
        let (near, far) = (bound(hosts, "near", "10.97.0.1:0"), bound(hosts, "far", "10.97.0.2:0"));
        echoed(&near, &far, b"once");
        first.finish();
        first = Forwarder::start(hosts, "");
        first.finish();
    });
}

#[test]
fn another_xdp_program_stays() {
    with_cable("two", |hosts| {
        if drivers(hosts).len() < 2 {
            return;
        }
        let attached = || XdpDevice::on_all(&[Interface::named("wb")?], XdpDevice::ENTRIES);
        let other = hosts.at("middle", attached).join().unwrap().unwrap();
        let refused = hosts.command("forward wb wa --driver xdp").output().unwrap();
        let message = common::refusal(&refused, 2);
        assert!(message.contains("wb: another XDP program is attached"), "{message}");
        drop(other);
        Forwarder::start(hosts, "--driver xdp").finish();
    });
}

fn scraped(address: &str) -> String {
    super::http(address, "GET /metrics HTTP/1.1\r\n\r\n")
}

#[test]
fn metrics_tell_why_frames_went_no_further() {
    with_router("metrics", |hosts| {
        let mut forwarder = Forwarder::start(hosts, &format!("{} --metrics 127.0.0.1:0", routing()));
        let address = forwarder.metrics();
        let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:0"));
        echoed(&near, &far, b"there");
        set_hops(&near, 1);
        let told = raw(hosts, "near", AddressFamily::INET, ipproto::ICMP);
        near.send_to(b"too far", far.local_addr().unwrap()).unwrap();
        first(&told, |packet| packet.get(20) == Some(&11));
        let text = hosts.at("middle", move || scraped(&address)).join().unwrap();
        for line in [
            "softtimers_forward_refused_total{why=\"hop_limit\"} 1\n",
            "softtimers_forward_icmp_errors_sent_total 1\n",
            "softtimers_forward_dropped_total{stage=\"output\"} 0\n",
            "softtimers_forward_dropped_packets_total{interface=\"wb\",stage=\"output\"} 0\n",
            "softtimers_forward_received_bytes_total{interface=\"wa\"} ",
            "softtimers_forward_sent_packets_total{interface=\"wb\"} ",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        forwarder.finish();
    });
}

/// A frame that nobody sends by itself: a type for experiments.
const LAST: [u8; 16] = [0x88, 0xb5, b'l', b'a', b's', b't', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Says whether it comes; each frame until then is shown as it is on the wire.
fn arrives_last(receiver: &FrameReceiver, mut each: impl FnMut(&[u8])) -> bool {
    let mut batch = FrameBatch::new(64);
    (0..4_000).any(|_| {
        thread::park_timeout(Duration::from_millis(2));
        if receiver.recv_batch(&mut batch).is_err() {
            return false;
        }
        for frame in batch.iter() {
            let _ = frame.on_the_wire(&mut each);
        }
        batch.iter().any(|frame| frame.bytes[12..].starts_with(&LAST))
    })
}

#[test]
fn hostile_frames_are_counted_and_do_no_harm() {
    let rules = Scratch::new("hostile.rules", "protocol udp port 9 length 100-200 reject\naccept\n");
    with_router("hostile", |hosts| {
        let cables = drivers(hosts).into_iter().map(|driver| (driver, String::new()));
        let routers = routers(hosts).into_iter().map(|driver| (driver, routing()));
        for (driver, flags) in cables.chain(routers) {
            let forwarder =
                Forwarder::start(hosts, &format!("{driver} {flags} --rules {}", rules.0.display()));
            let receiver = hosts.at("far", || FrameReceiver::on(&Interface::named("eth").unwrap()).unwrap());
            let receiver = receiver.join().unwrap();
            let sent = hosts.at("near", || {
                let sender = FrameSender::on(&Interface::named("eth").unwrap()).unwrap();
                let frames = hostile_frames().into_iter().chain([[&[2; 12][..], &LAST].concat()]);
                frames.filter(|frame| sender.send(frame).is_ok()).count() as u64
            });
            let sent = sent.join().unwrap();
            if flags.is_empty() {
                assert!(arrives_last(&receiver, |_| {}), "what was sent last has come");
            } else {
                let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:0"));
                echoed(&near, &far, b"alive");
            }
            let report = forwarder.finish();
            assert!(count(&report, "/in") >= sent && sent > 200, "{sent}: {report}");
        }
    });
}

#[test]
fn rules_are_reloaded_and_errors_leave_the_old_ones() {
    with_cable("rules", |hosts| {
        let open = "type arp accept\nprotocol udp on b accept\nport 7000 accept\nreject\n";
        let file = Scratch::new("interfaces.rules", open);
        let mut forwarder = Forwarder::start(hosts, &format!("--rules {}", file.0.display()));
        let near = bound(hosts, "near", "10.97.0.1:0");
        let (far, other) = (bound(hosts, "far", "10.97.0.2:7000"), bound(hosts, "far", "10.97.0.2:7001"));
        echoed(&near, &far, b"accepted");
        other.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        near.send_to(b"rejected", other.local_addr().unwrap()).unwrap();
        assert!(other.recv(&mut [0; 64]).is_err());

        super::rewrite(&file.0, "type arp accept\nprotocol upd accept\nreject\n");
        let said = forwarder.says();
        let wrong = "interfaces.rules:2: protocol 'upd': tcp, udp, icmp, icmpv6, or a number from 0 to 255";
        assert!(said.ends_with(&format!("{wrong}; the old rules stay")), "{said}");
        echoed(&near, &far, b"still accepted");

        super::rewrite(&file.0, "type arp accept\nprotocol udp on b accept\nport 7001 accept\nreject\n");
        assert_eq!(forwarder.says(), "rules reloaded: 4 of them");
        echoed(&near, &other, b"accepted now");
        let report = forwarder.finish();
        assert_eq!((&report["rules"]["reloaded"], &report["rules"]["refused"]), (&1.into(), &1.into()));
        assert!(count(&report, "/refused/rejected") >= 1, "{report}");
        assert_eq!(report["rules"]["rejected"], report["refused"]["rejected"]);
    });
}

#[test]
fn what_was_killed_can_start_again_at_once() {
    with_cable("kill", |hosts| {
        for driver in drivers(hosts).repeat(3) {
            let mut forwarder = Forwarder::start(hosts, driver);
            let (near, far) = (bound(hosts, "near", "10.97.0.1:0"), bound(hosts, "far", "10.97.0.2:0"));
            echoed(&near, &far, b"here");
            kill_process(forwarder.id(), Signal::KILL).unwrap();
            forwarder.child.wait().unwrap();
            assert_is_quiet(hosts);
        }
    });
}

#[test]
fn interfaces_are_guarded() {
    with_cable("guard", |hosts| {
        let run = |words: &str| -> Output { hosts.command(words).output().unwrap() };
        let refused = |words: &str, part: &str| {
            let message = common::refusal(&run(&format!("forward {words}")), 2);
            assert!(message.contains(part), "{words}: {message}");
        };
        refused("wa nosuch0", "interface nosuch0: no such interface");
        refused("wa lo", "interface lo: not an Ethernet interface");
        refused("wa wa", "twice");
        let middle = hosts.host("middle");
        ip(&["-n", &middle, "addr", "add", "10.96.0.1/24", "dev", "wa"]).unwrap();
        refused(
            "wa wb",
            "interface wa has the address 10.96.0.1, so this machine uses it itself; --take allows that",
        );
        assert_eq!(run("forward wa wb --take --duration 100ms").status.code(), Some(0));
        ip(&["-n", &middle, "addr", "del", "10.96.0.1/24", "dev", "wa"]).unwrap();
        ip(&["-n", &middle, "route", "add", "default", "dev", "wb"]).unwrap();
        refused("wa wb", "interface wb has the default route");
        // Not every kernel has them.
        if ip(&["-n", &middle, "link", "add", "link", "wa", "name", "above", "type", "macvlan"]).is_ok() {
            refused("wa wb", "interface wa carries above");
            ip(&["-n", &middle, "link", "del", "above"]).unwrap();
        }
        ip(&["-n", &middle, "route", "del", "default", "dev", "wb"]).unwrap();
        ip(&["-n", &middle, "link", "set", "wb", "down"]).unwrap();
        refused("wa wb", "interface wb: switched off");
    });
}

/// Both ends of one cable: what goes out of one comes back to the other, until the cable is cut.
#[test]
fn a_loop_is_found_and_said_and_nothing_goes_round() {
    with_cable("loop", |hosts| {
        let middle = hosts.host("middle");
        ip(&["-n", &middle, "link", "add", "la", "type", "veth", "peer", "name", "lb"]).unwrap();
        for end in ["la", "lb"] {
            ip(&["-n", &middle, "link", "set", end, "up"]).unwrap();
        }
        let mut child = hosts.command("forward la lb --json --duration 2s").spawn().unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut says = || words.next().unwrap().unwrap();
        assert_eq!(says(), "forwarding between la and lb");
        let said = says();
        assert!(said.contains("a frame came back: la and lb are joined elsewhere, too"), "{said}");
        let report: Value = serde_json::from_reader(child.stdout.take().unwrap()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        adds_up(&report);
        assert_eq!(report["loops"], 1, "{report}");
        // Two probes a second, each heard once, and the kernel's own first words there.
        assert!(count(&report, "/in") < 100, "{report}");
    });
}

/// As much as a host can send, into a forwarder that may have a tenth of a CPU.
#[test]
fn a_flood_adds_up() {
    with_cable("flood", |hosts| {
        let all = ["--cpu-limit 10%", "--mode naive", "--mode poll --quota 5"];
        for (driver, flags) in drivers(hosts).into_iter().flat_map(|driver| all.map(|flags| (driver, flags)))
        {
            let forwarder = Forwarder::start(hosts, &format!("{driver} {flags}"));
            let (near, far) = (bound(hosts, "near", "10.97.0.1:0"), bound(hosts, "far", "10.97.0.2:0"));
            echoed(&near, &far, b"found");
            let to = far.local_addr().unwrap();
            for _ in 0..30_000 {
                let _ = near.send_to(&[7; 64], to);
            }
            // Those that were not lost are still to be read there.
            let (near, far) = (bound(hosts, "near", "10.97.0.1:0"), bound(hosts, "far", "10.97.0.2:0"));
            echoed(&near, &far, b"still there");
            let report = forwarder.finish();
            // And no more than that: `in` is the sum of what was received and of the ring's drops, so nothing else would
            // tell that a drop was counted twice. The rest is what hosts say to each other.
            assert!((30_000..30_100).contains(&count(&report, "/in")), "{driver} {flags}: {report}");
        }
    });
}

/// Without the privilege: not possible here, and why.
#[test]
fn without_the_privilege_it_is_not_possible() {
    with_cable("plain", |hosts| {
        let middle = hosts.host("middle");
        let give_up =
            ["netns", "exec", &middle, "setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"];
        let mut command = Command::new("ip");
        command.args(give_up).arg(crate::common::PROGRAM).args(["forward", "wa", "wb"]);
        let output = command.output().unwrap();
        if String::from_utf8_lossy(&output.stderr).starts_with("softtimers: ") {
            assert!(common::refusal(&output, 77).contains("CAP_NET_RAW"));
        } else {
            skipped("no setpriv to give a privilege up");
        }
    });
}

/// Nobody can forward to where there is nothing, and whoever watches over the process is to know it.
#[test]
fn an_interface_that_is_removed_ends_the_run() {
    with_cable("removed", |hosts| {
        let middle = hosts.host("middle");
        for driver in drivers(hosts) {
            for end in ["ra", "rb"] {
                let peer = format!("{end}0");
                ip(&["-n", &middle, "link", "add", end, "type", "veth", "peer", "name", &peer]).unwrap();
                for end in [end, &peer] {
                    ip(&["-n", &middle, "link", "set", end, "up"]).unwrap();
                }
            }
            let mut child =
                hosts.command(&format!("forward ra rb {driver} --json --duration 10s")).spawn().unwrap();
            let mut words = BufReader::new(child.stderr.take().unwrap()).lines();
            assert_eq!(words.next().unwrap().unwrap(), "forwarding between ra and rb");
            ip(&["-n", &middle, "link", "del", "ra"]).unwrap();
            let said: Vec<_> = words.map_while(Result::ok).collect();
            // What it did until then is told all the same.
            let report: Value = serde_json::from_reader(child.stdout.take().unwrap()).unwrap();
            adds_up(&report);
            assert_eq!(child.wait().unwrap().code(), Some(1), "{driver}: {said:?}");
            assert!(said.iter().any(|line| line.contains("No such device")), "{driver}: {said:?}");
            ip(&["-n", &middle, "link", "del", "rb"]).unwrap();
        }
    });
}
