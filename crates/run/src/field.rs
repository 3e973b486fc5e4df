//! The labels of a report, each with its unit and meaning. The OUTPUT FIELDS of each manual page and docs/output.md are made
//! of them, and a test finds labels of the snapshots that have none.

/// A label of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// The label as printed.
    pub label: &'static str,
    /// Such as `time`, `packets` or `share`; empty for words.
    pub unit: &'static str,
    /// A sentence or two.
    pub meaning: &'static str,
}

/// Returns the labels of the report of a command, which is named as it is typed.
pub type Fields = fn(&str) -> &'static [&'static [Field]];

/// Says whether these fields explain a label: by itself, in a list such as `gap p50, p99`, or as a percentile of an
/// explained label.
pub fn explain(fields: &[&[Field]], label: &str) -> bool {
    let listed = |list: &str| {
        let prefix =
            list.split(", ").next().and_then(|first| first.rsplit_once(' ')).map_or("", |(prefix, _)| prefix);
        list.split(", ").any(|one| one == label || format!("{prefix} {one}") == label)
    };
    let known = |label: &str| {
        fields.iter().copied().flatten().any(|field| field.label == label || listed(field.label))
    };
    let of_times = ["p50", "p99", "p99.9", "max"].iter().find_map(|one| label.strip_suffix(one));
    known(label) || of_times.is_some_and(|rest| known(rest.trim_end()))
}

/// Creates a label.
pub const fn field(label: &'static str, unit: &'static str, meaning: &'static str) -> Field {
    Field { label, unit, meaning }
}

/// A label of several commands.
pub const CPU: Field =
    field("CPU", "share", "CPU time as a share of one core; 100% is one core all the time.");
/// A label of several commands.
pub const WAKE_UPS: Field = field("wake-ups", "times", "How often it slept and was woken.");
/// A label of several commands.
pub const BACK_TO_BACK: Field =
    field("back to back", "share", "Gaps shorter than half the target gap, as a share of all gaps.");
/// A label of several commands.
pub const LONGEST_BURST: Field =
    field("longest burst", "packets", "The most packets in a row joined by such gaps.");
/// A label of several commands.
pub const TIME: Field =
    field("time", "s", "The end of the second that a line is about, since the run began.");
/// A label of several commands.
pub const MINIMUM: Field = field(
    "min, p50, p99, p99.9, max",
    "time",
    "Percentiles of the times to their left: p99 is exceeded by one in a hundred.",
);

/// The fields below every report.
pub const EVERYWHERE: &[Field] = &[
    field("inconclusive", "", "Why the figures prove nothing."),
    field("random", "", "The seed that repeats what was random."),
    field("note", "", "What did not work as asked, and what was done instead."),
    field(
        "CPU taken meanwhile",
        "share",
        "CPU time that the host and other programs took during the run, of all CPUs.",
    ),
    field("sandbox", "", "The user it became, the capabilities it kept and what confines it."),
];
