//! `noise`: a computation of 1 ms, over and over. How long it takes, what was in its way, and what that does to a job
//! whose phases last as long as the slowest of many nodes (Tsafrir, Etsion, Feitelson 2005, §2.2).
//!
//! ```text
//!   ▓▓▓▓▓▓▓▓│·│▓▓▓▓▓▓▓▓│·│▓▓▓▓i▓▓▓▓▓│·│▓▓▓▓▓▓▓▓│        ▓ a phase, calibrated   i an interrupt
//!     1 ms      1 ms       1.07 ms      1 ms           · the kernel's counters are read
//! ```
//!
//! Each phase is timed alone and stands beside what the kernel counted in it, so that a long one has a cause. What a
//! job of n nodes comes to is `softtimers_sim`'s, of the phases that were measured.

mod account;
pub(crate) mod args;
mod measured;
mod rates;
mod run;
mod show;
mod work;
