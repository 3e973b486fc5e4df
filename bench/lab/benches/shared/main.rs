//! Shared timers: `cargo bench --manifest-path bench/Cargo.toml --bench shared [-- threads --rounds 7 --quick --json FILE]`.
//!
//! ```text
//!   holds     how long the lock is held when very many timers fall due together
//!   threads   what two threads that set and cancel cost each other, and the owner's check with nothing due
//! ```
#![forbid(unsafe_code)]

#[expect(dead_code, reason = "the bench of timers needs all of it")]
#[path = "../timers/contender.rs"]
mod contender;
#[path = "../timers/contenders/heap4.rs"]
mod heap4;
mod holds;
#[path = "../timers/contenders/slots.rs"]
mod slots;
mod threads;

use std::process::ExitCode;

use softtimers_lab::bench::{self, Section};

const SECTIONS: [Section<usize>; 2] = [("holds", holds::holds), ("threads", threads::threads)];

fn main() -> ExitCode {
    bench::main("shared", &SECTIONS, |asked| Ok(asked.rounds()))
}
