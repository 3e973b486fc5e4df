//! **The papers on a simulated machine.** The production policies of `softtimers_core` run on a machine
//! with documented costs, so that you can reproduce a table of 1997 and change one of its parameters.
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
//! This crate contains no policy: the decisions are made by the code that programs on Linux use. It reads no
//! clock either: it does not depend on the crate that does. With the same seed everything repeats bit for
//! bit, on any machine.
//!
//! [`experiments::ALL`] lists the experiments. You can write your own [`Experiment`], with the same sweeps,
//! seeds, tables and CSV, and run your own receive policy on HIP's machine with [`receive`]: see the examples
//! `own_experiment` and `own_policy`. Take an experiment, set its [`Parameters`], and run it, or [`Sweep`]
//! over some of them:
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

mod choice;
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

pub use choice::Choice;
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
