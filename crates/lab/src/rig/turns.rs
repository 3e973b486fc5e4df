//! `compute` and `latency`: ways to take an interface's packets that take turns on one ring, with each driver.

use serde_json::Value;
use softtimers_measure::bar::Bar;
use softtimers_measure::result::Table;

use super::trial::{Offer, Rig};
use crate::bench::Done;

/// What the [`receivers`](crate::receivers) answer by turns.
struct Question {
    word: &'static str,
    /// Those that are told.
    ways: &'static [&'static str],
    rounds: u64,
    /// What a round of all ways takes, in milliseconds.
    round: u64,
    rates: &'static [f64],
}

/// Polling beside a computation, up to 100,000 packets a second, five wanted in a poll; and being woken up.
pub(super) fn compute(rig: &Rig) -> Done<Vec<Table>> {
    let question = Question {
        word: "compute",
        ways: &["poll", "hybrid", "wake-up"],
        rounds: rig.of(60, 20),
        round: 4 * 50,
        rates: &[1_000.0, 20_000.0, 100_000.0],
    };
    question.asked(rig, |driver, rate, found| {
        let figure = format!("computation beside 100,000 packets/s, {driver}, polled: work kept");
        (rate == 100_000.0).then(|| Bar::at_least(figure, 0.95, found["poll"]["kept"].as_f64()))
    })
}

/// 2,000 packets a second: what a poller adds to the wait of a plain epoll loop on the same ring.
pub(super) fn latency(rig: &Rig) -> Done<Vec<Table>> {
    let question = Question {
        word: "latency",
        ways: &["epoll", "interrupt", "hybrid", "hip"],
        rounds: rig.of(16, 4),
        round: 4 * 250,
        rates: &[2_000.0],
    };
    question.asked(rig, |driver, _, found| {
        let p50 = |by: &str| found[by]["latency_ns"]["p50"].as_f64();
        let ratio = p50("hybrid").zip(p50("epoll")).map(|(own, plain)| own / plain);
        Some(Bar::at_most(format!("2,000 packets/s, {driver}, hybrid: p50, against epoll's"), 1.3, ratio))
    })
}

const COLUMNS: [(&str, usize); 8] = [
    ("driver", 0),
    ("packets/s", 0),
    ("by", 0),
    ("work kept %", 1),
    ("received/s", 0),
    ("p50 µs", 1),
    ("p99 µs", 1),
    ("deviation µs", 1),
];

impl Question {
    /// Asks it of each driver at each rate. `bar` is told driver, rate and what was found.
    fn asked(&self, rig: &Rig, bar: impl Fn(&str, f64, &Value) -> Option<Bar>) -> Done<Vec<Table>> {
        let Question { word, ways, rounds, round, rates } = *self;
        let mut table = Table::new(word, &COLUMNS);
        for driver in ["packet", "xdp"] {
            for &rate in rates {
                // Some time to begin and to end.
                let offer = Offer::steady(rate, rounds * round + 600);
                let words = format!("{word} r0 --driver {driver} --rounds {rounds}");
                let (found, _) = rig.received(&words, &[(0, offer)])?;
                for by in ways {
                    let of = &found[by];
                    let micros = |key: &str| of["latency_ns"][key].as_f64().map(|nanos| nanos / 1e3);
                    table.row([
                        driver.into(),
                        rate.into(),
                        (*by).into(),
                        of["kept"].as_f64().map(|kept| 100.0 * kept).into(),
                        of["received_pps"].as_f64().into(),
                        micros("p50").into(),
                        micros("p99").into(),
                        micros("stddev").into(),
                    ]);
                }
                bar(driver, rate, &found).into_iter().for_each(|bar| table.bar(bar));
            }
        }
        Ok(vec![table])
    }
}
