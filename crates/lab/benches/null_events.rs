//! What an event costs that does nothing, by each kind of timer, on a loop that is busy: `cargo bench
//! -p softtimers-lab --bench null_events [-- --seconds 6]` (soft timers §5.1 and §5.5, Tables I, VI, VII).
//!
//! The cost is the work that the loop does not do: the same saturated echo server with events and
//! without, in turns of 10 ms ([`softtimers_lab::events`] says what is compared with what).
//!
//! softtimers' loop passes its trigger states, one whose timer is a descriptor asks for it:
//!
//! ```text
//!   server   │ plain │ asking │ soft, none │ soft │ one-shot │ signal │  in total ┐ pollution =
//!   compute  │ plain │ asking │ soft, none │ soft │ one-shot │ signal │  base     ┘ total − base
//!   events of    –       –          –       soft,none  asking    plain   are compared with
//! ```
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use softtimers::Rate;
use softtimers_lab::bench::{self, Asked, Done, Section};
use softtimers_lab::events::{cost, lost};
use softtimers_lab::turns::{self, TURN, engine};
use softtimers_load::turns::Contender;
use softtimers_load::work::Work;
use softtimers_measure::bar::Bar;
use softtimers_measure::result::{Cell, Table};

const PLAIN: usize = 0;
/// Who has events, by what name, and who is the same without.
const EVENTS: [(usize, &str, usize); 3] =
    [(3, "soft", 2), (4, "one-shot timerfd", 1), (5, "periodic signal", PLAIN)];
/// Events a second; the paper's experiments had 100 kHz at most.
const RATES: [u32; 6] = [100, 1_000, 5_000, 10_000, 20_000, 50_000];
const COLUMNS: [(&str, usize); 7] = [
    ("events/s", 0),
    ("by", 0),
    ("came", 0),
    ("server's work lost %", 1),
    ("in total, ns/event", 0),
    ("base, ns/event", 0),
    ("pollution, ns/event", 0),
];

#[derive(Parser, Debug)]
#[command(about = "the cost of an event that does nothing", disable_version_flag = true)]
struct Arguments {
    #[command(flatten)]
    asked: Asked,
    /// Of each rate and work
    #[arg(long, default_value_t = 6)]
    seconds: u64,
}

const SECTIONS: [Section<Duration>; 1] = [("null_events", measure)];

fn main() -> ExitCode {
    bench::main("null_events", |given| {
        let Arguments { asked, seconds } = bench::parse("null_events", given, &SECTIONS);
        let time = Duration::from_secs(if asked.quick { 1 } else { seconds });
        asked.run("null_events", "", &SECTIONS, &time)
    })
}

/// A table for each rate, so that one which was disturbed spoils no other.
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
        let contest = |work| turns::contest(Rate::per_second(rate.into())?, work, contenders, TURN, *time);
        let server = contest(Work::Echo { batch: 4 })?;
        if server.interrupted {
            break;
        }
        let compute = contest(Work::Compute)?;
        if compute.interrupted {
            break;
        }
        let mut table = server.table(&format!("{rate} events/s"), &COLUMNS);
        table.inconclusive = server.disturbed.clone().or_else(|| compute.disturbed.clone());
        let lost = |who| server.over(|round| Some(100.0 * lost(round, who, PLAIN)));
        let head = |name: &str| [f64::from(rate).into(), name.into()];
        let [rate_cell, name] = head("soft, without events");
        let nothing = || Cell::Nothing(());
        table.row([rate_cell, name, 0.0.into(), lost(2).into(), nothing(), nothing(), nothing()]);
        let mut costs = Vec::new();
        for (who, name, without) in EVENTS {
            let total = server.over(|round| cost(round, who, without));
            let base = compute.over(|round| cost(round, who, without));
            let pollution = total.zip(base).map(|(total, base)| total.median - base.median);
            let came = server.over(|round| Some(round[who].event_rate));
            let [rate, name] = head(name);
            table.row([
                rate,
                name,
                came.into(),
                lost(who).into(),
                total.into(),
                base.into(),
                pollution.into(),
            ]);
            costs.push(total.map(|total| total.median));
        }
        if rate == 20_000 {
            let ratio = costs[0].zip(costs[2]).map(|(soft, signal)| soft / signal);
            table.bar(Bar::at_most(
                "null events, 20,000/s: cost of a soft one, against a signal's",
                0.5,
                ratio,
            ));
        }
        tables.push(table);
    }
    Ok(tables)
}
