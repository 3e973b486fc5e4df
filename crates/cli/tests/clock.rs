//! `send --clock tsc`: the same traffic by another clock, or a refusal that says why.

mod common;

use std::fs;
use std::process::Command;

use common::{Receiver, command, refusal, skipped, stderr};
use serde_json::Value;
use softtimers::Tsc;

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

#[test]
fn both_accounts_agree_by_the_time_stamp_counter() {
    if let Err(reason) = Tsc::new() {
        return skipped(&reason.to_string());
    }
    for words in ["--timer soft", "--timer soft --busy compute", "--timer loop", "--timer timerfd"] {
        let receiver = Receiver::start("--once");
        let flags = "--clock tsc --interval 200us --count 300 --size 64 --catch-up all --json";
        let sender = command(&format!("send {} {flags} {words}", receiver.address)).output().unwrap();
        assert_eq!(sender.status.code(), Some(0), "{words}: {}", stderr(&sender));
        let (exit, received, last_words) = receiver.finish();
        assert_eq!(exit, Some(0), "{words}: {last_words}");
        let sent: Value = serde_json::from_slice(&sender.stdout).unwrap();
        assert_eq!(sent["config"]["clock"], "tsc");
        assert_eq!((&sent["sent"], &received["received"]), (&300.into(), &300.into()), "{words}");
    }
}

/// In a mount namespace whose kernel seems to keep time by something else.
#[test]
fn a_kernel_that_keeps_time_by_something_else_is_a_refusal() {
    let other = std::env::temp_dir().join(format!("softtimers-clock-source-{}", std::process::id()));
    fs::write(&other, "kvm-clock\n").unwrap();
    let script = format!("mount --bind \"$1\" {CLOCK_SOURCE} || exit 99; shift; exec \"$@\"");
    let refused = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, "sh"])
        .arg(&other)
        .args([common::PROGRAM, "send", "127.0.0.1:9", "--rate", "1kpps", "--clock", "tsc"])
        .output();
    fs::remove_file(&other).unwrap();
    let output = match refused {
        Ok(output) => output,
        Err(error) => return skipped(&format!("unshare: {error}")),
    };
    if output.status.code() == Some(99) || stderr(&output).starts_with("unshare: ") {
        return skipped(&format!("a mount namespace: {}", stderr(&output).trim_end()));
    }
    let reason = if cfg!(target_arch = "x86_64") {
        "the kernel keeps time by kvm-clock, not by the time stamp counter"
    } else {
        "only x86-64 has a time stamp counter"
    };
    let message = refusal(&output, 77);
    assert!(message.starts_with(&format!("softtimers: --clock tsc: {reason}")), "{message}");
}
