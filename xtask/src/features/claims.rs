//! `shown_by`: each test named there exists, ran and passed; each command exists with its flags and sections.
//!
//! A claimed test that was skipped is no evidence on this machine, so the step is skipped then, and
//! says for which rows; it fails if a row that a test shows is left without one that ran. Commands are not run,
//! they are asked for their help; [`super::outputs`] has what they printed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::commands::{self, Program};
use super::{Features, Level, State};
use crate::program;
use crate::report::Outcome;
use crate::testing::{self, Results, Status, Suites};
use crate::workspace::Workspace;

/// A claim that begins so is a command.
const PROMPT: &str = "$ ";

/// The command of a claim that is one.
pub(crate) fn command(claim: &str) -> Option<&str> {
    claim.strip_prefix(PROMPT)
}

pub(crate) fn is_command(claim: &str) -> bool {
    command(claim).is_some()
}

/// What is wrong with the form of a claim, if anything.
pub(crate) fn malformed(claim: &str) -> Option<String> {
    let form_of_a_test = claim.split("::").filter(|part| !part.is_empty()).count() >= 3;
    let is_test = form_of_a_test && !claim.contains(' ');
    let is_command = command(claim).is_some_and(|command| !command.trim().is_empty());
    let good = is_test || is_command;
    (!good).then(|| format!("`{claim}` is neither package::target::test nor a command after `{PROMPT}`"))
}

/// Holds every claim against the tests that ran and the programs that were built. Benches that are claimed with
/// arguments are built for it, as the tests were.
///
/// # Errors
/// If they do not build.
pub(crate) fn check(
    features: &Features,
    workspace: &Workspace,
    suites: &Suites,
    results: &Results,
) -> Result<Outcome> {
    let benches: BTreeSet<_> = commands_of(features).filter_map(commands::bench).collect();
    let benches = testing::benches(workspace, &benches)?;
    let help = |program: Program<'_>, names: &[&str]| {
        let (name, path) = match program {
            Program::Command(name) | Program::Example(name) => (name, suites.programs.get(name)),
            Program::Bench(name) => (name, benches.get(name)),
        };
        ask(path.ok_or_else(|| format!("{name} is no program that is built"))?, names, workspace.root())
    };
    let problem = |command: &str| commands::problem(command, workspace, &help);
    Ok(judge(features, &results.statuses, &problem))
}

fn commands_of(features: &Features) -> impl Iterator<Item = &str> {
    let shown = features.rows.values().filter(|row| row.state == State::Shown);
    shown.flat_map(|row| &row.shown_by).filter_map(|claim| command(claim))
}

fn ask(path: &PathBuf, names: &[&str], root: &Path) -> Result<String, String> {
    let help = program::output(program::program(path, root).args(names).arg("--help"));
    help.map_err(|_| format!("`{}` gives no help", [names, &["--help"]].concat().join(" ")))
}

fn judge(
    features: &Features,
    statuses: &BTreeMap<String, Status>,
    command_problem: &dyn Fn(&str) -> Option<String>,
) -> Outcome {
    let (mut problems, mut skipped, mut rows, mut claims) = (vec![], vec![], 0, 0);
    for (id, row) in features.rows.iter().filter(|(_, row)| row.state == State::Shown) {
        rows += usize::from(row.is_counted());
        let mut ran = false;
        for claim in &row.shown_by {
            claims += 1;
            if let Some(command) = command(claim) {
                let problem = command_problem(command);
                problems.extend(problem.map(|problem| format!("{id}: `{claim}`: {problem}")));
                continue;
            }
            match statuses.get(claim) {
                Some(Status::Passed) => ran = true,
                Some(Status::Skipped(reason)) => skipped.push(format!("{id} by {claim} ({reason})")),
                Some(Status::Failed) => problems.push(format!("{id}: {claim} failed")),
                None => problems.push(format!("{id}: {claim} {}", not_there(claim, statuses))),
            }
        }
        if !ran && matches!(row.level, Some(Level::Mechanism | Level::Live)) {
            problems.push(format!("{id}: no test that shows it ran and passed"));
        }
    }
    if problems.is_empty() && !skipped.is_empty() {
        return Outcome::skipped(format!("not shown on this machine: {}", skipped.join("; ")));
    }
    Outcome::of(problems, format!("{rows} rows are shown, by {claims} tests and commands"))
}

/// `is no test that ran`, and the nearest that did.
fn not_there(claim: &str, statuses: &BTreeMap<String, Status>) -> String {
    let name = claim.rsplit("::").next().unwrap_or(claim);
    let tail = format!("::{name}");
    match statuses.keys().find(|id| id.ends_with(&tail)) {
        Some(near) => format!("is no test that ran; there is {near}"),
        None => "is no test that ran".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(claims: &str) -> Features {
        let row = "what = \"x\"\nsection = \"3\"\nstate = \"shown\"\nlevel = \"live\"";
        Features::parse(&format!("[ST-001]\n{row}\nshown_by = [{claims}]\n")).unwrap()
    }

    fn judged(claims: &str) -> Outcome {
        let statuses = [
            ("core::contract::good", Status::Passed),
            ("core::contract::bad", Status::Failed),
            ("core::contract::rootless", Status::Skipped("no CAP_NET_ADMIN".into())),
        ]
        .map(|(id, status)| (id.to_owned(), status));
        let problem =
            |command: &str| (command != "softtimers send").then(|| "it has no word for it".to_owned());
        judge(&features(claims), &BTreeMap::from(statuses), &problem)
    }

    #[test]
    fn a_passed_test_shows_its_row() {
        let note = "1 rows are shown, by 1 tests and commands";
        assert_eq!(judged("\"core::contract::good\""), Outcome::passed(note));
    }

    #[test]
    fn a_failed_or_missing_test_fails_the_claim() {
        let beside = |claim: &str| judged(&format!("\"core::contract::good\", \"{claim}\""));
        let failed = beside("core::contract::bad");
        assert_eq!(failed, Outcome::failed("ST-001: core::contract::bad failed"));
        let missing = beside("core::contract::none");
        assert_eq!(missing, Outcome::failed("ST-001: core::contract::none is no test that ran"));
        let moved = "ST-001: core::lib::good is no test that ran; there is core::contract::good";
        assert_eq!(beside("core::lib::good"), Outcome::failed(moved));
    }

    #[test]
    fn a_skipped_test_skips_the_claim_unless_another_fails() {
        let reason = "not shown on this machine: ST-001 by core::contract::rootless (no CAP_NET_ADMIN)";
        let both = judged("\"core::contract::good\", \"core::contract::rootless\"");
        assert_eq!(both, Outcome::skipped(reason));
        let worse = judged("\"core::contract::rootless\", \"core::contract::bad\"");
        assert!(matches!(worse, Outcome::Failed(_)));
    }

    #[test]
    fn a_row_that_no_test_shows_any_more_fails() {
        let all_skipped = judged("\"core::contract::rootless\"");
        assert_eq!(all_skipped, Outcome::failed("ST-001: no test that shows it ran and passed"));
        let command_only = judged("\"$ softtimers send\"");
        assert_eq!(command_only, Outcome::failed("ST-001: no test that shows it ran and passed"));
    }

    #[test]
    fn a_command_with_a_problem_fails_the_claim() {
        let beside = |command: &str| judged(&format!("\"core::contract::good\", \"$ {command}\""));
        assert!(matches!(beside("softtimers send"), Outcome::Passed(_)));
        let says = "ST-001: `$ softtimers fly`: it has no word for it";
        assert_eq!(beside("softtimers fly"), Outcome::failed(says));
    }

    #[test]
    fn claims_have_one_of_two_forms() {
        for good in ["a::lib::b", "a::doc::time::Clock", "$ softtimers doctor"] {
            assert_eq!(malformed(good), None);
        }
        for bad in ["a::b", "some test", "a::lib::", "$ ", "softtimers doctor"] {
            assert!(malformed(bad).is_some(), "{bad}");
        }
    }
}
