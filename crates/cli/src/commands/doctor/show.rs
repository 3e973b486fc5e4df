//! The findings for people: the verdict, what each kind of program should use, one line and a stretch of gaps for each
//! method, and the costs of the machine. With `--verbose` also the causes of lateness, and the evidence for each kernel
//! feature.

use std::time::Duration;

use serde::Serialize;

use super::args::Doctor;
use super::costs::Costs;
use super::features::{self, FeatureReport};
use super::programs::{self, Program};
use super::range::UsefulRange;
use super::strip::Alphabet;
use super::trial::{BATCHES, Cell, Load, METHODS};
use super::verdict;
use crate::run::grid::Grid;
use crate::run::output::Report;
use crate::run::quantity::{or_dash, setting, share, time};
use crate::run::screen::Tone;
use crate::run::table::Table;

/// The keys of `doctor`'s object.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct DoctorReport {
    /// Costs of single operations.
    pub(crate) costs: Costs,
    /// The features of the kernel, tried.
    pub(crate) features: Vec<FeatureReport>,
    /// The range of intervals for which soft events are the right tool.
    pub(crate) useful_range: UsefulRange,
    /// For which programs softtimers pays, and what serves the others.
    pub(crate) programs: Vec<Program>,
    /// The results of the same stream by every method.
    pub(crate) pacing: Vec<Cell>,
    /// The same with other numbers of requests in a row, by the methods that decide.
    pub(crate) by_batch: Vec<Cell>,
    /// The verdict: the answers for these programs, and the figures of the full comparison.
    pub(crate) verdict: String,
    /// Remarks worth knowing besides the verdict, a sentence each.
    pub(crate) remarks: Vec<String>,
    /// Whether all details are shown to people.
    #[serde(skip)]
    pub(crate) verbose: bool,
}

/// Returns the number of trials, and the length of each.
pub(super) fn header(plan: &Doctor) -> String {
    let (batch, length) = (plan.echo_batch, setting(plan.duration));
    let others: Vec<String> =
        BATCHES.iter().filter(|&&other| other != batch).map(ToString::to_string).collect();
    format!(
        "doctor: {} methods, {length} each over loopback, idle and busy with {batch} requests in a row; also {}",
        METHODS.len(),
        others.join(", ")
    )
}

impl Report<Doctor> for DoctorReport {
    const SCHEMA: &'static str = "softtimers.doctor/1";

    fn table(&self) -> Table {
        self.drawn(Alphabet::of_locale(|name| std::env::var(name).ok()))
    }
}

impl DoctorReport {
    fn drawn(&self, alphabet: Alphabet) -> Table {
        let mut table = Table::default();
        table.text(&self.verdict, Tone::Plain);
        programs::add_to(&self.programs, &mut table);
        for (load, loops) in [(Load::Echo, "busy loop"), (Load::None, "idle loop")] {
            let cells: Vec<&Cell> = self.pacing.iter().filter(|cell| cell.busy == load).collect();
            if let Some(first) = cells.first() {
                let gap = setting(Duration::from_nanos(first.target_gap_ns));
                let article = if load == Load::Echo { "a" } else { "an" };
                let row =
                    first.echo_batch.map_or_else(String::new, |batch| format!(", {batch} requests in a row"));
                table.heading(format_args!("A gap of {gap} from {article} {loops}{row}"));
                methods(&cells, &mut table);
                strips(&cells, &mut table, alphabet);
                if self.verbose {
                    details(&cells, &mut table);
                }
            }
        }
        table.heading("This machine");
        self.useful_range.add_to(&mut table);
        self.costs.add_to(self.verbose, &mut table);
        features::add_to(&self.features, self.verbose, &mut table);
        if !self.remarks.is_empty() {
            table.heading("Remarks");
        }
        for remark in &self.remarks {
            table.text(remark, Tone::Plain);
        }
        table
    }
}

/// Adds a line for each method.
fn methods(cells: &[&Cell], table: &mut Table) {
    let mut grid = Grid::new(COLUMNS);
    for cell in cells.iter().filter(|cell| cell.not_made.is_none()) {
        let tone = if verdict::holds(cell) { Tone::Good } else { Tone::Plain };
        grid.toned([cell.method.clone()].into_iter().chain(cell.columns()), tone);
    }
    table.grid(grid);
    for cell in cells {
        if let Some(why) = &cell.not_made {
            table.text(&format!("{}: not tried: {why}", cell.method), Tone::Plain);
        }
    }
}

/// Adds a stretch of gaps of each method.
fn strips(cells: &[&Cell], table: &mut Table, alphabet: Alphabet) {
    let drawn = || cells.iter().filter(|cell| !cell.gap_strip_ns.is_empty());
    if drawn().next().is_some() {
        table.row("gaps", alphabet.legend());
    }
    for cell in drawn() {
        table.drawn(format!("  {:8}{}", cell.method, alphabet.draw(&cell.gap_strip_ns, cell.target_gap_ns)));
    }
}

/// Adds why each method was late, and how often it checked the clock.
fn details(cells: &[&Cell], table: &mut Table) {
    for (at, cell) in cells.iter().filter(|cell| cell.was_late()).enumerate() {
        let causes = format!("{}: {}", cell.method, cell.causes());
        table.row(if at == 0 { "late over 1 ms" } else { "" }, causes);
    }
    let checks: Vec<String> = cells
        .iter()
        .filter_map(|cell| Some(format!("{} {}", cell.method, time(cell.trigger_interval_ns.mean?))))
        .collect();
    if !checks.is_empty() {
        table.row("clock checks", checks.join("  "));
    }
}

impl Cell {
    fn columns(&self) -> [String; 10] {
        [
            percent(self.achieved_share),
            or_dash(self.back_to_back, percent),
            or_dash(self.longest_burst, |burst| burst.to_string()),
            or_dash(self.gap_ns.p50, time),
            or_dash(self.gap_ns.p99, time),
            or_dash(self.gap_ns.p999, time),
            or_dash(self.late_ns.p50, time),
            or_dash(self.late_ns.p99, time),
            percent(self.cpu_share),
            or_dash(self.work_kept, percent),
        ]
    }

    fn was_late(&self) -> bool {
        self.late.values().any(|late| late.count > 0) || self.long_handlers.is_some_and(|count| count > 0)
    }

    /// Returns each cause with its departures, the most frequent first.
    fn causes(&self) -> String {
        let mut causes: Vec<_> = self.late.iter().filter(|(_, late)| late.count > 0).collect();
        causes.sort_by_key(|(_, late)| std::cmp::Reverse(late.count));
        let mut shown: Vec<String> = causes
            .into_iter()
            .map(|(cause, late)| {
                format!("{} {} ({})", cause.replace('_', " "), late.count, time(late.longest_ns))
            })
            .collect();
        if let Some(count) = self.long_handlers.filter(|&count| count > 0) {
            shown.push(format!("{count} long handlers"));
        }
        shown.join("  ")
    }
}

/// Formats a share; a disturbed baseline can make it any size.
fn percent(part: f64) -> String {
    if part < 9.995 { share(part) } else { ">999%".to_owned() }
}

const COLUMNS: [&str; 11] = [
    "method",
    "rate kept",
    "back to back",
    "longest burst",
    "gap p50",
    "gap p99",
    "gap p99.9",
    "late p50",
    "late p99",
    "CPU",
    "work kept",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::screen::Screen;
    use crate::run::snapshot::{self, Live, times};
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
    fn the_verdict_comes_first_and_lines_fit() {
        for width in [80, 120] {
            let text = report().drawn(Alphabet::Blocks).draw(&Screen { width, ..Screen::PIPE });
            assert!(text.starts_with("a word and another "), "{text}");
            assert!(
                text.lines().all(|line| line.chars().count() <= width && line == line.trim_end()),
                "{text}"
            );
            assert!(text.contains("10.00 ms") || text.contains("10.0 ms"), "{text}");
            assert!(text.contains(" >999%"), "{text}");
        }
    }

    #[test]
    fn gaps_are_drawn_and_lateness_is_explained_to_who_asks() {
        let verbose = DoctorReport { verbose: true, ..report() };
        let text = verbose.drawn(Alphabet::Ascii).draw(&Screen::PIPE);
        assert!(text.contains(&"=".repeat(64)), "{text}");
        assert!(text.contains("catch up 5213 (10.0 ms)  scheduler 3 (4.10 ms)  2 long handlers"), "{text}");
        assert!(!text.contains("steal") && text.contains("timerfd 74.8 µs"), "{text}");
        let text = report().drawn(Alphabet::Ascii).draw(&Screen::PIPE);
        assert!(text.contains("====") && !text.contains("late over"), "{text}");
    }

    #[test]
    fn what_was_not_tried_has_a_reason_and_no_figures() {
        let cell = Cell { not_made: Some("interrupted".to_owned()), ..report().pacing.remove(0) };
        let text = DoctorReport { pacing: vec![cell], ..DoctorReport::default() }.table().draw(&Screen::PIPE);
        assert!(text.lines().any(|line| line == "timerfd: not tried: interrupted"), "{text}");
    }

    fn costs() -> Costs {
        Costs {
            clock_read_ns: 27.4,
            tsc_read_ns: Some(11.2),
            turn_ns: 29.1,
            soft_event_ns: 61.3,
            syscall_ns: 112.0,
            timer_arm_ns: 340.0,
            wakeup_cpu_ns: 4_300.0,
            timerfd_wakeup_cpu_ns: 5_200.0,
            timer_signal_cpu_ns: Some(3_900.0),
            soft_event_of_signal: Some(0.0157),
            wakeup_late_default_ns: times(),
            wakeup_late_slack1_ns: times(),
            sched_slice_ns: Some(2_800_000.0),
            sched_slice_stated_ns: Some(2_800_000.0),
        }
    }

    fn by_batch(cell: impl Fn(&str, f64) -> Cell) -> Vec<Cell> {
        let held = |batch| [("soft", 1.0), ("loop", if batch == 64 { 0.62 } else { 0.99 }), ("pwait2", 0.4)];
        let of_batch = |batch: usize| held(batch).map(|(name, held)| (name, held, batch));
        let cells = [1, 4, 64].into_iter().flat_map(of_batch);
        cells.map(|(name, held, batch)| Cell { echo_batch: Some(batch), ..cell(name, held) }).collect()
    }

    #[test]
    fn snapshot() {
        let cell = |method: &str, busy, held: f64| Cell {
            method: method.to_owned(),
            busy,
            echo_batch: (busy == Load::Echo).then_some(16),
            target_gap_ns: 40_000,
            achieved_share: held,
            back_to_back: Some(0.004),
            longest_burst: Some(2),
            gap_ns: times(),
            late_ns: times(),
            trigger_interval_ns: times(),
            late: [("scheduler".to_owned(), LateReport { count: 3, longest_ns: 4_100_000 })].into(),
            cpu_share: 0.99,
            work_kept: (busy == Load::Echo).then_some(0.91),
            gap_strip_ns: vec![40_000, 41_000, 38_000, 19_999, 400_000, 22_500, 60_000],
            ..Cell::default()
        };
        let methods = [("soft", 1.0), ("loop", 0.81), ("pwait2", 0.42)];
        let pacing: Vec<Cell> = [Load::Echo, Load::None]
            .iter()
            .flat_map(|&busy| methods.map(|(name, held)| cell(name, busy, held)))
            .collect();
        let costs = costs();
        let feature = |name: &str, works| {
            features::FeatureReport {
            name: name.to_owned(),
            works,
            how: "how it was seen, in a sentence that is as long as some of them are, which is longer than a line".to_owned(),
        }
        };
        let by_batch = by_batch(|name, held| cell(name, Load::Echo, held));
        let programs = programs::from_cells(&[&pacing[..], &by_batch].concat());
        let verdict::Verdict { sentences, remarks } = verdict::judge(&costs, &programs, &pacing, false);
        let report = DoctorReport {
            useful_range: super::super::range::useful(&costs, Some(&times())),
            costs,
            features: vec![feature("epoll_pwait2", true), feature("gso", true), feature("bpf", false)],
            programs,
            pacing,
            by_batch,
            verdict: sentences,
            remarks,
            verbose: false,
        };
        let header = "doctor: 8 methods, 1 s each over loopback, idle and busy with 16 requests in a row; also 1, 4, 64";
        snapshot::check("doctor", header, &Live::none(), &report);
        let verbose = DoctorReport { verbose: true, ..report };
        snapshot::check("doctor-verbose", header, &Live::none(), &verbose);
    }
}
