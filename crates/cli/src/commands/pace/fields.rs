//! The labels of the report of paced connections.

use softtimers_run::field::{Field, field};

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[PACED];

const PACED: &[Field] = &[
    field("connections", "connections", "Connections that were given a window and a pace."),
    field("active at once", "connections", "The most among which rate and window were divided at a moment."),
    field("window restored", "times", "Flights after a pause that began with the whole window again."),
    field("retransmitted", "segments", "Segments that were sent again."),
    field("timeouts", "times", "Retransmission timeouts of connections."),
    field(
        "given back",
        "connections",
        "Connections whose path carried less than --rate, by losses or a growing queue: left to their congestion control.",
    ),
    field(
        "other control",
        "connections",
        "Connections with another congestion control than CUBIC, which has its own way after a pause.",
    ),
    field(
        "no round trip",
        "connections",
        "Connections whose handshake was repeated, so that it measured no round trip: they began with the kernel's window.",
    ),
    field("refused settings", "times", "Settings of a connection that the kernel refused."),
    field("ran for", "time", "From the start of the command to the end of its last process."),
];
