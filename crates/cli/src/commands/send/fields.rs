//! The labels of a sender's report.

use softtimers_run::field::{BACK_TO_BACK, CPU, Field, LONGEST_BURST, MINIMUM, TIME, WAKE_UPS, field};

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[SENDING, SENDER];

/// The labels of a stream: also those of `replay`.
pub(crate) const SENDING: &[Field] = &[
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

/// The labels of a sender: also those of `replay`.
pub(crate) const SENDER: &[Field] = &[
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
        "How datagrams reached the kernel, and why: send, sendmmsg, segment (UDP_SEGMENT), or txtime (SO_TXTIME).",
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
