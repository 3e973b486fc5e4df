//! softtimers-tokio and tokio's own timers compared: `cargo bench --manifest-path bench/Cargo.toml --bench tokio_timers [-- --quick
//! creation grid …]`.
//!
//! Both take turns in one process, on a single-threaded runtime except for `grid`, `loaded` and `slack`, and each figure is the
//! median over the rounds.
//!
//! ```text
//!   creation  a sleep made, polled and dropped; a time-out of what is ready; a reset to now and a constant
//!   grid      100 to 10,000 tasks that tick, on one worker and two: rate, lateness, CPU time and wake-ups
//!   loaded    the same beside tasks that are always ready
//!   slack     what slack saves, at three densities
//! ```
#![forbid(unsafe_code)]

mod creation;
mod grid;

use std::process::ExitCode;

use softtimers_lab::bench::{self, Section};
use softtimers_trials::paired::Measured;
use softtimers_trials::result::Table;

const SECTIONS: [Section<usize>; 4] = [
    ("creation", creation::creation),
    ("grid", grid::grid),
    ("loaded", grid::loaded),
    ("slack", grid::slack),
];

fn main() -> ExitCode {
    bench::main("tokio_timers", &SECTIONS, |asked| Ok(asked.rounds()))
}

const SOFT: &str = "softtimers-tokio";
const TOKIO: &str = "tokio";

/// Returns the table of both.
fn table(key: &str, measured: &Measured, columns: &[(&str, usize)]) -> Table {
    Table::of(key, measured, [SOFT, TOKIO], columns)
}
