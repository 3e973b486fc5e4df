//! What holds a computation up, and what that does to a job of many nodes; and what waking up often costs.

use serde_json::Value;

use super::super::axis::{Axis, Scale};
use super::super::digits::{digits, percent};
use super::super::figure::{Drawn, Grid, Mark, Series};
use super::super::saved::{Runs, number, rows, tamed, text};
use super::{figure, log, of, or_lacks, points, with_series};

/// The calibrated loop of this machine, and jobs of its phases.
pub(in super::super) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let Some(noise) = or_lacks(runs.only("noise"), drawn) else { return };
    let fifo = noise.get("fifo").filter(|fifo| fifo.is_object());
    let classes =
        || std::iter::once((0, "ordinary class", noise)).chain(fifo.map(|fifo| (1, "SCHED_FIFO", fifo)));
    let millis = |row: &Value| number(row, "ns").map(|nanos| nanos / 1e6);
    let cdf = classes().map(|(at, name, found)| {
        Series::line(at, name, points(rows(found, "cdf"), of("share"), millis)).unless(runs.unfit("noise"))
    });
    let what = "How long phases of each rank take at most; without noise the line is flat.";
    let x = Axis::new("percentile of phases", "%", Scale::Nines);
    drawn.figure(with_series(
        figure("A computation of 1 ms, over and over (figure 3)", what, x, log("duration", "ms")),
        cdf,
    ));
    let survival = classes().map(|(at, name, found)| {
        Series::line(at, name, points(rows(found, "survival"), of("times"), of("share")))
            .unless(runs.unfit("noise"))
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
        .unless(runs.unfit("noise"))
    });
    let model = or_lacks(runs.only("sim-noise"), drawn).map(|found| {
        let model = points(rows(found, "rows"), of("nodes"), of("slowdown"));
        Series::line(2, "1% of phases 1.6 times as long, simulated", model)
    });
    let what = "How much longer a job takes whose phases last as long as the slowest of its nodes.";
    let title = "A bulk-synchronous job of so many nodes";
    drawn.figure(with_series(
        figure(title, what, log("nodes", "count"), log("slowdown", "times")),
        slowdown.chain(model),
    ));
    causes(classes(), drawn);
    drawn.note("The paper: with one phase in a hundred delayed, a job of 100 nodes is undelayed in 0.99^100 = 37% of its phases; p must be an order of magnitude below 1/n. Leaving one processor of each node idle takes most of the noise away (section 2.2).");
}

/// Why phases were delayed, under each class.
fn causes<'a>(classes: impl Iterator<Item = (usize, &'static str, &'a Value)>, drawn: &mut Drawn) {
    let head = ["class", "cause", "phases", "delay (ms)", "longest (ms)"];
    let mut table = Grid::new("Why phases were delayed", &head);
    for (_, class, found) in classes {
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
        let [delayed, explained] = ["p_delayed", "explained"].map(|key| percent(number(found, key)));
        drawn
            .note(format!("{class}: {delayed} of the phases are delayed, {explained} of them with a cause."));
    }
    if table.rows.is_empty() {
        drawn.note("No phase was delayed.");
    } else {
        drawn.table(table);
    }
}

/// Overhead by the rate of wake-ups: a periodic tick, and smart timers that are as late.
pub(in super::super) fn overhead(runs: &Runs, drawn: &mut Drawn) {
    let Some(noise) = or_lacks(runs.only("rates"), drawn) else { return };
    let all = rows(noise, "rates");
    let ways = ways(all);
    for (title, what, (name, unit, scale), key) in RATE_FIGURES {
        let of_way = |row: &Value, way: &str| {
            let value = number(row, &format!("{way}{key}"))?;
            Some(match *key {
                "work_kept" => (1.0 - value) * 100.0,
                "cpu_share" => value * 100.0,
                _ => value,
            })
        };
        if all.iter().any(|row| ways.iter().any(|way| of_way(row, way.2).is_some())) {
            let lines = ways.iter().map(|&(at, name, way)| {
                Series::line(at, name, points(all, of("hz"), |row| of_way(row, way)))
                    .unless(runs.unfit("rates"))
            });
            let y = Axis::new(*name, *unit, scale.clone());
            drawn.figure(with_series(figure(title, what, log("rate", "Hz"), y), lines));
        }
    }
    if number(noise, "idle.watts").is_none() {
        drawn.note("Energy is not counted on this machine (no RAPL), so that wake-ups and processor time stand for it.");
    }
    drawn.table(rate_table(all, &ways));
    as_late(all, drawn);
    drawn.note("The paper: a tick fast enough for less than a millisecond costs up to half of the throughput (2.1); an idle processor took least, 4.77 W, at 266 to 500 Hz (2.3).");
}

/// Every rate, both ways.
fn rate_table(all: &[Value], ways: &[Way]) -> Grid {
    let head = [
        "rate (Hz)",
        "way",
        "wake-ups (1/s)",
        "processor",
        "work kept",
        "ns per wake-up, all in all",
        "lateness p50 (µs)",
        "p99 (µs)",
    ];
    let mut table = Grid::new("What each rate costs", &head);
    for (row, &(_, name, way)) in all.iter().flat_map(|row| ways.iter().map(move |way| (row, way))) {
        let at = |key: &str| number(row, &format!("{way}{key}"));
        let micros = |key| digits(at(key).map(|nanos| nanos / 1e3));
        table.row([
            digits(number(row, "hz")),
            name.to_owned(),
            digits(at("wakeups_per_s")),
            percent(at("cpu_share")),
            percent(at("work_kept")),
            digits(at("overhead_ns_per_wakeup")),
            micros("lateness_ns.p50"),
            micros("lateness_ns.p99"),
        ]);
    }
    table
}

/// How late each way is stands in the table; where the medians differ by more than a quarter it is said.
fn as_late(all: &[Value], drawn: &mut Drawn) {
    let median =
        |row: &Value, way: &str| number(row, &format!("{way}lateness_ns.p50")).map(|nanos| nanos / 1e3);
    for row in all {
        let (tick, smart) = (median(row, ""), median(row, "smart."));
        if tick.zip(smart).is_some_and(|(tick, smart)| !(0.8..=1.25).contains(&(smart / tick))) {
            let [hz, tick, smart] = [number(row, "hz"), tick, smart].map(digits);
            drawn.note(format!("Not as late in this run: at {hz} Hz the tick's timers are {tick} µs late at the median, the smart ones {smart} µs."));
        }
    }
}

/// Colour, name, and where its figures are.
type Way = (usize, &'static str, &'static str);

/// A tick, and timers with half of its period as slack; runs of before that was so have a whole one.
fn ways(all: &[Value]) -> [Way; 2] {
    let halved = all.first().is_none_or(|row| number(row, "smart_slack_ns").is_some());
    let smart =
        if halved { "smart timers, as late at the median" } else { "smart timers with a slack of a period" };
    [(0, "a periodic tick", ""), (1, smart, "smart.")]
}

/// Title, text, what is measured, and its key.
type RateFigure = (&'static str, &'static str, (&'static str, &'static str, Scale), &'static str);
const RATE_FIGURES: &[RateFigure] = &[
    (
        "Work lost by the rate of wake-ups",
        "What a computation beside the wake-ups loses.",
        ("work lost", "%", Scale::Linear),
        "work_kept",
    ),
    (
        "Processor time of the wake-ups",
        "What waking up takes of the processor, without what it does to the caches.",
        ("processor", "%", Scale::Linear),
        "cpu_share",
    ),
    (
        "Wake-ups of an idle processor",
        "How often a processor with nothing to do is woken, which is what its sleep states are spoiled by.",
        ("wake-ups", "1/s", Scale::Log),
        "idle.wakeups_per_s",
    ),
    (
        "Power of an idle machine (figure 4)",
        "Of all packages, where the machine counts energy.",
        ("power", "W", Scale::Linear),
        "idle.watts",
    ),
];
