//! The programs of `docs/integrations.md`: published software on softtimers, each run for a second.
//!
//! They are a separate workspace with its own target directory, so that it can be built while tests use the other one.

use anyhow::Result;

use crate::program::{self, cargo};
use crate::report::{Outcome, Report};
use crate::workspace::Workspace;

/// Their packages, whose programs have the same names.
const NAMES: [&str; 6] =
    ["http-load", "axum-pacing", "webrtc-fanout", "libuv-echo", "http3-files", "egress-pacing"];

/// Runs a step for each, so that one that cannot run here counts as skipped.
pub(crate) fn run(workspace: &Workspace, report: &mut Report) {
    let built = build(workspace);
    for name in NAMES {
        report.step(name, || match &built {
            Ok(Outcome::Passed(_)) => run_one(workspace, name),
            Ok(outcome) => Ok(outcome.clone()),
            Err(error) => Ok(Outcome::failed(format!("{error:#}"))),
        });
    }
}

/// Builds them.
///
/// # Errors
/// If cargo cannot be started.
pub(crate) fn build(workspace: &Workspace) -> Result<Outcome> {
    let mut cargo = cargo(&workspace.root().join("examples"));
    cargo.env("CARGO_TARGET_DIR", workspace.target("programs")).args(["build", "--quiet", "--locked"]);
    program::check(cargo.args(NAMES.iter().flat_map(|name| ["-p", name])))
}

/// The number of tries: a program gives up when others leave it too little CPU time.
const TRIES: usize = 3;

/// Runs a program for one round of a second; it reports what it lacks.
fn run_one(workspace: &Workspace, name: &str) -> Result<Outcome> {
    let path = workspace.target("programs/debug").join(name);
    let mut tried = 0;
    let printed = loop {
        let mut program = program::program(&path, workspace.root());
        tried += 1;
        match program::output(program.args(["--rounds", "1", "--millis", "1000"])) {
            Ok(printed) => break printed,
            Err(error) if tried == TRIES => return Err(error.context(name.to_owned())),
            Err(error) => println!("once more: {error:#}"),
        }
    };
    print!("{printed}");
    Ok(outcome(&printed))
}

fn outcome(printed: &str) -> Outcome {
    match printed.lines().find_map(|line| line.strip_prefix("skipped: ")) {
        Some(reason) => Outcome::skipped(reason),
        None if printed.contains("| software |") => Outcome::passed(""),
        None => Outcome::failed("it printed no summary"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_not_a_pass_and_nor_is_silence() {
        assert_eq!(outcome("skipped: no source\n"), Outcome::skipped("no source"));
        assert!(matches!(outcome("machine\n\n| software | problem |\n"), Outcome::Passed(_)));
        assert!(matches!(outcome(""), Outcome::Failed(_)));
    }
}
