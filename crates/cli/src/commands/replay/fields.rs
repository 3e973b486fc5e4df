//! The labels of a replay's report.

use softtimers_run::field::{Field, field};

use crate::commands::send::fields::{SENDER, SENDING};

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[REPLAYED, SENDING, SENDER];

const REPLAYED: &[Field] = &[
    field(
        "recording",
        "",
        "Packets, length and volume of the recording, and the most packets in one of its seconds.",
    ),
    field("recorded gap", "time", "Gaps of the recording."),
    field("recorded bursts", "share", "Gaps of the recording that are shorter than half its mean gap."),
    field("late at the end", "time", "Lateness of the last datagram: the drift of the replay."),
];
