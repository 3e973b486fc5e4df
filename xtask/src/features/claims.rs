//! Verifies claims: each test named in `shown_by`, or next to a sentence of the docs, exists, ran and passed; each
//! command knows its subcommands and flags.
//!
//! ```text
//!   A client gets at most three times what it sent. <!-- shown by: package::target::test -->     readers do not see it
//! ```
//!
//! A claimed test that was skipped is no evidence on this machine: then the step is skipped, and names the rows; it
//! fails if a row shown by tests has none that ran. Commands are not run, but asked for their help; [`super::outputs`]
//! has their output.

use std::collections::BTreeMap;

use anyhow::Result;
use cargo_metadata::TargetKind;
use clap::Parser as _;

use super::{Features, Level, State};
use crate::program;
use crate::report::Outcome;
use crate::tests::Status;
use crate::workspace::{DOCS, Page, Workspace};

type Statuses = BTreeMap<String, Status>;

/// Returns the command of a claim, if it is one.
pub(crate) fn command(claim: &str) -> Option<&str> {
    claim.strip_prefix("$ ")
}

pub(crate) fn is_command(claim: &str) -> bool {
    command(claim).is_some()
}

/// Returns what is wrong with the form of a claim, if anything.
pub(crate) fn malformed(claim: &str) -> Option<String> {
    let parts = claim.split("::").filter(|part| !part.is_empty() && !part.contains(' ')).count();
    let good = parts >= 3 || command(claim).is_some_and(|command| !command.trim().is_empty());
    (!good).then(|| format!("`{claim}` is neither package::target::test nor a command after `$ `"))
}

/// Checks the rows against the tests that ran and the programs that were built.
///
/// # Errors
/// If a program cannot be started.
pub(crate) fn check(features: &Features, workspace: &Workspace, statuses: &Statuses) -> Result<Outcome> {
    let mut judged = Judged::default();
    for (id, row) in features.rows.iter().filter(|(_, row)| row.state == State::Shown) {
        let mut ran = false;
        for claim in &row.shown_by {
            match command(claim) {
                Some(command) => {
                    let problem = unknown(command, workspace)?;
                    judged.problems.extend(problem.map(|problem| format!("{id}: `{claim}`: {problem}")));
                }
                None => ran |= judged.passed(claim, id, statuses),
            }
        }
        if !ran && matches!(row.level, Some(Level::Mechanism | Level::Live)) {
            judged.problems.push(format!("{id}: no test that shows it ran and passed"));
        }
    }
    let rows = features.rows.values().filter(|row| row.is_counted()).count();
    Ok(judged.outcome(format!("{rows} rows are shown")))
}

/// Checks the tests that SECURITY.md and the pages of `docs/` name next to their promises against those that ran.
pub(crate) fn promises(pages: &[Page], statuses: &Statuses) -> Outcome {
    let (mut judged, mut count) = (Judged::default(), 0);
    for page in pages
        .iter()
        .filter(|page| page.path == "SECURITY.md" || DOCS.iter().any(|docs| page.path.starts_with(docs)))
    {
        for (line, number) in page.text.lines().zip(1..) {
            for rest in line.split("<!-- shown by:").skip(1) {
                let names = rest.split_once("-->").map_or(rest, |(names, _)| names);
                for name in names.split(',') {
                    judged.passed(name.trim(), &format!("{}:{number}", page.path), statuses);
                    count += 1;
                }
            }
        }
    }
    judged.outcome(format!("{count} tests show what sentences promise"))
}

#[derive(Default)]
struct Judged {
    problems: Vec<String>,
    skipped: Vec<String>,
}

impl Judged {
    /// Says whether the test `claim` passed, which `place` claims.
    fn passed(&mut self, claim: &str, place: &str, statuses: &Statuses) -> bool {
        match statuses.get(claim) {
            Some(Status::Passed) => return true,
            Some(Status::Skipped(reason)) => self.skipped.push(format!("{place} by {claim} ({reason})")),
            Some(Status::Failed) => self.problems.push(format!("{place}: {claim} failed")),
            None => {
                let name = claim.rsplit("::").next().unwrap_or(claim);
                let near = statuses.keys().find(|id| id.ends_with(&format!("::{name}")));
                let near = near.map_or(String::new(), |near| format!("; there is {near}"));
                self.problems.push(format!("{place}: {claim} is no test that ran{near}"));
            }
        }
        false
    }

    fn outcome(self, note: String) -> Outcome {
        if self.problems.is_empty() && !self.skipped.is_empty() {
            return Outcome::skipped(format!("not shown on this machine: {}", self.skipped.join("; ")));
        }
        Outcome::of(self.problems, note)
    }
}

/// Names the part of a command that does not exist, if one does not. The words after `--` are not checked.
///
/// # Errors
/// If the program cannot be started.
fn unknown(command: &str, workspace: &Workspace) -> Result<Option<String>> {
    let words: Vec<_> = command.split_whitespace().take_while(|word| *word != "--").collect();
    match words[..] {
        ["cargo", "xtask", ..] => {
            Ok(crate::Cli::try_parse_from(&words[1..]).err().map(|error| error.to_string()))
        }
        ["cargo", "run" | "bench", ..] => no_target(&words, workspace),
        ["cargo", "lab", ref rest @ ..] => refused("softtimers-lab", rest, workspace),
        ["softtimers", ref rest @ ..] => refused("softtimers", rest, workspace),
        _ => Ok(Some("it is neither softtimers nor cargo run, bench, lab or xtask".into())),
    }
}

/// Returns a program's error for these words. It refuses an unknown flag or subcommand before it comes to `--help`, and
/// does nothing else then.
fn refused(name: &str, words: &[&str], workspace: &Workspace) -> Result<Option<String>> {
    let path = workspace.target("debug").join(name);
    let help = program::output(program::program(path, workspace.root()).args(words).arg("--help"));
    Ok(help.err().map(|error| format!("{error:#}")))
}

/// Returns why `cargo run` or `cargo bench` finds nothing to run, if so.
///
/// # Errors
/// If cargo fails.
fn no_target(words: &[&str], workspace: &Workspace) -> Result<Option<String>> {
    let value = |flag: &str| words.iter().skip_while(|word| **word != flag).nth(1).copied();
    let manifest = value("--manifest-path").unwrap_or("Cargo.toml");
    let workspaces = workspace.all()?;
    let path = workspace.root().join(manifest);
    let Some(own) = workspaces.iter().find(|one| path.parent() == Some(one.root())) else {
        return Ok(Some(format!("{manifest} is of no workspace")));
    };
    let mut members: Vec<_> = own.members().collect();
    if let Some(package) = value("-p") {
        members.retain(|member| member.name == package);
        if members.is_empty() {
            return Ok(Some(format!("there is no package {package}")));
        }
    }
    let kinds =
        [("--bench", TargetKind::Bench), ("--example", TargetKind::Example), ("--bin", TargetKind::Bin)];
    let Some((flag, kind)) = kinds.into_iter().find(|(flag, _)| value(flag).is_some()) else {
        return Ok(None);
    };
    let name = value(flag).unwrap_or_default();
    let mut targets = members.iter().flat_map(|member| &member.targets);
    let is_there = targets.any(|target| target.is_kind(kind.clone()) && target.name == name);
    Ok((!is_there).then(|| format!("there is no {flag} {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses() -> Statuses {
        let skipped = Status::Skipped("no root".into());
        let named = [
            ("a::lib::good", Status::Passed),
            ("a::lib::bad", Status::Failed),
            ("a::lib::rootless", skipped),
        ];
        named.map(|(name, status)| (name.to_owned(), status)).into()
    }

    fn judged(claims: &str) -> Outcome {
        let row = "what = \"x\"\nsection = \"3\"\nstate = \"shown\"\nlevel = \"live\"";
        let features = Features::parse(&format!("[ST-001]\n{row}\nshown_by = [{claims}]\n")).unwrap();
        check(&features, &Workspace::load().unwrap(), &statuses()).unwrap()
    }

    #[test]
    fn a_passed_test_shows_its_row_and_a_failed_or_missing_one_does_not() {
        assert_eq!(judged("\"a::lib::good\""), Outcome::passed("1 rows are shown"));
        let bad = judged("\"a::lib::good\", \"a::lib::bad\", \"b::lib::good\"");
        let problems =
            ["ST-001: a::lib::bad failed", "ST-001: b::lib::good is no test that ran; there is a::lib::good"];
        assert_eq!(bad, Outcome::Failed(problems.map(String::from).into()));
    }

    #[test]
    fn a_skipped_test_skips_the_claim_unless_nothing_else_shows_the_row() {
        let reason = "not shown on this machine: ST-001 by a::lib::rootless (no root)";
        assert_eq!(judged("\"a::lib::good\", \"a::lib::rootless\""), Outcome::skipped(reason));
        let alone = Outcome::failed("ST-001: no test that shows it ran and passed");
        assert_eq!(judged("\"a::lib::rootless\""), alone);
        assert_eq!(judged("\"$ cargo xtask instructions\""), alone);
    }

    #[test]
    fn a_command_has_its_flags_and_targets() {
        let workspace = Workspace::load().unwrap();
        let unknown = |command: &str| unknown(command, &workspace).unwrap().unwrap_or_default();
        for good in
            ["cargo xtask instructions --bless", "cargo bench -p softtimers-core --bench instructions -- x"]
        {
            assert_eq!(unknown(good), "");
        }
        assert!(unknown("cargo xtask instructions --bles").contains("--bles"));
        assert_eq!(unknown("cargo bench -p softtimers-core --bench x"), "there is no --bench x");
        assert_eq!(unknown("cargo run -p x"), "there is no package x");
        assert_eq!(unknown("cargo test"), "it is neither softtimers nor cargo run, bench, lab or xtask");
    }

    #[test]
    fn a_promise_needs_a_test_that_ran() {
        let page = |text: &str| [Page { path: "docs/page.md".into(), text: text.into() }];
        let good = page(
            "It holds. <!-- shown by: a::lib::good --> So too <!-- shown by: a::lib::good, a::lib::good -->",
        );
        assert_eq!(promises(&good, &statuses()), Outcome::passed("3 tests show what sentences promise"));
        let bad = page("It does.\nIt fails. <!-- shown by: a::lib::bad -->");
        assert_eq!(promises(&bad, &statuses()), Outcome::failed("docs/page.md:2: a::lib::bad failed"));
    }
}
