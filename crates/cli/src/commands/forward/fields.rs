//! The labels of a forwarder's report.

use softtimers_run::field::{CPU, Field, MINIMUM, TIME, WAKE_UPS, field};

use crate::withheld::WITHHELD;

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[FORWARDER, WITHHELD];

const FORWARDER: &[Field] = &[
    TIME,
    field("in", "packets", "Packets received, dropped ones included."),
    field("out", "packets", "Packets sent."),
    field("rate", "pps", "Packets sent per second."),
    field(
        "dropped",
        "packets",
        "Packets dropped, by place: the receive ring, a rule, the queue, the output.",
    ),
    field("a to b", "packets", "Between interfaces: received at the first and sent at the second."),
    field("b to a", "packets", "Between interfaces: received at the second and sent at the first."),
    field("from clients", "packets", "Of a relay: received from clients and sent to the server."),
    field("to clients", "packets", "Of a relay: received from the server and sent to clients."),
    MINIMUM,
    field("latency", "time", "From the kernel's receive time until it was sent."),
    field("polls", "times", "Polls of a side, and those that found nothing."),
    field("per poll", "packets", "The mean number of packets that a poll found."),
    WAKE_UPS,
    field("mode switches", "times", "Changes between polls and wake-ups."),
    CPU,
    field(
        "CPU limited",
        "times",
        "Times that --cpu-limit shut the input, and how many of them lasted longer than --max-delay.",
    ),
    field("in the kernel", "packets", "Packets that --driver tc forwarded without this program."),
    field("clients", "clients", "Of a relay: clients at the end, and in total."),
    field("refused", "packets", "Dropped packets, by reason."),
    field("misdirected", "datagrams", "Datagrams from the upstream, from the relay itself, or from port 0."),
    field(
        "upstream refused",
        "times",
        "Times that the other end, or a host on the way, replied unreachable (ICMP).",
    ),
    field("senders told", "packets", "ICMP errors sent for dropped packets, and those beyond its rate."),
    field("made here", "frames", "Answers and probes of the forwarder itself: sent, and lost."),
    field("outages", "times", "Times that an interface was down or lost its carrier, and loops found."),
    field("line", "", "A rule's line in the file of rules."),
    field("matched", "packets", "Packets that the rule decided."),
    field("rule", "", "The rule itself."),
];
