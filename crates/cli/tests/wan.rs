//! `wan` between real sockets: what is set is what happens, a signal ends it with its summary, and the control
//! socket changes a path while packets flow.

mod common;
#[path = "wan/delays.rs"]
mod delays;
#[path = "wan/inside.rs"]
mod inside;
#[path = "wan/interfaces.rs"]
mod interfaces;
#[path = "wan/limits.rs"]
mod limits;
#[path = "wan/named.rs"]
mod named;
#[path = "wan/peer.rs"]
mod peer;
#[path = "wan/proxies.rs"]
mod proxies;
#[path = "wan/ssh.rs"]
mod ssh;
#[path = "wan/toxics.rs"]
mod toxics;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use common::{command, refusal, run};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::Value;
use softtimers::{Clock, Monotonic};

/// A `wan` that runs.
struct Emulator {
    child: Child,
    address: SocketAddr,
}

impl Emulator {
    fn start(to: SocketAddr, flags: &str) -> Self {
        let line = format!("wan --listen 127.0.0.1:0 --to {to} --duration 60s --json {flags}");
        let mut child = command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut first).unwrap();
        let words: Vec<&str> = first.split([' ', ',']).collect();
        let address = words.get(2).and_then(|word| word.parse().ok());
        Emulator { child, address: address.unwrap_or_else(|| panic!("{first}")) }
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32).unwrap()
    }

    /// Ends it as a service manager does.
    fn finish(mut self) -> Value {
        kill_process(self.id(), Signal::TERM).unwrap();
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// A socket that gives up rather than hang.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

/// Sends numbered packets, few enough for any socket's buffer, through an emulator, and returns which came, with the
/// report, and how many may still have been on their way when it ended.
fn carried(packets: u16, flags: &str) -> (Vec<u16>, Value, u64) {
    let (server, client) = (socket(), socket());
    let emulator = Emulator::start(server.local_addr().unwrap(), flags);
    let mut buffer = [0; 2_048];
    for number in 0..packets {
        client.send_to(&number.to_be_bytes(), emulator.address).unwrap();
    }
    // The last one is sent until it comes, so the wait has an end.
    let (mut came, mut last) = (Vec::new(), 0u64);
    server.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    while came.last() != Some(&u16::MAX) {
        match server.recv_from(&mut buffer) {
            Ok((2, _)) => came.push(u16::from_be_bytes([buffer[0], buffer[1]])),
            _ => last += client.send_to(&u16::MAX.to_be_bytes(), emulator.address).unwrap() as u64 / 2,
        }
    }
    came.retain(|&number| number != u16::MAX);
    (came, emulator.finish(), last - 1)
}

/// The file's time goes by itself; what is an hour away does not happen.
#[test]
fn a_scenario_changes_the_path() {
    let file = std::env::temp_dir().join(format!("softtimers-scenario-{}.toml", std::process::id()));
    let text = "[[step]]\nat = \"0ms\"\ndelay = \"7ms\"\n[[step]]\nat = \"3600s\"\nloss = \"100%\"\n";
    std::fs::write(&file, text).unwrap();
    let (came, report, _) = carried(20, &format!("--scenario {}", file.display()));
    assert_eq!(came.len(), 20);
    assert_eq!(
        (&report["up"]["set"]["delay_ns"], &report["up"]["set"]["loss"]),
        (&7_000_000.into(), &0.0.into())
    );
    assert!(report["up"]["measured"]["delay_ns"]["min"].as_u64().unwrap() >= 7_000_000);
    assert_eq!(report["config"]["scenario"], file.display().to_string());
    std::fs::write(&file, "[[step]]\nat = \"1s\"\nloss = \"5\"\n").unwrap();
    let line = format!("wan --listen 127.0.0.1:0 --to 127.0.0.1:9 --scenario {}", file.display());
    let refused = refusal(&run(&line), 2);
    assert!(refused.contains("line 3: loss 5: ") && refused.contains("5%"), "{refused}");
    std::fs::remove_file(file).unwrap();
}

/// A recorded link begins when the file says so; its file lies beside.
#[test]
fn a_scenario_may_name_a_trace() {
    let place = scratch("trace");
    std::fs::create_dir_all(&place).unwrap();
    // A packet of full size each 10 ms: 1.2 Mbit/s.
    std::fs::write(place.join("link"), "10\n").unwrap();
    let file = place.join("ride.toml");
    std::fs::write(&file, "[[step]]\nat = \"0ms\"\nway = \"up\"\ntrace = \"link\"\n").unwrap();
    let (server, client) = (socket(), socket());
    let emulator = Emulator::start(server.local_addr().unwrap(), &format!("--scenario {}", file.display()));
    let begin = Monotonic.now();
    for _ in 0..20 {
        client.send_to(&[0; 1_400], emulator.address).unwrap();
    }
    for _ in 0..20 {
        assert_eq!(server.recv_from(&mut [0; 2_048]).unwrap().0, 1_400);
    }
    let took = Monotonic.now().saturating_duration_since(begin);
    let report = emulator.finish();
    assert_eq!(report["up"]["set"]["rate_bps"], 1_200_000);
    // One at a time, however late the emulator is with some of them.
    assert!(took >= Duration::from_millis(19 * 10), "{took:?}");
    std::fs::remove_dir_all(place).unwrap();
}

/// A packet of a small flow does not wait behind a hundred of a large one.
#[test]
fn a_small_flow_passes_a_large_one() {
    let (server, large, small) = (socket(), socket(), socket());
    // Sixteen seconds of the link, so that being slow here changes nothing.
    let emulator = Emulator::start(server.local_addr().unwrap(), "-b 100kbit --aqm fq_codel");
    for _ in 0..200 {
        large.send_to(&[1; 1_000], emulator.address).unwrap();
    }
    small.send_to(&[2; 100], emulator.address).unwrap();
    let mut before = 0;
    let mut buffer = [0; 2_048];
    while server.recv_from(&mut buffer).unwrap().0 != 100 {
        before += 1;
    }
    assert!(before < 100, "{before}");
    assert_eq!(emulator.finish()["up"]["set"]["aqm"], "fq_codel");
}

/// The page is there at the end, is made of nothing but itself, and replaces no file by accident.
#[test]
fn a_report_shows_what_was_set_and_measured() {
    let file = scratch("report.html");
    let (server, client) = (socket(), socket());
    // 100 packets of a kilobyte wait for 0.8 s, so a queue stands at the ends of spans, and their answers make round trips.
    let flags = format!("--delay 7ms -b 1Mbit --report {}", file.display());
    let emulator = Emulator::start(server.local_addr().unwrap(), &flags);
    for _ in 0..100 {
        client.send_to(&[7; 1_000], emulator.address).unwrap();
    }
    let mut buffer = [0; 2_048];
    for _ in 0..100 {
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        server.send_to(&buffer[..length], from).unwrap();
        client.recv_from(&mut buffer).unwrap();
    }
    let report = emulator.finish();
    assert!(report["adds_p50_ns"].as_u64().is_some(), "{report}");
    let page = std::fs::read_to_string(&file).unwrap();
    let text = page.split_once('\n').unwrap().1;
    let document = roxmltree::Document::parse(text).unwrap_or_else(|error| panic!("{error}: {page}"));
    let titles: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("svg") && node.attribute("role").is_some())
        .filter_map(|node| node.descendants().find(|node| node.has_tag_name("title"))?.text())
        .collect();
    for title in ["Rate up", "Rate down", "Queue", "Delay", "Round trip", "Loss"] {
        assert!(titles.contains(&title), "{titles:?}");
    }
    assert!(page.contains("set: 1 Mbit/s") && page.contains("set: 7 ms") && !page.contains("<script"));
    let again = format!("wan --listen 127.0.0.1:0 --to 127.0.0.1:9 -t 10ms --report {}", file.display());
    assert!(refusal(&run(&again), 2).contains("--force"));
    assert!(run(&format!("{again} --force")).status.success());
    assert!(
        refusal(&run(&format!("wan --api 127.0.0.1:0 --report {}", file.display())), 2).contains("--report")
    );
    std::fs::remove_file(file).unwrap();
}

/// Streams come whole, both ways and no sooner than set, and the control socket knows what they cannot have.
#[test]
fn streams_are_delayed_and_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = scratch("tcp.sock");
    let flags = format!("--tcp --rtt 20ms --rate 50Mbit --control {}", path.display());
    let emulator = Emulator::start(listener.local_addr().unwrap(), &flags);
    let mut client = TcpStream::connect(emulator.address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let sent: Vec<u8> = (0..300_000u32).map(|byte| ((byte * 7) >> 5) as u8).collect();
    let copy = sent.clone();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        socket.read_to_end(&mut all).unwrap();
        socket.write_all(&all).unwrap();
        all
    });
    client.write_all(&copy).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    client.read_to_end(&mut back).unwrap();
    assert!(back == sent && server.join().unwrap() == sent);
    assert!(ask(&path, "set up duplicate 1%\n")[0].contains("cannot have duplicates"));
    assert_eq!(ask(&path, "set up delay 1ms\n"), ["ok"]);
    let report = emulator.finish();
    assert_eq!((&report["config"]["kind"], &report["clients"]["closed"]), (&"tcp".into(), &1.into()));
    for way in ["up", "down"] {
        let measured = &report[way]["measured"];
        assert!(measured["delay_ns"]["min"].as_u64().unwrap() >= 10_000_000, "{measured}");
        assert_eq!((&measured["queue_drops"], &measured["overflowed"]), (&0.into(), &0.into()));
    }
}

/// The seed alone decides which packets are lost: the same twice, and others with another seed.
#[test]
fn the_same_seed_loses_the_same_packets() {
    let (first, report, _) = carried(200, "--loss 20% --seed 7");
    assert!((120..200).contains(&first.len()), "{}", first.len());
    assert_eq!(report["seed"], 7);
    let up = &report["up"];
    assert_eq!(up["set"]["loss"], 0.2);
    let lost = up["measured"]["lost"].as_u64().unwrap();
    assert!(lost >= 200 - first.len() as u64);
    assert_eq!(carried(200, "--loss 20% --seed 7").0, first);
    assert_ne!(carried(200, "--loss 20% --seed 8").0, first);
}

/// A delay is what it says at the least; both ways have their own.
#[test]
fn delays_are_set_each_way() {
    let (server, client) = (socket(), socket());
    let emulator = Emulator::start(server.local_addr().unwrap(), "--rtt 20ms --down-delay 30ms");
    client.send_to(b"there", emulator.address).unwrap();
    let mut buffer = [0; 64];
    let (_, relay) = server.recv_from(&mut buffer).unwrap();
    server.send_to(b"and back", relay).unwrap();
    let (length, from) = client.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&b"and back"[..], emulator.address));
    let report = emulator.finish();
    for (way, least) in [("up", 10_000_000), ("down", 30_000_000)] {
        assert_eq!(report[way]["set"]["delay_ns"], least);
        assert!(report[way]["measured"]["delay_ns"]["min"].as_u64().unwrap() >= least, "{report}");
        assert_eq!(report[way]["measured"]["delivered"], 1);
    }
}

/// A line a second with all figures so far, and at the end the object of `--json`.
#[test]
fn a_stream_ends_with_the_object_of_json() {
    let server = socket();
    let to = server.local_addr().unwrap();
    let output = run(&format!("wan --listen 127.0.0.1:0 --to {to} --duration 1500ms --json-stream"));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, before) = lines.split_last().unwrap();
    assert_eq!(last["schema"], "softtimers.wan/1");
    assert!(!before.is_empty());
    assert!(before.iter().all(|line| line["schema"] == "softtimers.wan.stream/1" && line["up"].is_object()));
}

/// A burst of 30 into a queue of 20: what is too much is dropped by the queue, and counted as such.
#[test]
fn a_queue_drops_what_it_must() {
    // At 100 kbit/s a packet takes 2.4 ms on the link, and 180 of them longer than sending them does on any machine.
    let (came, report, on_their_way) = carried(200, "--up-rate 100kbit --up-queue 20packets");
    let up = &report["up"]["measured"];
    let [offered, delivered, drops] =
        ["offered", "delivered", "queue_drops"].map(|key| up[key].as_u64().unwrap());
    assert!((delivered + drops..=delivered + drops + on_their_way).contains(&offered), "{up}");
    assert!(came.len() < 200 && drops > 0, "{} came", came.len());
    assert_eq!(report["up"]["set"]["queue_packets"], 20);
    assert_eq!(report["down"]["set"]["rate_bps"], Value::Null);
}

fn ask(path: &Path, lines: &str) -> Vec<String> {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(lines.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    BufReader::new(stream).lines().map(Result::unwrap).collect()
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("softtimers-{}-{name}", std::process::id()))
}

#[test]
fn the_control_socket_changes_the_path() {
    let (server, path) = (socket(), scratch("wan.sock"));
    let flags = format!("--delay 5ms --control {}", path.display());
    let emulator = Emulator::start(server.local_addr().unwrap(), &flags);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let answers = ask(&path, "set up delay 1ms loss 2%\nset both jitter 3ms\nset left delay 1ms\nshow\n");
    assert_eq!(answers[0], "ok");
    // A jitter beyond the delay of one direction changes neither.
    assert!(answers[1].starts_with("error: "), "{answers:?}");
    assert!(answers[2].starts_with("error: "), "{answers:?}");
    let shown: Value = serde_json::from_str(&answers[3]).unwrap();
    assert_eq!(shown["up"]["set"]["delay_ns"], 1_000_000);
    assert_eq!(shown["down"]["set"]["delay_ns"], 5_000_000);
    assert_eq!(shown["down"]["set"]["jitter_ns"], 0);
    // More connections than it has room for, one after the other, and a line without an end.
    for _ in 0..20 {
        assert_eq!(ask(&path, "set down duplicate 1%\n"), ["ok"]);
    }
    let long = format!("{}\nset up overhead 20B\n", "x".repeat(10_000));
    assert_eq!(ask(&path, &long), ["error: a line has at most 4096 bytes", "ok"]);
    let report = emulator.finish();
    assert_eq!(report["up"]["set"]["loss"], 0.02);
    assert_eq!(report["down"]["set"]["duplicate"], 0.01);
    assert!(!path.exists());
}

/// Where a run was killed, the next one listens; where one runs, or where there is something else, none does.
#[test]
fn a_socket_that_was_left_behind_is_replaced_and_nothing_else_is() {
    let (server, path) = (socket(), scratch("left.sock"));
    let to = server.local_addr().unwrap();
    let flags = format!("--control {}", path.display());
    let mut killed = Emulator::start(to, &flags);
    let line = format!("wan --listen 127.0.0.1:0 --to {to} {flags}");
    let message = refusal(&run(&line), 2);
    assert!(message.contains("a program that runs listens there"), "{message}");
    assert!(ask(&path, "show\n")[0].starts_with('{'), "it goes on");
    kill_process(killed.id(), Signal::KILL).unwrap();
    killed.child.wait().unwrap();
    assert!(path.exists());

    let next = Emulator::start(to, &flags);
    assert!(ask(&path, "show\n")[0].starts_with('{'));
    // Whatever is at its place by the end is not its own.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "kept").unwrap();
    next.finish();
    let message = refusal(&run(&line), 2);
    assert!(message.contains("exists, and is no socket"), "{message}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
    std::fs::remove_file(&path).unwrap();

    // Nor is what a link leads to.
    let (abandoned, link) = (scratch("abandoned.sock"), path);
    drop(std::os::unix::net::UnixListener::bind(&abandoned).unwrap());
    std::os::unix::fs::symlink(&abandoned, &link).unwrap();
    assert!(refusal(&run(&line), 2).contains("exists, and is no socket"));
    assert!(abandoned.exists() && link.is_symlink());
    for path in [abandoned, link] {
        std::fs::remove_file(path).unwrap();
    }
}

/// Without a descriptor for another connection it waits, rather than ask for one all the time; then it goes on.
#[test]
fn without_descriptors_the_control_socket_waits() {
    let (server, path) = (socket(), scratch("few.sock"));
    let emulator = Emulator::start(server.local_addr().unwrap(), &format!("--control {}", path.display()));
    assert_eq!(ask(&path, "set both delay 1ms\n"), ["ok"]);
    let id = Some(emulator.id());
    let before = getrlimit(Resource::Nofile);
    // None that is free is below this.
    let none = Rlimit { current: Some(0), maximum: before.maximum };
    prlimit(id, Resource::Nofile, none).unwrap();
    let mut waits = UnixStream::connect(&path).unwrap();
    waits.write_all(b"show\n").unwrap();
    waits.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    let mut text = String::new();
    assert!(waits.read_to_string(&mut text).is_err() && text.is_empty(), "{text}");
    prlimit(id, Resource::Nofile, before).unwrap();
    waits.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    waits.shutdown(Shutdown::Write).unwrap();
    waits.read_to_string(&mut text).unwrap();
    assert!(text.starts_with('{'), "{text}");
    // Ten times a second, where a loop that does not wait makes as many rounds in a millisecond.
    let report = emulator.finish();
    assert!(report["wakeups"].as_u64().unwrap() < 1_000, "{report}");
}

/// A line without its end, and answers that nobody reads: all others are answered all the same.
#[test]
fn who_stalls_at_the_control_socket_holds_up_nobody() {
    let (server, path) = (socket(), scratch("stalled.sock"));
    let emulator = Emulator::start(server.local_addr().unwrap(), &format!("--control {}", path.display()));
    let stalled: Vec<UnixStream> = (0..30)
        .map(|_| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(b"set up del").unwrap();
            stream
        })
        .collect();
    let mut deaf = UnixStream::connect(&path).unwrap();
    // Until it is thrown out, its answers having no room any more.
    while deaf.write_all("show\n".repeat(100).as_bytes()).is_ok() {}
    assert_eq!(ask(&path, "set up delay 1ms\nset down delay 1ms\n"), ["ok", "ok"]);
    // Those that were silent for longest have given way, and are told.
    let mut first = stalled.first().unwrap();
    first.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut text = String::new();
    let _ = first.read_to_string(&mut text);
    assert!(text.starts_with("error: 8 later connections"), "{text}");
    emulator.finish();
}

#[test]
fn the_last_line_at_the_control_socket_needs_no_newline() {
    let (server, path) = (socket(), scratch("last.sock"));
    let emulator = Emulator::start(server.local_addr().unwrap(), &format!("--control {}", path.display()));
    assert_eq!(ask(&path, "set up delay 1ms\nset down delay 2ms"), ["ok", "ok"]);
    assert!(ask(&path, "show me")[0].starts_with("error: "));
    assert!(ask(&path, "").is_empty());
    let report = emulator.finish();
    assert_eq!(report["down"]["set"]["delay_ns"], 2_000_000, "{report}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let existing = scratch("exists");
    std::fs::write(&existing, "kept").unwrap();
    let base = "wan --listen 127.0.0.1:0 --to 127.0.0.1:9";
    for (line, part) in [
        ("wan --listen 127.0.0.1:0".to_owned(), "--to"),
        ("wan".to_owned(), "'-- CMD' runs a command behind the path"),
        ("wan 3g".to_owned(), "--profile 3g sets that network"),
        ("wan --rtt 80ms curl example.org".to_owned(), "wan --rtt 80ms -- curl example.org"),
        (format!("{base} -b 1M"), "iperf3's 1M is 1Mbit"),
        ("wan --self-test --control x".to_owned(), "--control"),
        ("wan --listen 0.0.0.0:0 --to 127.0.0.1:9".to_owned(), "--public"),
        ("wan --listen 127.0.0.1:0 --to 127.0.0.1:0".to_owned(), "port"),
        (format!("{base} --tcp --delay 9ms --jitter 1ms:reordering"), "cannot have jitter that reorders"),
        (format!("{base} --tcp --up-reorder 1%:5ms"), "cannot have reordering"),
        (format!("{base} --tcp --duplicate 1%"), "cannot have duplicates"),
        (format!("{base} --tcp --corrupt 1%"), "cannot have corruption"),
        (format!("{base} --tcp --mark 5ms"), "cannot have marks"),
        (format!("{base} --take"), "--take"),
        (format!("{base} --queue 50ms"), "about a bottleneck; --rate or --trace makes one"),
        (format!("{base} --up-rate 1Mbit --down-queue 20packets"), "the path down: --queue"),
        (format!("{base} --aqm codel"), "about a bottleneck"),
        (format!("{base} --rate 100pps"), "bits a second"),
        ("wan --ifaces one".to_owned(), "two interfaces"),
        ("wan --ifaces nosuch0,nosuch1".to_owned(), "no such interface"),
        (format!("{base} --rtt 1ms --delay 1ms"), "--delay"),
        (format!("{base} --jitter 5ms"), "jitter"),
        (format!("{base} --loss 101%"), "100%"),
        (format!("{base} --up-queue 20"), "20packets"),
        (format!("{base} --trace {}", existing.display()), "line 1"),
        (format!("{base} --control {}", existing.display()), "--control"),
        (format!("{base} --assert up.measured.lots>1"), "lots"),
    ] {
        let message = refusal(&run(&line), 2);
        assert!(message.contains(part), "{line}: {message}");
    }
    assert_eq!(std::fs::read_to_string(&existing).unwrap(), "kept");
    std::fs::remove_file(&existing).unwrap();
}
