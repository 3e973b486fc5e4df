//! Checks that need another compiler or target: `no_std`, the oldest supported Rust, Miri's nightly.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::program::{self, cargo, cargo_of, program as command};
use crate::report::Outcome;
use crate::workspace::Workspace;

/// The toolchain with features that stable lacks: Miri, sanitizers.
pub(crate) const NIGHTLY: &str = "nightly";

/// Finds a rustup toolchain whose name begins with this.
pub(crate) fn toolchain(name: &str, root: &Path) -> Option<String> {
    let list = program::output(command("rustup", root).args(["toolchain", "list"])).ok()?;
    let mut names = list.lines().filter_map(|line| line.split_whitespace().next());
    let continues = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    names.find(|full| full.strip_prefix(name).is_some_and(|rest| !continues(rest))).map(str::to_owned)
}

/// Builds core for a target that has no `std`.
///
/// # Errors
/// If the compiler cannot be asked.
pub(crate) fn no_std_build(root: &Path) -> Result<Outcome> {
    let sysroot = program::output(command("rustc", root).args(["--print", "sysroot"]))?;
    let installed = fs::read_dir(Path::new(sysroot.trim()).join("lib/rustlib"))?;
    let mut names = installed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let Some(target) = names.find(|name| name.split('-').any(|part| part == "none")) else {
        let tip = "`rustup target add x86_64-unknown-none` brings one";
        return Ok(Outcome::skipped(format!("no target without std is installed; {tip}")));
    };
    let words = ["build", "--package", "softtimers-core", "--no-default-features", "--target"];
    program::check(cargo(root).args(words).arg(target))
}

/// Checks that everything built into a crate supports the Rust version that the crate states, as far as it says.
pub(crate) fn msrv_stated(workspace: &Workspace) -> Outcome {
    let (mut problems, mut compared) = (vec![], 0);
    for member in workspace.members() {
        for package in workspace.built_into(member) {
            if let (Some(own), Some(needs)) = (&member.rust_version, &package.rust_version) {
                compared += 1;
                if needs > own {
                    problems
                        .push(format!("{} states Rust {own}; {} needs {needs}", member.name, package.name));
                }
            }
        }
    }
    Outcome::of(problems, format!("{compared} dependencies compared"))
}

/// Checks each crate with the oldest Rust it states, where that is installed.
///
/// # Errors
/// If cargo cannot be started.
pub(crate) fn msrv_check(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root();
    let versions: BTreeSet<_> =
        workspace.members().filter_map(|member| member.rust_version.as_ref()).collect();
    let (mut problems, mut missing) = (vec![], vec![]);
    for version in versions {
        let name = format!("{}.{}", version.major, version.minor);
        let Some(toolchain) = toolchain(&name, root) else {
            missing.push(name);
            continue;
        };
        let own = workspace.members().filter(|member| member.rust_version.as_ref() == Some(version));
        let mut cargo = cargo_of(&toolchain, root);
        cargo.arg("check").args(own.flat_map(|member| ["--package", member.name.as_str()]));
        if let Outcome::Failed(found) =
            program::check(cargo.arg("--target-dir").arg(workspace.target("msrv")))?
        {
            problems.extend(found);
        }
    }
    if problems.is_empty() && !missing.is_empty() {
        let lint = "clippy has compared uses of std with what the crates state";
        return Ok(Outcome::skipped(format!("no toolchain {} is installed; {lint}", missing.join(", "))));
    }
    Ok(Outcome::of(problems, ""))
}
