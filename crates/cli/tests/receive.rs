//! `recv` against real datagrams on the loopback.

mod common;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::time::Duration;

use common::{Receiver, command, refusal, run, stderr, streamed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use softtimers_core::Timestamp;
use softtimers_load::wire::{Datagram, MIN_SIZE};

/// One that does not ask, as other programs do not: `recv --any` takes it.
struct Sender {
    socket: UdpSocket,
}

impl Sender {
    fn to(receiver: &Receiver) -> Self {
        Sender::to_address(receiver.address)
    }

    fn to_address(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(address).unwrap();
        Sender { socket }
    }

    fn data(&self, sequence: u64) {
        let interval = Duration::from_secs(1);
        let scheduled = Timestamp::ZERO;
        self.send(Datagram::Data { flow: 0, sequence, scheduled, interval, token: None });
    }

    fn bye(&self, sent: u64) {
        self.send(Datagram::Bye { flow: 0, sent, token: None });
    }

    fn send(&self, datagram: Datagram) {
        let mut packet = [0; 2 * MIN_SIZE];
        datagram.write(&mut packet);
        match self.socket.send(&packet) {
            // A receiver that has had what it waits for may have ended before the rest is sent.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            sent => assert_eq!(sent.unwrap(), packet.len()),
        }
    }
}

fn interrupt(receiver: &Receiver) {
    let pid = Pid::from_raw(receiver.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

#[test]
fn loss_order_and_duplicates_are_counted() {
    let receiver = Receiver::start("--any --once");
    let sender = Sender::to(&receiver);
    for sequence in [0, 1, 3, 2, 2, 6] {
        sender.data(sequence);
    }
    sender.bye(9);
    let (exit, report, _) = receiver.finish();
    assert_eq!(exit, Some(0));
    assert_eq!(report["received"], 6);
    assert_eq!(report["reordered"], 1);
    assert_eq!(report["duplicated"], 1);
    assert_eq!(report["lost"], 4); // 4, 5, 7 and 8
    assert_eq!(report["flows"], 1);
    assert_eq!(report["received_bytes"], 6 * 64);
    assert_eq!(report["socket_drops"], 0);
    // Sent in one go, and judged by the interval that the sender stated: one burst.
    assert_eq!(report["back_to_back"], 1.0);
    assert_eq!(report["longest_burst"], 6);
    assert_eq!(report["gap_ns"]["count"], 5);
    assert_eq!(report["config"]["interval_ns"], 1_000_000_000);
    assert_eq!(report["per_flow"][0]["peer"], sender.socket.local_addr().unwrap().to_string());
}

#[test]
fn the_object_has_the_keys_of_the_contract() {
    let receiver = Receiver::start("--any --count 1");
    Sender::to(&receiver).data(0);
    let (exit, report, _) = receiver.finish();
    assert_eq!((exit, &report["schema"]), (Some(0), &"softtimers.recv/1".into()));
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    for key in ["kernel", "cpu", "cores", "clocksource", "virtualised", "steal_share"] {
        assert!(report["machine"].get(key).is_some(), "{key}");
    }
    for key in ["count", "min", "p1", "p50", "p90", "p99", "p999", "max", "mean", "stddev"] {
        assert!(report["gap_ns"].get(key).is_some(), "{key}");
    }
    assert!(report["gap_ns"]["p50"].is_null(), "one datagram makes no gap");
    assert!(report["fallbacks"].is_array() && report["config"]["address"].is_string());
}

#[test]
fn a_count_ends_the_run_exactly() {
    let receiver = Receiver::start("--any --count 5");
    let sender = Sender::to(&receiver);
    (0..50).for_each(|sequence| sender.data(sequence));
    let (exit, report, _) = receiver.finish();
    assert_eq!((exit, &report["received"], &report["lost"]), (Some(0), &5.into(), &0.into()));
}

/// The goodbyes of one flow of two are lost, so only silence can end the run before its duration.
#[test]
fn silence_ends_a_run_whose_goodbyes_were_lost() {
    let receiver = Receiver::start("--any --once");
    let (polite, lost) = (Sender::to(&receiver), Sender::to(&receiver));
    polite.data(0);
    lost.data(0);
    polite.bye(1);
    let (exit, report, _) = receiver.finish();
    assert_eq!((exit, &report["received"]), (Some(0), &2.into()));
    let note = report["fallbacks"].as_array().unwrap().last().unwrap().as_str().unwrap();
    assert_eq!(note, "some flow never said goodbye; ended by 10s of silence");
    let ended: Vec<bool> = (0..2).map(|flow| report["per_flow"][flow]["ended"].as_bool().unwrap()).collect();
    assert_eq!(ended, [true, false]);
}

/// A receiver of `count` datagrams that prints a line a second, and a sender to it.
fn streaming(count: u32) -> (Child, Sender) {
    let mut receiver =
        command(&format!("recv 127.0.0.1:0 --any --duration 60s --count {count} --json-stream"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    let mut listening = String::new();
    BufReader::new(receiver.stderr.take().unwrap()).read_line(&mut listening).unwrap();
    let address = listening.trim().strip_prefix("listening on ").unwrap().parse().unwrap();
    (receiver, Sender::to_address(address))
}

/// Loss is told when it shows, and taken back when a datagram was only late; all of stdout is lines.
#[test]
fn the_seconds_of_a_stream_add_up() {
    let (mut receiver, sender) = streaming(6);
    [0, 1, 4, 4].into_iter().for_each(|sequence| sender.data(sequence));
    let mut stdout = BufReader::new(receiver.stdout.take().unwrap());
    let counts = |line: &Value| {
        let total = &line["total"];
        ["received", "lost", "reordered", "duplicated", "flows"].map(|key| total[key].as_i64().unwrap())
    };
    let mut text = String::new();
    let so_far = loop {
        let begin = text.len();
        stdout.read_line(&mut text).unwrap();
        let line: Value = serde_json::from_str(&text[begin..]).expect("a line");
        if counts(&line)[0] == 4 {
            break line;
        }
    };
    assert_eq!((counts(&so_far), &so_far["total"]["gap_ns"]["count"]), ([4, 2, 0, 1, 1], &3.into()));
    sender.data(2);
    sender.data(5);
    stdout.read_to_string(&mut text).unwrap();
    assert_eq!(receiver.wait().unwrap().code(), Some(0));
    let (lines, report) = streamed(text.as_bytes(), "recv", "lost");
    assert!(lines.iter().any(|line| line["interval"]["lost"] == -1), "{text}");
    let last = lines.last().unwrap();
    assert_eq!(counts(last), [6, 1, 1, 1, 1]);
    assert_eq!((&report["received"], &report["one_way_variation_ns"]["count"]), (&6.into(), &5.into()));
    let variation = |of: &Value| of["one_way_variation_ns"]["max"].as_u64().unwrap();
    assert!(variation(&last["total"]) <= variation(&report), "{last} {report}");
}

/// Says whether datagrams are in the receive buffer of the socket with this address of 127.0.0.1.
fn is_waiting(address: SocketAddr) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/udp").unwrap();
    let ours = format!("{:08X}:{:04X}", u32::from_ne_bytes([127, 0, 0, 1]), address.port());
    sockets.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        // Remote address and state, then the queues, as tx:rx.
        fields.next() == Some(&ours) && fields.nth(2).is_some_and(|queues| !queues.ends_with(":00000000"))
    })
}

#[test]
fn a_signal_ends_the_run_with_its_summary() {
    let receiver = Receiver::start("--any");
    // It cannot read while it is stopped, and only what is in its buffer has arrived.
    common::stop(receiver.id());
    Sender::to(&receiver).data(0);
    while !is_waiting(receiver.address) {
        std::thread::yield_now();
    }
    interrupt(&receiver);
    kill_process(Pid::from_raw(receiver.id() as i32).unwrap(), Signal::CONT).unwrap();
    let (exit, report, _) = receiver.finish();
    assert_eq!((exit, &report["received"]), (Some(0), &1.into()), "what had arrived is counted");
}

#[test]
fn assertions_decide_the_exit_code() {
    let receiver =
        Receiver::start("--any --count 2 --assert lost==0 --assert received<2 --assert gap_ns.p50<0");
    let sender = Sender::to(&receiver);
    (0..2).for_each(|sequence| sender.data(sequence));
    let (exit, report, words) = receiver.finish();
    assert_eq!((exit, &report["received"]), (Some(1), &2.into()), "the report is printed all the same");
    assert!(
        words.contains("--assert 'received<2' does not hold: received is 2; --assert 'gap_ns.p50<0'"),
        "{words}"
    );
    assert!(!words.contains("lost"), "{words}");
}

#[test]
fn what_was_not_measured_holds_no_assertion() {
    let receiver = Receiver::start("--any --count 1 --assert back_to_back<1");
    Sender::to(&receiver).data(0);
    let (exit, _, words) = receiver.finish();
    assert_eq!(exit, Some(1));
    assert!(words.contains("does not hold: back_to_back was not measured"), "{words}");
}

#[test]
fn rubbish_is_counted_and_not_answered() {
    // With --any it is another program's, but for what begins like a datagram of ours and is too short.
    for (flag, unnumbered) in [("", 0), ("--any", 3)] {
        let receiver = Receiver::start(flag);
        let sender = Sender::to(&receiver);
        for rubbish in [&b""[..], b"SOFT", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 1_000]] {
            sender.socket.send(rubbish).unwrap();
        }
        // On loopback all of it has arrived, and what has arrived is counted.
        interrupt(&receiver);
        let (exit, report, _) = receiver.finish();
        assert_eq!((exit, &report["foreign"]), (Some(0), &(4 - unnumbered).into()), "{report}");
        assert_eq!((&report["received"], &report["unnumbered"]), (&unnumbered.into(), &unnumbered.into()));
        assert_eq!(report["lost"], if unnumbered > 0 { Value::Null } else { 0.into() });
        assert_eq!(report["gap_ns"]["count"], 2.min(unnumbered));
        sender.socket.set_nonblocking(true).unwrap();
        let answer = sender.socket.recv(&mut [0; 64]);
        assert!(answer.is_err(), "{answer:?}");
    }
}

/// Two programs that know nothing of softtimers, each at its own pace: how evenly they sent is measured, and what only a
/// number could tell is unknown. The mean gap is what their pauses make it, or more.
#[test]
fn any_program_is_measured_by_its_gaps() {
    let pauses = [2, 6].map(Duration::from_millis);
    let receiver = Receiver::start(
        "--any --count 90 --expect-interval 4ms --assert received==90 --assert gap_ns.count==88 --assert lost==0",
    );
    let senders = pauses.map(|_| Sender::to(&receiver));
    std::thread::scope(|scope| {
        for (sender, (pause, count)) in senders.iter().zip(pauses.into_iter().zip([60, 30])) {
            scope.spawn(move || {
                for number in 0..count {
                    sender.socket.send(format!("packet {number}").as_bytes()).unwrap();
                    #[expect(clippy::disallowed_methods, reason = "a sender's own pace")]
                    std::thread::sleep(pause);
                }
            });
        }
    });
    let (exit, report, words) = receiver.finish();
    assert_eq!(exit, Some(1), "{words}");
    assert!(words.contains("softtimers: --assert 'lost==0' does not hold: lost was not measured"), "{words}");
    assert_eq!((&report["received"], &report["unnumbered"]), (&90.into(), &90.into()));
    assert_eq!(
        (&report["foreign"], &report["strangers"], &report["flows"]),
        (&0.into(), &0.into(), &2.into())
    );
    for key in ["lost", "reordered", "duplicated", "too_late"] {
        assert_eq!(report[key], Value::Null, "{key}");
    }
    assert_eq!(
        (&report["over_flows"]["lost"]["max"], &report["one_way_variation_ns"]["count"]),
        (&Value::Null, &0.into())
    );
    assert!(report["back_to_back"].is_f64() && report["longest_burst"].as_u64() >= Some(1), "{report}");
    assert!(report["received_pps"].is_f64() && report["received_bytes"].as_u64() > Some(90 * 8), "{report}");
    for (sender, pause) in senders.iter().zip(pauses) {
        let address = sender.socket.local_addr().unwrap().to_string();
        let flows = report["per_flow"].as_array().unwrap();
        let flow = flows.iter().find(|flow| flow["peer"] == address).unwrap();
        assert_eq!(
            (&flow["flow"], &flow["lost"], &flow["ended"]),
            (&Value::Null, &Value::Null, &false.into())
        );
        assert!(flow["gap_mean_ns"].as_f64() >= Some(pause.as_nanos() as f64 / 2.0), "{flow}");
    }
}

/// A line tells of its own second: nothing of loss in one with datagrams of another program.
#[test]
fn the_seconds_of_a_stream_tell_what_is_unknown() {
    let (mut receiver, sender) = streaming(5);
    let mut stdout = BufReader::new(receiver.stdout.take().unwrap());
    let mut text = String::new();
    let mut next = |received: u64| loop {
        text.clear();
        stdout.read_line(&mut text).unwrap();
        let line: Value = serde_json::from_str(&text).expect("a line");
        if line["total"]["received"] == received {
            break line;
        }
    };
    let lost = |line: &Value| [line["interval"]["lost"].clone(), line["total"]["lost"].clone()];
    [0, 2].into_iter().for_each(|sequence| sender.data(sequence));
    assert_eq!(next(2)["total"]["lost"], 1);
    sender.socket.send(b"plain").unwrap();
    let line = next(3);
    assert_eq!((lost(&line), &line["interval"]["unnumbered"]), ([Value::Null, Value::Null], &1.into()));
    sender.data(4);
    assert_eq!(lost(&next(4)), [1.into(), Value::Null], "of the second, and of the run");
    sender.data(5);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(receiver.wait().unwrap().code(), Some(0));
    let report: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    assert_eq!((&report["lost"], &report["per_flow"][0]["lost"]), (&Value::Null, &2.into()));
}

#[test]
fn a_table_is_for_people() {
    let table = run("recv 127.0.0.1:0 --duration 10ms");
    let text = String::from_utf8(table.stdout.clone()).unwrap();
    assert_eq!(table.status.code(), Some(0), "{}", stderr(&table));
    assert!(
        text.starts_with("recv on 127.0.0.1:")
            && text.contains("\nreceived ")
            && text.contains("\nback to back")
            && text.contains("Linux "),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "no colours without a terminal");
    assert!(stderr(&table).starts_with("listening on 127.0.0.1:"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child =
        command("recv 127.0.0.1:0 --duration 50ms --json").stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Sent in one go, and due an hour apart by a clock of the sender's own: each is an hour luckier than the one before.
#[test]
fn one_way_variation_needs_no_common_clock() {
    let hour = 3_600_000_000_000u64;
    let receiver = Receiver::start("--any --once");
    let sender = Sender::to(&receiver);
    let interval = Duration::from_secs(1);
    for sequence in [0, 1, 2, 2, 4] {
        let scheduled = Timestamp::from_nanos(17 + sequence * hour);
        sender.send(Datagram::Data { flow: 9, sequence, scheduled, interval, token: None });
    }
    sender.send(Datagram::Bye { flow: 9, sent: 5, token: None });
    let (exit, report, _) = receiver.finish();
    assert_eq!((exit, &report["received"], &report["lost"]), (Some(0), &5.into(), &1.into()));
    let variation = &report["per_flow"][0]["one_way_variation_ns"];
    assert_eq!((variation, &variation["min"]), (&report["one_way_variation_ns"], &0.into()));
    assert_eq!(variation["count"], 4, "the duplicate has none");
    // Of the four hours the time goes off that sending took, and the test is given four minutes.
    let max = variation["max"].as_u64().unwrap();
    assert!((4 * hour - hour / 15..=4 * hour).contains(&max), "{variation}");
}

/// Only a line tells whether somebody reads; without an end of its own, a stream would go on for ever.
#[test]
fn a_reader_that_goes_away_ends_a_stream() {
    let sending = "send 127.0.0.1:9 --no-handshake --rate 100pps --duration 1000s";
    for words in ["recv 127.0.0.1:0", sending, BUSY] {
        let mut command = command(&format!("{words} --json-stream"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(first.contains(".stream/"), "{words}: {first}");
        assert_eq!(child.wait().unwrap().code(), Some(0), "{words}");
    }
}

/// Looks at its clock, and at nothing else.
const BUSY: &str = "send 127.0.0.1:9 --no-handshake --interval 60s --duration 1000s --busy compute";

#[test]
fn a_full_disk_is_an_error() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full");
    if !full().is_ok_and(|mut full| full.write_all(b"x").is_err()) {
        common::skipped("no /dev/full");
        return;
    }
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sink = (sink.local_addr().unwrap(), sink);
    let sending = format!("send {} --no-handshake --rate 100pps --duration 1000s --json-stream", sink.0);
    for words in ["man", &sending] {
        let output = command(words).stdout(full().unwrap()).output().unwrap();
        assert!(refusal(&output, 1).contains("softtimers: writing to stdout: No space left"), "{words}");
    }
}
