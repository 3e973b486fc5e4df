//! The echo client against a real server in this process.

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use common::{command, refusal, run};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

/// The keys of the report that are checked.
#[derive(Deserialize, Debug)]
struct EchoReport {
    replies: u64,
    replies_per_s: f64,
    lost: u64,
    rtt_ns: Times,
}

#[derive(Deserialize, Debug)]
struct Times {
    count: u64,
    min: Option<u64>,
}

/// Echoes all but every n-th datagram.
struct Server {
    address: SocketAddr,
    echoed: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(swallow: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (echoed, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (Arc::clone(&echoed), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 2_048];
            let mut seen = 0u64;
            while !end.load(Ordering::Relaxed) {
                let Ok((length, peer)) = socket.recv_from(&mut buffer) else { continue };
                seen += 1;
                if !seen.is_multiple_of(swallow) && socket.send_to(&buffer[..length], peer).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Server { address, echoed, over, thread: Some(thread) }
    }

    fn wait_for(&self, echoed: u64) {
        while self.echoed.load(Ordering::Relaxed) < echoed {
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn start(server: &Server, window: usize) -> Child {
    let words = format!("echo-client {} --window {window} --duration 60s --json", server.address);
    command(&words).stdout(Stdio::piped()).spawn().unwrap()
}

/// Ends the client as Ctrl-C would.
fn stop(client: Child) -> EchoReport {
    // It may have ended by itself, but has not been waited for.
    let _ = kill_process(Pid::from_raw(client.id() as i32).unwrap(), Signal::TERM);
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_closed_loop_keeps_going_and_reports() {
    let server = Server::start(u64::MAX);
    let client = start(&server, 8);
    server.wait_for(1_000);
    let report = stop(client);
    // The server counts an echo after it has sent it, so the last one may not be counted yet.
    let echoed = server.echoed.load(Ordering::Relaxed) + 1;
    // The last replies may not have been read any more, and others have come when their requests were given up, as by
    // a machine that stood still; but none is invented.
    assert!(report.replies + report.lost >= 1_000 - 8, "{report:?}");
    assert!((1..=echoed).contains(&report.replies), "{report:?}, {echoed} echoed");
    assert_eq!(report.rtt_ns.count, report.replies);
    assert!(report.replies_per_s > 0.0 && report.rtt_ns.min > Some(0));
}

#[test]
fn what_is_lost_is_asked_again() {
    // Every seventh request is swallowed: without repetition the window of 4 would soon be empty.
    let server = Server::start(7);
    let client = start(&server, 4);
    server.wait_for(100);
    let report = stop(client);
    // For a hundred echoes sixteen requests were swallowed; the last of all may still be under way.
    assert!(report.lost > 0 && report.replies + report.lost >= 116 - 4, "{report:?}");
    assert!(report.replies > 4, "more than it asks for at first: {report:?}");
}

/// A client alone with a silent server: without `--spin` it sleeps again and again, with it never.
#[test]
fn it_sleeps_unless_it_is_told_to_spin() {
    let start = |flags: &str| {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let words = format!("echo-client {} --duration 200s --json {flags}", silent.local_addr().unwrap());
        let client = command(&words).stdout(Stdio::null()).spawn().unwrap();
        // With its first request it is past its start, in which both may sleep. The watchdog bounds the wait.
        silent.recv(&mut [0; 64]).unwrap();
        (client, silent)
    };
    let ((mut sleeping, _one), (mut spinning, _other)) = (start(""), start("--spin"));
    let sleeps = |client: &Child| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", client.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    let after = |client: &Child, more: u64| {
        let before = sleeps(client);
        while sleeps(client) < before + more {
            std::thread::yield_now();
        }
    };
    let before = sleeps(&spinning);
    after(&sleeping, 20);
    let more = sleeps(&spinning) - before;
    for client in [&mut sleeping, &mut spinning] {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    assert!(more < 10, "{more} sleeps of the client that spins");
}

#[test]
fn a_client_ends_with_its_server() {
    let server = Server::start(u64::MAX);
    let client = start(&server, 4);
    server.wait_for(10);
    drop(server);
    // The closed port ends it at the next request, with a report.
    let output = client.wait_with_output().unwrap();
    let report: EchoReport = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success() && report.replies > 0, "{report:?}");
}

/// A shell starts the client and is killed: the client must not outlive it.
#[test]
fn a_client_ends_with_its_parent() {
    let server = Server::start(u64::MAX);
    let program = common::PROGRAM;
    let client = format!("{program} --with-parent $$ echo-client {} --duration 1000000s", server.address);
    let mut parent = std::process::Command::new("sh")
        .args(["-c", &format!("{client} & echo $!; wait")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(parent.stdout.take().unwrap()), &mut pid)
        .unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    server.wait_for(10);
    assert!(Path::new(&stat).exists());
    parent.kill().unwrap();
    parent.wait().unwrap();
    // Gone, or a zombie that nobody has waited for yet.
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        std::thread::yield_now();
    }
}

#[test]
fn it_loads_only_this_machine() {
    let message = refusal(&run("echo-client 192.0.2.1:9"), 2);
    assert!(
        message.contains("192.0.2.1:9") && message.contains("loopback addresses are allowed"),
        "{message}"
    );
}
