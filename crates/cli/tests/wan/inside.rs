//! `wan … -- CMD`: unmodified programs behind the path, by a user without rights; and nothing of them is left behind.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, thread};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

use crate::common::{command, skipped, stderr};

pub(crate) const NOBODY: u32 = 65_534;

/// A place that nobody may write to and read from, with a copy of the command.
pub(crate) struct ScratchDirectory(pub(crate) PathBuf);

impl ScratchDirectory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("softtimers-inside-{}-{count}", std::process::id()));
        fs::create_dir(&path).unwrap();
        // The built one may be where others may not go.
        let (built, here) = (crate::common::PROGRAM, path.join("softtimers"));
        if fs::hard_link(built, &here).is_err() {
            fs::copy(built, here).unwrap();
        }
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        ScratchDirectory(path)
    }

    /// `wan` by a user without rights.
    pub(crate) fn wan(&self, flags: &str, words: &[&str]) -> Command {
        // The watchdog of these tests.
        drop(command(""));
        let mut wan = Command::new(self.0.join("softtimers"));
        wan.arg("wan").args(flags.split_whitespace()).current_dir(&self.0).stdin(Stdio::null());
        // Where git and others may look for their settings.
        wan.env("HOME", &self.0);
        if geteuid().is_root() {
            wan.uid(NOBODY).gid(NOBODY);
        }
        wan.args(words);
        wan
    }

    /// Its output, unless this machine forbids it or lacks something.
    pub(crate) fn run(&self, flags: &str, words: &[&str]) -> Option<Output> {
        let output = self.wan(flags, words).output().unwrap();
        if output.status.code() == Some(77) {
            skipped(stderr(&output).trim());
            return None;
        }
        Some(output)
    }

    fn summary(&self) -> Value {
        serde_json::from_slice(&fs::read(self.0.join("summary.json")).unwrap()).unwrap()
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Says that a program is not installed.
pub(crate) fn lacks(program: &str) -> bool {
    let found =
        env::split_paths(&env::var_os("PATH").unwrap_or_default()).any(|path| path.join(program).exists());
    if !found {
        skipped(&format!("no {program}"));
    }
    !found
}

/// Somebody who listens at once where there is `nc`, and a little later where not.
pub(crate) const PEER: &str = "nc -l 7000 || nc -l -p 7000 || sleep 60";
const SERVER: &str = "python3 -m http.server 8000 --bind 0.0.0.0";

#[test]
fn curl_meets_the_path_as_a_user_without_rights() {
    if lacks("python3") || lacks("curl") {
        return;
    }
    let place = ScratchDirectory::new();
    fs::write(place.0.join("served"), vec![7; 200_000]).unwrap();
    let words = [
        "--peer",
        SERVER,
        "--",
        "curl",
        "-sf",
        "-w",
        "%{time_connect}",
        "-o",
        "got",
        "http://peer:8000/served",
    ];
    let Some(output) = place.run("--rtt 60ms --summary summary.json", &words) else { return };
    assert!(output.status.success(), "{}", stderr(&output));
    // No handshake is faster than the path, and stdout is the program's alone.
    let connected: f64 = text(&output.stdout).parse().unwrap();
    assert!(connected >= 0.06, "{connected}");
    assert_eq!(fs::read(place.0.join("got")).unwrap(), vec![7; 200_000]);
    let summary = place.summary();
    assert_eq!(summary["config"]["kind"], "command");
    assert_eq!(summary["config"]["to"], "peer");
    for way in ["up", "down"] {
        let measured = &summary[way]["measured"];
        assert!(measured["delay_ns"]["min"].as_f64().unwrap() >= 30e6, "{measured}");
        assert!(measured["delivered"].as_u64().unwrap() > 2, "{measured}");
    }
    assert_eq!(summary["machine"]["sandbox"]["capabilities"], serde_json::json!([]));
    assert!(stderr(&output).contains("wan: curl"), "{}", stderr(&output));
}

#[test]
fn iperf3_gets_no_more_than_the_rate() {
    if lacks("iperf3") {
        return;
    }
    let place = ScratchDirectory::new();
    let words = ["--peer", "iperf3 -s", "--", "iperf3", "-c", "peer", "-t", "2", "-J"];
    let Some(output) = place.run("--rtt 10ms --rate 5Mbit --queue 50ms", &words) else { return };
    assert!(output.status.success(), "{}", text(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let received = &report["end"]["sum_received"]["bits_per_second"];
    // A busy machine makes it slower, and its ends do not look at their clocks at the same time.
    let rate = received.as_f64().unwrap();
    assert!(rate > 0.0 && rate < 5.5e6, "{received}");
}

/// Frames that the kernel has joined stay so as long as nothing of the path looks at packets; with a rate they are cut.
#[test]
fn joined_frames_are_carried_whole_unless_packets_matter() {
    if lacks("iperf3") {
        return;
    }
    let place = ScratchDirectory::new();
    let words = ["--peer", "iperf3 -s", "--", "iperf3", "-c", "peer", "-n", "20M", "-J"];
    let flags = ["--rtt 2ms --summary whole.json", "--rtt 2ms -b 1Gbit --summary cut.json"];
    for (flags, name, is_whole) in [(flags[0], "whole.json", true), (flags[1], "cut.json", false)] {
        let Some(output) = place.run(flags, &words) else { return };
        assert!(output.status.success(), "{}", text(&output.stdout));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report["end"]["sum_sent"]["bytes"].as_f64().unwrap() >= 20e6, "{report}");
        let summary: Value = serde_json::from_slice(&fs::read(place.0.join(name)).unwrap()).unwrap();
        let frames = |key: &str| summary["interfaces"][key].as_u64().unwrap();
        assert_eq!((frames("whole") > 0, frames("joined") > 0), (is_whole, !is_whole), "{summary}");
        assert_eq!((frames("unsplit"), frames("too_long")), (0, 0), "{summary}");
    }
}

/// Segments cut from a joined frame leave together if they are due within the span, each lost or kept by itself; what
/// arrives is what was sent.
#[test]
fn segments_leave_together_and_are_lost_alone() {
    if lacks("python3") || lacks("curl") {
        return;
    }
    let place = ScratchDirectory::new();
    let served: Vec<u8> = (0..4_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(place.0.join("served"), &served).unwrap();
    let words = ["--peer", SERVER, "--", "curl", "-sf", "-o", "got", "http://peer:8000/served"];
    for (flags, name) in [("--coalesce 300us", "some.json"), ("--coalesce 0", "none.json")] {
        let flags = format!("--rtt 4ms -b 400Mbit --loss 0.2% --seed 5 --summary {name} {flags}");
        let Some(output) = place.run(&flags, &words) else { return };
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(fs::read(place.0.join("got")).unwrap() == served, "{flags}: bytes differ");
        let summary: Value = serde_json::from_slice(&fs::read(place.0.join(name)).unwrap()).unwrap();
        let (frames, down) = (&summary["interfaces"], &summary["down"]["measured"]);
        assert!(frames["joined"].as_u64() > Some(0) && down["lost"].as_u64() > Some(0), "{summary}");
        assert_eq!(frames["together"].as_u64() > Some(0), name == "some.json", "{summary}");
        // Each is late by itself, and none is early.
        assert_eq!(down["lateness_ns"]["count"], down["delivered"]);
        assert!(down["delay_ns"]["min"].as_u64() >= Some(2_000_000), "{summary}");
    }
}

/// netem's chain of four states loses its share of what an unmodified program sends, and the summary has what was set.
#[test]
fn four_states_lose_a_programs_packets() {
    if lacks("python3") {
        return;
    }
    let place = ScratchDirectory::new();
    let sends = "import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nfor n in range(4000):\n s.sendto(b'x'*100,('peer',7)); n%20 or time.sleep(.001)";
    let words = ["--peer", PEER, "--", "python3", "-c", sends];
    let flags = "--up-loss state:2%,20%,10%,25%,0.5% --seed 3 --summary summary.json";
    let Some(output) = place.run(flags, &words) else { return };
    assert!(output.status.success(), "{}", stderr(&output));
    let up = &place.summary()["up"];
    let mean = (0.1 + 0.005) / (1.0 + 0.1 + 0.04 + 0.005);
    assert!((up["set"]["loss"].as_f64().unwrap() - mean).abs() < 1e-9, "{up}");
    let loss = up["measured"]["loss"].as_f64().unwrap();
    assert!(up["measured"]["offered"].as_u64() >= Some(4_000) && (loss - mean).abs() < mean / 2.0, "{up}");
}

/// Of two flows only the chosen one meets the path, and only it is counted there.
#[test]
fn only_the_chosen_packets_take_the_path() {
    if lacks("python3") {
        return;
    }
    let place = ScratchDirectory::new();
    let sends = "import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nfor n in range(300):\n s.sendto(b'x',('peer',7+n%3//2))";
    let words = ["--peer", PEER, "--", "python3", "-c", sends];
    let command = [&["--only", "udp dst port 7"][..], &words].concat();
    let Some(output) = place.run("--up-loss 100% --summary summary.json", &command) else { return };
    assert!(output.status.success(), "{}", stderr(&output));
    let summary = place.summary();
    let (up, frames) = (&summary["up"]["measured"], &summary["interfaces"]);
    assert_eq!((up["offered"].as_u64(), up["lost"].as_u64()), (Some(200), Some(200)), "{summary}");
    assert!(frames["beside"].as_u64() >= Some(100) && frames["unsplit"] == 0, "{summary}");
    assert_eq!(summary["config"]["only"], "udp dst port 7");
    let refused = place.run("--only port", &words[2..]).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("something is missing"), "{}", stderr(&refused));
}

/// Both families lie behind the path: no handshake is faster than it, and no question for a neighbour is counted.
#[test]
fn ipv6_takes_the_path_too() {
    if lacks("python3") || lacks("curl") {
        return;
    }
    if !Path::new("/proc/net/if_inet6").exists() {
        return skipped("a kernel without IPv6");
    }
    let place = ScratchDirectory::new();
    fs::write(place.0.join("served"), "here").unwrap();
    let server = "python3 -m http.server 8000 --bind ::";
    let url = "http://peer6:8000/served";
    let words = ["--peer", server, "--", "curl", "-sf", "-w", " %{time_connect} %{remote_ip}", url];
    let Some(output) = place.run("--rtt 60ms --summary summary.json", &words) else { return };
    let said = text(&output.stdout);
    let parts: Vec<&str> = said.split(' ').collect();
    assert_eq!((parts[0], parts[2]), ("here", "fd53:54::2"), "{said}{}", stderr(&output));
    assert!(parts[1].parse::<f64>().unwrap() >= 0.06, "{said}");
    // The opening, the request, the answer and the ends, with what they need to be acknowledged; the shortest has 74 bytes.
    let up = &place.summary()["up"]["measured"];
    assert!(up["offered"].as_u64() <= Some(12) && up["delay_ns"]["min"].as_u64() >= Some(30_000_000), "{up}");
}

#[test]
fn git_clones_through_losses() {
    if lacks("git") {
        return;
    }
    let place = ScratchDirectory::new();
    let prepare = "git init -q served && cd served && git config user.email a@b.invalid && git config user.name a && \
                   git commit -q --allow-empty -m one && cd .. && exec git daemon --export-all --base-path=. --reuseaddr";
    let words = ["--peer", prepare, "--", "git", "clone", "-q", "git://peer/served", "cloned"];
    let Some(output) = place.run("--rtt 10ms --loss 2% --seed 7", &words) else { return };
    if text(&output.stderr).contains("'daemon' is not a git command") {
        return skipped("git without its daemon");
    }
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(place.0.join("cloned/.git").is_dir());
}

#[test]
fn names_are_asked_for_through_a_gateway() {
    if lacks("dig") {
        return;
    }
    let place = ScratchDirectory::new();
    // An answer is not needed, and may not be available here: that somebody answers is.
    let words = ["--", "dig", "+time=3", "+tries=1", "softtimers.invalid"];
    let Some(output) = place.run("--rtt 20ms --summary summary.json", &words) else { return };
    let said = text(&output.stdout);
    let to = place.summary()["config"]["to"].as_str().unwrap().to_owned();
    assert!(["pasta", "slirp4netns"].contains(&to.as_str()), "{to}");
    match output.status.code() {
        Some(0) => assert!(said.contains("SERVER: 10.0.2.3#53"), "{said}"),
        _ => skipped(&format!("no name server answers on this machine: {}", said.trim())),
    }
}

#[test]
fn a_server_of_this_machine_is_reached_only_if_allowed() {
    if lacks("curl") {
        return;
    }
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    thread::spawn(move || {
        for mut client in server.incoming().flatten() {
            let _ = client.read(&mut [0; 4_096]);
            let _ = client.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nhere");
        }
    });
    let place = ScratchDirectory::new();
    let allowed = ["--host-loopback", "--", "curl", "-s", &format!("http://host:{port}/")];
    let Some(output) = place.run("", &allowed) else { return };
    assert_eq!(text(&output.stdout), "here", "{}", stderr(&output));
    let refused = ["--", "curl", "-s", "-m", "2", &format!("http://10.0.2.2:{port}/")];
    let Some(output) = place.run("", &refused) else { return };
    assert_ne!(text(&output.stdout), "here");
}

#[test]
fn exit_codes_and_signals_are_those_of_the_command() {
    let place = ScratchDirectory::new();
    let peer = ["--peer", PEER];
    let ended = |script: &str| place.run("", &[&peer[..], &["--", "sh", "-c", script]].concat());
    let Some(output) = ended("echo out; echo err >&2; exit 9") else { return };
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(9), "out\n".to_owned()));
    assert_eq!(ended("kill -KILL $$").unwrap().status.signal(), Some(9));
    assert_eq!(ended("kill -SEGV $$").unwrap().status.signal(), Some(11));
    // A directory that may not be searched makes it another error.
    let mut missing = place.wan("", &[&peer[..], &["--", "no-such-program"]].concat());
    let missing = missing.env("PATH", "/usr/bin:/bin").output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("-- no-such-program: "), "{}", stderr(&missing));
}

#[test]
fn the_command_is_the_same_user_and_inherits_nothing() {
    let place = ScratchDirectory::new();
    let script = "id -u; grep -e CapEff -e NoNewPrivs -e Seccomp: /proc/self/status; pwd; env | sort; ls /proc/self/fd";
    let mut outside = Command::new("sh");
    outside.args(["-c", script]).current_dir(&place.0).env("HOME", &place.0).stdin(Stdio::null());
    if geteuid().is_root() {
        outside.uid(NOBODY).gid(NOBODY);
    }
    let outside = text(&outside.output().unwrap().stdout);
    let words = ["--peer", PEER, "--", "sh", "-c", script];
    let Some(inside) = place.run("", &words) else { return };
    assert_eq!(text(&inside.stdout), outside);
    assert!(outside.contains("CapEff:\t0000000000000000\n"), "{outside}");
}

/// Says whether a process of this place, of this name, is there, and not only its remains.
fn is_there(name: &OsStr) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.windows(name.len()).any(|part| part == name.as_encoded_bytes())
    })
}

pub(crate) fn started(mut wan: Command, sign: &Path) -> Option<Child> {
    let mut child = wan.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // The watchdog bounds the wait.
    while !sign.exists() {
        if let Some(status) = child.try_wait().unwrap() {
            let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
            assert_eq!(status.code(), Some(77), "{said}");
            skipped(said.trim_end());
            return None;
        }
        thread::park_timeout(Duration::from_millis(10));
    }
    Some(child)
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_signal_reaches_the_command() {
    let place = ScratchDirectory::new();
    let script = "trap 'exit 5' TERM; trap 'exit 6' INT; : > ready; while :; do sleep 0.1; done";
    for (sent, code) in [(Signal::TERM, 5), (Signal::INT, 6)] {
        let sign = place.0.join("ready");
        let Some(mut child) = started(place.wan("", &["--peer", PEER, "--", "sh", "-c", script]), &sign)
        else {
            return;
        };
        signal(&child, sent);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{sent:?}");
        fs::remove_file(sign).unwrap();
    }
}

/// The command has become the leader of a session of its own, as a service does, and is found by nobody any more.
#[test]
fn nothing_is_left_behind() {
    let place = ScratchDirectory::new();
    let name = place.0.join("stays").into_os_string();
    std::os::unix::fs::symlink("/bin/sleep", &name).unwrap();
    let script = format!("setsid {} 300 & : > ready; sleep 300", name.to_string_lossy());
    let flags = ["--peer", PEER, "--", "sh", "-c", &script];
    if lacks("setsid") {
        return;
    }
    let sign = place.0.join("ready");
    for how in [Signal::KILL, Signal::TERM] {
        let Some(mut child) = started(place.wan("", &flags), &sign) else { return };
        while !is_there(&name) {
            thread::park_timeout(Duration::from_millis(10));
        }
        signal(&child, how);
        assert_eq!(child.wait().unwrap().signal(), Some(how.as_raw()));
        // After a SIGKILL the kernel does it, in its own time; the watchdog bounds that.
        while is_there(&name) {
            thread::park_timeout(Duration::from_millis(10));
        }
        match fs::remove_file(&sign) {
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }
}

/// The processes whose parent this is, with their words.
pub(crate) fn children(parent: u32) -> Vec<(u32, String)> {
    let of = |process: fs::DirEntry| {
        let id = process.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        let words = fs::read(process.path().join("cmdline")).ok()?;
        let is_child = fields.split(' ').nth(1) == Some(parent.to_string().as_str());
        is_child.then(|| (id, String::from_utf8_lossy(&words).replace('\0', " ")))
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
}

/// Who kills the helper that started the gateway does not leave the gateway behind.
#[test]
fn a_gateway_ends_with_the_run_also_without_its_helper() {
    if lacks("pasta") && lacks("slirp4netns") {
        return;
    }
    let place = ScratchDirectory::new();
    let sign = place.0.join("ready");
    let words = ["--", "sh", "-c", ": > ready; exec sleep 300"];
    let Some(mut child) = started(place.wan("", &words), &sign) else { return };
    let helper = children(child.id()).into_iter().find(|(_, words)| words.contains("wan-inside gateway"));
    let (helper, _) = helper.expect("the gateway's helper");
    let gateways = children(helper);
    assert_eq!(gateways.len(), 1, "{gateways:?}");
    kill_process(Pid::from_raw(helper as i32).unwrap(), Signal::KILL).unwrap();
    signal(&child, Signal::TERM);
    child.wait().unwrap();
    let (id, words) = &gateways[0];
    let words = words.trim_end().replace(' ', "\0");
    // One that nobody waits for is a zombie without words.
    let is_there =
        || fs::read_to_string(format!("/proc/{id}/cmdline")).is_ok_and(|now| now.starts_with(&words));
    while is_there() {
        thread::park_timeout(Duration::from_millis(10));
    }
}

#[test]
fn what_makes_no_sense_beside_a_command_is_refused() {
    for flags in [
        "--listen 127.0.0.1:0 -- true",
        "--to 127.0.0.1:9 -- true",
        "--ifaces a,b -- true",
        "--tcp -- true",
        "--peer true",
        "--host-loopback",
        "--peer true --host-loopback -- true",
        "--json-stream -- true",
        "-t 5 -- true",
    ] {
        let output = crate::common::run(&format!("wan {flags}"));
        crate::common::refusal(&output, 2);
    }
}

#[test]
fn a_missing_peer_or_gateway_is_named() {
    let place = ScratchDirectory::new();
    let Some(output) = place.run("", &["--peer", "exit 3", "--", "true"]) else { return };
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--peer: the command ended before CMD began: exit status: 3"));
    let output = place.wan("", &["--", "true"]).env("PATH", &place.0).output().unwrap();
    assert_eq!(output.status.code(), Some(77));
    let said = stderr(&output);
    assert!(said.contains("pasta (of the package passt) or slirp4netns"), "{said}");
}

/// A network that is made in another one has the kernel's defaults; the networks of `wan` have its settings.
#[test]
fn tcps_settings_are_those_outside() {
    let script = format!(
        "cd /proc/sys/net/ipv4 && echo 0 > tcp_slow_start_after_idle && echo 4321 > tcp_notsent_lowat && \
         exec {} wan --peer '{PEER}' -- sh -c 'cd /proc/sys/net/ipv4 && cat tcp_slow_start_after_idle tcp_notsent_lowat'",
        crate::common::PROGRAM
    );
    match Command::new("unshare").args(["-Urn", "sh", "-c", &script]).output() {
        Err(error) => skipped(&format!("no unshare: {error}")),
        Ok(output) if output.status.code() == Some(77) || stderr(&output).starts_with("unshare: ") => {
            skipped(stderr(&output).trim());
        }
        Ok(output) => assert_eq!(text(&output.stdout), "0\n4321\n", "{}", stderr(&output)),
    }
}

/// As after `sysctl -w user.max_user_namespaces=0`, in a user namespace where that harms nobody.
#[test]
fn where_user_namespaces_are_forbidden_the_setting_is_named() {
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec {} wan --peer true -- true",
        crate::common::PROGRAM
    );
    let output = Command::new("unshare").args(["-Ur", "sh", "-c", &script]).output();
    match output {
        Ok(output) if output.status.code() == Some(77) => {
            let said = stderr(&output);
            assert!(
                said.contains("user.max_user_namespaces is 0; sysctl -w user.max_user_namespaces=10000"),
                "{said}"
            );
        }
        other => skipped(&format!("no user namespace to try it in: {other:?}")),
    }
}
