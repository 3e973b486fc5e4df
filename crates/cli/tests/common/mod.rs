//! Runs the real command.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod hosts;
pub mod offloads;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Once, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The program of the package whose tests these are: `softtimers`, or `softtimers-papers`, which shares this file.
pub const PROGRAM: &str =
    match (option_env!("CARGO_BIN_EXE_softtimers"), option_env!("CARGO_BIN_EXE_softtimers-papers")) {
        (Some(tools), _) => tools,
        (None, Some(papers)) => papers,
        (None, None) => panic!("a package without a program"),
    };

/// Whether these are the tests of `softtimers-papers`.
pub const IS_PAPERS: bool = option_env!("CARGO_BIN_EXE_softtimers").is_none();

/// Says whether a command line calls a command of `softtimers-papers`.
pub fn is_of_papers(words: &str) -> bool {
    let first = words.trim_start().split(' ').next().unwrap_or_default();
    ["sim", "noise", "probe", "report"].contains(&first)
}

/// The command with these arguments, words separated by spaces.
pub fn command(words: &str) -> Command {
    watch();
    let mut command = Command::new(PROGRAM);
    command.args(words.split(' ').filter(|word| !word.is_empty())).stdin(Stdio::null());
    command
}

/// A test that waits for ever fails instead: from the first command on, the tests of this file have a few
/// minutes, several times what they need beside two hogs.
pub fn watch() {
    static WATCHDOG: Once = Once::new();
    WATCHDOG.call_once(|| {
        std::thread::spawn(|| {
            let (_never_used, nothing) = mpsc::channel::<()>();
            let _ = nothing.recv_timeout(Duration::from_secs(240));
            let _ = writeln!(std::io::stderr(), "a test still waits after 240 s; giving up");
            std::process::abort();
        });
    });
}

/// Runs it to its end.
pub fn run(words: &str) -> Output {
    command(words).output().expect("the command starts")
}

/// The text that the command printed on stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Stops a process, and waits until it is: one that does not run at the moment stops when it would next, and not at all
/// if it is told to go on before.
pub fn stop(process: u32) {
    let id = Pid::from_raw(process as i32).expect("a process");
    kill_process(id, Signal::STOP).expect("our child");
    let is_stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        assert_ne!(state, Some('Z'), "process {process} has ended");
        state == Some('T')
    };
    // The watchdog bounds the wait.
    let tasks = || std::fs::read_dir(format!("/proc/{process}/task")).expect("our child").flatten();
    while !tasks().all(is_stopped) {
        std::thread::yield_now();
    }
}

/// A failure as scripts rely on it: this exit code, one line on stderr with tips below it, nothing on stdout.
pub fn refusal(output: &Output, exit: i32) -> String {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(exit), "{message}");
    assert!(output.stdout.is_empty(), "stdout: {}", String::from_utf8_lossy(&output.stdout));
    let mut lines = message.trim_end().lines();
    let is_one = lines.next().is_some_and(|line| line.starts_with("softtimers: "));
    assert!(is_one && lines.all(|tip| tip.starts_with("  ")), "{message:?}");
    message
}

/// Says that this test could not run, past the harness's capture, so that it is counted.
pub fn skipped(reason: &str) {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// `send` with these flags to a fresh receiver; returns what both say.
pub fn pair(flags: &str) -> (Value, Value) {
    pair_of("send", flags)
}

/// Runs another sending subcommand, such as `replay FILE`, with these flags; returns what both say.
pub fn pair_of(subcommand: &str, flags: &str) -> (Value, Value) {
    let receiver = Receiver::start("--once");
    let words = format!("{subcommand} {} --json {flags}", receiver.address);
    let sender = command(&words).output().expect("the command starts");
    assert_eq!(sender.status.code(), Some(0), "{words}: {}", stderr(&sender));
    let (exit, received, last_words) = receiver.finish();
    assert_eq!(exit, Some(0), "{words}: {last_words}");
    (serde_json::from_slice(&sender.stdout).expect("an object"), received)
}

/// Says whether datagrams ran over the receiver's buffer, while it was kept from its CPU for longer than the buffer has
/// room for: for tens of milliseconds where nobody may have a large one. Then nothing follows from what is missing.
pub fn ran_over(received: &Value) -> bool {
    let drops = received["socket_drops"].as_u64().unwrap_or(0);
    if drops > 0 {
        let buffer = &received["config"]["recv_buffer_bytes"];
        skipped(&format!(
            "the machine stood still: a buffer of {buffer} bytes ran over, {drops} were dropped"
        ));
        assert!(received["lost"].as_u64() <= Some(drops), "{received}");
    }
    drops > 0
}

/// The output of `--json-stream`: the lines of the intervals, and the object at the end. The intervals follow each
/// other, and the counts of `count` in them add up to what the totals and the object say.
pub fn streamed(stdout: &[u8], command: &str, count: &str) -> (Vec<Value>, Value) {
    let text = std::str::from_utf8(stdout).expect("UTF-8");
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let object = lines.pop().expect("a line");
    let number = if ["send", "replay"].contains(&command) { 2 } else { 1 };
    assert_eq!(object["schema"], format!("softtimers.{command}/{number}"));
    assert!(text.ends_with('\n') && object["machine"]["kernel"].is_string(), "{text}");
    let (mut end, mut sum) = (0.0, 0);
    for line in &lines {
        assert_eq!(line["schema"], format!("softtimers.{command}.stream/{number}"), "{text}");
        assert_eq!((&line["version"], &line["from_s"]), (&object["version"], &end.into()), "{text}");
        end = line["to_s"].as_f64().expect("a number");
        sum += line["interval"][count].as_i64().expect("a number");
        assert_eq!(line["total"][count], sum, "{text}");
    }
    assert_eq!(object[count], sum, "{text}");
    (lines, object)
}

/// A running `softtimers recv`.
pub struct Receiver {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub address: SocketAddr,
}

impl Receiver {
    /// Starts it on a free port of the loopback and waits until it listens.
    pub fn start(flags: &str) -> Self {
        let mut child = command(&format!("recv 127.0.0.1:0 --duration 60s --json {flags}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("UTF-8");
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}"));
        Receiver { child, stderr, address: address.parse().expect("an address") }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; returns the exit code, the object it printed, and its last words.
    pub fn finish(mut self) -> (Option<i32>, Value, String) {
        let mut stdout = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut stdout).expect("UTF-8");
        let mut words = String::new();
        self.stderr.read_to_string(&mut words).expect("UTF-8");
        let status = self.child.wait().expect("our child");
        (status.code(), serde_json::from_str(&stdout).unwrap_or(Value::Null), words)
    }
}

/// Checks a text for Prometheus as the format's description says: what a metric is stands before its samples, which are
/// together and differ.
pub fn check_exposition(text: &str) {
    use std::collections::BTreeSet;

    assert!(text.ends_with('\n'));
    let (mut known, mut samples, mut lines) = (BTreeSet::new(), BTreeSet::new(), text.lines().peekable());
    while let Some(help) = lines.next() {
        let name = help.strip_prefix("# HELP ").and_then(|rest| rest.split(' ').next()).expect(help);
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert!(known.insert(name), "{name} twice");
        let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} "))).expect(name);
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} {kind}");
        while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
            let (series, value) = sample.rsplit_once(' ').expect(sample);
            assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{sample}");
            assert!(samples.insert(series), "{series} twice");
            let own = series.split('{').next().unwrap();
            let of_it = kind == "summary" && matches!(own.strip_prefix(name), Some("_sum" | "_count"));
            assert!(own == name || of_it, "{sample} below {name}");
        }
    }
}
