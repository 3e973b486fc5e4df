//! What an experiment is, and all that there are.
//!
//! An experiment is a file: what can be set, what it finds, and a function from the one to the other. To add one, write
//! the file and put it into [`ALL`]; the command's flags, its help, sweeps, parts, tables, CSV and JSON follow.

use std::fmt;

use crate::parameter::{Parameter, Parameters};
use crate::streams::Streams;
use crate::table::{Column, Row};
use crate::watch::Steps;
use crate::{acks, callout, deadline, framerate, hip, livelock, noise, pacing, polling, slowstart};

/// A paper's experiment on a simulated machine.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows and of which paper, in one line.
    pub about: &'static str,
    /// More about it, for the help: the model in a paragraph.
    pub details: &'static str,
    /// What can be set, with the paper's values.
    pub parameters: &'static [Parameter],
    /// What it finds: the paper's columns.
    pub columns: &'static [Column],
    /// What is swept if nothing else is asked for: a parameter and its values. They make the paper's table.
    pub sweep: &'static [(&'static str, &'static str)],
    /// When parameters mean anything, for those that do not always.
    pub needs: &'static [Need],
    /// Whether there is such a run, without making it: the same answer as from `run`, before anything is printed.
    pub check: fn(&Parameters) -> Result<(), RunError>,
    /// One run: at least one row, each with a value for each column. The same parameters and seed, the same rows.
    /// What may take longer than a second asks [`Steps`] whether to go on.
    pub run: fn(&Parameters, Streams, &Steps) -> Result<Vec<Row>, RunError>,
}

/// Parameters that only some runs use. [`Sweep::check`](crate::Sweep::check) refuses one that was set for runs that do not
/// use it: its value would change nothing.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// The parameters.
    pub of: &'static [&'static str],
    /// When they are used, as in "used with …".
    pub with: &'static str,
    /// The same of a run.
    pub met: fn(&Parameters) -> bool,
}

/// Of an experiment whose parameters are possible in every combination.
pub(crate) const ALWAYS: fn(&Parameters) -> Result<(), RunError> = |_| Ok(());

/// All experiments, in the order of the help.
pub static ALL: &[&Experiment] = &[
    &hip::HIP,
    &hip::HIP_TRACES,
    &livelock::LIVELOCK,
    &livelock::MLFRR,
    &livelock::FIGURES,
    &livelock::BURST,
    &livelock::MONITOR,
    &pacing::PACING,
    &acks::ACKS,
    &deadline::DEADLINE,
    &slowstart::SLOWSTART,
    &polling::POLLING,
    &framerate::FRAMERATE,
    &noise::NOISE,
    &callout::CALLOUT,
];

/// The one of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().copied().find(|experiment| experiment.name == name)
}

/// Parameters that are each possible and not together, or a run that cannot be made with them: what it was given, and
/// what is allowed, in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunError(String);

impl RunError {
    /// Says why.
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
