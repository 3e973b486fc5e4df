//! `cargo xtask full`: `ci`, then what takes tools that few have, and an hour.
//!
//! None of this gates a change by itself; all of it must have been seen to pass before a release. What a step needs and
//! this machine lacks is named, and the step counts as skipped:
//!
//! ```text
//!   examples/         cmake, a C++ compiler, Rust 1.89       site        mdbook
//!   Miri, fuzzing     a nightly with miri; cargo-fuzz        mutation    cargo-mutants
//! ```

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use cargo_metadata::Package;

use crate::features::outputs;
use crate::program::{self, cargo, cargo_of, program as command};
use crate::report::{Outcome, Report};
use crate::toolchains::{NIGHTLY, toolchain};
use crate::workspace::Workspace;
use crate::{ci, site};

/// How long each fuzz target runs: long enough to replay what it knows and try a few hundred thousand inputs.
const FUZZ_SECONDS: u32 = 20;

/// Some minutes on one core, and every span of time a few hundred times.
const OPERATIONS: &str = "100000000";

/// All mutants of core take a day on two cores; a run takes one share in so many, another one with each commit.
const SHARDS: u64 = 24;

/// Runs every step.
///
/// # Errors
/// As [`ci::run`].
pub(crate) fn run(workspace: &Workspace, kept: Option<&Path>, report: &mut Report) -> Result<()> {
    let root = workspace.root();
    ci::run(workspace, kept, report)?;
    report.step("examples/", || stacks(workspace));
    report.step("site", || site::built(workspace, None));
    report.step("Miri", || miri(root));
    report.step("many timers", || {
        let mut cargo = cargo(root);
        cargo.args(["test", "--release", "-p", "softtimers-core", "--lib", "--test", "contract", "--"]);
        cargo.args(["every_operation", "many_timers", "stale"]);
        program::check(cargo.env("SOFTTIMERS_OPERATIONS", OPERATIONS))
    });
    report.step("quinn, in full", || {
        let mut cargo = cargo(root);
        cargo.args(["test", "--release", "-p", "softtimers-quinn", "--test", "transfers"]);
        program::check(cargo.env("SOFTTIMERS_FULL", "1"))
    });
    report.step("loom", || loom(workspace));
    report.step("fuzzing", || fuzz(root));
    report.step("mutation", || mutants(root));
    report.step("measurement", || program::check(cargo(root).args(["lab", "measure", "--quick"])));
    report.step("rig", || program::check(cargo(root).args(["lab", "rig", "--quick"])));
    report.step("docs/outputs", || outputs::store(workspace, &[]));
    Ok(())
}

/// The workspace of `examples/`, against published protocol stacks: it takes minutes and a C++ compiler.
fn stacks(workspace: &Workspace) -> Result<Outcome> {
    let directory = workspace.root().join("examples");
    for tool in ["cmake", "c++"] {
        if !program::works(command(tool, &directory).arg("--version")) {
            return Ok(Outcome::skipped(format!("there is no `{tool}`, which BoringSSL is built with")));
        }
    }
    let run = |words: &[&str]| {
        program::check(cargo(&directory).env("CARGO_TARGET_DIR", workspace.target("examples")).args(words))
    };
    let lints = run(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    if matches!(lints, Outcome::Failed(_)) { Ok(lints) } else { run(&["test", "--workspace", "--locked"]) }
}

/// Undefined behaviour and leaks in core's tests; tests have fewer cases under `cfg!(miri)`.
fn miri(root: &Path) -> Result<Outcome> {
    let nightly = toolchain(NIGHTLY, root).unwrap_or_else(|| NIGHTLY.into());
    if !program::works(cargo_of(&nightly, root).args(["miri", "--version"])) {
        return Ok(Outcome::skipped("no nightly with Miri; `rustup component add miri` brings it"));
    }
    // Proptest's record of failures asks where it is, and Miri lets nobody see.
    let mut cargo = cargo_of(&nightly, root);
    cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    program::check(cargo.args(["miri", "test", "--no-fail-fast", "-p", "softtimers-core"]))
}

/// Every interleaving of the packages that depend on loom. It replaces the atomics under `cfg(loom)`, so nothing built
/// for it can be shared with other builds.
fn loom(workspace: &Workspace) -> Result<Outcome> {
    let knows = |member: &&Package| member.dependencies.iter().any(|dependency| dependency.name == "loom");
    let packages = workspace.members().filter(knows).flat_map(|member| ["--package", member.name.as_str()]);
    let mut cargo = cargo(workspace.root());
    cargo.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", "2");
    cargo.args(["test", "--release", "--lib", "--tests", "--target-dir"]).arg(workspace.target("loom"));
    program::check(cargo.args(packages))
}

/// Each fuzz target for a short while.
fn fuzz(root: &Path) -> Result<Outcome> {
    let nightly = toolchain(NIGHTLY, root).unwrap_or_else(|| NIGHTLY.into());
    if !program::works(cargo_of(&nightly, root).args(["fuzz", "--version"])) {
        return Ok(Outcome::skipped("no nightly, or no cargo-fuzz, is installed"));
    }
    let list = program::output(cargo_of(&nightly, root).args(["fuzz", "list"]))?;
    let targets: Vec<_> = list.split_whitespace().collect();
    ensure!(!targets.is_empty(), "fuzz/ has no target");
    let mut problems = vec![];
    for target in &targets {
        // What it finds goes to the first directory; the other one is kept by hand.
        let (grown, kept) = (format!("fuzz/grown/{target}"), format!("fuzz/corpus/{target}"));
        fs::create_dir_all(root.join(&grown))?;
        let limit = format!("-max_total_time={FUZZ_SECONDS}");
        let mut cargo = cargo_of(&nightly, root);
        if let Outcome::Failed(found) =
            program::check(cargo.args(["fuzz", "run", target, &grown, &kept, "--", &limit]))?
        {
            problems.extend(found);
        }
    }
    Ok(Outcome::of(problems, format!("{} targets, {FUZZ_SECONDS} s each", targets.len())))
}

/// Changes to core that no test notices: this commit's share. Which of them cannot be noticed, and why, is in
/// `.cargo/mutants.toml`.
fn mutants(root: &Path) -> Result<Outcome> {
    if !program::works(cargo(root).args(["mutants", "--version"])) {
        return Ok(Outcome::skipped("cargo-mutants is not installed"));
    }
    let commit = program::output(command("git", root).args(["rev-parse", "HEAD"]))?;
    let share = u64::from_str_radix(&commit[..8], 16)? % SHARDS;
    let mut cargo = cargo(root);
    // Each mutant is built in a copy of the project; of a long test's operations, these tell it from the original.
    cargo.env_remove("CARGO_TARGET_DIR").env("SOFTTIMERS_OPERATIONS", "40000");
    program::check(cargo.args(["mutants", "-p", "softtimers-core", "--shard", &format!("{share}/{SHARDS}")]))
}
