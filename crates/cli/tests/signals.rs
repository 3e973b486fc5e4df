//! SIGINT, SIGTERM and SIGHUP end each command that runs on, with its summary and exit code 0.

mod common;

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::hosts::{self, Hosts};
use common::{Receiver, skipped, stderr, watch};
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
        // A signal just before the kernel begins to send is lost: the run then lasts its time, and finds that this link, whose
        // other end has no GRO, takes no frames.
        if output.status.code() == Some(77) && words.contains("\"xdp\"") {
            return skipped(&said);
        }
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
fn receivers_relays_and_forwarders() {
    if !knows_signals() {
        return;
    }
    for (schema, words) in [
        ("recv", "recv 127.0.0.1:0 --json"),
        ("wan", "wan --listen 127.0.0.1:0 --to 127.0.0.1:9 --json"),
        ("wan", "wan --tcp --listen 127.0.0.1:0 --to 127.0.0.1:9 --json"),
        ("forward", "forward --udp 127.0.0.1:0 --to 127.0.0.1:9 --json"),
    ] {
        is_ended_by_each(schema, || here(words));
    }
}

#[test]
fn senders() {
    if !knows_signals() {
        return;
    }
    let receiver = Receiver::start("");
    let to = receiver.address;
    for timer in ["soft", "pwait2", "timerfd", "signal", "tick", "thread"] {
        let words = format!("send {to} --rate 1kpps --duration 60s --timer {timer} --json");
        is_ended_by_each("send", || here(&words));
    }
    let recording = path("long.csv");
    fs::write(&recording, "0,100\n60000000,100\n").unwrap();
    let words = format!("replay {} {to} --json", recording.display());
    is_ended_by_each("replay", || here(&words));
    fs::remove_file(recording).unwrap();
    kill_process(Pid::from_raw(receiver.id() as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(receiver.finish().0, Some(0));
}

#[test]
fn what_measures() {
    if !knows_signals() {
        return;
    }
    for (schema, words) in [
        ("wan-self-test", "wan --self-test --json"),
        ("doctor", "doctor --quick --json"),
        ("bench", "bench --json"),
    ] {
        is_ended_by_each(schema, || here(words));
    }
}

#[test]
fn between_interfaces() {
    if !knows_signals() {
        return;
    }
    hosts::with("sig", |hosts: &Hosts| {
        let at = |host: &str, words: &str| {
            let (host, binary) = (hosts.host(host), common::PROGRAM);
            command("default", &format!("ip netns exec {host} {binary} {words}"))
        };
        for (schema, words) in [
            ("capture", "capture wa -w /dev/null --force --json"),
            ("forward", "forward wa wb --json"),
            ("forward", "forward wa wb --driver xdp --json"),
            ("wan", "wan --ifaces wa,wb --json"),
        ] {
            is_ended_by_each(schema, || at("middle", words));
        }
    });
}

/// A FIFO of this process, which everybody may open.
fn fifo(name: &str) -> PathBuf {
    let fifo = path(name);
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::set_permissions(&fifo, fs::Permissions::from_mode(0o666)).unwrap();
    fifo
}

/// A capture as root's own, and as sudo starts it, which opens files with other rights.
fn captures_to(fifo: &Path, duration: &str) -> [Command; 2] {
    ["0", "12345"].map(|user| {
        let mut capture = here(&format!("capture lo -w {} --force --duration {duration}", fifo.display()));
        capture.env("SUDO_UID", user).env("SUDO_GID", user);
        capture
    })
}

#[test]
fn a_fifo_without_a_reader_holds_up_no_end() {
    if !knows_signals() {
        return;
    }
    let fifo = fifo("unread");
    let said = "the run ended before the file could be opened; a FIFO needs a reader";
    for signal in SIGNALS {
        for capture in captures_to(&fifo, "1h") {
            let Some(output) = ended(capture, &[signal], || true) else { return };
            assert_eq!(output.status.code(), Some(1), "{signal:?}: {output:?}");
            assert!(stderr(&output).contains(said), "{output:?}");
        }
    }
    for capture in captures_to(&fifo, "50ms") {
        let output = { capture }.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
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
    for capture in captures_to(&fifo, "1h") {
        let mut began = [0; 4];
        let mut reader = None;
        let output = ended(capture, &[Signal::TERM], || {
            // The capture tries more than once before.
            std::thread::park_timeout(Duration::from_millis(100));
            let mut opened = fs::File::open(&fifo).unwrap();
            opened.read_exact(&mut began).unwrap();
            reader = Some(std::thread::spawn(move || std::io::copy(&mut opened, &mut std::io::sink())));
            true
        });
        let Some(output) = output else { return };
        assert_eq!((output.status.code(), began), (Some(0), [10, 13, 13, 10]), "{output:?}");
        reader.unwrap().join().unwrap().unwrap();
    }
    fs::remove_file(fifo).unwrap();
}

/// Then SIGTERM is the first that counts, which it would not be if SIGHUP had been taken for one.
#[test]
fn under_nohup_a_hang_up_is_nothing() {
    if !knows_signals() {
        return;
    }
    let words = format!("{} recv 127.0.0.1:0 --json", common::PROGRAM);
    for (disposition, code) in [("ignore", Some(0)), ("default", None)] {
        let mut held = command(disposition, &words).spawn().unwrap();
        while !has(mask(&held, "SigCgt:"), Signal::INT) {
            assert_eq!(held.try_wait().unwrap(), None);
            std::thread::yield_now();
        }
        assert_eq!(has(mask(&held, "SigIgn:"), Signal::HUP), disposition == "ignore");
        // Stopped, it meets both at once.
        common::stop(held.id());
        for signal in [Signal::HUP, Signal::TERM, Signal::CONT] {
            kill_process(Pid::from_child(&held), signal).unwrap();
        }
        let status = held.wait_with_output().unwrap().status;
        match code {
            Some(code) => assert_eq!(status.code(), Some(code), "{status}"),
            None => assert!(matches!(status.code(), Some(129 | 143)), "the second ends it at once: {status}"),
        }
    }
}
