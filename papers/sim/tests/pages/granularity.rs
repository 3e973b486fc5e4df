//! Periods on soft timers and on finer ticks: how fine time is, and what that changes.

use std::fmt::Write as _;

use softtimers_sim::Row;

use super::{Flag, means, micros, number, range, thousands, trace, word};

/// HIP on soft timers beside HIP on the clock, on each of the six traces.
pub(super) fn soft() -> String {
    let of = |scheme, reading, name| means(&[word("scheme", scheme), word(name, reading)]);
    let [clock, clock_event] = ["counter", "event"].map(|reading| of("hip", reading, "reading"));
    let [left_alone, moved] = ["counter", "event"].map(|reading| of("hip-soft", reading, "soft-reading"));
    let mut table = "| | moved: delay, clock's event reading | its overhead | moved: delay, clock's counter | left alone: \
                     delay, clock's counter | its polls |\n|---|---|---|---|---|---|"
        .to_owned();
    for at in 0..clock.len() {
        let ratio = |name, one: &[Row], other: &[Row]| {
            format!("{:.2}", number(&one[at], name) / number(&other[at], name))
        };
        let cells = [
            ratio("delay_us", &moved, &clock_event),
            ratio("overhead_us", &moved, &clock_event),
            ratio("delay_us", &moved, &clock),
            ratio("delay_us", &left_alone, &clock),
            ratio("polls", &left_alone, &clock),
        ];
        let _ = write!(table, "\n| {} | {} |", trace(&clock[at]), cells.join(" | "));
    }
    table
}

/// Delays by the length of a tick, in both readings.
pub(super) fn ticks() -> String {
    let by_tick = |flags: &[Flag]| {
        [10_000, 1_000, 100].map(|tick| {
            let flags: Vec<Flag> = [word("scheme", "hip"), micros("t-min", tick)]
                .into_iter()
                .chain(flags.iter().cloned())
                .collect();
            means(&flags)
        })
    };
    let event = by_tick(&[word("reading", "event")]);
    let counter = by_tick(&[]);
    let nearest = by_tick(&[word("rounding", "nearest")]);
    let mut table = "| delay µs at ticks of 10 / 1 / 0.1 ms | `--reading event` | `--reading counter` | the same, `--rounding nearest` \
                     |\n|---|---|---|---|"
        .to_owned();
    for at in 0..counter[0].len() {
        let cells = [&event, &counter, &nearest].map(|ticks| {
            let delays = ticks.each_ref().map(|rows| thousands(number(&rows[at], "delay_us"), 0));
            delays.join(" / ")
        });
        let _ = write!(table, "\n| {} | {} |", trace(&counter[0][at]), cells.join(" | "));
    }
    let last_step = |ticks: &[Vec<Row>; 3], name| {
        let changes = ticks[1].iter().zip(&ticks[2]);
        let (least, most) =
            range(changes.map(|(coarse, fine)| 100.0 * (number(fine, name) / number(coarse, name) - 1.0)));
        format!("{} to {}%", signed(least), signed(most))
    };
    let _ = write!(
        table,
        "\n\nFrom 1 ms to 0.1 the counter's reading changes delays by {} and polls by {}, with `--rounding nearest` delays by {}.",
        last_step(&counter, "delay_us"),
        last_step(&counter, "polls"),
        last_step(&nearest, "delay_us"),
    );
    table
}

fn signed(number: f64) -> String {
    let sign = if number < 0.0 { '−' } else { '+' };
    format!("{sign}{:.0}", number.abs())
}
