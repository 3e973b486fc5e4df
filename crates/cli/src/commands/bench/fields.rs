//! The labels of a report about overload.

use softtimers_run::field::{CPU, Field, field};

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[OVERLOAD];

const OVERLOAD: &[Field] = &[
    field("work", "time", "Cost of the filter per datagram, before and after the trials."),
    field("MLFRR", "pps", "The maximum loss-free receive rate, confirmed by a longer trial."),
    field("capacity", "pps", "The highest rate delivered in a trial of the search."),
    field("load", "", "The rate as a multiple of the capacity."),
    field("offered", "pps", "Datagrams sent."),
    field("burst", "packets", "Datagrams that the sender sent back to back."),
    field("delivered", "pps", "Datagrams that the receiver finished in the trial."),
    field("left", "pps", "Datagrams finished only after the trial."),
    field(
        "ring, queue, output",
        "pps",
        "Datagrams dropped there: the receive buffer, the queue between stages, the filter and the output.",
    ),
    field("p50, p99", "time", "Latency from the kernel's receive time."),
    field("timer", "share", "The share of its expiries at which a 20 ms timer of the loop fired."),
    CPU,
    field("else", "share", "The share of a CPU that other work got next to the receiver."),
    field(
        "overload",
        "",
        "Behaviour under overload: ideal, stable or livelock, and the rate delivered at the highest load.",
    ),
    field(
        "20 ms timer",
        "share",
        "The smallest share of its expiries at which the timer fired, over all points.",
    ),
    field(
        "no progress",
        "share",
        "The largest share of a point's time with input and no progress for 10 ms.",
    ),
];
