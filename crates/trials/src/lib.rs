//! Trials: contenders measured in turn, what that proves, and the files that keep it. Never published.
//!
//! ```text
//!   bench: arguments, sections ──▶ paired: contenders in turn ──▶ bar: met or missed ──▶ result: tables, a file
//!          │
//!          └ command: the built programs; turns, events: turns of 10 ms in one process
//! ```
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

pub mod bar;
pub mod bench;
pub mod command;
pub mod cpu;
#[cfg(feature = "turns")]
pub mod events;
pub mod paired;
pub mod random;
pub mod result;
#[cfg(feature = "turns")]
pub mod turns;
