//! `shown_by`: each test named there exists, ran and passed; each command exists with its flags.
//!
//! A claimed test that was skipped is no evidence on this machine, so the step is skipped then, and
//! says for which rows. Commands are not run, they are asked for their help: a row that only a command
//! shows is shown to whoever runs it.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Features, State};
use crate::program;
use crate::report::Outcome;
use crate::testing::{Results, Status, Suites};
use crate::workspace::Workspace;

/// A claim that begins so is a command.
const PROMPT: &str = "$ ";

/// What is wrong with the form of a claim, if anything.
pub(crate) fn malformed(claim: &str) -> Option<String> {
    let form_of_a_test = claim.split("::").filter(|part| !part.is_empty()).count() >= 3;
    let is_test = form_of_a_test && !claim.contains(' ');
    let is_command = claim.strip_prefix(PROMPT).is_some_and(|command| !command.trim().is_empty());
    let good = is_test || is_command;
    (!good).then(|| format!("`{claim}` is neither package::target::test nor a command after `{PROMPT}`"))
}

/// Holds every claim against the tests that ran and the programs that were built.
pub(crate) fn check(
    features: &Features,
    workspace: &Workspace,
    suites: &Suites,
    results: &Results,
) -> Outcome {
    let help = |words: &[&str]| help_of(words, workspace, suites);
    judge(features, &results.statuses, &help)
}

fn judge(
    features: &Features,
    statuses: &BTreeMap<String, Status>,
    help: &dyn Fn(&[&str]) -> Result<String, String>,
) -> Outcome {
    let (mut problems, mut skipped, mut rows, mut claims) = (vec![], vec![], 0, 0);
    for (id, row) in features.rows.iter().filter(|(_, row)| row.state == State::Shown) {
        rows += 1;
        for claim in &row.shown_by {
            claims += 1;
            if let Some(command) = claim.strip_prefix(PROMPT) {
                let problem = command_problem(command, help);
                problems.extend(problem.map(|problem| format!("{id}: `{claim}`: {problem}")));
                continue;
            }
            match statuses.get(claim) {
                Some(Status::Passed) => {}
                Some(Status::Skipped(reason)) => skipped.push(format!("{id} by {claim} ({reason})")),
                Some(Status::Failed) => problems.push(format!("{id}: {claim} failed")),
                None => problems.push(format!("{id}: {claim} {}", not_there(claim, statuses))),
            }
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

fn command_problem(command: &str, help: &dyn Fn(&[&str]) -> Result<String, String>) -> Option<String> {
    let words: Vec<_> = command.split_whitespace().collect();
    match help(&words) {
        Ok(text) => {
            let known: Vec<_> = text.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
            let flag = |word: &&&str| word.starts_with("--") && word.len() > 2;
            let flags = words.iter().filter(flag).map(|word| word.split('=').next().unwrap_or(word));
            let unknown: Vec<_> = flags.filter(|flag| !known.contains(flag)).collect();
            (!unknown.is_empty()).then(|| format!("it has no {}", unknown.join(", ")))
        }
        Err(problem) => Some(problem),
    }
}

/// The help text of the command, or why there is none. Flags of `cargo` itself are part of it.
fn help_of(words: &[&str], workspace: &Workspace, suites: &Suites) -> Result<String, String> {
    match words {
        ["cargo", "xtask", name, ..] => {
            let flags = words[3..].join(" ");
            crate::command(name).map(|_| flags).ok_or_else(|| format!("there is no command {name}"))
        }
        ["cargo", "run", rest @ ..] => {
            let name = rest.iter().skip_while(|word| **word != "--example").nth(1);
            let name = name.ok_or("`cargo run` must say which --example")?;
            let mut targets = workspace.members().flat_map(|member| &member.targets);
            let exists = targets.any(|target| target.is("example") && target.name == *name);
            if exists { Ok(rest.join(" ")) } else { Err(format!("there is no example {name}")) }
        }
        ["cargo", "bench", rest @ ..] => {
            let name = rest.iter().skip_while(|word| **word != "--bench").nth(1);
            let name = name.ok_or("`cargo bench` must say which --bench")?;
            let mut targets = workspace.members().flat_map(|member| &member.targets);
            let exists = targets.any(|target| target.is("bench") && target.name == *name);
            if exists { Ok(rest.join(" ")) } else { Err(format!("there is no bench {name}")) }
        }
        [name, subcommand, ..] => match suites.programs.get(*name) {
            Some(path) => ask(path, subcommand, workspace.root()),
            None => Err(format!("{name} is no program that the tests build")),
        },
        _ => Err("it has no subcommand".into()),
    }
}

fn ask(path: &Path, subcommand: &str, root: &Path) -> Result<String, String> {
    let help = program::output(program::program(path, root).args([subcommand, "--help"]));
    help.map_err(|_| format!("`{subcommand} --help` gives no help"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(claims: &str) -> Features {
        let row = "what = \"x\"\nsection = \"3\"\nstate = \"shown\"";
        Features::parse(&format!("[ST-001]\n{row}\nshown_by = [{claims}]\n")).unwrap()
    }

    fn judged(claims: &str) -> Outcome {
        let statuses = [
            ("core::contract::good", Status::Passed),
            ("core::contract::bad", Status::Failed),
            ("core::contract::rootless", Status::Skipped("no CAP_NET_ADMIN".into())),
        ]
        .map(|(id, status)| (id.to_owned(), status));
        let help = |words: &[&str]| match words[1] {
            "send" => Ok("Usage: send [OPTIONS]\n      --rate <R>  packets/s\n".to_owned()),
            other => Err(format!("there is no {other}")),
        };
        judge(&features(claims), &BTreeMap::from(statuses), &help)
    }

    #[test]
    fn a_passed_test_shows_its_row() {
        let note = "1 rows are shown, by 1 tests and commands";
        assert_eq!(judged("\"core::contract::good\""), Outcome::passed(note));
    }

    #[test]
    fn a_failed_or_missing_test_fails_the_claim() {
        let failed = judged("\"core::contract::bad\"");
        assert_eq!(failed, Outcome::failed("ST-001: core::contract::bad failed"));
        let missing = judged("\"core::contract::none\"");
        assert_eq!(missing, Outcome::failed("ST-001: core::contract::none is no test that ran"));
        let moved = "ST-001: core::lib::good is no test that ran; there is core::contract::good";
        assert_eq!(judged("\"core::lib::good\""), Outcome::failed(moved));
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
    fn a_command_needs_its_subcommand_and_flags() {
        assert!(matches!(judged("\"$ softtimers send --rate 25kpps :9\""), Outcome::Passed(_)));
        let flag = judged("\"$ softtimers send --rat 25kpps --speed=2 :9\"");
        let says = "ST-001: `$ softtimers send --rat 25kpps --speed=2 :9`: it has no --rat, --speed";
        assert_eq!(flag, Outcome::failed(says));
        assert!(matches!(judged("\"$ softtimers fly\""), Outcome::Failed(_)));
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
