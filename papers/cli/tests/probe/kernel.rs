//! `softtimers probe`: this kernel's trigger states by the real command, and what is left of it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Output, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{command, refusal, run, skipped, stderr, streamed};

/// Returns the command's output; `None`, and it is counted, where the kernel or the privileges do not allow it.
fn possible(output: Output) -> Option<Output> {
    if output.status.code() == Some(77) {
        skipped(stderr(&output).trim());
        return None;
    }
    Some(output)
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn a_command_is_measured_while_it_runs() {
    let mut command = command("probe --json --");
    let script = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); /bin/true; done; echo hello";
    let Some(output) = possible(command.args(["sh", "-c", script]).output().unwrap()) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // stdout is data.
    assert!(stderr(&output).contains("hello"));
    let report = object(&output);
    assert_eq!(report["schema"], "softtimers.probe/1");
    assert_eq!((&report["command"]["exit_code"], &report["command"]["asked"]), (&0.into(), &false.into()));
    // It may be below zero: what is measured is told, and where it lies.
    let cost =
        ["low_ns", "ns", "high_ns"].map(|key| report["overhead"][format!("per_trigger_{key}")].as_f64());
    assert!(cost.iter().all(Option::is_some) && cost.is_sorted(), "{}", report["overhead"]);
    assert!(report["overhead"]["share"].as_f64().is_some_and(|share| share >= 0.0));
    let mut calls = 0;
    for cpu in report["cpus"].as_array().unwrap() {
        let intervals = &cpu["interval_ns"];
        let counted = |of: &Value| of["interval_ns"]["count"].as_u64().unwrap();
        let sources = cpu["sources"].as_array().unwrap();
        assert_eq!(sources.iter().map(counted).sum::<u64>(), intervals["count"].as_u64().unwrap());
        calls += counted(&sources[0]);
        if intervals["count"].as_u64() == Some(0) {
            continue;
        }
        for key in ["mean", "p50", "stddev", "max"] {
            assert!(intervals[key].as_f64().is_some(), "{key}: {intervals}");
        }
        let [over_100us, over_150us] = ["over_100us", "over_150us"].map(|key| cpu[key].as_f64().unwrap());
        // The buckets in their order, all intervals in them.
        let curve = cpu["interval_cdf"].as_array().unwrap();
        let of = |key: &str| -> Vec<f64> { curve.iter().map(|point| point[key].as_f64().unwrap()).collect() };
        assert!(of("share").is_sorted() && of("ns").is_sorted(), "{cpu}");
        assert!(of("share").last().is_none_or(|&last| last == 1.0), "{cpu}");
        assert!((0.0..=1.0).contains(&over_100us) && over_150us <= over_100us, "{cpu}");
        assert!(cpu["median_1ms_ns"]["count"].as_u64() >= cpu["median_10ms_ns"]["count"].as_u64(), "{cpu}");
        let misses = &cpu["misses"];
        let known = ["l1d", "l1i", "itlb"].iter().all(|cache| misses[cache].is_u64());
        assert!(known == misses["unknown"].is_null(), "counted, or why not: {misses}");
    }
    assert!(calls > 200, "{calls} system calls of 200 processes");
    assert!(report["intervals"].as_u64() > Some(calls), "a process has page faults");
}

/// Figure 4: what two intervals are with the source, one is without it.
#[test]
fn without_its_largest_source_the_mean_interval_grows_most() {
    let Some(output) = possible(command("probe --json -- ls -lR /usr/include /etc").output().unwrap()) else {
        return;
    };
    let report = object(&output);
    let by_intervals = |cpu: &&Value| cpu["interval_ns"]["count"].as_u64();
    let cpu = report["cpus"].as_array().unwrap().iter().max_by_key(by_intervals).unwrap();
    let sources = cpu["sources"].as_array().unwrap();
    let largest = sources.iter().max_by_key(|source| source["interval_ns"]["count"].as_u64()).unwrap();
    let without = |source: &Value| source["without_ns"]["mean"].as_f64().unwrap_or(f64::INFINITY);
    let most = sources.iter().map(without).fold(0.0, f64::max);
    assert!(without(largest) >= most, "{}: {largest}", cpu["sources"]);
    let with = cpu["interval_ns"]["mean"].as_f64().unwrap();
    assert!(without(largest) > with, "{with}: {largest}");
    // A few long ones, and very many short ones.
    assert!(cpu["interval_ns"]["p50"].as_f64() < Some(with), "{cpu}");
}

/// Figure 3 as a series over time.
#[test]
fn medians_over_time_are_drawn() {
    let page = std::env::temp_dir().join(format!("softtimers-medians-{}.html", std::process::id()));
    let mut probe = command("probe --cpu 0 --duration 500ms --json --series");
    let Some(output) = possible(probe.arg(&page).output().unwrap()) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let html = fs::read_to_string(&page).unwrap();
    let windows = object(&output)["cpus"][0]["median_1ms_ns"]["count"].as_u64().unwrap();
    assert!(
        windows > 0 && html.contains("CPU 0, from 0 s") && html.contains("windows of 10 ms"),
        "{windows}"
    );
    // A row of the figure's numbers for each window.
    assert!(html.matches("<tr>").count() as u64 >= windows, "{windows} windows");
    let again = command("probe --cpu 0 --duration 100ms --series").arg(&page).output().unwrap();
    fs::remove_file(&page).unwrap();
    assert!(refusal(&again, 2).contains("--force overwrites it"));
}

#[test]
fn a_command_that_fails_is_reported_and_told() {
    let Some(output) = possible(command("probe --json -- false").output().unwrap()) else { return };
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(object(&output)["command"]["exit_code"], 1);
    assert!(stderr(&output).contains("false ended with exit status 1"), "{}", stderr(&output));
    let Some(output) = possible(command("probe -- no-such-command").output().unwrap()) else { return };
    assert!(refusal(&output, 2).contains("-- no-such-command: "));
}

#[test]
fn a_command_ends_with_the_run() {
    let output = command("probe --duration 100ms --sources switch --json -- sleep 60").output().unwrap();
    let Some(output) = possible(output) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = object(&output);
    assert_eq!((&report["command"]["asked"], &report["command"]["signal"]), (&true.into(), &15.into()));
    assert!(
        report["overhead"]["per_trigger_ns"].is_null()
            && report["config"]["sources"] == serde_json::json!(["switch"])
    );
}

#[test]
fn the_lines_of_the_seconds_add_up() {
    let output = command("probe --cpu 0 --duration 1300ms --json-stream").output().unwrap();
    let Some(output) = possible(output) else { return };
    let (lines, report) = streamed(&output.stdout, "probe", "intervals");
    assert!(lines.iter().all(|line| line["interval"]["cpus"].as_array().unwrap().len() == 1));
    // One at the full second and one at the end, unless the machine was that late with the first.
    assert!(lines.len() >= 2 || lines[0]["to_s"].as_f64() >= Some(1.1), "{lines:?}");
    assert_eq!(report["cpus"].as_array().unwrap().len(), 1);
}

#[test]
fn what_there_is_not_is_refused() {
    let message = refusal(&run("probe --sources sundial"), 2);
    assert!(
        message.contains("sundial") && message.contains("soft_interrupt, timer, inter_processor"),
        "{message}"
    );
    assert!(refusal(&run("probe --cpu 999"), 2).contains("--cpu 999: the CPUs are 0 to "));
    assert!(refusal(&run("probe --samples 64000001"), 2).contains("64000001"));
    assert!(refusal(&run("probe --duration 1s --assert cpus.0.nonsense>1"), 2).contains("nonsense"));
}

#[test]
fn without_privileges_the_capabilities_are_named() {
    let mut probe = command("probe --duration 1s");
    // An ordinary user has none after exec.
    if rustix::process::geteuid().is_root() {
        probe.uid(65_534).gid(65_534);
    }
    match probe.output() {
        Ok(output) => {
            let message = refusal(&output, 77);
            assert!(message.contains("CAP_BPF and CAP_PERFMON missing"), "{message}");
        }
        Err(error) => skipped(&format!("another user cannot run the command: {error}")),
    }
}

/// Programs of the kernel that a process holds, by its descriptors.
fn programs_of(process: u32) -> BTreeSet<u32> {
    let directory = fs::read_dir(format!("/proc/{process}/fdinfo")).into_iter().flatten().flatten();
    let texts = directory.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let ids = |text: String| -> Vec<u32> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("prog_id:"));
        lines.filter_map(|id| id.trim().parse().ok()).collect()
    };
    texts.flat_map(ids).collect()
}

/// Programs that the kernel has loaded; `None` if we may not ask.
fn loaded() -> Option<BTreeSet<u32>> {
    aya::programs::loaded_programs().map(|program| program.map(|program| program.id()).ok()).collect()
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nothing_is_left_after_an_end_or_a_kill() {
    for signal in [Signal::INT, Signal::KILL] {
        let mut probe = command("probe --duration 60s --json");
        let mut probe = Killed(probe.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let id = probe.0.id();
        // All fourteen tracepoints, or less where the kernel lacks some; the last is that of switches.
        let held = loop {
            let held = programs_of(id);
            if held.len() >= 10 {
                break held;
            }
            if let Some(status) = probe.0.try_wait().unwrap() {
                assert_eq!(status.code(), Some(77));
                return skipped("the kernel's trigger states cannot be attached to here");
            }
            thread::yield_now();
        };
        let Some(before) = loaded() else { return skipped("the programs of the kernel cannot be listed") };
        assert!(held.is_subset(&before), "{held:?} of {before:?}");
        // With all that it may have loaded since: it cannot while it is stopped.
        let pid = Pid::from_raw(id.try_into().unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        let held = programs_of(id);
        kill_process(pid, signal).unwrap();
        kill_process(pid, Signal::CONT).unwrap();
        probe.0.wait().unwrap();
        // The kernel frees programs a grace period later. The watchdog of this file bounds the wait.
        while loaded().is_some_and(|now| !now.is_disjoint(&held)) {
            thread::yield_now();
        }
    }
}
