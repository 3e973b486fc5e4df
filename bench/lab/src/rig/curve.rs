//! `stages`: offered against delivered, where each packet costs a walk through a list of rules; in one stage and in two.

use anyhow::Result;
use serde_json::Value;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Measured, Paired, Round};
use softtimers_trials::result::Table;

use super::trial::{Amount, Offer, Rig};
use crate::bench::Done;
use crate::figures::{self, Figure};

/// Names and flags; contenders with a bar first.
const CONTENDERS: [(&str, &str); 6] = [
    ("completion, hybrid", "--kind completion --mode hybrid"),
    ("feedback", "--kind feedback --mode hybrid"),
    ("naive", "--kind naive"),
    ("completion, poll", "--kind completion --mode poll"),
    ("completion, interrupt", "--kind completion --mode interrupt"),
    ("completion, hip", "--kind completion --mode hip"),
];
const BARRED: usize = 2;

pub(super) fn stages(rig: &Rig) -> Done<Vec<Table>> {
    let mut tables = Vec::new();
    for driver in ["packet", "xdp"] {
        let capacity = capacity(rig, driver)?;
        for &burst in rig.either(&[1, 4][..], &[1]) {
            let setting = Setting { rig, driver, capacity, burst };
            tables.extend(setting.steady()?);
            // The paper's trials: so short that the rings hold much of one.
            let short = |multiple: f64| Offer {
                burst,
                amount: Amount::Packets(10_000),
                ..Offer::steady(multiple * capacity, 0)
            };
            tables.push(setting.sweep(", 10,000 packets", 3, 1, short)?.0);
        }
    }
    Ok(tables)
}

/// The setting in which contenders are compared.
struct Setting<'a> {
    rig: &'a Rig,
    driver: &'static str,
    capacity: f64,
    burst: u32,
}

impl Setting<'_> {
    fn multiples(&self) -> &'static [f64] {
        self.rig.either(&[0.2, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0], &[0.5, 1.0, 2.0, 5.0])
    }

    /// Measures the first contenders at all multiples of the capacity, in turn.
    fn sweep(
        &self,
        what: &str,
        first: usize,
        rounds: usize,
        offer: impl Fn(f64) -> Offer,
    ) -> Result<(Table, Measured)> {
        let Setting { rig, driver, capacity, burst } = *self;
        let (multiples, mut contenders) = (self.multiples(), CONTENDERS[..first].to_vec());
        let paired = Paired::new(rounds).beside_others();
        let measured = paired.contest(multiples, &mut contenders, |&multiple, (name, flags), round| {
            let found = trial(rig, driver, flags, offer(multiple))?;
            put(round, &row(name, multiple), &found);
            anyhow::Ok(())
        })?;
        let rows =
            contenders.iter().flat_map(|(name, _)| multiples.iter().map(|&multiple| row(name, multiple)));
        let mut table =
            figures::table(&format!("{driver}, bursts of {burst}{what}"), &measured, rows, &FIGURES);
        table.note(format!("each packet a walk through {RULES} rules; capacity {:.0} kpps", capacity / 1e3));
        table.note(OTHERS);
        Ok((table, measured))
    }

    /// Trials of some length: the sweeps, and for those with a bar, the rate of the peak and the highest one in pairs.
    fn steady(&self) -> Result<[Table; 2]> {
        let Setting { rig, driver, burst, .. } = *self;
        let (table, sweep) =
            self.sweep("", rig.either(6, 3), rig.rounds(2), |multiple| self.offer(multiple))?;
        let columns = [("", 0), ("at x capacity", 1), ("of the peak", 2)];
        let mut kept = Table::new(&format!("{driver}, bursts of {burst}, of the peak"), &columns);
        for (name, flags) in &CONTENDERS[..BARRED] {
            let [best, last, reached] = ends(&sweep, name, self.multiples());
            // If the generator was much too slow, the result is unknown.
            let pairs = (reached >= 0.5 * last).then(|| self.pairs(flags, best, last)).transpose()?;
            let of_peak = pairs.as_ref().and_then(|pairs| pairs.estimate("", KEPT));
            kept.row([(*name).into(), reached.into(), of_peak.into()]);
            let figure = format!(
                "two stages, {driver}, bursts of {burst}, {name}: at {reached:.1} x capacity, of the peak"
            );
            let quiet = pairs.is_some_and(|pairs| pairs.inconclusive().is_none());
            kept.bar(Bar::at_least(figure, 0.92, of_peak).unless(!quiet));
        }
        Ok([table, kept])
    }

    fn offer(&self, multiple: f64) -> Offer {
        Offer { burst: self.burst, ..Offer::steady(multiple * self.capacity, self.rig.either(500, 300)) }
    }

    /// Measures the throughput at the highest rate relative to the best lower one. The maximum of several scattered
    /// figures is biased upwards; so the sweep only selects the rate, and here both are measured again, one right after
    /// the other, which a drifting machine treats alike. Pairs disturbed by other programs do not count.
    fn pairs(&self, flags: &str, best: f64, last: f64) -> Result<Measured> {
        let paired = Paired::new(self.rig.rounds(7)).repeating(3).beside_others();
        paired.rounds(|_, round| {
            let one = |multiple| trial(self.rig, self.driver, flags, self.offer(multiple));
            let (best, last) = (one(best)?, one(last)?);
            if is_disturbed(&best) || is_disturbed(&last) {
                round.set_aside("others had the receiver's CPU");
            }
            round.put("", KEPT, delivered(&last) / delivered(&best).max(1.0));
            Ok(())
        })
    }
}

const KEPT: &str = "kept";

fn row(name: &str, multiple: f64) -> String {
    format!("{name}, {multiple} x capacity")
}

fn delivered(found: &Value) -> f64 {
    found["delivered_pps"].as_f64().unwrap_or(0.0)
}

/// Says whether others used too much of the receiver's CPU meanwhile. Ticks are coarse.
fn is_disturbed(found: &Value) -> bool {
    let above = |key: &str, most: f64| found[key].as_f64().is_some_and(|share| share > most);
    above("others_share", 0.08) || above("steal_share", 0.05)
}

/// Measures the rate that leaves under twice the load that will ever be offered: the unit of the multiples.
fn capacity(rig: &Rig, driver: &str) -> Result<f64> {
    let of = |rate| {
        Ok::<_, anyhow::Error>(delivered(&trial(rig, driver, CONTENDERS[0].1, Offer::steady(rate, 400))?))
    };
    let first = of(400_000.0)?;
    // For a slower machine that was more than enough, for a faster one not.
    Ok(of((2.0 * first).max(1_000.0))?.max(first).max(1_000.0))
}

/// Runs a trial, and returns the receiver's report with the offer.
pub(super) fn trial(rig: &Rig, driver: &str, flags: &str, offer: Offer) -> Result<Value> {
    let window = offer.length().as_micros();
    let words = format!("stages r0 out --driver {driver} --rules {RULES} {flags} --window {window}us");
    let (mut found, offered) = rig.received(&words, &[(0, offer)])?;
    found["offered_pps"] = offered[0].pps.into();
    Ok(found)
}

/// Returns the multiple below the highest that delivered the most, the highest, and the load reached at it.
fn ends(sweep: &Measured, name: &str, multiples: &[f64]) -> [f64; 3] {
    let figure = |figure, multiple| sweep.median(&row(name, multiple), figure).unwrap_or(0.0);
    let (&last, lower) = multiples.split_last().expect("there are some");
    let one_by_rate =
        |one: &&f64, other: &&f64| figure(DELIVERED, **one).total_cmp(&figure(DELIVERED, **other));
    let best = lower.iter().max_by(one_by_rate).expect("there are some");
    let unit = figure(OFFERED, multiples[0]) / multiples[0];
    [*best, last, if unit > 0.0 { figure(OFFERED, last) / unit } else { 0.0 }]
}

const OFFERED: &str = "offered kpps";
const DELIVERED: &str = "delivered kpps";
const FIGURES: [Figure; 12] = [
    (OFFERED, 1, "offered_pps", 1e-3),
    (DELIVERED, 1, "delivered_pps", 1e-3),
    ("dropped: ring and interface", 0, "", 0.0),
    ("queue", 0, "dropped.queue", 1.0),
    ("output", 0, "", 0.0),
    ("p50 µs", 0, "latency_ns.p50", 1e-3),
    ("p99 µs", 0, "latency_ns.p99", 1e-3),
    ("deviation µs", 0, "latency_ns.stddev", 1e-3),
    ("CPU %", 0, "cpu_share", 100.0),
    ("CPU µs/packet", 1, "", 0.0),
    ("others there, at most %", 0, "", 0.0),
    ("asleep", 0, "wakeups", 1.0),
];

fn put(round: &mut Round, row: &str, found: &Value) {
    let of = |key| figures::at(found, key).unwrap_or(0.0);
    figures::put(round, row, found, &FIGURES);
    round.put(row, "dropped: ring and interface", of("dropped.ring") + of("dropped.interface"));
    round.put(row, "output", of("dropped.output") + of("dropped.failed"));
    round.put(row, "CPU µs/packet", 1e6 * of("cpu_share") / of("delivered_pps").max(1.0));
    round.put(row, "others there, at most %", 100.0 * (of("others_share") + of("steal_share")));
}

/// Some ten microseconds' work, so that the generator reaches five times the capacity in addition to the kernel's own
/// work.
const RULES: usize = 12_000;

/// The note about the column of others.
const OTHERS: &str = "Others there: the host, and what ran on that CPU and was neither the receiver nor the kernel's thread \
     for packets. Interrupts that find the CPU idle are charged to no thread, and are included; so it is an upper bound.";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_best_lower_rate_is_compared_with_the_highest() {
        let ends = |points: &[(f64, f64, f64)]| {
            let mut round = Round::default();
            for &(multiple, offered, delivered) in points {
                let found = json!({ "offered_pps": offered, "delivered_pps": delivered });
                put(&mut round, &row("naive", multiple), &found);
            }
            let multiples: Vec<f64> = points.iter().map(|point| point.0).collect();
            ends(&Measured::as_a_whole(vec![round], None), "naive", &multiples)
        };
        let full = [(0.5, 50.0, 50.0), (1.0, 100.0, 100.0), (2.0, 200.0, 96.0), (5.0, 480.0, 120.0)];
        assert_eq!(ends(&full), [1.0, 5.0, 4.8]);
        assert_eq!(
            ends(&[(0.5, 50.0, 50.0), (5.0, 200.0, 93.0)]),
            [0.5, 5.0, 2.0],
            "the generator was too slow"
        );
    }

    #[test]
    fn a_pair_beside_others_does_not_count() {
        let is_quiet =
            |others: f64, steal: f64| !is_disturbed(&json!({ "others_share": others, "steal_share": steal }));
        assert!(is_quiet(0.05, 0.01) && !is_quiet(0.3, 0.0) && !is_quiet(0.0, 0.3));
    }
}
