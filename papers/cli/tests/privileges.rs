//! The rights left to running commands that began with more, as the kernel reports them for each thread.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{skipped, stderr, watch};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

/// The user who calls sudo here; the system knows no such user.
const CALLER: &str = "12345";
/// The checks of a minute.
const LOOKS: u32 = 12_000;

/// The lines of `/proc/PID/task/*/status`, by name.
fn threads(child: &Child) -> Vec<Vec<(String, String)>> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", child.id())) else { return vec![] };
    let status = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let line =
        |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    status.map(|status| status.lines().filter_map(line).collect()).collect()
}

fn value<'a>(status: &'a [(String, String)], name: &str) -> &'a str {
    status.iter().find(|(of, _)| of == name).map_or("", |(_, value)| value)
}

/// Starts it as root, or as sudo would, and waits until it has no rights left; `None`: not possible here.
fn confined(mut command: Command, uid: &str, seccomp: &str) -> Option<Child> {
    command.env("SUDO_UID", uid).env("SUDO_GID", uid);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut looks = 0;
    loop {
        if child.try_wait().unwrap().is_some() {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(77), "{command:?}: {}", stderr(&output));
            skipped(&stderr(&output));
            return None;
        }
        let threads = threads(&child);
        let has = |name, wanted: &str| threads.iter().all(|status| value(status, name) == wanted);
        if !threads.is_empty() && has("NoNewPrivs", "1") && has("Seccomp", seccomp) && has("CapPrm", NONE) {
            break;
        }
        looks += 1;
        assert!(looks < LOOKS, "{command:?}: {threads:?}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    // Time for those threads that are started afterwards.
    std::thread::park_timeout(Duration::from_millis(300));
    for status in threads(&child) {
        let words = format!("{command:?}, {status:?}");
        assert_eq!(value(&status, "Uid").split_whitespace().collect::<Vec<_>>(), [uid; 4], "{words}");
        assert_eq!(value(&status, "Gid").split_whitespace().collect::<Vec<_>>(), [uid; 4], "{words}");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(value(&status, set), NONE, "{set}, {words}");
        }
        assert_eq!((value(&status, "NoNewPrivs"), value(&status, "Seccomp")), ("1", seccomp), "{words}");
    }
    Some(child)
}

const NONE: &str = "0000000000000000";

/// Ends it with its report.
fn report(child: Child) -> Value {
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn here(words: &str) -> Command {
    watch();
    let mut command = Command::new(common::PROGRAM);
    command.args(words.split(' '));
    command
}

/// Says whether there are rights to give up, and nobody has taken some before.
fn is_root() -> bool {
    let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let has = |line: &str| own.lines().any(|other| other == line);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let why = if !geteuid().is_root() {
        "only root has rights to give up"
    } else if !has("Seccomp:\t0") || !has("NoNewPrivs:\t0") {
        "these tests run under a filter of system calls, or there are none"
    } else if set_of(&own, "CapEff") & SETPCAP == 0 {
        "without CAP_SETPCAP the bounding set stays"
    } else if (numbers.next(), numbers.next()) < (Some(5), Some(19)) {
        "before Linux 5.19 what uses BPF keeps a capability"
    } else {
        return true;
    };
    skipped(why);
    false
}

fn set_of(status: &str, name: &str) -> u64 {
    let bits = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    bits.and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or(0)
}

const SETPCAP: u64 = 1 << 8;

#[test]
fn each_command_has_none_while_it_runs() {
    if !is_root() {
        return;
    }
    let commands = ["probe --json", "noise --phases 60000 --json"];
    for words in commands {
        for uid in [CALLER, "0"] {
            let seccomp = if words.starts_with("noise") { "0" } else { "2" };
            let Some(child) = confined(here(words), uid, seccomp) else { continue };
            let sandbox = &report(child)["machine"]["sandbox"];
            assert_eq!(sandbox["uid"].to_string(), uid, "{words}: {sandbox}");
            assert_eq!(sandbox["seccomp"], seccomp == "2", "{words}: {sandbox}");
            assert_eq!(sandbox["capabilities"], Value::from(Vec::<String>::new()), "{words}: {sandbox}");
            let holds = sandbox["landlock"] == true;
            let said =
                sandbox["lacking"].as_array().unwrap().iter().any(|why| why.to_string().contains("Landlock"));
            assert!(holds || said || seccomp == "0", "{words}: {sandbox}");
        }
    }
}

/// A command of the user's runs as that user, and unconfined.
#[test]
fn what_probe_starts_is_the_callers() {
    if !is_root() {
        return;
    }
    let file = std::env::temp_dir().join(format!("softtimers-rights-{}", std::process::id()));
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let script = format!("cat /proc/self/status > {}", file.display());
    let mut probe = here("probe --duration 200ms --json -- sh -c");
    let output = probe.arg(&script).env("SUDO_UID", CALLER).env("SUDO_GID", CALLER).output().unwrap();
    let status = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    if output.status.code() == Some(77) {
        return skipped(&stderr(&output));
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for line in
        ["Uid:\t12345\t12345\t12345\t12345", "CapEff:\t0000000000000000", "NoNewPrivs:\t0", "Seccomp:\t0"]
    {
        assert!(status.lines().any(|other| other == line), "{line}: {status}");
    }
}
