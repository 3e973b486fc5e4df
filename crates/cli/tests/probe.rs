//! `doctor`'s costs, its features, and the range that follows from them: the real probes, by the real
//! command; by the real command.

mod common;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use common::{command, refusal, run, skipped, stderr};
use serde_json::Value;

const NAMES: [&str; 9] =
    ["epoll_pwait2", "gso", "gro", "so_txtime", "busy_poll", "af_packet", "af_xdp", "bpf", "eevdf_slice"];

/// A finding as the report has it: whether it works, and how.
#[track_caller]
fn finding(name: &str, output: &Output) -> (bool, String) {
    assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let how = found["how"].as_str().unwrap();
    assert!(found["name"] == name && !how.is_empty() && !how.contains('\n'), "{found}");
    (found["works"].as_bool().unwrap(), how.to_owned())
}

#[track_caller]
fn probe(name: &str) -> (bool, String) {
    finding(name, &run(&format!("probe-feature {name}")))
}

/// The interfaces of this machine.
fn interfaces() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir("/sys/class/net")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn every_feature_is_used_and_nothing_is_left_behind() {
    let before = interfaces();
    for name in NAMES {
        probe(name);
    }
    assert_eq!(interfaces(), before);
}

#[test]
fn unknown_features_are_refused_with_the_known_ones() {
    let message = refusal(&run("probe-feature sundial"), 2);
    assert!(message.contains("sundial") && NAMES.iter().all(|name| message.contains(name)), "{message}");
}

#[test]
fn nanosecond_waits_came_with_linux_5_11() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    match probe("epoll_pwait2") {
        (true, how) => assert!(version >= (5, 11), "{release}: {how}"),
        (false, how) if version < (5, 11) => assert!(how.contains("before 5.11"), "{how}"),
        (false, how) => skipped(&format!("Linux {} has it, but here it is {how}", release.trim())),
    }
}

/// A fresh network has no fq: the option is accepted, and nothing is held.
#[test]
fn release_times_without_fq_do_nothing() {
    let binary = common::PROGRAM;
    let script = format!("ip link set lo up && exec {binary} probe-feature so_txtime");
    let output = Command::new("unshare").args(["--net", "sh", "-c", &script]).output();
    match output {
        Ok(output) if output.status.success() => {
            let (works, how) = finding("so_txtime", &output);
            assert!(
                !works && how.starts_with("setsockopt accepted, but a packet 5 ms ahead left after"),
                "{how}"
            );
            assert!(how.contains("no interface has fq") || how.contains("no interface has it"), "{how}");
        }
        Ok(output) => skipped(&format!("no network of our own: {}", stderr(&output).trim())),
        Err(error) => skipped(&format!("no network of our own: unshare: {error}")),
    }
}

/// A copy of the command that anybody may run.
struct ForAll(PathBuf);

impl ForAll {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("softtimers-for-all-{}", std::process::id()));
        fs::copy(common::PROGRAM, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        ForAll(path)
    }

    /// A process that another test forks at the same moment has our copy open for writing until it runs
    /// its own program, and so long ours may not be run.
    fn run_as_nobody(&self, feature: &str) -> io::Result<Output> {
        let mut command = Command::new(&self.0);
        command.args(["probe-feature", feature]).uid(65_534).gid(65_534);
        for _ in 0..100_000 {
            match command.output() {
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                outcome => return outcome,
            }
        }
        command.output()
    }
}

impl Drop for ForAll {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_user_without_privileges_gets_findings_and_no_errors() {
    let copy = ForAll::new();
    for name in NAMES {
        let output = match copy.run_as_nobody(name) {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return skipped(&format!("only root may become nobody: {error}"));
            }
            Err(error) => panic!("{name}: {error}"),
        };
        let (works, how) = finding(name, &output);
        match name {
            "gso" | "gro" if !works => {
                skipped(&format!("{name} without privileges: {how}"));
            }
            // Unprivileged programs in the kernel are an option that few have left on.
            "af_packet" | "af_xdp" => assert!(!works && how.contains("needs CAP_NET_RAW"), "{name}: {how}"),
            _ => {}
        }
    }
}

#[test]
fn the_report_has_the_costs_the_features_and_the_range() {
    let output = run("doctor --duration 20ms --json --assert costs.timer_signal_cpu_ns>=0 \
         --assert costs.sched_slice_ns>=0 --assert useful_range.longest_ns>0");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let costs = &report["costs"];
    for key in [
        "clock_read_ns",
        "turn_ns",
        "soft_event_ns",
        "syscall_ns",
        "timer_arm_ns",
        "wakeup_cpu_ns",
        "timerfd_wakeup_cpu_ns",
    ] {
        assert!(costs[key].as_f64() > Some(0.0), "{key}: {costs}");
    }
    for key in ["tsc_read_ns", "timer_signal_cpu_ns", "soft_event_of_signal", "sched_slice_ns"] {
        assert!(costs[key].is_f64() || costs[key].is_null() && costs.get(key).is_some(), "{key}: {costs}");
    }
    let named: Vec<&str> =
        report["features"].as_array().unwrap().iter().map(|found| found["name"].as_str().unwrap()).collect();
    assert_eq!(named, NAMES);
    assert!(report["features"].as_array().unwrap().iter().all(|found| found["how"] != ""), "{report}");
    let range = &report["useful_range"];
    assert_eq!(range["acceptable_share"], 0.05);
    let trigger_interval = &report["pacing"][0]["trigger_interval_ns"]["p50"];
    assert_eq!(range["shortest_ns"].as_f64(), trigger_interval.as_f64());
    let (longest, cost) = (range["longest_ns"].as_f64(), costs["timer_signal_cpu_ns"].as_f64());
    // Both were printed and read again, which may move the last digit.
    let share = cost.zip(longest).map(|(cost, longest)| cost / longest);
    assert!(share.is_none_or(|share| (share - 0.05).abs() < 1e-9), "{share:?}");
    assert_eq!(longest.is_some(), cost.is_some());
    let of_signal = cost.zip(costs["soft_event_ns"].as_f64()).map(|(signal, soft)| soft / signal);
    let told = costs["soft_event_of_signal"].as_f64();
    assert!(told.zip(of_signal).is_none_or(|(told, of)| (told / of - 1.0).abs() < 1e-9), "{costs}");
}

#[test]
fn a_table_for_people_tells_what_works_from_what_does_not() {
    let output = command("doctor --duration 20ms --verbose").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let is_sentence =
        |line: &str| ["Linux", "note:", "inconclusive:"].iter().any(|word| line.starts_with(word));
    assert!(text.lines().all(|line| line.chars().count() <= 100 || is_sentence(line)), "{text}");
    let at = |word: &str| text.lines().position(|line| line.trim_start().starts_with(word));
    assert!(at("timer signal").is_some() && at("useful range").is_some(), "{text}");
    for name in NAMES {
        assert!(text.find(&format!(" {name}: ")) > text.find("works here"), "{name}: {text}");
    }
}
