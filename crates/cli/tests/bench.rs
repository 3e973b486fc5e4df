//! `bench` against real sockets: every datagram is accounted for, whatever drives the receiver; and what is asserted is
//! what one run says about itself, for this machine's rates are others a second later.

mod common;

use common::{refusal, run, skipped, stderr};
use serde_json::Value;

/// The object of a run that went well.
fn bench(flags: &str) -> Value {
    let output = run(&format!("bench --json {flags}"));
    assert_eq!(output.status.code(), Some(0), "{flags}: {}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(report["schema"], "softtimers.bench/1");
    assert!(report["machine"]["kernel"].is_string(), "{report}");
    report
}

fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} of {value}"))
}

fn points_of(report: &Value) -> &Vec<Value> {
    report["points"].as_array().expect("points")
}

/// The datagrams sent came or ran over the receive buffer; those that came were delivered or dropped at one of three
/// places.
fn adds_up(point: &Value) {
    let [received, delivered] = ["/received", "/delivered"].map(|key| count(point, key));
    let [ring, rule, queue, output] =
        ["ring", "rule", "queue", "output"].map(|stage| count(point, &format!("/dropped/{stage}")));
    assert_eq!(count(point, "/sent"), received + ring, "{point}");
    assert_eq!(received, delivered + rule + queue + output, "{point}");
    let late = count(point, "/late");
    assert!(count(point, "/latency_ns/count") <= delivered - late, "{point}");
    let in_time = point["delivered_pps"].as_f64().unwrap() * point["trial_s"].as_f64().unwrap();
    assert!((in_time - (delivered - late) as f64).abs() < 0.5, "{point}");
    assert!(point["loss_free"] == false || delivered == count(point, "/sent"), "{point}");
    assert_eq!(rule, 0, "the filter lets everything pass: {point}");
}

/// A trickle and a flood, which the smallest of buffers does not hold.
const FLOOD: &str = "--trial 60ms --work 4000 --recv-buffer 64KiB --at 2kpps,250kpps";

#[test]
fn every_datagram_is_accounted_for_in_every_mode() {
    for mode in ["hybrid", "interrupt", "poll", "hip", "naive"] {
        for stages in [1, 2] {
            let report = bench(&format!("--mode {mode} --stages {stages} {FLOOD}"));
            let points = report["points"].as_array().expect("points");
            assert_eq!(points.len(), 2);
            points.iter().for_each(adds_up);
            assert!(count(&points[0], "/delivered") > 0, "{report}");
            assert!(report["mlfrr_pps"].is_null() && report["capacity_pps"].is_null(), "{report}");
        }
    }
}

/// A queue of 1,024 is shut at three quarters and has room for the quota of 64 above that: what is too much is dropped
/// before anything was done for it. Only a second stage that the system leaves without a CPU for longer than
/// the time-out finds a quota more each time.
#[test]
fn with_feedback_nothing_is_dropped_behind_the_receive_buffer() {
    for nice in ["", "--nice 19"] {
        let report = bench(&format!("--stages 2 --burst 4 {nice} {FLOOD}"));
        for point in report["points"].as_array().expect("points") {
            let [queue, output] = ["queue", "output"].map(|at| count(point, &format!("/dropped/{at}")));
            let [shut, resumed, timed_out] =
                ["shut", "resumed", "timed_out"].map(|key| count(point, &format!("/feedback/{key}")));
            assert!(queue <= 64 * timed_out && output == 0, "{point}");
            assert!(shut == resumed + timed_out, "what was shut was opened, for all of it came out: {point}");
        }
        let flood = &report["points"][1];
        // The smallest of buffers and the queue have room for less than 2,000.
        let fits = 2_000.0 + taken_in(flood["trial_s"].as_f64().unwrap(), &report);
        if (count(flood, "/sent") as f64) < fits {
            skipped(&format!("the machine stood still: {} were sent, of which {fits:.0} fit", flood["sent"]));
            continue;
        }
        assert!(count(flood, "/dropped/ring") > 0, "{report}");
    }
}

/// The most datagrams that the work on each lets a receiver take in these seconds.
fn taken_in(seconds: f64, report: &Value) -> f64 {
    let [before, after] = ["/work_ns", "/work_after_ns"].map(|key| count(report, key));
    seconds * 1e9 / before.min(after) as f64
}

#[test]
fn a_search_finds_a_rate_and_multiples_of_the_capacity_are_offered() {
    let report = bench("--trial 400 --work 10000 --rates 3,0.5 --assert search_trials>1");
    let capacity = report["capacity_pps"].as_f64().expect("a search");
    if capacity == 0.0 {
        return skipped("the machine stood still: in no trial was a datagram sent on in time");
    }
    let offered = points_of(&report).iter().map(|point| point["offered_pps"].as_f64().unwrap());
    let highest = offered.reduce(f64::max).expect("points") / capacity;
    assert!((report["highest_multiple"].as_f64().unwrap() - highest).abs() < 1e-6, "{report}");
    // A rate that lost datagrams in the longer trial is no loss-free rate: then there is none.
    let mlfrr = &report["mlfrr_pps"];
    assert!(mlfrr.is_null() || mlfrr.as_u64().is_some_and(|rate| rate > 0), "{report}");
    let lost_below = points_of(&report).iter().find(|point| {
        let offered = point["offered_pps"].as_f64().unwrap();
        mlfrr.as_f64().is_some_and(|mlfrr| offered <= mlfrr) && point["loss_free"] == false
    });
    assert!(lost_below.is_none() || report["inconclusive"].is_string(), "{report}");
    let points = points_of(&report);
    points.iter().for_each(adds_up);
    let multiples: Vec<f64> = points.iter().filter_map(|point| point["multiple"].as_f64()).collect();
    assert_eq!(multiples, [0.5, 3.0], "in order");
    for point in points {
        let target = point["multiple"].as_f64().unwrap() * capacity;
        assert!((point["target_pps"].as_f64().unwrap() - target).abs() < 1.0, "{point}");
    }
    // Throughput, latency and jitter, stability, and what is left to others: `null` only where there was nothing to see.
    for point in points {
        let in_time = count(point, "/latency_ns/count") > 0;
        for key in ["p50", "p99", "stddev"] {
            assert_eq!(point["latency_ns"][key].is_number(), in_time, "{key}: {report}");
        }
        assert_eq!(point["timer_share"].is_number(), point["trial_s"].as_f64() >= Some(0.02), "{report}");
        for key in ["/delivered_pps", "/cpu_share", "/livelock/episodes"] {
            assert!(point.pointer(key).is_some_and(Value::is_number), "{key}: {report}");
        }
    }
    let of_all = |pointer: &str, choose: fn(f64, f64) -> f64| {
        points.iter().filter_map(|point| point.pointer(pointer)?.as_f64()).reduce(choose)
    };
    assert_eq!(report["timer_share"].as_f64(), of_all("/timer_share", f64::min), "{report}");
    assert_eq!(report["stalled_share"].as_f64(), of_all("/livelock/stalled_share", f64::max), "{report}");
    assert!(report["curve"]["asymptote_share"].is_number(), "{report}");
    let known = ["ideal", "realisable", "livelock"];
    assert!(known.iter().any(|known| report["curve"]["behaviour"] == *known), "{report}");
    assert_eq!(report["config"]["trial_datagrams"], 400);
    assert_eq!(count(&report, "/config/rules"), 10_000);
    assert!(count(&report, "/work_ns") > 0 && count(&report, "/work_after_ns") > 0, "{report}");
}

/// Five hundred datagrams in 100 ms, for a receiver that takes a millisecond or two of computation for each: the receive buffer
/// has room for them, and they come out for a second afterwards.
#[test]
fn what_a_buffer_absorbs_is_neither_loss_free_nor_the_peak() {
    let report = bench("--work 400000 --at 100pps,5kpps --trial 100ms --recv-buffer 4MiB");
    let points = report["points"].as_array().expect("points");
    points.iter().for_each(adds_up);
    let flooded = &points[1];
    let [sent, late, ring] = ["/sent", "/late", "/dropped/ring"].map(|key| count(flooded, key));
    let fits = taken_in(flooded["trial_s"].as_f64().unwrap(), &report);
    let [trickle, flood] = [0, 1].map(|n| points[n]["offered_pps"].as_f64().unwrap());
    if (sent as f64) < 4.0 * fits || flood < 2.0 * trickle.max(fits * 10.0) {
        return skipped(&format!("the machine stood still: {sent} were sent, of which {fits:.0} fit"));
    }
    assert_eq!(flooded["loss_free"], false, "{report}");
    // Within the trial a turn of 64 leaves, or two.
    assert!(late + ring > sent / 2, "{report}");
    let curve = &report["curve"];
    let peak = points.iter().map(|point| {
        let key = if point["loss_free"] == true { "offered_pps" } else { "delivered_pps" };
        point[key].as_f64().unwrap() as u64
    });
    assert_eq!(count(curve, "/peak_pps"), peak.max().unwrap(), "{report}");
    assert_ne!(curve["behaviour"], "ideal", "{report}");
    assert!((count(curve, "/loss_free_pps") as f64) < flood, "{report}");
}

#[test]
fn a_limited_receiver_is_shut_and_leaves_something_to_a_computation() {
    let flags = "--cpu-limit 10% --beside compute --trial 300ms --work 4000 --at 250kpps";
    let report = bench(flags);
    let point = &report["points"][0];
    adds_up(point);
    // A receiver that others keep from its CPU needs no limit.
    let kept_from_it = point["cpu_share"].as_f64().unwrap() < 0.1;
    assert!(count(point, "/cpu_limited") > 0 || kept_from_it, "{report}");
    // Beside programs of others, which the report names, it may get nothing in so short a time.
    let kept = point["beside_share"].as_f64().unwrap() > 0.0;
    assert!(kept || report["inconclusive"].is_string(), "{report}");
    assert_eq!(report["config"]["cpu_limit"], 0.1);
}

#[test]
fn an_idle_receiver_has_received_nothing() {
    let report = bench("--at 0pps --trial 100ms --assert points.0.received==0 --assert points.0.sent==0");
    let point = &report["points"][0];
    adds_up(point);
    assert!(point["timer_share"].is_number() && point["wakeups_per_packet"].is_null(), "{report}");
}

#[test]
fn people_get_a_table_with_the_curve() {
    let output = run("bench --at 1kpps,2kpps,4kpps --trial 40ms");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for word in ["offered", "delivered", "left", "overload", "20 ms timer", "|", "*"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    // The machine's name may be long, and sentences are not broken.
    let ours = text
        .lines()
        .skip(2)
        .take_while(|line| !line.starts_with("inconclusive") && !line.starts_with("note"));
    assert!(ours.into_iter().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn what_does_not_hold_is_told_by_the_exit_code() {
    let output = run("bench --at 1kpps --trial 40ms --json --assert points.0.sent==0");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("points.0.sent==0' does not hold"), "{}", stderr(&output));
}

#[test]
fn bad_input_is_refused_before_anything_is_measured() {
    for (flags, named) in [
        ("--stages 3", "3"),
        ("--mode eager", "eager"),
        ("--work 10us", "0 to 10000000 rules, not a time"),
        ("--work 10000001", "0 to 10000000 rules"),
        ("--burst 65", "65"),
        ("--burst 0", "0"),
        ("--quota 0", "0"),
        ("--mode naive --quota 5", "--quota 5: --mode naive has none"),
        ("--mode naive --cpu-limit 50%", "--cpu-limit: --mode naive keeps none"),
        ("--mode naive --max-delay 1ms", "--max-delay: for --mode poll, hip, hybrid, "),
        ("--mode hip --aggregate 5", "--aggregate: for --mode poll and hybrid"),
        ("--hip gamma=2", "--hip: for --mode hip"),
        ("--mode hip --hip alpha=1.5", "alpha=1.5: a number from 0 to 1"),
        ("--mode hip --hip delta=2", "'delta': gamma, phi, alpha, beta, unsuccessful"),
        ("--cpu-limit 0%", "--cpu-limit 0%: 1% to 100%"),
        ("--cpu-limit 101%", "101%"),
        ("--nice 5", "--nice: for --stages 2"),
        ("--stages 2 --nice 20", "20"),
        ("--trial 10ms", "20ms to 60s"),
        ("--trial 99", "100 to 100000000 datagrams"),
        ("--rates 101", "from 0 to 100"),
        ("--rates 1,,2", "from 0 to 100"),
        ("--at 1Mbit", "0pps to 100Mpps"),
        ("--at 1kpps --rates 1", "--rates"),
        ("--recv-buffer 1KiB", "--recv-buffer 1024B: 4KiB to 1GiB"),
        ("--assert nothing>1", "nothing"),
        ("--assert points.9.sent>1 --at 1kpps", "points.9.sent"),
    ] {
        let message = refusal(&run(&format!("bench {flags}")), 2);
        assert!(message.contains(named), "{flags}: {message}");
    }
}
