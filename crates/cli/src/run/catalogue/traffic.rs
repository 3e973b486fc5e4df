//! Labels of the commands that send and receive datagrams.

use super::{BACK_TO_BACK, CPU, Field, LONGEST_BURST, MINIMUM, TIME, WAKE_UPS, field};

pub(super) const SENDING: &[Field] = &[
    TIME,
    field("rate", "pps", "Datagrams per second from the first to the last, and the requested rate."),
    field("sent", "datagrams", "Datagrams that the kernel accepted."),
    field(
        "skipped",
        "datagrams",
        "Scheduled times skipped because the sender fell behind by more than --catch-up.",
    ),
    MINIMUM,
    field(
        "late",
        "time",
        "Lateness: time of departure less scheduled time. It includes catching up and retries.",
    ),
    field("gap", "time", "Time between departures of a flow, by the sender's clock."),
    BACK_TO_BACK,
    LONGEST_BURST,
];

pub(super) const SENDER: &[Field] = &[
    field(
        "flow share",
        "share",
        "With several flows: datagrams sent by the slowest and by the fastest, as a share of their rate.",
    ),
    field("longest train", "packets", "With several flows: the longest burst of all of them together."),
    field(
        "per turn",
        "packets",
        "With several flows: the mean number of datagrams sent in a turn with some due.",
    ),
    field(
        "sent by",
        "",
        "How datagrams reached the kernel, and why: send, sendmmsg, segment (UDP_SEGMENT), txtime (SO_TXTIME), or frame and frames (--driver packet).",
    ),
    field(
        "frames",
        "packets",
        "With --driver packet: datagrams sent as frames, those sent through the socket instead, and switches between the two.",
    ),
    field(
        "per call",
        "packets",
        "Datagrams per system call, where one took several; some may be segments cut by the kernel (UDP_SEGMENT).",
    ),
    CPU,
    field(
        "busy-poll time",
        "share",
        "CPU time that the idle policy spent polling with nothing due, its limit, and sleeps that the limit forced.",
    ),
    WAKE_UPS,
    field(
        "fired by",
        "datagrams",
        "Departures by trigger source: backup is the fallback timer, idle a poll of the idle policy.",
    ),
    field(
        "clock checks",
        "time",
        "Time between two checks of the clock, waits included: the bound of lateness while the loop runs.",
    ),
    field("trigger states", "times", "Checkpoints that the loop passed, by source."),
    field("long handlers", "times", "Handlers of the loop that took over 1 ms, and the longest."),
    field("timer overruns", "times", "Expiries of the kernel's timer without a signal of their own."),
    field("late over 1 ms", "", "Why departures were over a millisecond late; each line is a cause."),
    field("departures", "datagrams", "Late departures of this cause."),
    field("longest", "time", "The longest pause of this cause; of catch up, the greatest lateness."),
    field("because", "", "The cause in words."),
    field(
        "catch-ups",
        "times",
        "Times that a flow fell an interval or more behind, the longest time until it had caught up, and datagrams that late.",
    ),
    field(
        "retried",
        "times",
        "Sends that failed on a full buffer or queue, or an earlier datagram's ICMP error, and were retried.",
    ),
    field("answers dropped", "datagrams", "Answers of the echo server dropped for a full socket buffer."),
    field("work", "1/s", "Requests answered, or pieces computed, by the other work of the loop."),
];

pub(super) const REPLAYED: &[Field] = &[
    field(
        "recording",
        "",
        "Packets, length and volume of the recording, and the most packets in one of its seconds.",
    ),
    field("recorded gap", "time", "Gaps of the recording."),
    field("recorded bursts", "share", "Gaps of the recording that are shorter than half its mean gap."),
    field("late at the end", "time", "Lateness of the last datagram: the drift of the replay."),
];

pub(super) const RECEIVER: &[Field] = &[
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

pub(super) const ECHO: &[Field] = &[
    field("rate", "1/s", "Replies per second."),
    field("replies", "replies", "Replies received in time."),
    field("lost", "requests", "Requests without a reply within 100 ms."),
    MINIMUM,
    field("round trip", "time", "From request to reply."),
];
