//! The findings for people: prices, one line for each method, and the verdict, within 100 columns.

use std::time::Duration;

use super::{Cell, DoctorReport, Load};
use crate::output::{Report, Table};
use crate::units::show_duration;

impl Report for DoctorReport {
    const SCHEMA: &'static str = "softtimers.doctor/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        self.costs.add_to(&mut table);
        for load in [Load::Echo, Load::None] {
            let mut cells = self.pacing.iter().filter(|cell| cell.busy == load).peekable();
            if let Some(first) = cells.peek() {
                let gap = show_duration(Duration::from_nanos(first.target_gap_ns));
                table.row(&format!("{} loop, {gap}", load.adjective()), line(HEADER.map(str::to_owned)));
            }
            for cell in cells {
                table.row(&format!("  {}", cell.method), line(cell.columns()));
            }
        }
        table.text("verdict", &self.verdict);
        table
    }
}

impl Cell {
    fn columns(&self) -> [String; 8] {
        let dash = || "-".to_owned();
        let share = |share: Option<f64>| share.map_or_else(dash, |share| format!("{:.1}%", share * 100.0));
        let short = |nanos: Option<u64>| match nanos {
            None => dash(),
            Some(nanos) if nanos < LONG => format!("{:.1}us", nanos as f64 / 1e3),
            Some(nanos) => format!("{:.1}ms", nanos as f64 / 1e6),
        };
        [
            share(Some(self.achieved_share)),
            share(self.back_to_back),
            self.longest_burst.map_or_else(dash, |burst| burst.to_string()),
            short(self.gap_ns.p50),
            short(self.gap_ns.p99),
            short(self.gap_ns.p999),
            share(Some(self.cpu_share)),
            share(self.work_kept),
        ]
    }
}

fn line(columns: [String; 8]) -> String {
    let aligned = columns.iter().zip(WIDTHS).map(|(value, width)| format!("{value:>width$}"));
    aligned.collect::<Vec<_>>().join("  ")
}

const HEADER: [&str; 8] = ["of rate", "back to back", "burst", "gap p50", "p99", "p99.9", "cpu", "work kept"];
/// Of the headers, of `100.0%`, and of `9999.9us`.
const WIDTHS: [usize; 8] = [7, 12, 5, 8, 8, 8, 6, 9];

/// From here on a time in microseconds would be wider than its column.
const LONG: u64 = 9_999_950;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;

    #[test]
    fn columns_are_aligned_and_fit() {
        let gap_ns = Distribution {
            p50: Some(40_012),
            p99: Some(12_148_700),
            p999: Some(9_999_900),
            ..Distribution::default()
        };
        let busy = Cell {
            method: "timerfd".to_owned(),
            target_gap_ns: 40_000,
            achieved_share: 1.0,
            back_to_back: Some(0.123),
            longest_burst: Some(12),
            gap_ns,
            work_kept: Some(0.9),
            ..Cell::default()
        };
        let idle = Cell { busy: Load::None, gap_ns: Distribution::default(), ..busy.clone() };
        let verdict = "a word and another ".repeat(30);
        let report = DoctorReport { pacing: vec![busy, idle], verdict, ..DoctorReport::default() };
        let text = report.table().to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 100 && line == line.trim_end()), "{text}");
        let columns: Vec<usize> = ["busy loop, 40us", "  timerfd", "idle loop, 40us"]
            .map(|name| text.lines().find(|line| line.starts_with(name)).map_or(0, str::len))
            .to_vec();
        assert!(columns[0] > 0 && columns.iter().all(|&column| column == columns[0]), "{text}");
        assert!(text.contains("9999.9us") && text.contains("12.1ms"), "{text}");
    }
}
