//! The command `softtimers`, as a library with one function: [`main`].
//!
//! ```text
//!   commands/NAME/args ──▶ run ──▶ commands/NAME/{run, show} ──▶ run::output
//!   parsed                 begun   done and shown                table or JSON, assertions, exit code
//! ```
//!
//! Libraries do the work: `softtimers-load` sends and receives, `softtimers-measure` watches the machine, and `softtimers-run`
//! has the lifecycle shared by all runs. This crate has the command line, the forwarder, and the commands that no other
//! crate needs. `sim`, `noise`, `probe` and `report` are of the program `softtimers-papers`.
#![forbid(unsafe_code)]

mod address;
mod args;
mod commands;
mod control;
mod descriptors;
mod exposition;
mod forwarder;
mod http;
#[cfg(any(test, fuzzing))]
pub mod properties;
mod user_command;
mod withheld;

use std::process::ExitCode;

use softtimers_run::{self as run, file};

/// Runs the command with the words of this process, and returns its exit code.
pub fn main() -> ExitCode {
    commands::run(std::env::args_os())
}
