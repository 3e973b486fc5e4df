//! softtimers-tokio beside tokio's own timers: `cargo bench -p softtimers-bench --bench tokio_timers [-- --quick
//! --idle --busy …]`.
//!
//! Each figure is taken of both in turns of one process, on a runtime of one thread, and is the median over the
//! rounds with their middle half. What is asked of a figure stands beside it.
//!
//! ```text
//!   idle      sleep(100 µs) when nothing else happens: how late
//!   busy      the same beside tasks that are polled all the time, wrapped or not
//!   interval  a tick every 40 µs: how many came, how many of them back to back
//!   staggered 50 intervals of 1 ms, 20 µs apart: CPU time and wake-ups
//!   resets    100,000 pending sleeps, one of them reset at random: ns each
//!   pending   10,000 sleeps that wait: CPU time
//! ```
#![forbid(unsafe_code)]

mod cpu;
mod lateness;
mod resets;

use std::future::Future;
use std::process::ExitCode;

use softtimers_bench::arguments;
use softtimers_bench::turns::{machine, quartiles};
use softtimers_cli::machine::Neighbours;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let Some(arguments) = arguments::of("tokio_timers") else { return ExitCode::SUCCESS };
    let asked = |name: &str| arguments.iter().any(|argument| argument.strip_prefix("--") == Some(name));
    let known = |name: &str| name == "quick" || FIGURES.iter().any(|(figure, _)| *figure == name);
    if let Some(unknown) = arguments.iter().find(|argument| !argument.strip_prefix("--").is_some_and(known)) {
        let all: Vec<_> = FIGURES.iter().map(|(name, _)| format!("--{name}")).collect();
        eprintln!("error: {unknown:?}: --quick, or some of {}", all.join(", "));
        return ExitCode::from(2);
    }
    let rounds = if asked("quick") { 2 } else { 15 };
    let all = !FIGURES.iter().any(|(name, _)| asked(name));
    let neighbours = Neighbours::watch();
    println!("{}\n", machine());
    println!("| what | softtimers-tokio | tokio | asked |\n|---|---|---|---|");
    for (_, figure) in FIGURES.iter().filter(|(name, _)| all || asked(name)) {
        figure(rounds);
    }
    if let Some(reason) = neighbours.so_far().inconclusive() {
        println!("\ninconclusive: {reason}");
    }
    ExitCode::SUCCESS
}

/// Prints one, of so many rounds.
type Figure = fn(usize);

const FIGURES: [(&str, Figure); 6] = [
    ("idle", lateness::idle),
    ("busy", lateness::busy),
    ("interval", lateness::interval),
    ("staggered", cpu::staggered),
    ("resets", resets::random),
    ("pending", cpu::pending),
];

/// Whose timers.
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
}

/// Runs it on a runtime of its own, with a trigger state at each park.
fn run<R>(test: impl Future<Output = R>) -> R {
    let mut builder = Builder::new_current_thread();
    let runtime = softtimers_tokio::trigger_at_park(&mut builder).enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// What both had in each round.
struct Rounds {
    soft: Vec<f64>,
    tokio: Vec<f64>,
}

impl Rounds {
    /// Rounds of both in turn.
    fn take(rounds: usize, mut of: impl FnMut(Timers) -> f64) -> Self {
        let (soft, tokio) = (0..rounds).map(|_| (of(Timers::Soft), of(Timers::Tokio))).unzip();
        Rounds { soft, tokio }
    }

    fn line(&self, what: &str, unit: &str, asked: &str) {
        println!("| {what} | {} | {} | {asked} |", figure(&self.soft, unit), figure(&self.tokio, unit));
    }

    /// Ours against tokio's, round by round.
    fn ratio(&self, what: &str, asked: &str) {
        let ratios: Vec<f64> = self.soft.iter().zip(&self.tokio).map(|(soft, tokio)| soft / tokio).collect();
        println!("| {what} | {} of tokio's | 1 | {asked} |", figure(&ratios, ""));
    }
}

fn figure(values: &[f64], unit: &str) -> String {
    let [low, middle, high] = quartiles(values.iter().copied());
    format!("{middle:.2} {unit} ({low:.2}–{high:.2})")
}
