//! `wan --peer CMD2 -- CMD`: what becomes of CMD2, its names, and a run that breaks off.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::common::{skipped, stderr};
use crate::inside::{NOBODY, PEER, ScratchDirectory, lacks, signal, started, text};

/// Nobody listens, so that CMD would begin after ten seconds.
#[test]
fn a_signal_before_the_command_begins_ends_the_run() {
    let place = ScratchDirectory::new();
    let words = ["--peer", ": > ready; exec sleep 60", "--", "sh", "-c", ": > begun"];
    for sent in [Signal::TERM, Signal::INT] {
        let sign = place.0.join("ready");
        let Some(mut child) = started(place.wan("", &words), &sign) else { return };
        signal(&child, sent);
        assert_eq!(child.wait().unwrap().signal(), Some(sent.as_raw()));
        assert!(!place.0.join("begun").exists());
        std::fs::remove_file(sign).unwrap();
    }
}

/// As Ctrl-C at a terminal, which strikes the whole group.
#[test]
fn a_key_does_not_strike_the_peer() {
    let place = ScratchDirectory::new();
    let peer = format!("trap ': > struck; exit' INT; ({PEER}) & while :; do sleep 0.1; done");
    let script = "trap 'sleep 0.5; exit 6' INT; : > ready; while :; do sleep 0.1; done";
    let mut wan = place.wan("", &["--peer", &peer, "--", "sh", "-c", script]);
    wan.process_group(0);
    let Some(mut child) = started(wan, &place.0.join("ready")) else { return };
    kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
    assert!(!place.0.join("struck").exists());
}

#[test]
fn a_peer_may_put_itself_into_the_background() {
    let place = ScratchDirectory::new();
    let peer = format!("({PEER}) < /dev/null > /dev/null 2>&1 &");
    let Some(output) = place.run("", &["--peer", &peer, "--", "sh", "-c", "exit 9"]) else { return };
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
}

#[test]
fn names_of_the_path_come_before_those_of_this_machine() {
    let place = ScratchDirectory::new();
    let Some(output) = place.run("", &["--peer", PEER, "--", "cat", "/etc/hosts"]) else { return };
    let hosts = text(&output.stdout);
    assert!(hosts.starts_with("10.0.2.2 peer\n10.0.2.100 near\n"), "{hosts}{}", stderr(&output));
}

/// The kernel fails it where nothing is left to wait for; the command has to be ended then.
#[test]
fn a_run_that_breaks_off_is_no_signal_of_the_command() {
    if lacks("strace") {
        return;
    }
    let place = ScratchDirectory::new();
    let wan = place.wan("", &["--peer", PEER, "--", "sleep", "300"]);
    let waits = "epoll_wait,epoll_pwait,epoll_pwait2";
    let mut strace = Command::new("strace");
    strace.args([
        "-qq",
        "-o",
        "trace",
        "-e",
        &format!("trace={waits}"),
        "-e",
        &format!("inject={waits}:error=EIO"),
    ]);
    strace.arg(wan.get_program()).args(wan.get_args()).current_dir(&place.0).stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        strace.uid(NOBODY).gid(NOBODY);
    }
    let output = strace.output().unwrap();
    match output.status.code() {
        Some(77) => skipped(stderr(&output).trim()),
        code => {
            assert_eq!(code, Some(1), "{}", stderr(&output));
            assert!(stderr(&output).contains("os error 5"), "{}", stderr(&output));
        }
    }
}
