//! The kernel's trigger states: soft timers' Tables IV and V and its figures 2 and 3, for this kernel.

use serde_json::Value;

use super::super::saved::Runs;
use super::super::value::{number, rows};
use super::{Cell, GREY, cell, log, or_lacks, percentile, table};
use softtimers_run::page::digits::digits;
use softtimers_run::page::figure::{Drawn, Figure, Grid, Mark, Series};

/// Draws the intervals.
pub(crate) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let Some(probe) = or_lacks(runs.only("probe"), drawn) else { return };
    let cpus = rows(probe, "cpus");
    let lines = cpus.iter().take(DRAWN).enumerate();
    let lines =
        lines.map(|(at, cpu)| Series::line(at, name(cpu), intervals(cpu)).unless(runs.unfit("probe")));
    if cpus.len() > DRAWN {
        let left = cpus.len() - DRAWN;
        drawn.lacks(format!("the figure has the first {DRAWN} CPUs; {left} more are in the tables alone"));
    }
    // The paper's worst workload: median 18 µs, and less than 6% beyond 100 µs.
    let paper = Series::of(Mark::Paper, GREY, "soft timers, ST-Apache", [(0.5, 18.0), (0.94, 100.0)]);
    let text = "Percentiles of the intervals between trigger states; two of the paper's are beside them. Lower is better.";
    let drawing =
        Figure::new("Intervals between trigger states", text, percentile("intervals"), log("interval", "µs"));
    drawn.figure(drawing.with(lines).with([paper]));
    let columns = [
        ("mean (µs)", "interval_ns.mean", Cell::Micros),
        ("median (µs)", "interval_ns.p50", Cell::Micros),
        ("standard deviation (µs)", "interval_ns.stddev", Cell::Micros),
        ("over 100 µs", "over_100us", Cell::Percent),
        ("over 150 µs", "over_150us", Cell::Percent),
        ("longest (µs)", "interval_ns.max", Cell::Micros),
    ];
    let mut both = Grid::new("The columns of Tables IV and V", &["where"]);
    both.head.extend(columns.map(|column| column.0.to_owned()));
    for cpu in cpus.iter().take(64) {
        let cells = columns.iter().map(|column| cell(cpu, column.1, column.2));
        both.row(std::iter::once(name(cpu)).chain(cells));
    }
    for [name, mean, median, over, longest] in PAPER {
        both.row([name, mean, median, "–", over, "–", longest].map(str::to_owned));
    }
    drawn.table(both);
    windows_and_sources(cpus, drawn);
    drawn.note("No interval of the paper's is longer than 1 ms, as Varghese's Network Algorithmics (section 7.9) has it; the paper's own tables are lost.");
    drawn.note("Intervals in which a CPU has nothing to do are counted apart: there the backup timer is the only trigger state, and it is exact.");
}

/// Returns the distribution function by the counted buckets, or the percentiles of a run that has only these.
fn intervals(cpu: &Value) -> Vec<(f64, f64)> {
    let buckets = rows(cpu, "interval_cdf").iter();
    let buckets: Vec<(f64, f64)> =
        buckets.filter_map(|point| Some((number(point, "share")?, number(point, "ns")? / 1e3))).collect();
    if !buckets.is_empty() {
        return buckets;
    }
    let shares = [("p1", 0.01), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];
    let point =
        |&(key, share): &(&str, f64)| Some((share, number(cpu, &format!("interval_ns.{key}"))? / 1e3));
    shares.iter().filter_map(point).collect()
}

/// Tabulates the medians of windows, and the sources that ended the intervals.
fn windows_and_sources(cpus: &[Value], drawn: &mut Drawn) {
    let head = ["where", "window", "p1 (µs)", "p50 (µs)", "p99 (µs)"];
    let mut medians = Grid::new("Medians of windows (figure 3)", &head);
    for cpu in cpus.iter().take(64) {
        for (key, window) in [("median_1ms_ns", "1 ms"), ("median_10ms_ns", "10 ms")] {
            let at = |quantile: &str| cell(cpu, &format!("{key}.{quantile}"), Cell::Micros);
            medians.row([name(cpu), window.to_owned(), at("p1"), at("p50"), at("p99")]);
        }
    }
    drawn.table(medians);
    let sources = cpus.first().map_or(&[][..], |cpu| rows(cpu, "sources")).iter().take(32);
    let columns = [
        ("source", "name", Cell::Text),
        ("share", "share", Cell::Percent),
        ("mean (µs)", "interval_ns.mean", Cell::Micros),
    ];
    drawn.table(table("Trigger states that ended the intervals of the first CPU", sources, &columns));
}

fn name(cpu: &Value) -> String {
    format!("CPU {}", digits(number(cpu, "cpu")))
}

/// The paper's text about its tables: name, mean, median, share beyond 100 µs, longest.
const PAPER: [[&str; 5]; 3] = [
    ["soft timers: worst workload, 300 MHz", "31.6", "18", "under 6%", "–"],
    ["soft timers: Flash, 300 MHz", "22.53", "–", "–", "–"],
    ["soft timers: Flash, 500 MHz", "12.45", "–", "–", "–"],
];
/// The CPUs in the figure, each with a colour different from the paper's.
const DRAWN: usize = GREY;
