//! `noise`: repeats a computation of 1 ms, and reports how long it takes, what delayed it, and the effect on a job
//! whose phases wait for the slowest of many nodes (Tsafrir, Etsion, Feitelson 2005, §2.2).
//!
//! ```text
//!   ▓▓▓▓▓▓▓▓│·│▓▓▓▓▓▓▓▓│·│▓▓▓▓i▓▓▓▓▓│·│▓▓▓▓▓▓▓▓│        ▓ a phase, calibrated   i an interrupt
//!     1 ms      1 ms       1.07 ms      1 ms           · the kernel's counters are read
//! ```
//!
//! Each phase is timed alone, next to the kernel's counters for it, so that a delay has a cause. `softtimers_sim`
//! computes the slowdown of a job of n nodes from the measured phases.

mod account;
pub(crate) mod args;
mod measured;
mod rates;
mod run;
mod show;
mod work;
