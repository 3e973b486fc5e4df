//! Tables, bars and JSON of what was measured.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::family::Workload;

/// Figures of one contender on one workload, by name. None if it could not take part.
pub(crate) type Measured = BTreeMap<String, f64>;

/// All figures: for each workload and contender those of each round.
#[derive(Default, Debug)]
pub(crate) struct Results {
    rounds: BTreeMap<Workload, BTreeMap<&'static str, Vec<Measured>>>,
}

impl Results {
    pub(crate) fn add(&mut self, workload: &Workload, contender: &'static str, measured: Measured) {
        self.rounds.entry(*workload).or_default().entry(contender).or_default().push(measured);
    }

    /// The median over the rounds.
    pub(crate) fn median(&self, workload: &str, contender: &str, figure: &str) -> Option<f64> {
        let workload: Workload = workload.parse().ok()?;
        median(self.rounds.get(&workload)?.get(contender)?, figure)
    }

    /// A Markdown table for each workload.
    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        for (workload, contenders) in &self.rounds {
            let mut figures: Vec<&String> = contenders.values().flatten().flat_map(BTreeMap::keys).collect();
            figures.sort();
            figures.dedup();
            let _ = writeln!(text, "### {workload}\n\n| contender |{}", heads(&figures));
            let _ = writeln!(text, "|---|{}", "---|".repeat(figures.len()));
            for (contender, rounds) in contenders {
                let cell = |figure: &&String| {
                    median(rounds, figure).map_or("–".into(), |value| format!("{value:.1}"))
                };
                let cells: Vec<String> = figures.iter().map(cell).collect();
                let _ = writeln!(text, "| {contender} | {} |", cells.join(" | "));
            }
            text.push('\n');
        }
        text
    }

    /// All rounds of each contender on each workload.
    pub(crate) fn to_json(&self) -> Value {
        let workloads = self.rounds.iter().map(|(workload, all)| (workload.to_string(), json!(all)));
        Value::Object(workloads.collect())
    }
}

fn heads(figures: &[&String]) -> String {
    figures.iter().map(|figure| format!(" {} |", figure.replace('_', " "))).collect()
}

fn median(rounds: &[Measured], figure: &str) -> Option<f64> {
    let mut values: Vec<f64> = rounds.iter().filter_map(|round| round.get(figure).copied()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// What ours may cost at most: of a peer's figure, or in itself.
struct Bar {
    workload: &'static str,
    ours: &'static str,
    figure: &'static str,
    most: f64,
    peer: Option<&'static str>,
}

const fn against(
    workload: &'static str,
    ours: &'static str,
    figure: &'static str,
    most: f64,
    peer: &'static str,
) -> Bar {
    Bar { workload, ours, figure, most, peer: Some(peer) }
}

const fn absolute(workload: &'static str, ours: &'static str, figure: &'static str, most: f64) -> Bar {
    Bar { workload, ours, figure, most, peer: None }
}

const OURS: &str = "softtimers";
const KEYED: &str = "softtimers keyed";
const QUEUE: &str = "DelayQueue";
const HEAP: &str = "BinaryHeap";

const BARS: &[Bar] = &[
    against("W1/0", OURS, "set_cancel_ns", 0.2, QUEUE),
    against("W1/0", OURS, "set_cancel_ns", 1.6, HEAP),
    against("W1/1000", OURS, "set_cancel_ns", 0.2, QUEUE),
    against("W1/1000", OURS, "set_cancel_ns", 1.6, HEAP),
    against("W1/1000000", OURS, "set_cancel_ns", 0.2, QUEUE),
    against("W1/1000000", OURS, "set_cancel_ns", 1.6, HEAP),
    against("W1R/1000000", OURS, "rearm_ns", 0.65, HEAP),
    against("W1R/1000000", OURS, "rearm_ns", 0.5, "Sleep::reset"),
    against("W2/1000000", OURS, "insert_ns", 0.55, QUEUE),
    against("W2/1000000", OURS, "expire_ns", 0.2, QUEUE),
    absolute("W2/1000000", OURS, "bytes", 36.0 + 4.0),
    against("W3/1000000", OURS, "step_ns", 0.22, QUEUE),
    against("W3/1000000", KEYED, "step_ns", 0.12, QUEUE),
    against("W4/10000", OURS, "step_ns", 0.16, QUEUE),
    against("W4/10000", OURS, "step_ns", 0.25, HEAP),
    against("W4/100000", OURS, "step_ns", 0.16, QUEUE),
    against("W4/100000", OURS, "step_ns", 0.25, HEAP),
    against("W4/1", OURS, "step_ns", 1.6, HEAP),
    against("W4/1", OURS, "leap_ns", 1.6, HEAP),
    against("W4/8", OURS, "leap_ns", 1.6, HEAP),
    against("W4/64", OURS, "step_ns", 1.6, HEAP),
    against("W4/64", OURS, "leap_ns", 1.6, HEAP),
    absolute("W5/1000000", OURS, "same_ns", 1.5),
    absolute("W5/1000000", OURS, "moving_ns", 1.5),
    absolute("W5/1000000", OURS, "poll_at_ns", 1.5),
    absolute("stalls/1000000", OURS, "advance_max_ns", 5_000.0),
    absolute("stalls/1000000", OURS, "rearm_max_ns", 5_000.0),
];

/// Which bars hold; one of which a side is missing says so.
pub(crate) fn bars(results: &Results) -> String {
    let mut text = String::from(
        "### Bars\n\n| workload | figure | measured | at most | holds |\n|---|---|---|---|---|\n",
    );
    for Bar { workload, ours, figure, most, peer } in BARS {
        let own = results.median(workload, ours, figure);
        let (measured, of) = match peer {
            None => (own, String::new()),
            Some(peer) => {
                let other = results.median(workload, peer, figure);
                (own.zip(other).map(|(own, other)| own / other), format!(" × {peer}"))
            }
        };
        let (shown, holds) = match measured {
            Some(measured) => (format!("{measured:.2}"), if measured <= *most { "yes" } else { "**no**" }),
            None => ("–".into(), "not measured"),
        };
        let _ = writeln!(text, "| {workload} | {ours}, {figure} | {shown} | {most}{of} | {holds} |");
    }
    text
}
