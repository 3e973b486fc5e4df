//! Several timers of `send` in turn.

mod common;

use common::{Receiver, refusal, run, stderr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn json(words: &str) -> Value {
    let output = run(words);
    assert_eq!(output.status.code(), Some(0), "{words}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("an object")
}

#[test]
fn timers_are_compared_in_turn() {
    let receiver = Receiver::start("");
    let words = format!(
        "send {} -i 1ms -c 20 --timer ms,kernel,soft --rounds 6 --json --assert timers.soft.achieved_pps.median>0",
        receiver.address
    );
    let found = json(&words);
    assert_eq!(
        (&found["schema"], &found["config"]["rounds"]),
        (&"softtimers.send.rounds/1".into(), &6.into())
    );
    assert_eq!(found["config"]["timers"], serde_json::json!(["ms", "kernel", "soft"]));
    let (mut made, mut timers) = (0, 0);
    for timer in ["ms", "kernel", "soft"] {
        let over = &found["timers"][timer];
        if over.is_null() {
            // Without fq, it is skipped and said.
            let told = found["fallbacks"].to_string();
            assert!(timer == "kernel" && told.contains("skipped: --timer kernel"), "{told}");
            continue;
        }
        timers += 1;
        for key in ["achieved_pps", "gap_p50_ns", "gap_p99_ns", "back_to_back", "cpu_share"] {
            let rounds = over[key]["rounds"].as_array().unwrap();
            let within = over[key]["within"].as_array().unwrap();
            let [low, median, high] =
                [&within[0], &over[key]["median"], &within[1]].map(|of| of.as_f64().unwrap());
            assert!(rounds.len() == 6 && low <= median && median <= high, "{timer}: {key}: {over}");
        }
        made += 6 * 20;
    }
    assert!(found["best"]["cpu_share"].is_string() && timers >= 2, "{}", found["best"]);
    kill_process(Pid::from_raw(receiver.id() as i32).unwrap(), Signal::TERM).unwrap();
    let (_, received, _) = receiver.finish();
    assert!(common::ran_over(&received) || received["received"] == made, "{received}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    for (flags, told) in [
        ("--timer soft,lop", "'lop'"),
        ("--timer soft,soft", "--timer soft: given twice"),
        ("--timer soft --rounds 3", "--rounds 3: allowed with several timers"),
        ("--timer soft,ms --rounds 0", "0 is not in 1..=50"),
        ("--timer soft,ms --json-stream", "--json-stream: allowed with one --timer"),
        ("--timer soft,ms --trace /nowhere", "--trace: allowed with one --timer"),
        (
            "--timer soft,ms --rounds 50 --flows 164",
            "--flows 164: in 50 rounds of 2 timers they are 16400; at most 16384 are allowed",
        ),
        ("--timer soft,signal --flows 2", "--flows 2: only --flows 1 is allowed with --timer signal"),
    ] {
        let refused = refusal(&run(&format!("send 127.0.0.1:9 -i 1ms {flags}")), 2);
        assert!(refused.contains(told), "{flags}: {refused}");
    }
    let unknown = refusal(&run("send 127.0.0.1:9 -i 1ms --timer soft,lop"), 2);
    assert!(unknown.contains("soft, ") && unknown.contains("timerfd"), "what is allowed: {unknown}");
}

/// With one timer there is nothing to compare.
#[test]
fn one_timer_is_not_compared() {
    let receiver = Receiver::start("");
    let output = run(&format!("send {} -i 1ms -c 5 --timer kernel,soft --rounds 1 --json", receiver.address));
    if output.status.code() == Some(0) {
        return common::skipped("the queue of the interface is fq");
    }
    assert!(refusal(&output, 77).contains("--timer kernel"));
}

/// A receiver that ends after the first run ends the rounds, with what there is.
#[test]
fn rounds_end_with_their_receiver() {
    let receiver = Receiver::start("--once");
    let output = run(&format!("send {} -i 100us -c 50 --timer soft,ms --rounds 3 --json", receiver.address));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("nobody listens on that port"), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(found["timers"]["soft"]["achieved_pps"]["rounds"], serde_json::json!([]));
    drop(receiver.finish());
}
