//! Labels of the commands that forward or capture packets.

use super::{CPU, Field, MINIMUM, TIME, WAKE_UPS, field};

pub(super) const PATH: &[Field] = &[
    TIME,
    field("up", "", "The path from the clients to the server; down is the way back."),
    field("way", "", "up is from the clients to the server, down the way back."),
    field("in", "packets", "Packets that came in."),
    field("out", "packets", "Packets that went out, copies included."),
    field("rate", "bit/s", "Payload bits per second, from the first packet that went out to the last."),
    field("lost", "packets", "Packets lost behind the bottleneck, and their share of those that passed it."),
    MINIMUM,
    field("delay", "time", "From receiving to sending. In the line of a second: over the run so far."),
    field(
        "late",
        "time",
        "How much later than the path says packets went out: the emulator's own error. In the line of a second: over the run so far.",
    ),
    field("queue drops", "packets", "Packets that the queue dropped: it was full, or its AQM dropped them."),
    field("dropped early", "packets", "The part of the queue drops that codel or pie made."),
    field("reordered", "packets", "Packets that went out after one that came in later."),
    field("duplicated", "packets", "Second copies."),
    field("corrupted", "packets", "Packets with a flipped bit."),
    field("marked", "packets", "Packets marked as having met congestion."),
    field(
        "overflowed",
        "packets",
        "Packets dropped because the emulator was full: its own limit, not the path's.",
    ),
    field("under way", "packets", "Packets still on the path at the end."),
    field("clients", "clients", "Clients at the end, and in total."),
    field("cut again", "frames", "Frames that the kernel had merged and the emulator segmented again."),
    field(
        "carried joined",
        "frames",
        "Frames that the kernel had merged, carried whole: no setting acts on single packets.",
    ),
    field("adds", "time", "The median delay that the emulator itself adds to a packet."),
    field("not cut", "frames", "Merged frames that could not be segmented."),
    field("too long", "frames", "Frames longer than the other interface takes."),
    field("marks written", "frames", "Congestion marks written into frames."),
    field(
        "dropped unread",
        "packets",
        "Dropped because the emulator did not read in time: its own loss, not the path's.",
    ),
    field(
        "dropped unsent",
        "packets",
        "Dropped because they could not be sent: its own loss, not the path's.",
    ),
    field("reset", "connections", "Connections reset by one side."),
    field(
        "refused",
        "packets",
        "Packets of new sources for which the system had no socket, or whose source address is invalid.",
    ),
    field("stray", "packets", "Packets whose client was gone."),
    field(
        "upstream refused",
        "times",
        "Times that the other end, or a host on the way, replied unreachable (ICMP).",
    ),
    CPU,
    WAKE_UPS,
];

pub(super) const SELF_TEST: &[Field] = &[
    field("limit", "bit/s", "With --self-test: the highest rate without a loss of the emulator's own."),
    field("sent", "packets", "With --self-test: packets that the sender sent at this rate."),
    field("lost here", "packets", "With --self-test: packets lost by the emulator."),
    field("late p50, p99, max", "time", "With --self-test: how late packets left the emulator."),
];

pub(super) const WITHHELD: &[Field] = &[field(
    "withheld",
    "answers",
    "Answers withheld from clients whose address may be forged: over the byte budget, or over the rate of their prefix.",
)];

pub(super) const FORWARDER: &[Field] = &[
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

pub(super) const CAPTURED: &[Field] = &[
    TIME,
    field("rate", "pps", "Frames per second."),
    field("volume", "bytes", "Bytes of the frames."),
    field("captured", "frames", "Frames in the file, their bytes, and the files written."),
    field(
        "dropped",
        "frames",
        "Frames not in the file, by place: the interface, the ring, the queue, the output.",
    ),
    MINIMUM,
    field("delay", "time", "From the kernel's receive time until the frame was in the file."),
    CPU,
    WAKE_UPS,
    field("feedback", "times", "With --queue: how often the input was shut, and opened by time-out."),
    field("outages", "times", "Times that the interface was found down."),
    field("ring renewals", "times", "Times that the ring was recreated because a frame had stopped it."),
    field(
        "ended by",
        "",
        "Why it ended: signal, duration, count, interface (it is gone) or output (it cannot be written).",
    ),
];
