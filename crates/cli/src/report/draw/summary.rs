//! The papers' headline figures beside what was found here.

use serde_json::Value;

use super::super::figure::{Drawn, Grid, digits, percent};
use super::super::saved::{Runs, number, rows, text};

/// One table. A cell of what was not run says so; nothing else is missing because of it.
pub(in super::super) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let mut table =
        Grid::new("The papers' figures and ours", &["what", "the paper", "here", "how it was found"]);
    let mut missing = 0;
    let mut row = |what: &str, paper: &str, here: Option<String>, how: &str| {
        missing += usize::from(here.is_none());
        let here = here.unwrap_or_else(|| "not run".to_owned());
        table.row([what, paper, &here, how].map(str::to_owned));
    };
    let doctor = runs.only("doctor").ok();
    let cost = |key: &str| number(doctor?, &format!("costs.{key}"));
    let cell = |method: &str, key: &str| number(busy_cell(doctor?, method)?, key);
    let share_at = |nanos: Option<f64>, rate: f64| percent(nanos.map(|nanos| nanos * rate / 1e9));
    let of_doctor = |value: String| doctor.map(|_| value);
    row(
        "processor taken by soft timers' events, 50,000 a second",
        "2 to 6% (soft timers, abstract and 5.6: packets near 1 Gbit/s, with sending)",
        of_doctor(share_at(cost("soft_event_ns"), 50_000.0)),
        "a soft event's cost times the rate; sending is not in it (doctor)",
    );
    row(
        "processor taken by a hardware timer for each",
        "13 to 36% (abstract, 5.6, 5.9)",
        of_doctor(share_at(cost("timer_signal_cpu_ns"), 50_000.0)),
        "a timer's signal's cost times the rate; above 100% it cannot be had (doctor)",
    );
    row(
        "a soft event against a hardware timer's",
        "next to nothing against 4.45 µs (5.1)",
        of_doctor(format!(
            "{} ns against {} ns",
            digits(cost("soft_event_ns")),
            digits(cost("timer_signal_cpu_ns"))
        )),
        "doctor",
    );
    row(
        "work that is left beside 25,000 paced packets a second: soft, and by a timer's signal",
        "94 to 98%, and 64 to 72% (5.6, 50,000 a second)",
        of_doctor(format!(
            "{}, and {}",
            percent(cell("soft", "work_kept")),
            percent(cell("signal", "work_kept"))
        )),
        "a saturated echo server in the same loop, sending included (doctor)",
    );
    row(
        "gain of a server whose interface is polled on soft timers",
        "3 to 25% (abstract, 5.8)",
        runs.only("sim-polling").ok().map(|found| format!("up to {}", percent(greatest(found, "gain")))),
        "the paper's costs, simulated (sim polling)",
    );
    let of_curve = |source: &str| number(runs.only(source).ok()?, "curve.asymptote_share");
    let (hybrid, naive) = (of_curve("bench-hybrid"), of_curve("bench-naive"));
    row(
        "goodput at five times the capacity, of the peak: with quotas, and without",
        "all, and next to nothing (livelock paper, figures 3 and 6)",
        hybrid.or(naive).map(|_| format!("{}, and {}", percent(hybrid), percent(naive))),
        "two stages, the second at the lowest priority (bench)",
    );
    row(
        "mean interval between trigger states",
        "2 to 31.6 µs by workload; under 6% beyond 100 µs (5.2)",
        runs.only("probe").ok().map(|found| {
            let mean = number(found, "cpus.0.interval_ns.mean").map(|nanos| nanos / 1e3);
            format!("{} µs; {} beyond 100 µs", digits(mean), percent(number(found, "cpus.0.over_100us")))
        }),
        "the first processor, by eBPF (probe)",
    );
    row(
        "events that their deadline of 10 µs meets first",
        "26.3% (Table XIII)",
        runs.only("sim-deadline").ok().map(|found| {
            let row = rows(found, "rows").iter().find(|row| text(row, "deadline") == "10us");
            format!("{}%", digits(row.and_then(|row| number(row, "expired"))))
        }),
        "simulated (sim deadline)",
    );
    row(
        "response time that pacing saves of an answer of 100 packets",
        "89% (Table XI; delayed ACKs)",
        runs.only("sim-slowstart").ok().map(|found| {
            let of_hundred = rows(found, "rows").iter().filter(|row| number(row, "packets") == Some(100.0));
            let saved = of_hundred.filter_map(|row| number(row, "reduction_delayed")).reduce(f64::max);
            format!("{}%", digits(saved))
        }),
        "simulated (sim slowstart)",
    );
    row(
        "phases of 1 ms that are delayed by 1.6 times",
        "1% (periodic timers, 2.2: P4 2.8 GHz)",
        runs.only("noise").ok().map(|found| percent(number(found, "p_delayed"))),
        "noise",
    );
    match (missing, table.rows.len()) {
        (0, _) => drawn.table(table),
        (missing, rows) if missing == rows => {
            return drawn.lacks("none of the runs that it looks at are among the saved runs");
        }
        (missing, rows) => {
            drawn.lacks(format!("{missing} of {rows} rows: what they need is not among the saved runs"));
            drawn.table(table);
        }
    }
    drawn.note(
        "Machines of 1996 to 2005 ran at 0.2 to 2.8 GHz: compare shares, ratios and shapes, not times.",
    );
}

fn busy_cell<'a>(doctor: &'a Value, method: &str) -> Option<&'a Value> {
    rows(doctor, "pacing").iter().find(|cell| text(cell, "busy") == "echo" && text(cell, "method") == method)
}

fn greatest(found: &Value, key: &str) -> Option<f64> {
    rows(found, "rows").iter().filter_map(|row| number(row, key)).reduce(f64::max)
}
