//! Contests: what the benches of this folder and of `papers/` share. Never published.
//!
//! ```text
//!   bench: arguments, sections ──▶ trials: contenders in turn, bars, result files
//!          └ turns, events: several timers in turns of 10 ms, in one process
//! ```
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

pub mod bench;
pub mod events;
pub mod turns;
