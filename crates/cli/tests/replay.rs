//! `replay`: recordings of each format arrive as they were recorded, whoever says when.

#[path = "common/captures.rs"]
mod captures;
mod common;

use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use captures::{BIG, LITTLE, MICROSECONDS, NANOSECONDS, Packet};
use common::{command, refusal, run, stderr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use softtimers_core::Timestamp;
use softtimers_load::wire::Datagram;

/// A file in a directory of this test's own, gone with it.
struct Recording(PathBuf);

impl Recording {
    fn named(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("softtimers-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        Recording(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Trains of three packets 3 ms apart, with pauses of 30 ms: 80 packets, in 42-byte headers and payloads of
/// 32 to 1472 bytes.
fn packets() -> Vec<Packet> {
    let time = |number: u64| 1_795_000_000_500_000_000 + number / 3 * 36_000_000 + number % 3 * 3_000_000;
    (0..80).map(|number| (time(number), 42 + 32 + number as u32 % 5 * 360)).collect()
}

fn payload(packets: &[Packet]) -> u64 {
    packets.iter().map(|&(_, length)| u64::from(length) - 42).sum()
}

/// Replays all of it to a fresh receiver; returns what both say.
fn pair(file: &str, flags: &str) -> (Value, Value) {
    common::pair_of(&format!("replay {file}"), &format!("--catch-up all {flags}"))
}

/// The datagrams of a run: their places from the first one on, and their lengths. They wait in the socket's buffer,
/// which has room for these.
fn places(file: &str, flags: &str, count: usize) -> (Vec<(Duration, usize)>, Value) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let words = format!(
        "replay {file} {} --no-handshake --json --catch-up all {flags}",
        socket.local_addr().unwrap()
    );
    let sender = command(&words).output().unwrap();
    assert_eq!(sender.status.code(), Some(0), "{words}: {}", stderr(&sender));
    let mut packet = [0; 2048];
    let mut next = || {
        let length = socket.recv(&mut packet).unwrap();
        match Datagram::parse(&packet[..length]) {
            Ok(Datagram::Data { scheduled, .. }) => (scheduled, length),
            other => panic!("{other:?}"),
        }
    };
    let sent: Vec<(Timestamp, usize)> = (0..count).map(|_| next()).collect();
    let places = sent.iter().map(|&(place, length)| (place.saturating_duration_since(sent[0].0), length));
    (places.collect(), serde_json::from_slice(&sender.stdout).unwrap())
}

/// Returns the changes that a run tells. That it ended late is another matter, of a busy machine.
fn changes(sent: &Value) -> Vec<&str> {
    let told = sent["fallbacks"].as_array().unwrap().iter().map(|told| told.as_str().unwrap());
    told.filter(|told| told.contains(" packets: ")).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Count, bytes, and the two kinds of gaps, which differ by ten at the receiver too.
#[test]
fn each_format_arrives_as_it_was_recorded() {
    let packets = packets();
    for (name, bytes, flags) in [
        ("a.pcap", captures::pcap(LITTLE, false, 64, &packets), ""),
        ("b.pcap", captures::pcap(BIG, true, 64, &packets), ""),
        ("a.pcapng", captures::pcapng(LITTLE, &[MICROSECONDS], 64, &packets), ""),
        ("b.pcapng", captures::pcapng(BIG, &[NANOSECONDS, MICROSECONDS], 64, &packets), ""),
        ("a.csv", captures::csv(&packets), "--headers 42"),
    ] {
        let file = Recording::named(name, &bytes);
        let (sent, received) = pair(file.path(), flags);
        assert_eq!((&sent["sent"], &sent["forfeited"]), (&80.into(), &0.into()), "{name}");
        assert_eq!((&received["received"], &received["lost"]), (&80.into(), &0.into()), "{name}");
        assert_eq!(received["received_bytes"], payload(&packets), "{name}");
        assert_eq!(sent["recording"]["bytes"], payload(&packets), "{name}");
        // Two thirds of the gaps are a tenth of the others, so the median is far below the mean.
        let gaps = &received["gap_ns"];
        // What is late by much is another gap than was recorded, and so is the one after it.
        if number(&sent["late_ns"]["max"]) < 5e6 {
            assert!(number(&gaps["p50"]) < 0.6 * number(&gaps["mean"]), "{name}: {gaps}");
            assert!(number(&gaps["p90"]) > 1.5 * number(&gaps["mean"]), "{name}: {gaps}");
        }
        // 26 trains and two packets, 36 ms each: 939 ms over 79 gaps; the receiver judges by that.
        assert_eq!(sent["config"]["target_interval_ns"], 11_886_075, "{name}");
        assert_eq!(received["config"]["interval_ns"], 11_886_075, "{name}");
        assert!(sent["skew_ns"].is_u64() && sent["schema"] == "softtimers.replay/2");
    }
}

/// Places and lengths are the recording's to the nanosecond, and the speed divides the former.
#[test]
fn places_are_those_of_the_recording() {
    let packets = packets();
    let file = Recording::named("places.pcap", &captures::pcap(LITTLE, true, 64, &packets));
    for (flags, numerator, denominator) in [("--speed 4x", 1, 4), ("--speed 2.5x --timer loop", 2, 5)] {
        let (places, sent) = places(file.path(), flags, packets.len());
        let expected: Vec<(Duration, usize)> = packets
            .iter()
            .map(|&(nanos, length)| {
                let place = (nanos - packets[0].0) * numerator / denominator;
                (Duration::from_nanos(place), length as usize - 42)
            })
            .collect();
        assert_eq!(places, expected, "{flags}");
        assert_eq!(sent["late_ns"]["count"], packets.len());
        assert_eq!(number(&sent["config"]["speed"]), denominator as f64 / numerator as f64);
    }
}

/// Each timer drives the same flow, so each sends the recording; none leaves before its place.
#[test]
fn every_timer_replays() {
    let packets = packets();
    let file = Recording::named("timers.csv", &captures::csv(&packets));
    for timer in ["soft", "loop", "pwait2", "ms", "timerfd", "signal", "thread", "spin"] {
        let (sent, received) = pair(file.path(), &format!("--headers 42 --speed 8x --timer {timer}"));
        assert_eq!((&sent["sent"], &received["received"]), (&80.into(), &80.into()), "{timer}");
        assert_eq!(received["received_bytes"], payload(&packets), "{timer}");
        let span = number(&sent["recording"]["span_s"]);
        let took = number(&sent["gap_ns"]["mean"]) * 79.0 / 1e9;
        let skew = number(&sent["skew_ns"]) / 1e9;
        // From the first departure to the last: the span, longer by what the last was late, shorter by what
        // the first was.
        assert!(took <= span + skew + 1e-6, "{timer}: {took} s of {span} s and {skew} s");
        assert!(took >= span - number(&sent["late_ns"]["max"]) / 1e9 - 1e-6, "{timer}: {took} s of {span} s");
    }
}

#[test]
fn a_busy_loop_replays_too() {
    let packets = packets();
    let file = Recording::named("busy.pcapng", &captures::pcapng(LITTLE, &[MICROSECONDS], 64, &packets));
    for work in ["echo", "compute"] {
        let (sent, received) = pair(file.path(), &format!("--speed 4x --busy {work}"));
        assert_eq!((&sent["sent"], &received["received"]), (&80.into(), &80.into()), "{work}");
        assert!(number(&sent["work_rate"]) > 0.0, "{work}");
    }
}

/// A replay can be ended earlier, and every packet of one that was not is accounted for.
#[test]
fn bounds_and_forfeits() {
    let packets = packets();
    let file = Recording::named("bounds.csv", &captures::csv(&packets));
    let (sent, received) = pair(file.path(), "--headers 42 --count 7");
    assert_eq!((&sent["sent"], &received["received"]), (&7.into(), &7.into()));
    let (sent, _) = pair(file.path(), "--headers 42 --duration 30ms");
    assert!(sent["sent"].as_u64() <= Some(3), "{}", sent["sent"]);
    // A thousand packets in a millisecond, of which none may be late.
    let rush: Vec<Packet> = (0..1_000).map(|number| (number * 1_000, 100)).collect();
    let file = Recording::named("rush.csv", &captures::csv(&rush));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let words = format!(
        "replay {} {} --no-handshake --json --catch-up none",
        file.path(),
        socket.local_addr().unwrap()
    );
    let sent: Value = serde_json::from_slice(&run(&words).stdout).unwrap();
    assert_eq!(sent["sent"].as_u64().unwrap() + sent["forfeited"].as_u64().unwrap(), 1_000, "{sent}");
}

/// A sender that was stopped for far longer than 10 ms sends all of it, late; a flag has it skip what is too late.
#[test]
fn packets_are_late_rather_than_lost() {
    let even: Vec<Packet> = (0..3_000).map(|number| (number * 1_000_000, 100)).collect();
    let file = Recording::named("late.csv", &captures::csv(&even));
    let replayed = |flags: &str| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let words = format!("replay {} {address} --no-handshake --json {flags}", file.path());
        let sender = command(&words).stdout(Stdio::piped()).spawn().unwrap();
        socket.recv(&mut [0; 2_000]).unwrap();
        common::stop(sender.id());
        std::thread::park_timeout(Duration::from_millis(100));
        kill_process(Pid::from_child(&sender), Signal::CONT).unwrap();
        let sent: Value = serde_json::from_slice(&sender.wait_with_output().unwrap().stdout).unwrap();
        ["sent", "forfeited"].map(|key| sent[key].as_u64().unwrap())
    };
    assert_eq!(replayed(""), [3_000, 0]);
    let [sent, skipped] = replayed("--catch-up 10ms");
    assert!(skipped >= 50 && sent + skipped == 3_000, "{sent} {skipped}");
}

/// Too late to make up for what a stop took: it says so.
#[test]
fn a_delay_that_the_end_leaves_no_time_for_is_told() {
    let even: Vec<Packet> = (0..40).map(|number| (number * 5_000_000, 100)).collect();
    let file = Recording::named("end.csv", &captures::csv(&even));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let words = format!("replay {} {} --no-handshake --json", file.path(), socket.local_addr().unwrap());
    let sender = command(&words).stdout(Stdio::piped()).spawn().unwrap();
    for _ in 0..30 {
        socket.recv(&mut [0; 2_000]).unwrap();
    }
    common::stop(sender.id());
    std::thread::park_timeout(Duration::from_millis(500));
    kill_process(Pid::from_child(&sender), Signal::CONT).unwrap();
    let sent: Value = serde_json::from_slice(&sender.wait_with_output().unwrap().stdout).unwrap();
    // Of 500 ms the last 50 ms of a recording make up 7/16 of themselves.
    assert!(sent["skew_ns"].as_u64() >= Some(400_000_000), "{sent}");
    let told = sent["fallbacks"].to_string();
    assert!(
        told.contains("the last datagram left ") && told.contains("before the delay was made up"),
        "{told}"
    );
}

/// Four sends of twenty segments each, as a capture on the sender's machine has them.
#[test]
fn what_segmentation_has_joined_is_split_or_told() {
    let joined: Vec<Packet> = (0..4).map(|number| (number * 10_000_000, 42 + 24_000)).collect();
    let file = Recording::named("joined.pcap", &captures::pcap(LITTLE, false, 64, &joined));
    let (places, sent) = places(file.path(), "--segment 1200", 80);
    let expected: Vec<(Duration, usize)> =
        (0..80).map(|number| (Duration::from_millis(number / 20 * 10), 1_200)).collect();
    assert_eq!(places, expected);
    let counts = |sent: &Value| ["packets", "split", "oversized"].map(|key| sent["recording"][key].clone());
    assert_eq!((counts(&sent), &sent["sent"]), ([80, 4, 0].map(Value::from), &80.into()));
    assert_eq!((changes(&sent).len(), &sent["config"]["segment_bytes"]), (0, &1_200.into()));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let words = format!("replay {} {} --no-handshake --json", file.path(), socket.local_addr().unwrap());
    let whole: Value = serde_json::from_slice(&run(&words).stdout).unwrap();
    assert_eq!(counts(&whole), [4, 0, 4].map(Value::from));
    let told = changes(&whole)[0];
    assert!(told.starts_with("4 of 4 packets: longer than") && told.contains("--segment BYTES"), "{told}");
    for wrong in ["511", "65508", "x"] {
        refusal(&run(&format!("{words} --segment {wrong}")), 2);
    }
}

#[test]
fn a_pipe_is_a_file() {
    let packets = packets();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let words = format!("replay - {} --no-handshake --speed 100x --json", socket.local_addr().unwrap());
    let mut sender = command(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let bytes = captures::pcapng(BIG, &[MICROSECONDS], 1_000_000, &packets);
    sender.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = sender.wait_with_output().unwrap();
    let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&sent["recording"]["packets"], &sent["recording"]["format"]), (&80.into(), &"pcapng".into()));
}

/// A change to the recording is told: to scripts and to people.
#[test]
fn changes_are_told() {
    let file = Recording::named("changes.csv", b"0,20\n5,70000\n4,100\n");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let words = format!("replay {} {} --no-handshake --clamp", file.path(), socket.local_addr().unwrap());
    let sent: Value = serde_json::from_slice(&run(&format!("{words} --json")).stdout).unwrap();
    let changed = &sent["recording"];
    assert_eq!([&changed["lengthened"], &changed["cut"], &changed["out_of_order"]], [1, 1, 1], "{changed}");
    assert_eq!(changes(&sent).len(), 3, "{}", sent["fallbacks"]);
    let text = String::from_utf8(run(&words).stdout).unwrap();
    for part in [
        "3 packets in ",
        "note: 1 of 3 packets: shorter than a header of ours",
        "65507 bytes of each",
        "late at the end",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let assertion = run(&format!("{words} --assert recording.cut<1"));
    assert_eq!(assertion.status.code(), Some(1), "{}", stderr(&assertion));
}

#[test]
fn bad_input_is_one_line() {
    let cut = Recording::named("cut.pcap", &captures::pcap(LITTLE, false, 64, &packets())[..1_000]);
    let empty = Recording::named("empty.csv", b"");
    let long = Recording::named("long.csv", b"0,100\n1,65508\n");
    let rows = Recording::named("rows.csv", b"t_us,len\n0,100\n0.5;100\n\x1b[2J");
    let good = Recording::named("good.csv", b"0,100\n40,100\n");
    for (words, parts) in [
        (format!("{} 127.0.0.1:9", cut.path()), &[cut.path(), "byte 984: the file ends in a packet"][..]),
        (format!("{} 127.0.0.1:9", empty.path()), &[empty.path(), "byte 0: the file is empty"]),
        (
            format!("{} 127.0.0.1:9", long.path()),
            &["byte 6, line 2: a packet of 65508 bytes", "at most 65507", "--clamp"],
        ),
        (format!("{} 127.0.0.1:9", rows.path()), &["byte 15, line 3: '0.5;100'", "t_us,len"]),
        ("/nowhere/at.all 127.0.0.1:9".to_owned(), &["file '/nowhere/at.all'", "No such file"]),
        ("/tmp 127.0.0.1:9".to_owned(), &["file '/tmp'", "byte 0: cannot be read", "directory"]),
        (format!("{} 239.1.2.3:9", good.path()), &["239.1.2.3:9", "a multicast address"]),
        (format!("{} 127.0.0.1:9 --speed 2", good.path()), &["'2'", "no unit", "2x or 0.5x"]),
        (format!("{} 127.0.0.1:9 --speed 1001x", good.path()), &["'1001x'", "at most 1000x"]),
        (format!("{} 127.0.0.1:9 --flows 2", good.path()), &["unexpected argument '--flows'"]),
        (format!("{} 127.0.0.1:9 --timer off", good.path()), &["--timer off", "nothing of the recording"]),
        (
            format!("{} 127.0.0.1:9 --burst-interval 41us", good.path()),
            &["--burst-interval 41us", "at most 40us"],
        ),
        (format!("{} 127.0.0.1:9 --headers many", good.path()), &["'many'"]),
        (format!("{} 127.0.0.1:9 --assert skw_ns<5", good.path()), &["no key skw_ns", "skew_ns"]),
    ] {
        let message = refusal(&run(&format!("replay {words}")), 2);
        for part in parts {
            assert!(message.contains(part), "`{words}`: {part:?} is not in {message:?}");
        }
    }
}

#[test]
fn a_replay_can_be_streamed() {
    let file = Recording::named("streamed.csv", b"0,100\n1000,200\n3000,100\n");
    let output =
        run(&format!("replay {} 127.0.0.1:9 --no-handshake --json-stream --catch-up all", file.path()));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (_, report) = common::streamed(&output.stdout, "replay", "sent");
    assert_eq!((&report["sent"], &report["recording"]["packets"]), (&3.into(), &3.into()));
}
