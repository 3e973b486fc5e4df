//! The output of each command, kept in `tests/snapshots` for review: a full report of each, for terminals of 80 and 120
//! columns and for a pipe. Figures are made up, so the files change only when the output does.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p softtimers-cli --lib` rewrites them. Colours are written as `{bad …}` and
//! `{good …}`.

use std::fs;
use std::path::Path;

use softtimers_measure::distribution::Distribution;
use softtimers_measure::machine::Machine;

use super::Command;
use super::field;
use super::output::{Object, Report, head};
use super::privileges::Sandbox;
use super::screen::Screen;

/// The lines of a second on a terminal, and their columns.
#[expect(missing_debug_implementations, reason = "it holds a closure")]
pub struct Live {
    columns: Vec<&'static str>,
    lines: Box<dyn Fn(&Screen) -> String>,
}

impl Live {
    /// No lines: a progress bar is shown, and gone at the end.
    pub fn none() -> Self {
        Live { columns: vec![], lines: Box::new(|_| String::new()) }
    }

    /// Makes a snapshot of these lines.
    pub fn new(
        columns: &'static [(&'static str, usize)],
        lines: impl Fn(&Screen) -> String + 'static,
    ) -> Self {
        Live { columns: columns.iter().map(|&(name, _)| name).collect(), lines: Box::new(lines) }
    }
}

/// Compares a command's output with the kept files, and its labels with its fields.
///
/// # Panics
/// If they differ, a label is not among the fields, or a line has no room.
pub fn check<C: Command, R: Report<C>>(name: &str, header: &str, live: &Live, report: &R) {
    check_explained(|label| field::explain(C::FIELDS, label), name, header, live, report);
}

/// The same for a command whose labels `is_explained` knows.
///
/// # Panics
/// As [`check`].
pub fn check_explained<C: ?Sized, R: Report<C>>(
    is_explained: impl Fn(&str) -> bool,
    name: &str,
    header: &str,
    live: &Live,
    report: &R,
) {
    let table = report.table();
    for label in table.labels().into_iter().chain(live.columns.iter().copied()) {
        assert!(is_explained(label), "{name}: no field explains '{label}'");
    }
    let machine = Machine {
        kernel: "6.18.0".to_owned(),
        cpu: "Example CPU".to_owned(),
        cores: 4,
        clocksource: "tsc".to_owned(),
        steal_share: Some(0.0),
        others_share: Some(0.012),
        ..Machine::default()
    };
    let sandbox = Sandbox::shown();
    let fallbacks =
        ["a note of what did not work as asked, and of what was done instead of it: once more, and longer"
            .to_owned()];
    let object = |header| Object {
        header,
        machine: &machine,
        sandbox: Some(&sandbox),
        seed: Some(7),
        config: &(),
        fallbacks: &fallbacks,
        inconclusive: Some("other programs used 30.0% of the CPU time".to_owned()),
        report,
    };
    let terminal = |width| Screen { width, colour: true, watched: true };
    for (kind, screen) in [("80", terminal(80)), ("120", terminal(120)), ("pipe", Screen::PIPE)] {
        let text = if screen.watched {
            let lines = (live.lines)(&screen);
            let lines = if lines.is_empty() { lines } else { lines + "\n\n" };
            head(header, &machine, &screen) + &lines + &object(None).to_text(&screen)
        } else {
            object(Some(header)).to_text(&screen)
        };
        let text =
            text.replace("\u{1b}[31m", "{bad ").replace("\u{1b}[32m", "{good ").replace("\u{1b}[0m", "}");
        for line in text.lines().filter(|_| screen.watched) {
            let markers = line.matches("{bad ").count() * 6 + line.matches("{good ").count() * 7;
            assert!(line.chars().count() - markers <= screen.width, "{name} at {kind}: {line}");
        }
        compare(&format!("{name}.{kind}.txt"), &text);
    }
}

fn compare(name: &str, text: &str) {
    // Of the crate whose test this is: cargo says so when it runs one.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("a test that cargo runs");
    let path = Path::new(&package).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, kept, "{name} differs; if that is meant, UPDATE_SNAPSHOTS=1 writes it anew");
}

/// A distribution around 40 µs.
pub fn times() -> Distribution {
    let [min, p1, p50, p90, p99, p999, max] =
        [191, 12_345, 40_012, 44_000, 61_500, 1_204_000, 12_148_700].map(Some);
    let (mean, stddev) = (Some(41_870.3), Some(9_050.0));
    Distribution { count: 49_973, min, p1, p50, p90, p99, p999, max, mean, stddev }
}
