//! `cargo xtask full`: `ci`, then the steps that need rare tools and hours.
//!
//! None of this gates a change by itself; all of it must have passed before a release. A step may be run alone, by its
//! name. If this machine lacks something that a step needs, it is named, and the step counts as skipped:
//!
//! ```text
//!   examples     cmake, a C++ compiler, Rust 1.89        mutation    cargo-mutants
//!   miri         a nightly with Miri and rust-src        fuzzing     a nightly, cargo-fuzz
//!   sanitizers   gcc or clang with theirs; a nightly     kani        cargo-kani
//!   threads      a nightly; std too, if it has rust-src  semver      cargo-semver-checks
//!   suites       Python 3.11, its package index
//! ```
//!
//! `fuzzing`, `models`, `tokio`, `failures`, `soak` and `forwarding` leave their results in `target/assurance`, for `cargo lab publish`.

use std::path::Path;

use anyhow::Result;

use crate::assurance::{self, Effort};
use crate::features::outputs;
use crate::program::{self, cargo, program as command};
use crate::report::{Outcome, Report};
use crate::workspace::Workspace;
use crate::{ci, failures, others, release, soak};

type Step = fn(&Workspace, &Effort) -> Result<Outcome>;

const STEPS: &[(&str, Step)] = &[
    ("examples", |workspace, _| stacks(workspace)),
    ("miri", |workspace, _| assurance::miri(workspace.root())),
    ("kani", |workspace, _| assurance::kani(workspace.root())),
    ("sanitizers", |workspace, _| assurance::sanitizers(workspace)),
    ("threads", |workspace, _| assurance::threads(workspace)),
    ("loom", |workspace, _| assurance::loom(workspace)),
    ("models", assurance::models),
    ("fuzzing", assurance::fuzzing),
    ("tokio", |workspace, _| others::tokio(workspace)),
    ("failures", |workspace, _| failures::matrix(workspace)),
    ("soak", |workspace, effort| soak::soak(workspace, effort.minutes())),
    ("forwarding", |workspace, _| soak::forwarding(workspace)),
    ("quinn", |workspace, _| {
        let mut cargo = cargo(workspace.root());
        cargo.args([
            "test",
            "--release",
            "-p",
            "softtimers-quinn",
            "--test",
            "transfers",
            "--test",
            "virtual_time",
        ]);
        program::check(cargo.env("SOFTTIMERS_FULL", "1"))
    }),
    ("suites", |workspace, _| python_suites(workspace)),
    ("mutation", |workspace, _| mutants(workspace.root())),
    ("semver", |workspace, _| release::semver(workspace)),
    ("measurement", |workspace, _| {
        program::check(cargo(workspace.root()).args(["lab", "measure", "--quick"]))
    }),
    ("rig", |workspace, _| program::check(cargo(workspace.root()).args(["lab", "rig", "--quick"]))),
    ("outputs", |workspace, _| outputs::store(workspace, &[])),
];

/// Returns the names of its steps.
pub(crate) fn names() -> Vec<&'static str> {
    STEPS.iter().map(|(name, _)| *name).collect()
}

/// Runs the `chosen` steps, or `ci` and all.
///
/// # Errors
/// As [`ci::run`].
pub(crate) fn run(
    workspace: &Workspace,
    kept: Option<&Path>,
    effort: &Effort,
    chosen: &[String],
    report: &mut Report,
) -> Result<()> {
    if chosen.is_empty() {
        ci::run(workspace, kept, report)?;
    }
    for (name, step) in STEPS {
        if chosen.is_empty() || chosen.iter().any(|chosen| chosen == name) {
            report.step(name, || step(workspace, effort));
        }
    }
    Ok(())
}

/// Checks the workspace of `examples/`, with published protocol stacks: it needs minutes and a C++ compiler.
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

/// Runs the tests of others' Python packages, at pinned versions, on the asyncio loop of `crates/python`.
fn python_suites(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root();
    let newer = "import sys; sys.exit(sys.version_info < (3, 11))";
    if !program::works(command("python3", root).args(["-c", newer])) {
        return Ok(Outcome::skipped("there is no Python 3.11 or later"));
    }
    std::fs::create_dir_all(workspace.target("assurance"))?;
    let mut python = command("python3", root);
    python.arg("-B").arg(root.join("crates/python/tests/suites.py"));
    python.arg("--into").arg(workspace.target("python-suites"));
    python.arg("--record").arg(workspace.target("assurance").join("python-suites.json"));
    let shown = program::shown(&python);
    println!("$ {shown}");
    Ok(match python.status()?.code() {
        Some(0) => Outcome::passed(""),
        Some(77) => Outcome::skipped("the packages of crates/python/tests/suites.txt cannot be installed"),
        _ => Outcome::failed(format!("`{shown}` failed")),
    })
}

/// All mutants of core take a day on two cores; a run takes one of these shares, another one with each commit.
const SHARDS: u64 = 24;

/// Finds changes to core that no test notices, for this commit's share. `.cargo/mutants.toml` lists those that cannot
/// be noticed, with the reasons.
fn mutants(root: &Path) -> Result<Outcome> {
    if !program::works(cargo(root).args(["mutants", "--version"])) {
        return Ok(Outcome::skipped("cargo-mutants is not installed"));
    }
    let commit = program::output(command("git", root).args(["rev-parse", "HEAD"]))?;
    let share = u64::from_str_radix(&commit[..8], 16)? % SHARDS;
    let mut cargo = cargo(root);
    // Each mutant is built in a copy of the project; this many operations of a long test distinguish it from the
    // original.
    cargo.env_remove("CARGO_TARGET_DIR").env("SOFTTIMERS_OPERATIONS", "40000");
    program::check(cargo.args(["mutants", "-p", "softtimers-core", "--shard", &format!("{share}/{SHARDS}")]))
}
