//! The line that `wan` prints each second on a terminal.

use std::time::Duration;

use super::show::{MeasuredReport, WanReport};
use crate::run::quantity::{or_dash, time};
use crate::run::screen::Screen;
use crate::run::stream::{TIME, line, seconds};

/// A second on a terminal: what became of the packets of each direction since the report before.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    before: WanReport,
    printed: u64,
}

impl Seconds {
    /// Says whether no second has passed.
    pub(super) fn is_empty(&self) -> bool {
        self.printed == 0
    }

    /// Returns the lines of the time since the last call.
    pub(super) fn lines(&mut self, report: &WanReport, screen: &Screen) -> String {
        let to = Duration::try_from_secs_f64(report.span_s).unwrap_or_default();
        let mut text = String::new();
        if self.printed.is_multiple_of(PAGE) {
            let names = [TIME].into_iter().chain(COLUMNS.iter().map(|&(name, _)| name));
            text = line(COLUMNS, &names.map(str::to_owned).collect::<Vec<_>>(), screen.width) + "\n";
        }
        for (way, now, before) in
            [("up", &report.up, &self.before.up), ("down", &report.down, &self.before.down)]
        {
            let (now, before) = (&now.measured, &before.measured);
            let since = |of: fn(&MeasuredReport) -> u64| of(now).saturating_sub(of(before)).to_string();
            let cells = [
                seconds(to),
                way.to_owned(),
                since(|measured| measured.offered),
                since(|measured| measured.delivered),
                since(|measured| measured.lost),
                since(|measured| measured.queue_drops),
                or_dash(now.delay_ns.p50, time),
                or_dash(now.lateness_ns.p99, time),
            ];
            text += &(line(COLUMNS, &cells, screen.width) + "\n");
        }
        self.before = report.clone();
        self.printed += 1;
        text.trim_end().to_owned()
    }
}

/// Counts are of the second, times of the run so far.
pub(super) const COLUMNS: &[(&str, usize)] =
    &[("way", 4), ("in", 9), ("out", 9), ("lost", 7), ("queue drops", 11), ("delay p50", 9), ("late p99", 8)];
/// Seconds after which the header comes again.
const PAGE: u64 = 10;
