//! `cargo xtask full`: `ci`, then what takes nightly tools and an hour.
//!
//! None of this gates a change by itself; all of it must have been seen to pass before a release.

use std::path::Path;

use anyhow::{Result, bail, ensure};

use crate::ci;
use crate::features::outputs;
use crate::mutants;
use crate::program::{self, cargo, cargo_of};
use crate::report::{Outcome, Report};
use crate::site;
use crate::source;
use crate::stacks;
use crate::toolchains::{NIGHTLY, toolchain};
use crate::workspace::{self, TextFile, Workspace};

const CORE: &str = "softtimers-core";

/// How long each fuzz target runs: long enough to replay what it knows and try a few hundred
/// thousand inputs.
const FUZZ_SECONDS: u32 = 20;

/// Some minutes on one core, and every span of time a few hundred times.
const OPERATIONS: u64 = 100_000_000;

/// `cargo xtask full [--mutants all|K/N|FILE …]`.
///
/// # Errors
/// If the workspace cannot be read, or an argument is unknown.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let mutants = match arguments {
        [] => &[],
        [flag, words @ ..] if flag == "--mutants" && !words.is_empty() => words,
        _ => bail!(crate::usage_of("full")),
    };
    let workspace = Workspace::load()?;
    let (root, files) = (workspace.root(), workspace::text_files(workspace.root())?);
    let mut report = Report::default();
    ci::checks(&workspace, &mut report)?;
    report.step("examples/", || stacks::test(&workspace));
    report.step("site", || site::built(&workspace, None));
    report.step("Miri", || miri(root));
    report.step("many timers", || many_timers(root));
    report.step("quinn, in full", || quinn(root));
    report.step("loom", || loom(&workspace, &files));
    report.step("fuzzing", || fuzz(root));
    report.step("mutation", || mutants::check(&workspace, mutants));
    report.step("measurement", || lab(root, "measure"));
    report.step("rig", || lab(root, "rig"));
    report.step("docs/outputs", || outputs::store(&workspace, &[]));
    Ok(report.close())
}

/// Undefined behaviour and leaks in core's tests; tests have fewer cases under `cfg!(miri)`.
fn miri(root: &Path) -> Result<Outcome> {
    let Some(nightly) = toolchain(NIGHTLY, root) else {
        return Ok(Outcome::skipped("no nightly is installed"));
    };
    if !program::works(cargo_of(&nightly, root).args(["miri", "--version"])) {
        return Ok(Outcome::skipped(format!("{nightly} has no Miri; `rustup component add miri` brings it")));
    }
    // Proptest's record of failures asks where it is, and Miri lets nobody see.
    let mut cargo = cargo_of(&nightly, root);
    cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    program::check(cargo.args(["miri", "test", "--no-fail-fast", "--package", CORE]))
}

/// The timers against a map, a hundred million operations long.
fn many_timers(root: &Path) -> Result<Outcome> {
    let mut cargo = cargo(root);
    cargo.env("SOFTTIMERS_OPERATIONS", OPERATIONS.to_string());
    program::check(cargo.args([
        "test",
        "--release",
        "--package",
        CORE,
        "--lib",
        "--test",
        "contract",
        "--",
        "every_operation",
        "many_timers",
        "stale",
    ]))
}

/// 100 MB over each bad path, a thousand connections, ten thousand idle ones: minutes.
fn quinn(root: &Path) -> Result<Outcome> {
    let mut cargo = cargo(root);
    cargo.env("SOFTTIMERS_FULL", "1");
    program::check(cargo.args(["test", "--release", "--package", "softtimers-quinn", "--test", "transfers"]))
}

/// Every interleaving of the packages whose tests know loom. It replaces the atomics under
/// `cfg(loom)`, so nothing built for it can be shared with other builds.
fn loom(workspace: &Workspace, files: &[TextFile]) -> Result<Outcome> {
    let packages = with_loom(workspace, files);
    if packages.is_empty() {
        return Ok(Outcome::skipped(
            "no package has code under cfg(loom): nothing is shared between threads yet",
        ));
    }
    let mut cargo = cargo(workspace.root());
    cargo.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", "2");
    cargo.args(["test", "--release", "--lib", "--tests", "--target-dir"]);
    cargo.arg(workspace.target_directory.join("loom"));
    program::check(cargo.args(packages.iter().flat_map(|name| ["--package", name])))
}

fn with_loom<'a>(workspace: &'a Workspace, files: &[TextFile]) -> Vec<&'a str> {
    let under_loom = |file: &&TextFile| file.path.ends_with(".rs") && knows_loom(&file.text);
    let paths: Vec<_> =
        files.iter().filter(under_loom).map(|file| workspace.root().join(&file.path)).collect();
    let has = |directory: &Path| paths.iter().any(|path| path.starts_with(directory));
    let members = workspace.members().filter(|member| has(member.directory()));
    members.map(|member| member.name.as_str()).collect()
}

/// Whether a Rust file has `cfg(loom)`, alone or among other conditions.
fn knows_loom(text: &str) -> bool {
    let is_condition = |line: &str| line.contains("cfg") && line.contains("loom");
    source::blanked(text).lines().any(is_condition)
}

/// Each fuzz target for a short while.
fn fuzz(root: &Path) -> Result<Outcome> {
    if !root.join("fuzz/Cargo.toml").is_file() {
        return Ok(Outcome::skipped("there is no fuzz/Cargo.toml"));
    }
    let Some(nightly) = toolchain(NIGHTLY, root) else {
        return Ok(Outcome::skipped("no nightly is installed"));
    };
    if !program::works(cargo_of(&nightly, root).args(["fuzz", "--version"])) {
        return Ok(Outcome::skipped("cargo-fuzz is not installed"));
    }
    let list = program::output(cargo_of(&nightly, root).args(["fuzz", "list"]))?;
    let targets: Vec<_> = list.split_whitespace().collect();
    ensure!(!targets.is_empty(), "fuzz/ has no target");
    let mut problems = vec![];
    for target in &targets {
        let limit = format!("-max_total_time={FUZZ_SECONDS}");
        let mut cargo = cargo_of(&nightly, root);
        // What it finds goes to the first directory; the other one is kept by hand.
        let (grown, kept) = (format!("fuzz/grown/{target}"), format!("fuzz/corpus/{target}"));
        std::fs::create_dir_all(root.join(&grown))?;
        let outcome = program::check(cargo.args(["fuzz", "run", target, &grown, &kept, "--", &limit]))?;
        if let Outcome::Failed(found) = outcome {
            problems.extend(found);
        }
    }
    Ok(Outcome::of(problems, format!("{} targets, {FUZZ_SECONDS} s each", targets.len())))
}

/// The figures, or the rig, in short form, to see that all of it runs.
fn lab(root: &Path, what: &str) -> Result<Outcome> {
    program::check(cargo(root).args(["lab", what, "--quick"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loom_is_found_in_conditions_and_not_in_words() {
        assert!(knows_loom("#[cfg(loom)]\nuse loom::sync;"));
        assert!(knows_loom("#[cfg(all(test, loom))]\nmod races;"));
        assert!(!knows_loom("// under cfg(loom)\nlet cfg = \"loom\";"));
    }
}
