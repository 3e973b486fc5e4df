//! The counts of a run, and the file that has those of an earlier one.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::program;

/// How far a count may be from what is written. From another directory it is the same to the last instruction; what
/// moves it a little is a change elsewhere in the crate, which the compiler then cuts into other pieces.
const TOLERANCE: f64 = 0.05;

/// Instructions of an operation, by workload.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counts {
    pub(super) compiler: Compiler,
    instructions: BTreeMap<String, f64>,
}

/// What counts are good for: another compiler makes other instructions.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Compiler {
    release: String,
    host: String,
}

impl Compiler {
    /// The one that builds the project.
    pub(super) fn present(root: &Path) -> Result<Self> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let text = program::output(program::program(rustc, root).arg("-vV"))?;
        let line = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            found.map(str::to_owned).with_context(|| format!("`rustc -vV` says no {name}"))
        };
        Ok(Compiler { release: line("release")?, host: line("host")? })
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rustc {} for {}", self.release, self.host)
    }
}

impl Counts {
    pub(super) fn of(compiler: Compiler) -> Self {
        Counts { compiler, instructions: BTreeMap::new() }
    }

    pub(super) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        toml::from_str(&text).with_context(|| format!("cannot understand {name}"))
    }

    pub(super) fn insert(&mut self, name: &str, count: f64) {
        self.instructions.insert(name.into(), count);
    }

    pub(super) fn get(&self, name: &str) -> Option<f64> {
        self.instructions.get(name).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.instructions.len()
    }

    /// What the file is to say.
    pub(super) fn text(&self) -> String {
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

    /// A line for each workload: now, as written, and how far they are apart.
    pub(super) fn table(&self, written: &Counts) -> String {
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

    /// What is not as written.
    pub(super) fn differences(&self, written: &Counts) -> Vec<String> {
        let counted = self.instructions.iter().filter_map(|(name, &count)| match written.get(name) {
            None => Some(format!("{name} is not in the file; `cargo xtask instructions --bless` writes it")),
            Some(before) if count > before * (1.0 + TOLERANCE) => Some(format!(
                "{name} takes {count:.1} instructions, {before:.1} before: {:.1}% more",
                100.0 * (count / before - 1.0)
            )),
            Some(before) if count < before * (1.0 - TOLERANCE) => Some(format!(
                "{name} takes {count:.1} instructions, {before:.1} before: good; `cargo xtask instructions --bless` \
                 keeps it so"
            )),
            Some(_) => None,
        });
        let gone = written.instructions.keys().filter(|name| self.get(name).is_none());
        counted.chain(gone.map(|name| format!("{name} is in the file and no workload"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, f64)]) -> Counts {
        let mut counts = Counts::of(Compiler::default());
        of.iter().for_each(|(name, count)| counts.insert(name, *count));
        counts
    }

    #[test]
    fn what_is_written_is_read_again() {
        let before = counts(&[("handles w1/0", 517.1), ("keyed w1/0", 3.0)]);
        let again: Counts = toml::from_str(&before.text()).unwrap();
        assert_eq!(again.compiler, before.compiler);
        assert_eq!(again.instructions, before.instructions);
        assert_eq!(again.get("handles w1/0"), Some(517.1));
    }

    #[test]
    fn more_fewer_new_and_gone_are_told_and_little_is_not() {
        let before = counts(&[("a", 100.0), ("b", 100.0), ("c", 100.0), ("d", 100.0), ("gone", 1.0)]);
        let now = counts(&[("a", 105.0), ("b", 95.0), ("c", 105.1), ("d", 94.9), ("new", 1.0)]);
        let said = now.differences(&before);
        let about: Vec<&str> = said.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(about, ["c", "d", "new", "gone"]);
        assert!(said[0].ends_with("5.1% more"), "{}", said[0]);
    }
}
