//! softtimers-tokio and tokio's own timers compared: `cargo bench --manifest-path bench/Cargo.toml --bench tokio_timers [-- --quick
//! idle busy …]`.
//!
//! Both take turns in one process, on a single-threaded runtime except for `grid`, `loaded` and `slack`, and each figure is the
//! median over the rounds.
//!
//! ```text
//!   idle      sleep(100 µs) when nothing else happens: how late
//!   busy      the same beside tasks that are polled all the time, wrapped or not
//!   interval  a tick every 40 µs: how many came, how many of them back to back
//!   staggered 50 intervals of 1 ms, 20 µs apart: CPU time and wake-ups
//!   resets    100,000 pending sleeps, one of them reset at random: ns each
//!   pending   10,000 sleeps that wait: CPU time
//!   creation  a sleep made, polled and dropped; a time-out of what is ready; a reset to now and a constant
//!   grid      100 to 10,000 tasks that tick, on one worker and two: rate, lateness, CPU time and wake-ups
//!   loaded    the same beside tasks that are always ready
//!   slack     what slack saves, at three densities
//!   calls     futexes, waits and settimes a tick, counted by `perf` if there is one
//! ```
#![forbid(unsafe_code)]

mod calls;
mod cpu;
mod creation;
mod grid;
mod lateness;
mod resets;

use std::future::Future;
use std::process::ExitCode;

use softtimers_lab::bench::{self, Done, Section};
use softtimers_trials::paired::{Measured, Paired, Round};
use softtimers_trials::result::Table;
use tokio::runtime::Builder;

const SECTIONS: [Section<usize>; 11] = [
    ("idle", lateness::idle),
    ("busy", lateness::busy),
    ("interval", lateness::interval),
    ("staggered", cpu::staggered),
    ("resets", resets::random),
    ("pending", cpu::pending),
    ("creation", creation::creation),
    ("grid", grid::grid),
    ("loaded", grid::loaded),
    ("slack", grid::slack),
    ("calls", calls::calls),
];

fn main() -> ExitCode {
    bench::main("tokio_timers", &SECTIONS, |asked| Ok(asked.rounds()))
}

/// The timers that are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timers {
    Soft,
    Tokio,
}

impl Timers {
    async fn sleep_until(self, deadline: tokio::time::Instant) {
        match self {
            Timers::Soft => softtimers_tokio::sleep_until(deadline).await,
            Timers::Tokio => tokio::time::sleep_until(deadline).await,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Timers::Soft => SOFT,
            Timers::Tokio => "tokio",
        }
    }
}

const SOFT: &str = "softtimers-tokio";
const BOTH: [Timers; 2] = [Timers::Soft, Timers::Tokio];

/// Runs it on its own runtime, with a trigger state at each park.
fn run<R>(test: impl Future<Output = R>) -> R {
    let mut builder = Builder::new_current_thread();
    let runtime = softtimers_tokio::trigger_at_park(&mut builder).enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// Runs rounds of both in turn under each setting.
fn take<S>(rounds: usize, settings: &[S], mut of: impl FnMut(&S, Timers, &mut Round)) -> Done<Measured> {
    Paired::new(rounds).as_a_whole().contest(settings, &mut BOTH.clone(), |setting, timers, round| {
        of(setting, *timers, round);
        Done::Ok(())
    })
}

/// Returns the table of both.
fn table(key: &str, measured: &Measured, columns: &[(&str, usize)]) -> Table {
    Table::of(key, measured, BOTH.map(Timers::name), columns)
}
