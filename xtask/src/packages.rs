//! The crates as users get them: described, packaged, installed without other tools.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::program::{self, cargo, must, output, program as command};
use crate::report::Outcome;
use crate::workspace::Workspace;

/// Checks that each crate has the metadata that a registry shows, and can be packaged.
///
/// # Errors
/// If cargo cannot be started.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    if workspace.published().next().is_none() {
        return Ok(Outcome::passed("none is published"));
    }
    let mut problems = vec![];
    let mut package = cargo(workspace.root());
    package.args(["package", "--quiet", "--allow-dirty"]);
    // Crates of papers are resolved with those of the product, which a registry has to have first.
    package.arg(if workspace.member("softtimers-papers").is_some() { "--list" } else { "--no-verify" });
    for member in workspace.published() {
        package.args(["--package", member.name.as_str()]);
        let is_known = [
            (member.description.is_some(), "description"),
            (member.license.is_some(), "license"),
            (member.readme.is_some(), "readme"),
            ((1..=5).contains(&member.keywords.len()), "keywords"),
            ((1..=5).contains(&member.categories.len()), "categories"),
            (member.manifest_path.with_file_name("LICENSE-MIT").is_file(), "LICENSE-MIT beside it"),
        ];
        let lacking = is_known.into_iter().filter(|(is, _)| !is);
        problems.extend(lacking.map(|(_, what)| format!("{} has no {what}", member.name)));
    }
    if let Outcome::Failed(found) = program::check(&mut package)? {
        problems.extend(found);
    }
    Ok(Outcome::of(problems, format!("{} crates", workspace.published().count())))
}

/// Runs the registry client's publishing of everything, without the upload: each package is built from the files to
/// upload. A tree with uncommitted changes is refused, as in a real upload.
///
/// # Errors
/// If cargo cannot be started, or the build of an earlier run cannot be removed.
pub(crate) fn published_dry(workspace: &Workspace) -> Result<Outcome> {
    // Cargo treats a version of a registry's package as immutable: an earlier run's crates would be linked.
    let built = workspace.target("publish");
    if built.exists() {
        fs::remove_dir_all(&built)?;
    }
    let mut cargo = cargo(workspace.root());
    cargo.args(["publish", "--workspace", "--dry-run", "--locked"]);
    program::check(cargo.arg("--target-dir").arg(built))
}

/// Runs `cargo install --path crates/cli` with a compiler, a linker, and no other program: no clang, no pkg-config.
///
/// # Errors
/// If a program cannot be started, or does not do what it should.
pub(crate) fn installed(workspace: &Workspace) -> Result<Outcome> {
    let place = workspace.target("install");
    let path = place.join("path");
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir_all(&path)?;
    for tool in TOOLS {
        symlink(found(tool).with_context(|| format!("`{tool}` is not in PATH"))?, path.join(tool))?;
    }
    let mut install = command(path.join("cargo"), workspace.root());
    install
        .args(["install", "--debug", "--locked", "--no-track", "--path", "crates/cli", "--root"])
        .arg(&place);
    must(install.env("PATH", &path))?;
    let says = output(command(place.join("bin/softtimers"), &place).arg("--version"))?;
    ensure!(says.starts_with("softtimers "), "it says {says}");
    Ok(Outcome::passed(format!("PATH has {} alone", TOOLS.join(", "))))
}

/// The programs that Rust needs to build a program.
const TOOLS: &[&str] = &["cargo", "rustc", "cc", "ld", "as"];

/// Finds a program by PATH.
fn found(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(tool)).find(|file| file.is_file())
}
