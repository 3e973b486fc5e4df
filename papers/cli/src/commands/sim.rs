//! `softtimers sim`: the papers' experiments on a simulated machine.
//!
//! `softtimers_sim` has the experiments, their parameters and sweeps; this module has the flags and the output. Rows
//! are printed as lines as soon as their point and all points before it are finished, so that a run that breaks off,
//! for a full disk or an impossible point, has printed all of its results until then.

pub(crate) mod args;
mod build;
mod common;
pub(crate) mod machine;
mod merge;
pub(crate) mod registry;
mod run;
pub(crate) mod setting;
mod show;

pub(crate) use args::SimArgs;
pub(crate) use run::run;
pub(crate) use show::SimReport;
