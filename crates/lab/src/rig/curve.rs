//! `stages`: offered against delivered, where each packet costs a walk through a list of rules; in one stage and in two.

use anyhow::Result;
use serde_json::{Value, json};

use super::trial::{Amount, Offer, Rig};
use super::{Effort, Found, plot};
use crate::measure::figures::Bar;
use crate::measure::trials::{median, quiet};

/// A contender: its letter in the plot, its name, and its flags.
type Contender = (char, &'static str, &'static str);

const CONTENDERS: [Contender; 6] = [
    ('h', "completion, hybrid", "--kind completion --mode hybrid"),
    ('f', "feedback", "--kind feedback --mode hybrid"),
    ('n', "naive", "--kind naive"),
    ('p', "completion, poll", "--kind completion --mode poll"),
    ('i', "completion, interrupt", "--kind completion --mode interrupt"),
    ('x', "completion, hip", "--kind completion --mode hip"),
];

/// What one trial has come to.
#[derive(Clone, Debug)]
struct Point {
    multiple: f64,
    offered: f64,
    delivered: f64,
    found: Value,
}

pub(super) fn stages(rig: &Rig, effort: Effort) -> Result<Found> {
    let bursts: &[u32] = if effort.quick { &[1] } else { &[1, 4] };
    let (mut bars, mut figures) = (Vec::new(), Vec::new());
    for driver in ["packet", "xdp"] {
        let capacity = capacity(rig, driver)?;
        println!(
            "### Two stages, {RULES} rules, {driver}: capacity {:.0} kpps\n\n{OTHERS}\n",
            capacity / 1e3
        );
        for &burst in bursts {
            let setting = Setting { rig, effort, driver, capacity, burst };
            setting.steady(&mut bars, &mut figures)?;
            setting.short(&mut figures)?;
        }
    }
    Ok(Found { bars, figures: json!(figures) })
}

/// What contenders are compared under.
struct Setting<'a> {
    rig: &'a Rig,
    effort: Effort,
    driver: &'static str,
    capacity: f64,
    burst: u32,
}

impl Setting<'_> {
    fn multiples(&self) -> &'static [f64] {
        if self.effort.quick {
            &[0.5, 1.0, 2.0, 5.0]
        } else {
            &[0.2, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0]
        }
    }

    /// Trials of some time.
    fn steady(&self, bars: &mut Vec<Bar>, figures: &mut Vec<Value>) -> Result<()> {
        let Setting { effort, driver, burst, .. } = *self;
        let mut curves = Vec::new();
        println!("{}", head(burst));
        for &(letter, name, flags) in if effort.quick { &CONTENDERS[..3] } else { &CONTENDERS[..] } {
            let is_judged = CONTENDERS[..2].iter().any(|of| of.0 == letter);
            // Those with bars are repeated: a shared machine's speed drifts.
            let rounds = if effort.quick || !is_judged { 1 } else { 3 };
            let sweeps = (0..rounds).map(|_| self.sweep(flags, |multiple| self.offer(multiple)));
            let points = medians(sweeps.collect::<Result<_>>()?);
            print!("{}", rows(letter, name, &points));
            figures.push(object(driver, burst, name, &points));
            if is_judged {
                let most = reached(&points);
                let kept = self.kept(flags, &points)?;
                let figure = format!(
                    "two stages, {driver}, bursts of {burst}, {name}: at {most:.1} x capacity, of the peak"
                );
                bars.push(Bar::at_least(figure, 0.92, median(&kept, |&kept| Some(kept))));
                figures.push(json!({ "driver": driver, "burst": burst, "contender": name, "kept": kept }));
            }
            curves.push((letter, shape(&points)));
        }
        let drawn: Vec<_> = curves.iter().map(|(letter, points)| (*letter, &points[..])).collect();
        println!("\n```text\n{}```\n", plot::text(&drawn));
        Ok(())
    }

    /// The paper's trials: so short that the rings hold much of one. Those of three contenders.
    fn short(&self, figures: &mut Vec<Value>) -> Result<()> {
        let Setting { driver, capacity, burst, .. } = *self;
        println!("Trials of 10,000 packets:\n\n{}", head(burst));
        for &(letter, name, flags) in &CONTENDERS[..3] {
            let offer = |multiple: f64| Offer {
                burst,
                amount: Amount::Packets(10_000),
                ..Offer::steady(multiple * capacity, 0)
            };
            let points = self.sweep(flags, offer)?;
            print!("{}", rows(letter, name, &points));
            figures.push(object(driver, burst, &format!("{name}, 10,000 packets"), &points));
        }
        println!();
        Ok(())
    }

    fn offer(&self, multiple: f64) -> Offer {
        let millis = if self.effort.quick { 300 } else { 500 };
        Offer { burst: self.burst, ..Offer::steady(multiple * self.capacity, millis) }
    }

    fn sweep(&self, flags: &str, offer: impl Fn(f64) -> Offer) -> Result<Vec<Point>> {
        let trial = |&multiple: &f64| trial(self.rig, self.driver, flags, multiple, offer(multiple));
        self.multiples().iter().map(trial).collect()
    }

    /// What the highest rate delivers of what the best lower one does. The largest of several figures that scatter is too
    /// large by itself; so the sweep says only which rate that was, and here both are measured anew, one right after the
    /// other, which a machine whose speed drifts does not tell apart. Pairs beside which others ran do not count.
    fn kept(&self, flags: &str, points: &[Point]) -> Result<Vec<f64>> {
        let Some((best, last)) = ends(points) else { return Ok(Vec::new()) };
        let pairs = quiet(if self.effort.quick { 3 } else { 7 }, Pair::is_quiet, || {
            let one = |multiple| trial(self.rig, self.driver, flags, multiple, self.offer(multiple));
            Ok(Pair { best: one(best)?, last: one(last)? })
        })?;
        Ok(pairs.iter().map(|pair| pair.last.delivered / pair.best.delivered.max(1.0)).collect())
    }
}

/// Two trials, one right after the other.
struct Pair {
    best: Point,
    last: Point,
}

impl Pair {
    fn is_quiet(&self) -> bool {
        [&self.best, &self.last].iter().all(|point| {
            let most = |key: &str, most: f64| point.found[key].as_f64().is_none_or(|share| share <= most);
            // Ticks are coarse.
            most("others_share", 0.08) && most("steal_share", 0.05)
        })
    }
}

/// What leaves while twice as much comes as ever will: the reference of the multiples.
pub(super) fn capacity(rig: &Rig, driver: &str) -> Result<f64> {
    let words = |rate| Offer::steady(rate, 400);
    let first = trial(rig, driver, CONTENDERS[0].2, 1.0, words(400_000.0))?;
    // Of a slower machine that was more than enough; of a faster one it was not.
    let again = trial(rig, driver, CONTENDERS[0].2, 1.0, words((2.0 * first.delivered).max(1_000.0)))?;
    Ok(again.delivered.max(first.delivered).max(1_000.0))
}

/// Of the trials with the same load, the one that delivered the median.
fn medians(sweeps: Vec<Vec<Point>>) -> Vec<Point> {
    let loads = sweeps.first().map_or(0, Vec::len);
    let middle = |load: usize| {
        let mut points: Vec<&Point> = sweeps.iter().filter_map(|sweep| sweep.get(load)).collect();
        points.sort_by(|one, other| one.delivered.total_cmp(&other.delivered));
        points.get(points.len() / 2).map(|point| (*point).clone())
    };
    (0..loads).filter_map(middle).collect()
}

fn trial(rig: &Rig, driver: &str, flags: &str, multiple: f64, offer: Offer) -> Result<Point> {
    let window = offer.length().as_micros();
    let words = format!("stages r0 out --driver {driver} --rules {RULES} {flags} --window {window}us");
    let (found, offered) = rig.received(&words, &[(0, offer)])?;
    let delivered = found["delivered_pps"].as_f64().unwrap_or(0.0);
    Ok(Point { multiple, offered: offered[0].pps, delivered, found })
}

fn shape(points: &[Point]) -> Vec<(f64, f64)> {
    points.iter().map(|point| (point.offered, point.delivered)).collect()
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

fn head(burst: u32) -> String {
    format!(
        "| bursts of {burst} | x capacity | offered kpps | delivered kpps | dropped: ring and interface, queue, output | latency p50 / p99 / deviation µs | processor | µs of it a packet | others there, at most | asleep |\n|---|---|---|---|---|---|---|---|---|---|"
    )
}

fn rows(letter: char, name: &str, points: &[Point]) -> String {
    let mut text = String::new();
    for Point { multiple, offered, delivered, found } in points {
        let dropped = |key: &str| found["dropped"][key].as_u64().unwrap_or(0);
        let micros = |key: &str| {
            found["latency_ns"][key].as_f64().map_or("–".to_owned(), |nanos| format!("{:.0}", nanos / 1e3))
        };
        let share = |key: &str| found[key].as_f64().unwrap_or(0.0);
        text += &format!(
            "| {letter} {name} | {multiple} | {:.1} | {:.1} | {}, {}, {} | {} / {} / {} | {:.0}% | {:.1} | {:.0}% | {} |\n",
            offered / 1e3,
            delivered / 1e3,
            dropped("ring") + dropped("interface"),
            dropped("queue"),
            dropped("output") + dropped("failed"),
            micros("p50"),
            micros("p99"),
            micros("stddev"),
            100.0 * share("cpu_share"),
            1e6 * share("cpu_share") / delivered.max(1.0),
            100.0 * (share("others_share") + share("steal_share")),
            found["wakeups"],
        );
    }
    text
}

fn object(driver: &str, burst: u32, name: &str, points: &[Point]) -> Value {
    let points: Vec<_> = points
        .iter()
        .map(|point| {
            json!({
                "multiple": point.multiple, "offered_pps": point.offered, "delivered_pps": point.delivered,
                "found": point.found,
            })
        })
        .collect();
    json!({ "driver": driver, "burst": burst, "contender": name, "points": points })
}

/// Some ten microseconds' worth, so that the generator reaches five times the capacity beside the kernel's own work.
pub(super) const RULES: usize = 12_000;

/// What the column of others has in it.
const OTHERS: &str = "Others there: the host, and what ran on that processor and was neither the receiver nor the kernel's thread \
     for packets. An interrupt that finds the processor idle is nobody's, and is among them; so it is the most that they had.";

#[cfg(test)]
mod tests {
    use super::*;

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
        let delivered: Vec<f64> = medians(sweeps.to_vec()).iter().map(|point| point.delivered).collect();
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
        let is_quiet = |last| Pair { best: point(0.01, 0.0), last }.is_quiet();
        assert!(is_quiet(point(0.05, 0.01)) && !is_quiet(point(0.3, 0.0)) && !is_quiet(point(0.0, 0.3)));
    }
}
