//! The labels of a probe's report.

use softtimers_run::field::{Field, TIME, field};

/// All of them.
pub(crate) const FIELDS: &[&[Field]] = &[PROBE];

const PROBE: &[Field] = &[
    TIME,
    field("CPU", "", "The CPU's number."),
    field("intervals", "intervals", "Intervals between trigger states, without those of idleness."),
    field("idle", "share", "The share of time that the CPU was idle."),
    field(
        "mean, p50, stddev, min, p99, p99.9, max",
        "time",
        "Statistics of the intervals: mean and maximum are exact, the others within an eighth.",
    ),
    field("over 100 µs", "share", "Intervals longer than 100 µs."),
    field("over 150 µs", "share", "Intervals longer than 150 µs."),
    field("window", "time", "The medians of windows of this length."),
    field("source", "", "The trigger source that ended the interval."),
    field("share", "share", "Intervals that this source ended."),
    field("without mean, p50, stddev, max", "time", "The intervals as they would be without this source."),
    field(
        "l1d misses, l1i misses, itlb misses",
        "times",
        "Misses of the CPU's caches during the run, where it counts them.",
    ),
    field("command", "", "How the command ended."),
    field(
        "overhead",
        "time",
        "The cost of the probe for each system call, with its interval of 95% confidence.",
    ),
];
