//! `cargo xtask release --dry-run`: everything that a release needs, up to the last step before the upload.
//!
//! A step may be run alone, by its name. Steps of other tools are skipped by name where these are not installed:
//!
//! | step | by |
//! |---|---|
//! | `licences` | cargo-deny, or `ci`'s part of it |
//! | `semver` | cargo-semver-checks |
//! | `static`, `image` | the musl targets of rustup; buildah, podman or docker |
//! | `wheels` | maturin, the Python package ziglang, and the targets that rustup has |
//! | `library` | cargo-c: `target/release/root` as it will be installed under `/` |
//! | `debian` | cargo-deb, from there and from the command's own pages in `target/release/pages` |
//!
//! What can run here does: the static binary in a root that has nothing else, that of the other architecture by qemu, the
//! wheel in a new environment, the packages in a Debian of their own by debootstrap or else unpacked into a folder.
//! `ci` does this for this machine's architecture, without optimization.
//!
//! Uploading is left to a person, for whom it prints the commands: a published crate can't be taken back.

mod binaries;
mod debian;
mod wheels;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::ci::tool;
use crate::program::{self, cargo, output, program as command};
use crate::report::{Outcome, Report};
use crate::workspace::Workspace;
use crate::{header, licences, packages, toolchains};

type Step = fn(&Workspace) -> Result<Outcome>;

const STEPS: &[(&str, Step)] = &[
    ("changelog", changelog),
    ("licences", licences::check),
    ("deny", |workspace| tool(workspace.root(), &["deny", "check"])),
    ("header", |workspace| header::check(workspace.root())),
    ("msrv", toolchains::msrv_check),
    ("semver", semver),
    ("publish", packages::published_dry),
    ("install", packages::installed),
    ("static", |workspace| binaries::linked(workspace, &ALL)),
    ("image", image),
    ("wheels", |workspace| wheels::build(workspace, &ALL)),
    ("library", library),
    ("debian", debian::packaged),
];

/// The architectures of a build, and its profile of Cargo.
struct Build {
    architectures: &'static [&'static str],
    profile: &'static str,
}

const ALL: Build = Build { architectures: &["x86_64", "aarch64"], profile: "dist" };
const HERE: Build = Build { architectures: &[std::env::consts::ARCH], profile: "dev" };

/// Returns the names of its steps.
pub(crate) fn names() -> Vec<&'static str> {
    STEPS.iter().map(|(name, _)| *name).collect()
}

/// Runs the `chosen` steps, or all.
pub(crate) fn run(workspace: &Workspace, chosen: &[String], report: &mut Report) {
    for (name, step) in STEPS {
        if chosen.is_empty() || chosen.iter().any(|chosen| chosen == name) {
            report.step(name, || step(workspace));
        }
    }
    println!("\nWhat is left to a person when all is well:\n{UPLOAD}");
}

/// Runs the steps that show in some minutes that what is handed out can be built, and works.
pub(crate) fn in_ci(workspace: &Workspace, report: &mut Report) {
    report.step("static binary", || binaries::linked(workspace, &HERE));
    report.step("wheels", || wheels::build(workspace, &HERE));
}

const UPLOAD: &str = "\
- git tag --annotate vVERSION && git push --tags
- cargo publish --workspace, then the same in papers/
- hand out target/debian/*.deb and target/image (both programs, and the licences beside them) with their sums";

const COMMAND: &str = "softtimers-cli";

/// What is handed out: the folder of its workspace, its package and its program.
const PROGRAMS: [(&str, &str, &str); 2] =
    [("", COMMAND, "softtimers"), ("papers", "softtimers-papers", "softtimers-papers")];

/// Checks that all crates have one version, and that the changelog has a section for it.
fn changelog(workspace: &Workspace) -> Result<Outcome> {
    let version = &workspace.member(COMMAND).context("there is no softtimers-cli")?.version;
    let others = workspace.published().filter(|member| member.version != *version);
    let mut problems: Vec<_> =
        others.map(|member| format!("{} is {}", member.name, member.version)).collect();
    let text = fs::read_to_string(workspace.root().join("CHANGELOG.md")).context("no CHANGELOG.md")?;
    let named = text.contains(&format!("\n## [{version}] - "));
    problems.extend((!named).then(|| format!("CHANGELOG.md has no section for {version} with its date")));
    let library = fs::read_to_string(workspace.root().join("crates/capi/Cargo.toml"))?;
    let agrees = library.contains(&format!("(= {version}-1)"));
    problems
        .extend((!agrees).then(|| "the Debian packages of crates/capi are of another version".to_owned()));
    Ok(Outcome::of(problems, version.to_string()))
}

/// Checks that programs which compile with the last release still compile, by cargo-semver-checks.
///
/// # Errors
/// If git or cargo cannot be started.
pub(crate) fn semver(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root();
    if !program::works(cargo(root).args(["semver-checks", "--version"])) {
        return Ok(Outcome::skipped("cargo-semver-checks is not installed"));
    }
    let tags = output(command("git", root).args(["tag", "--list", "v*", "--sort=-version:refname"]))?;
    match tags.lines().next() {
        Some(last) => tool(root, &["semver-checks", "--workspace", "--baseline-rev", last]),
        None => Ok(Outcome::skipped("there is no earlier release to compare with")),
    }
}

/// Builds the image from the static binary, with any image tool that works here.
fn image(workspace: &Workspace) -> Result<Outcome> {
    let directory = workspace.target("image");
    if !directory.join("softtimers").is_file() {
        return Ok(Outcome::skipped("it is made of the static binary, which there is none of"));
    }
    let tools = ["buildah", "podman", "docker"];
    let there = tools.iter().find(|tool| program::works(command(tool, workspace.root()).arg("info")));
    let Some(tool) = there else {
        return Ok(Outcome::skipped(format!("none of {} works here", tools.join(", "))));
    };
    program::check(command(tool, &directory).args(["build", "--tag", "softtimers", "."]))
}

/// Builds the C library as it will be installed under `/`.
fn library(workspace: &Workspace) -> Result<Outcome> {
    let root = workspace.root();
    if !program::works(cargo(root).args(["cinstall", "--version"])) {
        return Ok(Outcome::skipped("cargo-c is not installed"));
    }
    let mut cargo = cargo(root);
    cargo.args(["cinstall", "--release", "--locked", "--manifest-path", "crates/capi/Cargo.toml"]);
    cargo.args(["--prefix", "/usr", "--libdir", &format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH)]);
    cargo.arg("--destdir").arg(workspace.target("release/root"));
    program::check(nameless(&mut cargo, workspace))
}

/// Says whether rustup has the standard library of a target.
fn has_target(workspace: &Workspace, target: &str) -> Result<bool> {
    let sysroot = output(command("rustc", workspace.root()).args(["--print", "sysroot"]))?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("lib").is_dir())
}

/// Makes the compiler write names instead of this machine's source paths, which would show in panic messages.
fn nameless<'a>(cargo: &'a mut Command, workspace: &Workspace) -> &'a mut Command {
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cargo"));
    let places = [(home.unwrap_or_default(), "cargo"), (workspace.workspace_root.to_string(), "softtimers")];
    let flags = places.map(|(place, name)| format!("--remap-path-prefix={place}={name}"));
    cargo.env("RUSTFLAGS", flags.join(" "))
}

/// Returns the licences of all third-party code that is built in: each text once, below the names of its crates.
fn notices(workspace: &Workspace) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let all = workspace.all()?;
    for name in [COMMAND, "softtimers-capi", "softtimers-papers"] {
        let found = all.iter().find_map(|one| Some((one, one.member(name)?)));
        let (workspace, member) = found.with_context(|| format!("there is no {name}"))?;
        for package in workspace.built_into(member) {
            let licence = package.license.as_deref().unwrap_or("not said");
            let who = format!("{} {}, {licence}", package.name, package.version);
            let directory = package.manifest_path.parent().context("a manifest in a directory")?;
            for text in licences_in(directory.as_std_path())? {
                let crates = texts.entry(text).or_default();
                if !crates.contains(&who) {
                    crates.push(who.clone());
                }
            }
        }
    }
    let line = "-".repeat(78);
    let part =
        |(text, who): (&String, &Vec<String>)| format!("{line}\n{}\n{line}\n\n{text}\n\n", who.join("\n"));
    let head = "What others wrote and is built into softtimers, each with the licence that its source comes with.\n\n";
    Ok(head.to_owned() + &texts.iter().map(part).collect::<String>())
}

/// Returns the texts of a crate's licences and notices.
fn licences_in(directory: &Path) -> Result<Vec<String>> {
    let mut texts = vec![];
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NOTICES.iter().any(|start| name.starts_with(start)) {
            texts.push(String::from_utf8_lossy(&fs::read(&path)?).trim().replace("\r\n", "\n"));
        }
    }
    if texts.is_empty() {
        texts.push("Its source brings no text; the licence is the one named above.".into());
    }
    Ok(texts)
}

/// The prefixes of the names of licence files.
const NOTICES: &[&str] = &["LICENSE", "LICENCE", "NOTICE", "COPYING", "COPYRIGHT", "UNLICENSE"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_are_built_in_are_named_with_their_licences() {
        let workspace = Workspace::load().unwrap();
        let text = notices(&workspace).unwrap();
        assert!(text.contains("\nclap 4") && !text.contains("\nsofttimers"), "{text}");
        assert!(text.contains("Permission is hereby granted"), "no text of a licence");
    }
}
