//! Several flows from one socket, and several datagrams in one go: all of them arrive, and each flow has its
//! share.

mod common;

use common::{pair, ran_over, refusal, run, skipped, stderr};
use serde_json::Value;

/// 20 × 500 a second. Nothing is given up, so whatever the machine does meanwhile, all of it is sent.
#[test]
fn each_flow_has_its_share_and_all_of_them_arrive() {
    for timer in ["soft", "loop", "thread"] {
        let (sent, received) =
            pair(&format!("--rate 500pps --flows 20 --count 10000 --size 64 --catch-up all --timer {timer}"));
        if ran_over(&received) {
            continue;
        }
        assert_eq!((&sent["sent"], &sent["forfeited"]), (&10_000.into(), &0.into()), "{timer}");
        assert_eq!((&received["received"], &received["lost"]), (&10_000.into(), &0.into()), "{timer}");
        assert_eq!((&received["reordered"], &received["duplicated"]), (&0.into(), &0.into()), "{timer}");
        assert_eq!((&sent["config"]["flows"], &received["flows"]), (&20.into(), &20.into()), "{timer}");
        assert_eq!(
            (&sent["target_pps"], &sent["config"]["target_interval_ns"]),
            (&10_000.0.into(), &2_000_000.into())
        );
        assert_eq!((&sent["gap_ns"]["count"], &sent["late_ns"]["count"]), (&9_980.into(), &10_000.into()));

        assert_alike(&sent);
        let flows = received["per_flow"].as_array().unwrap();
        assert_eq!(flows.len(), 20);
        for flow in flows {
            let count = flow["received"].as_u64().unwrap();
            // The run ends with the last of all; a flow may be ahead by what another one is late.
            let late = sent["late_ns"]["max"].as_u64().unwrap() / 2_000_000;
            assert!(count.abs_diff(500) <= 10 + late, "{timer}: {late} behind at the most; {flow}");
            assert_eq!((&flow["lost"], &flow["ended"]), (&0.into(), &true.into()), "{timer}: {flow}");
        }
        assert!(sent["packets_per_turn"].as_f64().unwrap() >= 1.0, "{timer}");
        assert!(sent["longest_train"].as_u64().unwrap() >= 1, "{timer}");
    }
}

/// A turn that finds five due sends five, and each flow keeps its own rate: 20 × 500 a second, looked for twice
/// a millisecond.
#[test]
fn what_is_due_of_several_flows_leaves_in_one_turn() {
    let (sent, received) =
        pair("--rate 500pps --flows 20 --count 10000 --size 64 --catch-up all --slack 500us");
    if ran_over(&received) {
        return;
    }
    assert_eq!((&received["received"], &received["lost"]), (&10_000.into(), &0.into()));
    assert!(sent["packets_per_turn"].as_f64().unwrap() > 2.0, "{}", sent["packets_per_turn"]);
    assert_alike(&sent);
}

/// Fifty are due in each turn that the slack allows, and none of them is in a longer train for it, whatever else
/// holds the sender up: trains are apart by the sender's own clock.
#[test]
fn what_is_due_of_many_flows_leaves_in_short_trains() {
    for (flags, most) in [("", 8), (" --train 3 --timer loop", 3)] {
        let slack = if most == 8 { " --slack 5ms" } else { "" };
        let (sent, received) =
            pair(&format!("--rate 50pps --flows 200 --count 3000 --size 64 --catch-up all{slack}{flags}"));
        if ran_over(&received) {
            continue;
        }
        assert_eq!((&received["received"], &received["lost"]), (&3_000.into(), &0.into()), "{flags}");
        assert_eq!(sent["config"]["train"], most, "{flags}");
        assert!(sent["longest_train"].as_u64().unwrap() <= most, "{flags}: {}", sent["longest_train"]);
        assert!(sent["packets_per_turn"].as_f64().unwrap() <= most as f64, "{flags}");
    }
}

/// Flows that begin together are due together, and the receiver sees them as one train; others are not.
#[test]
fn the_phase_decides_what_leaves_together() {
    let flags = "--rate 50pps --flows 40 --count 800 --size 64 --catch-up all";
    let (sent, received) = pair(&format!("{flags} --phase together"));
    if ran_over(&received) {
        return;
    }
    assert_eq!((&sent["config"]["phase"], &sent["config"]["train"]), (&"together".into(), &Value::Null));
    assert!(sent["packets_per_turn"].as_f64().unwrap() > 30.0, "{}", sent["packets_per_turn"]);
    assert!(received["over_flows"]["longest_train"].as_u64().unwrap() >= 30, "{}", received["over_flows"]);
    assert_eq!((&received["received"], &received["lost"]), (&800.into(), &0.into()));

    let (sent, received) = pair(&format!("{flags} --phase random --seed 7"));
    assert_eq!((&sent["config"]["phase"], &sent["seed"]), (&"random".into(), &7.into()));
    if sent["late_ns"]["max"].as_u64() > Some(50_000_000) {
        // As late as that, all of them are due at once, wherever they began.
        return skipped(&format!("the machine stood still in a run of 0.4 s: {}", sent["late_ns"]));
    }
    assert!(sent["packets_per_turn"].as_f64().unwrap() < 30.0, "{}", sent["packets_per_turn"]);
    let rate = &received["over_flows"]["rate_pps"];
    let [slowest, fastest] = ["min", "max"].map(|end| rate[end].as_f64().unwrap());
    assert!(slowest > 25.0 && slowest <= fastest && fastest < 100.0, "{rate}");
}

/// Whatever stalls the machine stalls all flows alike, so their shares differ by a datagram or two of 500; by more
/// if the stall comes at the end, when each has begun another train of what it is behind. How far all of them are
/// behind is the machine's affair.
fn assert_alike(sent: &Value) {
    let [min, max] = ["min", "max"].map(|end| sent["flow_share"][end].as_f64().unwrap());
    // So long behind, each catches up in trains as long.
    let behind = sent["late_ns"]["max"].as_u64() > Some(100_000_000);
    let least = if behind { 0.5 } else { 0.85 };
    assert!(min > least * max && min > 0.0 && max < 1.01, "{}", sent["flow_share"]);
}

/// More are due in each moment than one turn takes, and more than the receiver shows one by one.
#[test]
fn hundreds_of_flows_leave_many_in_a_turn() {
    let (sent, received) = pair("--rate 20pps --flows 300 --count 900 --size 64 --catch-up all --slack 20ms");
    if ran_over(&received) {
        return;
    }
    assert_eq!(
        (&sent["sent"], &received["received"], &received["lost"]),
        (&900.into(), &900.into(), &0.into())
    );
    assert_eq!(received["flows"], 300);
    assert!(sent["packets_per_turn"].as_f64().unwrap() > 1.5, "{}", sent["packets_per_turn"]);
    assert_eq!(received["per_flow"].as_array().unwrap().len(), 64);
    let over = &received["over_flows"];
    assert_eq!((&over["count"], &over["ended"], &over["lost"]["max"]), (&300.into(), &300.into(), &0.into()));
    assert_eq!((&over["received"]["count"], &over["gap_stddev_ns"]["count"]), (&300.into(), &300.into()));
}

/// The object of a run that has this value: a machine that stands still between the sender's clock check and its send lets
/// the next datagram fall due in the same turn, and then there is another run.
fn undisturbed(flags: &str, key: &str, value: &Value) -> Value {
    let mut seen = vec![];
    for _ in 0..5 {
        let (sent, _) = pair(flags);
        if sent[key] == *value {
            return sent;
        }
        seen.push(sent[key].clone());
    }
    panic!("{flags}: {key} is never {value}: {seen:?}");
}

/// One flow is what it was, and says so in the same keys.
#[test]
fn one_flow_shares_with_nobody() {
    let sent = undisturbed("--interval 1ms --count 20 --size 64", "packets_per_turn", &1.0.into());
    assert_eq!(sent["config"]["flows"], 1);
    assert_eq!(sent["flow_share"], serde_json::json!({ "min": null, "max": null }));
    assert_eq!(sent["longest_train"], sent["longest_burst"]);
}

/// Eight at a time take an eighth of the calls, by whatever way, and are the same datagrams.
#[test]
fn a_quantum_takes_fewer_calls_and_loses_nothing() {
    for (flags, segmented) in [
        ("--timer soft", true),
        ("--timer loop", true),
        ("--timer thread", true),
        ("--timer soft --no-gso", false),
    ] {
        let (sent, received) =
            pair(&format!("--rate 2kpps --quantum 8 --count 800 --size 200 --catch-up all {flags}"));
        assert_eq!((&sent["sent"], &sent["forfeited"]), (&800.into(), &0.into()), "{flags}");
        assert_eq!((&received["received"], &received["lost"]), (&800.into(), &0.into()), "{flags}");
        assert_eq!((&received["reordered"], &received["duplicated"]), (&0.into(), &0.into()), "{flags}");
        assert_eq!((&sent["system_calls"], &sent["packets_per_call"]), (&100.into(), &8.0.into()), "{flags}");
        assert_eq!(sent["packets_per_turn"], 8.0, "{flags}");
        assert_eq!(sent["segmented"], if segmented { 800 } else { 0 }, "{flags}: {}", sent["fallbacks"]);
        assert_eq!(
            (&sent["config"]["quantum_packets"], &sent["config"]["gso"]),
            (&8.into(), &segmented.into())
        );
        // Seven of eight gaps are within a train, which the report does not hide.
        assert_eq!((&sent["gap_ns"]["count"], &sent["longest_burst"]), (&799.into(), &8.into()), "{flags}");
        assert!(sent["back_to_back"].as_f64().unwrap() > 0.85, "{flags}: {}", sent["back_to_back"]);
        assert_eq!(sent["flow_share"], serde_json::json!({ "min": null, "max": null }), "{flags}");
    }
}

/// Unless one is asked for, each datagram of a flow is a call of its own, as it always was.
#[test]
fn without_a_quantum_each_datagram_of_a_flow_is_a_call() {
    for timer in ["soft", "timerfd", "signal"] {
        let flags = format!("--rate 1kpps --count 100 --size 200 --catch-up all --timer {timer}");
        let sent = undisturbed(&flags, "system_calls", &100.into());
        assert_eq!(sent["sent"], 100, "{timer}");
        assert_eq!((&sent["packets_per_call"], &sent["segmented"]), (&1.0.into(), &0.into()), "{timer}");
        assert_eq!(sent["config"]["quantum_packets"], 1, "{timer}");
    }
}

/// A time is worth what the rate makes of it, 4 of 400 a second in 10 ms, and each of several flows has its own
/// quantum.
#[test]
fn flows_have_a_quantum_each() {
    for timer in ["soft", "loop"] {
        let (sent, received) = pair(&format!(
            "--rate 400pps --flows 20 --count 4000 --size 64 --quantum 10ms --catch-up all --timer {timer}"
        ));
        if ran_over(&received) {
            continue;
        }
        assert_eq!(sent["config"]["quantum_packets"], 4, "{timer}");
        assert_eq!((&received["received"], &received["lost"]), (&4_000.into(), &0.into()), "{timer}");
        assert_eq!((&received["reordered"], &received["duplicated"]), (&0.into(), &0.into()), "{timer}");
        assert!(sent["system_calls"].as_u64().unwrap() <= 1_000, "{timer}: {}", sent["system_calls"]);
        assert_eq!(sent["segmented"], 4_000, "{timer}");
        for flow in received["per_flow"].as_array().unwrap() {
            let count = flow["received"].as_u64().unwrap();
            // As above.
            let late = sent["late_ns"]["max"].as_u64().unwrap() / 2_500_000;
            assert!(count.abs_diff(200) <= 8 + late, "{timer}: {late} behind at the most; {flow}");
        }
    }
}

/// On loopback nothing keeps release times, unless somebody gave it a queue that does. The refusal is one
/// line, and nothing but a few questions is sent.
#[test]
fn the_kernel_paces_only_where_it_was_seen_to() {
    let receiver = common::Receiver::start("--once");
    let output = run(&format!("send {} --rate 1kpps --count 50 --timer kernel", receiver.address));
    if output.status.success() {
        let (_, received, _) = receiver.finish();
        assert_eq!((&received["received"], &received["lost"]), (&50.into(), &0.into()));
        return skipped("release times are kept on loopback here: nothing is refused");
    }
    let message = refusal(&output, 77);
    if ["kept from its CPU", "too late"].iter().any(|part| message.contains(part)) {
        // Nothing came that would end the receiver; it goes with the test.
        return skipped(&message);
    }
    for part in ["--timer kernel", &receiver.address.to_string(), "too early", "fq"] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    let sent = run(&format!("send {} --rate 1kpps --count 50 --size 64", receiver.address));
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    let (exit, received, _) = receiver.finish();
    assert_eq!((exit, &received["received"], &received["lost"]), (Some(0), &50.into(), &0.into()));
}
