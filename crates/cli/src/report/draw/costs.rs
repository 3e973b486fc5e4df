//! What timers cost on this machine, beside what they cost the papers'.

use super::super::axis::{Axis, Scale};
use super::super::digits::digits;
use super::super::figure::{Drawn, Grid, Mark, Series};
use super::super::saved::{Runs, number, rows, tamed, text};
use super::{figure, log, or_lacks};

/// The costs, and which features of the kernel work.
pub(in super::super) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let Some(doctor) = or_lacks(runs.only("doctor"), drawn) else { return };
    let costs =
        COSTS.iter().filter_map(|&(key, name, _)| Some((name, number(doctor, &format!("costs.{key}"))?)));
    let costs: Vec<(&str, f64)> = costs.collect();
    let names =
        Axis::new("operation", "name", Scale::Names(costs.iter().map(|cost| cost.0.to_owned()).collect()));
    let points = costs.iter().enumerate().map(|(at, cost)| (cost.1, at as f64));
    let mut bars = figure(
        "What a timer event costs here",
        "One mark for each operation; further right is dearer, and a decade is as wide as another.",
        log("processor time", "ns"),
        names,
    );
    bars.series.push(Series::of(Mark::Points, 0, "this machine", points).unless(runs.unfit("doctor")));
    drawn.figure(bars);
    let mut table = Grid::new("Costs", &["operation", "here (ns)", "in the papers (300 to 500 MHz)"]);
    for (key, name, paper) in COSTS {
        let cost = number(doctor, &format!("costs.{key}"));
        table.row([name.to_owned(), digits(cost), paper.to_owned()]);
    }
    drawn.table(table);
    let mut late = Grid::new("How late a wake-up is", &["timer slack", "p50 (µs)", "p99 (µs)", "p99.9 (µs)"]);
    for (key, name) in [("wakeup_late_default_ns", "the default, 50 µs"), ("wakeup_late_slack1_ns", "1 ns")]
    {
        let at =
            |quantile| digits(number(doctor, &format!("costs.{key}.{quantile}")).map(|nanos| nanos / 1e3));
        late.row([name.to_owned(), at("p50"), at("p99"), at("p999")]);
    }
    drawn.table(late);
    let mut features = Grid::new("What this kernel really does", &["feature", "works", "seen by"]);
    for feature in rows(doctor, "features").iter().take(64) {
        let works = feature
            .get("works")
            .and_then(serde_json::Value::as_bool)
            .map_or("–", |works| if works { "yes" } else { "no" });
        features.row([tamed(text(feature, "name")), works.to_owned(), tamed(text(feature, "how"))]);
    }
    drawn.table(features);
    let verdict = text(doctor, "verdict");
    if !verdict.is_empty() {
        drawn.note(format!("The doctor's verdict: {}", tamed(verdict)));
    }
}

/// A key of `costs`, what it is, and what the papers have for it.
const COSTS: [(&str, &str, &str); 8] = [
    ("clock_read_ns", "reading the clock", ""),
    ("tsc_read_ns", "reading the time stamp counter", ""),
    ("turn_ns", "a look, nothing due", ""),
    ("soft_event_ns", "a soft timer's event", "next to nothing (soft timers, 5.1)"),
    ("syscall_ns", "a system call", ""),
    ("timer_arm_ns", "setting a kernel timer", ""),
    ("wakeup_cpu_ns", "a wake-up by epoll_pwait2", ""),
    (
        "timer_signal_cpu_ns",
        "a timer's signal",
        "4,450 for a hardware timer's interrupt; 800 for the APIC's (soft timers, 5.1 and 5.9)",
    ),
];
