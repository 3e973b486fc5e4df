//! Checks that need another compiler or target: `no_std`, the oldest supported Rust, Miri's nightly.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::program::{self, cargo, cargo_of, program as command};
use crate::report::Outcome;
use crate::source;
use crate::workspace::{Package, TextFile, Workspace};

const CORE: &str = "softtimers-core";

/// The toolchain that has what stable lacks: Miri, sanitizers, building the standard library.
pub(crate) const NIGHTLY: &str = "nightly";

/// Whether rustup has a toolchain whose name begins so.
pub(crate) fn toolchain(name: &str, root: &Path) -> Option<String> {
    let list = program::output(command("rustup", root).args(["toolchain", "list"])).ok()?;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    let is = |full: &&str| {
        full.strip_prefix(name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    names.into_iter().find(is).map(str::to_owned)
}

/// Whether core says `#![no_std]` and never takes `std` back. Without that, and without dependencies,
/// the compiler itself refuses every use of `std`.
pub(crate) fn no_std_stated(workspace: &Workspace, files: &[TextFile]) -> Outcome {
    let directory = |member: &Package| {
        let path = member.targets.iter().find(|target| target.is("lib"))?.src_path.parent()?;
        Some(path.strip_prefix(workspace.root()).ok()?.to_string_lossy().into_owned())
    };
    match workspace.member(CORE).and_then(directory) {
        Some(directory) => {
            let own = files.iter().filter(|file| file.path.starts_with(&format!("{directory}/")));
            Outcome::of(std_taken(own, &format!("{directory}/lib.rs")), "")
        }
        None => Outcome::failed(format!("there is no library {CORE}")),
    }
}

fn std_taken<'a>(files: impl Iterator<Item = &'a TextFile>, root_file: &str) -> Vec<String> {
    let (mut stated, mut problems) = (false, vec![]);
    for file in files {
        let code = source::without_tests(&source::blanked(&file.text));
        stated |= file.path == root_file && code.contains("#![no_std]");
        if code.contains("extern crate std") {
            problems.push(format!("{} takes std back outside its tests", file.path));
        }
    }
    if !stated {
        problems.push(format!("{root_file} does not say #![no_std]"));
    }
    problems
}

/// Builds core for a target that has no `std`: an installed one, or one whose `core` and `alloc` a
/// nightly can build from source.
///
/// # Errors
/// If a compiler cannot be asked.
pub(crate) fn no_std_build(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root();
    let build = ["build", "--package", CORE, "--target"];
    if let Some(target) = bare_target(&sysroot(&mut command("rustc", root))?) {
        return program::check(cargo(root).args(build).arg(target));
    }
    let Some(nightly) = toolchain(NIGHTLY, root) else {
        return Ok(Outcome::skipped("no target without std and no nightly is installed"));
    };
    let library = sysroot(command("rustup", root).args(["run", &nightly, "rustc"]))?
        .join("lib/rustlib/src/rust/library/core");
    if !library.is_dir() {
        return Ok(Outcome::skipped(format!(
            "no target without std is installed, and {nightly} lacks rust-src"
        )));
    }
    let from_source = ["x86_64-unknown-none", "-Zbuild-std=core,alloc"];
    program::check(cargo_of(&nightly, root).args(build).args(from_source))
}

fn sysroot(rustc: &mut std::process::Command) -> Result<PathBuf> {
    Ok(program::output(rustc.args(["--print", "sysroot"]))?.trim().into())
}

/// An installed target whose name says that it has no operating system.
fn bare_target(sysroot: &Path) -> Option<String> {
    let entries = fs::read_dir(sysroot.join("lib/rustlib")).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.into_iter().find(|name| name.split('-').any(|part| part == "none"))
}

/// Whether everything built into a crate supports the Rust version that the crate states.
///
/// # Errors
/// If a version cannot be read.
pub(crate) fn msrv_stated(workspace: &Workspace) -> Result<Outcome> {
    let (mut problems, mut compared) = (vec![], 0);
    for member in workspace.members() {
        let Some(own) = &member.rust_version else {
            problems.push(format!("{} states no rust-version", member.name));
            continue;
        };
        for package in workspace.built_into(member) {
            let Some(needs) = &package.rust_version else { continue };
            compared += 1;
            if numbers(needs)? > numbers(own)? {
                let (name, version) = (&package.name, &package.version);
                problems.push(format!("{} states Rust {own}; {name} {version} needs {needs}", member.name));
            }
        }
    }
    Ok(Outcome::of(problems, format!("{compared} dependencies compared")))
}

fn numbers(version: &str) -> Result<Vec<u32>> {
    let numbers = version.split('.').map(|part| part.parse().with_context(|| format!("`{version}`")));
    let mut numbers: Vec<u32> = numbers.collect::<Result<_>>()?;
    numbers.resize(3, 0);
    Ok(numbers)
}

/// Checks each crate with the oldest Rust it states.
///
/// # Errors
/// If cargo cannot be started.
pub(crate) fn msrv_check(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root();
    let versions: BTreeSet<_> =
        workspace.members().filter_map(|member| member.rust_version.as_deref()).collect();
    let (mut missing, mut checked) = (vec![], vec![]);
    for version in versions {
        let Some(name) = toolchain(version, root) else {
            missing.push(version);
            continue;
        };
        let own = workspace.members().filter(|member| member.rust_version.as_deref() == Some(version));
        let packages = own.flat_map(|member| ["--package", &member.name]);
        let mut cargo = cargo_of(&name, root);
        cargo.arg("check").args(packages).arg("--target-dir").arg(workspace.target_directory.join("msrv"));
        match program::check(&mut cargo)? {
            Outcome::Passed(_) => checked.push(version),
            other => return Ok(other),
        }
    }
    if missing.is_empty() {
        return Ok(Outcome::passed(format!("Rust {}", checked.join(", "))));
    }
    let rest =
        if checked.is_empty() { String::new() } else { format!("; Rust {} passed", checked.join(", ")) };
    let lint = "clippy has checked uses of std against them";
    Ok(Outcome::skipped(format!("no toolchain {} is installed; {lint}{rest}", missing.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(numbers("1.85").unwrap() < numbers("1.100.0").unwrap());
        assert_eq!(numbers("1.85").unwrap(), numbers("1.85.0").unwrap());
        assert!(numbers("one").is_err());
    }

    #[test]
    fn std_taken_back_is_found_outside_tests() {
        let files = |text: &str| [TextFile { path: "core/src/lib.rs".into(), text: text.into() }];
        let problems = |text| std_taken(files(text).iter(), "core/src/lib.rs");
        assert!(problems("#![no_std]\n#[cfg(test)]\nextern crate std;\n").is_empty());
        assert_eq!(problems("// #![no_std]\n"), ["core/src/lib.rs does not say #![no_std]"]);
        let taken = problems("#![no_std]\nextern crate std;\n");
        assert_eq!(taken, ["core/src/lib.rs takes std back outside its tests"]);
    }
}
