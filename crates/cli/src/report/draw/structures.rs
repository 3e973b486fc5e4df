//! Timer structures: the callouts of BSD as a paper rebuilt them, and the wheel beside its peers of today.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::axis::{Axis, Scale};
use super::super::figure::{Drawn, Grid, Mark, Series, digits};
use super::super::saved::{Runs, number, rows, tamed, text};
use super::{figure, linear, log, of, or_lacks, points, values, with, with_series};

/// Table I and figure 8 of Costello and Varghese.
pub(in super::super) fn callouts(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-callout"), drawn) else { return };
    let all = rows(found, "rows");
    let mut cost = figure(
        "Setting and cancelling a callout (Table I)",
        "A line for each facility: the old list grows with what is outstanding, the wheel does not. Hollow marks are the paper's.",
        linear("callouts outstanding", "callouts"),
        linear("set and cancel", "µs"),
    );
    for (at, kernel) in values(all, "kernel").iter().enumerate() {
        let of_kernel = || with(all, "kernel", kernel);
        cost.series.push(Series::line(
            at,
            kernel,
            points(of_kernel(), of("outstanding"), of("set_cancel_us")),
        ));
        let paper = points(of_kernel(), of("outstanding"), of("paper_us"));
        cost.series.push(Series::of(Mark::Paper, at, format!("{kernel}, paper"), paper));
    }
    drawn.figure(cost);
    drawn.note("The model counts entries that are passed and prices them by two constants that were fitted; the paper's own line is 136.7 µs and 1.324 µs for each callout outstanding.");
}

/// What `cargo bench -p softtimers-bench --bench timers -- --json FILE` has written.
pub(in super::super) fn peers(runs: &Runs, drawn: &mut Drawn) {
    let Some(bench) = or_lacks(runs.whole("timers"), drawn) else {
        drawn.note("The peers are no part of this command. cargo bench -p softtimers-bench --bench timers -- --json DIR/timers.json measures them, in the sources; --from DIR then shows them here.");
        return;
    };
    if text(bench, "schema") != "softtimers.bench.timers/1" {
        return drawn.lacks("timers: not written by the bench of timer structures");
    }
    let none = serde_json::Map::new();
    let workloads = bench.get("rounds").and_then(Value::as_object).unwrap_or(&none);
    for (figure_key, prefix, title, what) in [
        (
            "set_cancel_ns",
            "W1/",
            "Setting and cancelling a timer among so many",
            "A line for each structure, by how many other timers are pending.",
        ),
        (
            "step_ns",
            "W3/",
            "A step of so many connections' time-outs",
            "A line for each structure: one connection is re-armed a microsecond, and one time-out in twenty expires.",
        ),
    ] {
        let mut lines: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for (workload, contenders) in workloads {
            let Some(size) = workload.strip_prefix(prefix).and_then(|size| size.parse::<f64>().ok()) else {
                continue;
            };
            for (contender, rounds) in contenders.as_object().into_iter().flatten() {
                let rounds = rounds.as_array().into_iter().flatten();
                let mut found: Vec<f64> = rounds.filter_map(|round| number(round, figure_key)).collect();
                found.sort_by(f64::total_cmp);
                lines
                    .entry(contender)
                    .or_default()
                    .extend(found.get(found.len() / 2).map(|&median| (size.max(1.0), median)));
            }
        }
        let lines = lines.into_iter().enumerate().map(|(at, (contender, mut points))| {
            points.sort_by(|one, next| one.0.total_cmp(&next.0));
            Series::line(at, tamed(contender), points)
        });
        drawn.figure(with_series(
            figure(title, what, log("timers", "timers"), log("processor time", "ns")),
            lines,
        ));
    }
    let mut table = Grid::new("All medians", &["workload", "structure", "figure", "median"]);
    let mut longest: Vec<(String, f64)> = vec![];
    for (workload, contenders) in workloads {
        for (contender, rounds) in contenders.as_object().into_iter().flatten() {
            let rounds: Vec<&Value> = rounds.as_array().into_iter().flatten().collect();
            let keys =
                rounds.first().and_then(|round| round.as_object()).into_iter().flatten().map(|(key, _)| key);
            for key in keys {
                let mut found: Vec<f64> = rounds.iter().filter_map(|round| number(round, key)).collect();
                found.sort_by(f64::total_cmp);
                let median = found.get(found.len() / 2).copied();
                if key.contains("longest") {
                    longest.extend(median.map(|median| (tamed(contender), median)));
                }
                table.row([tamed(workload), tamed(contender), tamed(key), digits(median)]);
            }
        }
    }
    if !longest.is_empty() {
        let names = longest.iter().map(|(name, _)| name.clone()).collect();
        let bars = Series::of(
            Mark::Points,
            0,
            "longest call",
            longest.iter().enumerate().map(|(at, (_, longest))| (*longest, at as f64)),
        );
        let what =
            "The longest single call while levels turn over and time jumps, a mark for each structure.";
        let y = Axis::new("structure", "name", Scale::Names(names));
        drawn.figure(with_series(
            figure("The longest single call", what, log("longest call", "ns"), y),
            [bars],
        ));
    }
    drawn.table(table);
}
