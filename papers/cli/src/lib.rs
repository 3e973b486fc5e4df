//! The command `softtimers-papers`, as a library with one function: [`main`], for a program with experiments of its own.
//!
//! `softtimers` runs it for `sim`, `noise`, `probe` and `report`, with the same words; so it speaks as `softtimers`.
//! `softtimers-run` has the life of a run, `softtimers-sim` the experiments; this crate has the command line of these four.
#![forbid(unsafe_code)]

mod commands;
#[cfg(any(test, fuzzing))]
pub mod properties;
mod report;

use std::process::ExitCode;

use softtimers_run::program;
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
///     softtimers_papers::main(&experiments)
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
