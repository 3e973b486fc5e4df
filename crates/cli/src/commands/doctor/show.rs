//! The findings for people, within 100 columns: prices, one line for each method, a stretch of its gaps,
//! why it was late, and the verdict.

use std::time::Duration;

use serde::Serialize;
use softtimers_measure::units::show_duration;

use super::costs::Costs;
use super::features::{self, FeatureReport};
use super::range::UsefulRange;
use super::strip::Alphabet;
use super::trial::{Cell, Load};
use crate::run::output::Report;
use crate::run::table::Table;

/// The keys of `doctor`'s object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct DoctorReport {
    /// Prices of single operations.
    pub(crate) costs: Costs,
    /// What of the kernel works.
    pub(crate) features: Vec<FeatureReport>,
    /// Between which intervals soft events are the right tool.
    pub(crate) useful_range: UsefulRange,
    /// The same stream by every method.
    pub(crate) pacing: Vec<Cell>,
    /// What follows from it, in one sentence.
    pub(crate) verdict: String,
}

impl Report for DoctorReport {
    const SCHEMA: &'static str = "softtimers.doctor/1";

    fn table(&self) -> Table {
        self.drawn(Alphabet::of_locale(|name| std::env::var(name).ok()))
    }
}

impl DoctorReport {
    fn drawn(&self, alphabet: Alphabet) -> Table {
        let mut table = Table::default();
        self.costs.add_to(&mut table);
        self.useful_range.add_to(&mut table);
        features::add_to(&self.features, &mut table);
        for load in [Load::Echo, Load::None] {
            let cells: Vec<&Cell> = self.pacing.iter().filter(|cell| cell.busy == load).collect();
            if let Some(first) = cells.first() {
                let gap = show_duration(Duration::from_nanos(first.target_gap_ns));
                add(&mut table, &format!("{} loop, {gap}", load.adjective()), &cells, alphabet);
            }
        }
        table.text("verdict", &self.verdict);
        table
    }
}

fn add(table: &mut Table, name: &str, cells: &[&Cell], alphabet: Alphabet) {
    table.row(name, line(HEADER));
    table.row("", line(SUBHEADER));
    for cell in cells {
        match &cell.not_made {
            Some(why) => table.text(&format!("  {}", cell.method), &format!("not tried: {why}")),
            None => {
                table.row(&format!("  {}", cell.method), line(cell.columns().each_ref().map(String::as_str)));
            }
        }
    }
    if cells.iter().any(|cell| !cell.gap_strip_ns.is_empty()) {
        table.row(" some of its gaps", alphabet.legend());
    }
    for cell in cells.iter().filter(|cell| !cell.gap_strip_ns.is_empty()) {
        table.row(&format!("  {}", cell.method), alphabet.draw(&cell.gap_strip_ns, cell.target_gap_ns));
    }
    if cells.iter().any(|cell| cell.was_late()) {
        table.row(" late over 1ms", "departures by cause (and the longest pause)");
    }
    for cell in cells.iter().filter(|cell| cell.was_late()) {
        table.text(&format!("  {}", cell.method), &cell.causes());
    }
    let looks: Vec<String> = cells
        .iter()
        .filter_map(|cell| Some(format!("{} {}", cell.method, micros(cell.trigger_interval_ns.mean?))))
        .collect();
    if !looks.is_empty() {
        table.text(" looks every, us", &looks.join(", "));
    }
}

impl Cell {
    fn columns(&self) -> [String; 10] {
        let dash = || "-".to_owned();
        let share = |share: Option<f64>| share.map_or_else(dash, percent);
        let time = |nanos: Option<u64>| nanos.map_or_else(dash, |nanos| micros(nanos as f64));
        [
            share(Some(self.achieved_share)),
            share(self.back_to_back),
            self.longest_burst.map_or_else(dash, |burst| burst.to_string()),
            time(self.gap_ns.p50),
            time(self.gap_ns.p99),
            time(self.gap_ns.p999),
            time(self.late_ns.p50),
            time(self.late_ns.p99),
            share(Some(self.cpu_share)),
            share(self.work_kept),
        ]
    }

    fn was_late(&self) -> bool {
        self.late.values().any(|late| late.count > 0) || self.long_handlers.is_some_and(|count| count > 0)
    }

    /// Each cause with its departures, the most frequent first.
    fn causes(&self) -> String {
        let mut causes: Vec<_> = self.late.iter().filter(|(_, late)| late.count > 0).collect();
        causes.sort_by_key(|(_, late)| std::cmp::Reverse(late.count));
        let mut shown: Vec<String> = causes
            .into_iter()
            .map(|(cause, late)| format!("{cause} {} ({})", late.count, millis(late.longest_ns)))
            .collect();
        if let Some(count) = self.long_handlers.filter(|&count| count > 0) {
            shown.push(format!("{count} long handlers"));
        }
        shown.join(", ")
    }
}

/// A baseline that was disturbed can make a share of any size.
fn percent(share: f64) -> String {
    if share < 9.999_5 { format!("{:.1}%", share * 100.0) } else { ">999%".to_owned() }
}

/// Microseconds, as many digits as a column has room for.
fn micros(nanos: f64) -> String {
    let micros = nanos / 1e3;
    if micros < 99_999.95 { format!("{micros:.1}") } else { format!("{micros:.0}") }
}

fn millis(nanos: u64) -> String {
    format!("{:.1}ms", nanos as f64 / 1e6)
}

fn line(columns: [&str; 10]) -> String {
    let aligned = columns.iter().zip(WIDTHS).map(|(value, width)| format!("{value:>width$}"));
    aligned.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

const HEADER: [&str; 10] = ["of", "back to", "longest", "gap us", "", "", "late us", "", "", "work"];
const SUBHEADER: [&str; 10] = ["rate", "back", "burst", "p50", "p99", "p99.9", "p50", "p99", "cpu", "kept"];
/// Of the headers, of `100.0%`, and of `99999.9`.
const WIDTHS: [usize; 10] = [6, 7, 7, 7, 7, 7, 8, 7, 6, 6];

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_load::send::LateReport;
    use softtimers_measure::distribution::Distribution;

    fn report() -> DoctorReport {
        let late = |p50, p99| Distribution { p50: Some(p50), p99: Some(p99), ..Distribution::default() };
        let busy = Cell {
            method: "timerfd".to_owned(),
            target_gap_ns: 40_000,
            achieved_share: 1.0,
            back_to_back: Some(0.123),
            longest_burst: Some(12),
            gap_ns: Distribution { p999: Some(9_999_900), ..late(40_012, 12_148_700) },
            late_ns: late(99_999_900, 1_234_567_890),
            trigger_interval_ns: Distribution { mean: Some(74_812.3), ..Distribution::default() },
            late: [("scheduler", 3, 4_100_000), ("catch_up", 5_213, 10_000_000), ("steal", 0, 0)]
                .map(|(cause, count, longest_ns)| (cause.to_owned(), LateReport { count, longest_ns }))
                .into(),
            long_handlers: Some(2),
            work_kept: Some(958.123),
            gap_strip_ns: vec![40_000; 64],
            ..Cell::default()
        };
        let idle = Cell { busy: Load::None, gap_ns: Distribution::default(), ..busy.clone() };
        let verdict = "a word and another ".repeat(30);
        DoctorReport { pacing: vec![busy, idle], verdict, ..DoctorReport::default() }
    }

    #[test]
    fn columns_are_aligned_and_fit() {
        let text = report().drawn(Alphabet::Blocks).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 100 && line == line.trim_end()), "{text}");
        let ends: Vec<usize> = ["busy loop, 40us", "  timerfd", "idle loop, 40us"]
            .map(|name| text.lines().find(|line| line.starts_with(name)).map_or(0, str::len))
            .to_vec();
        assert!(ends[0] > 0 && ends.iter().all(|&end| end == ends[0]), "{text}");
        assert!(text.contains("9999.9") && text.contains("12148.7") && text.contains("1234568"), "{text}");
        assert!(text.contains(" >999%"), "{text}");
    }

    #[test]
    fn gaps_are_drawn_and_lateness_is_explained() {
        let text = report().drawn(Alphabet::Ascii).to_string();
        assert!(text.is_ascii() && text.contains(&"=".repeat(64)), "{text}");
        assert!(text.contains("catch_up 5213 (10.0ms), scheduler 3 (4.1ms), 2 long handlers"), "{text}");
        assert!(!text.contains("steal") && text.contains("timerfd 74.8"), "{text}");
        let quiet = DoctorReport { pacing: vec![Cell::default()], ..DoctorReport::default() };
        let text = quiet.table().to_string();
        assert!(!text.contains("some of its gaps") && !text.contains("late over"), "{text}");
    }

    #[test]
    fn what_was_not_tried_has_a_reason_and_no_figures() {
        let cell = Cell { not_made: Some("interrupted".to_owned()), ..report().pacing.remove(0) };
        let text = DoctorReport { pacing: vec![cell], ..DoctorReport::default() }.table().to_string();
        let row = text.lines().find(|line| line.starts_with("  timerfd")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["timerfd", "not", "tried:", "interrupted"]);
    }
}
