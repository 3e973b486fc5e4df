//! Every label of a report, with its unit and meaning. The OUTPUT FIELDS of each manual page and docs/output.md are made of
//! it, and a test finds labels of the snapshots that it lacks.

mod frames;
mod machine;
#[cfg(test)]
mod page_tests;
mod traffic;

#[cfg(test)]
use softtimers_sim::experiments;

/// A label of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    /// The label as printed.
    pub(crate) label: &'static str,
    /// Such as `time`, `packets` or `share`; empty for words.
    pub(crate) unit: &'static str,
    /// A sentence or two.
    pub(crate) meaning: &'static str,
}

/// Returns the labels of a command, in the order of its report; empty for a command without labels of its own.
pub(crate) fn fields(command: &str) -> Vec<&'static Field> {
    let groups: &[&[Field]] = match command {
        "send" => &[traffic::SENDING, traffic::SENDER],
        "replay" => &[traffic::REPLAYED, traffic::SENDING, traffic::SENDER],
        "recv" => &[traffic::RECEIVER],
        "echo-client" => &[traffic::ECHO],
        "wan" => &[frames::PATH, frames::WITHHELD, frames::SELF_TEST],
        "forward" => &[frames::FORWARDER, frames::WITHHELD],
        "capture" => &[frames::CAPTURED],
        "probe" => &[machine::PROBE],
        "doctor" => &[machine::COMPARISON, machine::COSTS],
        "noise" => &[machine::NOISE, machine::RATES],
        "bench" => &[machine::OVERLOAD],
        _ => &[],
    };
    groups.iter().copied().flatten().collect()
}

/// Says whether a page explains this label of a command: by itself, in a list such as `gap p50, p99`, or as a
/// percentile of an explained label.
#[cfg(test)]
pub(crate) fn explains(command: &str, label: &str) -> bool {
    if command == "sim" {
        // Each experiment's help lists its columns, from the same data.
        return experiments::ALL
            .iter()
            .flat_map(|experiment| experiment.columns)
            .any(|column| column.name == label);
    }
    let fields = fields(command);
    let listed = |list: &str| {
        let prefix =
            list.split(", ").next().and_then(|first| first.rsplit_once(' ')).map_or("", |(prefix, _)| prefix);
        list.split(", ").any(|one| one == label || format!("{prefix} {one}") == label)
    };
    let known = |label: &str| fields.iter().any(|field| field.label == label || listed(field.label));
    let of_times = ["p50", "p99", "p99.9", "max"].iter().find_map(|one| label.strip_suffix(one));
    known(label) || of_times.is_some_and(|rest| known(rest.trim_end()))
}

const fn field(label: &'static str, unit: &'static str, meaning: &'static str) -> Field {
    Field { label, unit, meaning }
}

const CPU: Field = field("CPU", "share", "CPU time as a share of one core; 100% is one core all the time.");
const WAKE_UPS: Field = field("wake-ups", "times", "How often it slept and was woken.");
const BACK_TO_BACK: Field =
    field("back to back", "share", "Gaps shorter than half the target gap, as a share of all gaps.");
const LONGEST_BURST: Field =
    field("longest burst", "packets", "The most packets in a row joined by such gaps.");
const TIME: Field = field("time", "s", "The end of the second that a line is about, since the run began.");
const MINIMUM: Field = field(
    "min, p50, p99, p99.9, max",
    "time",
    "Percentiles of the times to their left: p99 is exceeded by one in a hundred.",
);

/// The fields below every report.
pub(crate) const EVERYWHERE: &[Field] = &[
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
