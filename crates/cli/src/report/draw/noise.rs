//! What holds a computation up, and what that does to a job of many nodes; and what waking up often costs.

use serde_json::Value;

use super::super::axis::{Axis, Scale};
use super::super::figure::{Drawn, Grid, Mark, Series, digits, percent};
use super::super::saved::{Runs, number, rows, tamed, text};
use super::{figure, linear, log, of, or_lacks, points, with_series};

/// The calibrated loop of this machine, and jobs of its phases.
pub(in super::super) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let Some(noise) = or_lacks(runs.only("noise"), drawn) else { return };
    let fifo = noise.get("fifo").filter(|fifo| fifo.is_object());
    let classes =
        || std::iter::once((0, "ordinary class", noise)).chain(fifo.map(|fifo| (1, "SCHED_FIFO", fifo)));
    let millis = |row: &Value| number(row, "ns").map(|nanos| nanos / 1e6);
    let cdf = classes()
        .map(|(at, name, found)| Series::line(at, name, points(rows(found, "cdf"), of("share"), millis)));
    let what = "How long phases of each rank take at most; without noise the line is flat.";
    let x = Axis::new("phases that take no longer", "%", Scale::Nines);
    drawn.figure(with_series(
        figure("A computation of 1 ms, over and over (figure 3)", what, x, log("duration", "ms")),
        cdf,
    ));
    let survival = classes().map(|(at, name, found)| {
        Series::line(at, name, points(rows(found, "survival"), of("times"), of("share")))
    });
    let what = "The share of phases that take longer than so many times the median.";
    let title = "Phases that take longer";
    // The paper's Pentium 4: one phase in a hundred takes 1.6 times as long.
    let paper = Series::of(Mark::Paper, 0, "periodic timers, P4 2.8 GHz", [(1.6, 0.01)]);
    drawn.figure(with_series(
        figure(title, what, log("duration", "medians"), log("phases", "share")),
        survival.chain([paper]),
    ));
    let slowdown = classes().map(|(at, name, found)| {
        Series::line(
            at,
            format!("this machine, {name}"),
            points(rows(found, "slowdown"), of("nodes"), of("factor")),
        )
    });
    let model = runs
        .only("sim-noise")
        .map_or_else(|_| vec![], |found| points(rows(found, "rows"), of("nodes"), of("slowdown")));
    let model = Series::line(2, "1% of phases 1.6 times as long, simulated", model);
    let what = "How much longer a job takes whose phases last as long as the slowest of its nodes.";
    let title = "A bulk-synchronous job of so many nodes";
    drawn.figure(with_series(
        figure(title, what, log("nodes", "count"), log("slowdown", "times")),
        slowdown.chain([model]),
    ));
    let mut table =
        Grid::new("Why phases were delayed", &["class", "cause", "phases", "delay (ms)", "longest (ms)"]);
    for (_, class, found) in classes() {
        for caused in rows(found, "causes") {
            let millis = |key| digits(number(caused, key).map(|nanos| nanos / 1e6));
            let cells = [
                tamed(text(caused, "cause")),
                digits(number(caused, "phases")),
                millis("delay_ns"),
                millis("longest_ns"),
            ];
            table.row(std::iter::once(class.to_owned()).chain(cells));
        }
        let delayed = percent(number(found, "p_delayed"));
        let explained = percent(number(found, "explained"));
        drawn
            .note(format!("{class}: {delayed} of the phases are delayed, {explained} of them with a cause."));
    }
    if table.rows.is_empty() {
        drawn.note("No phase was delayed.");
    } else {
        drawn.table(table);
    }
    drawn.note("The paper: with one phase in a hundred delayed, a job of 100 nodes is undelayed in 0.99^100 = 37% of its phases; p must be an order of magnitude below 1/n. Leaving one processor of each node idle takes most of the noise away (section 2.2).");
}

/// Overhead by the rate of wake-ups.
pub(in super::super) fn overhead(runs: &Runs, drawn: &mut Drawn) {
    let Some(noise) = or_lacks(runs.only("rates"), drawn) else { return };
    let all = rows(noise, "rates");
    let ways = super::values(all, "method");
    for (key, title, name) in [
        ("overhead", "Overhead by the rate of wake-ups", "work lost"),
        ("cpu_share", "Processor time by the rate of wake-ups", "processor"),
    ] {
        let lines = ways.iter().enumerate().map(|(at, way)| {
            let share = |row: &Value| number(row, key).map(|share| share * 100.0);
            Series::line(at, way, points(super::with(all, "method", way), of("rate_hz"), share))
        });
        let what = "A line for each way to wake up: what a higher rate costs.";
        if all.iter().any(|row| number(row, key).is_some()) {
            drawn.figure(with_series(figure(title, what, log("wake-ups", "1/s"), linear(name, "%")), lines));
        }
    }
}
