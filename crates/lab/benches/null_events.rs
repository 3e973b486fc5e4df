//! What an event costs that does nothing, by each kind of timer, on a loop that is busy: `cargo bench
//! -p softtimers-bench --bench null_events [-- SECONDS]` (soft timers §5.1 and §5.5, Tables I, VI, VII).
//!
//! The cost is the work that the loop does not do: the same saturated echo server with events and
//! without, in turns of 10 ms ([`softtimers_bench::events`] says what is compared with what).
//!
//! softtimers' loop passes its trigger states, one whose timer is a descriptor asks for it:
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

use softtimers_bench::events::{cost, lost};
use softtimers_bench::turns::{self, TURN, quartiles};
use softtimers_cli::args::Timer;
use softtimers_cli::send::Contender;

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
    turns::main("null_events", measure)
}

fn measure(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let time = Duration::from_secs(arguments.first().map_or("6", String::as_str).parse()?);
    println!("{}", turns::machine());
    println!(
        "| events/s | by | came | server's work lost | in total, ns/event | base, ns/event | pollution, ns/event |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut disturbances = Vec::new();
    for rate in RATES {
        let contest = |work| turns::contest(&format!("--rate {rate}pps {work}"), CONTENDERS, TURN, time);
        let server = contest("--busy echo --echo-batch 4")?;
        if server.interrupted {
            break;
        }
        let compute = contest("--busy compute")?;
        if compute.interrupted {
            break;
        }
        disturbances.extend([server.disturbed, compute.disturbed].into_iter().flatten());
        let (server, compute) = (server.rounds, compute.rounds);
        let [_, none, _] = quartiles(server.iter().map(|round| lost(round, 2, PLAIN)));
        println!("| {rate} | soft, without events | 0 | {:.1}% | – | – | – |", none * 100.0);
        for (who, name, without) in EVENTS {
            let [_, came, _] = quartiles(server.iter().map(|round| round[who].event_rate));
            let [_, lost, _] = quartiles(server.iter().map(|round| lost(round, who, PLAIN)));
            let [[_, total, _], [_, base, _]] = [cost(&server, who, without), cost(&compute, who, without)];
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
