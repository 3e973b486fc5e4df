//! Runs other programs: cargo, git, rustup.
//!
//! Their output goes directly to ours, without colours, and they get no standard input: a check that waits for an
//! answer would wait for ever in CI.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::report::Outcome;

/// Returns `program` in `directory`, without standard input.
pub(crate) fn program(program: impl AsRef<OsStr>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).stdin(Stdio::null()).env("CARGO_TERM_COLOR", "never");
    command
}

/// Returns the cargo that runs us.
pub(crate) fn cargo(directory: &Path) -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), directory)
}

/// Returns the cargo of another toolchain, by rustup.
pub(crate) fn cargo_of(toolchain: &str, directory: &Path) -> Command {
    let mut command = program("rustup", directory);
    command.args(["run", toolchain, "cargo"]);
    // Set by the cargo that runs us; they would lead the other one back to this toolchain's compiler.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// Returns `command` as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(name).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Runs `command`: passed if it exits 0.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn check(command: &mut Command) -> Result<Outcome> {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    Ok(if status.success() {
        Outcome::passed("")
    } else {
        Outcome::failed(format!("`{shown}` ended with {status}"))
    })
}

/// Runs `command`, which must succeed.
///
/// # Errors
/// If it cannot be started, or fails.
pub(crate) fn must(command: &mut Command) -> Result<()> {
    match check(command)? {
        Outcome::Failed(problems) => bail!("{}", problems.join("; ")),
        Outcome::Passed(_) | Outcome::Skipped(_) => Ok(()),
    }
}

/// Runs `command`, and returns its standard output.
///
/// # Errors
/// If it cannot be started, fails, or writes something that is not text.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command.stderr(Stdio::piped()).output();
    let output = output.with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        let talk = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` ended with {}: {}", output.status, talk.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` writes something that is not text"))
}

/// Says whether `command` starts and exits 0; its output is discarded.
pub(crate) fn works(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
