//! The cost of an event that does nothing, by each kind of timer, on a loop that is busy: `cargo bench --manifest-path
//! papers/Cargo.toml --bench null_events [-- --seconds 6]` (soft timers §5.1 and §5.5, Tables I, VI, VII).
//!
//! The cost is the throughput that the loop loses: the same saturated echo server with events and without, in turns of
//! 10 ms ([`softtimers_contest::events`] describes the comparison).
//!
//! softtimers' loop passes its trigger states, and one whose timer is a descriptor polls it:
//!
//! ```text
//!   server   │ plain │ asking │ soft, none │ soft │ one-shot │ signal │  in total ┐ pollution =
//!   compute  │ plain │ asking │ soft, none │ soft │ one-shot │ signal │  base     ┘ total − base
//!   events of    –       –          –       soft,none  asking    plain   are compared with
//! ```
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use softtimers::Rate;
use softtimers_contest::events::{Contests, PLAIN};
use softtimers_contest::turns::engine;
use softtimers_load::turns::Contender;
use softtimers_papers_bench::bench::{self, Done, Section};
use softtimers_trials::bar::Bar;
use softtimers_trials::result::Table;

/// The contenders with events, by name, each with the same contender without.
const EVENTS: [(usize, &str, usize); 4] = [
    (2, "soft, without events", PLAIN),
    (3, "soft", 2),
    (4, "one-shot timerfd", 1),
    (5, "periodic signal", PLAIN),
];
/// Events a second; the paper's experiments had at most 100 kHz.
const RATES: [u32; 6] = [100, 1_000, 5_000, 10_000, 20_000, 50_000];
const SECTIONS: [Section<Duration>; 1] = [("null_events", measure)];

fn main() -> ExitCode {
    bench::main("null_events", &SECTIONS, |asked| Ok(asked.seconds(1)))
}

/// Returns a table for each rate, so that a disturbed one affects no other.
fn measure(time: &Duration) -> Done<Vec<Table>> {
    let contenders = [
        Contender::Nobody,
        Contender::NobodyAsking,
        Contender::NobodySoft,
        Contender::NullEvents(engine("soft")),
        Contender::NullEvents(engine("timerfd")),
        Contender::NullSignals,
    ];
    let mut tables = Vec::new();
    for rate in RATES {
        let pace = Rate::per_second(rate.into())?;
        let Some(both) = Contests::both(pace, contenders, *time)? else { break };
        let mut table = both.table(&format!("{rate} events/s"), &[("events/s", 0), ("by", 0), ("came", 0)]);
        let mut costs = Vec::new();
        for (who, name, without) in EVENTS {
            let came = both.server.over(|round| Some(round[who].event_rate));
            let cost = both.cost(who, without);
            table.rows.push(cost.row([f64::from(rate).into(), name.into(), came.into()]));
            costs.push(cost.total.map(|total| total.median));
        }
        if rate == 20_000 {
            let ratio = costs[1].zip(costs[3]).map(|(soft, signal)| soft / signal);
            let figure = "null events, 20,000/s: cost of a soft one, against a signal's";
            table.bar(Bar::at_most(figure, 0.5, ratio));
        }
        tables.push(table);
    }
    Ok(tables)
}
