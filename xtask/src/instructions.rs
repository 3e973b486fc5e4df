//! `cargo xtask instructions`: what timers cost in instructions, counted by callgrind, held against what they cost
//! before.
//!
//! A stopwatch on a shared machine cannot see a tenth; a count can, for it is the same each time. Two things are
//! checked, and they differ in what they depend on:
//!
//! ```text
//!   instructions.toml   each count within 5% of the one written there      of one compiler: else skipped
//!   RELATIONS, LIMITS   flat in the number of timers, a miss like a hit    of any
//! ```
//!
//! Fewer instructions than written fail, too: the guard is to stand where the code is. `--bless` writes the
//! counts of now; the change to the file is part of the change that caused it, and says by how much.
//!
//! What runs is `crates/core/benches/instructions.rs`. It is in core's package and not beside the peers, for
//! core builds in seconds. iai-callgrind (now gungraun) does the same with a macro for each bench; it wants a
//! second binary of its very version installed and has thirty crates in its tree, and its limits are of one run
//! against the last one on this machine, where ours are in git.

mod counts;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::program::{self, cargo, program as command};
use crate::report::Outcome;
use crate::workspace::Workspace;
use counts::{Compiler, Counts};

/// Of the file, from the workspace's root.
const FILE: &str = "crates/core/benches/instructions.toml";

/// What callgrind counts in: the function's name, whatever it is an instance for.
const MARK: &str = "instructions::measured*";

/// `cargo xtask instructions [--bless]`.
///
/// # Errors
/// If the bench cannot be built or run, or an argument is unknown.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let bless = match arguments {
        [] => false,
        [flag] if flag == "--bless" => true,
        _ => bail!(crate::usage_of("instructions")),
    };
    let workspace = Workspace::load()?;
    let outcome = if bless { renew(workspace.root())? } else { check(workspace.root())? };
    match &outcome {
        Outcome::Passed(note) => println!("passed: {note}"),
        Outcome::Failed(problems) => problems.iter().for_each(|problem| println!("FAILED: {problem}")),
        Outcome::Skipped(reason) => println!("skipped: {reason}"),
    }
    Ok(!matches!(outcome, Outcome::Failed(_)))
}

/// Counts, and holds the counts against the file and each other.
///
/// # Errors
/// If the bench cannot be built or run, or the file not be read.
pub(crate) fn check(root: &Path) -> Result<Outcome> {
    if let Some(reason) = impossible(root) {
        return Ok(Outcome::skipped(reason));
    }
    let written = Counts::read(&root.join(FILE))?;
    let counted = count(root)?;
    println!("{}", counted.table(&written));
    let mut problems = related(&counted);
    if counted.compiler == written.compiler {
        problems.extend(counted.differences(&written));
    } else if problems.is_empty() {
        let reason =
            format!("{FILE} has the counts of {}, and this is {}", written.compiler, counted.compiler);
        return Ok(Outcome::skipped(reason));
    }
    Ok(Outcome::of(
        problems,
        format!("{} counts, {} relations", counted.len(), RELATIONS.len() + LIMITS.len()),
    ))
}

fn renew(root: &Path) -> Result<Outcome> {
    if let Some(reason) = impossible(root) {
        return Ok(Outcome::failed(reason));
    }
    let path = root.join(FILE);
    let counted = count(root)?;
    if let Ok(written) = Counts::read(&path) {
        println!("{}", counted.table(&written));
    }
    std::fs::write(&path, counted.text()).with_context(|| format!("cannot write {FILE}"))?;
    Ok(Outcome::of(related(&counted), format!("{FILE} has {} counts", counted.len())))
}

/// Why nothing can be counted here, if so.
fn impossible(root: &Path) -> Option<String> {
    let there = program::works(command("valgrind", root).arg("--version"));
    (!there).then(|| "valgrind is not installed".into())
}

/// All workloads. The first is counted twice: a count that is not the same twice is no guard.
fn count(root: &Path) -> Result<Counts> {
    let bench = build(root)?;
    let names = program::output(command(&bench, root).arg("--list"))?;
    let mut counts = Counts::of(Compiler::present(root)?);
    for name in names.lines() {
        counts.insert(name, instructions(root, &bench, name)?);
    }
    let first = names.lines().next().context("the bench has no workload")?;
    let again = instructions(root, &bench, first)?;
    ensure!(counts.get(first) == Some(again), "{first} took {:?}, then {again}", counts.get(first));
    Ok(counts)
}

/// Builds the bench as others are built, and finds it.
fn build(root: &Path) -> Result<PathBuf> {
    let mut cargo = cargo(root);
    cargo.args(["bench", "--package", "softtimers-core", "--bench", "instructions", "--no-run"]);
    let messages = program::output(cargo.arg("--message-format=json-render-diagnostics"))?;
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "instructions")
            .then(|| message["executable"].as_str().map(PathBuf::from))?
    };
    messages.lines().find_map(executable).context("cargo names no executable of the bench")
}

/// Instructions of an operation, to a tenth.
fn instructions(root: &Path, bench: &Path, name: &str) -> Result<f64> {
    let out = std::env::temp_dir().join(format!("softtimers-instructions-{}", std::process::id()));
    let mut valgrind = command("valgrind", root);
    valgrind.args(["--tool=callgrind", &format!("--toggle-collect={MARK}")]);
    valgrind.arg(format!("--callgrind-out-file={}", out.display())).arg(bench).arg(name);
    let operations = program::output(&mut valgrind);
    let profile = std::fs::read_to_string(&out);
    // Whether it is there or not: what is told is what went wrong before.
    let _ = std::fs::remove_file(&out);
    let operations: f64 = operations?.trim().parse().context("the bench says no number of operations")?;
    let total = total(&profile.context("callgrind has written nothing")?);
    let total =
        total.filter(|&total| total > 0).with_context(|| format!("{name}: nothing was counted in {MARK}"))?;
    Ok((10.0 * total as f64 / operations).round() / 10.0)
}

/// The sum that a profile of callgrind ends with.
fn total(profile: &str) -> Option<u64> {
    profile.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

/// The first is at most so many times the second.
struct Relation(&'static str, f64, &'static str);

/// What Costello and Varghese's Table I says, in a form that does not waver: with timers in a wheel nothing grows
/// with their number, and to cancel one that is not there costs no more than one that is. (That the list before
/// it grows is a test of its own: `callout::delta_list::tests::set_and_cancel_are_linear`.)
const RELATIONS: &[Relation] = &[
    // A few are kept in order, which costs a little to set and is won back when they come out.
    Relation("handles w1/0", 1.25, "handles w1/1000"),
    Relation("handles w1/1000", 1.05, "handles w1/0"),
    Relation("handles w1/100000", 1.05, "handles w1/1000"),
    Relation("handles hit/100000", 1.05, "handles hit/1000"),
    Relation("handles miss/100000", 1.05, "handles miss/1000"),
    Relation("handles miss/1000", 1.0, "handles hit/1000"),
    Relation("handles miss/100000", 1.0, "handles hit/100000"),
    Relation("handles w1r/100000", 1.05, "handles w1r/1000"),
    Relation("handles slot/20000", 1.05, "handles slot/1000"),
    Relation("keyed w1/1000", 1.05, "keyed w1/0"),
    Relation("keyed w1/100000", 1.05, "keyed w1/1000"),
    Relation("keyed miss/100000", 1.0, "keyed hit/100000"),
    // The livelock paper's §6.5: code that could poll and does not takes longer than code that could not.
    Relation("input original/1", 1.0, "input unpolled/1"),
];

/// At most so many.
struct Limit(&'static str, f64);

/// A transport's timers are to take less than 2% of a core at 40,000 packets/s: of one that does but 3·10⁹
/// instructions a second, an instruction a cycle.
const LIMITS: &[Limit] = &[Limit("handles tcp/1000", 0.02 * 3e9 / 40_000.0)];

fn related(counts: &Counts) -> Vec<String> {
    let problem = |&Relation(left, most, right): &Relation| match (counts.get(left), counts.get(right)) {
        (Some(a), Some(b)) if a <= most * b => None,
        (Some(a), Some(b)) => {
            Some(format!("{left} takes {a:.1}, more than {most} times the {b:.1} of {right}"))
        }
        _ => Some(format!("{left} or {right} is no workload")),
    };
    let beyond = |&Limit(name, most): &Limit| match counts.get(name) {
        Some(count) if count <= most => None,
        Some(count) => Some(format!("{name} takes {count:.1}; the limit is {most}")),
        None => Some(format!("{name} is no workload")),
    };
    RELATIONS.iter().filter_map(problem).chain(LIMITS.iter().filter_map(beyond)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_a_profile_is_found() {
        assert_eq!(total("events: Ir\nfn=(1) main\n12 5\n\ntotals: 5170952\n"), Some(5_170_952));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn what_grows_is_named() {
        let mut counts = Counts::of(Compiler::default());
        for Relation(left, _, right) in RELATIONS {
            counts.insert(left, 100.0);
            counts.insert(right, 100.0);
        }
        LIMITS.iter().for_each(|Limit(name, most)| counts.insert(name, *most));
        assert!(related(&counts).is_empty());
        counts.insert("keyed w1/100000", 106.0);
        counts.insert("handles tcp/1000", 1_501.0);
        assert_eq!(
            related(&counts),
            [
                "keyed w1/100000 takes 106.0, more than 1.05 times the 100.0 of keyed w1/1000",
                "handles tcp/1000 takes 1501.0; the limit is 1500",
            ]
        );
    }
}
