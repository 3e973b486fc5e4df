//! **The papers on a simulated machine.** The policies that run in production, `softtimers_core`'s, under a machine
//! whose costs are written down, so that a table of 1997 can be made again, and a parameter of it changed.
//!
//! ```text
//!   Experiment ── parameters, columns ──▶ Sweep ── points, on all processors ──▶ rows, in order
//!       │ run(parameters, seed)
//!       ▼
//!   Engine ◀── events by time ──▶ a machine, devices, arrivals ──▶ core::poll, core::pace, SoftTimers
//! ```
//!
//! No policy is written here: what decides is what a program on Linux links. No clock is read either: this crate
//! cannot see the one that does. For a seed everything repeats bit for bit, on any machine.
//!
//! 1. [`Engine`]: events in order of time. [`Streams`]: random numbers by seed and name.
//! 2. [`experiment`]: what an experiment is, and [all of them](experiment::ALL). [`sweep`]: many runs.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

pub mod acks;
pub mod arrivals;
pub mod callout;
pub mod constants;
pub mod deadline;
pub mod device;
pub mod engine;
pub mod experiment;
pub mod framerate;
pub mod hip;
pub mod host;
pub mod livelock;
pub mod machine;
pub mod noise;
pub mod pacing;
pub mod parameter;
pub mod path;
pub mod polling;
pub mod slowstart;
pub mod streams;
pub mod sweep;
pub mod table;
mod watch;

#[doc(inline)]
pub use constants::Machine;
#[doc(inline)]
pub use engine::Engine;
#[doc(inline)]
pub use experiment::{Experiment, RunError};
#[doc(inline)]
pub use parameter::{Kind, Parameter, Parameters, Setting};
#[doc(inline)]
pub use streams::Streams;
#[doc(inline)]
pub use sweep::{Part, Sweep};
#[doc(inline)]
pub use table::{Column, Row, Value};
pub use watch::{Steps, Watch};
