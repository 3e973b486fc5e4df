//! The BPF objects of `crates/bpf/object`, which the crate carries so that building it needs no clang: whether they are what
//! their sources compile to.
//!
//! Another version of clang compiles to something else, so only the one that made an object can judge it. Each object
//! names its own; paths in it are relative to the crate, whose place then does not matter.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::program::{self, program as command};
use crate::report::Outcome;

const CRATE: &str = "crates/bpf";

/// `c/NAME.bpf.c` becomes `object/NAME.bpf.o`.
const NAMES: &[&str] = &["batch", "probe", "softtimer", "timer"];

/// `cargo xtask objects`: compiles them anew.
///
/// # Errors
/// If an argument is given, or clang is missing or refuses.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    if let Some(argument) = arguments.first() {
        bail!("no argument `{argument}`; {}", crate::usage_of("objects"));
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(CRATE);
    for name in NAMES {
        compile(&directory, name, &directory.join(object(name)))?;
        println!("wrote {CRATE}/{}", object(name));
    }
    Ok(true)
}

/// Whether the committed objects are what clang makes of the sources.
///
/// # Errors
/// If clang refuses, or a file cannot be read.
pub(crate) fn check(root: &Path) -> Result<Outcome> {
    let directory = root.join(CRATE);
    let Ok(version) = program::output(command("clang", root).arg("--version")) else {
        return Ok(Outcome::skipped("clang is not installed"));
    };
    let version = version.lines().next().unwrap_or_default().trim();
    let mut problems = vec![];
    for name in NAMES {
        let path = directory.join(object(name));
        let committed = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        if !contains(&committed, version.as_bytes()) {
            return Ok(Outcome::skipped(format!("{} is not by {version}, which is here", object(name))));
        }
        let made = std::env::temp_dir().join(format!("{name}-{}.bpf.o", std::process::id()));
        compile(&directory, name, &made)?;
        let fresh = fs::read(&made);
        let _ = fs::remove_file(&made);
        if fresh? != committed {
            problems.push(format!(
                "{CRATE}/{} is not what its source compiles to; run `cargo xtask objects`",
                object(name)
            ));
        }
    }
    Ok(Outcome::of(problems, format!("{} objects, by {version}", NAMES.len())))
}

fn object(name: &str) -> String {
    format!("object/{name}.bpf.o")
}

fn compile(directory: &Path, name: &str, to: &Path) -> Result<()> {
    let mut clang = command("clang", directory);
    clang.args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-Iinclude"]);
    clang.arg(format!("-ffile-prefix-map={}=.", directory.display()));
    clang.args(["-c", &format!("c/{name}.bpf.c"), "-o"]).arg(to);
    program::output(&mut clang).map(drop)
}

fn contains(bytes: &[u8], words: &[u8]) -> bool {
    !words.is_empty() && bytes.windows(words.len()).any(|window| window == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_names_its_compiler() {
        assert!(contains(b"\0clang version 14\0", b"clang version 14"));
        assert!(!contains(b"\0clang version 14\0", b"clang version 15") && !contains(b"x", b""));
    }
}
