//! What an event costs that does nothing, by each kind of timer, on a loop that is busy: `cargo bench
//! -p softtimers-cli --bench null_events [-- SECONDS]` (soft timers §5.1 and §5.5, Tables I, VI, VII).
//!
//! The cost is the work that the loop does not do: the same saturated echo server with events and
//! without, in turns of 10 ms. Beside a loop that only computes, with nothing in the caches to lose, the
//! cost is that of the event itself, the *base*; what the server loses beyond it is *pollution*.
//!
//! ```text
//!   server   │ off │ soft │ one-shot │ signal │  cost in total    ┐ pollution = total − base
//!   compute  │ off │ soft │ one-shot │ signal │  base             ┘
//! ```
#![forbid(unsafe_code)]

mod turns;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use softtimers_cli::args::Timer;
use softtimers_cli::send::{Contender, Share};
use turns::quartiles;

const CONTENDERS: [Contender; 4] = [
    Contender::Nobody,
    Contender::NullEvents(Timer::Soft),
    Contender::NullEvents(Timer::Timerfd),
    Contender::NullSignals,
];
const NAMES: [&str; 4] = ["off", "soft", "one-shot timerfd", "periodic signal"];
/// Events a second; the paper's experiments had 100 kHz at most.
const RATES: [u32; 6] = [100, 1_000, 5_000, 10_000, 20_000, 50_000];

fn main() -> ExitCode {
    turns::main(measure)
}

fn measure() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let time = Duration::from_secs(arguments.next().as_deref().unwrap_or("6").parse()?);
    println!("{}", turns::machine());
    println!(
        "| events/s | by | came | server's work lost | in total, ns/event | base, ns/event | pollution, ns/event |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut disturbances = Vec::new();
    for rate in RATES {
        let server =
            turns::contest(&format!("--rate {rate}pps --busy echo --echo-batch 4"), CONTENDERS, time)?;
        let compute = turns::contest(&format!("--rate {rate}pps --busy compute"), CONTENDERS, time)?;
        disturbances.extend([server.disturbed, compute.disturbed].into_iter().flatten());
        let (server, compute) = (server.rounds, compute.rounds);
        for (who, name) in NAMES.iter().enumerate().skip(1) {
            let [_, came, _] = quartiles(server.iter().map(|round| round[who].event_rate));
            let [_, lost, _] = quartiles(server.iter().map(|round| lost(round, who)));
            let (total, base) = (cost(&server, who), cost(&compute, who));
            println!(
                "| {rate} | {name} | {came:.0} | {:.1}% | {total:.0} | {base:.0} | {:.0} |",
                lost * 100.0,
                total - base
            );
        }
    }
    if let Some(reason) = disturbances.first() {
        println!("\ninconclusive in {} of {} runs: {reason}", disturbances.len(), 2 * RATES.len());
    }
    Ok(())
}

/// The share of the work that this contender's events cost in a round.
fn lost<const N: usize>(round: &[Share; N], who: usize) -> f64 {
    1.0 - round[who].work_rate / round[0].work_rate
}

/// The same in nanoseconds of the loop for each event that came.
fn cost<const N: usize>(rounds: &[[Share; N]], who: usize) -> f64 {
    let [_, cost, _] = quartiles(rounds.iter().map(|round| lost(round, who) * 1e9 / round[who].event_rate));
    cost
}
