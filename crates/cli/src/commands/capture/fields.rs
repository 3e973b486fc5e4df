//! The labels of a capture's report.

use softtimers_run::field::{CPU, Field, MINIMUM, TIME, WAKE_UPS, field};

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[CAPTURED];

const CAPTURED: &[Field] = &[
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
