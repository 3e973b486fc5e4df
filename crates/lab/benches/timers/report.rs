//! The tables of what was measured, and what is asked of ours.

use std::collections::BTreeMap;

use softtimers_measure::bar::Bar;
use softtimers_measure::paired::{Measured, Round};
use softtimers_measure::result::Table;

/// Figures of one contender on one workload, by name. None if it could not take part.
pub(crate) type Figures = BTreeMap<String, f64>;

/// The table of a workload: those who took part, and all figures that there are.
pub(crate) fn table(workload: &str, contenders: &[&'static str], measured: &Measured) -> Table {
    let all = || measured.all().into_iter().flatten().flat_map(Round::figures);
    let mut figures: Vec<&str> = all().map(|(_, name, _)| name).collect();
    figures.sort_unstable();
    figures.dedup();
    let columns: Vec<(&str, usize)> = figures.into_iter().map(|name| (name, 1)).collect();
    let present = contenders.iter().filter(|name| all().any(|(row, ..)| row == **name));
    let mut table = Table::of(workload, measured, present, &columns);
    for Asked { ours, figure, most, peer, .. } in BARS.iter().filter(|bar| bar.workload == workload) {
        let (what, measured) = match peer {
            None => (format!("{workload}: {ours}, {figure}"), measured.estimate(ours, figure)),
            Some(peer) => (
                format!("{workload}: {ours}, {figure}, against {peer}'s"),
                measured.ratio(figure, ours, peer),
            ),
        };
        table.bar(Bar::at_most(what, *most, measured));
    }
    table
}

/// What ours may cost at most: of a peer's figure, or in itself.
struct Asked {
    workload: &'static str,
    ours: &'static str,
    figure: &'static str,
    most: f64,
    peer: Option<&'static str>,
}

const fn against(
    workload: &'static str,
    ours: &'static str,
    figure: &'static str,
    most: f64,
    peer: &'static str,
) -> Asked {
    Asked { workload, ours, figure, most, peer: Some(peer) }
}

const fn absolute(workload: &'static str, ours: &'static str, figure: &'static str, most: f64) -> Asked {
    Asked { workload, ours, figure, most, peer: None }
}

const OURS: &str = "softtimers";
const KEYED: &str = "softtimers keyed";
const QUEUE: &str = "DelayQueue";
const HEAP: &str = "BinaryHeap";

const BARS: &[Asked] = &[
    against("W1/0", OURS, "set_cancel_ns", 0.2, QUEUE),
    against("W1/0", OURS, "set_cancel_ns", 1.6, HEAP),
    against("W1/1000", OURS, "set_cancel_ns", 0.2, QUEUE),
    against("W1/1000", OURS, "set_cancel_ns", 1.6, HEAP),
    against("W1/1000000", OURS, "set_cancel_ns", 0.2, QUEUE),
    against("W1/1000000", OURS, "set_cancel_ns", 1.6, HEAP),
    against("W1R/1000000", OURS, "rearm_ns", 0.65, HEAP),
    against("W1R/1000000", OURS, "rearm_ns", 0.5, "Sleep::reset"),
    against("W2/1000000", OURS, "insert_ns", 0.55, QUEUE),
    against("W2/1000000", OURS, "expire_ns", 0.2, QUEUE),
    absolute("W2/1000000", OURS, "bytes", 36.0 + 4.0),
    against("W3/1000000", OURS, "step_ns", 0.22, QUEUE),
    against("W3/1000000", KEYED, "step_ns", 0.12, QUEUE),
    against("W4/10000", OURS, "step_ns", 0.16, QUEUE),
    against("W4/10000", OURS, "step_ns", 0.25, HEAP),
    against("W4/100000", OURS, "step_ns", 0.16, QUEUE),
    against("W4/100000", OURS, "step_ns", 0.25, HEAP),
    against("W4/1", OURS, "step_ns", 1.6, HEAP),
    against("W4/1", OURS, "leap_ns", 1.6, HEAP),
    against("W4/8", OURS, "leap_ns", 1.6, HEAP),
    against("W4/64", OURS, "step_ns", 1.6, HEAP),
    against("W4/64", OURS, "leap_ns", 1.6, HEAP),
    absolute("W5/1000000", OURS, "same_ns", 1.5),
    absolute("W5/1000000", OURS, "moving_ns", 1.5),
    absolute("W5/1000000", OURS, "poll_at_ns", 1.5),
    absolute("stalls/1000000", OURS, "advance_max_ns", 5_000.0),
    absolute("stalls/1000000", OURS, "rearm_max_ns", 5_000.0),
];
