//! The description of an experiment: [`Experiment`]. The list of all is in [`experiments`](crate::experiments).

use std::fmt;

use crate::engine::{Steps, Streams};
use crate::parameter::{Parameter, Parameters};
use crate::table::{Column, Row};

/// A paper's experiment on a simulated machine: its parameters, its result columns, and a function from one
/// to the other. Flags, help, sweeps, tables, CSV and JSON are derived from it.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// One line of help: what it shows, and from which paper.
    pub about: &'static str,
    /// A paragraph of help that describes the model.
    pub details: &'static str,
    /// The parameters, with the paper's values as defaults.
    pub parameters: &'static [Parameter],
    /// The columns of the table: the paper's.
    pub columns: &'static [Column],
    /// The sweep that makes the paper's table: parameters, each with its values.
    pub sweep: &'static [(&'static str, &'static str)],
    /// Returns the error of a run that is not possible, without making the run.
    pub check: fn(&Parameters) -> Result<(), RunError>,
    /// Makes one run and returns at least one row, each with a value for each column. The same parameters and seed give
    /// the same rows. A run that may take longer than a second asks [`Steps`] whether to continue.
    pub run: fn(&Parameters, Streams, &Steps) -> Result<Vec<Row>, RunError>,
}

/// The `check` of an experiment whose parameters are valid in every combination.
pub const ALWAYS: fn(&Parameters) -> Result<(), RunError> = |_| Ok(());

/// Parameters that are valid alone but not together: says which value, and what is allowed, in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunError(String);

impl RunError {
    /// Creates an error that says which value is wrong, and what is allowed.
    pub fn new(why: impl fmt::Display) -> Self {
        RunError(why.to_string())
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunError {}
