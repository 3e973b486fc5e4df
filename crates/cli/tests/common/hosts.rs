//! Network namespaces by `ip`, which stand for hosts.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::process::Command;

/// `ip` with these arguments.
pub fn ip(words: &[&str]) -> Result<(), String> {
    run("ip", words)
}

/// A program's success, or what it says instead.
pub fn run(program: &str, words: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(words).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
