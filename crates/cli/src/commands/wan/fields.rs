//! The labels of the reports about a path.

use softtimers_run::field::{CPU, Field, MINIMUM, TIME, WAKE_UPS, field};

use crate::withheld::WITHHELD;

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[PATH, WITHHELD, SELF_TEST];

const PATH: &[Field] = &[
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
    field("segmented", "frames", "Frames that the kernel had merged and the emulator segmented again."),
    field(
        "carried joined",
        "frames",
        "Frames that the kernel had merged, carried whole: no setting acts on single packets.",
    ),
    field(
        "sent together",
        "segments",
        "Segments of a merged frame that left together again, because they were due within --coalesce.",
    ),
    field("beside", "frames", "Frames that --only let pass beside the path."),
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
    field("sent again", "pieces", "Pieces of streams that the path had lost, and that came later."),
    field("reset", "connections", "Connections reset by one side."),
    field("refused", "packets", "Connections beyond --clients; packets whose source address is invalid."),
    field(
        "no descriptor",
        "times",
        "Times that the system had no descriptor for a new client: a connection waited, a packet was dropped.",
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

const SELF_TEST: &[Field] = &[
    field("limit", "bit/s", "With --self-test: the highest rate without a loss of the emulator's own."),
    field("sent", "packets", "With --self-test: packets that the sender sent at this rate."),
    field("lost here", "packets", "With --self-test: packets lost by the emulator."),
    field("late p50, p99, max", "time", "With --self-test: how late packets left the emulator."),
];
