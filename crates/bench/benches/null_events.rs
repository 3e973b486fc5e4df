//! What an event costs that does nothing, by each kind of timer, on a loop that is busy: `cargo bench
//! -p softtimers-bench --bench null_events [-- SECONDS]` (soft timers §5.1 and §5.5, Tables I, VI, VII).
//!
//! The cost is the work that the loop does not do: the same saturated echo server with events and
//! without, in turns of 10 ms. Beside a loop that only computes, with nothing in the caches to lose, the
//! cost is that of the event itself, the *base*; what the server loses beyond it is *pollution*.
//!
//! Two things are lost: what a loop pays to notice events at all, whether there are any or not, and what
//! each event costs. So the work lost is that against a plain loop, and the cost of an event is
//! that against the same loop without events: softtimers' passes its trigger states, one whose timer is a
//! descriptor asks for it.
//!
//! ```text
//!   server   │ plain │ asking │ soft, none │ soft │ one-shot │ signal │  in total ┐ pollution =
//!   compute  │ plain │ asking │ soft, none │ soft │ one-shot │ signal │  base     ┘ total − base
//!   events of    –       –          –       soft,none  asking    plain   are compared with
//! ```
#![forbid(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use softtimers_bench::turns::{self, quartiles};
use softtimers_cli::args::Timer;
use softtimers_cli::send::{Contender, Share};

const CONTENDERS: [Contender; 6] = [
    Contender::Nobody,
    Contender::NobodyAsking,
    Contender::NobodySoft,
    Contender::NullEvents(Timer::Soft),
    Contender::NullEvents(Timer::Timerfd),
    Contender::NullSignals,
];
const PLAIN: usize = 0;
/// Who has events, by what name, and who is the same without.
const EVENTS: [(usize, &str, usize); 3] =
    [(3, "soft", 2), (4, "one-shot timerfd", 1), (5, "periodic signal", PLAIN)];
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
        let [_, none, _] = quartiles(server.iter().map(|round| lost(round, 2, PLAIN)));
        println!("| {rate} | soft, without events | 0 | {:.1}% | – | – | – |", none * 100.0);
        for (who, name, without) in EVENTS {
            let [_, came, _] = quartiles(server.iter().map(|round| round[who].event_rate));
            let [_, lost, _] = quartiles(server.iter().map(|round| lost(round, who, PLAIN)));
            let (total, base) = (cost(&server, who, without), cost(&compute, who, without));
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

/// The share of `without`'s work in a round that `who` does not do.
fn lost<const N: usize>(round: &[Share; N], who: usize, without: usize) -> f64 {
    1.0 - round[who].work_rate / round[without].work_rate
}

/// The same in nanoseconds of the loop for each event that came.
fn cost<const N: usize>(rounds: &[[Share; N]], who: usize, without: usize) -> f64 {
    let [_, cost, _] =
        quartiles(rounds.iter().map(|round| lost(round, who, without) * 1e9 / round[who].event_rate));
    cost
}
