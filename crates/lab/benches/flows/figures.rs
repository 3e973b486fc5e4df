//! Figures of one run, the tables of all, and what is asked of them.

use serde_json::Value;
use softtimers_measure::bar::Bar;
use softtimers_measure::paired::{Measured, Round};
use softtimers_measure::result::{Cell, Table};

use crate::Load;
use crate::contender::{Contender, Sent};

/// What one run has told.
pub(crate) type Figures = Vec<(&'static str, Option<f64>)>;

/// What is compared, with its decimals; what a contender does not tell is not there.
///
/// | figure | of | |
/// |---|---|---|
/// | slowest, fastest flow | receiver | its rate, in percent of what was asked for |
/// | gap deviation | receiver | of the flow in the middle, and of the worst |
/// | longest train | receiver | datagrams of all flows in a row, closer than half of the interval they have together |
/// | back to back | receiver | the share of gaps within a flow that are shorter than half its interval |
/// | lost | receiver | datagrams |
/// | left in a turn | sender | what left at once |
/// | CPU | sender | of its thread |
/// | skipped | sender | places given up, 10 ms behind |
/// | lost the CPU | sender | departures a millisecond late for want of one: the host's, other programs', a late wake-up's |
const COLUMNS: [(&str, usize); 12] = [
    (SLOWEST, 2),
    (FASTEST, 2),
    (DEVIATION, 1),
    (WORST, 1),
    (TRAIN, 0),
    (BACK_TO_BACK, 2),
    ("left in a turn", 2),
    (CPU, 2),
    (COST, 2),
    ("lost", 0),
    ("skipped", 0),
    ("lost the CPU", 0),
];
pub(crate) const SLOWEST: &str = "slowest flow %";
pub(crate) const FASTEST: &str = "fastest flow %";
pub(crate) const DEVIATION: &str = "gap deviation, median flow µs";
pub(crate) const WORST: &str = "gap deviation, worst flow µs";
pub(crate) const TRAIN: &str = "longest train";
pub(crate) const BACK_TO_BACK: &str = "back to back %";
pub(crate) const CPU: &str = "CPU %";
pub(crate) const COST: &str = "CPU µs/packet";
const OF_HEAP: &str = "of heap's";

/// What the two ends of a run know.
pub(crate) fn told(load: &Load, sent: &Sent, received: &Value) -> Figures {
    let over = &received["over_flows"];
    let share = |key: &str| {
        over["rate_pps"][key].as_f64().map(|rate| 100.0 * rate / f64::from(load.packets_per_second))
    };
    let deviation = |key: &str| over["gap_stddev_ns"][key].as_f64().map(|nanos| nanos / 1e3);
    vec![
        (SLOWEST, share("min")),
        (FASTEST, share("max")),
        (DEVIATION, deviation("p50")),
        (WORST, deviation("max")),
        (TRAIN, over["longest_train"].as_f64()),
        (BACK_TO_BACK, received["back_to_back"].as_f64().map(|share| 100.0 * share)),
        ("lost", received["lost"].as_f64()),
        ("left in a turn", sent.per_turn),
        (CPU, Some(100.0 * sent.cpu_seconds / sent.wall_seconds)),
        (COST, (sent.packets > 0).then(|| sent.cpu_seconds * 1e6 / sent.packets as f64)),
        ("skipped", sent.forfeited.map(|places| places as f64)),
        ("lost the CPU", sent.lost_processor.map(|departures| departures as f64)),
    ]
}

/// Notes what one contender has told.
pub(crate) fn put(round: &mut Round, contender: Contender, figures: Figures) {
    figures.into_iter().for_each(|(name, figure)| round.put(contender.name(), name, figure));
}

/// The table of a load, with its bars.
pub(crate) fn table(load: &Load, measured: &Measured) -> Table {
    let present = load.contenders.iter().map(|contender| contender.name());
    let present = present.filter(|name| measured.estimate(name, COST).is_some());
    let mut table = Table::of(&load.name(), measured, present, &COLUMNS);
    table.columns.push(OF_HEAP.to_owned());
    table.decimals.push(3);
    for row in &mut table.rows {
        let Cell::Text(name) = &row[0] else { continue };
        let ratio = measured.ratio(COST, name, Contender::Heap.name());
        row.push(ratio.into());
    }
    bars(load, measured).into_iter().for_each(|bar| table.bar(bar));
    table
}

/// What is asked of softtimers under one load.
fn bars(load: &Load, measured: &Measured) -> Vec<Bar> {
    let called = |what: &str| format!("{}: {what}", load.name());
    let soft = |name| measured.estimate(Contender::Soft.name(), name);
    let against = |peer: Contender| measured.ratio(COST, Contender::Soft.name(), peer.name());
    match (load.flows, load.packets_per_second) {
        (1, 1) => vec![Bar::at_most(called("CPU %"), 0.1, soft(CPU))],
        (1, _) => vec![Bar::at_most(called("back to back %"), 3.0, soft(BACK_TO_BACK))],
        _ => vec![
            Bar::at_least(called("rate of the slowest flow, %"), 99.9, soft(SLOWEST)),
            Bar::at_most(called("rate of the fastest flow, %"), 100.1, soft(FASTEST)),
            Bar::at_most(called("gap deviation of the median flow, µs"), 20.0, soft(DEVIATION)),
            Bar::at_most(called("gap deviation of the worst flow, µs"), 20.0, soft(WORST)),
            Bar::at_most(called("longest train over all flows"), 8.0, soft(TRAIN)),
            Bar::at_most(called("CPU per packet, against the heap loop's"), 1.1, against(Contender::Heap)),
            Bar::at_most(
                called("CPU per packet, against one timerfd a flow"),
                1.0,
                against(Contender::TimerfdEach),
            ),
        ],
    }
}
