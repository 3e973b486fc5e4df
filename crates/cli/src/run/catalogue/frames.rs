//! Labels of the commands that forward or capture packets.

use super::{CPU, Field, MINIMUM, TIME, WAKE_UPS, field};

pub(super) const PATH: &[Field] = &[
    TIME,
    field("up", "", "The path from the clients to the server; down is the way back."),
    field("way", "", "up is from the clients to the server, down the way back."),
    field("in", "packets", "Packets that came in."),
    field("out", "packets", "Packets that went out, copies included."),
    field("rate", "bit/s", "Payload bits per second, from the first packet that went out to the last."),
    field("lost", "packets", "Packets lost behind the bottleneck, of those that were through it."),
    MINIMUM,
    field("delay", "time", "From coming in to going out. In the line of a second: of the run so far."),
    field(
        "late",
        "time",
        "By how much later than the path says packets went out: the emulator's own error. In the line of a second: of the run so far.",
    ),
    field("queue drops", "packets", "Packets that the queue dropped: it was full, or its management did."),
    field("dropped early", "packets", "The part of the queue drops that codel or pie made."),
    field("reordered", "packets", "Packets that went out after one that came in later."),
    field("duplicated", "packets", "Second copies."),
    field("corrupted", "packets", "Packets with a flipped bit."),
    field("marked", "packets", "Packets marked as having met congestion."),
    field("overflowed", "packets", "Packets that found the emulator full: a limit that no path has."),
    field("under way", "packets", "Packets still on the path at the end."),
    field("clients", "clients", "Clients at the end, and all there have been."),
    field("cut again", "frames", "Frames that the kernel had joined and the emulator cut again."),
    field(
        "carried joined",
        "frames",
        "Frames that the kernel had joined, and that stayed so: no setting looks at packets.",
    ),
    field("adds", "time", "What the emulator itself adds to the delay of a packet, in the median."),
    field("not cut", "frames", "Joined frames that could not be cut."),
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
        "Packets of new sources for which the system had no socket, or from where no client can be.",
    ),
    field("stray", "packets", "Packets whose client was gone."),
    field(
        "upstream refused",
        "times",
        "Times that the other end, or a host on the way, said that it is not there.",
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
    "Answers kept back from clients whose address may be forged: over the byte budget, or over the rate of their prefix.",
)];

pub(super) const FORWARDER: &[Field] = &[
    TIME,
    field("in", "packets", "Packets that came in, dropped ones included."),
    field("out", "packets", "Packets that left."),
    field("rate", "pps", "Packets that left, per second."),
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
    field("latency", "time", "From the kernel's receive time to having been sent."),
    field("polls", "times", "Polls of a side, and those that found nothing."),
    field("per poll", "packets", "The mean number of packets that a poll found."),
    WAKE_UPS,
    field("mode switches", "times", "Changes between polls and wake-ups."),
    CPU,
    field(
        "CPU limited",
        "times",
        "Times that --cpu-limit shut the input, and those for longer than --max-delay.",
    ),
    field("in the kernel", "packets", "Packets that --driver tc forwarded without this program."),
    field("clients", "clients", "Of a relay: clients at the end, and all there have been."),
    field("refused", "packets", "Packets that went no further, by reason."),
    field("misdirected", "datagrams", "Datagrams from the upstream, from the relay itself, or from port 0."),
    field(
        "upstream refused",
        "times",
        "Times that the other end, or a host on the way, said that it is not there.",
    ),
    field("senders told", "packets", "Packets whose senders got an ICMP message, and those beyond its rate."),
    field("made here", "frames", "Answers and probes that the forwarder sent itself, and those lost."),
    field(
        "outages",
        "times",
        "Times that an interface was switched off or lost its carrier, and loops found.",
    ),
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
    field("outages", "times", "Times that the interface was found switched off."),
    field("ring renewals", "times", "Times that the ring was made again because a frame had stopped it."),
    field(
        "ended by",
        "",
        "Why it ended: signal, duration, count, interface (it is gone) or output (it cannot be written).",
    ),
];
