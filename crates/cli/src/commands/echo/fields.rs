//! The labels of an echo client's report.

use softtimers_run::field::{Field, MINIMUM, field};

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[ECHO];

const ECHO: &[Field] = &[
    field("rate", "1/s", "Replies per second."),
    field("replies", "replies", "Replies received in time."),
    field("lost", "requests", "Requests without a reply within 100 ms."),
    MINIMUM,
    field("round trip", "time", "From request to reply."),
];
