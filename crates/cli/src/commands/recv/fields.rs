//! The labels of a receiver's report.

use softtimers_run::field::{BACK_TO_BACK, Field, LONGEST_BURST, MINIMUM, TIME, field};

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[RECEIVER];

const RECEIVER: &[Field] = &[
    TIME,
    field(
        "rate",
        "bit/s, pps",
        "Payload bits and datagrams per second, from the first datagram to the last.",
    ),
    field("packets", "pps", "Datagrams per second."),
    field("received", "datagrams", "Datagrams measured, duplicates included."),
    field(
        "lost",
        "datagrams",
        "Datagrams sent and not received in time, and their share of all sent, by sequence numbers and end messages.",
    ),
    field("reordered", "datagrams", "Datagrams overtaken by a later one of their flow."),
    field("duplicated", "datagrams", "Datagrams received again."),
    field(
        "without numbers",
        "datagrams",
        "Datagrams received from other programs (--any). With any of them, loss, reordering and duplication are unknown: a dash.",
    ),
    MINIMUM,
    field("gap", "time", "Time between arrivals of a flow, by the kernel's receive timestamps."),
    field(
        "PDV",
        "time",
        "Packet delay variation (RFC 5481): one-way delay from the scheduled time, less the least of the flow.",
    ),
    BACK_TO_BACK,
    LONGEST_BURST,
    field("flows", "flows", "Flows received: an address and port with a flow number, or without one."),
    field("per flow", "datagrams", "The fewest and the most datagrams received of one flow."),
    field("gap deviation", "time", "The standard deviation of gaps, over flows."),
    field("mean PDV", "time", "The mean PDV, over flows."),
    field("longest train", "packets", "The longest burst of all flows together."),
    field(
        "worst flows",
        "",
        "The flows that lost most, or else whose delay or gaps varied most: peer address and flow number.",
    ),
    field("mean gap", "time", "The mean gap of a flow without numbers."),
    field("too late", "datagrams", "Received over 4,096 datagrams after their turn; counted as lost."),
    field(
        "socket drops",
        "datagrams",
        "Dropped because this socket's receive buffer was full; among the lost.",
    ),
    field(
        "not softtimers",
        "datagrams",
        "Datagrams in another format, not measured (--any measures them); in no other count.",
    ),
    field(
        "strangers",
        "datagrams",
        "Datagrams of senders that had not agreed, or that claim more than can have been sent; in no other count.",
    ),
    field(
        "beyond 16384 flows",
        "datagrams",
        "Datagrams of flows beyond the limit of 16,384; in no other count.",
    ),
];
