//! What `wan` lacks, it says: descriptors, calls that the system refuses, a gateway that dies, and its own punctuality.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::listen;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde_json::Value;

use super::inside::{PEER, ScratchDirectory, children, lacks};
use super::socket;
use crate::common::{command, skipped, stop};

/// A relay of streams that is started with a limit on descriptors.
struct Relay {
    child: Child,
    address: SocketAddr,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Relay {
    fn start(limit: &str, to: SocketAddr, flags: &str) -> Self {
        let program = command(&format!("wan --tcp --listen 127.0.0.1:0 --to {to} --json {flags}"));
        let words: Vec<_> = program.get_args().map(|word| word.to_str().unwrap()).collect();
        let line = format!("ulimit {limit} && exec {} {}", env!("CARGO_BIN_EXE_softtimers"), words.join(" "));
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let (mut stderr, mut first) = (BufReader::new(child.stderr.take().unwrap()), String::new());
        stderr.read_line(&mut first).unwrap();
        let address = first.split([' ', ',']).nth(2).and_then(|word| word.parse().ok());
        Relay { child, address: address.unwrap_or_else(|| panic!("{first}")), stderr }
    }

    /// Its report, and what it said.
    fn finish(mut self) -> (Value, String) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), Signal::TERM).unwrap();
        let (mut text, mut said) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        self.stderr.read_to_string(&mut said).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{said}");
        (serde_json::from_str(&text).unwrap(), said)
    }
}

/// Answers each connection by what comes, in one thread for all.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Of its own accord the standard library lets 128 wait.
    listen(&listener, 4_096).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::Builder::new()
                .stack_size(64 << 10)
                .spawn(move || {
                    let mut copy = stream.try_clone().unwrap();
                    let _ = std::io::copy(&mut stream, &mut copy);
                    let _ = copy.shutdown(Shutdown::Write);
                })
                .unwrap();
        }
    });
    address
}

/// Opens connections at once, sends a word on each and takes the answers: how many were served.
fn served(address: SocketAddr, count: usize) -> usize {
    let streams: Vec<_> = (0..count).map(|_| TcpStream::connect(address).unwrap()).collect();
    for mut stream in &streams {
        stream.write_all(b"word").unwrap();
    }
    let whole = |mut stream: TcpStream| {
        let mut back = String::new();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let ended = stream.shutdown(Shutdown::Write).and_then(|()| stream.read_to_string(&mut back));
        ended.is_ok() && back == "word"
    };
    // Each gives its descriptors back as it ends, and the next takes them.
    streams.into_iter().filter_map(|stream| whole(stream).then_some(())).count()
}

/// The limit of most systems is a soft one of 1,024, and each connection takes two.
#[test]
fn a_thousand_streams_are_served_at_the_usual_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < 4_200) {
        return skipped(&format!("a hard limit of {:?} descriptors", limit.maximum));
    }
    // For the clients and the server of this test.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let relay = Relay::start("-S -n 1024", server(), "");
    assert_eq!(served(relay.address, 1_000), 1_000);
    let (report, said) = relay.finish();
    let clients = &report["clients"];
    assert_eq!((&clients["opened"], &clients["closed"]), (&1_000.into(), &1_000.into()), "{clients}");
    for none in ["reset", "refused", "no_descriptor", "upstream_refused"] {
        assert_eq!(clients[none], 0, "{none}: {clients} {said}");
    }
}

/// With 40 descriptors some 15 connections fit: the others wait for their turn, and the cause is named.
#[test]
fn clients_wait_for_descriptors_and_nobody_is_blamed() {
    let relay = Relay::start("-n 40", server(), "");
    assert_eq!(served(relay.address, 60), 60);
    let (report, said) = relay.finish();
    let clients = &report["clients"];
    assert_eq!((&clients["opened"], &clients["closed"]), (&60.into(), &60.into()), "{clients}");
    assert_eq!((&clients["reset"], &clients["upstream_refused"]), (&0.into(), &0.into()), "{clients}");
    assert!(clients["no_descriptor"].as_u64().unwrap() > 0, "{clients}");
    assert!(said.contains("no descriptor for another client") && !said.contains("nobody listens"), "{said}");
}

/// Runs `wan` with a system call that fails in its own process; its exit code and words, or `None` if it still runs
/// after a minute and a half.
fn with_a_refused_call(call: &str, flags: &str, words: &[&str]) -> Option<(Option<i32>, String)> {
    let place = ScratchDirectory::new();
    let wan = place.wan(flags, words);
    let mut traced = Command::new("strace");
    traced.args([
        "-o",
        "/dev/null",
        "-e",
        &format!("trace={call}"),
        "-e",
        &format!("inject={call}:error=EPERM"),
    ]);
    traced.arg(wan.get_program()).args(wan.get_args()).current_dir(&place.0).stdin(Stdio::null());
    let mut child = traced.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..900 {
        if let Some(status) = child.try_wait().unwrap() {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            return Some((status.code(), said));
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    children(child.id()).iter().for_each(|(id, _)| {
        let _ = kill_process(Pid::from_raw(*id as i32).unwrap(), Signal::KILL);
    });
    child.wait().unwrap();
    None
}

/// Whatever the system refuses between the beginning and the end of the command, the run ends and says why.
#[test]
fn a_refused_call_ends_the_run() {
    if lacks("strace") {
        return;
    }
    let peer = ["--peer", PEER, "--", "sleep", "300"];
    let (code, said) = with_a_refused_call("sendto", "", &["--help"]).expect("it ends");
    if code != Some(0) {
        return skipped(&format!("strace: {said}"));
    }
    let pidfd = with_a_refused_call("pidfd_open", "", &peer).expect("it ends");
    assert!(pidfd.0 == Some(1) && pidfd.1.contains("watching the command"), "{pidfd:?}");
    let sendto = with_a_refused_call("sendto", "", &peer).expect("it ends");
    assert!(sendto.0.is_some_and(|code| code != 0), "{sendto:?}");
    let peer = ["--peer", PEER, "--", "true"];
    let wait = with_a_refused_call("wait4", "", &peer).expect("it ends");
    assert!(wait.0.is_some_and(|code| code != 0), "{wait:?}");
    let random = with_a_refused_call("getrandom", "", &peer).expect("it ends");
    assert!(random.0.is_some_and(|code| code == 0) && !random.1.contains("panicked"), "{random:?}");
}

/// When the way outside dies, the run says so and goes on.
#[test]
fn a_gateway_that_dies_is_named() {
    if lacks("pasta") && lacks("slirp4netns") {
        return;
    }
    let place = ScratchDirectory::new();
    let sign = place.0.join("ready");
    let mut wan =
        place.wan("", &["--", "sh", "-c", ": > ready; while [ -e ready ]; do sleep 0.05; done; exit 3"]);
    let mut child = wan.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !sign.exists() {
        if let Some(status) = child.try_wait().unwrap() {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            assert_eq!(status.code(), Some(77), "{said}");
            return skipped(said.trim());
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    let helper = children(child.id()).into_iter().find(|(_, words)| words.contains("wan-inside gateway"));
    let (gateway, _) = children(helper.expect("the gateway's helper").0).remove(0);
    kill_process(Pid::from_raw(gateway as i32).unwrap(), Signal::KILL).unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("has ended, so CMD reaches nothing outside any more") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    assert!(said.contains("signal: 9"), "{said}");
    std::fs::remove_file(sign).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// A run that was stopped for most of its time did not emulate what was set: it says so, and with --strict it fails.
#[test]
fn a_late_emulation_is_inconclusive() {
    for (flags, code) in [("", 0), ("--strict", 1)] {
        let server = socket();
        let to = server.local_addr().unwrap();
        let line = format!("wan --listen 127.0.0.1:0 --to {to} --rtt 100ms --duration 60s --json {flags}");
        let mut child = command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut stderr, mut first) = (BufReader::new(child.stderr.take().unwrap()), String::new());
        stderr.read_line(&mut first).unwrap();
        let address: SocketAddr = first.split([' ', ',']).nth(2).unwrap().parse().unwrap();
        let client = socket();
        client.send_to(b"on its way", address).unwrap();
        // Either it is on the path already, or it comes when the process goes on, as late.
        std::thread::park_timeout(Duration::from_millis(10));
        stop(child.id());
        std::thread::park_timeout(Duration::from_millis(400));
        let id = Pid::from_raw(child.id() as i32).unwrap();
        kill_process(id, Signal::CONT).unwrap();
        assert_eq!(server.recv_from(&mut [0; 64]).unwrap().0, 10);
        kill_process(id, Signal::TERM).unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        let why = report["inconclusive"].as_str().unwrap_or_default();
        assert!(why.contains("wan itself was") && why.contains("on a delay of 50.000 ms"), "{report}");
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{said}");
        assert_eq!(said.contains("--strict: wan itself was"), code == 1, "{said}");
    }
}
