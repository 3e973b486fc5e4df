//! Rows of `papers/docs/papers.md` that stand beside the papers' own.

use std::fmt::Write as _;

use softtimers_sim::Row;

use super::{counted, others};
use super::{means, number, of, range, real, shown, text, value, word};

const HEAD: &str = "| figure or table | theirs | ours | made by |\n|---|---|---|---|";

fn theirs(rows: &[&Row], name: &str, digits: usize) -> String {
    let cells = rows.iter().map(|row| super::thousands(number(row, name), digits));
    cells.collect::<Vec<_>>().join(", ")
}

fn ours(rows: &[&Row], name: &str, digits: usize) -> String {
    rows.iter().map(|row| shown(row, name, digits)).collect::<Vec<_>>().join(", ")
}

/// Says how much of a fall is reached at 2, over the six traces.
fn reached(name: &'static str, first: f64) -> String {
    let [begin, two, end] = [first, 2.0, 4.0].map(|at| means(&[word("scheme", "hip"), real(name, at)]));
    let overhead = |rows: &[Row], at: usize| number(&rows[at], "overhead_us");
    let (least, most) = range((0..begin.len()).map(|at| {
        let from = overhead(&begin, at);
        100.0 * (from - overhead(&two, at)) / (from - overhead(&end, at))
    }));
    format!("{least:.0} to {most:.0}%")
}

/// Says how long packets wait by a soft event, as a part of the clock's counter, over the six traces.
fn soft(reading: &'static str, clock: &'static str) -> String {
    let soft = means(&[word("scheme", "hip-soft"), word("soft-reading", reading)]);
    let clock = means(&[word("scheme", "hip"), word("reading", clock)]);
    let (least, most) = range(
        soft.iter().zip(&clock).map(|(soft, clock)| number(soft, "delay_us") / number(clock, "delay_us")),
    );
    format!("{least:.2} to {most:.2}")
}

pub(super) fn hip() -> String {
    let all = means(&[]);
    let of = |scheme| all.iter().filter(|row| text(row, "scheme") == scheme).collect::<Vec<_>>();
    let [interrupts, polling, hip] = ["interrupts", "polling", "hip"].map(of);
    let command = "`softtimers sim hip --seeds 20`";
    let mut table = format!(
        "{HEAD}\n| Table 1: the traces | lost | same count, length and duration; how packets came is fitted to Table 3 | `softtimers sim \
         hip-traces` |"
    );
    for (name, rows, column, digits) in [
        ("Table 3: interrupts alone, µs a packet", &interrupts, "overhead_us", 1),
        ("the same, polling", &polling, "overhead_us", 1),
        ("the same, HIP", &hip, "overhead_us", 1),
        ("the same, HIP's delay, µs", &hip, "delay_us", 0),
    ] {
        let theirs = theirs(rows, &format!("paper_{column}"), digits);
        let ours = ours(rows, column, digits);
        let _ = write!(table, "\n| {name} | {theirs} | {ours} | {command} |");
    }
    let _ = write!(
        table,
        "\n| Figures 3, 4: γ and φ | less overhead, more delay; by the text 2 to 3 is a good middle for both (the curves are lost) | at every \
         step, on every trace; a γ of 2 has {} of the fall from 0.25 to 4, a φ of 2 has {} of that from 0 to 4 | `softtimers sim hip \
         --scheme hip --seeds 20 --sweep gamma=0.25,1,2,3,4`, `--sweep phi=0,1,2,3,4` |",
        reached("gamma", 0.25),
        reached("phi", 0.0)
    );
    let high = |rows: &[&Row]| {
        rows[..2].iter().map(|row| shown(row, "overhead_us", 2)).collect::<Vec<_>>().join(" and ")
    };
    let _ = write!(
        table,
        "\n| the same, HIP against polling at high rates | 0.9 and 0.9 | HIP {}, polling {} | {command} |",
        high(&hip),
        high(&polling)
    );
    let _ = write!(
        table,
        "\n| §5: HIP on soft timers | possible; no figure | waits {} times as long as by the clock if its event is moved at each arrival, {} \
         times if it is left alone ([both readings](hip.md#hip-on-soft-timers)) | `softtimers sim hip --scheme hip-soft --seeds 20`, \
         `--soft-reading counter` |",
        soft("event", "event"),
        soft("counter", "counter")
    );
    let real: Vec<Vec<Row>> = others::recorded().into_iter().map(|(_, rows)| rows).collect();
    let of_each = |at: usize| {
        real.iter()
            .map(|rows| format!("{:.2}", number(&rows[at], "overhead_us")))
            .collect::<Vec<_>>()
            .join(" and ")
    };
    let _ = write!(
        table,
        "\n| real traffic | | HIP {} µs, interrupts {} | `softtimers sim hip --trace FILE` |\n| on a socket | | as few wake-ups as the delay \
         bound's, at a multiple of its delay | live, `cargo run --release -p softtimers-net --example receive_policies` |",
        of_each(2),
        of_each(0)
    );
    table
}

pub(super) fn callouts() -> String {
    let mut table = "| table | theirs | ours | made by |\n|---|---|---|---|".to_owned();
    for (name, kernel) in [
        ("Table I: set and cancel, 0 / 1,000 outstanding, old list", "old"),
        ("the same, wheel by function and argument", "hash"),
        ("the same, wheel by handle", "handles"),
    ] {
        let found = [0, 1_000].map(|timers| counted::callouts(kernel, timers));
        let cells = ["paper_us", "set_cancel_us"].map(|name| {
            let cells = found.each_ref().map(|row| super::thousands(value(of("callout", row, name)), 1));
            cells.join(" / ") + " µs"
        });
        let _ = write!(table, "\n| {name} | {} | {} | `softtimers sim callout` |", cells[0], cells[1]);
    }
    table
        + "\n| Table II: instructions of each operation | formulas | [the same formulas beside ours](../../xtask/docs/wheel.md#what-it-costs), none of which has a \
           term in the number of timers | counted, `cargo xtask instructions` |\n\
           | several timers of a process | a system call each | [`softtimers_itimer_…`](../../crates/capi/README.md#many-interval-timers), behind one kernel timer | |"
}
