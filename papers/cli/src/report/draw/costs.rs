//! The cost of timers on this machine, next to the papers'.

use super::super::saved::Runs;
use super::super::value::{number, rows, tamed, text};
use super::{Cell, cell, log, or_lacks, ranked, shown};
use softtimers_run::page::digits::digits;
use softtimers_run::page::figure::{Drawn, Grid, Mark, Series};

/// Draws the costs, and lists which features of the kernel work.
pub(crate) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let Some(doctor) = or_lacks(runs.only("doctor"), drawn) else { return };
    let cost = |key: &str| number(doctor, &format!("costs.{key}"));
    let costs = COSTS.iter().filter_map(|&(key, name, _)| Some((name.to_owned(), cost(key)?)));
    let text_below = "One mark for each operation, sorted; the axis is logarithmic.";
    let (marks, places) = ranked(
        "What a timer event costs here",
        text_below,
        log("CPU time", "ns"),
        "operation",
        costs.collect(),
    );
    let here = Series::of(Mark::Points, 0, "this machine", places).unless(runs.against("doctor", ""));
    drawn.figure(marks.with([here]));
    let mut table = Grid::new("Costs", &["operation", "here (ns)", "in the papers (300 to 500 MHz)"]);
    for (key, name, paper) in COSTS {
        table.row([name.to_owned(), digits(cost(key)), paper.to_owned()]);
    }
    drawn.table(table);
    let mut late = Grid::new("How late a wake-up is", &["timer slack", "p50 (µs)", "p99 (µs)", "p99.9 (µs)"]);
    for (key, name) in [("wakeup_late_default_ns", "the default, 50 µs"), ("wakeup_late_slack1_ns", "1 ns")]
    {
        let at = |quantile| cell(doctor, &format!("costs.{key}.{quantile}"), Cell::Micros);
        late.row([name.to_owned(), at("p50"), at("p99"), at("p999")]);
    }
    drawn.table(late);
    let mut features = Grid::new("Which kernel features work here", &["feature", "works", "seen by"]);
    for feature in rows(doctor, "features").iter().take(64) {
        let works = feature.get("works").and_then(serde_json::Value::as_bool);
        let works = works.map_or("–", |works| if works { "yes" } else { "no" });
        features.row([shown(feature, "name"), works.to_owned(), shown(feature, "how")]);
    }
    drawn.table(features);
    let verdict = text(doctor, "verdict");
    if !verdict.is_empty() && runs.unfit("doctor").is_none() {
        drawn.note(format!("The doctor's verdict: {}", tamed(verdict)));
    }
}

/// A key of `costs`, its meaning, and the papers' value.
const COSTS: [(&str, &str, &str); 8] = [
    ("clock_read_ns", "reading the clock", ""),
    ("tsc_read_ns", "reading the time stamp counter", ""),
    ("turn_ns", "a clock check, nothing due", ""),
    ("soft_event_ns", "a soft timer event", "next to nothing (soft timers, 5.1)"),
    ("syscall_ns", "a system call", ""),
    ("timer_arm_ns", "arming a kernel timer", ""),
    ("wakeup_cpu_ns", "a wake-up by epoll_pwait2", ""),
    (
        "timer_signal_cpu_ns",
        "a timer signal",
        "4,450 for a hardware timer's interrupt; 800 for the APIC's (soft timers, 5.1 and 5.9)",
    ),
];
