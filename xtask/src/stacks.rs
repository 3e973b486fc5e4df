//! The workspace of `examples/`: against published protocol stacks, with dependencies, a lock file and an
//! oldest compiler of its own.
//!
//! It takes minutes and a C++ compiler to build, so `ci` only looks whether it still fits this workspace, and
//! `full` builds and tests it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::program::{self, cargo, program as command};
use crate::report::Outcome;
use crate::workspace::Workspace;

/// What builds BoringSSL, and how each says that it is there.
const BUILD_TOOLS: [&str; 2] = ["cmake", "c++"];

/// Whether the workspace is there, is formatted, and finds what it takes from here; its lock file is [`crate::locks`]'.
/// Nothing is built or fetched.
///
/// # Errors
/// If cargo cannot be started or read.
pub(crate) fn fits(root: &Path) -> Result<Outcome> {
    let directory = root.join("examples");
    if !directory.join("Cargo.toml").is_file() {
        return Ok(Outcome::failed("there is no examples/Cargo.toml"));
    }
    let members = Members::load(&directory)?;
    let mut problems = missing(&members);
    if let Outcome::Failed(found) = program::check(cargo(&directory).args(["fmt", "--all", "--check"]))? {
        problems.extend(found);
    }
    Ok(Outcome::of(problems, format!("{} packages", members.packages.len())))
}

/// Lints and tests it, where that is possible.
///
/// # Errors
/// If cargo cannot be started or read.
pub(crate) fn test(workspace: &Workspace) -> Result<Outcome> {
    let directory = workspace.root().join("examples");
    for tool in BUILD_TOOLS {
        if !program::works(command(tool, &directory).arg("--version")) {
            return Ok(Outcome::skipped(format!("there is no `{tool}`, which BoringSSL is built with")));
        }
    }
    let needed = Members::load(&directory)?.oldest_rust();
    let here = program::output(cargo(&directory).arg("--version"))?;
    let here = here.split_whitespace().nth(1).and_then(minor);
    if here.zip(needed).is_some_and(|(here, needed)| here < needed) {
        return Ok(Outcome::skipped(format!("it needs Rust 1.{}", needed.unwrap_or_default())));
    }
    let target = workspace.target_directory.join("examples");
    let run = |words: &[&str]| program::check(cargo(&directory).env("CARGO_TARGET_DIR", &target).args(words));
    let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    match run(&lints)? {
        Outcome::Passed(_) => run(&["test", "--workspace", "--locked"]),
        other => Ok(other),
    }
}

/// What `cargo metadata` says of the workspace's own packages.
#[derive(Debug, Deserialize)]
struct Members {
    packages: Vec<Member>,
}

#[derive(Debug, Deserialize)]
struct Member {
    name: String,
    rust_version: Option<String>,
    dependencies: Vec<Needed>,
}

#[derive(Debug, Deserialize)]
struct Needed {
    name: String,
    /// Where it is, if it comes from a directory.
    path: Option<PathBuf>,
}

impl Members {
    fn load(directory: &Path) -> Result<Self> {
        let words = ["metadata", "--offline", "--no-deps", "--format-version", "1"];
        let json = program::output(cargo(directory).args(words))?;
        serde_json::from_str(&json).context("cannot read the output of `cargo metadata` in examples")
    }

    /// The second number of the newest Rust that a member asks for.
    fn oldest_rust(&self) -> Option<u32> {
        self.packages.iter().filter_map(|member| minor(member.rust_version.as_deref()?)).max()
    }
}

/// Dependencies on directories that are not there.
fn missing(members: &Members) -> Vec<String> {
    let needed =
        members.packages.iter().flat_map(|member| member.dependencies.iter().map(move |d| (member, d)));
    let gone = needed.filter_map(|(member, dependency)| {
        let path = dependency.path.as_ref()?;
        let there = path.join("Cargo.toml").is_file();
        (!there).then(|| format!("{} needs {}, which is not where it says", member.name, dependency.name))
    });
    gone.collect()
}

/// 89 of `1.89` and of `1.89.0`.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(path: &Path) -> Members {
        let json = serde_json::json!({ "packages": [
            { "name": "one", "rust_version": "1.88", "dependencies": [{ "name": "x", "path": path }] },
            { "name": "two", "rust_version": "1.89.0", "dependencies": [{ "name": "serde", "path": null }] },
            { "name": "three", "rust_version": null, "dependencies": [] },
        ] });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_newest_rust_that_a_member_asks_for_counts() {
        assert_eq!(members(Path::new("")).oldest_rust(), Some(89));
        assert_eq!(minor("1"), None);
    }

    #[test]
    fn a_directory_that_is_gone_is_named() {
        assert!(missing(&members(Path::new(env!("CARGO_MANIFEST_DIR")))).is_empty());
        let gone = missing(&members(Path::new("nowhere")));
        assert_eq!(gone, ["one needs x, which is not where it says"]);
    }
}
