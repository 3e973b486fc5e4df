//! Trials: contenders measured in turn, what that proves, and the files that keep it. Never published.
//!
//! ```text
//!   paired: contenders in turn ──▶ bar: met or missed ──▶ result: tables, a file
//!          └ command: the built programs
//! ```
//!
//! A bench's arguments and sections are in `bench/contest`.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

pub mod bar;
pub mod command;
pub mod cpu;
pub mod paired;
pub mod random;
pub mod result;
