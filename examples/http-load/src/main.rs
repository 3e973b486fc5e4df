//! Open-loop HTTP load: requests leave on schedule, not when an answer has come, and are timed from their scheduled
//! time.
//!
//! A load generator that sleeps by tokio's clock sends the requests of a millisecond together, one to two milliseconds
//! late, and attributes its own lateness to the server. `wrk`, if it is installed, is included as a generator without
//! pacing.
//!
//! ```text
//!   http-load [--arrivals poisson|constant] …     a Poisson process by default
//! ```

mod arrivals;
mod client;
mod server;

use std::net::SocketAddr;
use std::process::Command;

use arrivals::{Arrivals, Load};
use client::{Seen, Timers, load};
use example_harness::trial::{Done, Line, Software, Trial};
use softtimers_trials::paired::Round;
use softtimers_trials::result::Table;

const FIGURES: [(&str, usize); 6] = [
    ("rate", 3),
    ("late p50 µs", 0),
    ("late p99 µs", 0),
    ("answered p50 µs", 0),
    ("answered p99 µs", 0),
    ("CPU µs a request", 2),
];
const SOFTWARE: Software = Software::new(
    "hyper 1, client",
    "[cql-stress #134](https://github.com/scylladb/cql-stress/issues/134), [tokio #5021](https://github.com/tokio-rs/tokio/issues/5021): a load generator's sleeps are milliseconds",
    include_str!("client.rs"),
);
const RATES: [u32; 3] = [1_000, 10_000, 50_000];
const WRK: &str = "wrk, closed loop";

fn row(rate: u32, timers: Timers) -> String {
    format!("{rate}/s: {}", timers.name())
}

fn put(round: &mut Round, row: &str, rate: u32, trial: &Trial, seen: &Seen) {
    let requests = seen.answered.len().max(1) as f64;
    let late = |share| seen.late.value_at_quantile(share) as f64 / 1e3;
    let answered = |share| seen.answered.value_at_quantile(share) as f64 / 1e3;
    let asked = f64::from(rate) * trial.time.as_secs_f64();
    let cpu = seen.cpu.as_secs_f64() * 1e6 / requests;
    let figures = [requests / asked, late(0.5), late(0.99), answered(0.5), answered(0.99), cpu];
    FIGURES.iter().zip(figures).for_each(|((name, _), figure)| round.put(row, name, figure));
}

/// Runs `wrk` for a second, and records the times of its report.
fn wrk(server: SocketAddr, round: &mut Round) -> Option<()> {
    let url = format!("http://{server}/");
    let report = Command::new("wrk").args(["-t1", "-c32", "-d1s", "--latency", &url]).output().ok()?;
    let report = String::from_utf8(report.stdout).ok()?;
    for (share, figure) in [("50%", FIGURES[3].0), ("99%", FIGURES[4].0)] {
        let mut words = report.split_whitespace().skip_while(|word| *word != share);
        let time = words.nth(1)?;
        let unit = time.find(|c: char| c.is_alphabetic())?;
        let micros =
            [("us", 1.0), ("ms", 1e3), ("s", 1e6)].into_iter().find(|(name, _)| *name == &time[unit..])?.1;
        round.put(WRK, figure, time[..unit].parse::<f64>().ok()? * micros);
    }
    Some(())
}

fn run(trial: &Trial, rates: &[u32], arrivals: Arrivals) -> Done<Vec<Table>> {
    let server = server::start()?;
    let measured = trial.contest(rates, &mut [Timers::Tokio, Timers::Soft], |rate, timers, round| {
        let seen = load(server, *timers, Load { rate: *rate, arrivals, time: trial.time })?;
        put(round, &row(*rate, *timers), *rate, trial, &seen);
        if trial.time.as_secs() > 0
            && *timers == Timers::Tokio
            && *rate == rates[0]
            && wrk(server, round).is_none()
        {
            eprintln!("skipped: wrk is not installed, or its output is unknown");
        }
        Ok(())
    })?;
    let both = |rate| [Timers::Tokio, Timers::Soft].map(|timers| row(rate, timers));
    let line = |rate: &u32| -> Line<'_> {
        (format!("departures late at {rate}/s, p99 µs"), FIGURES[2].0, both(*rate))
    };
    let lines: Vec<_> = rates.iter().map(line).collect();
    let rows = rates.iter().flat_map(|rate| both(*rate));
    let rows = rows.chain((trial.time.as_secs() > 0).then(|| WRK.to_owned()));
    let table = Table::of("http-load", &measured, rows, &FIGURES);
    Ok(vec![table, SOFTWARE.summary(&measured, FIGURES[5].0, &lines)])
}

fn main() -> Done {
    let mut arrivals = Arrivals::Poisson;
    let trial = Trial::asked_with(&["--arrivals"], |[_, value]| {
        arrivals = value.parse()?;
        Ok(())
    })?;
    trial.show("http-load", run(&trial, &RATES, arrivals)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All scheduled requests have left, on time or not, and were answered.
    #[test]
    fn a_short_load_is_answered() {
        let tables = run(&Trial::short(), &[2_000], Arrivals::Poisson).unwrap();
        let text = tables[0].markdown(&["".to_owned(), "rate".to_owned()], |_| true).unwrap();
        assert!(text.contains("2000/s: tokio") && text.contains("2000/s: softtimers-tokio"), "{text}");
    }

    #[test]
    fn every_request_is_timed_from_its_place() {
        let time = Trial::short().time;
        for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
            let asked = Load { rate: 1_000, arrivals, time };
            let seen = load(server::start().unwrap(), Timers::Soft, asked).unwrap();
            assert!(seen.late.len() > 50 && seen.late.len() == seen.answered.len());
            assert!(seen.answered.min() >= seen.late.min());
        }
    }
}
