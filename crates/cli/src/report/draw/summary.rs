//! The papers' headline figures beside what was found here.

use serde_json::Value;

use super::super::digits::{digits, percent};
use super::super::figure::{Drawn, Grid};
use super::super::saved::{Runs, number, rows, text};

/// One table. A cell of what was not run says so; nothing else is missing because of it.
pub(in super::super) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let head = ["what", "the paper", "here", "how it was found"];
    let mut table = Grid::new("The papers' figures and ours", &head);
    let mut missing = 0;
    for Headline { what, paper, how, here } in HEADLINES {
        let here = here(runs);
        // Of two figures one may be there, and is shown; the row is not whole then.
        missing += usize::from(here.as_ref().is_none_or(|here| here.contains(NONE)));
        let here = here.unwrap_or_else(|| NOT_RUN.to_owned());
        table.row([what, paper, here.as_str(), how].map(|cell| (*cell).to_owned()));
    }
    if table.rows.iter().all(|row| row[2] == NOT_RUN) {
        return drawn.lacks("none of the runs that it looks at are among the saved runs");
    }
    if missing > 0 {
        let of = HEADLINES.len();
        drawn.lacks(format!(
            "{missing} of {of} rows want a figure: what it is made of is not among the saved runs"
        ));
    }
    drawn.table(table);
    drawn.note(
        "Machines of 1996 to 2005 ran at 0.2 to 2.8 GHz: compare shares, ratios and shapes, not times.",
    );
}

/// A figure of a paper, and where its counterpart is.
struct Headline {
    what: &'static str,
    paper: &'static str,
    how: &'static str,
    /// `None` if there is no figure at all; a dash for one of two that is not there.
    here: fn(&Runs) -> Option<String>,
}

const HEADLINES: &[Headline] = &[
    Headline {
        what: "processor taken by soft timers' events, 50,000 a second",
        paper: "2 to 6% (soft timers, abstract and 5.6: packets near 1 Gbit/s, with sending)",
        how: "a soft event's cost times the rate; sending is not in it (doctor)",
        here: |runs| share_of_rate(runs, "costs.soft_event_ns"),
    },
    Headline {
        what: "processor taken by a hardware timer for each",
        paper: "13 to 36% (abstract, 5.6, 5.9)",
        how: "a timer's signal's cost times the rate; above 100% it cannot be had (doctor)",
        here: |runs| share_of_rate(runs, "costs.timer_signal_cpu_ns"),
    },
    Headline {
        what: "a soft event against a hardware timer's",
        paper: "next to nothing against 4.45 µs (5.1)",
        how: "doctor",
        here: |runs| {
            let doctor = runs.only("doctor").ok()?;
            let cost = |key| number(doctor, key);
            let (soft, hard) = (cost("costs.soft_event_ns"), cost("costs.timer_signal_cpu_ns"));
            soft.or(hard).map(|_| format!("{} ns against {} ns", digits(soft), digits(hard)))
        },
    },
    Headline {
        what: "work that is left beside 25,000 paced packets a second: soft, and by a timer's signal",
        paper: "94 to 98%, and 64 to 72% (5.6, 50,000 a second)",
        how: "a saturated echo server in the same loop, sending included (doctor)",
        here: |runs| {
            let doctor = runs.only("doctor").ok()?;
            let kept = |method| number(busy_cell(doctor, method)?, "work_kept");
            let (soft, signal) = (kept("soft"), kept("signal"));
            soft.or(signal).map(|_| format!("{}, and {}", percent(soft), percent(signal)))
        },
    },
    Headline {
        what: "gain of a server whose interface is polled on soft timers",
        paper: "3 to 25% (abstract, 5.8)",
        how: "simulated with a request time that was chosen, so agreement shows nothing; live, at saturation, nothing: \
              0.89 to 1.00 of epoll's at quota 1, 1.03 at the best of five (docs/server.md)",
        here: |runs| {
            let gains = rows(runs.only("sim-polling").ok()?, "rows").iter();
            let most = gains.filter_map(|row| number(row, "gain")).reduce(f64::max)?;
            Some(format!("up to {}", percent(Some(most))))
        },
    },
    Headline {
        what: "goodput at the highest load, of the peak: with quotas, and without",
        paper: "all, and next to nothing (livelock paper, figures 2 and 6)",
        how: "two stages, the second at the lowest priority (bench)",
        here: |runs| {
            let share = |source| number(runs.only(source).ok()?, "curve.asymptote_share");
            let (hybrid, naive) = (share("bench-hybrid"), share("bench-naive"));
            hybrid.or(naive).map(|_| format!("{}, and {}", percent(hybrid), percent(naive)))
        },
    },
    Headline {
        what: "mean interval between trigger states",
        paper: "2 to 31.6 µs by workload; under 6% beyond 100 µs (5.2)",
        how: "the first processor, by eBPF (probe)",
        here: |runs| {
            let found = runs.only("probe").ok()?;
            let mean = number(found, "cpus.0.interval_ns.mean").map(|nanos| nanos / 1e3);
            let beyond = number(found, "cpus.0.over_100us");
            mean.or(beyond).map(|_| format!("{} µs; {} beyond 100 µs", digits(mean), percent(beyond)))
        },
    },
    Headline {
        what: "events that their deadline of 10 µs meets first",
        paper: "26.3% (Table XIII)",
        how: "simulated (sim deadline)",
        here: |runs| {
            let rows = rows(runs.only("sim-deadline").ok()?, "rows");
            let at = rows.iter().find(|row| text(row, "deadline") == "10us")?;
            Some(percent(Some(number(at, "expired")?)))
        },
    },
    Headline {
        what: "response time that pacing saves of an answer of 100 packets",
        paper: "89% (Table XI; delayed ACKs)",
        how: "simulated (sim slowstart)",
        here: |runs| {
            let rows = rows(runs.only("sim-slowstart").ok()?, "rows").iter();
            let of_hundred = rows.filter(|row| number(row, "packets") == Some(100.0));
            let saved = of_hundred.filter_map(|row| number(row, "reduction_delayed")).reduce(f64::max)?;
            Some(percent(Some(saved)))
        },
    },
    Headline {
        what: "phases of 1 ms that are delayed by 1.6 times",
        paper: "1% (periodic timers, 2.2: P4 2.8 GHz)",
        how: "noise",
        here: |runs| Some(percent(Some(number(runs.only("noise").ok()?, "p_delayed")?))),
    },
];

const NOT_RUN: &str = "not run";
/// What [`digits`] and [`percent`] show for a figure that is not there.
const NONE: char = '–';
/// What a cost of the doctor's comes to at 50,000 a second.
fn share_of_rate(runs: &Runs, key: &str) -> Option<String> {
    let doctor = runs.only("doctor").ok()?;
    Some(percent(Some(number(doctor, key)? * 50_000.0 / 1e9)))
}

fn busy_cell<'a>(doctor: &'a Value, method: &str) -> Option<&'a Value> {
    let mut cells = rows(doctor, "pacing").iter();
    cells.find(|cell| text(cell, "busy") == "echo" && text(cell, "method") == method)
}
