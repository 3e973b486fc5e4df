//! `compute` and `latency`: ways to take an interface's packets that take turns on one ring, with each driver.

use anyhow::Result;
use serde_json::{Value, json};

use super::trial::{Offer, Rig};
use super::{Effort, Found, micros};
use crate::measure::figures::Bar;

/// What `examples/interfaces` answers by turns.
struct Question {
    title: &'static str,
    word: &'static str,
    /// Those that are told.
    ways: &'static [&'static str],
    rounds: u64,
    /// What a round of all ways takes, in milliseconds.
    round: u64,
    rates: &'static [f64],
}

/// Polling beside a computation, up to 100,000 packets a second, five wanted in a poll; and being woken up.
pub(super) fn compute(rig: &Rig, effort: Effort) -> Result<Found> {
    let question = Question {
        title: "A computation beside packets",
        word: "compute",
        ways: &["poll", "hybrid", "wake-up"],
        rounds: if effort.quick { 20 } else { 60 },
        round: 4 * 50,
        rates: &[1_000.0, 20_000.0, 100_000.0],
    };
    question.asked(rig, |driver, rate, found| {
        let figure = format!("computation beside 100,000 packets/s, {driver}, polled: work kept");
        (rate == 100_000.0).then(|| Bar::at_least(figure, 0.95, found["poll"]["kept"].as_f64()))
    })
}

/// 2,000 packets a second: what a poller adds to the wait of a plain epoll loop on the same ring.
pub(super) fn latency(rig: &Rig, effort: Effort) -> Result<Found> {
    let question = Question {
        title: "Latency at 2,000 packets/s",
        word: "latency",
        ways: &["epoll", "interrupt", "hybrid", "hip"],
        rounds: if effort.quick { 4 } else { 16 },
        round: 4 * 250,
        rates: &[2_000.0],
    };
    question.asked(rig, |driver, _, found| {
        let p50 = |by: &str| found[by]["latency_ns"]["p50"].as_f64();
        let ratio = p50("hybrid").zip(p50("epoll")).map(|(own, plain)| own / plain);
        let figure = format!("2,000 packets/s, {driver}, hybrid: p50, against epoll's");
        Some(Bar::at_most(figure, 1.3, ratio))
    })
}

impl Question {
    /// Asks it of each driver at each rate. `bar` is told driver, rate and what was found.
    fn asked(&self, rig: &Rig, bar: impl Fn(&str, f64, &Value) -> Option<Bar>) -> Result<Found> {
        let Question { title, word, ways, rounds, round, rates } = *self;
        let (mut bars, mut figures) = (Vec::new(), Vec::new());
        println!(
            "### {title}\n\n| driver | packets/s | by | work kept | received/s | latency p50 / p99 / deviation µs |\n|---|---|---|---|---|---|"
        );
        for driver in ["packet", "xdp"] {
            for &rate in rates {
                // Some time to begin and to end.
                let offer = Offer::steady(rate, rounds * round + 600);
                let words = format!("{word} r0 --driver {driver} --rounds {rounds}");
                let (found, _) = rig.received(&words, &[(0, offer)])?;
                ways.iter().for_each(|by| println!("{}", row(driver, rate, by, &found[by])));
                bars.extend(bar(driver, rate, &found));
                figures.push(json!({ "driver": driver, "rate_pps": rate, "found": found }));
            }
        }
        println!();
        Ok(Found { bars, figures: json!(figures) })
    }
}

fn row(driver: &str, rate: f64, by: &str, found: &Value) -> String {
    let kept = found["kept"].as_f64().map_or("–".to_owned(), |kept| format!("{:.1}%", 100.0 * kept));
    let [p50, p99, deviation] = ["p50", "p99", "stddev"].map(|key| micros(&found["latency_ns"][key]));
    let received = found["received_pps"].as_f64().unwrap_or(0.0);
    format!("| {driver} | {rate} | {by} | {kept} | {received:.0} | {p50} / {p99} / {deviation} |")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let found = json!({
            "kept": 0.951, "received_pps": 999.6, "latency_ns": { "p50": 1_500, "p99": 20_000, "stddev": 300.0 },
        });
        assert_eq!(
            row("xdp", 1_000.0, "poll", &found),
            "| xdp | 1000 | poll | 95.1% | 1000 | 1.5 / 20.0 / 0.3 |"
        );
        let nothing = json!({ "kept": null, "received_pps": 0.0, "latency_ns": {} });
        assert_eq!(row("xdp", 1_000.0, "hip", &nothing), "| xdp | 1000 | hip | – | 0 | – / – / – |");
    }
}
