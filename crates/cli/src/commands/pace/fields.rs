//! The labels of the report of paced connections.

use softtimers_run::field::{Field, field};

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[PACED];

const PACED: &[Field] = &[
    field("connections", "connections", "Connections that were given a window and a pace."),
    field("listening", "sockets", "Without BPF: sockets that listened; what they accept has their pace."),
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
        "remembered",
        "connections",
        "Connections to an address whose path carried less within the last minute: left to their congestion control from the start.",
    ),
    field("made room", "times", "Losses showed others on a path: half as much went there for some seconds."),
    field(
        "UDP",
        "sockets",
        "UDP sockets that were given the rate, each all of it; it holds where their packets leave by the queue fq.",
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
