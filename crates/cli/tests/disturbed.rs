//! A sender that is stopped, and one that is told to end: what it says afterwards.

mod common;

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use common::{Receiver, command};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use softtimers::{Clock, Monotonic};
use softtimers_load::wire::Datagram;

fn start(words: &str) -> Child {
    command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Lets time pass: what is tested is what a signal does in the middle of a run.
fn pause(millis: u64) {
    let (_never, wait) = mpsc::channel::<()>();
    assert!(wait.recv_timeout(Duration::from_millis(millis)).is_err());
}

fn report(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", common::stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Stops of 50 ms at 1 ms an interval with 10 ms of catch-up: some forty places of each are given up, the
/// rest is made up one burst interval apart, and the counters say what was late and why.
#[test]
fn a_stop_is_made_up_within_the_bound_and_accounted_for() {
    let receiver = Receiver::start("--once");
    let words = format!("send {} --interval 1ms --duration 60s --train 1 --json-stream", receiver.address);
    let mut sender = start(&words);
    let mut lines = BufReader::new(sender.stdout.take().unwrap());
    let mut text = String::new();
    // With its first line it is in the middle of its run.
    lines.read_line(&mut text).unwrap();
    for _ in 0..STOPS {
        common::stop(sender.id());
        pause(50);
        let before = sleeps(&sender);
        signal(&sender, Signal::CONT);
        // It has to go on before the next stop, which would be the same one else.
        while sleeps(&sender) < before + 5 {
            pause(1);
        }
    }
    // Another line, for it may not have gone on yet; the last of 60 s ends this, too.
    while lines.read_line(&mut text).unwrap() > 0 {
        let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        if line["total"]["forfeited"].as_u64() >= Some(35 * STOPS) {
            break;
        }
    }
    signal(&sender, Signal::INT);
    lines.read_to_string(&mut text).unwrap();
    assert_eq!(sender.wait().unwrap().code(), Some(0));
    let (_, sent) = common::streamed(text.as_bytes(), "send", "sent");
    let (_, received, _) = receiver.finish();
    assert!(sent["forfeited"].as_u64() >= Some(35 * STOPS), "{} forfeited", sent["forfeited"]);
    assert_eq!(sent["longest_burst"], 1, "caught up faster than the burst interval");
    let late: u64 =
        sent["late"].as_object().unwrap().values().filter_map(|late| late["count"].as_u64()).sum();
    assert!(late >= STOPS, "{}", sent["late"]);
    // Of one or the other it may be told what came on top: a wait for a CPU, or the host.
    assert!(sent["late"]["stopped"]["longest_ns"].as_u64() > Some(30_000_000), "{}", sent["late"]);
    assert_eq!(received["lost"], 0);
}

const STOPS: u64 = 4;

/// Times that the sending thread has given its CPU up by itself.
fn sleeps(sender: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", sender.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    line.trim().parse().unwrap()
}

/// Ctrl-C ends every engine, busy or idle, with its summary; a slow rate does not delay it.
#[test]
fn an_interrupt_ends_a_run_with_its_summary() {
    for words in [
        "--timer soft",
        "--timer loop",
        "--timer pwait2",
        "--timer timerfd",
        "--timer ms",
        "--timer signal",
        "--timer thread",
        "--timer spin",
        "--timer signal --busy echo",
        "--timer thread --busy echo",
        "--timer soft --busy echo",
        "--timer loop --busy echo",
        "--timer off --busy echo",
        "--timer soft --busy compute",
        "--timer timerfd --busy compute",
        "--timer off --busy compute",
        "--timer off",
    ] {
        let (receiver, address) = listen();
        let sender =
            start(&format!("send {address} --no-handshake --interval 30s --duration 60s --json {words}"));
        let sends = !words.contains("off");
        if sends {
            assert!(matches!(next(&receiver), Some(Datagram::Data { sequence: 0, .. })), "{words}");
        } else {
            await_listening(&sender);
        }
        signal(&sender, Signal::INT);
        let told = Monotonic.now();
        let sent = report(sender);
        assert!(Monotonic.now() < told + Duration::from_secs(30), "it went on to its end: {words}");
        assert_eq!(sent["sent"].as_u64(), Some(u64::from(sends)), "{words}");
        // On loopback all that was sent has arrived: without an agreement nobody is told of the end.
        receiver.set_nonblocking(true).unwrap();
        assert!(next(&receiver).is_none(), "nothing but what it counts: {words}");
    }
}

fn listen() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// The next datagram, if one comes in time.
fn next(receiver: &UdpSocket) -> Option<Datagram> {
    let mut packet = [0; 2_048];
    let length = loop {
        match receiver.recv(&mut packet) {
            // Who stops the process interrupts a receive that has a time-out.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => break outcome.ok()?,
        }
    };
    Some(Datagram::parse(&packet[..length]).unwrap())
}

/// Before a run listens for the signal, it would end the process.
fn await_listening(sender: &Child) {
    let listens = (0..6_000).any(|_| {
        pause(5);
        let status = std::fs::read_to_string(format!("/proc/{}/status", sender.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.map_or(0, |caught| u64::from_str_radix(caught.trim(), 16).unwrap());
        caught >> (Signal::INT.as_raw() - 1) & 1 == 1
    });
    assert!(listens, "the run did not begin within 30 s");
}

/// Ctrl-C strikes the clients as well as the run; that they ended is nothing to report then.
#[test]
fn clients_that_the_same_key_ended_are_no_news() {
    use std::os::unix::process::CommandExt;

    let (receiver, address) = listen();
    let mut sender =
        command(&format!("send {address} --no-handshake --interval 1ms --duration 60s --busy echo --json"));
    sender.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let sender = sender.spawn().unwrap();
    // Before the run begins it waits for them.
    assert!(matches!(next(&receiver), Some(Datagram::Data { .. })));
    kill_process_group(Pid::from_child(&sender), Signal::INT).unwrap();
    let fallbacks = report(sender)["fallbacks"].to_string();
    assert!(!fallbacks.contains("echo clients"), "{fallbacks}");
}

/// Clients that died leave a loop that is idle although it was to be busy; the report says so.
#[test]
fn clients_that_end_early_are_noticed() {
    let (receiver, address) = listen();
    let sender =
        start(&format!("send {address} --no-handshake --interval 1ms --duration 3s --busy echo --json"));
    let mut clients = String::new();
    while clients.is_empty() {
        pause(5);
        let file = format!("/proc/{0}/task/{0}/children", sender.id());
        match std::fs::read_to_string(file) {
            Ok(list) => clients = list,
            Err(error) => {
                report(sender);
                return common::skipped(&format!("the kernel lists no children: {error}"));
            }
        }
    }
    // Before the run begins it waits for them.
    assert!(matches!(next(&receiver), Some(Datagram::Data { .. })));
    let clients = clients.trim().parse().unwrap();
    kill_process(Pid::from_raw(clients).unwrap(), Signal::KILL).unwrap();
    let sent = report(sender);
    let fallbacks = sent["fallbacks"].to_string();
    assert!(fallbacks.contains("the echo clients had ended before the run did"), "{fallbacks}");
    assert_eq!(sent["socket"]["answers_dropped"], 0);
}

/// The duration ends a run although the next datagram is due long after it.
#[test]
fn the_duration_ends_a_slow_run() {
    for timer in ["soft", "loop", "pwait2", "timerfd", "ms", "signal", "thread", "spin", "off"] {
        let sent = report(start(&format!(
            "send 127.0.0.1:9 --no-handshake --interval 60s --duration 50ms --json --timer {timer}"
        )));
        assert!(sent["sent"].as_u64() <= Some(1), "{timer}");
    }
}

/// A stream has its lines also where nothing happens, and where nothing is ever sent.
#[test]
fn every_second_has_a_line_whatever_happens() {
    for words in [
        "recv 127.0.0.1:0 --duration 2500ms",
        "send 127.0.0.1:9 --no-handshake --interval 60s --duration 2500ms",
        "send 127.0.0.1:9 --no-handshake --interval 60s --duration 2500ms --timer off",
    ] {
        let output = start(&format!("{words} --json-stream")).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", common::stderr(&output));
        let (command, count) =
            if words.starts_with("recv") { ("recv", "received") } else { ("send", "sent") };
        let (lines, _) = common::streamed(&output.stdout, command, count);
        // One a second, and the last; on a slow machine the run ends later.
        let time = |line: &Value, at: &str| line[at].as_f64().unwrap();
        let end = time(lines.last().expect("a line"), "to_s");
        assert!(lines.len() as f64 <= end.ceil(), "{lines:?}");
        // No second is left out, except by a machine that was late with a line.
        let late = lines.iter().any(|line| time(line, "to_s") - time(line, "from_s") >= 1.1);
        assert!(late || lines.len() as f64 >= end.floor(), "{lines:?}");
        assert!(lines.iter().all(|line| line["interval"]["gap_ns"]["max"].is_null()), "{lines:?}");
    }
}

#[test]
fn a_loop_can_be_kept_on_a_processor() {
    let refused = common::refusal(&common::run("send 127.0.0.1:9 --rate 1kpps --cpu 99999"), 2);
    assert!(refused.contains("--cpu 99999: this process may run on "), "{refused}");
}
