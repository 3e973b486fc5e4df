//! Reads what `cargo test` prints, line by line.
//!
//! ```text
//!      Running tests/contract.rs (target/debug/deps/contract-0123456789abcdef)   ── which suite
//! running 2 tests                                                                ── a block begins
//! test never_early ... ok                                                        ── one test
//! skipped: on_the_kernel: no CAP_NET_ADMIN                                       ── said by a test itself
//! test on_the_kernel ... ok
//! test result: ok. 2 passed; 0 failed; 0 ignored; …                              ── the block ends
//! ```
//!
//! A test says `skipped: NAME: REASON` on the real standard error, past the harness's capture, so the
//! line can fall into the middle of another one. Whatever cannot be read shows at the end of the
//! block, where the harness's own count must equal ours; a difference is a failure, not a guess.

use std::collections::HashSet;

use super::{Results, Status, Suites};

/// A reader of one run.
pub(crate) struct Reader<'a> {
    suites: &'a Suites,
    /// `package::target` of the tests now running.
    suite: Option<&'a str>,
    block: Option<Block>,
    /// Files of test binaries that have not run yet.
    to_come: HashSet<&'a str>,
    /// The beginning of a line that a skip message cut in two.
    begun: String,
    results: Results,
}

/// What stands between `running N tests` and `test result:`.
#[derive(Default)]
struct Block {
    tests: Vec<(String, Status)>,
    /// `(name, reason)`, as the tests said them.
    skips: Vec<(String, String)>,
    /// A test whose result has not come, because something else was printed into its line.
    unfinished: Option<String>,
    /// The output of failed tests follows; nothing in it is a result.
    in_failures: bool,
}

const SKIPPED: &str = "skipped: ";

impl<'a> Reader<'a> {
    pub(crate) fn new(suites: &'a Suites) -> Self {
        let to_come = suites.by_file.keys().map(String::as_str).collect();
        Reader {
            suites,
            suite: None,
            block: None,
            to_come,
            begun: String::new(),
            results: Results::default(),
        }
    }

    /// Takes the next line.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some((before, message)) = skip_message(line) {
            self.begun += before;
            return self.skip(message);
        }
        let line = std::mem::take(&mut self.begun) + line;
        if self.heading(&line) {
            return;
        }
        if line.starts_with("running ") && line.trim_end().ends_with(['t', 's']) && self.suite.is_some() {
            self.unended();
            self.block = Some(Block::default());
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.end(counts);
        } else if let Some(block) = &mut self.block {
            block.line(&line);
        }
    }

    /// Notes what is wrong besides a failing test.
    pub(crate) fn problem(&mut self, problem: impl Into<String>) {
        self.results.problems.push(problem.into());
    }

    /// The results, after the last line.
    pub(crate) fn finish(mut self) -> Results {
        self.unended();
        let mut missing: Vec<_> = self.to_come.iter().map(|file| &self.suites.by_file[*file]).collect();
        missing.sort();
        let problems: Vec<_> = missing.iter().map(|suite| format!("{suite} did not run")).collect();
        self.results.problems.extend(problems);
        self.results
    }

    /// Whether the line names the suite that follows.
    fn heading(&mut self, line: &str) -> bool {
        let line = line.trim_start();
        let suites = self.suites;
        let suite = if let Some(name) = line.strip_prefix("Doc-tests ") {
            suites.docs.get(name.trim())
        } else if let Some(rest) = line.strip_prefix("Running ") {
            let path = rest.trim_end().strip_suffix(')').and_then(|rest| rest.rsplit_once('('));
            let file = path.map(|(_, path)| path.rsplit('/').next().unwrap_or(path));
            file.and_then(|file| {
                self.to_come.remove(file);
                suites.by_file.get(file)
            })
        } else {
            None
        };
        let Some(suite) = suite else { return false };
        self.unended();
        self.suite = Some(suite);
        true
    }

    fn skip(&mut self, message: &str) {
        let Some((name, reason)) = message.split_once(": ") else {
            return self.problem(format!("`{SKIPPED}{message}` must be `{SKIPPED}TEST: REASON`"));
        };
        match &mut self.block {
            Some(block) => block.skips.push((name.trim().into(), reason.trim().into())),
            None => self.problem(format!("`{SKIPPED}{message}` comes from no test")),
        }
    }

    /// A block without an end: the binary died.
    fn unended(&mut self) {
        if let (Some(block), Some(suite)) = (self.block.take(), self.suite) {
            self.problem(format!("{suite} ended without a result"));
            self.keep(block, suite);
        }
    }

    fn end(&mut self, counts: &str) {
        let (Some(block), Some(suite)) = (self.block.take(), self.suite) else { return };
        let announced = ["passed", "failed", "ignored"].map(|word| count(counts, word));
        let read = block.counts();
        if announced != read.map(Some) {
            self.problem(format!("{suite}: read {read:?} passed, failed, ignored; it says `{counts}`"));
        }
        self.keep(block, suite);
    }

    fn keep(&mut self, mut block: Block, suite: &str) {
        for (name, reason) in std::mem::take(&mut block.skips) {
            if !block.skip(&name, &reason) {
                self.problem(format!("`{SKIPPED}{name}: {reason}` names no test of {suite}"));
            }
        }
        for (name, status) in block.tests {
            self.results.add(format!("{suite}::{name}"), status);
        }
    }
}

impl Block {
    fn line(&mut self, line: &str) {
        if line == "failures:" {
            self.in_failures = true;
        }
        if self.in_failures {
            return;
        }
        if let Some((name, rest)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            let name = plain_name(name);
            match status(rest) {
                Some(status) => self.tests.push((name, status)),
                None => self.unfinished = Some(name),
            }
        } else if let Some(status) = status(line) {
            let name = self.unfinished.take();
            self.tests.extend(name.map(|name| (name, status)));
        }
    }

    /// Turns the tests that `name` means into skipped ones; whether there was any.
    fn skip(&mut self, name: &str, reason: &str) -> bool {
        let tail = format!("::{name}");
        let meant = self.tests.iter_mut().filter(|(test, _)| test == name || test.ends_with(&tail));
        let mut any = false;
        for (_, status) in meant {
            any = true;
            if *status == Status::Passed {
                *status = Status::Skipped(reason.into());
            }
        }
        any
    }

    /// Passed, failed, ignored, as the harness counts.
    fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for (_, status) in &self.tests {
            counts[match status {
                Status::Passed => 0,
                Status::Failed => 1,
                Status::Skipped(_) => 2,
            }] += 1;
        }
        counts
    }
}

/// `(what stands before it, NAME: REASON)` if a test says in this line that it is skipped.
fn skip_message(line: &str) -> Option<(&str, &str)> {
    let (before, message) = line.split_once(SKIPPED)?;
    (before.is_empty() || before.starts_with("test ")).then_some((before, message))
}

/// The result at the beginning of `text`. Something may be printed right after it.
fn status(text: &str) -> Option<Status> {
    if let Some(rest) = text.strip_prefix("ignored") {
        let reason = rest.trim_start_matches([',', ' ']);
        Some(Status::Skipped(if reason.is_empty() { "ignored".into() } else { reason.into() }))
    } else if text.starts_with("FAILED") {
        Some(Status::Failed)
    } else {
        text.starts_with("ok").then_some(Status::Passed)
    }
}

/// `tests::x - should panic` ─▶ `tests::x`; `src/time.rs - time::Clock (line 9) - compile` ─▶ `time::Clock`.
fn plain_name(name: &str) -> String {
    let Some((path, rest)) = name.split_once(" - ") else { return name.to_owned() };
    let Some((item, _)) = rest.split_once("(line ") else { return path.to_owned() };
    let item = item.trim();
    if item.is_empty() { "crate".into() } else { item.replace(' ', "") }
}

/// The number before `word` in `10 passed; 0 failed; …`.
fn count(counts: &str, word: &str) -> Option<usize> {
    let words: Vec<_> = counts.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word)?[0].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites() -> Suites {
        let mut suites = Suites::default();
        suites.by_file.insert("contract-01".into(), "core::contract".into());
        suites.by_file.insert("core-02".into(), "core::lib".into());
        suites.docs.insert("the_core".into(), "core::doc".into());
        suites
    }

    /// The run of `contract`, with `body` as its tests, then an empty one of `lib`.
    fn read(body: &str, result: &str) -> Results {
        let suites = suites();
        let mut reader = Reader::new(&suites);
        let head = "   Compiling core\n     Running tests/contract.rs (target/debug/deps/contract-01)\n\nrunning 2 tests\n";
        let tail = "\n     Running unittests src/lib.rs (/t/debug/deps/core-02)\n\nrunning 0 tests\n\n\
                    test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let text = format!(
            "{head}{body}\ntest result: {result}; 0 measured; 0 filtered out; finished in 0.1s\n{tail}"
        );
        text.lines().for_each(|line| reader.line(line));
        reader.finish()
    }

    fn statuses(results: &Results) -> Vec<(&str, &Status)> {
        results.statuses.iter().map(|(id, status)| (id.as_str(), status)).collect()
    }

    #[test]
    fn tests_get_the_name_of_their_package_and_target() {
        let results = read(
            "test a ... ok\ntest m::b - should panic ... FAILED",
            "FAILED. 1 passed; 1 failed; 0 ignored",
        );
        assert_eq!(
            statuses(&results),
            [("core::contract::a", &Status::Passed), ("core::contract::m::b", &Status::Failed)]
        );
        assert!(results.problems.is_empty(), "{:?}", results.problems);
    }

    #[test]
    fn ignored_tests_are_skipped_with_their_reason() {
        let results =
            read("test a ... ignored, needs root\ntest b ... ignored", "ok. 0 passed; 0 failed; 2 ignored");
        assert_eq!(results.skipped(), ["core::contract::a: needs root", "core::contract::b: ignored"]);
    }

    #[test]
    fn a_test_that_says_so_is_skipped() {
        let body = "skipped: m::a: no CAP_NET_ADMIN: asked\ntest m::a ... ok\ntest b ... ok";
        let results = read(body, "ok. 2 passed; 0 failed; 0 ignored");
        assert_eq!(results.skipped(), ["core::contract::m::a: no CAP_NET_ADMIN: asked"]);
        assert_eq!((results.tally.passed, results.tally.skipped), (1, 1));
        assert!(results.problems.is_empty(), "{:?}", results.problems);
    }

    #[test]
    fn messages_in_the_middle_of_a_line_are_taken_out() {
        for body in [
            "test a ... skipped: b: no root\nok\ntest b ... ok",
            "test a ... okskipped: b: no root\n\ntest b ... ok",
            "test skipped: b: no root\na ... ok\ntest b ... ok",
            "test a ... a child speaks\nok\nskipped: b: no root\ntest b ... ok",
        ] {
            let results = read(body, "ok. 2 passed; 0 failed; 0 ignored");
            assert_eq!(results.skipped(), ["core::contract::b: no root"], "{body}");
            assert_eq!(results.statuses["core::contract::a"], Status::Passed, "{body}");
            assert!(results.problems.is_empty(), "{body}: {:?}", results.problems);
        }
    }

    #[test]
    fn a_failed_test_stays_failed_when_it_also_says_skipped() {
        let results = read(
            "skipped: a: why\ntest a ... FAILED\ntest b ... ok",
            "FAILED. 1 passed; 1 failed; 0 ignored",
        );
        assert_eq!(results.statuses["core::contract::a"], Status::Failed);
    }

    #[test]
    fn a_skip_of_an_unknown_test_is_a_problem() {
        let results =
            read("skipped: other: why\ntest a ... ok\ntest b ... ok", "ok. 2 passed; 0 failed; 0 ignored");
        assert_eq!(results.problems, ["`skipped: other: why` names no test of core::contract"]);
        let results = read("skipped: a\ntest a ... ok\ntest b ... ok", "ok. 2 passed; 0 failed; 0 ignored");
        assert_eq!(results.problems, ["`skipped: a` must be `skipped: TEST: REASON`"]);
    }

    #[test]
    fn a_result_that_could_not_be_read_is_a_problem() {
        let results = read("test a ... ok\nnoise test b ... ok", "ok. 2 passed; 0 failed; 0 ignored");
        assert_eq!(results.problems.len(), 1);
        assert!(results.problems[0].starts_with("core::contract: read [1, 0, 0]"), "{:?}", results.problems);
    }

    #[test]
    fn the_output_of_failed_tests_is_no_result() {
        let body = "test a ... FAILED\ntest b ... ok\n\nfailures:\n\n---- a stdout ----\ntest c ... ok\n\nfailures:\n    a\n";
        let results = read(body, "FAILED. 1 passed; 1 failed; 0 ignored");
        assert_eq!(results.tally.total(), 2);
        assert!(results.problems.is_empty(), "{:?}", results.problems);
    }

    #[test]
    fn a_binary_that_dies_or_never_runs_is_a_problem() {
        let suites = suites();
        let mut reader = Reader::new(&suites);
        for line in [
            "  Running tests/contract.rs (target/debug/deps/contract-01)",
            "running 2 tests",
            "test a ... ok",
        ] {
            reader.line(line);
        }
        let results = reader.finish();
        assert_eq!(results.problems, ["core::contract ended without a result", "core::lib did not run"]);
        assert_eq!(results.statuses["core::contract::a"], Status::Passed);
    }

    #[test]
    fn doc_tests_are_named_by_item_without_the_line() {
        let suites = suites();
        let mut reader = Reader::new(&suites);
        let text = "   Doc-tests the_core\n\nrunning 3 tests\n\
            test crates/core/src/time.rs - time::Clock (line 9) ... ok\n\
            test crates/core/src/time.rs - time::Clock (line 19) - compile fail ... ok\n\
            test crates/core/src/lib.rs - (line 3) ... ok\n\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s\n";
        text.lines().for_each(|line| reader.line(line));
        let results = reader.finish();
        assert_eq!(
            statuses(&results),
            [("core::doc::crate", &Status::Passed), ("core::doc::time::Clock", &Status::Passed)]
        );
        assert_eq!(results.tally.passed, 3);
    }
}
