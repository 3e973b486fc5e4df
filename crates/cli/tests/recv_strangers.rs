//! Who is believed: a receiver beside strangers, and a sender whose receiver is gone. Real sockets on the loopback; what a
//! blind spoofer of the sender's address would send comes from the sender's own socket.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Receiver, command, refusal, run, stderr, streamed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use softtimers_core::Timestamp;
use softtimers_load::handshake::{Agreement, USUAL_PATIENCE, ask};
use softtimers_load::receipt::Receipt;
use softtimers_load::wire::{Datagram, Hello, MIN_SIZE, Token};

fn connected(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    socket
}

fn data(flow: u32, sequence: u64, token: Option<Token>) -> Datagram {
    let (scheduled, interval) = (Timestamp::ZERO, Duration::from_nanos(1));
    Datagram::Data { flow, sequence, scheduled, interval, token }
}

fn bye(flow: u32, sent: u64, token: Option<Token>) -> Datagram {
    Datagram::Bye { flow, sent, token }
}

fn say(socket: &UdpSocket, datagram: Datagram) {
    // An error belongs to an earlier datagram: the receiver may have ended.
    let _ = socket.send(&datagram.encode());
}

/// All that a stranger who knows the flow's number can say about it, with this token.
fn forged(flow: u32, token: Option<Token>) -> [Datagram; 4] {
    [data(flow, 3, token), data(flow, 1 << 31, token), bye(flow, 999_999_999, token), bye(flow, 0, token)]
}

fn agreed(socket: &UdpSocket) -> Agreement {
    ask(socket, 1, Duration::from_millis(1), USUAL_PATIENCE).unwrap()
}

fn signal(receiver: &Receiver, signal: Signal) {
    kill_process(Pid::from_raw(receiver.id() as i32).unwrap(), signal).unwrap();
}

#[test]
fn a_receiver_believes_only_the_sender_that_agreed() {
    let receiver = Receiver::start("--once");
    let (sender, stranger) = (connected(receiver.address), connected(receiver.address));
    let mut strange = 0;
    let mut forge = |socket: &UdpSocket, flow, token| {
        forged(flow, token).into_iter().for_each(|datagram| say(socket, datagram));
        strange += 4;
    };
    // Before there is any agreement.
    forge(&stranger, 0, None);
    forge(&stranger, 0, Token::new(1));
    let agreement = agreed(&sender);
    let (flow, token) = (agreement.flow(0), agreement.token());
    for sequence in 0..100 {
        say(&sender, data(flow, sequence, Some(token)));
        if sequence % 20 == 0 {
            // Another address, with the right token, a wrong one and none; and the right address without its token.
            for token in [Some(token), Token::new(7), None] {
                forge(&stranger, flow, token);
            }
            for token in [Token::new(7), None] {
                forge(&sender, flow, token);
            }
            // Its token in a flow that is not its own.
            forge(&sender, flow.wrapping_add(1), Some(token));
        }
    }
    say(&sender, bye(flow, 101, Some(token)));
    let (exit, report, words) = receiver.finish();
    assert_eq!(exit, Some(0), "{words}");
    assert_eq!((&report["received"], &report["lost"], &report["flows"]), (&100.into(), &1.into(), &1.into()));
    assert_eq!((&report["strangers"], &report["foreign"]), (&strange.into(), &0.into()), "{report}");
    assert_eq!(report["config"]["interval_ns"], 1_000_000, "what was agreed on, and no stranger's 1 ns");
    assert_eq!((&report["per_flow"][0]["flow"], &report["per_flow"][0]["ended"]), (&0.into(), &true.into()));
    assert_eq!(report["per_flow"][0]["peer"], sender.local_addr().unwrap().to_string());
}

/// An agreed sender is told what has come, in no more bytes than it asks with; nobody else is, whatever they ask.
#[test]
fn what_has_come_is_told_to_nobody_but_its_sender() {
    let receiver = Receiver::start("");
    let (sender, stranger) = (connected(receiver.address), connected(receiver.address));
    let agreement = agreed(&sender);
    for sequence in 0..10 {
        say(&sender, data(agreement.flow(0), sequence, Some(agreement.token())));
    }
    let answer = |socket: &UdpSocket, question: Datagram, length: usize| {
        let mut bytes = vec![0; length];
        question.write(&mut bytes);
        socket.send(&bytes).unwrap();
        let mut answer = [0; 2 * Receipt::SIZE];
        let length = socket.recv(&mut answer).unwrap();
        (length, Receipt::parse(&answer[..length], 12))
    };
    let Datagram::Hello(hello) = agreement.renewal() else { panic!() };
    for question in [agreement.renewal(), Datagram::Hello(Hello { token: Token::new(7), ..hello })] {
        assert_eq!(answer(&stranger, question, Receipt::SIZE), (MIN_SIZE, None));
    }
    let unanswered = Datagram::Hello(Hello { nonce: !hello.nonce, token: None, ..hello });
    assert_eq!(answer(&sender, unanswered, Receipt::SIZE), (MIN_SIZE, None), "not agreed on");
    assert_eq!(answer(&sender, agreement.renewal(), Receipt::SIZE - 1), (MIN_SIZE, None));
    let (length, receipt) = answer(&sender, agreement.renewal(), 2 * Receipt::SIZE);
    let receipt = receipt.unwrap();
    assert_eq!((length, receipt.received, receipt.lost), (Receipt::SIZE, 10, 2));
    assert_eq!(receipt.gaps.gap_ns.count, 9);
    signal(&receiver, Signal::TERM);
    let (_, report, _) = receiver.finish();
    assert_eq!((&report["received"], &report["strangers"]), (&10.into(), &2.into()), "{report}");
}

/// The real sender, with forged goodbyes from before its first datagram to behind its last.
#[test]
fn forged_goodbyes_end_no_run() {
    let receiver = Receiver::start("--once");
    let stranger = connected(receiver.address);
    let over = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        forged(0, None).into_iter().for_each(|datagram| say(&stranger, datagram));
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for token in [None, Token::new(1)] {
                    forged(0, token).into_iter().for_each(|datagram| say(&stranger, datagram));
                }
                std::thread::yield_now();
            }
        });
        let sent =
            run(&format!("send {} --interval 2ms --count 300 --catch-up all --json", receiver.address));
        over.store(true, Ordering::Relaxed);
        sent
    });
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    let (exit, report, words) = receiver.finish();
    assert_eq!(exit, Some(0), "{words}");
    assert!(report["strangers"].as_u64() >= Some(4), "{report}");
    if common::ran_over(&report) {
        return;
    }
    assert_eq!((&report["received"], &report["lost"], &report["flows"]), (&300.into(), &0.into(), &1.into()));
    assert_eq!(report["config"]["interval_ns"], 2_000_000);
}

/// Who agreed and never sent keeps nobody waiting for longer than a sender asks; who goes on sending does.
#[test]
fn a_second_sender_waits_for_one_that_is_silent_and_not_for_long() {
    let receiver = Receiver::start("--once");
    let silent = connected(receiver.address);
    agreed(&silent);
    let sent = run(&format!("send {} --interval 1ms --count 50 --catch-up all --json", receiver.address));
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    let (_, report, _) = receiver.finish();
    assert_eq!((&report["received"], &report["lost"], &report["flows"]), (&50.into(), &0.into(), &1.into()));

    let receiver = Receiver::start("--once");
    let first = command(&format!("send {} --interval 10ms --duration 60s --json", receiver.address));
    let mut first = { first }.stdout(Stdio::piped()).spawn().unwrap();
    // The second one is not to be the first that asks.
    let asking = connected(receiver.address);
    let hello = Hello { nonce: 5, flow: 0, flows: 1, interval_ns: 0, token: None };
    loop {
        let mut answer = [0; MIN_SIZE];
        say(&asking, Datagram::Hello(hello));
        let length = asking.recv(&mut answer).unwrap();
        if Datagram::parse(&answer[..length]) == Ok(Datagram::Busy { nonce: 5 }) {
            break;
        }
    }
    let second = run(&format!("send {} --interval 1ms --count 50 --json", receiver.address));
    let message = refusal(&second, 1);
    assert!(message.contains("listens to another sender") && message.contains("--any"), "{message}");
    kill_process(Pid::from_child(&first), Signal::INT).unwrap();
    let mut text = String::new();
    first.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(0));
    let first: Value = serde_json::from_str(&text).unwrap();
    let (_, report, _) = receiver.finish();
    assert_eq!((&report["received"], &report["lost"]), (&first["sent"], &0.into()));
}

/// Datagrams without an agreement are counted as a stranger's, or with `--any` as traffic.
#[test]
fn without_an_agreement_traffic_counts_only_with_any() {
    for (flag, received) in [("", 0), ("--any", 20)] {
        let receiver = Receiver::start(flag);
        let sent = run(&format!("send {} --no-handshake --interval 1ms --count 20 --json", receiver.address));
        assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
        // On loopback all of it has arrived, and what has arrived is counted.
        signal(&receiver, Signal::INT);
        let (exit, report, _) = receiver.finish();
        assert_eq!((exit, &report["received"]), (Some(0), &received.into()));
        // Nothing but what it says that it has sent: nobody asked for a goodbye.
        let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
        let strangers = if flag.is_empty() { sent["sent"].as_u64().unwrap() } else { 0 };
        assert_eq!((&report["strangers"], &report["lost"]), (&strangers.into(), &0.into()));
    }
    let receiver = Receiver::start("--any --once");
    let senders: Vec<Child> = (0..2)
        .map(|_| command(&format!("send {} --interval 1ms --count 500 --json", receiver.address)))
        .map(|mut sender| sender.stdout(Stdio::null()).spawn().unwrap())
        .collect();
    for mut sender in senders {
        assert_eq!(sender.wait().unwrap().code(), Some(0), "several agree at a time");
    }
    let (_, report, _) = receiver.finish();
    assert!(report["received"].as_u64() >= Some(490) && report["strangers"] == 0, "{report}");
}

/// A run whose receiver is killed ends soon after by itself, whoever says when the next datagram is due.
#[test]
fn a_sender_stops_when_its_receiver_is_gone() {
    let recording = std::env::temp_dir().join(format!("softtimers-{}-gone.csv", std::process::id()));
    let lines: String = (0..60_000).map(|number| format!("{},100\n", number * 1_000)).collect();
    std::fs::write(&recording, format!("t_us,len\n{lines}")).unwrap();
    let paced = "--interval 1ms --duration 60s";
    let send = |flags: &str| (format!("send ADDRESS {paced} {flags}"), "send");
    let runs = [
        send("--timer soft"),
        send("--timer loop"),
        send("--timer timerfd"),
        send("--timer signal"),
        send("--timer tick --busy compute"),
        send("--timer thread"),
        send("--timer soft --busy compute"),
        send("--flows 4"),
        send("--quantum 4"),
        // Nothing is sent meanwhile: it has asked whether the receiver is there.
        ("send ADDRESS --interval 30s --duration 60s".to_owned(), "send"),
        (format!("replay {} ADDRESS", recording.display()), "replay"),
    ];
    for some in runs.chunks(6) {
        std::thread::scope(|scope| {
            for (words, name) in some {
                scope.spawn(|| stops(words, name));
            }
        });
    }
    std::fs::remove_file(recording).unwrap();
}

fn stops(words: &str, name: &str) {
    let receiver = Receiver::start("");
    let words = format!("{} --json-stream", words.replace("ADDRESS", &receiver.address.to_string()));
    let mut sender = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(sender.stdout.take().unwrap());
    let mut text = String::new();
    // A second of a receiver that answers is no reason to end.
    (0..2).for_each(|_| assert!(lines.read_line(&mut text).unwrap() > 0, "{words}"));
    signal(&receiver, Signal::KILL);
    lines.read_to_string(&mut text).unwrap();
    let output = sender.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{words}: {}", stderr(&output));
    let message = format!("the receiver at {} has not renewed its consent", receiver.address);
    assert!(stderr(&output).contains(&message), "{words}: {}", stderr(&output));
    let (lines, report) = streamed(text.as_bytes(), name, "sent");
    // It had 58 s to go on, at up to 4,000 a second; on a machine that stands still it may take some of them.
    let most = if words.contains("--flows") { 80_000 } else { 20_000 };
    assert!(report["sent"].as_u64() < Some(most) && lines.len() < 30, "{words}: {}", report["sent"]);
}

/// Who was told not to ask does not care.
#[test]
fn who_does_not_ask_goes_on() {
    let receiver = Receiver::start("--any");
    let words = format!("send {} --no-handshake --interval 10ms --duration 4s --json", receiver.address);
    let sender = { command(&words) }.stdout(Stdio::piped()).spawn().unwrap();
    signal(&receiver, Signal::KILL);
    let output = sender.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["achieved_pps"].as_f64().is_some() && report["fallbacks"].as_array().unwrap().is_empty());
}

/// A path that loses a fifth of everything, both ways, ends no run.
#[test]
fn a_lossy_path_ends_no_run() {
    let receiver = Receiver::start("--once");
    let words = format!("wan --listen 127.0.0.1:0 --to {} --delay 20ms --loss 20% --json", receiver.address);
    let relay = { command(&words) }.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut relay = relay.unwrap();
    let mut line = String::new();
    BufReader::new(relay.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let at = line.trim().strip_prefix("listening on ").and_then(|rest| rest.split(',').next());
    let at = at.unwrap_or_else(|| panic!("{line}"));
    let sent = run(&format!("send {at} --interval 2ms --duration 5s --json"));
    kill_process(Pid::from_child(&relay), Signal::KILL).unwrap();
    relay.wait().unwrap();
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    let (_, report, _) = receiver.finish();
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    // A machine that stands still sends less than 2,500.
    let half = sent["sent"].as_u64().map(|sent| sent / 2);
    assert!(report["received"].as_u64() > half && report["strangers"] == 0, "{report}");
    let told = &sent["receiver"];
    let lost_too = sent["fallbacks"].to_string().contains("no result of the receiver");
    assert!(lost_too || told["received"] == report["received"], "{told}, {report}");
}

/// A question of another version gets an answer that says so, with no more bytes than it had; nothing else is answered.
#[test]
fn another_version_is_told_so() {
    let receiver = Receiver::start("--count 1 --any");
    let socket = connected(receiver.address);
    let hello = Hello { nonce: 5, flow: 0, flows: 1, interval_ns: 0, token: None };
    let mut old = Datagram::Hello(hello).encode();
    old[4] = 1;
    socket.send(&old).unwrap();
    let mut answer = [0; 64];
    let length = socket.recv(&mut answer).unwrap();
    assert_eq!((length, Datagram::parse(&answer[..length])), (MIN_SIZE, Ok(Datagram::Busy { nonce: 5 })));
    say(&socket, data(0, 0, None));
    let (_, report, _) = receiver.finish();
    let note = report["fallbacks"].to_string();
    assert!(note.contains("received format 1; this program reads format 2"), "{note}");
    assert_eq!((&report["strangers"], &report["foreign"]), (&1.into(), &0.into()));
}

/// A stranger's datagram in another version leaves no note in the report of a run that was agreed on.
#[test]
fn another_version_of_a_stranger_is_not_told_of_an_agreed_run() {
    let receiver = Receiver::start("--once");
    let (sender, stranger) = (connected(receiver.address), connected(receiver.address));
    let mut other = data(0, 0, None).encode();
    other[4] = 9;
    stranger.send(&other).unwrap();
    let agreement = agreed(&sender);
    say(&sender, data(agreement.flow(0), 0, Some(agreement.token())));
    stranger.send(&other).unwrap();
    say(&sender, bye(agreement.flow(0), 1, Some(agreement.token())));
    let (_, report, _) = receiver.finish();
    assert!(!report["fallbacks"].to_string().contains("format"), "{report}");
    assert_eq!((&report["received"], &report["strangers"]), (&1.into(), &2.into()));
}

/// The run counts the host that agreed first, also after its goodbye; with `--any` it counts every one.
#[test]
fn after_a_goodbye_another_host_is_counted_only_with_any() {
    for (flag, many) in [("", 1), ("--any", 2)] {
        let receiver = Receiver::start(flag);
        let words = format!("send {} --interval 1ms --count 20 --catch-up all --json", receiver.address);
        let sent = run(&words);
        assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
        let other = UdpSocket::bind("127.0.0.2:0").unwrap();
        other.connect(receiver.address).unwrap();
        let agreement = ask(&other, 1, Duration::from_millis(1), USUAL_PATIENCE);
        assert_eq!(agreement.is_ok(), many == 2, "{agreement:?}");
        if let Ok(agreement) = agreement {
            (0..20).for_each(|number| say(&other, data(agreement.flow(0), number, Some(agreement.token()))));
        }
        // The same host, by a program that was started anew.
        let sent = run(&words);
        assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
        signal(&receiver, Signal::INT);
        let (exit, report, words) = receiver.finish();
        assert_eq!(exit, Some(0), "{words}");
        assert_eq!((&report["received"], &report["flows"]), (&(20 + 20 * many).into(), &(1 + many).into()));
    }
}
