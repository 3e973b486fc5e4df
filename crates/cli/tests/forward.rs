//! `forward` between interfaces ([`interfaces`]), and `forward --udp` between real sockets: what comes goes out or is counted, both ways; rules change under traffic; and
//! what it tells is what happened.

mod common;
#[path = "forward/interfaces.rs"]
mod interfaces;
#[path = "forward/metrics.rs"]
mod metrics;
#[path = "forward/napi.rs"]
mod napi;
#[path = "forward/pollers.rs"]
mod pollers;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::{command, refusal, run, stderr, streamed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A `forward` that runs.
struct Relay {
    child: Child,
    words: BufReader<ChildStderr>,
    address: SocketAddr,
}

impl Relay {
    fn start(to: &UdpSocket, flags: &str) -> Self {
        Relay::start_at("127.0.0.1:0", to, flags)
    }

    fn start_at(listen: &str, to: &UdpSocket, flags: &str) -> Self {
        let to = to.local_addr().unwrap();
        let line = format!("forward --udp {listen} --to {to} --duration 60s --json {flags}");
        Relay::begin(&mut command(&line))
    }

    fn begin(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let words = BufReader::new(child.stderr.take().unwrap());
        let mut relay = Relay { child, words, address: SocketAddr::from(([127, 0, 0, 1], 9)) };
        let first = relay.says();
        let address = first.split([' ', ',']).nth(2).and_then(|word| word.parse().ok());
        relay.address = address.unwrap_or_else(|| panic!("{first}"));
        relay
    }

    /// The next line on its stderr.
    fn says(&mut self) -> String {
        let mut line = String::new();
        self.words.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Ends it as a service manager does.
    fn finish(mut self) -> Value {
        let id = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(id, Signal::TERM).unwrap();
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        let report = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        adds_up(&report);
        report
    }
}

/// The accepted datagrams are those delivered and those dropped, by where.
fn adds_up(report: &Value) {
    let count = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap();
    let dropped = ["ring", "rule", "queue", "output"].map(|stage| count(&format!("/dropped/{stage}")));
    assert_eq!(count("/in"), count("/out") + dropped.iter().sum::<u64>(), "{report}");
    assert_eq!(count("/in"), count("/up/received") + count("/down/received") + dropped[0], "{report}");
    assert_eq!(count("/out"), count("/up/sent") + count("/down/sent"), "{report}");
    // What the kernel forwards is not waited for.
    let in_kernel = report.pointer("/in_kernel/packets").and_then(Value::as_u64).unwrap_or(0);
    assert_eq!(count("/latency_ns/count") + in_kernel, count("/out"), "{report}");
    // Both ends together, in packets and in bytes.
    let both = |of: &str| count(&format!("/ends/0/{of}")) + count(&format!("/ends/1/{of}"));
    assert_eq!(count("/ends/0/received/packets"), count("/up/received"), "{report}");
    assert_eq!(count("/ends/0/sent/packets"), count("/down/sent"), "{report}");
    assert_eq!((both("received/packets"), both("sent/packets")), (count("/in") - dropped[0], count("/out")));
    let stages = ["ring", "rule/packets", "output/packets"].map(|stage| both(&format!("dropped/{stage}")));
    assert_eq!(stages, [dropped[0], dropped[1], dropped[3]], "{report}");
    let lost = both("dropped/rule/bytes") + both("dropped/output/bytes");
    assert_eq!(both("received/bytes"), both("sent/bytes") + lost, "{report}");
}

/// A socket that gives up rather than hang.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

/// A file that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("softtimers-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes a file anew in its place, as some editors do, but in one call: what is half written might be rules, too, if
/// this process were stopped there for long. What is left over of a longer text becomes empty lines.
fn rewrite(path: &Path, text: &str) {
    let mut bytes = text.as_bytes().to_vec();
    let before = fs::metadata(path).unwrap().len() as usize;
    bytes.resize(bytes.len().max(before), b'\n');
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    assert_eq!(file.write(&bytes).unwrap(), bytes.len());
}

/// The next datagram. Who stops the process, a debugger for one, interrupts a receive that has a time-out.
fn received(socket: &UdpSocket, buffer: &mut [u8]) -> (usize, SocketAddr) {
    loop {
        match socket.recv_from(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome.unwrap(),
        }
    }
}

/// Sends `text` until it comes back from the server, answered by `reply`; a datagram may be lost on the way.
fn echoed(client: &UdpSocket, server: &UdpSocket, relay: SocketAddr, text: &[u8]) {
    let mut buffer = [0; 65_535];
    client.send_to(text, relay).unwrap();
    let (length, from) = received(server, &mut buffer);
    assert_eq!(&buffer[..length], text);
    server.send_to(&buffer[..length], from).unwrap();
    let (length, from) = received(client, &mut buffer);
    assert_eq!((&buffer[..length], from), (text, relay));
}

#[test]
fn every_mode_relays_both_ways() {
    for mode in ["poll", "interrupt", "hip", "hybrid", "naive"] {
        let server = socket();
        let relay = Relay::start(&server, &format!("--driver udp --mode {mode}"));
        let clients = [socket(), socket(), socket()];
        for round in 0..20u8 {
            for (number, client) in clients.iter().enumerate() {
                echoed(client, &server, relay.address, &vec![round; 1 + number * 30_000]);
            }
        }
        let report = relay.finish();
        assert_eq!((&report["in"], &report["out"]), (&120.into(), &120.into()), "{report}");
        assert_eq!((&report["clients"]["opened"], &report["config"]["mode"]), (&3.into(), &mode.into()));
        let turned = report["polls"].as_u64().unwrap();
        assert!(turned > 0 && report["wakeups"].as_u64().unwrap() > 0, "{report}");
    }
}

/// More clients than there is room for: who is new takes the place of who has made the least use of the relay.
#[test]
fn clients_are_limited_and_counted() {
    let server = socket();
    let relay = Relay::start(&server, "--clients 2 --client-timeout 1h");
    let clients = [socket(), socket(), socket()];
    (0..2).for_each(|_| echoed(&clients[0], &server, relay.address, b"here"));
    for client in &clients[1..] {
        echoed(client, &server, relay.address, b"new");
    }
    echoed(&clients[0], &server, relay.address, b"still here");
    let report = relay.finish();
    let counts = ["opened", "evicted", "now", "refused"].map(|key| report["clients"][key].as_u64().unwrap());
    assert_eq!(counts, [3, 1, 2, 0], "{report}");
    assert_eq!(report["dropped"]["rule"], 0);
}

/// Nobody is there: the relay says so, and does not spin or end over it.
#[test]
fn an_upstream_that_is_not_there_is_counted() {
    // Where no other test looks for a port, so that nobody takes this one afterwards.
    let server = UdpSocket::bind("127.0.87.1:0").unwrap();
    let mut relay = Relay::start(&server, "--metrics 127.0.0.1:0");
    let said = relay.says();
    let address = said.strip_prefix("metrics on http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{said}"));
    drop(server);
    let client = socket();
    // Until it has got round to several, each by itself: that nobody is there, a send after the first is told.
    let taken = (0..1_000).any(|_| {
        client.send_to(b"anybody", relay.address).unwrap();
        let text = http(address, "GET /metrics HTTP/1.1\r\n\r\n");
        let came = text.lines().find_map(|line| line.strip_prefix("softtimers_forward_in_total "));
        came.and_then(|came| came.parse::<u64>().ok()).is_some_and(|came| came >= 20)
    });
    assert!(taken);
    let report = relay.finish();
    assert!(report["clients"]["upstream_refused"].as_u64().unwrap() > 0, "{report}");
    assert!(report["wakeups"].as_u64().unwrap() < 10_000, "{report}");
}

/// A rule decides, an erroneous file changes nothing and says where it is wrong, and the next one counts.
#[test]
fn rules_are_reloaded_and_errors_leave_the_old_ones() {
    let server = socket();
    let rules = Scratch::new("reload.rules", "length 0-3 reject\naccept\n");
    let mut relay = Relay::start(&server, &format!("--rules {}", rules.0.display()));
    let client = socket();
    client.send_to(b"abc", relay.address).unwrap();
    echoed(&client, &server, relay.address, b"abcd");

    rewrite(&rules.0, "length 0-3 reject\nlenght 4 reject\naccept\n");
    let said = relay.says();
    assert!(
        said.contains(&format!("{}:2: 'lenght'", rules.0.display())) && said.ends_with("the old rules stay"),
        "{said}"
    );
    client.send_to(b"abc", relay.address).unwrap();
    echoed(&client, &server, relay.address, b"abcd");

    let next = Scratch::new("reload.rules.new", "length 4 reject\naccept\n");
    fs::rename(&next.0, &rules.0).unwrap();
    assert_eq!(relay.says(), "rules reloaded: 2 of them");
    client.send_to(b"abcd", relay.address).unwrap();
    echoed(&client, &server, relay.address, b"abc");

    let report = relay.finish();
    let told = &report["rules"];
    assert_eq!(
        (&told["rejected"], &told["reloaded"], &told["refused"]),
        (&3.into(), &1.into(), &1.into()),
        "{told}"
    );
    assert_eq!(
        (&told["entries"][0]["matched"], &told["entries"][0]["rule"]),
        (&1.into(), &"length 4 reject".into())
    );
    // This one stayed, with its count; what the other had is not lost.
    assert_eq!((&told["entries"][1]["matched"], &told["retired"]), (&3.into(), &2.into()), "{told}");
    assert_eq!((&report["dropped"]["rule"], &report["out"]), (&3.into(), &6.into()));
}

/// While the file changes again and again, between rules that accept: nothing is lost.
#[test]
fn a_reload_loses_nothing() {
    let server = socket();
    let rules = Scratch::new("lossless.rules", "accept\n");
    let mut relay = Relay::start(&server, &format!("--rules {}", rules.0.display()));
    let client = socket();
    for change in 0..3 {
        let over = Arc::new(AtomicBool::new(false));
        let (begun, begins) = mpsc::channel();
        let traffic = {
            let (over, address) = (Arc::clone(&over), relay.address);
            let (client, server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let mut sent = 0u32;
                while !over.load(Ordering::Relaxed) {
                    echoed(&client, &server, address, &sent.to_be_bytes());
                    sent += 1;
                    let _ = begun.send(());
                }
            })
        };
        begins.recv_timeout(Duration::from_secs(60)).unwrap();
        rewrite(&rules.0, &format!("# {change}\nport {change} reject\naccept\n"));
        let said = relay.says();
        over.store(true, Ordering::Relaxed);
        traffic.join().unwrap();
        assert_eq!(said, "rules reloaded: 2 of them");
    }
    let report = relay.finish();
    assert_eq!((&report["in"], &report["rules"]["reloaded"]), (&report["out"], &3.into()), "{report}");
}

/// A datagram is held against each of as many rules as some have, and a few that change are taken up while it relays.
#[test]
fn ten_thousand_rules_are_relayed_by_and_reloaded() {
    let server = socket();
    let text = |first: &str| {
        let rule = |number: u32| format!("from 10.{}.{}.0/24 port 53 accept\n", number / 256, number % 256);
        format!("{first}{}from 127.0.0.0/8 accept\nreject\n", (0..10_000).map(rule).collect::<String>())
    };
    let rules = Scratch::new("many.rules", &text(""));
    let mut relay = Relay::start(&server, &format!("--rules {}", rules.0.display()));
    let client = socket();
    (0..10).for_each(|_| echoed(&client, &server, relay.address, b"before"));
    rewrite(&rules.0, &text("length 0-1 reject\n"));
    assert_eq!(relay.says(), "rules reloaded: 10003 of them");
    client.send_to(b"1", relay.address).unwrap();
    (0..10).for_each(|_| echoed(&client, &server, relay.address, b"after"));
    let told = &relay.finish()["rules"];
    assert_eq!(
        (&told["entries"][0]["matched"], &told["entries"][10_001]["matched"]),
        (&1.into(), &20.into())
    );
    assert_eq!((&told["rejected"], &told["retired"]), (&1.into(), &0.into()));
}

/// Faster than anybody relays: what is not delivered is counted, a signal still ends it, and the mode without a quota is
/// there to compare with, which is reported and not judged on a machine that does other things.
#[test]
fn a_flood_adds_up() {
    for mode in ["hybrid", "interrupt", "naive"] {
        let server = socket();
        let relay = Relay::start(&server, &format!("--mode {mode}"));
        let (over, address) = (Arc::new(AtomicBool::new(false)), relay.address);
        let flood = Arc::clone(&over);
        let (begun, wait) = mpsc::channel();
        let sender = std::thread::spawn(move || {
            let socket = socket();
            for number in 0u64.. {
                let _ = socket.send_to(&[7; 200], address);
                if number == 100_000 {
                    let _ = begun.send(());
                }
                if flood.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        wait.recv_timeout(Duration::from_secs(60)).unwrap();
        let report = relay.finish();
        over.store(true, Ordering::Relaxed);
        sender.join().unwrap();
        assert!(report["in"].as_u64().unwrap() > 0);
        println!("{mode}: in {} out {} dropped {}", report["in"], report["out"], report["dropped"]);
    }
}

#[test]
fn a_stream_adds_up_to_the_object() {
    let server = socket();
    let to = server.local_addr().unwrap();
    let line = format!("forward --udp 127.0.0.1:0 --to {to} --duration 60s --json-stream");
    let mut child = command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut first).unwrap();
    let address = first.split([' ', ',']).nth(2).unwrap().parse().unwrap();
    let client = socket();
    (0..10).for_each(|_| echoed(&client, &server, address, b"text"));
    let (mut stdout, mut text) = (BufReader::new(child.stdout.take().unwrap()), Vec::new());
    stdout.read_until(b'\n', &mut text).unwrap();
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
    stdout.read_to_end(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (lines, object) = streamed(&text, "forward", "in");
    assert!(!lines.is_empty() && lines.iter().all(|line| line["interval"]["dropped"]["ring"].is_u64()));
    assert_eq!((&object["in"], &object["out"]), (&20.into(), &20.into()));
    adds_up(&object);
}

fn http(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Counters over HTTP, up to date; what is not understood is refused.
#[test]
fn metrics_are_text_for_prometheus() {
    let server = socket();
    let rules = Scratch::new("metrics.rules", "from 127.0.0.0/8 accept\nreject\n");
    let mut relay = Relay::start(&server, &format!("--metrics 127.0.0.1:0 --rules {}", rules.0.display()));
    let said = relay.says();
    let address = said.strip_prefix("metrics on http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{said}"));
    let client = socket();
    (0..5).for_each(|_| echoed(&client, &server, relay.address, b"text"));
    let text = http(address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("version=0.0.4"), "{text}");
    for line in [
        "\nsofttimers_forward_in_total 10\n",
        "\nsofttimers_forward_out_total 10\n",
        "\nsofttimers_forward_dropped_total{stage=\"ring\"} 0\n",
        "\nsofttimers_forward_clients 1\n",
        "\nsofttimers_forward_latency_seconds_count 10\n",
        "\nsofttimers_forward_rule_matched_total{line=\"1\",rule=\"from 127.0.0.0/8 accept\"} 5\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(http(address, "GET /else HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(http(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(http(address, "hello\r\n\r\n").starts_with("HTTP/1.1 400 "));
    relay.finish();
}

/// It ends after the `--count` of client datagrams, and assertions decide about the exit.
#[test]
fn counts_and_assertions_end_it() {
    for (assertion, exit) in [("out==4", 0), ("dropped.ring>0", 1)] {
        let server = socket();
        let to = server.local_addr().unwrap();
        let line = format!(
            "forward --udp 127.0.0.1:0 --to {to} --count 4 --duration 60s --json --assert {assertion}"
        );
        let mut child = command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        words.read_line(&mut first).unwrap();
        let address: SocketAddr = first.split([' ', ',']).nth(2).unwrap().parse().unwrap();
        let client = socket();
        (0..4).for_each(|_| assert_eq!(client.send_to(b"one", address).unwrap(), 3));
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(exit), "{text}");
        let report: Value = serde_json::from_str(&text).unwrap();
        adds_up(&report);
        assert_eq!(report["up"]["received"], 4);
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "one scene, from its setting to its end")]
fn what_makes_no_sense_is_refused() {
    let wrong = Scratch::new("wrong.rules", "accept\n\nreject\n");
    let contradicts =
        Scratch::new("contradicts.rules", "from 10.0.0.1 accept\ntype arp port 53 accept\nreject\n");
    let base = "forward --udp 127.0.0.1:0 --to 127.0.0.1:9";
    let routed = |hop: &str, more: &str| {
        format!("forward a b --routed --next-hop-a {hop} --next-hop-b 02:00:00:00:00:02 {more}")
    };
    for (line, part) in [
        ("forward".to_owned(), "two interfaces, such as eth1 eth2, or --udp LISTEN --to ADDR"),
        ("forward eth9".to_owned(), "forward eth9: two interfaces"),
        ("forward nosuch0 nosuch1".to_owned(), "interface nosuch0: no such interface"),
        ("forward nosuch0 nosuch0".to_owned(), "twice the same interface"),
        (format!("forward {} b", "a".repeat(99)), "no such interface"),
        ("forward lo lo0 --clients 3".to_owned(), "--clients"),
        ("forward a b --routed".to_owned(), "--next-hop-a"),
        ("forward a b --next-hop-a 02:00:00:00:00:01".to_owned(), "--routed"),
        (routed("01:00:00:00:00:01", ""), "not the address of one station"),
        (routed("2:0:0:0:0:1", ""), "six bytes such as 02:00:00:00:00:01"),
        (routed("02:00:00:00:00:01", "--address-a 10.0.0"), "--address-a"),
        (
            routed("02:00:00:00:00:01", "--address-a 10.0.0.1,224.0.0.1"),
            "--address-a 224.0.0.1: not an address of one",
        ),
        (format!("{base} eth0"), "cannot be used with"),
        (
            format!("{base} --driver xdp"),
            "--driver xdp: it is of frames between interfaces, --udp 127.0.0.1:0 is of",
        ),
        (format!("{base} --driver packet"), "only --driver udp and napi go with that"),
        (format!("{base} --driver socket"), "possible values: packet, xdp, tc, xdp-fast, auto, udp, napi"),
        (
            "forward a b --driver udp".to_owned(),
            "--driver udp: it goes with --udp LISTEN --to ADDR, and given is a b",
        ),
        ("forward --driver udp".to_owned(), "and given is nothing"),
        ("forward a b --pollers 0".to_owned(), "--pollers"),
        ("forward a b --pollers 2 --count 9".to_owned(), "--pollers 2: --count is of one poller only"),
        ("forward --udp 127.0.0.1:0".to_owned(), "--to"),
        ("forward --udp 0.0.0.0:0 --to 127.0.0.1:9".to_owned(), "--public allows that"),
        ("forward --udp 127.0.0.1:0 --to 127.0.0.1:0".to_owned(), "port"),
        ("forward --udp 127.0.0.1:5301 --to 127.0.0.1:5301".to_owned(), "is the relay itself"),
        (format!("{base} --metrics 0.0.0.0:0"), "--metrics-public allows that"),
        (format!("{base} --metrics-public"), "--metrics"),
        (format!("{base} --mode fast"), "possible values: poll, interrupt, hip, hybrid, naive"),
        (format!("{base} --mode naive --quota 8"), "--mode naive has none"),
        (format!("{base} --mode naive --cpu-limit 50%"), "naive"),
        (format!("{base} --mode interrupt --max-delay 1ms"), "--max-delay"),
        (format!("{base} --mode hip --aggregate 4"), "--aggregate"),
        (format!("{base} --quota 0"), "--quota"),
        (format!("{base} --recv-buffer 1B"), "4KiB to 1GiB"),
        (format!("{base} --cpu-limit 0%"), "1% to 100%"),
        (format!("{base} --cpu-limit 101%"), "--cpu-limit"),
        (format!("{base} --rules /nowhere/rules"), "--rules /nowhere/rules: No such file"),
        (format!("{base} --rules {}", wrong.0.display()), "wrong.rules:3: never reached"),
        (
            format!("{base} --rules {}", contradicts.0.display()),
            "contradicts.rules:2: 'type arp' and 'port 53' never hold together: only packets of IPv4 and IPv6",
        ),
        (format!("{base} --assert dropped.rings>0"), "rings"),
    ] {
        let message = refusal(&run(&line), 2);
        assert!(message.contains(part), "{line}: {message}");
    }
}

/// In a table, for people.
#[test]
fn people_get_a_table() {
    let output = run("forward --udp 127.0.0.1:0 --to 127.0.0.1:9 --duration 50ms --cpu-limit 50%");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        text.starts_with("forward 127.0.0.1:")
            && text.contains("\nin ")
            && text.contains("\ndropped ")
            && text.contains("\nlatency "),
        "{text}"
    );
}
