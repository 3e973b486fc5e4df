//! The BPF objects of `crates/bpf/object`, which the crate includes so that building it needs no clang: checks that
//! they match their sources.
//!
//! Another version of clang gives another result, so only the one that made an object can check it. Each object names
//! its version; its paths are relative to the crate, so the location of the crate does not matter.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::program::{self, program as command};
use crate::report::Outcome;

const CRATE: &str = "crates/bpf";

/// `c/NAME.bpf.c` becomes `object/NAME.bpf.o`.
const NAMES: &[&str] = &["batch", "flight", "forward", "pace", "probe", "softtimer", "tcp", "timer"];

/// Compiles the objects.
///
/// # Errors
/// If clang is missing or refuses.
pub(crate) fn write(root: &Path) -> Result<Outcome> {
    NAMES.iter().try_for_each(|name| compile(root, name, &format!("object/{name}.bpf.o")))?;
    Ok(Outcome::passed(format!("wrote {} objects of {CRATE}", NAMES.len())))
}

/// Checks that clang makes the committed objects from the sources.
///
/// # Errors
/// If clang refuses, or a file cannot be read.
pub(crate) fn check(root: &Path) -> Result<Outcome> {
    let Ok(version) = program::output(command("clang", root).arg("--version")) else {
        return Ok(Outcome::skipped("clang is not installed"));
    };
    let version = version.lines().next().unwrap_or_default().trim();
    let made = std::env::temp_dir().join(format!("softtimers-{}.bpf.o", std::process::id()));
    let mut problems = vec![];
    for name in NAMES {
        let path = format!("{CRATE}/object/{name}.bpf.o");
        let committed = fs::read(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
        if !committed.windows(version.len()).any(|window| window == version.as_bytes()) {
            return Ok(Outcome::skipped(format!("{path} is not by {version}, which is here")));
        }
        compile(root, name, &made.to_string_lossy())?;
        if fs::read(&made)? != committed {
            problems.push(format!("{path} is not what its source compiles to; run `cargo xtask objects`"));
        }
        fs::remove_file(&made)?;
    }
    Ok(Outcome::of(problems, format!("{} objects, by {version}", NAMES.len())))
}

fn compile(root: &Path, name: &str, to: &str) -> Result<()> {
    let directory = root.join(CRATE);
    let mut clang = command("clang", &directory);
    clang.args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-Iinclude"]);
    clang.arg(format!("-ffile-prefix-map={}=.", directory.display()));
    program::output(clang.args(["-c", &format!("c/{name}.bpf.c"), "-o", to])).map(drop)
}
