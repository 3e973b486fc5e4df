//! `cargo xtask instructions`: the cost of timers in instructions, counted by callgrind and compared with the kept
//! counts.
//!
//! A stopwatch on a shared machine cannot see a tenth; an instruction count can, since it is the same each time. Two
//! things are checked, with different dependencies:
//!
//! ```text
//!   instructions.toml   each count within 5% of the recorded one           needs the same compiler, else skipped
//!   RELATIONS, LIMITS   flat in the number of timers, a miss like a hit    any compiler
//! ```
//!
//! Fewer instructions than recorded fail, too, so that the limits follow the code. `--bless` records the current
//! counts; the change to the file is part of the change that caused it, and shows its size.
//!
//! It runs `crates/core/benches/instructions.rs`. gungraun does the same with a macro for each bench; it needs a second
//! binary of its exact version, and compares a run with the last one on this machine, while our limits are in git.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::Message;
use serde::Deserialize;

use crate::program::{self, cargo, program as command};
use crate::report::Outcome;

/// The path of the file, from the workspace's root.
const FILE: &str = "crates/core/benches/instructions.toml";

/// The mark at which callgrind counts: the function's name, for any instance.
const MARK: &str = "instructions::measured*";

/// The allowed deviation from the recorded count. From another directory it is the same to the last instruction; a
/// change elsewhere in the crate may move it a little, because the compiler then splits it differently.
const TOLERANCE: f64 = 0.05;

/// Instructions of an operation by workload, and the compiler that they apply to.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    compiler: Compiler,
    instructions: BTreeMap<String, f64>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compiler {
    release: String,
    host: String,
}

/// Counts, and compares the counts with the file and each other.
///
/// # Errors
/// If the bench cannot be built or run, or the file not be read.
pub(crate) fn check(root: &Path) -> Result<Outcome> {
    if let Some(reason) = impossible(root) {
        return Ok(Outcome::skipped(reason));
    }
    let written = Counts::read(root)?;
    let counted = Counts::make(root)?;
    println!("{}", counted.table(&written));
    let mut problems = counted.unrelated();
    if counted.compiler == written.compiler {
        problems.extend(counted.differences(&written));
    } else if problems.is_empty() {
        let [by, here] =
            [&written, &counted].map(|Counts { compiler: c, .. }| format!("{} for {}", c.release, c.host));
        return Ok(Outcome::skipped(format!("{FILE} has the counts of rustc {by}, and this is {here}")));
    }
    let relations = RELATIONS.len() + LIMITS.len();
    Ok(Outcome::of(problems, format!("{} counts, {relations} relations", counted.instructions.len())))
}

/// Records the current counts.
///
/// # Errors
/// If the bench cannot be built or run, or the file not be written.
pub(crate) fn renew(root: &Path) -> Result<Outcome> {
    if let Some(reason) = impossible(root) {
        return Ok(Outcome::skipped(reason));
    }
    let counted = Counts::make(root)?;
    println!("{}", counted.table(&Counts::read(root).unwrap_or_default()));
    std::fs::write(root.join(FILE), counted.text()).with_context(|| format!("cannot write {FILE}"))?;
    Ok(Outcome::of(counted.unrelated(), format!("{FILE} has {} counts", counted.instructions.len())))
}

/// Returns why counting is not possible here, if so.
fn impossible(root: &Path) -> Option<String> {
    let there = program::works(command("valgrind", root).arg("--version"));
    (!there).then(|| "valgrind is not installed".into())
}

/// Builds the bench like the others, and finds it.
fn build(root: &Path) -> Result<PathBuf> {
    let mut cargo = cargo(root);
    cargo.args(["bench", "--package", "softtimers-core", "--bench", "instructions", "--no-run"]);
    let messages = program::output(cargo.arg("--message-format=json-render-diagnostics"))?;
    let executable = |message: Message| match message {
        Message::CompilerArtifact(built) if built.target.name == "instructions" => built.executable,
        _ => None,
    };
    let mut messages = Message::parse_stream(messages.as_bytes()).filter_map(Result::ok);
    messages.find_map(executable).map(PathBuf::from).context("cargo names no executable of the bench")
}

/// Returns the instructions of an operation, to a tenth.
fn instructions(root: &Path, bench: &Path, name: &str) -> Result<f64> {
    let out = std::env::temp_dir().join(format!("softtimers-instructions-{}", std::process::id()));
    let mut valgrind = command("valgrind", root);
    valgrind.args(["--tool=callgrind", &format!("--toggle-collect={MARK}")]);
    valgrind.arg(format!("--callgrind-out-file={}", out.display())).arg(bench).arg(name);
    let operations = program::output(&mut valgrind);
    let profile = std::fs::read_to_string(&out);
    // Whether it exists or not, the error is the earlier one.
    let _ = std::fs::remove_file(&out);
    let operations: f64 = operations?.trim().parse().context("the bench says no number of operations")?;
    let total = total(&profile.context("callgrind has written nothing")?);
    let total =
        total.filter(|&total| total > 0).with_context(|| format!("{name}: nothing was counted in {MARK}"))?;
    Ok((10.0 * total as f64 / operations).round() / 10.0)
}

/// Returns the sum at the end of a callgrind profile.
fn total(profile: &str) -> Option<u64> {
    profile.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

impl Counts {
    fn read(root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        toml::from_str(&text).with_context(|| format!("cannot understand {FILE}"))
    }

    /// Counts all workloads.
    fn make(root: &Path) -> Result<Self> {
        let bench = build(root)?;
        let names = program::output(command(&bench, root).arg("--list"))?;
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let about = program::output(command(rustc, root).arg("-vV"))?;
        let line = |name: &str| {
            let found = about.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            found.map(str::to_owned).with_context(|| format!("`rustc -vV` says no {name}"))
        };
        let compiler = Compiler { release: line("release")?, host: line("host")? };
        let counted = names.lines().map(|name| Ok((name.to_owned(), instructions(root, &bench, name)?)));
        Ok(Counts { compiler, instructions: counted.collect::<Result<_>>()? })
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.instructions.get(name).copied()
    }

    /// Returns the text of the file.
    fn text(&self) -> String {
        let Compiler { release, host } = &self.compiler;
        let mut text = format!(
            "# Instructions of an operation, by crates/core/benches/instructions.rs, which says what the names mean.\n\
             # Written by `cargo xtask instructions --bless`; `cargo xtask ci` checks them.\n\n\
             [compiler]\nrelease = \"{release}\"\nhost = \"{host}\"\n\n[instructions]\n"
        );
        for (name, count) in &self.instructions {
            text += &format!("\"{name}\" = {count:.1}\n");
        }
        text
    }

    /// Returns a line for each workload: current, recorded, and their difference.
    fn table(&self, written: &Counts) -> String {
        let mut text = format!("{:<26} {:>9} {:>9} {:>8}\n", "instructions", "counted", "written", "change");
        for (name, &count) in &self.instructions {
            let (before, change) = match written.get(name) {
                Some(before) => (format!("{before:.1}"), format!("{:+.1}%", 100.0 * (count / before - 1.0))),
                None => ("–".into(), String::new()),
            };
            text += &format!("{name:<26} {count:>9.1} {before:>9} {change:>8}\n");
        }
        text
    }

    /// Returns the counts that differ from the recorded ones.
    fn differences(&self, written: &Counts) -> Vec<String> {
        let counted = self.instructions.iter().filter_map(|(name, &count)| match written.get(name) {
            None => Some(format!("{name} is not in {FILE}; `cargo xtask instructions --bless` writes it")),
            Some(before) if (count / before - 1.0).abs() > TOLERANCE => Some(format!(
                "{name} takes {count:.1} instructions, {before:.1} before; if that is meant, \
                 `cargo xtask instructions --bless` keeps it so"
            )),
            Some(_) => None,
        });
        let gone = written.instructions.keys().filter(|name| self.get(name).is_none());
        counted.chain(gone.map(|name| format!("{name} is in {FILE} and no workload"))).collect()
    }

    /// Returns the relations and limits that do not hold.
    fn unrelated(&self) -> Vec<String> {
        let problem = |&Relation(left, most, right): &Relation| match (self.get(left), self.get(right)) {
            (Some(a), Some(b)) if a <= most * b => None,
            (Some(a), Some(b)) => {
                Some(format!("{left} takes {a:.1}, more than {most} times the {b:.1} of {right}"))
            }
            _ => Some(format!("{left} or {right} is no workload")),
        };
        let beyond = |&Limit(name, most): &Limit| match self.get(name) {
            Some(count) if count <= most => None,
            Some(count) => Some(format!("{name} takes {count:.1}; the limit is {most}")),
            None => Some(format!("{name} is no workload")),
        };
        RELATIONS.iter().filter_map(problem).chain(LIMITS.iter().filter_map(beyond)).collect()
    }
}

/// The first is at most this many times the second.
struct Relation(&'static str, f64, &'static str);

/// The relations of Costello and Varghese's Table I, in a robust form: with timers in a wheel no cost grows with their
/// number, and cancelling one that is not there costs no more than one that is. (That the older list's cost grows is a
/// separate test: `callout::delta_list::tests::set_and_cancel_are_linear`.)
const RELATIONS: &[Relation] = &[
    // Up to 1,024 timers have no slots: one that does not come next is an entry in an array.
    Relation("handles w1/0", 1.25, "handles w1/1000"),
    Relation("handles w1/1000", 1.25, "handles w1/0"),
    Relation("handles w1/100000", 1.05, "handles w1/1000"),
    Relation("handles hit/100000", 1.5, "handles hit/1000"),
    // The first 1,024 records are found without a list of segments.
    Relation("handles miss/100000", 1.25, "handles miss/1000"),
    Relation("handles miss/1000", 1.0, "handles hit/1000"),
    Relation("handles miss/100000", 1.0, "handles hit/100000"),
    Relation("handles w1r/100000", 1.25, "handles w1r/1000"),
    // One of very many that are due together costs no more than one that is due alone.
    Relation("handles slot/20000", 1.0, "handles w2 expire/20000"),
    Relation("keyed slot/20000", 1.0, "keyed w2 expire/20000"),
    Relation("keyed w1/1000", 1.25, "keyed w1/0"),
    Relation("keyed w1/100000", 1.05, "keyed w1/1000"),
    Relation("keyed miss/100000", 1.0, "keyed hit/100000"),
    // The livelock paper's §6.5: code that could poll and does not takes longer than code that could not.
    Relation("input original/1", 1.0, "input unpolled/1"),
];

/// At most this many.
struct Limit(&'static str, f64);

/// A transport's timers must take less than 2% of a core at 40,000 packets/s, at 3·10⁹ instructions a second, an
/// instruction per cycle.
const LIMITS: &[Limit] = &[Limit("handles tcp/1000", 0.02 * 3e9 / 40_000.0)];

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, f64)]) -> Counts {
        let instructions = of.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        Counts { instructions, ..Counts::default() }
    }

    #[test]
    fn what_grows_is_named() {
        let mut counts = counts(&[]);
        for Relation(left, _, right) in RELATIONS {
            counts.instructions.extend([left, right].map(|name| ((*name).to_owned(), 100.0)));
        }
        counts.instructions.extend(LIMITS.iter().map(|Limit(name, most)| ((*name).to_owned(), *most)));
        assert!(counts.unrelated().is_empty());
        counts.instructions.insert("keyed w1/100000".into(), 106.0);
        counts.instructions.insert("handles tcp/1000".into(), 1_501.0);
        let grown = [
            "keyed w1/100000 takes 106.0, more than 1.05 times the 100.0 of keyed w1/1000",
            "handles tcp/1000 takes 1501.0; the limit is 1500",
        ];
        assert_eq!(counts.unrelated(), grown);
    }

    #[test]
    fn more_fewer_new_and_gone_are_told_and_little_is_not() {
        let before = counts(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0), ("gone", 1.0)]);
        let again: Counts = toml::from_str(&before.text()).unwrap();
        assert_eq!(again.instructions, before.instructions);
        let now = counts(&[("a", 104.9), ("b", 95.1), ("c", 105.1), ("d", 94.9), ("new", 1.0)]);
        let said = now.differences(&before);
        let about: Vec<&str> = said.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(about, ["c", "d", "new", "gone"]);
    }
}
