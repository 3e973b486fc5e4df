//! The labels of a report, each with its unit and meaning. The OUTPUT FIELDS of each manual page and docs/output.md are made
//! of them, and a test finds labels of the snapshots that have none.
//!
//! Each command has a text of them, `fields.txt`, a label a line: `label | unit | meaning`. A label alone is one of several
//! commands, and a line that begins with `#` is a comment.

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

/// Returns the labels of a text. One of several commands that is unknown has no meaning.
pub fn fields(text: &'static str) -> impl Iterator<Item = Field> {
    let common = |label| lines(COMMON).find(|field| field.label == label);
    lines(text).map(move |own| if own.meaning.is_empty() { common(own.label).unwrap_or(own) } else { own })
}

fn lines(text: &'static str) -> impl Iterator<Item = Field> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let mut parts = line.splitn(3, '|').map(str::trim);
        let [label, unit, meaning] = std::array::from_fn(|_| parts.next().unwrap_or_default());
        Field { label, unit, meaning }
    })
}

/// Says whether a text explains a label: by itself, in a list such as `gap p50, p99`, or as a percentile of an explained
/// label.
pub fn explain(text: &'static str, label: &str) -> bool {
    let listed = |list: &str| {
        let prefix =
            list.split(", ").next().and_then(|first| first.rsplit_once(' ')).map_or("", |(prefix, _)| prefix);
        list.split(", ").any(|one| one == label || format!("{prefix} {one}") == label)
    };
    let explained = || fields(text).filter(|field| !field.meaning.is_empty());
    let known = |label: &str| explained().any(|field| field.label == label || listed(field.label));
    let of_times = ["p50", "p99", "p99.9", "max"].iter().find_map(|one| label.strip_suffix(one));
    known(label) || of_times.is_some_and(|rest| known(rest.trim_end()))
}

/// The labels below every report.
pub const EVERYWHERE: &str = include_str!("field/everywhere.txt");

const COMMON: &str = include_str!("field/common.txt");
