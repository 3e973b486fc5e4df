//! **The papers on a simulated machine.** The policies that run in production, `softtimers_core`'s, under a machine
//! whose costs are written down, so that a table of 1997 can be made again, and a parameter of it changed.
//!
//! ```text
//!   experiments ── Experiment: parameters, columns ──▶ Sweep ── points, on all CPUs ──▶ rows, in order ──▶ csv
//!       │ run(parameters, streams, steps)
//!       ▼
//!   engine ── events by time ──▶ CPU, devices, arrivals ──▶ core::poll, core::pace, SoftTimers
//!       ▲
//!   constants ── what the machines are made of, each with its source
//! ```
//!
//! No policy is written here: what decides is what a program on Linux links. No clock is read either: this crate
//! cannot see the one that does. For a seed everything repeats bit for bit, on any machine.
//!
//! [`experiments::ALL`] has the experiments. One of yours is an [`Experiment`] of yours, with the same sweeps, seeds, tables and
//! CSV; a receive policy of yours runs on HIP's machine by [`receive`]. The crate's examples `own_experiment` and `own_policy`
//! are both. Take one, set its [`Parameters`], and run it, or [`Sweep`] over some of
//! them:
//!
//! ```
//! use softtimers_sim::{Parameters, Setting, Steps, Streams, experiments};
//!
//! let slowstart = experiments::find("slowstart").expect("it is in the list");
//! let parameters = Parameters::new(slowstart.parameters).with("packets", Setting::Count(5));
//! let rows = (slowstart.run)(&parameters, Streams::new(1), &Steps::unwatched())?;
//! assert_eq!(rows[0].len(), slowstart.columns.len());
//! # Ok::<(), softtimers_sim::RunError>(())
//! ```
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

pub mod constants;
pub mod csv;
mod engine;
mod experiment;
pub mod experiments;
pub mod machine;
mod parameter;
mod receive;
mod recording;
#[cfg(test)]
mod sensitivity;
mod setting;
mod steady;
mod sweep;
mod table;
mod typed;

pub use engine::{Engine, Steps, Streams, Watch};
pub use experiment::{ALWAYS, Experiment, RunError};
#[doc(no_inline)]
pub use experiments::{callout, noise};
pub use parameter::{Need, Parameter, Parameters};
pub use receive::{Received, receive};
pub use recording::{Hashed, Recording, Sha256};
pub use setting::{Kind, Setting};
pub use steady::mser_5;
pub use sweep::{Axis, Part, PointError, PointRows, Precision, Runs, Sweep};
pub use table::{Cells, Column, Mean, Row, Value};
pub use typed::Typed;
