//! `stages`: offered against delivered, where each packet costs a walk through a list of rules; in one stage and in two.

use anyhow::Result;
use serde_json::{Value, json};

use super::trial::{Amount, Offer, Rig};
use super::{Effort, Found, plot};
use crate::measure::figures::Bar;

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
    let (multiples, bursts, contenders): (&[f64], &[u32], _) = if effort.quick {
        (&[0.5, 1.0, 2.0, 5.0], &[1], &CONTENDERS[..3])
    } else {
        (&[0.2, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0], &[1, 4], &CONTENDERS[..])
    };
    let millis = if effort.quick { 300 } else { 500 };
    let (mut bars, mut figures) = (Vec::new(), Vec::new());
    for driver in ["packet", "xdp"] {
        let capacity = capacity(rig, driver)?;
        println!("### Two stages, {RULES} rules, {driver}: capacity {:.0} kpps\n", capacity / 1e3);
        for &burst in bursts {
            let mut curves = Vec::new();
            for &(letter, name, flags) in contenders {
                let offer = |multiple| Offer { burst, ..Offer::steady(multiple * capacity, millis) };
                // Those with bars are repeated: a shared machine's speed drifts.
                let rounds =
                    if effort.quick || !CONTENDERS[..3].iter().any(|of| of.0 == letter) { 1 } else { 3 };
                let sweeps = (0..rounds)
                    .map(|_| sweep(rig, driver, flags, multiples.iter().map(|&m| (m, offer(m)))))
                    .collect::<Result<Vec<_>>>()?;
                let points = medians(sweeps);
                curves.push((letter, name, points));
            }
            println!("{}", table(burst, &curves));
            let drawn: Vec<_> = curves.iter().map(|(letter, _, points)| (*letter, shape(points))).collect();
            let drawn: Vec<_> = drawn.iter().map(|(letter, points)| (*letter, &points[..])).collect();
            println!("```text\n{}```\n", plot::text(&drawn));
            bars.extend(curves.iter().take(2).map(|(_, name, points)| {
                let most = reached(points);
                let figure = format!(
                    "two stages, {driver}, bursts of {burst}, {name}: at {most:.1} x capacity, of the peak"
                );
                Bar::at_least(figure, 0.92, share(points))
            }));
            figures.extend(curves.iter().map(|(_, name, points)| object(driver, burst, name, points)));
            // The paper's trials: so short that the rings hold much of one. Those of three contenders.
            let offer =
                |m: f64| Offer { burst, amount: Amount::Packets(10_000), ..Offer::steady(m * capacity, 0) };
            let mut short = Vec::new();
            for &(letter, name, flags) in &contenders[..3] {
                let points = sweep(rig, driver, flags, multiples.iter().map(|&m| (m, offer(m))))?;
                figures.push(object(driver, burst, &format!("{name}, 10,000 packets"), &points));
                short.push((letter, name, points));
            }
            println!("Trials of 10,000 packets:\n\n{}", table(burst, &short));
        }
    }
    Ok(Found { bars, figures: json!(figures) })
}

/// What leaves while twice as much comes as ever will: the reference of the multiples.
pub(super) fn capacity(rig: &Rig, driver: &str) -> Result<f64> {
    let words = |rate| Offer::steady(rate, 400);
    let first = trial(rig, driver, CONTENDERS[0].2, 1.0, words(400_000.0))?;
    // Of a slower machine that was more than enough; of a faster one it was not.
    let again = trial(rig, driver, CONTENDERS[0].2, 1.0, words((2.0 * first.delivered).max(1_000.0)))?;
    Ok(again.delivered.max(first.delivered).max(1_000.0))
}

fn sweep(
    rig: &Rig,
    driver: &str,
    flags: &str,
    offers: impl Iterator<Item = (f64, Offer)>,
) -> Result<Vec<Point>> {
    offers.map(|(multiple, offer)| trial(rig, driver, flags, multiple, offer)).collect()
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

/// What is delivered at the highest multiple, of the most; nothing is known where the generator was much too slow.
fn share(points: &[Point]) -> Option<f64> {
    let peak = points.iter().map(|point| point.delivered).fold(0.0, f64::max);
    let last = points.last().filter(|last| peak > 0.0 && reached(points) >= 0.5 * last.multiple)?;
    Some(last.delivered / peak)
}

/// How many times the capacity was offered at the most.
fn reached(points: &[Point]) -> f64 {
    let unit = points.first().map_or(0.0, |first| first.offered / first.multiple);
    points.last().filter(|_| unit > 0.0).map_or(0.0, |last| last.offered / unit)
}

fn table(burst: u32, curves: &[(char, &str, Vec<Point>)]) -> String {
    let mut text = format!(
        "| bursts of {burst} | x capacity | offered kpps | delivered kpps | dropped: ring and interface, queue, output | latency p50 / p99 / deviation µs | processor | asleep |\n|---|---|---|---|---|---|---|---|\n"
    );
    for (letter, name, points) in curves {
        for Point { multiple, offered, delivered, found } in points {
            let dropped = |key: &str| found["dropped"][key].as_u64().unwrap_or(0);
            let micros = |key: &str| {
                found["latency_ns"][key]
                    .as_f64()
                    .map_or("–".to_owned(), |nanos| format!("{:.0}", nanos / 1e3))
            };
            text += &format!(
                "| {letter} {name} | {multiple} | {:.1} | {:.1} | {}, {}, {} | {} / {} / {} | {:.0}% | {} |\n",
                offered / 1e3,
                delivered / 1e3,
                dropped("ring") + dropped("interface"),
                dropped("queue"),
                dropped("output") + dropped("failed"),
                micros("p50"),
                micros("p99"),
                micros("stddev"),
                100.0 * found["cpu_share"].as_f64().unwrap_or(0.0),
                found["wakeups"],
            );
        }
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
    fn a_share_is_of_the_peak_and_wants_the_load_to_have_been_there() {
        let full = points(&[(0.5, 50.0, 50.0), (1.0, 100.0, 100.0), (5.0, 490.0, 93.0)]);
        assert_eq!(share(&full), Some(0.93));
        let weak = points(&[(0.5, 50.0, 50.0), (5.0, 200.0, 93.0)]);
        assert_eq!(share(&weak), None);
        assert_eq!(share(&[]), None);
    }
}
