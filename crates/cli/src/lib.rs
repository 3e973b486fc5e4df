//! The command `softtimers`, as a library with one function: [`main`], for a program with experiments of its own.
//!
//! ```text
//!   commands/NAME/args ──▶ run ──▶ commands/NAME/{run, show} ──▶ run::output
//!   parsed                 begun   done and shown                table or JSON, assertions, exit code
//! ```
//!
//! Libraries do the work: `softtimers-load` sends and receives, `softtimers-forward` forwards, `softtimers-measure`
//! watches the machine, and `softtimers-run` has the lifecycle shared by all runs. This crate has the command line, the
//! commands that no other crate needs, and the report of everything (`report`).
#![forbid(unsafe_code)]

mod address;
mod args;
mod commands;
#[cfg(any(test, fuzzing))]
pub mod properties;
mod report;
mod withheld;

use std::process::ExitCode;

use softtimers_run::{self as run, file, program};
use softtimers_sim::Experiment;

use commands::sim::registry;

/// Runs the command with these experiments under `softtimers sim`, and returns its exit code.
///
/// A program with an experiment of its own includes the whole command: flags, help, manual page, sweeps, seeds, tables,
/// CSV and JSON follow from the [`Experiment`], as for the papers' experiments. See the crate's example `own_command`.
///
/// ```no_run
/// # static MINE: softtimers_sim::Experiment = softtimers_sim::Experiment { name: "mine", about: "", details: "", parameters: &[],
/// #     columns: &[], sweep: &[], check: softtimers_sim::ALWAYS, run: |_, _, _| Ok(vec![]) };
/// fn main() -> std::process::ExitCode {
///     let mut experiments = softtimers_sim::experiments::ALL.to_vec();
///     experiments.push(&MINE);
///     softtimers_cli::main(&experiments)
/// }
/// ```
///
/// The first call decides for the process. If two experiments have the same name, or a parameter has the name of a
/// common flag, it prints an error and returns the exit code of a usage error.
pub fn main(experiments: &[&'static Experiment]) -> ExitCode {
    match registry::register(experiments) {
        Ok(()) => commands::run(std::env::args_os()),
        Err(failure) => program::failed(&failure),
    }
}
