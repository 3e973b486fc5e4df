//! Shared timers: `cargo bench --manifest-path bench/Cargo.toml --bench shared [-- threads --rounds 7 --quick --json FILE]`.
//!
//! ```text
//!   threads   what two threads that set and cancel cost each other, and the owner's check with nothing due
//! ```
#![forbid(unsafe_code)]

#[expect(dead_code, reason = "the bench of timers needs all of it")]
#[path = "../timers/contender.rs"]
mod contender;
#[path = "../timers/contenders/heap4.rs"]
mod heap4;
#[path = "../timers/contenders/slots.rs"]
mod slots;
mod threads;

use std::process::ExitCode;

use softtimers_lab::bench::{self, Section};

const SECTIONS: [Section<usize>; 1] = [("threads", threads::threads)];

fn main() -> ExitCode {
    bench::main("shared", &SECTIONS, |asked| Ok(asked.rounds()))
}
