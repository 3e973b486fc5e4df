//! Runs the workspace's tests and remembers each by name, so that a claim can be held against it.
//!
//! Cargo names the binaries on its standard error, the tests speak on both streams, and which test
//! belongs to which package shows only in the order of the two. So both go into one pipe.
//!
//! ```text
//!   cargo test --no-run ──▶ Suites: binary file ─▶ package::target
//!   cargo test ──stdout+stderr, one pipe──▶ echoed ─▶ output::Reader ─▶ Results: test id ─▶ status
//! ```

pub(crate) mod output;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::program;
use crate::report::{Outcome, Tally};
use crate::workspace::{Target, Workspace};

/// What became of a test.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    Passed,
    /// Ignored, or it ended early and said why.
    Skipped(String),
    Failed,
}

/// The test binaries of the workspace, and its doc-tests.
#[derive(Debug, Default)]
pub(crate) struct Suites {
    /// `contract-0123456789abcdef` ─▶ `softtimers-core::contract`.
    pub(crate) by_file: HashMap<String, String>,
    /// `softtimers_core` ─▶ `softtimers-core::doc`.
    pub(crate) docs: HashMap<String, String>,
    /// Programs built beside the tests, by name.
    pub(crate) programs: HashMap<String, PathBuf>,
}

/// Every test that ran.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// The worst status of each id: several doc-tests of one item share theirs.
    pub(crate) statuses: BTreeMap<String, Status>,
    pub(crate) tally: Tally,
    /// What was wrong besides failing tests, a line each.
    pub(crate) problems: Vec<String>,
}

impl Results {
    pub(crate) fn add(&mut self, id: String, status: Status) {
        match status {
            Status::Passed => self.tally.passed += 1,
            Status::Failed => self.tally.failed += 1,
            Status::Skipped(_) => self.tally.skipped += 1,
        }
        let worst = self.statuses.entry(id).or_insert(Status::Passed);
        *worst = status.max(worst.clone());
    }

    /// `id: reason` of each skipped test.
    pub(crate) fn skipped(&self) -> Vec<String> {
        let reason = |(id, status): (&String, &Status)| match status {
            Status::Skipped(reason) => Some(format!("{id}: {reason}")),
            Status::Passed | Status::Failed => None,
        };
        self.statuses.iter().filter_map(reason).collect()
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let failed = self.statuses.iter().filter(|(_, status)| **status == Status::Failed);
        let mut problems: Vec<_> = failed.map(|(id, _)| id.clone()).collect();
        problems.extend(self.problems.iter().cloned());
        if self.tally.passed == 0 {
            problems.push("no test passed".into());
        }
        let Tally { passed, failed, skipped } = self.tally;
        Outcome::of(problems, format!("{passed} tests passed, {failed} failed, {skipped} skipped"))
    }
}

/// Builds the tests and tells which binary is which.
///
/// # Errors
/// If they do not build.
pub(crate) fn build(workspace: &Workspace) -> Result<Suites> {
    let mut suites = Suites::default();
    built(workspace, &[])?.into_iter().for_each(|artifact| suites.add(workspace, artifact));
    for member in workspace.members() {
        for library in member.targets.iter().filter(|target| target.is("lib")) {
            suites.docs.insert(library.name.replace('-', "_"), format!("{}::doc", member.name));
        }
    }
    Ok(suites)
}

/// Builds benches as the tests are built, and tells where each is.
///
/// # Errors
/// If they do not build.
pub(crate) fn benches(workspace: &Workspace, names: &BTreeSet<&str>) -> Result<HashMap<String, PathBuf>> {
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let chosen: Vec<_> = names.iter().flat_map(|name| ["--bench", name]).collect();
    let bench = |artifact: Artifact| {
        let target = artifact.target.filter(|target| target.is("bench"))?;
        Some((target.name, artifact.executable?))
    };
    Ok(built(workspace, &chosen)?.into_iter().filter_map(bench).collect())
}

/// What cargo says that it has built of the workspace's tests, or of what is `chosen`.
fn built(workspace: &Workspace, chosen: &[&str]) -> Result<Vec<Artifact>> {
    let mut cargo = program::cargo(workspace.root());
    cargo.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]).args(chosen);
    println!("$ {}", program::shown(&cargo));
    // Cargo's own lines, compiler errors among them, go straight to the terminal.
    let output = cargo.stderr(std::process::Stdio::inherit()).output().context("cannot start cargo")?;
    anyhow::ensure!(output.status.success(), "the tests do not build");
    let text = String::from_utf8(output.stdout)?;
    let artifact = |line| serde_json::from_str(line).context("cannot read cargo's messages");
    text.lines().filter(|line| line.starts_with('{')).map(artifact).collect()
}

/// One message of cargo; those of other reasons lack the fields.
#[derive(Debug, Deserialize)]
struct Artifact {
    package_id: Option<String>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

impl Suites {
    fn add(&mut self, workspace: &Workspace, artifact: Artifact) {
        let Artifact {
            package_id: Some(id),
            target: Some(target),
            profile: Some(profile),
            executable: Some(path),
        } = artifact
        else {
            return;
        };
        let Some(package) = workspace.members().find(|member| member.id == id) else { return };
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if profile.test {
            self.by_file.insert(file, format!("{}::{}", package.name, suite_name(&target)));
        } else {
            self.programs.insert(target.name, path);
        }
    }
}

fn suite_name(target: &Target) -> String {
    match target.kind.first().map(String::as_str) {
        Some("test") => target.name.clone(),
        Some("bin") => "bin".into(),
        Some(kind @ ("example" | "bench")) => format!("{kind}-{}", target.name),
        _ => "lib".into(),
    }
}

/// Runs all tests, echoing what they print.
///
/// # Errors
/// If cargo cannot be started or its output not be read.
pub(crate) fn run(workspace: &Workspace, suites: &Suites) -> Result<Results> {
    let mut cargo = program::cargo(workspace.root());
    cargo.args(["test", "--workspace", "--no-fail-fast"]);
    println!("$ {}", program::shown(&cargo));
    let (mut child, lines) = start(cargo)?;
    let mut reader = output::Reader::new(suites);
    let status = follow(&mut child, &lines, &mut reader)?;
    let mut results = reader.finish();
    if !status.success() && results.tally.failed == 0 {
        results.problems.push(format!("cargo test ended with {status}"));
    }
    Ok(results)
}

/// Starts `command` with both output streams in one pipe; its lines arrive in order.
fn start(mut command: Command) -> Result<(Child, Receiver<io::Result<String>>)> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn().context("cannot start cargo")?;
    // `command` still holds the pipe's writing end; with it the pipe would never end.
    drop(command);
    let (send, lines) = mpsc::channel();
    thread::spawn(move || read_lines(reader, &send));
    Ok((child, lines))
}

fn read_lines(pipe: PipeReader, send: &mpsc::Sender<io::Result<String>>) {
    let mut pipe = BufReader::new(pipe);
    let mut bytes = vec![];
    loop {
        bytes.clear();
        let line = match pipe.read_until(b'\n', &mut bytes) {
            Ok(0) => return,
            Ok(_) => Ok(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned()),
            Err(error) => Err(error),
        };
        if send.send(line).is_err() {
            return;
        }
    }
}

/// Reads until the pipe ends, or until cargo has ended and nothing more comes: a process that a test
/// left behind would otherwise hold us up for as long as it lives.
fn follow(
    child: &mut Child,
    lines: &Receiver<io::Result<String>>,
    reader: &mut output::Reader<'_>,
) -> Result<ExitStatus> {
    let mut out = io::stdout().lock();
    loop {
        match lines.recv_timeout(Duration::from_secs(2)) {
            Ok(line) => {
                let line = line?;
                writeln!(out, "{line}")?;
                reader.line(&line);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    reader.problem("a test left a process behind that holds its output open");
                    return Ok(status);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_status_of_an_id_stands() {
        let mut results = Results::default();
        results.add("a".into(), Status::Passed);
        results.add("a".into(), Status::Failed);
        results.add("a".into(), Status::Passed);
        results.add("b".into(), Status::Skipped("no root".into()));
        assert_eq!(results.statuses["a"], Status::Failed);
        assert_eq!(results.tally, Tally { passed: 2, failed: 1, skipped: 1 });
        assert_eq!(results.skipped(), ["b: no root"]);
    }

    #[test]
    fn a_run_without_a_test_fails() {
        assert_eq!(Results::default().outcome(), Outcome::failed("no test passed"));
    }

    #[test]
    fn both_streams_arrive_in_the_order_they_were_written() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "for i in 1 2 3; do echo out $i; echo err $i >&2; done"]);
        let (mut child, lines) = start(shell).unwrap();
        let lines: Vec<_> = lines.iter().map(Result::unwrap).collect();
        assert_eq!(lines, ["out 1", "err 1", "out 2", "err 2", "out 3", "err 3"]);
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_process_left_behind_does_not_hold_us_up() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!"]);
        let (mut child, lines) = start(shell).unwrap();
        let left = lines.recv().unwrap().unwrap();
        let suites = Suites::default();
        let mut reader = output::Reader::new(&suites);
        follow(&mut child, &lines, &mut reader).unwrap();
        let problems = reader.finish().problems;
        assert_eq!(problems, ["a test left a process behind that holds its output open"]);
        assert!(Command::new("kill").arg(left).status().unwrap().success());
    }
}
