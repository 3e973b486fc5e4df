//! Paced flows, big ACKs and deadlines: means of 20 seeds.

use std::fmt::Write as _;

use softtimers_sim::{Row, Setting, Value};

use super::{Flag, SEEDS, known, mean, micros, of, rows, word};

const TARGETS: [u64; 2] = [40, 60];
const BURSTS: [u64; 6] = [12, 15, 20, 25, 30, 35];

fn one(experiment: &str, flags: &[Flag]) -> Row {
    rows(experiment, flags, 1, SEEDS).remove(0)
}

/// With both targets and every shortest gap of the paper's tables.
pub(super) fn paced() -> Vec<Row> {
    let of_target =
        |target| BURSTS.map(|burst| one("pacing", &[micros("target", target), micros("burst", burst)]));
    TARGETS.into_iter().flat_map(of_target).collect()
}

/// The same targets by a hardware timer.
pub(super) fn interrupted() -> Vec<Row> {
    let hardware = word("strategy", "interrupts");
    TARGETS.map(|target| one("pacing", &[hardware.clone(), micros("target", target)])).into()
}

/// Mean and deviation of the gaps, the paper's mean in brackets.
pub(super) fn gaps() -> String {
    let mut table = "| shortest gap | target 40 | target 60 |\n|---|---|---|".to_owned();
    let cell = |row: &Row| {
        let of = |name| of("pacing", row, name);
        let paper = known(of("paper_us")).map_or_else(String::new, |paper| format!(" ({paper})"));
        format!("{}{paper}, {}", mean(of("mean_us"), 1.0, 1), mean(of("stddev_us"), 1.0, 1))
    };
    let (paced, interrupted) = (paced(), interrupted());
    for (at, burst) in BURSTS.iter().enumerate() {
        let _ = write!(table, "\n| {burst} | {} | {} |", cell(&paced[at]), cell(&paced[BURSTS.len() + at]));
    }
    let _ =
        write!(table, "\n| by a hardware timer | {} | {} |", cell(&interrupted[0]), cell(&interrupted[1]));
    table
}

pub(super) fn acks() -> String {
    let mut table = "| answer | of the link | longest queue |\n|---|---|---|".to_owned();
    for (answer, shown) in [
        ("self-clocked", "all at once (self-clocked)"),
        ("paced", "spread: `AckPacer`"),
        ("maxburst", "at most four packets for each ACK (maxburst)"),
        ("window-cut", "the window is cut"),
    ] {
        let row = one("pacing-acks", &[word("answer", answer)]);
        let of = |name| of("pacing-acks", &row, name);
        let (link, queue) = (mean(of("of_link"), 0.01, 1), mean(of("longest_queue"), 1.0, 0));
        let _ = write!(table, "\n| {shown} | {link}% | {queue} |");
    }
    table
}

const DEADLINES: [u64; 6] = [10, 20, 50, 100, 200, 1_000];

/// By each deadline of the table.
pub(super) fn deadlines(hardware: &'static str) -> Vec<Row> {
    let hardware = word("hardware", hardware);
    DEADLINES.map(|deadline| one("deadline", &[hardware.clone(), micros("deadline", deadline)])).into()
}

pub(super) fn deadline_table() -> String {
    let mut table =
        "| deadline | expired | the paper's | overhead | the paper's | `lazy` |\n|---|---|---|---|---|---|"
            .to_owned();
    for (at, (each, lazy)) in deadlines("each").iter().zip(deadlines("lazy")).enumerate() {
        let of = |row, name| of("deadline", row, name);
        let share = |value: &Value| format!("{}%", mean(value, 0.01, 2));
        let paper =
            |value: &Value| known(value).map_or_else(String::new, |share| format!("{:.1}%", 100.0 * share));
        let deadline = Setting::Time(std::time::Duration::from_micros(DEADLINES[at]))
            .to_string()
            .replace("us", " µs")
            .replace("ms", " ms");
        let _ = write!(
            table,
            "\n| {deadline} | {} | {} | {} | {} | {} |",
            share(of(each, "expired")),
            paper(of(each, "paper_expired")),
            share(of(each, "overhead")),
            paper(of(each, "paper_overhead")),
            share(of(&lazy, "overhead")),
        );
    }
    table
}
