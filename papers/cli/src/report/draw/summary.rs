//! The papers' headline figures next to our results. The first three that these runs have are on the first screen.

use serde::Serialize;
use serde_json::Value;

use super::super::saved::Runs;
use super::super::value::{number, rows, text};
use super::overload::plateau;
use softtimers_run::page::digits::{digits, percent};
use softtimers_run::page::figure::{Drawn, Grid};
use softtimers_run::page::unfit::Reason;

/// A figure of a paper and ours.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Headline {
    /// The quantity that is compared.
    pub(crate) what: &'static str,
    /// The paper's figure.
    pub(crate) paper: &'static str,
    /// The method that gave our figure.
    pub(crate) how: &'static str,
    /// Our figure; with a dash for a missing one of two figures, `null` if there is none at all.
    pub(crate) here: Option<String>,
    /// Why it cannot be compared; `null` if it can.
    pub(crate) unfit: Option<Reason>,
    /// The runs that it is based on, and which of their trials.
    #[serde(skip)]
    trials: &'static [Trial],
}

/// A source, and one of its trials; empty if it does not depend on one.
type Trial = (&'static str, &'static str);

impl Headline {
    /// Says whether it is based on a run of this source.
    pub(crate) fn is_of(&self, source: &str) -> bool {
        self.trials.iter().any(|trial| trial.0 == source)
    }
}

/// Returns all of them; the papers' figures do not depend on the runs.
pub(crate) fn headlines(runs: &Runs) -> impl Iterator<Item = Headline> {
    HEADLINES.iter().map(|&(what, paper, how, trials, here)| {
        let unfit = trials.iter().filter_map(|(source, trial)| runs.against(source, trial));
        let unfit = unfit.min_by_key(|reason| reason.short).cloned();
        Headline { what, paper, how, here: here(runs), unfit, trials }
    })
}

/// Draws one table. A cell without a run says so, and so does one whose run is not fit.
pub(crate) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let mut table =
        Grid::new("The papers' figures and ours", &["figure", "the paper", "here", "how it was found"]);
    let mut missing = 0;
    for Headline { what, paper, how, here, unfit, .. } in headlines(runs) {
        // A row with only one of its two figures is shown, and counts as incomplete.
        missing += usize::from(here.as_ref().is_none_or(|here| here.contains(NONE)));
        unfit.iter().for_each(|reason| drawn.doubt(reason));
        let here = match (here, unfit) {
            (None, _) => NOT_RUN.to_owned(),
            (Some(here), None) => here,
            (Some(here), Some(reason)) => format!("{here} ({})", reason.label()),
        };
        table.row([what, paper, here.as_str(), how].map(str::to_owned));
    }
    if table.rows.iter().all(|row| row[2] == NOT_RUN) {
        return drawn.lacks("none of the runs of its figures are among the saved runs");
    }
    if missing > 0 {
        let of = table.rows.len();
        drawn.lacks(format!("{missing} of {of} rows lack a figure whose run is not among the saved runs"));
    }
    drawn.table(table);
    drawn.note(
        "Machines of 1996 to 2005 ran at 0.2 to 2.8 GHz: compare shares, ratios and shapes, not times.",
    );
}

/// The quantity, the paper's figure, the method and the trials that gave our figure, and our figure: `None` if there is
/// none at all; with a dash for a missing one of two.
type Row = (&'static str, &'static str, &'static str, &'static [Trial], fn(&Runs) -> Option<String>);

const HEADLINES: &[Row] = &[
    (
        "lateness of soft timers in a busy loop, p50 and p99",
        "at most one interval between trigger states (soft timers, 3); these are 2 to 31.6 µs in the mean (5.2)",
        "packets at 25,000 a second beside a saturated echo server (doctor)",
        &[("doctor", "soft, busy loop")],
        |runs| {
            let cell = busy_cell(runs.only("doctor").ok()?, "soft")?;
            let at = |key| number(cell, key).map(|nanos| nanos / 1e3);
            let (p50, p99) = (at("late_ns.p50"), at("late_ns.p99"));
            p50.or(p99).map(|_| format!("{} and {} µs", digits(p50), digits(p99)))
        },
    ),
    (
        "CPU taken by soft timer events, 50,000 a second",
        "2 to 6% (soft timers, abstract and 5.6: packets near 1 Gbit/s, with sending)",
        "a soft event's cost times the rate; sending is not in it (doctor)",
        &[("doctor", "")],
        |runs| share_of_rate(runs, "costs.soft_event_ns"),
    ),
    (
        "throughput retained at the highest load, of the peak: with quotas, and without",
        "all, and next to nothing (livelock paper, figures 2 and 6)",
        "two stages, the second at the lowest priority (bench)",
        &[("bench-hybrid", ""), ("bench-naive", "")],
        |runs| {
            let share = |source| Some(plateau(runs.only(source).ok()?)?.share());
            let (hybrid, naive) = (share("bench-hybrid"), share("bench-naive"));
            hybrid.or(naive).map(|_| format!("{} and {}", percent(hybrid), percent(naive)))
        },
    ),
    (
        "CPU taken by a hardware timer for each of 50,000 events a second",
        "13 to 36% (abstract, 5.6, 5.9)",
        "a timer signal's cost times the rate; above 100% it is not possible (doctor)",
        &[("doctor", "")],
        |runs| share_of_rate(runs, "costs.timer_signal_cpu_ns"),
    ),
    (
        "a soft timer event and a hardware timer's",
        "next to nothing and 4.45 µs (5.1)",
        "doctor",
        &[("doctor", "")],
        |runs| {
            let doctor = runs.only("doctor").ok()?;
            let cost = |key| number(doctor, key);
            let (soft, hard) = (cost("costs.soft_event_ns"), cost("costs.timer_signal_cpu_ns"));
            soft.or(hard).map(|_| format!("{} and {} ns", digits(soft), digits(hard)))
        },
    ),
    (
        "throughput retained beside 25,000 paced packets a second: soft timers, and a timer signal",
        "94 to 98%, and 64 to 72% (5.6, 50,000 a second)",
        "a saturated echo server in the same loop, sending included (doctor)",
        &[("doctor", "soft, busy loop"), ("doctor", "signal, busy loop")],
        |runs| {
            let doctor = runs.only("doctor").ok()?;
            let kept = |method| number(busy_cell(doctor, method)?, "work_kept");
            let (soft, signal) = (kept("soft"), kept("signal"));
            soft.or(signal).map(|_| format!("{} and {}", percent(soft), percent(signal)))
        },
    ),
    (
        "requests gained by a server that polls its interface on soft timers",
        "3 to 25% (abstract, 5.8)",
        "simulated with a request time that was chosen, so agreement shows nothing; live, the interface polled: \
         −3 to 14% at quota 1, 13 to 53% at 5 (papers/docs/server.md)",
        &[("sim-polling", "")],
        |runs| {
            let gains = rows(runs.only("sim-polling").ok()?, "rows").iter();
            let most = gains.filter_map(|row| number(row, "gain")).reduce(f64::max)?;
            Some(format!("up to {}", percent(Some(most))))
        },
    ),
    (
        "mean interval between trigger states",
        "2 to 31.6 µs by workload; under 6% beyond 100 µs (5.2)",
        "the first CPU, by eBPF (probe)",
        &[("probe", "")],
        |runs| {
            let found = runs.only("probe").ok()?;
            let mean = number(found, "cpus.0.interval_ns.mean").map(|nanos| nanos / 1e3);
            let beyond = number(found, "cpus.0.over_100us");
            mean.or(beyond).map(|_| format!("{} µs; {} beyond 100 µs", digits(mean), percent(beyond)))
        },
    ),
    (
        "events that a deadline of 10 µs fires before a trigger state",
        "26.3% (Table XIII)",
        "simulated (sim deadline)",
        &[("sim-deadline", "")],
        |runs| {
            let rows = rows(runs.only("sim-deadline").ok()?, "rows");
            let at = rows.iter().find(|row| number(row, "deadline_ns") == Some(10_000.0))?;
            Some(percent(Some(number(at, "expired")?)))
        },
    ),
    (
        "response time that pacing saves of an answer of 100 packets",
        "89% (Table XI; delayed ACKs)",
        "simulated (sim slowstart)",
        &[("sim-slowstart", "")],
        |runs| {
            let rows = rows(runs.only("sim-slowstart").ok()?, "rows").iter();
            let of_hundred = rows.filter(|row| number(row, "packets") == Some(100.0));
            let saved = of_hundred.filter_map(|row| number(row, "reduction_delayed")).reduce(f64::max)?;
            Some(percent(Some(saved)))
        },
    ),
    (
        "phases of 1 ms that take more than 1.6 times the median",
        "1% (periodic timers, 2.2: P4 2.8 GHz)",
        "noise",
        &[("noise", "")],
        |runs| Some(percent(Some(number(runs.only("noise").ok()?, "p_delayed")?))),
    ),
];

const NOT_RUN: &str = "not run";
/// The character that [`digits`] and [`percent`] show for a missing figure.
const NONE: char = '–';

/// Returns the share of a CPU of one of the doctor's costs, at 50,000 a second.
fn share_of_rate(runs: &Runs, key: &str) -> Option<String> {
    let doctor = runs.only("doctor").ok()?;
    Some(percent(Some(number(doctor, key)? * 50_000.0 / 1e9)))
}

fn busy_cell<'a>(doctor: &'a Value, method: &str) -> Option<&'a Value> {
    let mut cells = rows(doctor, "pacing").iter();
    cells.find(|cell| text(cell, "busy") == "echo" && text(cell, "method") == method)
}
