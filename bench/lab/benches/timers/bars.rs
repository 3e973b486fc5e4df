//! The most that ours may cost: absolutely, or as a share of a peer's figure.

use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Measured;

const OURS: &str = "softtimers";
const KEYED: &str = "softtimers keyed";
const QUEUE: Option<&str> = Some("DelayQueue");
const HEAP: Option<&str> = Some("BinaryHeap");
const RESET: Option<&str> = Some("Sleep::reset");

/// Workload, contender, figure, limit, and the peer that the limit is relative to.
const BARS: [(&str, &str, &str, f64, Option<&str>); 28] = [
    ("W1/0", OURS, "set_cancel_ns", 0.2, QUEUE),
    ("W1/0", OURS, "set_cancel_ns", 1.6, HEAP),
    ("W1/1000", OURS, "set_cancel_ns", 0.2, QUEUE),
    ("W1/1000", OURS, "set_cancel_ns", 1.6, HEAP),
    ("W1/1000000", OURS, "set_cancel_ns", 0.2, QUEUE),
    ("W1/1000000", OURS, "set_cancel_ns", 1.6, HEAP),
    ("W1R/1000000", OURS, "rearm_ns", 0.65, HEAP),
    ("W1R/1000000", OURS, "rearm_ns", 0.5, RESET),
    ("W2/1000000", OURS, "insert_ns", 0.55, QUEUE),
    ("W2/1000000", OURS, "expire_ns", 0.2, QUEUE),
    ("W2/1000000", OURS, "bytes", 36.0 + 4.0, None),
    ("W3/1000000", OURS, "step_ns", 0.22, QUEUE),
    ("W3/1000000", KEYED, "step_ns", 0.12, QUEUE),
    ("W4/10000", OURS, "step_ns", 0.16, QUEUE),
    ("W4/10000", OURS, "step_ns", 0.25, HEAP),
    ("W4/100000", OURS, "step_ns", 0.16, QUEUE),
    ("W4/100000", OURS, "step_ns", 0.25, HEAP),
    ("W4/1", OURS, "step_ns", 1.6, HEAP),
    ("W4/1", OURS, "leap_ns", 1.6, HEAP),
    ("W4/8", OURS, "leap_ns", 1.6, HEAP),
    ("W4/64", OURS, "step_ns", 1.6, HEAP),
    ("W4/64", OURS, "leap_ns", 1.6, HEAP),
    ("W5/1000000", OURS, "same_ns", 1.5, None),
    ("W5/1000000", OURS, "moving_ns", 1.5, None),
    ("W5/1000000", OURS, "poll_at_ns", 1.5, None),
    ("stalls/1000000", OURS, "advance_max_ns", 5_000.0, None),
    ("stalls/1000000", OURS, "rearm_max_ns", 5_000.0, None),
    ("stalls/1000000", OURS, "set_max_ns", 5_000.0, None),
];

/// Returns the bars of a workload.
pub(crate) fn of(workload: &str, measured: &Measured) -> impl Iterator<Item = Bar> {
    BARS.iter().filter(move |bar| bar.0 == workload).map(|&(workload, ours, figure, most, peer)| match peer {
        None => Bar::at_most(format!("{workload}: {ours}, {figure}"), most, measured.estimate(ours, figure)),
        Some(peer) => {
            let what = format!("{workload}: {ours}, {figure}, against {peer}'s");
            Bar::at_most(what, most, measured.ratio(figure, ours, peer))
        }
    })
}
