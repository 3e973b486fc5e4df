//! `cargo xtask mutants`: changes to core that no test notices.
//!
//! cargo-mutants makes one change at a time, `<` to `<=`, a function's body to a constant, in a copy of the project, and
//! runs the tests. A mutant that lives is a missing test, or a line that need not be there. Which of them cannot
//! die, and why, is in `.cargo/mutants.toml`.
//!
//! All of core's take a day on two cores. So `cargo xtask full` takes a share, another one with each commit; and who
//! changes a file has that file's tested: `cargo xtask mutants crates/core/src/bound.rs`.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use anyhow::{Result, bail};

use crate::program::{self, cargo, program as command};
use crate::report::{Outcome, Report};
use crate::workspace::Workspace;

const CORE: &str = "softtimers-core";

/// Mutants are shared out over this many runs; one takes an hour or so on two cores.
const SHARDS: u64 = 24;

/// Of the operations of a long test, as many as tell a mutant from the original within seconds.
const OPERATIONS: u64 = 40_000;

/// `cargo xtask mutants [all | K/N | FILE …]`.
///
/// # Errors
/// If the workspace cannot be read.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if let Some(flag) = arguments.iter().find(|word| word.starts_with('-')) {
        bail!("no flag `{flag}`; {}", crate::usage_of("mutants"));
    }
    let workspace = Workspace::load()?;
    let mut report = Report::default();
    report.step("mutation", || check(&workspace, arguments));
    Ok(report.close())
}

/// Tests the mutants that are asked for; without a word those of this commit's share.
///
/// # Errors
/// If cargo or git cannot be started.
pub(crate) fn check(workspace: &Workspace, asked: &[String]) -> Result<Outcome> {
    let root = workspace.root();
    if !program::works(cargo(root).args(["mutants", "--version"])) {
        return Ok(Outcome::skipped("cargo-mutants is not installed"));
    }
    let words: Vec<String> = match asked {
        [] => vec![share_of(&program::output(command("git", root).args(["rev-parse", "HEAD"]))?)],
        words => words.to_vec(),
    };
    let mut cargo = cargo(root);
    // Each mutant is built in a copy of the project, beside its own target directory.
    cargo.env_remove("CARGO_TARGET_DIR").env("SOFTTIMERS_OPERATIONS", OPERATIONS.to_string());
    cargo.args(["mutants", "--package", CORE, "--test-package", CORE, "--output"]);
    cargo.arg(&workspace.target_directory);
    cargo.args(words.iter().flat_map(|word| selection(word)));
    Ok(match program::check(&mut cargo)? {
        Outcome::Passed(_) => Outcome::passed(format!("mutants {}", words.join(" "))),
        other => other,
    })
}

/// What a word asks cargo-mutants for: everything, a share, or a file.
fn selection(word: &str) -> Vec<String> {
    let is_share =
        word.split_once('/').is_some_and(|(k, n)| k.parse::<u64>().is_ok() && n.parse::<u64>().is_ok());
    match word {
        "all" => vec![],
        _ if is_share => vec!["--shard".into(), word.into()],
        file => vec!["--file".into(), file.into()],
    }
}

/// The share of this commit: the same when repeated, another with the next commit.
fn share_of(commit: &str) -> String {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(commit.trim());
    format!("{}/{SHARDS}", hash % SHARDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_always_has_the_same_share() {
        assert_eq!(share_of("1c5f\n"), share_of("1c5f"));
        let shares: std::collections::BTreeSet<_> = (0..500).map(|n| share_of(&n.to_string())).collect();
        assert_eq!(shares.len() as u64, SHARDS);
    }

    #[test]
    fn a_word_is_a_share_or_a_file() {
        assert_eq!(selection("all"), [""; 0]);
        assert_eq!(selection("3/24"), ["--shard", "3/24"]);
        assert_eq!(selection("crates/core/src/bound.rs"), ["--file", "crates/core/src/bound.rs"]);
    }
}
