//! `stages`: offered against delivered, where each packet costs a walk through a list of rules; in one stage and in two.

use anyhow::Result;
use serde_json::Value;
use softtimers_measure::bar::Bar;
use softtimers_measure::estimate::Estimate;
use softtimers_measure::paired::{Measured, Paired};
use softtimers_measure::result::Table;

use super::trial::{Amount, Offer, Rig};
use crate::bench::Done;

/// Names and flags; those with a bar first.
const CONTENDERS: [(&str, &str); 6] = [
    ("completion, hybrid", "--kind completion --mode hybrid"),
    ("feedback", "--kind feedback --mode hybrid"),
    ("naive", "--kind naive"),
    ("completion, poll", "--kind completion --mode poll"),
    ("completion, interrupt", "--kind completion --mode interrupt"),
    ("completion, hip", "--kind completion --mode hip"),
];

/// What one trial has come to.
#[derive(Clone, Debug)]
struct Point {
    multiple: f64,
    offered: f64,
    delivered: f64,
    found: Value,
}

pub(super) fn stages(rig: &Rig) -> Done<Vec<Table>> {
    let mut tables = Vec::new();
    for driver in ["packet", "xdp"] {
        let capacity = capacity(rig, driver)?;
        for &burst in rig.of(&[1, 4][..], &[1]) {
            let setting = Setting { rig, driver, capacity, burst };
            tables.extend(setting.steady()?);
            tables.push(setting.short()?);
        }
    }
    Ok(tables)
}

/// What contenders are compared under.
struct Setting<'a> {
    rig: &'a Rig,
    driver: &'static str,
    capacity: f64,
    burst: u32,
}

impl Setting<'_> {
    fn multiples(&self) -> &'static [f64] {
        self.rig.of(&[0.2, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0], &[0.5, 1.0, 2.0, 5.0])
    }

    fn table(&self, what: &str) -> Table {
        let Setting { driver, capacity, burst, .. } = self;
        let mut table = Table::new(&format!("{driver}, bursts of {burst}{what}"), &COLUMNS);
        table.note(format!("each packet a walk through {RULES} rules; capacity {:.0} kpps", capacity / 1e3));
        table
    }

    /// Trials of some time: the sweeps, and of those with a bar the rate of the peak and the highest in pairs.
    fn steady(&self) -> Result<[Table; 2]> {
        let Setting { rig, driver, burst, .. } = *self;
        let mut table = self.table("");
        let mut kept = Table::new(
            &format!("{driver}, bursts of {burst}, of the peak"),
            &[("", 0), ("at x capacity", 1), ("of the peak", 2)],
        );
        for (at, (name, flags)) in CONTENDERS.into_iter().take(rig.of(6, 3)).enumerate() {
            let is_judged = at < 2;
            // Those with bars are repeated: a shared machine's speed drifts.
            let rounds = if is_judged { rig.rounds(3) } else { 1 };
            let sweeps = (0..rounds).map(|_| self.sweep(flags, |multiple| self.offer(multiple)));
            let points = middle(&sweeps.collect::<Result<Vec<_>>>()?);
            rows(&mut table, name, &points);
            if is_judged {
                let most = reached(&points);
                let share = self.kept(flags, &points)?;
                let of_peak = share.as_ref().and_then(|share| share.estimate("", KEPT));
                kept.row([name.into(), most.into(), of_peak.into()]);
                let figure = format!(
                    "two stages, {driver}, bursts of {burst}, {name}: at {most:.1} x capacity, of the peak"
                );
                let quiet = share.is_some_and(|share| share.inconclusive().is_none());
                kept.bar(Bar::at_least(figure, 0.92, of_peak).unless(!quiet));
            }
        }
        table.note(OTHERS);
        Ok([table, kept])
    }

    /// The paper's trials: so short that the rings hold much of one. Those of three contenders.
    fn short(&self) -> Result<Table> {
        let Setting { capacity, burst, .. } = *self;
        let mut table = self.table(", 10,000 packets");
        for (name, flags) in CONTENDERS.into_iter().take(3) {
            let offer = |multiple: f64| Offer {
                burst,
                amount: Amount::Packets(10_000),
                ..Offer::steady(multiple * capacity, 0)
            };
            rows(&mut table, name, &self.sweep(flags, offer)?);
        }
        Ok(table)
    }

    fn offer(&self, multiple: f64) -> Offer {
        Offer { burst: self.burst, ..Offer::steady(multiple * self.capacity, self.rig.of(500, 300)) }
    }

    fn sweep(&self, flags: &str, offer: impl Fn(f64) -> Offer) -> Result<Vec<Point>> {
        let trial = |&multiple: &f64| trial(self.rig, self.driver, flags, multiple, offer(multiple));
        self.multiples().iter().map(trial).collect()
    }

    /// What the highest rate delivers of what the best lower one does. The largest of several figures that scatter is too
    /// large by itself; so the sweep says only which rate that was, and here both are measured anew, one right after the
    /// other, which a machine whose speed drifts does not tell apart. Pairs beside which others ran do not count.
    fn kept(&self, flags: &str, points: &[Point]) -> Result<Option<Measured>> {
        let Some((best, last)) = ends(points) else { return Ok(None) };
        let paired = Paired::new(self.rig.rounds(7)).repeating(3).beside_others();
        let measured = paired.rounds(|_, round| {
            let one = |multiple| trial(self.rig, self.driver, flags, multiple, self.offer(multiple));
            let (best, last) = (one(best)?, one(last)?);
            if let Some(reason) = [&best, &last].into_iter().find_map(Point::disturbed) {
                round.set_aside(reason);
            }
            round.put("", KEPT, last.delivered / best.delivered.max(1.0));
            anyhow::Ok(())
        })?;
        Ok(Some(measured))
    }
}

const KEPT: &str = "kept";

impl Point {
    /// Who had the receiver's CPU meanwhile, if that was too much. Ticks are coarse.
    fn disturbed(&self) -> Option<String> {
        let above = |key: &str, most: f64| self.found[key].as_f64().is_some_and(|share| share > most);
        let is_disturbed = above("others_share", 0.08) || above("steal_share", 0.05);
        is_disturbed.then(|| "others had the receiver's CPU".to_owned())
    }
}

/// What leaves while twice as much comes as ever will: the reference of the multiples.
pub(super) fn capacity(rig: &Rig, driver: &str) -> Result<f64> {
    let words = |rate| Offer::steady(rate, 400);
    let first = trial(rig, driver, CONTENDERS[0].1, 1.0, words(400_000.0))?;
    // Of a slower machine that was more than enough; of a faster one it was not.
    let again = trial(rig, driver, CONTENDERS[0].1, 1.0, words((2.0 * first.delivered).max(1_000.0)))?;
    Ok(again.delivered.max(first.delivered).max(1_000.0))
}

/// Of the trials with the same load, the one that delivered the median.
fn middle(sweeps: &[Vec<Point>]) -> Vec<Point> {
    let loads = sweeps.first().map_or(0, Vec::len);
    let of = |load: usize| {
        let points = || sweeps.iter().filter_map(|sweep| sweep.get(load));
        let median = Estimate::of(points().map(|point| point.delivered))?.median;
        points().find(|point| point.delivered == median).cloned()
    };
    (0..loads).filter_map(of).collect()
}

fn trial(rig: &Rig, driver: &str, flags: &str, multiple: f64, offer: Offer) -> Result<Point> {
    let window = offer.length().as_micros();
    let words = format!("stages r0 out --driver {driver} --rules {RULES} {flags} --window {window}us");
    let (found, offered) = rig.received(&words, &[(0, offer)])?;
    let delivered = found["delivered_pps"].as_f64().unwrap_or(0.0);
    Ok(Point { multiple, offered: offered[0].pps, delivered, found })
}

/// The multiple below the highest that delivered the most, and the highest; nothing is known where the generator was much
/// too slow.
fn ends(points: &[Point]) -> Option<(f64, f64)> {
    let (last, lower) = points.split_last()?;
    let best = lower.iter().max_by(|one, other| one.delivered.total_cmp(&other.delivered))?;
    (reached(points) >= 0.5 * last.multiple).then_some((best.multiple, last.multiple))
}

/// How many times the capacity was offered at the most.
fn reached(points: &[Point]) -> f64 {
    let unit = points.first().map_or(0.0, |first| first.offered / first.multiple);
    points.last().filter(|_| unit > 0.0).map_or(0.0, |last| last.offered / unit)
}

const COLUMNS: [(&str, usize); 14] = [
    ("", 0),
    ("x capacity", 2),
    ("offered kpps", 1),
    ("delivered kpps", 1),
    ("dropped: ring and interface", 0),
    ("queue", 0),
    ("output", 0),
    ("p50 µs", 0),
    ("p99 µs", 0),
    ("deviation µs", 0),
    ("CPU %", 0),
    ("CPU µs/packet", 1),
    ("others there, at most %", 0),
    ("asleep", 0),
];

fn rows(table: &mut Table, name: &str, points: &[Point]) {
    for Point { multiple, offered, delivered, found } in points {
        let dropped = |key: &str| found["dropped"][key].as_f64().unwrap_or(0.0);
        let micros = |key: &str| found["latency_ns"][key].as_f64().map(|nanos| nanos / 1e3);
        let share = |key: &str| found[key].as_f64().unwrap_or(0.0);
        table.row([
            name.into(),
            (*multiple).into(),
            (offered / 1e3).into(),
            (delivered / 1e3).into(),
            (dropped("ring") + dropped("interface")).into(),
            dropped("queue").into(),
            (dropped("output") + dropped("failed")).into(),
            micros("p50").into(),
            micros("p99").into(),
            micros("stddev").into(),
            (100.0 * share("cpu_share")).into(),
            (1e6 * share("cpu_share") / delivered.max(1.0)).into(),
            (100.0 * (share("others_share") + share("steal_share"))).into(),
            found["wakeups"].as_f64().into(),
        ]);
    }
}

/// Some ten microseconds' worth, so that the generator reaches five times the capacity beside the kernel's own work.
pub(super) const RULES: usize = 12_000;

/// What the column of others has in it.
const OTHERS: &str = "Others there: the host, and what ran on that processor and was neither the receiver nor the kernel's thread \
     for packets. An interrupt that finds the processor idle is nobody's, and is among them; so it is the most that they had.";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn points(of: &[(f64, f64, f64)]) -> Vec<Point> {
        let point = |&(multiple, offered, delivered): &(f64, f64, f64)| Point {
            multiple,
            offered,
            delivered,
            found: Value::Null,
        };
        of.iter().map(point).collect()
    }

    #[test]
    fn the_median_trial_stands_for_its_load() {
        let sweeps = [3.0, 9.0, 4.0].map(|delivered| points(&[(1.0, 10.0, delivered), (5.0, 50.0, 1.0)]));
        let delivered: Vec<f64> = middle(&sweeps).iter().map(|point| point.delivered).collect();
        assert_eq!(delivered, [4.0, 1.0]);
    }

    #[test]
    fn the_best_lower_rate_is_compared_with_the_highest_if_that_was_there() {
        let full = points(&[(0.5, 50.0, 50.0), (1.0, 100.0, 100.0), (2.0, 200.0, 96.0), (5.0, 490.0, 120.0)]);
        assert_eq!(ends(&full), Some((1.0, 5.0)));
        let weak = points(&[(0.5, 50.0, 50.0), (5.0, 200.0, 93.0)]);
        assert_eq!((ends(&weak), ends(&[])), (None, None));
    }

    #[test]
    fn a_pair_beside_others_does_not_count() {
        let point = |others: f64, steal: f64| Point {
            multiple: 1.0,
            offered: 1.0,
            delivered: 1.0,
            found: json!({ "others_share": others, "steal_share": steal }),
        };
        let is_quiet = |point: Point| point.disturbed().is_none();
        assert!(is_quiet(point(0.05, 0.01)) && !is_quiet(point(0.3, 0.0)) && !is_quiet(point(0.0, 0.3)));
    }
}
