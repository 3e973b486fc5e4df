//! Short flags and bare seconds of the real command, and what it does without a flag.

mod common;

use std::fs;

use common::{Receiver, command, refusal, run, stderr};
use serde_json::Value;

#[test]
fn the_flags_of_iperf3_pace_and_end_a_run() {
    let receiver = Receiver::start("-i 2ms --once");
    let words = format!("send {} -b 500pps -t 10 -c 20 --json", receiver.address);
    let sent: Value = serde_json::from_slice(&run(&words).stdout).unwrap();
    let config = &sent["config"];
    assert_eq!((&sent["sent"], &config["target_interval_ns"]), (&20.into(), &2_000_000.into()), "{sent}");
    assert_eq!(config["duration_s"], 10.0, "{config}");
    let (exit, received, _) = receiver.finish();
    assert_eq!((exit, &received["config"]["interval_ns"]), (Some(0), &2_000_000.into()), "{received}");
}

#[test]
fn a_bare_time_is_seconds_for_every_run() {
    let recv: Value = serde_json::from_slice(&run("recv 127.0.0.1:0 -t 0.05 --json").stdout).unwrap();
    assert_eq!(recv["config"]["duration_s"], 0.05, "{recv}");
    for command in ["wan --listen", "forward --udp"] {
        let output = run(&format!("{command} 127.0.0.1:0 --to 127.0.0.1:9 -t 0.05"));
        assert_eq!(output.status.code(), Some(0), "{command}: {}", stderr(&output));
    }
}

/// As tcpdump has it, with a file of its own name.
#[test]
fn an_interface_is_enough_to_capture() {
    let directory = std::env::temp_dir().join(format!("softtimers-capture-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let capture =
        |words: &str| command(&format!("capture {words}")).current_dir(&directory).output().unwrap();
    let first = capture("-i lo -t 0.05 --json");
    if first.status.code() == Some(77) {
        common::skipped("no privilege to capture");
    } else {
        assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
        assert!(directory.join("lo.pcapng").is_file());
        let again = refusal(&capture("-i lo -t 0.05 --json"), 2);
        assert!(again.contains("lo.pcapng") && again.contains("--force"), "{again}");
        assert_eq!(capture("lo -t 0.05 --force --json").status.code(), Some(0));
    }
    assert!(refusal(&capture("-t 1"), 2).contains("--interface <INTERFACE>"));
    assert!(refusal(&capture("lo -i lo"), 2).contains("cannot be used with"));
    fs::remove_dir_all(directory).unwrap();
}
