//! All experiments: [`ALL`]. To add one, write a file beside these and add its name in two places here.
//!
//! The subcommand with its flags and help, sweeps, parts, tables, CSV and JSON are derived from the list.

mod acks;
pub mod callout;
mod deadline;
mod framerate;
mod hip;
mod livelock;
pub mod noise;
mod pacing;
mod polling;
mod relay;
mod slow_link;
mod slowstart;
mod trigger_states;

use crate::experiment::Experiment;

#[cfg(test)]
pub(crate) use hip::traces_of;

/// All experiments, in the order of the help.
pub static ALL: &[&Experiment] = &[
    &hip::HIP,
    &hip::HIP_TRACES,
    &livelock::LIVELOCK,
    &livelock::MLFRR,
    &livelock::FIGURES,
    &livelock::FIT,
    &livelock::BURST,
    &livelock::MONITOR,
    &pacing::PACING,
    &acks::ACKS,
    &deadline::DEADLINE,
    &slowstart::SLOWSTART,
    &polling::POLLING,
    &relay::RELAY,
    &framerate::FRAMERATE,
    &noise::NOISE,
    &callout::CALLOUT,
];

/// Finds an experiment by its name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().copied().find(|experiment| experiment.name == name)
}
