//! `wan --ifaces` between two hosts whose kernels know nothing of it: three namespaces, a cable from either host to
//! the one in the middle. Needs root and `ip`; says so where it has not got them.
//!
//! ```text
//!   near: eth ── wa :middle: wb ── eth :far
//!                  wan --ifaces wa,wb
//! ```

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Output};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use softtimers::{Clock, Monotonic};

use crate::common;
use crate::common::hosts::{self, Hosts, ip};

const FIRST_WORDS: &str = "relaying between wa and wb\n";

fn run(hosts: &Hosts, flags: &str) -> Output {
    hosts.command(&format!("wan --json {flags}")).output().unwrap()
}

/// A `wan` between both cables that carries.
fn start(hosts: &Hosts, flags: &str) -> Bridge {
    let mut child =
        hosts.command(&format!("wan --json --ifaces wa,wb --duration 60s {flags}")).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, FIRST_WORDS);
    Bridge(child)
}

struct Bridge(Child);

impl Bridge {
    fn finish(mut self) -> Value {
        kill_process(Pid::from_raw(self.0.id() as i32).unwrap(), Signal::TERM).unwrap();
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// Three namespaces, with both hosts in one network.
fn with_hosts(test: &str, body: impl FnOnce(&Hosts)) {
    hosts::with(test, |hosts| {
        for (host, address) in [("near", "10.97.0.1/24"), ("far", "10.97.0.2/24")] {
            ip(&["-n", &hosts.host(host), "addr", "add", address, "dev", "eth"]).unwrap();
        }
        body(hosts);
    });
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(next).collect()
}

fn far() -> SocketAddr {
    "10.97.0.2:7000".parse().unwrap()
}

const WAIT: Duration = Duration::from_secs(30);

/// The kernels' own TCP, offloads and all, crosses a path of 20 ms and 20 Mbit/s: each byte, no round trip shorter and
/// no second faster than that; and afterwards both interfaces are as they were.
#[test]
#[allow(clippy::too_many_lines, reason = "one scene, from its setting to its end")]
fn kernel_tcp_crosses_at_the_rate_and_no_sooner() {
    with_hosts("tcp", |hosts| {
        let bridge = start(hosts, "--rtt 20ms --rate 20Mbit --queue 100ms");
        let listener = hosts.at("far", || TcpListener::bind(far()).unwrap()).join().unwrap();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_read_timeout(Some(WAIT)).unwrap();
            let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
            loop {
                let length = match socket.read(&mut buffer) {
                    // Who stops the process interrupts a read that has a time-out.
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    length => length.unwrap(),
                };
                if length == 0 {
                    break;
                }
                all.extend_from_slice(&buffer[..length]);
            }
            let end = Monotonic.now();
            socket.write_all(b"thanks").unwrap();
            (all, end)
        });
        let sent = noise(2_000_000);
        let copy = sent.clone();
        let client = hosts.at("near", move || {
            let mut socket = TcpStream::connect(far()).unwrap();
            socket.set_read_timeout(Some(WAIT)).unwrap();
            // The first asked for an address as well: now it is known.
            let begin = Monotonic.now();
            drop(TcpStream::connect("10.97.0.2:7").unwrap_err());
            let trip = Monotonic.now().saturating_duration_since(begin);
            // Before any of it is on the way: what a reader that is held up finds all at once is not faster for it.
            let begin = Monotonic.now();
            socket.write_all(&copy).unwrap();
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).unwrap();
            (trip, begin, answer)
        });
        let (trip, begin, answer) = client.join().unwrap();
        let (got, end) = server.join().unwrap();
        assert!(got == sent && answer == "thanks");
        assert!(trip >= Duration::from_millis(20), "{trip:?}");
        // With half of a round trip before the first of them.
        let took = end.saturating_duration_since(begin).saturating_sub(Duration::from_millis(10));
        let rate = got.len() as f64 * 8.0 / took.as_secs_f64();
        assert!(rate <= 20_000_000.0, "{rate}");
        let report = bridge.finish();
        for way in ["up", "down"] {
            let measured = &report[way]["measured"];
            assert!(measured["delay_ns"]["min"].as_u64().unwrap() >= 10_000_000, "{measured}");
            assert!(measured["lateness_ns"]["count"].as_u64() == measured["delivered"].as_u64());
        }
        assert_eq!(report["config"]["kind"], "interfaces");
        let beside = &report["interfaces"];
        // A virtual cable hands over segments joined, so there were some to cut.
        assert!(beside["joined"].as_u64() > Some(0), "{beside}");
        for lost in ["unsplit", "too_long", "recv_drops", "send_drops"] {
            assert_eq!(beside[lost], 0, "{beside}");
        }
        for end in ["wa", "wb"] {
            let show =
                Command::new("ip").args(["-n", &hosts.host("middle"), "-d", "link", "show", end]).output();
            let shown = String::from_utf8(show.unwrap().stdout).unwrap();
            assert!(shown.contains("promiscuity 0"), "{shown}");
        }
    });
}

/// A packet that waits beyond the mark has it in its header when it arrives, if its sender can be told so.
#[test]
fn marks_reach_the_other_host() {
    with_hosts("marks", |hosts| {
        let bridge = start(hosts, "--up-rate 1Mbit --up-queue 1s --up-mark 2packets");
        let server = hosts.at("far", || UdpSocket::bind(far()).unwrap()).join().unwrap();
        server.set_read_timeout(Some(WAIT)).unwrap();
        hosts
            .at("near", || {
                let socket = UdpSocket::bind("10.97.0.1:0").unwrap();
                rustix::net::sockopt::set_ip_tos(&socket, 2).unwrap();
                for number in 0..20u8 {
                    socket.send_to(&[number; 1_000], far()).unwrap();
                }
            })
            .join()
            .unwrap();
        let mut buffer = [0; 2_000];
        for number in 0..20 {
            assert_eq!(server.recv(&mut buffer).unwrap(), 1_000);
            assert_eq!(buffer[0], number);
        }
        let counter = |name: &str| {
            let words = ["netns", "exec", &hosts.host("far"), "cat", "/proc/net/netstat"];
            let output = Command::new("ip").args(words).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let mut lines =
                text.lines().filter(|line| line.starts_with("IpExt: ")).map(|line| line.split(' '));
            let (mut names, mut values) = (lines.next().unwrap(), lines.next().unwrap());
            let at = names.position(|word| word == name).unwrap();
            values.nth(at).unwrap().parse::<u64>().unwrap()
        };
        let marked = counter("InCEPkts");
        let report = bridge.finish();
        assert_eq!(report["interfaces"]["marks_written"], marked);
        assert!(marked > 0 && report["up"]["measured"]["marked"].as_u64() >= Some(marked), "{report}");
    });
}

/// An interface in use, a missing one, and a loop of cables are refused, in one line.
#[test]
fn interfaces_are_guarded() {
    with_hosts("guard", |hosts| {
        let refused = |flags: &str, part: &str| {
            let message = common::refusal(&run(hosts, flags), 2);
            assert!(message.contains(part), "{flags}: {message}");
        };
        refused("--ifaces wa,nosuch0", "nosuch0");
        refused("--ifaces wa,lo", "Ethernet");
        refused("--ifaces wa,wa", "twice");
        let middle = hosts.host("middle");
        ip(&["-n", &middle, "addr", "add", "10.96.0.1/24", "dev", "wa"]).unwrap();
        refused("--ifaces wa,wb", "10.96.0.1");
        assert_eq!(run(hosts, "--ifaces wa,wb --take --duration 100ms").status.code(), Some(0));
        ip(&["-n", &middle, "addr", "del", "10.96.0.1/24", "dev", "wa"]).unwrap();
        ip(&["-n", &middle, "route", "add", "default", "dev", "wb"]).unwrap();
        refused("--ifaces wa,wb", "default route");
        ip(&["-n", &middle, "route", "del", "default", "dev", "wb"]).unwrap();
        // Both ends of one cable: what goes out of one comes back to the other.
        ip(&["-n", &middle, "link", "add", "la", "type", "veth", "peer", "name", "lb"]).unwrap();
        for end in ["la", "lb"] {
            ip(&["-n", &middle, "link", "set", end, "up"]).unwrap();
        }
        refused("--ifaces la,lb", "came back");
    });
}

/// Without the privilege: not possible here, and why.
#[test]
fn without_the_privilege_it_is_not_possible() {
    with_hosts("plain", |hosts| {
        let middle = hosts.host("middle");
        let drop =
            ["netns", "exec", &middle, "setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"];
        let mut command = Command::new("ip");
        command.args(drop).arg(crate::common::PROGRAM).args(["wan", "--ifaces", "wa,wb"]);
        match command.output() {
            Ok(output) if String::from_utf8_lossy(&output.stderr).starts_with("softtimers: ") => {
                assert!(common::refusal(&output, 77).contains("CAP_NET_RAW"));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
            _ => common::skipped("no setpriv to give a privilege up"),
        }
    });
}
