//! Table 3, how it stands to the paper's, and the other schemes on one of its traces.

use std::fmt::Write as _;

use softtimers_sim::{Mean, Row, Value};

use super::{cell, means, number, shown, text, thousands, trace, word};

pub(super) fn table() -> String {
    let mut table =
        "| | interrupts | polling | HIP | polling: delay | HIP: delay | interrupts | polls | in vain |\n\
                     |---|---|---|---|---|---|---|---|---|"
            .to_owned();
    for schemes in means(&[]).chunks(3) {
        let [interrupts, polling, hip] = schemes else { panic!("three schemes") };
        let beside = |row: &Row, name: &str, digits: usize| {
            let paper = thousands(number(row, &format!("paper_{name}")), digits.min(1));
            format!(" | {} ({paper})", shown(row, name, digits))
        };
        let _ = write!(table, "\n| {}", trace(hip));
        for row in [interrupts, polling, hip] {
            table += &beside(row, "overhead_us", 2);
        }
        for row in [polling, hip] {
            table += &beside(row, "delay_us", 0);
        }
        for name in ["interrupts", "polls", "unsuccessful"] {
            table += &beside(hip, name, 0);
        }
        table += " |";
    }
    table
}

/// Says how many of the paper's figures are inside the intervals of ours.
pub(super) fn inside() -> String {
    let (mut all, mut inside) = (0, 0);
    for row in means(&[]) {
        // As they are printed, with one digit after the point or none. Interrupts alone are the same for every seed.
        let figures: &[(&str, f64)] = match text(&row, "scheme") {
            "polling" => &[("overhead_us", 0.05), ("delay_us", 0.5)],
            "hip" => &[
                ("overhead_us", 0.05),
                ("delay_us", 0.5),
                ("interrupts", 0.5),
                ("polls", 0.5),
                ("unsuccessful", 0.5),
            ],
            _ => &[],
        };
        for (name, printed) in figures {
            let Value::Mean(Mean { mean, interval: Some(half), .. }) = *cell(&row, name) else {
                panic!("no mean: {row:?}")
            };
            let paper = number(&row, &format!("paper_{name}"));
            all += 1;
            inside += u32::from((mean - paper).abs() <= half + printed);
        }
    }
    format!(
        "An interval says what the drawing of the traffic does to the mean. The paper has one recording of each trace, which need not be near \
         the mean:\nof the {all} figures that differ between seeds, {inside} have the paper's within the interval, give or take half its last \
         digit."
    )
}

/// Every way on one trace, and the readings of two of them.
pub(super) fn schemes() -> String {
    let on = word("synthetic", "t-high-1");
    let mut all: Vec<_> = means(&[on.clone(), word("scheme", "all")])
        .into_iter()
        .map(|row| (format!("`{}`", text(&row, "scheme")), row))
        .collect();
    for (scheme, name, value) in [("hip", "reading", "event"), ("hip-soft", "soft-reading", "counter")] {
        let at = all.iter().position(|(shown, _)| *shown == format!("`{scheme}`")).expect("one of all");
        let row = means(&[on.clone(), word("scheme", scheme), word(name, value)]).remove(0);
        all.insert(at + 1, (format!("`{scheme} --{name} {value}`"), row));
    }
    let mut table =
        "| T-High-1 | overhead µs | delay µs | longest | interrupts | polls |\n|---|---|---|---|---|---|"
            .to_owned();
    for (name, row) in all {
        let cells =
            [("overhead_us", 2), ("delay_us", 1), ("longest_delay_us", 0), ("interrupts", 0), ("polls", 0)];
        let cells = cells.map(|(name, digits)| shown(&row, name, digits));
        let _ = write!(table, "\n| {name} | {} |", cells.join(" | "));
    }
    table
}
