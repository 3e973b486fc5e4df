//! `doctor` with its real trials, kept short; and what it leaves behind when one fails: nothing.

mod common;

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use common::{command, refusal, run, skipped, stderr};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, waitpid,
};
use serde_json::Value;

/// A trial long enough to be disturbed in its middle.
fn start() -> Child {
    command("doctor --duration 2s").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The child of `parent` that runs `subcommand`, once there is one.
#[track_caller]
fn child_of(parent: &mut Child, subcommand: &str) -> u32 {
    let above = parent.id().to_string();
    while parent.try_wait().unwrap().is_none() {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut found = ids.filter(|&id: &u32| {
            let stat = fs::read_to_string(proc(id).join("stat")).unwrap_or_default();
            let line = fs::read_to_string(proc(id).join("cmdline")).unwrap_or_default();
            // After the name in parentheses come the state and the parent.
            let its_parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
            its_parent == Some(&above) && line.split('\0').any(|word| word == subcommand)
        });
        if let Some(id) = found.next() {
            return id;
        }
        std::thread::yield_now();
    }
    let mut said = String::new();
    parent.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    panic!("it ended without a {subcommand}: {said}");
}

fn proc(id: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{id}"))
}

fn kill(id: u32) {
    kill_process(Pid::from_raw(id as i32).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn an_examination_has_sixteen_cells_in_the_fixed_order() {
    let output = run("doctor --duration 100ms --rotate 3 --json --assert pacing.15.gap_ns.count>=0 \
         --assert pacing.0.late.catch_up.count>=0 --assert pacing.1.trigger_interval_ns.count>=0 --assert pacing.0.late_ns.p999>=0 --assert costs.wakeup_late_default_ns.p50>0 --assert config.rotate==3");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "softtimers.doctor/1");
    let cells = report["pacing"].as_array().unwrap();
    let named: Vec<(&str, &str)> =
        cells.iter().map(|cell| (cell["busy"].as_str().unwrap(), cell["method"].as_str().unwrap())).collect();
    let methods = ["soft", "loop", "spin", "pwait2", "timerfd", "ms", "signal", "thread"];
    let expected: Vec<(&str, &str)> =
        ["echo", "none"].into_iter().flat_map(|busy| methods.map(|method| (busy, method))).collect();
    assert_eq!(named, expected);
    // A cell of 100 ms may fall into a time in which the machine stood still; no more than a few.
    let sent = |cell: &&Value| cell["gap_ns"]["count"].as_u64() > Some(0);
    assert!(cells.iter().filter(sent).count() >= 12, "{cells:?}");
    for cell in cells {
        let sent = sent(&cell);
        assert!(!sent || cell["late_ns"]["p50"].is_u64(), "{cell}");
        assert_eq!(cell["busy"] == "echo", cell["work_kept"].is_f64(), "{cell}");
        assert_eq!(cell["target_gap_ns"], 40_000, "the same stream from a busy loop and an idle one");
        let looks = !["signal", "thread"].contains(&cell["method"].as_str().unwrap());
        let intervals = cell["trigger_interval_ns"]["count"].as_u64();
        assert!(if looks { !sent || intervals > Some(0) } else { intervals == Some(0) }, "{cell}");
        assert_eq!(cell["method"] == "soft", cell["long_handlers"].is_u64(), "{cell}");
    }
    assert!(report["fallbacks"].is_array() && !report["verdict"].as_str().unwrap().is_empty());
    agrees(report["verdict"].as_str().unwrap(), cells);
    // A run that proves nothing has no verdict.
    assert_eq!(
        report["inconclusive"].is_string(),
        report["verdict"].as_str().unwrap().starts_with("inconclusive"),
        "{report}"
    );
}

/// Wherever the verdict states a busy method's figures, they are those of its cell.
fn agrees(verdict: &str, cells: &[Value]) {
    for (at, _) in verdict.match_indices("% of the rate, ") {
        let (name, share) = verdict[..at].rsplit_once(" (").unwrap();
        let name = name.rsplit(' ').next().unwrap();
        let rest = &verdict[at + "% of the rate, ".len()..];
        let cell = cells.iter().find(|cell| cell["busy"] == "echo" && cell["method"] == name);
        let cell = cell.unwrap_or_else(|| panic!("{name}: {verdict}"));
        let percent = |key: &str| cell[key].as_f64().map(|share| share * 100.0);
        assert_eq!(share, format!("{:.0}", percent("achieved_share").unwrap()), "{verdict}");
        if let Some(back_to_back) = percent("back_to_back") {
            assert!(rest.starts_with(&format!("{back_to_back:.1}% back to back)")), "{verdict}");
        }
    }
}

/// People see every method by name, its gaps drawn, within 100 columns; nothing on stderr, which is no terminal here.
#[test]
fn the_table_fits_and_shows_every_method() {
    let mut command = command("doctor --duration 100ms --idle-interval 200us --verbose");
    let output = command.env("LC_ALL", "C.UTF-8").env("NO_COLOR", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        !text.contains('\u{1b}')
            && text.contains("40 µs from a busy loop")
            && text.contains("200 µs from an idle loop")
    );
    let findings = text
        .lines()
        .skip(2)
        .take_while(|line| !line.starts_with("inconclusive:") && !line.starts_with("note:"));
    assert!(findings.clone().all(|line| line.chars().count() <= 100), "{text}");
    let mut drawn = 0;
    for method in ["soft", "loop", "spin", "pwait2", "timerfd", "ms", "signal", "thread"] {
        let rows = findings.clone().filter(|line| line.split_whitespace().next() == Some(method));
        drawn += usize::from(rows.clone().any(|row| row.contains(['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'])));
        assert!(rows.count() >= 4, "a line of figures and one of gaps under each load: {method}: {text}");
    }
    // Its gaps are those of the second half of a run of 100 ms, in which the machine may stand still; for most it does
    // not do so twice.
    assert!(drawn >= 6, "{drawn} of 8: {text}");
}

#[test]
fn unknown_keys_end_it_before_it_begins() {
    for (key, listed) in [
        ("pacing.16.achieved_share", "pacing.0.achieved_share"),
        ("pacing.0.gap_ns.p98", "pacing.0.gap_ns.p99"),
        ("pacing.15.late_ns", "pacing.0.late_ns.max"),
        ("verdict", "is no number"),
    ] {
        let message = refusal(&run(&format!("doctor --assert {key}>0")), 2);
        let expected = if message.contains("is no number") { "is no number" } else { listed };
        assert!(message.contains(key) && message.contains(expected), "{message}");
    }
}

#[test]
fn a_trial_that_fails_leaves_nothing_behind_and_says_why() {
    let mut doctor = start();
    let receiver = child_of(&mut doctor, "recv");
    kill(child_of(&mut doctor, "send"));
    let output = doctor.wait_with_output().unwrap();
    let message = refusal(&output, 1);
    assert!(
        message.contains("the trial of soft, busy: send ended with signal: 9"),
        "which process, and how it ended: {message}"
    );
    assert!(!proc(receiver).exists(), "the receiver was waited for");
}

#[test]
fn a_doctor_that_is_killed_leaves_nothing_behind() {
    // Orphans become this process's children, so that it can see how they ended.
    set_child_subreaper(Some(getpid())).unwrap();
    let mut doctor = start();
    let (receiver, sender) = (child_of(&mut doctor, "recv"), child_of(&mut doctor, "send"));
    doctor.kill().unwrap();
    doctor.wait().unwrap();
    for orphan in [receiver, sender] {
        let (_, status) = waitpid(Pid::from_raw(orphan as i32), WaitOptions::empty()).unwrap().unwrap();
        // Killed with its parent; or just started, and refused because the parent was gone already. One
        // that had run on would have ended with 0.
        let killed = status.terminating_signal() == Some(Signal::KILL.as_raw());
        assert!(killed || status.exit_status() == Some(1), "it ended by itself: {status:?}");
    }
    // The echo clients hold its stderr too: this returns when the last of them is gone.
    let mut said = String::new();
    doctor.stderr.take().unwrap().read_to_string(&mut said).unwrap();
}

#[test]
fn a_child_of_somebody_else_does_not_start() {
    for words in ["man", "echo-client 127.0.0.1:9"] {
        let message = refusal(&run(&format!("--with-parent 2147483647 {words}")), 1);
        assert!(message.contains("process 2147483647 is not the parent"), "{message}");
    }
}

/// On a terminal, Ctrl-C goes to the processes of the trial, too.
#[test]
fn an_interrupted_examination_shows_what_there_is() {
    let mut command = command("doctor --duration 2s --json");
    let mut doctor = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child_of(&mut doctor, "send");
    kill_process_group(Pid::from_child(&doctor), Signal::INT).unwrap();
    let output = doctor.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["costs"]["clock_read_ns"].is_f64() && report["features"][0]["how"] != "", "{report}");
    assert_eq!(report["verdict"], "interrupted, so no verdict");
    let cells = report["pacing"].as_array().unwrap();
    assert_eq!((cells.len(), &cells[15]["method"]), (16, &"thread".into()));
    assert!(cells.iter().all(|cell| cell["not_made"] == "interrupted"), "in the first trial: {report}");
    assert!(cells.iter().all(|cell| cell["achieved_share"].is_null()), "{report}");
}

/// A spinner of a real-time class would keep everything else off its CPU.
#[test]
fn nothing_spins_in_a_real_time_class() {
    let real_time = |words: &str| {
        let mut chrt = Command::new("chrt");
        chrt.args(["-f", "1", common::PROGRAM]).args(words.split(' ')).output()
    };
    match real_time("man") {
        Ok(output) if output.status.success() => {}
        Ok(output) => return skipped(&format!("no real-time class: {}", stderr(&output).trim())),
        Err(error) => return skipped(&format!("no real-time class: chrt: {error}")),
    }
    for words in
        ["send 127.0.0.1:9 --rate 1kpps --duration 10ms --timer spin", "echo-client 127.0.0.1:9 --spin"]
    {
        let message = refusal(&real_time(words).unwrap(), 77);
        assert!(message.contains("of the real-time class SCHED_FIFO, so it must not spin"), "{message}");
    }
    // The server's clients do not spin either, or they would refuse to start.
    let served =
        real_time("send 127.0.0.1:9 --no-handshake -b 1kpps --duration 50ms --busy echo --json").unwrap();
    assert_eq!(served.status.code(), Some(0), "{}", stderr(&served));
    let report: Value = serde_json::from_slice(&served.stdout).unwrap();
    assert!(report["work_rate"].as_f64() > Some(0.0), "{report}");
}
