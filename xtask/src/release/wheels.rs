//! The wheels of Python's packages, by maturin with zig as the linker, so that a wheel needs no newer glibc than it says.
//!
//! ```text
//!   rustup's targets here ─▶ maturin --zig ─▶ target/wheels/PROFILE ─▶ this machine's own: pip install in a new environment,
//!                                                              and a timer of 100 µs
//! ```

use std::path::Path;

use anyhow::{Context, Result};

use super::{Build, has_target, nameless};
use crate::program::{self, must, output, program as command};
use crate::report::Outcome;
use crate::workspace::Workspace;

/// Systems, and what a wheel says it runs on there.
const SYSTEMS: [(&str, &str); 2] = [("gnu", "manylinux_2_17"), ("musl", "musllinux_1_2")];
const PACKAGES: [&str; 2] = ["crates/python", "papers/python"];
/// What an installed wheel has to do.
const TRIED: &str =
    "import asyncio, softtimers.asyncio; softtimers.asyncio.run(asyncio.sleep(0.0001)); print('runs')";

/// Builds a wheel of each package for each target that rustup has, and uses the one for this machine.
pub(super) fn build(workspace: &Workspace, what: &Build) -> Result<Outcome> {
    let root = workspace.root();
    // Those of the tests, if PATH has none.
    let tools = workspace.target("tools/py/bin");
    let path = std::env::var("PATH").unwrap_or_default() + ":" + &tools.to_string_lossy();
    let tool = |name: &str| {
        let mut tool = command(name, root);
        tool.env("PATH", &path);
        tool
    };
    if !program::works(tool("maturin").arg("--version")) {
        return Ok(Outcome::skipped("maturin is not installed"));
    }
    // maturin looks for zig in PATH's Python.
    if !program::works(tool("python3").args(["-m", "ziglang", "version"])) {
        return Ok(Outcome::skipped("the Python package ziglang is not installed"));
    }
    let to = workspace.target("wheels").join(what.profile);
    let (mut built, mut lacking) = (0, vec![]);
    for architecture in what.architectures {
        for (system, says) in SYSTEMS {
            let target = format!("{architecture}-unknown-linux-{system}");
            if !has_target(workspace, &target)? {
                lacking.push(target);
                continue;
            }
            for package in PACKAGES {
                let mut maturin = tool("maturin");
                maturin.args(["build", "--profile", what.profile, "--locked", "--zig", "--target", &target]);
                maturin.args(["--compatibility", says, "--manifest-path", &format!("{package}/Cargo.toml")]);
                must(nameless(&mut maturin, workspace).arg("--out").arg(&to))?;
            }
            built += 1;
        }
    }
    let says = used(workspace, &to)?;
    let without = if lacking.is_empty() { String::new() } else { format!("; no {}", lacking.join(", ")) };
    Ok(Outcome::passed(format!("{built} targets{without}; this machine's {says}")))
}

/// Installs the wheel for this machine where nothing else is, and lets it wait for 100 µs.
fn used(workspace: &Workspace, wheels: &Path) -> Result<String> {
    let (root, environment) = (workspace.root(), workspace.target("wheels/environment"));
    must(command("python3", root).args(["-m", "venv", "--clear"]).arg(&environment))?;
    let mut pip = command(environment.join("bin/pip"), root);
    pip.args(["install", "--quiet", "--no-index", "--no-deps", "--find-links"]).arg(wheels);
    must(pip.arg("softtimers")).context("pip finds no wheel for this machine")?;
    let python = output(command(environment.join("bin/python"), wheels).args(["-I", "-c", TRIED]))?;
    Ok(python.trim().to_owned())
}
