//! Interrupts, polls, or both by the gaps between packets: HIP's Table 3, and what its two numbers trade.

use serde_json::Value;

use super::super::axis::{Axis, Scale};
use super::super::digits::{digits, percent};
use super::super::figure::{Drawn, Grid, Mark, Series};
use super::super::saved::{Runs, number, rows, tamed, text};
use super::{GREY, figure, linear, log, of, or_lacks, points, values, with, with_series};

/// Table 3.
pub(in super::super) fn table_3(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-hip"), drawn) else { return };
    let all = rows(found, "rows");
    let marks = values(all, "scheme");
    let mut trade = figure(
        "Overhead and delay on the six traces (Table 3)",
        "A mark for each trace and scheme: further left costs less, lower waits less. Hollow marks are the paper's.",
        linear("overhead", "µs per packet"),
        log("delay", "µs"),
    );
    for (at, scheme) in marks.iter().enumerate() {
        let ours = points(with(all, "scheme", scheme), of("overhead_us"), of("delay_us"));
        let paper = points(with(all, "scheme", scheme), of("paper_overhead_us"), of("paper_delay_us"));
        trade.series.push(Series::of(Mark::Points, at, scheme, ours));
        trade.series.push(Series::of(Mark::Paper, at, format!("{scheme}, paper"), paper));
    }
    drawn.figure(trade);
    let head = [
        "trace",
        "scheme",
        "overhead (µs)",
        "paper",
        "delay (µs)",
        "paper",
        "interrupts",
        "paper",
        "polls",
        "paper",
        "in vain",
        "paper",
    ];
    let mut table = Grid::new("Table 3", &head);
    for row in all {
        let cells = [
            "overhead_us",
            "paper_overhead_us",
            "delay_us",
            "paper_delay_us",
            "interrupts",
            "paper_interrupts",
            "polls",
            "paper_polls",
            "unsuccessful",
            "paper_unsuccessful",
        ];
        let words = ["source", "scheme"].map(|key| tamed(text(row, key)));
        table.row(words.into_iter().chain(cells.map(|key| digits(number(row, key)))));
    }
    drawn.table(table);
    drawn.note("The traces are synthetic: count, length and mean gap are the paper's, and how they burst was searched for against Table 3 itself. So the agreement shows that the algorithm can make this table, not that it must.");
    drawn.note("The paper's overhead of 2.6 µs for T-Med-1 is below what its own counts of interrupts and polls come to (2.8 µs).");
}

/// What gamma and phi trade.
pub(in super::super) fn trade_offs(runs: &Runs, drawn: &mut Drawn) {
    for (source, key, what) in [
        ("sim-hip-gamma", "gamma", "polled is what has a coefficient of variation below gamma"),
        ("sim-hip-phi", "phi", "periods are the mean gap and phi deviations"),
    ] {
        let Some(found) = or_lacks(runs.only(source), drawn) else { continue };
        let all = rows(found, "rows");
        let by_trace = |y: &'static str| {
            values(all, "source").into_iter().enumerate().map(move |(at, trace)| {
                Series::line(at, &trace, points(with(all, "source", &trace), of(key), of(y)))
            })
        };
        let x = || Axis::new(key, "factor", Scale::Linear);
        let middle = |y: &str| {
            let values = || all.iter().filter_map(|row| number(row, y));
            let (least, most) = (values().reduce(f64::min), values().reduce(f64::max));
            let around = |(least, most): (f64, f64)| [(2.0, least), (2.0, most), (3.0, most), (3.0, least)];
            let corners = least.zip(most).map(around).into_iter().flatten();
            Series::of(Mark::Rule, GREY, "2 to 3, the paper's good middle", corners)
        };
        let cheaper =
            format!("HIP's overhead by {key}: {what}. A line for each trace; it falls as {key} grows.");
        let title = format!("Overhead by {key}");
        drawn.figure(with_series(
            figure(&title, &cheaper, x(), linear("overhead", "µs per packet")),
            std::iter::once(middle("overhead_us")).chain(by_trace("overhead_us")),
        ));
        let slower = format!("HIP's delay by {key}: {what}. A line for each trace; it rises as {key} grows.");
        let title = format!("Delay by {key}");
        drawn.figure(with_series(
            figure(&title, &slower, x(), log("delay", "µs")),
            std::iter::once(middle("delay_us")).chain(by_trace("delay_us")),
        ));
        drawn.table(had(all, key));
        best(all, key, drawn);
    }
    drawn.note("The paper's text: a gamma between 2 and 3 is a good trade-off of overhead and delay, a phi between 2 and 3 a good middle point. Its figures 3 and 4 are lost, so that no curve of its own is beside these.");
}

/// How much of what can be had is had at a few values: of the fall from the least value to the greatest.
fn had(all: &[Value], key: &str) -> Grid {
    let head = ["trace", "of its fall by 1", "by 2", "by 3", "delay at 1 (µs)", "at 2", "at 3"];
    let mut table = Grid::new(format!("How much of the overhead's fall each {key} has"), &head);
    for trace in values(all, "source") {
        let mut falls = points(with(all, "source", &trace), of(key), of("overhead_us"));
        falls.sort_by(|one, next| one.0.total_cmp(&next.0));
        let ends = falls.first().zip(falls.last()).map(|(first, last)| (first.1, last.1));
        let share = |at: f64| {
            let cost = falls.iter().find(|point| point.0 == at)?.1;
            ends.filter(|(first, last)| first > last).map(|(first, last)| (first - cost) / (first - last))
        };
        let delay = |at: f64| {
            let row = with(all, "source", &trace).find(|row| number(row, key) == Some(at))?;
            number(row, "delay_us")
        };
        let shares = [1.0, 2.0, 3.0].map(|at| percent(share(at)));
        table.row(
            std::iter::once(trace.clone()).chain(shares).chain([1.0, 2.0, 3.0].map(|at| digits(delay(at)))),
        );
    }
    table
}

/// The least overhead of each trace, and at which value.
fn best(all: &[Value], key: &str, drawn: &mut Drawn) {
    let head = ["trace", key, "least overhead (µs)", "its delay (µs)"];
    let mut table = Grid::new(format!("The cheapest {key} of each trace"), &head);
    for trace in values(all, "source") {
        let of_trace = with(all, "source", &trace).filter_map(|row| Some((number(row, "overhead_us")?, row)));
        if let Some((_, row)) = of_trace.min_by(|one, next| one.0.total_cmp(&next.0)) {
            let cells = [key, "overhead_us", "delay_us"].map(|key| digits(number(row, key)));
            table.row(std::iter::once(trace).chain(cells));
        }
    }
    drawn.table(table);
}
