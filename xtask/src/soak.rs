//! Long runs of the command, whose counts must add up and whose memory must not grow. Steps of [`full`](crate::full).
//!
//! ```text
//!   send ──────────────────▶ recv --any      everything sent was received, and no process grows
//!   send ──▶ wan, 10 ms ──▶
//! ```
//!
//! The build is the one of tests: overflows and assertions end it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use softtimers_measure::machine::Machine;
use softtimers_trials::result::{Results, Table};

use crate::program::{self, cargo};
use crate::report::{Outcome, stopwatch};
use crate::workspace::Workspace;

/// Forwards for a minute by each driver, while rules change, links flap and interfaces are recreated.
pub(crate) fn forwarding(workspace: &Workspace) -> Result<Outcome> {
    let directory = workspace.target("assurance");
    fs::create_dir_all(&directory)?;
    let (piece, kept) = (directory.join("forwarding-piece.json"), directory.join("forwarding.json"));
    let mut results = Results::today(&Machine::read().line(), "cargo xtask full forwarding");
    let mut problems = vec![];
    for driver in ["packet", "xdp", "tc", "xdp_fast"] {
        // A driver that is not available leaves no part, and must not inherit another's.
        let _ = fs::remove_file(&piece);
        let name = format!("interfaces::soak::every_frame_is_accounted_for_by_{driver}");
        let mut cargo = cargo(workspace.root());
        cargo.args(["test", "-p", "softtimers-cli", "--test", "forward", "--", "--exact", &name]);
        let done = program::check(cargo.env("SOFTTIMERS_FULL", "1").env("SOFTTIMERS_RESULTS", &piece))?;
        if let Outcome::Failed(found) = done {
            problems.extend(found);
        }
        let Ok(text) = fs::read_to_string(&piece) else { continue };
        for table in Results::parse(&text).map_err(anyhow::Error::msg)?.tables {
            match results.tables.first_mut() {
                Some(all) => all.rows.extend(table.rows),
                None => results.tables.push(table),
            }
        }
    }
    let _ = fs::remove_file(&piece);
    if results.tables.is_empty() && problems.is_empty() {
        return Ok(Outcome::skipped("no driver works here: it takes root and `ip`"));
    }
    fs::write(&kept, results.to_text()?)?;
    Ok(Outcome::of(problems, kept.display().to_string()))
}

/// Sends for `minutes` minutes.
pub(crate) fn soak(workspace: &Workspace, minutes: u32) -> Result<Outcome> {
    program::must(cargo(workspace.root()).args(["build", "-p", "softtimers-cli"]))?;
    let program = workspace.target("debug/softtimers");
    let start = |words: &str| Process::start(&program, words);
    let mut receiver = start("recv 127.0.0.1:0 --any --json")?;
    let to = receiver.announced("listening on ")?;
    let mut path = start(&format!("wan --listen 127.0.0.1:0 --to {to} --rtt 10ms --json"))?;
    let by = path.announced("listening on ")?;
    let mut senders = vec![];
    for address in [&to, &by] {
        senders.push(start(&format!("send {address} --rate {RATE} --duration {minutes}min --json"))?);
    }
    let began = stopwatch();
    let memory = watched(&mut senders, [&receiver, &path])?;
    let seconds = began.elapsed().as_secs_f64();
    let mut sent = 0;
    for sender in senders {
        sent += sender.report()?["sent"].as_u64().context("no count of what was sent")?;
    }
    // Datagrams may still be under way.
    thread::park_timeout(EVERY);
    [&receiver, &path].iter().try_for_each(|process| process.end())?;
    let (received, carried) = (receiver.report()?, path.report()?);
    let count = |value: &Value| value.as_u64().context("no count of what came");
    let (received, carried) =
        (count(&received["received"])?, count(&carried["up"]["measured"]["delivered"])?);
    let (early, late) = (most(&memory, 0), most(&memory, memory.len() * 3 / 4));
    let mut table = Table::new("soak", &COLUMNS.map(|head| (head, 0)));
    table.row([
        "send to recv, and by wan".into(),
        (seconds / 60.0).round().into(),
        (sent as f64).into(),
        (received as f64).into(),
        (early as f64).into(),
        (late as f64).into(),
    ]);
    table.note(format!("{carried} datagrams passed wan, its sender's handshake included; memory is the largest process's, in its first and last quarter"));
    let run = format!("cargo xtask full soak --minutes {minutes}");
    let results = Results { tables: vec![table], ..Results::today(&Machine::read().line(), &run) };
    fs::create_dir_all(workspace.target("assurance"))?;
    let kept = workspace.target("assurance/soak.json");
    fs::write(&kept, results.to_text()?)?;
    let mut problems = vec![];
    if sent != received {
        problems.push(format!("{sent} were sent, and {received} came"));
    }
    if late > early + GROWTH {
        problems.push(format!("memory grew from {early} to {late} KiB"));
    }
    Ok(Outcome::of(problems, format!("{sent} datagrams; {}", kept.display())))
}

const COLUMNS: [&str; 6] = ["what", "minutes", "sent", "received", "KiB early", "KiB late"];

/// Samples the memory of all once a second, until no sender runs.
fn watched(senders: &mut [Process], others: [&Process; 2]) -> Result<Vec<Vec<u64>>> {
    let mut memory = vec![];
    loop {
        thread::park_timeout(EVERY);
        let mut running = false;
        for sender in &mut *senders {
            running |= sender.child.try_wait()?.is_none();
        }
        if !running {
            return Ok(memory);
        }
        memory.push(others.into_iter().chain(&*senders).map(Process::memory).collect());
    }
}

/// Returns the maximum over a quarter of the samples, from this one on.
fn most(memory: &[Vec<u64>], from: usize) -> u64 {
    let quarter = memory.len().div_ceil(4);
    memory.iter().skip(from).take(quarter).flatten().copied().max().unwrap_or(0)
}

/// A running command; it is ended when this is dropped.
struct Process {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Process {
    fn start(program: &Path, words: &str) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(words.split(' ')).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| words.to_owned())?;
        let stderr = child.stderr.take().context("no stderr")?;
        Ok(Process { child, stderr: BufReader::new(stderr) })
    }

    /// Returns the address after this prefix.
    fn announced(&mut self, prefix: &str) -> Result<String> {
        let mut line = String::new();
        self.stderr.read_line(&mut line)?;
        let rest = line.trim().strip_prefix(prefix).with_context(|| line.clone())?;
        Ok(rest.split(',').next().unwrap_or_default().to_owned())
    }

    /// Returns its memory in KiB; 0 once it has ended.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        resident.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    fn end(&self) -> Result<()> {
        let id = self.child.id().to_string();
        program::must(Command::new("kill").args(["-TERM", &id]))
    }

    /// Returns its object.
    fn report(mut self) -> Result<Value> {
        let mut text = String::new();
        self.child.stdout.take().context("no stdout")?.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        let mut said = String::new();
        self.stderr.read_to_string(&mut said)?;
        ensure!(status.success(), "{status}: {said}");
        Ok(serde_json::from_str(&text)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Most have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const RATE: &str = "2kpps";
const EVERY: Duration = Duration::from_secs(1);
/// The growth in KiB that an allocator may cause.
const GROWTH: u64 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_looked_at() {
        let memory: Vec<_> = (0..8).map(|at| vec![at, 1]).collect();
        assert_eq!((most(&memory, 0), most(&memory, 6), most(&[], 0)), (1, 7, 0));
    }
}
