//! How often the kernel passes trigger states: soft timers' Tables IV and V and its figures 2 and 3, of this kernel.

use serde_json::Value;

use super::super::axis::{Axis, Scale};
use super::super::digits::{digits, percent};
use super::super::figure::{Drawn, Grid, Mark, Series};
use super::super::saved::{Runs, number, rows, tamed, text};
use super::{GREY, figure, log, or_lacks, with_series};

/// The intervals.
pub(in super::super) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let Some(probe) = or_lacks(runs.only("probe"), drawn) else { return };
    let cpus = rows(probe, "cpus");
    let lines = cpus.iter().take(DRAWN).enumerate().map(|(at, cpu)| {
        let name = format!("processor {}", digits(number(cpu, "cpu")));
        Series::line(at, name, intervals(cpu)).unless(runs.unfit("probe"))
    });
    if cpus.len() > DRAWN {
        let left = cpus.len() - DRAWN;
        drawn.lacks(format!(
            "the figure has the first {DRAWN} processors; {left} more are in the tables alone"
        ));
    }
    let what = "The intervals between trigger states, as many as the run kept; two of the paper's are beside them. Lower is better.";
    let x = Axis::new("percentile of intervals", "%", Scale::Nines);
    // The paper's worst workload: median 18 µs, and less than 6% beyond 100 µs.
    let paper = Series::of(Mark::Paper, GREY, "soft timers, ST-Apache", [(0.5, 18.0), (0.94, 100.0)]);
    let title = "Intervals between trigger states";
    drawn.figure(with_series(figure(title, what, x, log("interval", "µs")), lines.chain([paper])));
    let head = [
        "where",
        "mean (µs)",
        "median (µs)",
        "standard deviation (µs)",
        "over 100 µs",
        "over 150 µs",
        "longest (µs)",
    ];
    let mut table = Grid::new("The columns of tables IV and V", &head);
    for cpu in cpus.iter().take(64) {
        let micros = |key: &str| digits(number(cpu, &format!("interval_ns.{key}")).map(|nanos| nanos / 1e3));
        table.row([
            format!("processor {}", digits(number(cpu, "cpu"))),
            micros("mean"),
            micros("p50"),
            micros("stddev"),
            percent(number(cpu, "over_100us")),
            percent(number(cpu, "over_150us")),
            micros("max"),
        ]);
    }
    for [name, mean, median, over, longest] in PAPER {
        table.row([name, mean, median, "–", over, "–", longest].map(str::to_owned));
    }
    drawn.table(table);
    windows_and_sources(cpus, drawn);
    drawn.note("No interval of the paper's is longer than 1 ms, as Varghese's Network Algorithmics (section 7.9) has it; the paper's own tables are lost.");
    drawn.note("Intervals in which a processor has nothing to do are counted apart: there the backup timer is the only trigger state, and it is exact.");
}

/// The distribution function by the buckets that were counted; percentiles of a run that has only these.
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

/// The medians of windows, and what ended the intervals.
fn windows_and_sources(cpus: &[Value], drawn: &mut Drawn) {
    let mut medians =
        Grid::new("Medians of windows (figure 3)", &["where", "window", "p1 (µs)", "p50 (µs)", "p99 (µs)"]);
    for cpu in cpus.iter().take(64) {
        for (key, window) in [("median_1ms_ns", "1 ms"), ("median_10ms_ns", "10 ms")] {
            let at =
                |quantile: &str| digits(number(cpu, &format!("{key}.{quantile}")).map(|nanos| nanos / 1e3));
            let name = format!("processor {}", digits(number(cpu, "cpu")));
            medians.row([name, window.to_owned(), at("p1"), at("p50"), at("p99")]);
        }
    }
    drawn.table(medians);
    let mut sources =
        Grid::new("What ended the intervals of the first processor", &["source", "share", "mean (µs)"]);
    for source in cpus.first().map_or(&[][..], |cpu| rows(cpu, "sources")).iter().take(32) {
        let mean = number(source, "interval_ns.mean").map(|nanos| nanos / 1e3);
        sources.row([tamed(text(source, "name")), percent(number(source, "share")), digits(mean)]);
    }
    drawn.table(sources);
}

/// What the text of the paper still says of its tables: name, mean, median, share beyond 100 µs, longest.
const PAPER: [[&str; 5]; 3] = [
    ["soft timers: worst workload, 300 MHz", "31.6", "18", "under 6%", "–"],
    ["soft timers: Flash, 300 MHz", "22.53", "–", "–", "–"],
    ["soft timers: Flash, 500 MHz", "12.45", "–", "–", "–"],
];
/// Processors of the figure, each in a colour of its own that is not the paper's.
const DRAWN: usize = GREY;
