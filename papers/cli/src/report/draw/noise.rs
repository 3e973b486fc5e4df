//! Delays of a computation, their effect on a job of many nodes, and the cost of frequent wake-ups.

use serde_json::Value;

use super::super::saved::Runs;
use super::super::value::{number, rows};
use super::{Cell, Column, Get, cell, log, or_lacks, percentile, points, shown, times, under};
use softtimers_run::page::axis::{Axis, Scale};
use softtimers_run::page::figure::{Drawn, Figure, Grid, Mark, Series};

/// Draws the calibrated loop of this machine, and jobs of its phases.
pub(crate) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let Some(noise) = or_lacks(runs.only("noise"), drawn) else { return };
    let fifo = noise.get("fifo").filter(|fifo| fifo.is_object());
    let classes =
        || std::iter::once((0, "ordinary class", noise)).chain(fifo.map(|fifo| (1, "SCHED_FIFO", fifo)));
    let lines = |key: &'static str, x: Get<'_>, y: Get<'_>| {
        let line = |(at, name, found)| Series::line(at, name, points(rows(found, key), x, y));
        classes().map(line).map(|line| line.unless(runs.unfit("noise"))).collect::<Vec<_>>()
    };
    let phases = Figure::new(
        "A computation of 1 ms, over and over (figure 3)",
        "Percentiles of the length of a phase; without noise the line is flat.",
        percentile("phases"),
        log("duration", "ms"),
    );
    drawn.figure(phases.with(lines("cdf", &under("share"), &times(1e-6, "ns"))));
    let longer = Figure::new(
        "Phases that take longer",
        "The share of phases that take longer than a multiple of the median.",
        log("duration", "medians"),
        log("phases", "share"),
    );
    // The paper's Pentium 4: one phase in a hundred takes 1.6 times as long.
    let paper = Series::of(Mark::Paper, 0, "periodic timers, P4 2.8 GHz", [(1.6, 0.01)]);
    drawn.figure(longer.with(lines("survival", &under("times"), &under("share"))).with([paper]));
    let model = or_lacks(runs.only("sim-noise"), drawn).map(|found| {
        let model = points(rows(found, "rows"), under("nodes"), under("slowdown"));
        Series::line(2, "1% of phases 1.6 times as long, simulated", model)
    });
    let job = Figure::new(
        "Slowdown of a bulk-synchronous job by its nodes",
        "Slowdown of a job whose phases last as long as the slowest of its nodes.",
        log("nodes", "count"),
        log("slowdown", "times"),
    );
    let here = lines("slowdown", &under("nodes"), &under("factor")).into_iter();
    let here = here.map(|line| Series { name: format!("this machine, {}", line.name), ..line });
    drawn.figure(job.with(here).with(model));
    causes(classes(), drawn);
    drawn.note("The paper: with one phase in a hundred delayed, a job of 100 nodes is undelayed in 0.99^100 = 37% of its phases; p must be an order of magnitude below 1/n. Leaving one CPU of each node idle takes most of the noise away (section 2.2).");
}

/// Tabulates why phases were delayed, under each class.
fn causes<'a>(classes: impl Iterator<Item = (usize, &'static str, &'a Value)>, drawn: &mut Drawn) {
    let head = ["class", "cause", "phases", "delay (ms)", "longest (ms)"];
    let mut table = Grid::new("Why phases were delayed", &head);
    for (_, class, found) in classes {
        for caused in rows(found, "causes") {
            let cells = [
                class.to_owned(),
                shown(caused, "cause"),
                cell(caused, "phases", Cell::Number),
                cell(caused, "delay_ns", Cell::Millis),
                cell(caused, "longest_ns", Cell::Millis),
            ];
            table.row(cells);
        }
        let [delayed, explained] = ["p_delayed", "explained"].map(|key| cell(found, key, Cell::Percent));
        drawn
            .note(format!("{class}: {delayed} of the phases are delayed, {explained} of them with a cause."));
    }
    if table.rows.is_empty() {
        drawn.note("No phase was delayed.");
    } else {
        drawn.table(table);
    }
}

/// Draws the overhead by the rate of wake-ups: of a periodic tick, and of smart timers that may be late by half its
/// period.
pub(crate) fn overhead(runs: &Runs, drawn: &mut Drawn) {
    let Some(noise) = or_lacks(runs.only("rates"), drawn) else { return };
    let all = rows(noise, "rates");
    for (title, what, (name, unit, scale), key) in RATE_FIGURES {
        let of_way = |row: &Value, way: &str| {
            let value = number(row, &format!("{way}{key}"))?;
            Some(match *key {
                "work_kept" => (1.0 - value) * 100.0,
                "cpu_share" => value * 100.0,
                _ => value,
            })
        };
        if all.iter().any(|row| WAYS.iter().any(|way| of_way(row, way.2).is_some())) {
            let lines = WAYS.iter().map(|&(at, name, way)| {
                let points = points(all, under("hz"), |row| of_way(row, way));
                Series::line(at, name, points).unless(runs.unfit("rates"))
            });
            let y = Axis::new(*name, *unit, scale.clone());
            drawn.figure(Figure::new(*title, *what, log("rate", "Hz"), y).with(lines));
        }
    }
    if number(noise, "idle.watts").is_none() {
        drawn.note("Energy is not counted on this machine (no RAPL), so wake-ups and CPU time stand for it.");
    }
    drawn.table(rate_table(all));
    as_late(all, drawn);
    drawn.note("The paper: a tick fast enough for less than a millisecond costs up to half of the throughput (2.1); an idle CPU took least, 4.77 W, at 266 to 500 Hz (2.3).");
}

/// Tabulates every rate, with both methods.
fn rate_table(all: &[Value]) -> Grid {
    const COLUMNS: [Column<'_>; 6] = [
        ("wake-ups (1/s)", "wakeups_per_s", Cell::Number),
        ("CPU", "cpu_share", Cell::Percent),
        ("throughput retained", "work_kept", Cell::Percent),
        ("ns per wake-up, all in all", "overhead_ns_per_wakeup", Cell::Number),
        ("lateness p50 (µs)", "lateness_ns.p50", Cell::Micros),
        ("p99 (µs)", "lateness_ns.p99", Cell::Micros),
    ];
    let mut table = Grid::new("The cost of each rate", &["rate (Hz)", "way"]);
    table.head.extend(COLUMNS.map(|column| column.0.to_owned()));
    for (row, &(_, name, way)) in all.iter().flat_map(|row| WAYS.iter().map(move |way| (row, way))) {
        let cells = COLUMNS.map(|(_, key, kind)| cell(row, &format!("{way}{key}"), kind));
        table.row([cell(row, "hz", Cell::Number), name.to_owned()].into_iter().chain(cells));
    }
    table
}

/// Notes where the medians differ by more than a quarter: then the costs are not of timers with the same lateness.
fn as_late(all: &[Value], drawn: &mut Drawn) {
    let differ = all.iter().filter(|row| {
        let [tick, smart] = ["lateness_ns.p50", "smart.lateness_ns.p50"].map(|key| number(row, key));
        tick.zip(smart).is_some_and(|(tick, smart)| !(0.8..=1.25).contains(&(smart / tick)))
    });
    let differ: Vec<String> = differ.map(|row| cell(row, "hz", Cell::Number)).collect();
    if !differ.is_empty() {
        let at = differ.join(", ");
        drawn.note(format!("Not as late in this run: at {at} Hz the median lateness of the two differs by more than a quarter, so their costs there are not of equally punctual timers."));
    }
}

/// Colour, name, and the key of its figures.
type Way = (usize, &'static str, &'static str);

/// A tick, and timers with half of its period as slack.
const WAYS: [Way; 2] = [(0, "a periodic tick", ""), (1, "smart timers, slack of half a period", "smart.")];

/// Title, text, quantity, and its key.
type RateFigure = (&'static str, &'static str, (&'static str, &'static str, Scale), &'static str);
const RATE_FIGURES: &[RateFigure] = &[
    (
        "Throughput lost by the rate of wake-ups",
        "The share of its throughput that a computation beside the wake-ups loses.",
        ("throughput lost", "%", Scale::Linear),
        "work_kept",
    ),
    (
        "CPU time of the wake-ups",
        "CPU time of the wake-ups, without their effect on the caches.",
        ("CPU", "% of one core", Scale::Linear),
        "cpu_share",
    ),
    (
        "Wake-ups of an idle CPU",
        "Wake-ups of an idle CPU from its sleep states.",
        ("wake-ups", "1/s", Scale::Log),
        "idle.wakeups_per_s",
    ),
    (
        "Power of an idle machine (figure 4)",
        "All packages together, where the machine counts energy.",
        ("power", "W", Scale::Linear),
        "idle.watts",
    ),
];
