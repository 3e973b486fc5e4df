//! Interrupts, polls, or both by the gaps between packets: HIP's Table 3, and the trade-offs of its two parameters.

use serde_json::Value;

use super::super::saved::Runs;
use super::super::value::{number, rows};
use super::{Cell, GREY, curves, linear, log, or_lacks, table, under};
use softtimers_run::page::axis::{Axis, Scale};
use softtimers_run::page::figure::{Drawn, Figure, Mark, Series};

/// Draws Table 3.
pub(crate) fn table_3(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-hip"), drawn) else { return };
    let all = rows(found, "rows");
    let trade = Figure::new(
        "Overhead and delay on the six traces (Table 3)",
        "A mark for each trace and scheme: further left costs less, lower waits less. Hollow marks are the paper's.",
        linear("overhead", "µs per packet"),
        log("delay", "µs"),
    );
    let ours = (&under("overhead_us") as _, &under("delay_us") as _);
    let paper = (&under("paper_overhead_us") as _, &under("paper_delay_us") as _);
    let marks = curves(all, "scheme", str::to_owned, ours, Some(paper)).into_iter();
    // The traces of a scheme have no order.
    let alone = |mark| if mark == Mark::Line { Mark::Points } else { mark };
    drawn.figure(trade.with(marks.map(|series| Series { mark: alone(series.mark), ..series })));
    let columns = [
        ("trace", "source", Cell::Text),
        ("scheme", "scheme", Cell::Text),
        ("overhead (µs)", "overhead_us", Cell::Number),
        ("paper", "paper_overhead_us", Cell::Number),
        ("delay (µs)", "delay_us", Cell::Number),
        ("paper", "paper_delay_us", Cell::Number),
        ("interrupts", "interrupts", Cell::Number),
        ("paper", "paper_interrupts", Cell::Number),
        ("polls", "polls", Cell::Number),
        ("paper", "paper_polls", Cell::Number),
        ("empty polls", "unsuccessful", Cell::Number),
        ("paper", "paper_unsuccessful", Cell::Number),
    ];
    drawn.table(table("Table 3", all, &columns));
    drawn.note("The traces are synthetic: count, length and mean gap are the paper's, and their bursts were fitted to Table 3 itself. So the agreement shows that the algorithm can produce this table, not that it must.");
    drawn.note("The paper's overhead of 2.6 µs for T-Med-1 is below what its own counts of interrupts and polls come to (2.8 µs).");
}

/// Draws overhead and delay by gamma and by phi.
pub(crate) fn trade_offs(runs: &Runs, drawn: &mut Drawn) {
    for (source, key, what) in [
        ("sim-hip-gamma", "gamma", "HIP polls streams with a coefficient of variation below gamma"),
        ("sim-hip-phi", "phi", "HIP's polling periods are the mean gap and phi deviations"),
    ] {
        let Some(found) = or_lacks(runs.only(source), drawn) else { continue };
        let all = rows(found, "rows");
        for (name, y, axis) in [
            ("Overhead", "overhead_us", linear("overhead", "µs per packet")),
            ("Delay", "delay_us", log("delay", "µs")),
        ] {
            let x = Axis::new(key, "factor", Scale::Linear);
            let figure =
                Figure::new(format!("{name} by {key}"), format!("A line for each trace; {what}."), x, axis);
            let lines = curves(all, "source", str::to_owned, (&under(key), &under(y)), None);
            drawn.figure(figure.with([middle(all, y)]).with(lines));
        }
    }
    drawn.note("The paper's text: a gamma between 2 and 3 is a good trade-off of overhead and delay, a phi between 2 and 3 a good middle point. Its figures 3 and 4 are lost, so that no curve of its own is beside these.");
}

/// Draws a frame around the paper's recommended values.
fn middle(all: &[Value], y: &str) -> Series {
    let values = || all.iter().filter_map(|row| number(row, y));
    let around = |(least, most): (f64, f64)| [(2.0, least), (2.0, most), (3.0, most), (3.0, least)];
    let corners = values().reduce(f64::min).zip(values().reduce(f64::max)).map(around);
    Series::of(Mark::Rule, GREY, "2 to 3, the paper's good middle", corners.into_iter().flatten())
}
