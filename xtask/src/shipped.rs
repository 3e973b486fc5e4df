//! What is built for others: without a word of where it was built, and with the licences of what is inside.
//!
//! The compiler writes the path of each source into panics' messages. They would tell the builder's home, and no two
//! builders would get the same bytes; so each path begins with a name instead. That is another build for cargo, and
//! has a directory of its own: else it and the plain one would build each other anew for ever.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::program::{Profile, cargo, must, output, program};
use crate::workspace::Workspace;

/// Builds `package` and returns the directory that has the results. What has symbols for a debugger is not for others,
/// and built as ever.
///
/// # Errors
/// If it does not build.
pub(crate) fn build(
    workspace: &Workspace,
    profile: Profile,
    package: &str,
    target: Option<&str>,
) -> Result<PathBuf> {
    let mut build = cargo(workspace.root());
    build.args(["build", "--locked", "--package", package]).args(profile.flags());
    let mut directory = workspace.target_directory.clone();
    if profile == Profile::Release {
        directory.push("shipped");
        build.arg("--target-dir").arg(&directory).env("CARGO_ENCODED_RUSTFLAGS", flags(workspace)?);
    }
    if let Some(target) = target {
        directory.push(target);
        build.args(["--target", target]);
    }
    must(&mut build)?;
    Ok(directory.join(profile.directory()))
}

/// What the caller asks of the compiler, and a name for each place. Of several that fit, the last one counts.
fn flags(workspace: &Workspace) -> Result<String> {
    let said = std::env::var("RUSTFLAGS").unwrap_or_default();
    let mut flags: Vec<String> = said.split_whitespace().map(str::to_owned).collect();
    for (place, name) in places(workspace)? {
        flags.push(format!("--remap-path-prefix={}={name}", place.display()));
    }
    Ok(flags.join("\u{1f}"))
}

/// Where sources are on this machine, the wider place first, and what stands for each.
fn places(workspace: &Workspace) -> Result<Vec<(PathBuf, &'static str)>> {
    let home = cargo_home()?;
    let sysroot = output(program("rustc", workspace.root()).args(["--print", "sysroot"]))?;
    let mut places = vec![(home.clone(), "cargo"), (PathBuf::from(sysroot.trim()), "rust")];
    if let Ok(registries) = fs::read_dir(home.join("registry/src")) {
        for registry in registries {
            places.push((registry?.path(), "crates"));
        }
    }
    places.push((workspace.root().to_owned(), "softtimers"));
    Ok(places)
}

fn cargo_home() -> Result<PathBuf> {
    let said = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    said.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).context("no CARGO_HOME")
}

/// Strips a program or a library in its place: `how` much, and who compiled it.
///
/// # Errors
/// If there is no `strip`, or it fails.
pub(crate) fn strip(file: &Path, how: &str) -> Result<()> {
    let place = file.parent().context("a file in a directory")?;
    let sections = ["--remove-section=.comment", "--remove-section=.note"];
    must(program("strip", place).args([how, "--enable-deterministic-archives"]).args(sections).arg(file))
}

/// That a file, stripped, does not say where it was built.
///
/// # Errors
/// If it does, or cannot be read.
pub(crate) fn is_nowhere(workspace: &Workspace, file: &Path) -> Result<()> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut words = vec!["registry/src/".to_owned()];
    words.extend(places(workspace)?.iter().map(|(place, _)| format!("{}/", place.display())));
    for word in words {
        ensure!(!holds(&bytes, word.as_bytes()), "{} says where it was built: {word}", file.display());
    }
    Ok(())
}

fn holds(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

/// The licences of whatever others wrote and is built into `packages`: each text once, below the names of its crates.
///
/// # Errors
/// If a package is not there, or the directory of a crate cannot be read.
pub(crate) fn notices(workspace: &Workspace, packages: &[&str]) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in packages {
        let member = workspace.member(name).with_context(|| format!("there is no {name}"))?;
        let built = workspace.built_into(member).into_iter();
        for package in built.filter(|package| !workspace.workspace_members.contains(&package.id)) {
            let licence = package.license.as_deref().unwrap_or("not said");
            let who = format!("{} {}, {licence}", package.name, package.version);
            let mut own = licences_in(package.directory())?;
            if own.is_empty() {
                own.push("Its source brings no text; the licence is the one named above.".into());
            }
            for text in own {
                let crates = texts.entry(text).or_default();
                if !crates.contains(&who) {
                    crates.push(who.clone());
                }
            }
        }
    }
    let mut parts: Vec<(Vec<String>, String)> = texts.into_iter().map(|(text, who)| (who, text)).collect();
    parts.sort();
    let line = "-".repeat(78);
    let part =
        |(who, text): &(Vec<String>, String)| format!("{line}\n{}\n{line}\n\n{text}\n\n", who.join("\n"));
    let head = "What others wrote and is built into softtimers, each with the licence that its source comes with.\n\n";
    Ok(head.to_owned() + &parts.iter().map(part).collect::<String>())
}

/// The texts of a crate's licences and notices.
fn licences_in(directory: &Path) -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if entry.path().is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            let text = fs::read(entry.path()).with_context(|| format!("cannot read {name}"))?;
            texts.insert(name, String::from_utf8_lossy(&text).trim().replace("\r\n", "\n"));
        }
    }
    Ok(texts.into_values().collect())
}

/// How such files are called.
const NAMES: &[&str] = &["LICENSE", "LICENCE", "NOTICE", "COPYING", "COPYRIGHT", "UNLICENSE"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_wherever_it_stands() {
        let path = b"/there/cargo/registry/src/".as_slice();
        assert!(holds(b"\0\0/there/cargo/registry/src/x\xff", path));
        assert!(!holds(b"crates/rustix/src", path) && !holds(b"", path));
    }

    #[test]
    fn each_crate_that_is_built_in_is_named() {
        let workspace = Workspace::load().unwrap();
        let text = notices(&workspace, &["softtimers-cli"]).unwrap();
        for package in workspace.built_into(workspace.member("softtimers-cli").unwrap()) {
            let is_ours = workspace.workspace_members.contains(&package.id);
            let named = text.contains(&format!("{} {}, ", package.name, package.version));
            assert_ne!(is_ours, named, "{}", package.name);
        }
        assert!(text.contains("Permission is hereby granted"), "no text of a licence");
    }
}
