//! The rights left to running commands that began with more, as the kernel reports them for each thread.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::hosts::{self, Hosts};
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
    let commands = [
        "recv 127.0.0.1:0 --json",
        "forward --udp 127.0.0.1:0 --to 127.0.0.1:9 --json",
        "forward --udp 127.0.0.1:0 --to 127.0.0.1:9 --metrics 127.0.0.1:0 --json",
        "wan --listen 127.0.0.1:0 --to 127.0.0.1:9 --json",
        "capture lo -w /dev/null --force --json",
    ];
    for words in commands {
        // A capture becomes nobody where no sudo says whom.
        for uid in [CALLER, "0"].into_iter().take(if words.starts_with("capture") { 1 } else { 2 }) {
            let Some(child) = confined(here(words), uid, "2") else { continue };
            let sandbox = &report(child)["machine"]["sandbox"];
            assert_eq!(sandbox["uid"].to_string(), uid, "{words}: {sandbox}");
            assert_eq!(sandbox["seccomp"], true, "{words}: {sandbox}");
            assert_eq!(sandbox["capabilities"], Value::from(Vec::<String>::new()), "{words}: {sandbox}");
            let holds = sandbox["landlock"] == true;
            let said =
                sandbox["lacking"].as_array().unwrap().iter().any(|why| why.to_string().contains("Landlock"));
            assert!(holds || said, "{words}: {sandbox}");
        }
    }
}

#[test]
fn nor_between_interfaces() {
    if !is_root() {
        return;
    }
    hosts::with("rights", |hosts: &Hosts| {
        for words in [
            "forward wa wb --json",
            "forward wa wb --driver xdp --json",
            "wan --ifaces wa,wb --json",
            "capture wa -w /dev/null --force --json",
        ] {
            let Some(child) = confined(hosts.command(words), CALLER, "2") else { continue };
            assert_eq!(report(child)["machine"]["sandbox"]["uid"], 12_345, "{words}");
        }
    });
}

/// The flag leaves out what confines, and nothing of what is given up.
#[test]
fn without_a_sandbox_rights_are_given_up_all_the_same() {
    if !is_root() {
        return;
    }
    let Some(child) = confined(here("recv 127.0.0.1:0 --no-sandbox --json"), CALLER, "0") else { return };
    let sandbox = &report(child)["machine"]["sandbox"];
    assert_eq!((&sandbox["seccomp"], &sandbox["landlock"]), (&Value::from(false), &Value::from(false)));
}

/// A directory, with files that anybody may look for; it is removed when this is dropped.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(test: &str) -> Self {
        let place = TestDirectory(
            std::env::temp_dir().join(format!("softtimers-rights-{}-{test}", std::process::id())),
        );
        place.directory("");
        place
    }

    fn directory(&self, name: &str) {
        fs::create_dir_all(self.0.join(name)).unwrap();
        fs::set_permissions(self.0.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// In one step, so that nobody reads half of it.
    fn file(&self, name: &str, text: &str, owner: u32, mode: u32) -> PathBuf {
        let (path, new) = (self.0.join(name), self.0.join("new"));
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
        chown(&new, Some(owner), Some(owner)).unwrap();
        fs::rename(&new, &path).unwrap();
        path
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// After root's own login, too: what is left of root reads neither another user's file nor one elsewhere.
#[test]
fn rules_are_read_again_and_nothing_else_is() {
    if !is_root() {
        return;
    }
    let place = TestDirectory::new("rules");
    place.directory("etc");
    place.directory("elsewhere");
    let rules = place.file("etc/rules", "accept\n", 0, 0o644);
    let elsewhere = place.file("elsewhere/rules", "reject\n", 0, 0o644);
    let words = format!(
        "forward --udp 127.0.0.1:0 --to 127.0.0.1:9 --metrics 127.0.0.1:0 --json --rules {}",
        rules.display()
    );
    let mut forward = here(&words);
    forward.env("SUDO_UID", "0").env("SUDO_GID", "0").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = forward.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let metrics = lines.find_map(|line| line.strip_prefix("metrics on http://").map(str::to_owned)).unwrap();
    let address = metrics.strip_suffix("/metrics").unwrap();
    let mut said =
        || lines.find(|line| line.contains("the old rules stay") || line.contains("rules reloaded")).unwrap();
    place.file("etc/rules", "reject\n", 12_345, 0o600);
    let another_users = said();
    assert!(another_users.contains("Permission denied"), "{another_users}");
    symlink(&elsewhere, place.0.join("link")).unwrap();
    fs::rename(place.0.join("link"), &rules).unwrap();
    let is_refused = said().contains("Permission denied");
    place.file("etc/rules", "port 1 accept\nreject\n", 0, 0o644);
    assert_eq!(said(), "rules reloaded: 2 of them");
    let text = scraped(address);
    assert!(text.contains("softtimers_forward_rules_changed_total{result=\"reloaded\"}"), "{text}");
    let sandbox = &report(child)["machine"]["sandbox"];
    assert_eq!((&sandbox["landlock"], &sandbox["uid"]), (&is_refused.into(), &0.into()), "{sandbox}");
}

fn scraped(address: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    text
}

/// tcpdump is root's neither by sudo nor by `--user root`, and confined by nothing.
#[test]
fn what_compiles_a_filter_is_not_roots() {
    if !is_root() {
        return;
    }
    let place = TestDirectory::new("filter");
    let told = place.file("told", "", 0, 0o666);
    // An instruction that keeps all, by whoever is asked.
    let script = format!(
        "#!/bin/sh\nexec > {}\nid -u\ngrep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status\nexec >&3\n",
        told.display()
    );
    let script = script.replace("exec > ", "exec 3>&1 > ") + "echo 1\necho 6 0 0 262144\n";
    place.file("tcpdump", &script, 0, 0o755);
    for (uid, runs_as) in [(CALLER, CALLER), ("0", "65534")] {
        let mut capture = here("capture lo -w /dev/null --force --duration 50ms --user root --filter udp");
        capture.env("PATH", format!("{}:/usr/bin:/bin", place.0.display()));
        let output = capture.env("SUDO_UID", uid).env("SUDO_GID", uid).output().unwrap();
        let status = fs::read_to_string(&told).unwrap();
        let wanted = format!("{runs_as}\nCapEff:\t{NONE}\nNoNewPrivs:\t0\nSeccomp:\t0\n");
        assert_eq!(status, wanted, "{}", stderr(&output));
        if output.status.code() == Some(77) {
            return skipped(&stderr(&output));
        }
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}
