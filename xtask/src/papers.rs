//! `cargo xtask papers`: the parts of `docs/papers.md` that the simulator knows, written anew.
//!
//! Which figures have a mark, the constants that were chosen, and how far the model is from each published series: a test
//! of `softtimers-sim` renders them from the list of constants and the kept tables, and fails while the page says something else.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// `cargo xtask papers [--check]`.
///
/// # Errors
/// If the simulator's test cannot be started.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let mut command = Command::new("cargo");
    command.args(["test", "--package", "softtimers-sim", "--test", "papers"]);
    match arguments {
        [] => command.env("BLESS", "1"),
        [flag] if flag == "--check" => command.env_remove("BLESS"),
        _ => bail!(crate::usage_of("papers")),
    };
    Ok(command.status().context("cargo cannot be started")?.success())
}
