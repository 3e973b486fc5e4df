//! `cargo xtask c-library PREFIX`: the library for C, built and put where `pkg-config` finds it.
//!
//! ```text
//!   PREFIX/include/softtimers.h
//!   PREFIX/lib/libsofttimers.a
//!   PREFIX/lib/libsofttimers.so ─▶ libsofttimers.so.0 ─▶ libsofttimers.so.0.1.0
//!   PREFIX/lib/pkgconfig/softtimers.pc
//! ```
//!
//! With `--destdir DIR` they are put under `DIR/PREFIX`, as packages want it: the paths inside stay PREFIX.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::program::{self, cargo};
use crate::report::Outcome;
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
        _ => bail!("usage: cargo xtask c-library PREFIX [--destdir DIR]"),
    };
    let relative =
        prefix.strip_prefix('/').with_context(|| format!("`{prefix}`: an absolute path is needed"))?;
    let workspace = Workspace::load()?;
    let to = under.map_or_else(|| PathBuf::from(prefix), |directory| Path::new(directory).join(relative));
    let root = workspace.root();
    if let failed @ Outcome::Failed(_) =
        program::check(cargo(root).args(["build", "--release", "--package", PACKAGE]))?
    {
        bail!("{failed:?}");
    }
    let version =
        workspace.members().find(|member| member.name == PACKAGE).map(|member| member.version.clone());
    let version = version.with_context(|| format!("there is no {PACKAGE}"))?;
    let template = fs::read_to_string(root.join(TEMPLATE)).with_context(|| format!("no {TEMPLATE}"))?;
    install(&Files {
        libraries: workspace.target_directory.join("release"),
        header: root.join(HEADER),
        description: described(&template, prefix, &version)?,
        version,
        to,
    })?;
    Ok(true)
}

struct Files {
    libraries: PathBuf,
    header: PathBuf,
    description: String,
    version: String,
    to: PathBuf,
}

fn install(files: &Files) -> Result<()> {
    let Files { libraries, header, description, version, to } = files;
    let (include, lib) = (to.join("include"), to.join("lib"));
    for directory in [&include, &lib.join("pkgconfig")] {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    let full = format!("libsofttimers.so.{version}");
    copy(header, &include.join("softtimers.h"))?;
    copy(&libraries.join("libsofttimers_capi.a"), &lib.join("libsofttimers.a"))?;
    copy(&libraries.join("libsofttimers_capi.so"), &lib.join(&full))?;
    // As build.rs of the package names it inside.
    let major = format!("libsofttimers.so.{}", version.split('.').next().unwrap_or("0"));
    link(&full, &lib.join(&major))?;
    link(&major, &lib.join("libsofttimers.so"))?;
    let place = lib.join("pkgconfig/softtimers.pc");
    fs::write(&place, description).with_context(|| format!("cannot write {}", place.display()))?;
    println!("{}", to.display());
    Ok(())
}

fn described(template: &str, prefix: &str, version: &str) -> Result<String> {
    let description =
        template.replace("@PREFIX@", prefix.trim_end_matches('/')).replace("@VERSION@", version);
    ensure!(!description.contains('@'), "{TEMPLATE} has a place that nobody fills");
    Ok(description)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn link(target: &str, name: &Path) -> Result<()> {
    if name.is_symlink() {
        fs::remove_file(name).with_context(|| format!("cannot replace {}", name.display()))?;
    }
    symlink(target, name).with_context(|| format!("cannot make {}", name.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_its_prefix_and_version() {
        let template = include_str!("../../crates/capi/softtimers.pc.in");
        let description = described(template, "/usr/local/", "1.2.3").unwrap();
        assert!(description.starts_with("prefix=/usr/local\n") && description.contains("\nVersion: 1.2.3\n"));
        assert!(described("@OTHER@", "/usr", "1").is_err());
    }

    #[test]
    fn a_prefix_is_an_absolute_path() {
        for arguments in [&[][..], &["here"], &["/a", "--destdir"], &["/a", "/b", "/c"]] {
            let arguments: Vec<String> = arguments.iter().map(|&argument| argument.into()).collect();
            assert!(run(&arguments).is_err(), "{arguments:?}");
        }
    }
}
