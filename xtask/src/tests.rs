//! Reads the output of `cargo test --workspace` in each workspace: the tests that passed, failed, and skipped themselves.
//!
//! ```text
//!      Running tests/contract.rs (target/debug/deps/contract-0123456789abcdef)   ── which suite
//!      Running tests/contract.rs (target/debug/deps/contract-0123456789abcdef)   ── the suite test never_early ... ok                                                        ── one test
//! test on_the_kernel ... ok
//! test result: ok. 2 passed; 0 failed; 0 ignored; …                              ── the harness's own count
//! ```
//!
//! A test prints `skipped: NAME: REASON` on the real standard error, past the harness's capture, so the line can end up
//! in the middle of another one. A result that cannot be parsed because of that shows in the counts, and is a failure.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::mem::take;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Message, TargetKind};

use crate::program::{self, cargo};
use crate::report::{Outcome, Tally};
use crate::workspace::Workspace;

/// The status of a test.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    Passed,
    /// It was ignored, or ended early and said why.
    Skipped(String),
    Failed,
}

/// Every test that ran, as `package::target::path`.
#[derive(Debug, Default)]
pub(crate) struct Tests {
    /// The worst status of each name: several doc-tests of one item share theirs.
    pub(crate) statuses: BTreeMap<String, Status>,
    pub(crate) tally: Tally,
    /// The problems besides failing tests.
    problems: Vec<String>,
}

impl Tests {
    /// Parses the output of a run, or runs the tests if there is none.
    ///
    /// # Errors
    /// If the tests do not build, or the file cannot be read.
    pub(crate) fn from_run(workspace: &Workspace, kept: Option<&Path>) -> Result<Self> {
        let own = workspace.target("tests.txt");
        if kept.is_none() {
            let run = "for place in . papers bench; do (cd $place && cargo test --workspace --no-fail-fast); done 2>&1 | tee \"$0\"";
            program::check(program::program("bash", workspace.root()).args(["-c", run]).arg(&own))?;
        }
        let bytes = fs::read(kept.unwrap_or(&own)).context("the kept output of the tests")?;
        let mut suites = HashMap::new();
        for workspace in workspace.all()? {
            suites.extend(suites_of(&workspace)?);
        }
        Ok(Tests::read(&String::from_utf8_lossy(&bytes), &suites))
    }

    /// Returns `name: reason` of each skipped test.
    pub(crate) fn skipped(&self) -> Vec<String> {
        let reason = |(name, status): (&String, &Status)| match status {
            Status::Skipped(reason) => Some(format!("{name}: {reason}")),
            Status::Passed | Status::Failed => None,
        };
        self.statuses.iter().filter_map(reason).collect()
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let failed = self.statuses.iter().filter(|(_, status)| **status == Status::Failed);
        let mut problems: Vec<_> = failed.map(|(name, _)| name.clone()).collect();
        problems.extend(self.problems.iter().cloned());
        if self.tally.passed == 0 {
            problems.push("no test passed".into());
        }
        let Tally { passed, failed, skipped } = self.tally;
        Outcome::of(problems, format!("{passed} tests passed, {failed} failed, {skipped} skipped"))
    }

    fn read(output: &str, suites: &HashMap<String, String>) -> Self {
        let mut tests = Tests::default();
        let (mut suite, mut read, mut skips) = ("", 0, vec![]);
        let (mut begun, mut unfinished) = (String::new(), None);
        for line in output.lines() {
            let said = line.split_once("skipped: ");
            if let Some((before, said)) = said.filter(|(b, _)| b.is_empty() || b.starts_with("test ")) {
                begun += before;
                skips.push((suite, said));
                continue;
            }
            let line = take(&mut begun) + line;
            if let Some(found) = suite_of(&line, suites) {
                suite = found;
            } else if let Some(counts) = line.strip_prefix("test result: ") {
                tests.tally.passed += count(counts, "passed");
                tests.tally.failed += count(counts, "failed");
                tests.tally.skipped += count(counts, "ignored");
            } else if let Some((name, result)) = test(&line) {
                match status(result) {
                    Some(status) => {
                        tests.add(suite, &name, status);
                        read += 1;
                    }
                    None => unfinished = Some(name),
                }
            } else if let Some(status) = status(&line)
                && let Some(name) = unfinished.take()
            {
                tests.add(suite, &name, status);
                read += 1;
            }
        }
        if read != tests.tally.total() {
            tests.problems.push(format!("{read} results of {} could be read", tests.tally.total()));
        }
        skips.into_iter().for_each(|(suite, said)| tests.skip(suite, said));
        tests
    }

    fn add(&mut self, suite: &str, name: &str, status: Status) {
        let worst = self.statuses.entry(format!("{suite}::{name}")).or_insert(Status::Passed);
        *worst = status.max(worst.clone());
    }

    fn skip(&mut self, suite: &str, said: &str) {
        let (name, reason) = said.split_once(": ").unwrap_or((said, ""));
        match self.statuses.get_mut(&format!("{suite}::{}", name.trim())) {
            Some(status @ Status::Passed) => {
                *status = Status::Skipped(reason.trim().into());
                self.tally.passed -= 1;
                self.tally.skipped += 1;
            }
            Some(_) => {}
            None => self.problems.push(format!("`skipped: {said}` names no test of {suite}")),
        }
    }
}

/// Lists every test of the three workspaces, in order: what each test program says of `--list`, and rustdoc.
///
/// # Errors
/// If the tests do not build, or one does not answer.
pub(crate) fn names(workspace: &Workspace) -> Result<Outcome> {
    let mut all = vec![];
    for workspace in workspace.all()? {
        let suites = suites_of(&workspace)?;
        // Which suite follows is on stderr.
        let list = "cargo test --workspace --no-fail-fast -- --list 2>&1";
        let list = program::output(program::program("bash", workspace.root()).args(["-c", list]))?;
        let mut suite = "";
        for line in list.lines() {
            if let Some(found) = suite_of(line, &suites) {
                suite = found;
            } else if let Some(name) = line.strip_suffix(": test") {
                let (name, _) = test(&format!("test {name} ... ")).unwrap_or_default();
                all.push(format!("{suite}::{name}"));
            }
        }
    }
    all.sort();
    all.dedup();
    Ok(Outcome::passed(all.join("\n")))
}

/// Maps `contract-0123456789abcdef` ─▶ `softtimers-core::contract`, and `softtimers_core` ─▶ `softtimers-core::doc`.
fn suites_of(workspace: &Workspace) -> Result<HashMap<String, String>> {
    let mut cargo = cargo(workspace.root());
    let words = ["test", "--workspace", "--no-run", "--quiet", "--message-format=json-render-diagnostics"];
    let output = cargo.args(words).stderr(std::process::Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the tests do not build");
    let mut suites = HashMap::new();
    for message in Message::parse_stream(&output.stdout[..]) {
        let Message::CompilerArtifact(built) = message? else { continue };
        let Some(file) = built.executable.filter(|_| built.profile.test) else { continue };
        let target = match built.target.kind.first() {
            Some(TargetKind::Test) => built.target.name,
            Some(TargetKind::Bin) => "bin".into(),
            Some(kind @ (TargetKind::Example | TargetKind::Bench)) => format!("{kind}-{}", built.target.name),
            _ => "lib".into(),
        };
        let package = workspace.members().find(|member| member.id == built.package_id);
        let package = package.context("a test of no member")?;
        suites.insert(file.file_name().unwrap_or_default().to_owned(), format!("{}::{target}", package.name));
    }
    for member in workspace.members() {
        for library in member.targets.iter().filter(|target| target.doctest) {
            suites.insert(library.name.replace('-', "_"), format!("{}::doc", member.name));
        }
    }
    Ok(suites)
}

/// Returns the suite whose tests follow this line.
fn suite_of<'a>(line: &str, suites: &'a HashMap<String, String>) -> Option<&'a str> {
    let line = line.trim();
    let file = match line.strip_prefix("Doc-tests ") {
        Some(library) => library,
        None => line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit(['(', '/']).next()?,
    };
    suites.get(file).map(String::as_str)
}

/// Parses name and result of `test tests::x - should panic ... ok`, or of `test src/time.rs - time::Clock (line 9) ...
/// ok`.
fn test(line: &str) -> Option<(String, &str)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (path, rest) = name.split_once(" - ").unwrap_or((name, ""));
    let name = match rest.split_once("(line ").map(|(item, _)| item.trim()) {
        None => path.to_owned(),
        Some("") => "crate".to_owned(),
        Some(item) => item.replace(' ', ""),
    };
    Some((name, result))
}

/// Parses the result at the beginning of `text`. Other output may follow directly.
fn status(text: &str) -> Option<Status> {
    if let Some(rest) = text.strip_prefix("ignored") {
        let reason = rest.trim_start_matches([',', ' ']);
        return Some(Status::Skipped(if reason.is_empty() { "ignored".into() } else { reason.into() }));
    }
    let failed = text.starts_with("FAILED").then_some(Status::Failed);
    failed.or_else(|| text.starts_with("ok").then_some(Status::Passed))
}

/// Returns the number before `word` in `ok. 10 passed; 0 failed; …`.
fn count(counts: &str, word: &str) -> usize {
    let words: Vec<_> = counts.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;

    pub(crate) fn read(body: &str, result: &str) -> Tests {
        let suites = [("contract-01", "core::contract"), ("the_core", "core::doc")];
        let suites = suites.map(|(file, suite)| (file.to_owned(), suite.to_owned())).into();
        let head = "     Running tests/contract.rs (target/debug/deps/contract-01)\n\nrunning 2 tests\n";
        Tests::read(&format!("{head}{body}\ntest result: {result}; 0 measured\n"), &suites)
    }

    #[test]
    fn tests_get_the_name_of_their_package_and_target() {
        let body = "test a ... ok\ntest m::b - should panic ... FAILED\ntest c ... ignored, needs root";
        let tests = read(body, "FAILED. 1 passed; 1 failed; 1 ignored");
        assert_eq!(tests.statuses["core::contract::a"], Status::Passed);
        assert_eq!(tests.outcome(), Outcome::failed("core::contract::m::b"));
        assert_eq!(tests.skipped(), ["core::contract::c: needs root"]);
        let docs = "test result: ok. 0 passed\n   Doc-tests the_core\n\
            test src/time.rs - time::Clock (line 9) ... ok\ntest src/lib.rs - (line 3) - compile ... ok";
        let tests = read(docs, "ok. 2 passed; 0 failed");
        assert_eq!(tests.statuses.keys().collect::<Vec<_>>(), ["core::doc::crate", "core::doc::time::Clock"]);
    }

    #[test]
    fn messages_in_the_middle_of_a_line_are_taken_out() {
        for body in [
            "skipped: b: no root\ntest b ... ok\ntest a ... ok",
            "test a ... skipped: b: no root\nok\ntest b ... ok",
            "test a ... okskipped: b: no root\n\ntest b ... ok",
            "test skipped: b: no root\na ... ok\ntest b ... ok",
            "test a ... a child speaks\nok\nskipped: b: no root\ntest b ... ok",
        ] {
            let tests = read(body, "ok. 2 passed; 0 failed; 0 ignored");
            assert_eq!(tests.skipped(), ["core::contract::b: no root"], "{body}");
            assert_eq!(tests.tally, Tally { passed: 1, failed: 0, skipped: 1 }, "{body}");
            assert!(tests.problems.is_empty(), "{body}: {:?}", tests.problems);
        }
    }

    #[test]
    fn what_cannot_be_read_is_a_problem() {
        let tests = read("test a ... ok\nnoise test b ... ok", "ok. 2 passed; 0 failed; 0 ignored");
        assert_eq!(tests.outcome(), Outcome::failed("1 results of 2 could be read"));
        let tests = read("skipped: other: why\ntest a ... ok", "ok. 1 passed; 0 failed; 0 ignored");
        assert_eq!(tests.outcome(), Outcome::failed("`skipped: other: why` names no test of core::contract"));
        assert_eq!(read("", "ok. 0 passed").outcome(), Outcome::failed("no test passed"));
    }
}
