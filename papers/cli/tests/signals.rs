//! SIGINT, SIGTERM and SIGHUP end each command that runs on, with its summary and exit code 0.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{skipped, stderr, watch};
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// The command with SIGHUP as it is for a program that a shell starts, or ignored, whatever these tests run under.
fn command(hangs_up: &str, words: &str) -> Command {
    watch();
    let mut command = Command::new("env");
    command.arg(format!("--{hangs_up}-signal=HUP"));
    command.args(words.split(' ').filter(|word| !word.is_empty()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn here(words: &str) -> Command {
    command("default", &format!("{} {words}", common::PROGRAM))
}

/// Says whether `env` can do that; else these tests cannot.
fn knows_signals() -> bool {
    let known = command("default", "true").output().is_ok_and(|output| output.status.success());
    if !known {
        skipped("no env with --default-signal (coreutils 8.31)");
    }
    known
}

/// The bits of a line of `/proc/PID/status`.
fn mask(child: &Child, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let bits = status.lines().find_map(|status| status.strip_prefix(line)).unwrap_or("0");
    u64::from_str_radix(bits.trim(), 16).unwrap_or(0)
}

fn has(mask: u64, signal: Signal) -> bool {
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// Starts it, waits until it catches signals and `is_ready`, and ends it by this one. `None`: it is not possible here.
fn ended(mut command: Command, signals: &[Signal], mut is_ready: impl FnMut() -> bool) -> Option<Output> {
    let mut child = command.spawn().unwrap();
    while !has(mask(&child, "SigCgt:"), Signal::INT) || !is_ready() {
        if child.try_wait().unwrap().is_some() {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(77), "{command:?}: {}", stderr(&output));
            skipped(&stderr(&output));
            return None;
        }
        std::thread::yield_now();
    }
    for &signal in signals {
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    Some(child.wait_with_output().unwrap())
}

/// By each of the signals: the object of this schema, and 0.
fn is_ended_by_each(schema: &str, start: impl Fn() -> Command) {
    for signal in SIGNALS {
        let command = start();
        let words = format!("{command:?}");
        let Some(output) = ended(command, &[signal], || true) else { return };
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{words}, {signal:?}: {:?}: {said}", output.status);
        let report: Value = serde_json::from_slice(&output.stdout).expect(&said);
        let said = report["schema"].as_str().unwrap_or_default();
        assert!(said.starts_with(&format!("softtimers.{schema}/")), "{words}: {said}");
    }
}

/// A file of this process.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("softtimers-signals-{}-{name}", std::process::id()))
}

#[test]
fn what_measures() {
    if !knows_signals() {
        return;
    }
    for (schema, words) in [
        ("noise", "noise --phases 60000 --json"),
        ("noise_rates", "noise --rates --json"),
        ("probe", "probe --json"),
    ] {
        is_ended_by_each(schema, || here(words));
    }
    if !common::has_tools() {
        return;
    }
    let (page, words) =
        (path("r.html"), format!("report --quick --only costs --json --out {}", path("r.html").display()));
    is_ended_by_each("report", || here(&format!("{words} --force")));
    assert!(fs::read_to_string(&page).unwrap().starts_with("<!"), "it is written");
    for extension in ["html", "md", "json"] {
        fs::remove_file(page.with_extension(extension)).unwrap();
    }
}

#[test]
fn a_simulation_keeps_what_it_found() {
    if !knows_signals() {
        return;
    }
    let file = path("points.csv");
    let words = format!(
        "sim livelock --kernel polled --rate 14000 --threads 1 --sweep duration=10ms,1000s --json --force --out {}",
        file.display()
    );
    for signal in SIGNALS {
        let _ = fs::remove_file(&file);
        let first = || fs::read_to_string(&file).is_ok_and(|lines| lines.lines().count() == 2);
        let output = ended(here(&words), &[signal], first).unwrap();
        assert_eq!(output.status.code(), Some(0), "{signal:?}: {output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["rows"].as_array().unwrap().len(), 1, "{report}");
    }
    fs::remove_file(file).unwrap();
}

/// A FIFO of this process, which everybody may open.
fn fifo(name: &str) -> PathBuf {
    let fifo = path(name);
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::set_permissions(&fifo, fs::Permissions::from_mode(0o666)).unwrap();
    fifo
}

#[test]
fn a_fifo_without_a_reader_holds_up_no_end() {
    if !knows_signals() {
        return;
    }
    let fifo = fifo("unread");
    let said = "the run ended before the file could be opened; a FIFO needs a reader";
    for signal in SIGNALS {
        let simulation = here(&format!("sim hip --out {} --force", fifo.display()));
        let Some(output) = ended(simulation, &[signal], || true) else { return };
        assert_eq!(output.status.code(), Some(1), "{signal:?}: {output:?}");
        assert!(stderr(&output).contains(said), "{output:?}");
    }
    fs::remove_file(fifo).unwrap();
}

#[test]
fn a_fifo_may_get_its_reader_later() {
    if !knows_signals() {
        return;
    }
    let fifo = fifo("read");
    let simulation = here(&format!("sim hip --out {} --force", fifo.display())).spawn().unwrap();
    std::thread::park_timeout(Duration::from_millis(100));
    let lines = fs::read_to_string(&fifo).unwrap();
    let output = simulation.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(lines.lines().count() > 1, "{lines}");
    fs::remove_file(fifo).unwrap();
}
