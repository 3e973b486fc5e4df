//! `send` to nobody: said at once, and no success.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};

use common::{Receiver, command, run, stderr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Where no other test looks for a port, so that nobody takes this one once it is closed.
fn closed(host: &str) -> SocketAddr {
    UdpSocket::bind((host, 0)).unwrap().local_addr().unwrap()
}

/// A sender, or a receiver, that runs until it is ended.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    fn start(words: &str) -> Self {
        let mut child = command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Running { child, stdout, stderr }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    /// Ends it as Ctrl-C would; its exit code, its report and what else it said.
    fn end(mut self) -> (Option<i32>, Value, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        let mut printed = String::new();
        self.stdout.read_to_string(&mut printed).unwrap();
        // One object over many lines, or the last of many that have one each.
        let last = || serde_json::from_str(printed.lines().last().unwrap());
        let report = serde_json::from_str(&printed).or_else(|_| last()).unwrap();
        (self.child.wait().unwrap().code(), report, said)
    }
}

#[test]
fn a_port_where_nobody_listens_is_told_at_once_and_at_the_end() {
    let address = closed("127.0.88.1");
    for flags in ["-t 60", "-t 60 --quantum 4", "-t 60 --flows 2"] {
        let mut sender = Running::start(&format!("send {address} -b 1kpps --json {flags}"));
        let line = sender.line();
        assert!(line.starts_with(&format!("softtimers: address {address}: nobody listens")), "{line}");
        // It goes on: the run is ended from outside.
        let (exit, report, said) = sender.end();
        assert_eq!((exit, &report["agreement"]), (Some(1), &"none".into()), "{flags}: {said}{report}");
        assert!(said.contains(&format!("address {address}: nobody listens")), "{flags}: {said}");
        assert!(said.contains("also at the end") && said.lines().count() == 1, "{flags}: {said}");
    }
}

#[test]
fn refusals_are_counted() {
    let address = closed("127.0.88.2");
    let output = run(&format!("send {address} -b 1kpps -c 100 --catch-up all --train 1 --json"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // That of the last one comes after it; of a train that catches up the kernel tells less than each.
    let refused = report["socket"]["refused"].as_u64().unwrap();
    assert!(report["sent"] == 100 && refused >= 99, "{report}");
    assert!(stderr(&output).contains(&format!("{refused} datagrams were refused")), "{}", stderr(&output));
}

#[test]
fn whoever_does_not_ask_is_told_once_and_succeeds() {
    let address = closed("127.0.88.3");
    for flags in ["", "--quantum 4"] {
        let output = run(&format!("send {address} -b 1kpps -c 100 --no-handshake --json {flags}"));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.starts_with(&format!("softtimers: address {address}: ")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["agreement"], "not_asked");
    }
}

#[test]
fn a_program_that_never_answers_takes_a_flag() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let words = format!("send {} -b 100pps -c 3 --json", silent.local_addr().unwrap());
    let output = run(&words);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("no softtimers receiver answers").count(), 2, "{said}");
    let output = run(&format!("{words} --no-handshake"));
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

/// Who comes in the middle of the run was missed at its beginning only.
#[test]
fn a_receiver_that_comes_late_is_somebody() {
    let address = closed("127.0.88.4");
    let mut sender = Running::start(&format!("send {address} -b 1kpps -t 60 --json-stream"));
    assert!(sender.line().contains("nobody listens"));
    // Until it has sent some into nothing: that nobody is there, a send after the first is told.
    let mut sent = 0;
    while sent < 10 {
        let mut line = String::new();
        sender.stdout.read_line(&mut line).unwrap();
        sent = serde_json::from_str::<Value>(&line).unwrap()["total"]["sent"].as_u64().unwrap();
    }
    let mut receiver = Running::start(&format!("recv {address} --any -t 60 --json"));
    assert!(receiver.line().contains("listening on"));
    let (exit, report, said) = sender.end();
    assert_eq!(exit, Some(0), "{said}");
    assert!(report["socket"]["refused"].as_u64() > Some(0), "{report}");
    assert_eq!(receiver.end().0, Some(0));
}

#[test]
fn a_receiver_that_dies_is_told_of_at_once() {
    let receiver = Receiver::start("");
    let mut sender = Running::start(&format!("send {} -b 1kpps -t 60 --json-stream", receiver.address));
    // It has agreed before it has a second to report.
    assert_ne!(sender.stdout.read_line(&mut String::new()).unwrap(), 0);
    kill_process(Pid::from_raw(receiver.id() as i32).unwrap(), Signal::KILL).unwrap();
    let line = sender.line();
    // The kernel does not always say which error it was.
    let known = ["nobody listens on that port (ICMP port unreachable)", "datagrams are refused (ICMP)"];
    assert!(known.iter().any(|reason| line.contains(&format!("{reason}; sending on"))), "{line}");
    let (exit, report, said) = sender.end();
    assert_eq!((exit, &report["agreement"]), (Some(1), &"agreed".into()), "{said}");
    let _ = receiver.finish();
}
