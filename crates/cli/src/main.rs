//! The command `softtimers`. It is a program; programs use the crates it is made of.
//!
//! ```text
//!   commands/NAME/args ──▶ run ──▶ commands/NAME/{run, show} ──▶ run/output
//!   typed and meant        begun   done and told                 table or JSON, assertions, exit code
//! ```
//!
//! What commands do is in libraries: `softtimers-load` sends and receives, `softtimers-forward` passes on,
//! `softtimers-measure` watches the machine meanwhile. Here are the command line, [one lifecycle](run) of every run, the
//! commands that nobody else needs, and the [report] of everything.
#![forbid(unsafe_code)]

mod address;
mod args;
mod commands;
mod file;
#[cfg(any(test, fuzzing))]
pub mod properties;
mod report;
mod run;
mod withheld;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::run(std::env::args_os())
}
