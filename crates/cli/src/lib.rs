//! The command `softtimers`, as a library with one function: [`main`], for a program that has experiments of its own.
//!
//! ```text
//!   commands/NAME/args ──▶ run ──▶ commands/NAME/{run, show} ──▶ run/output
//!   typed and meant        begun   done and told                 table or JSON, assertions, exit code
//! ```
//!
//! The work is done in libraries: `softtimers-load` sends and receives, `softtimers-forward` passes on,
//! `softtimers-measure` watches the machine meanwhile. Here are the command line, one lifecycle of every run (`run`), the
//! commands that nobody else needs, and the report of everything (`report`).
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

use softtimers_sim::Experiment;

use commands::sim::registry;

/// Runs the command with these experiments under `softtimers sim`, and returns its exit code.
///
/// A program that has an experiment of its own is the whole command with it: flags, help, manual page, sweeps, seeds, tables, CSV and
/// JSON follow from the [`Experiment`], as they do for the papers'. The crate's example `own_command` is such a program.
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
/// The first call decides for the process. If two experiments have one name, or a parameter has that of a flag which every experiment
/// has, it says so and returns the exit code of a usage error.
pub fn main(experiments: &[&'static Experiment]) -> ExitCode {
    match registry::register(experiments) {
        Ok(()) => commands::run(std::env::args_os()),
        Err(failure) => commands::failed(&failure),
    }
}
