//! `softtimers sim`: the papers' experiments on a simulated machine.
//!
//! `softtimers_sim` has the experiments, their parameters and sweeps; here is what people type and read.
//! Rows are printed as lines the moment their point is finished and all before it are, so that a run that breaks
//! off, for a full disk or a point that cannot be, has left everything that it found until then.

pub(crate) mod args;
mod build;
pub(crate) mod machine;
mod merge;
pub(crate) mod registry;
mod run;
pub(crate) mod setting;
mod show;

pub(crate) use args::SimArgs;
pub(crate) use run::run;
pub(crate) use show::SimReport;
