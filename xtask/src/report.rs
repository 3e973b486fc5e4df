//! Steps, their outcomes, and the summary.
//!
//! Every step runs, also after a failure, because one run should report everything that is wrong. There are three
//! outcomes: a step that did not run is `Skipped` and says why.

use std::time::{Duration, Instant};

use anyhow::Result;

/// The end of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ran and found nothing wrong. The note may be empty.
    Passed(String),
    /// The faults, a line each.
    Failed(Vec<String>),
    /// Why it could not run.
    Skipped(String),
}

impl Outcome {
    pub(crate) fn passed(note: impl Into<String>) -> Self {
        Outcome::Passed(note.into())
    }

    pub(crate) fn failed(problem: impl Into<String>) -> Self {
        Outcome::Failed(vec![problem.into()])
    }

    pub(crate) fn skipped(reason: impl Into<String>) -> Self {
        Outcome::Skipped(reason.into())
    }

    /// Returns failed if there are `problems`, otherwise passed with the note.
    pub(crate) fn of(problems: Vec<String>, note: impl Into<String>) -> Self {
        if problems.is_empty() { Outcome::Passed(note.into()) } else { Outcome::Failed(problems) }
    }

    fn word(&self) -> &'static str {
        match self {
            Outcome::Passed(_) => "passed",
            Outcome::Failed(_) => "FAILED",
            Outcome::Skipped(_) => "skipped",
        }
    }
}

/// The numbers passed, failed and skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Tally {
    pub(crate) fn total(&self) -> usize {
        self.passed + self.failed + self.skipped
    }
}

struct Line {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// The steps that have run.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<Line>,
    /// Counts of tests, and the skipped ones with their reasons.
    tests: Tally,
    skipped_tests: Vec<String>,
}

impl Report {
    /// Runs a step and writes its heading and outcome. An error counts as a failure.
    pub(crate) fn step(&mut self, name: &'static str, run: impl FnOnce() -> Result<Outcome>) {
        println!("\n── {name} {}", "─".repeat(60_usize.saturating_sub(name.len())));
        let began = stopwatch();
        let outcome = run().unwrap_or_else(|error| Outcome::failed(format!("{error:#}")));
        let took = began.elapsed();
        match &outcome {
            Outcome::Passed(note) if note.is_empty() => println!("passed"),
            Outcome::Passed(note) => println!("passed: {note}"),
            Outcome::Failed(problems) => problems.iter().for_each(|problem| println!("FAILED: {problem}")),
            Outcome::Skipped(reason) => println!("skipped: {reason}"),
        }
        self.lines.push(Line { name, outcome, took });
    }

    /// Adds tests to the counts; `skipped` has a line for each skipped one.
    pub(crate) fn add_tests(&mut self, tests: Tally, skipped: Vec<String>) {
        (self.tests, self.skipped_tests) = (tests, skipped);
    }

    /// Prints the table, the failures, the skipped steps, and the closing line. Returns whether nothing failed and
    /// something passed.
    pub(crate) fn close(&self) -> bool {
        print!("\n{}", self.table());
        let tally = self.tally();
        tally.failed == 0 && tally.passed > 0
    }

    /// Returns the counts of steps and tests together.
    fn tally(&self) -> Tally {
        let mut tally = self.tests;
        for line in &self.lines {
            match line.outcome {
                Outcome::Passed(_) => tally.passed += 1,
                Outcome::Failed(_) => tally.failed += 1,
                Outcome::Skipped(_) => tally.skipped += 1,
            }
        }
        tally
    }

    fn table(&self) -> String {
        let mut text = format!("{:<22} {:<8} {:>8}\n", "step", "state", "seconds");
        let (mut failed, mut skipped) = (vec![], vec![]);
        for Line { name, outcome, took } in &self.lines {
            text += &format!("{name:<22} {:<8} {:>8.1}\n", outcome.word(), took.as_secs_f64());
            match outcome {
                Outcome::Passed(_) => {}
                Outcome::Failed(problems) => failed.extend(problems.iter().map(|p| format!("{name}: {p}"))),
                Outcome::Skipped(reason) => skipped.push(format!("{name}: {reason}")),
            }
        }
        let lists =
            [("failed", &failed), ("skipped steps", &skipped), ("skipped tests", &self.skipped_tests)];
        for (heading, items) in lists.into_iter().filter(|(_, items)| !items.is_empty()) {
            text += &format!("\n{heading}:\n- {}\n", items.join("\n- "));
        }
        let Tally { passed, failed, skipped } = self.tally();
        text += &format!("\ncounted: {} tests and {} steps\n", self.tests.total(), self.lines.len());
        text + &format!("{passed} passed, {failed} failed, {skipped} skipped\n")
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a step took; nothing is decided by it")]
pub(crate) fn stopwatch() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_stands_alone_and_counts_tests_and_steps() {
        let mut report = Report::default();
        report.step("a", || Ok(Outcome::passed("")));
        report.step("b", || Ok(Outcome::skipped("no tool")));
        report.add_tests(Tally { passed: 5, failed: 0, skipped: 1 }, vec!["core::lib::x: no root".into()]);
        let table = report.table();
        let end = "\ncounted: 6 tests and 2 steps\n6 passed, 0 failed, 2 skipped\n";
        assert!(table.ends_with(end), "{table}");
        assert!(table.contains("- b: no tool\n") && table.contains("- core::lib::x: no root\n"), "{table}");
        assert!(report.close());
    }

    #[test]
    fn an_error_is_a_failure_and_a_run_in_which_nothing_passed_is_no_success() {
        let mut report = Report::default();
        report.step("a", || Ok(Outcome::skipped("no tool")));
        assert!(!report.close());
        report.step("b", || Ok(Outcome::passed("")));
        assert!(report.close());
        report.step("c", || anyhow::bail!("cannot start"));
        assert!(!report.close());
    }
}
