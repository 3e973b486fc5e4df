//! Timer structures: the callouts of BSD as a paper rebuilt them, and the wheel beside its peers of today.

use std::collections::BTreeMap;

use serde_json::Value;
use softtimers_measure::result::Results;

use super::super::digits::digits;
use super::super::figure::{Drawn, Figure, Grid, Mark, Series};
use super::super::finding::Finding;
use super::super::saved::{Runs, number, rows, tamed, text};
use super::{curves, linear, log, of, or_lacks, ranked};

/// Table I and figure 8 of Costello and Varghese.
pub(in super::super) fn callouts(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-callout"), drawn) else { return };
    let all = rows(found, "rows");
    let cost = Figure::new(
        "Setting and cancelling a callout (Table I)",
        "A line for each facility, by the number of callouts outstanding. Hollow marks are the paper's.",
        linear("callouts outstanding", "callouts"),
        linear("set and cancel", "µs"),
    );
    let outstanding = of("outstanding");
    let (ours, paper) =
        ((&outstanding as _, &of("set_cancel_us") as _), (&outstanding as _, &of("paper_us") as _));
    let cost = cost.with(curves(all, "kernel", str::to_owned, ours, Some(paper)));
    drawn.findings.extend(Finding::lowest_at_the_end(&cost));
    drawn.figure(cost);
    drawn.note("The model counts the entries passed; their cost is two fitted constants; the paper's own line is 136.7 µs and 1.324 µs for each callout outstanding.");
}

/// What `cargo bench -p softtimers-lab --bench timers -- --json FILE` has written.
pub(in super::super) fn peers(runs: &Runs, drawn: &mut Drawn) {
    let Some(bench) = or_lacks(runs.whole("timers"), drawn) else {
        drawn.note("The peers are no part of this command. cargo bench -p softtimers-lab --bench timers -- --json DIR/timers.json measures them, in the sources; --from DIR then shows them here.");
        return;
    };
    if text(bench, "schema") != Results::SCHEMA {
        return drawn.lacks("timers: not written by the bench of timer structures");
    }
    let medians = medians(bench);
    for &(key, prefix, title, what) in WORKLOADS {
        let mut lines: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for median in medians.iter().filter(|median| median.key == key) {
            let size = median.workload.strip_prefix(prefix).and_then(|size| size.parse::<f64>().ok());
            let point = size.map(|size| (size.max(1.0), median.value));
            lines.entry(median.contender).or_default().extend(point);
        }
        let lines = lines.into_iter().enumerate().map(|(at, (contender, mut points))| {
            points.sort_by(|one, next| one.0.total_cmp(&next.0));
            Series::line(at, tamed(contender), points)
        });
        let drawing = Figure::new(title, what, log("timers", "count"), log("CPU time", "ns")).with(lines);
        drawn.findings.extend(Finding::lowest_at_the_end(&drawing));
        drawn.figure(drawing);
    }
    let longest = medians.iter().filter(|median| median.key.contains("longest"));
    let longest: Vec<_> = longest.map(|median| (tamed(median.contender), median.value)).collect();
    if !longest.is_empty() {
        let text = "The longest single call while levels turn over and time jumps, a mark for each structure; sorted.";
        let (marks, places) =
            ranked("The longest single call", text, log("longest call", "ns"), "structure", longest);
        drawn.figure(marks.with([Series::of(Mark::Points, 0, "longest call", places)]));
    }
    let mut table = Grid::new("All medians", &["workload", "structure", "figure", "median"]);
    for Median { workload, contender, key, value } in medians {
        table.row([tamed(workload), tamed(contender), tamed(key), digits(Some(value))]);
    }
    drawn.table(table);
}

/// A figure of a structure under a workload, over all rounds.
struct Median<'a> {
    workload: &'a str,
    contender: &'a str,
    key: &'a str,
    value: f64,
}

/// Of a result file, in which a table has a workload's name, a row for each structure and a column for each figure.
fn medians(bench: &Value) -> Vec<Median<'_>> {
    let mut medians = vec![];
    for table in rows(bench, "tables") {
        let workload = text(table, "key");
        for row in rows(table, "rows") {
            let contender = row.get(0).and_then(Value::as_str).unwrap_or_default();
            let figures = rows(table, "columns").iter().zip(row.as_array().into_iter().flatten()).skip(1);
            medians.extend(figures.filter_map(|(key, cell)| {
                let value = number(cell, "median")?;
                Some(Median { workload, contender, key: key.as_str().unwrap_or_default(), value })
            }));
        }
    }
    medians
}

/// A figure of the bench, the workloads that have it by size, and what it shows.
const WORKLOADS: &[(&str, &str, &str, &str)] = &[
    (
        "set_cancel_ns",
        "W1/",
        "Setting and cancelling a timer among N",
        "A line for each structure, by how many other timers are pending.",
    ),
    (
        "step_ns",
        "W3/",
        "A step of N connections' time-outs",
        "A line for each structure: one connection is re-armed a microsecond, and one time-out in twenty expires.",
    ),
];
