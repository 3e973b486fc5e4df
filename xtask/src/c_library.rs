//! `cargo xtask c-library PREFIX`: the library for C, built and put where `pkg-config` finds it.
//!
//! ```text
//!   PREFIX/include/softtimers.h
//!   PREFIX/lib/libsofttimers.a
//!   PREFIX/lib/libsofttimers.so ─▶ libsofttimers.so.0.1 ─▶ libsofttimers.so.0.1.0
//!   PREFIX/lib/pkgconfig/softtimers.pc
//! ```
//!
//! With `--destdir DIR` they are put under `DIR/PREFIX`, as packages want it: the paths inside stay PREFIX.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::program::{self, Profile};
use crate::shipped;
use crate::workspace::Workspace;

const PACKAGE: &str = "softtimers-capi";
const HEADER: &str = "crates/capi/include/softtimers.h";
const TEMPLATE: &str = "crates/capi/softtimers.pc.in";

/// `cargo xtask c-library PREFIX [--destdir DIR]`.
///
/// # Errors
/// If PREFIX is missing or no absolute path, the library cannot be built, or a file not be written.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let (prefix, under) = match arguments {
        [prefix] => (prefix, None),
        [prefix, flag, directory] if flag == "--destdir" => (prefix, Some(directory)),
        _ => bail!(crate::usage_of("c-library")),
    };
    ensure!(prefix.starts_with('/'), "`{prefix}`: an absolute path is needed");
    let under = under.map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let place = Place { prefix, library: "lib", under: &under };
    let files = put(&Workspace::load()?, Profile::Release, &place)?;
    for file in &files {
        println!("{}", file.display());
    }
    if program::works(program::program("strip", Path::new("/")).arg("--version")) {
        strip(&files)?;
    } else {
        println!("not stripped, for there is no `strip`: the libraries work, and are large");
    }
    Ok(true)
}

/// Takes out of the libraries among `files` what only a debugger reads, nine tenths of them.
///
/// # Errors
/// If there is no `strip`, or it fails.
pub(crate) fn strip(files: &[PathBuf]) -> Result<()> {
    for file in files.iter().filter(|file| !file.is_symlink()) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".a") {
            shipped::strip(file, "--strip-debug")?;
        } else if name.contains(".so.") {
            shipped::strip(file, "--strip-unneeded")?;
        }
    }
    Ok(())
}

/// Where the files go.
pub(crate) struct Place<'a> {
    /// Where they will be used, an absolute path.
    pub(crate) prefix: &'a str,
    /// The libraries, seen from the prefix.
    pub(crate) library: &'a str,
    /// What stands for `/` meanwhile.
    pub(crate) under: &'a Path,
}

impl Place<'_> {
    fn to(&self, absolute: &str) -> PathBuf {
        self.under.join(absolute.trim_start_matches('/'))
    }
}

/// Builds the library, puts everything into its place, and returns each file and link.
///
/// # Errors
/// If it cannot be built, or a file not be written.
pub(crate) fn put(workspace: &Workspace, profile: Profile, place: &Place) -> Result<Vec<PathBuf>> {
    let root = workspace.root();
    let libraries = shipped::build(workspace, profile, PACKAGE, None)?;
    let version = &workspace.member(PACKAGE).with_context(|| format!("there is no {PACKAGE}"))?.version;
    let template = fs::read_to_string(root.join(TEMPLATE)).with_context(|| format!("no {TEMPLATE}"))?;
    let description = described(&template, place, version)?;

    let (include, lib) = (place.to(place.prefix).join("include"), place.to(place.prefix).join(place.library));
    for directory in [&include, &lib.join("pkgconfig")] {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    let (full, named) = (format!("libsofttimers.so.{version}"), soname(version));
    let file = lib.join("pkgconfig/softtimers.pc");
    fs::write(&file, description).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(vec![
        copy(&root.join(HEADER), include.join("softtimers.h"))?,
        copy(&libraries.join("libsofttimers_capi.a"), lib.join("libsofttimers.a"))?,
        copy(&libraries.join("libsofttimers_capi.so"), lib.join(&full))?,
        link(&full, lib.join(&named))?,
        link(&named, lib.join("libsofttimers.so"))?,
        file,
    ])
}

/// The name inside the shared library, as build.rs of the package makes it.
pub(crate) fn soname(version: &str) -> String {
    format!("libsofttimers.so.{}", promised(version))
}

/// As much of a version as has to agree: the major one, and before 1.0 the minor one too.
pub(crate) fn promised(version: &str) -> &str {
    let numbers = if version.starts_with("0.") { 2 } else { 1 };
    let end = version.match_indices('.').nth(numbers - 1).map_or(version.len(), |(at, _)| at);
    &version[..end]
}

fn described(template: &str, place: &Place, version: &str) -> Result<String> {
    let description = template
        .replace("@PREFIX@", place.prefix.trim_end_matches('/'))
        .replace("@LIBRARY@", place.library)
        .replace("@VERSION@", version);
    ensure!(!description.contains('@'), "{TEMPLATE} has a place that nobody fills");
    Ok(description)
}

fn copy(from: &Path, to: PathBuf) -> Result<PathBuf> {
    fs::copy(from, &to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(to)
}

fn link(target: &str, name: PathBuf) -> Result<PathBuf> {
    if name.is_symlink() {
        fs::remove_file(&name).with_context(|| format!("cannot replace {}", name.display()))?;
    }
    symlink(target, &name).with_context(|| format!("cannot make {}", name.display()))?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_its_prefix_and_version() {
        let template = include_str!("../../crates/capi/softtimers.pc.in");
        let place = Place { prefix: "/usr/local/", library: "lib/here", under: Path::new("/") };
        let description = described(template, &place, "1.2.3").unwrap();
        assert!(description.starts_with("prefix=/usr/local\nlibdir=${prefix}/lib/here\n"), "{description}");
        assert!(description.contains("\nVersion: 1.2.3\n"), "{description}");
        assert!(described("@OTHER@", &place, "1").is_err());
    }

    #[test]
    fn the_name_changes_when_a_version_may_break_programs() {
        let names = ["0.1.0", "0.1.9", "0.2.0", "1.0.0", "1.7.3", "12.0.1"].map(promised);
        assert_eq!(names, ["0.1", "0.1", "0.2", "1", "1", "12"]);
    }

    #[test]
    fn a_prefix_is_an_absolute_path() {
        for arguments in [&[][..], &["here"], &["/a", "--destdir"], &["/a", "/b", "/c"]] {
            let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
            assert!(run(&arguments).is_err(), "{arguments:?}");
        }
    }
}
