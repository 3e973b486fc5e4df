//! `send --pattern`: what a receiver sees of it, and what makes it repeatable.

mod common;

use std::net::UdpSocket;
use std::time::Duration;

use common::{command, stderr};
use serde_json::Value;
use softtimers_core::Timestamp;
use softtimers_load::wire::Datagram;

/// Sends all of it to a fresh receiver; returns what both say.
fn pair(flags: &str) -> (Value, Value) {
    common::pair(&format!("--busy none --catch-up all {flags}"))
}

/// The places that the datagrams of a run state, from the first one on, and the run's object. They wait
/// in the socket's buffer, which has room for some two hundred.
fn places(flags: &str, count: usize) -> (Vec<Duration>, Value) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let address = socket.local_addr().unwrap();
    let words =
        format!("send {address} --no-handshake --json --catch-up all --count {count} --size 64 {flags}");
    let sender = command(&words).output().unwrap();
    assert_eq!(sender.status.code(), Some(0), "{flags}: {}", stderr(&sender));
    let mut packet = [0; 64];
    let mut next = || {
        let length = socket.recv(&mut packet).unwrap();
        match Datagram::parse(&packet[..length]) {
            Ok(Datagram::Data { scheduled, .. }) => scheduled,
            other => panic!("{other:?}"),
        }
    };
    let scheduled: Vec<Timestamp> = (0..count).map(|_| next()).collect();
    let places = scheduled.iter().map(|place| place.saturating_duration_since(scheduled[0])).collect();
    (places, serde_json::from_slice(&sender.stdout).unwrap())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Deviation over mean is 0 for an even flow and 1 for a random one. What lateness adds to a gap is the
/// difference of two, so by the triangle inequality the deviation is off by no more than twice theirs.
#[test]
fn a_random_flow_is_random_at_its_receiver() {
    let (sent, received) = pair("--interval 1ms --count 2000 --pattern poisson --seed 11");
    assert_eq!((&sent["sent"], &received["received"]), (&2_000.into(), &2_000.into()));
    assert_eq!((&sent["config"]["pattern"], &sent["seed"]), (&"poisson".into(), &11.into()));
    let deviation = number(&sent["gap_ns"]["stddev"]);
    let disturbance = 2.0 * number(&sent["late_ns"]["stddev"]);
    assert!((deviation - 1e6).abs() < 1e5 + disturbance, "{deviation} with {disturbance}");
    let gaps = &received["gap_ns"];
    assert!(number(&gaps["stddev"]) > 0.6 * number(&gaps["mean"]), "{gaps}");
    // Of random gaps 39% are shorter than half their mean, of even ones none.
    let share = number(&received["back_to_back"]);
    // What is late is made up in small gaps.
    assert!(share > 0.2 && (share < 0.6 || number(&sent["late_ns"]["max"]) > 2e7), "{share}");
    assert_eq!(sent["target_pps"], 1_000.0);
}

/// Trains of 20 ms, 80 ms apart: one gap in twenty is the silence, the others are the interval.
#[test]
fn silence_shows_between_trains() {
    let (sent, received) = pair("--interval 1ms --count 400 --pattern onoff:20ms/80ms");
    assert_eq!((&sent["sent"], &received["received"]), (&400.into(), &400.into()));
    assert_eq!((&sent["config"]["pattern"], &sent["target_pps"]), (&"onoff:20ms/80ms".into(), &200.0.into()));
    assert_eq!(sent["config"]["target_interval_ns"], 1_000_000);
    assert!(sent.get("seed").is_none(), "nothing here is random");
    let gaps = &received["gap_ns"];
    assert!(number(&gaps["max"]) >= 40e6, "{gaps}");
    assert!(number(&gaps["p50"]) < 20e6 && number(&gaps["p99"]) >= 40e6, "{gaps}");
    assert!(number(&gaps["mean"]) > 2.0 * number(&gaps["p50"]), "{gaps}");
}

/// Places are a matter of seed and rate, not of the run; a number that was chosen is told.
#[test]
fn a_seed_repeats_a_run() {
    let flags = "--interval 200us --pattern poisson";
    let (chosen, sent) = places(flags, 150);
    let seed = sent["seed"].as_u64().expect("a seed was chosen");
    let (again, _) = places(&format!("{flags} --seed {seed}"), 150);
    assert_eq!(chosen, again);
    let (other, _) = places(&format!("{flags} --seed {}", seed + 1), 150);
    assert_ne!(chosen, other);
}

#[test]
fn places_of_trains_are_inside_their_on_periods() {
    let (places, _) = places("--interval 300us --pattern onoff:1ms/4ms", 40);
    for (count, place) in (0..).zip(&places) {
        assert_eq!(*place, Duration::from_micros(count / 4 * 5_000 + count % 4 * 300));
    }
}

/// Each timer engine drives the same flow, so each sends the pattern.
#[test]
fn every_timer_sends_every_pattern() {
    for timer in ["soft", "loop", "pwait2", "ms", "timerfd", "signal", "thread", "spin"] {
        for pattern in ["constant", "poisson --seed 1", "onoff:2ms/10ms"] {
            let (sent, received) =
                pair(&format!("--interval 500us --count 60 --timer {timer} --pattern {pattern}"));
            assert_eq!((&sent["sent"], &received["received"]), (&60.into(), &60.into()), "{timer} {pattern}");
            assert_eq!(sent["forfeited"], 0, "{timer} {pattern}");
        }
    }
}

#[test]
fn people_are_told_the_seed() {
    let output = common::run("send 127.0.0.1:9 --interval 1ms --count 3 --pattern poisson --seed 5");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nrandom: --seed 5 repeats it\n"), "{text}");
    let even = common::run("send 127.0.0.1:9 --interval 1ms --count 3");
    assert!(!String::from_utf8(even.stdout).unwrap().contains("seed"));
}
