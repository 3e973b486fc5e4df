//! Licences of everything in `Cargo.lock`, against the list in `deny.toml`.
//!
//! `cargo deny` does the same and more where it is installed; this check has no way not to run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::report::Outcome;
use crate::workspace::{Package, Workspace};

/// `deny.toml`, as far as we ask.
#[derive(Debug, Deserialize)]
struct Deny {
    licenses: Licenses,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

/// Checks every package of `Cargo.lock`, for whatever platform.
///
/// # Errors
/// If `deny.toml` cannot be read.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    let allowed = allowed(workspace.root())?;
    let problems = workspace.packages.iter().filter_map(|package| problem(package, &allowed)).collect();
    Ok(Outcome::of(problems, format!("{} packages", workspace.packages.len())))
}

fn allowed(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join("deny.toml")).context("cannot read deny.toml")?;
    let deny: Deny = toml::from_str(&text).context("deny.toml")?;
    Ok(deny.licenses.allow)
}

fn problem(package: &Package, allowed: &[String]) -> Option<String> {
    let Package { name, version, .. } = package;
    let Some(expression) = &package.license else {
        return Some(format!("{name} {version} states no licence"));
    };
    match is_allowed(expression, allowed) {
        Ok(true) => None,
        Ok(false) => Some(format!("{name} {version}: `{expression}` is not allowed by deny.toml")),
        Err(error) => Some(format!("{name} {version}: `{expression}`: {error}")),
    }
}

/// Whether an SPDX expression can be met with the `allowed` licences alone.
///
/// # Errors
/// If it is not an expression of licences, `AND`, `OR`, `WITH` and parentheses. `/` is the old `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = Words { words: spaced.split_whitespace().collect(), next: 0 };
    let answer = words.any(allowed)?;
    ensure!(words.next == words.words.len(), "nothing may follow after `{}`", words.words[words.next - 1]);
    Ok(answer)
}

struct Words<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Words<'a> {
    fn any(&mut self, allowed: &[String]) -> Result<bool> {
        let mut answer = self.all(allowed)?;
        while self.took("OR") {
            answer |= self.all(allowed)?;
        }
        Ok(answer)
    }

    fn all(&mut self, allowed: &[String]) -> Result<bool> {
        let mut answer = self.one(allowed)?;
        while self.took("AND") {
            answer &= self.one(allowed)?;
        }
        Ok(answer)
    }

    fn one(&mut self, allowed: &[String]) -> Result<bool> {
        if self.took("(") {
            let answer = self.any(allowed)?;
            ensure!(self.took(")"), "a parenthesis is not closed");
            return Ok(answer);
        }
        let mut licence = self.licence()?.to_owned();
        if self.took("WITH") {
            licence = format!("{licence} WITH {}", self.licence()?);
        }
        Ok(allowed.contains(&licence))
    }

    fn licence(&mut self) -> Result<&'a str> {
        match self.words.get(self.next) {
            None | Some(&("AND" | "OR" | "WITH" | "(" | ")")) => bail!("a licence is missing"),
            Some(word) => {
                self.next += 1;
                Ok(word)
            }
        }
    }

    fn took(&mut self, word: &str) -> bool {
        let took = self.words.get(self.next) == Some(&word);
        self.next += usize::from(took);
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(expression: &str) -> bool {
        let list = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"].map(String::from);
        is_allowed(expression, &list).unwrap()
    }

    #[test]
    fn expressions_are_met_by_what_is_allowed() {
        assert!(allowed("MIT"));
        assert!(allowed("GPL-3.0 OR MIT"));
        assert!(allowed("MIT/GPL-2.0"));
        assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(allowed("Apache-2.0 WITH LLVM-exception OR GPL-2.0"));
    }

    #[test]
    fn and_binds_tighter_than_or_and_needs_both() {
        assert!(!allowed("GPL-3.0"));
        assert!(!allowed("MIT AND GPL-3.0"));
        assert!(allowed("MIT OR GPL-3.0 AND BSL-1.0"));
        assert!(!allowed("(MIT OR GPL-3.0) AND BSL-1.0"));
        assert!(!allowed("MIT WITH LLVM-exception"));
    }

    #[test]
    fn broken_expressions_are_refused() {
        for expression in ["", "MIT OR", "(MIT", "MIT MIT", "MIT)", "AND MIT", "MIT WITH"] {
            assert!(is_allowed(expression, &["MIT".into()]).is_err(), "{expression:?}");
        }
    }

    #[test]
    fn a_package_without_a_licence_is_a_problem() {
        let package: Package = serde_json::from_str(
            r#"{"id": "a", "name": "a", "version": "1.0.0", "license": null, "rust_version": null,
                "dependencies": [], "targets": []}"#,
        )
        .unwrap();
        assert_eq!(problem(&package, &[]), Some("a 1.0.0 states no licence".into()));
    }
}
