//! Why figures are not fit for comparison: [`Reason`].

use serde::Serialize;

/// A reason for which figures are unfit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reason {
    /// The source of the run.
    pub source: &'static str,
    /// The trial that it concerns; empty for all of the run.
    pub trial: String,
    /// The disturbance, as a part of a sentence.
    pub what: String,
    /// Whether the only reason is short trials, as with `--quick`.
    pub short: bool,
}

impl Reason {
    /// Returns the label of a figure that it concerns.
    pub fn label(&self) -> &'static str {
        if self.short { "short run" } else { "not fit" }
    }

    /// Returns the trial and the disturbance in one line.
    pub fn line(&self) -> String {
        match self.trial.as_str() {
            "" => self.what.clone(),
            trial => format!("{trial}: {}", self.what),
        }
    }
}
