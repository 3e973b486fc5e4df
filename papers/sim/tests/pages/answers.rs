//! The six questions that HIP's text does not ask, and what the other answer to each changes.

use std::fmt::Write as _;

use softtimers_sim::Mean;

use super::{SEEDS, number, rows, trace, word};

/// A choice that the text leaves open, the flags of both answers, and those that both runs have.
struct Reading {
    open: &'static str,
    flag: (&'static str, &'static str, &'static str),
    with: &'static [(&'static str, &'static str)],
}

const READINGS: [Reading; 6] = [
    Reading {
        open: "when polling alone polls first",
        flag: ("first-poll", "at-once", "period"),
        with: &[("scheme", "polling")],
    },
    Reading {
        open: "from where the period of a poll counts",
        flag: ("counted-from", "begin", "end"),
        with: &[("scheme", "hip")],
    },
    Reading {
        open: "who takes a packet that arrives as a look ends",
        flag: ("look-end", "next", "this"),
        with: &[("scheme", "hip")],
    },
    Reading {
        open: "a period that is over when an arrival shortens it",
        flag: ("late-period", "next-tick", "at-once"),
        with: &[("scheme", "hip"), ("reading", "event"), ("fitted", "event")],
    },
    Reading {
        open: "from where a period that is not rounded counts",
        flag: ("unrounded", "look", "tick"),
        with: &[("scheme", "hip"), ("rounding", "none")],
    },
    Reading {
        open: "in what the mean and the deviation are kept",
        flag: ("estimate", "nanoseconds", "finer"),
        with: &[("scheme", "hip")],
    },
];

/// The other answer against the default, on the same packets: the greatest change over the six traces.
pub(super) fn readings() -> String {
    let mut table =
        "| the text leaves open | flag: default, other answer | in runs with | overhead | delay | polls |\n\
                     |---|---|---|---|---|---|"
            .to_owned();
    for Reading { open, flag: (name, default, other), with } in READINGS {
        let run = |answer: &'static str, seed: u64| {
            let flags: Vec<_> = with
                .iter()
                .copied()
                .chain([(name, answer)])
                .map(|(name, answer)| word(name, answer))
                .collect();
            rows("hip", &flags, seed, 1)
        };
        let pairs: Vec<_> =
            (1..=u64::from(SEEDS)).map(|seed| (run(default, seed), run(other, seed))).collect();
        let greatest = |column: &str| {
            let of_trace = |trace: usize| {
                let changes = pairs.iter().map(|(one, next)| {
                    100.0 * (number(&next[trace], column) / number(&one[trace], column) - 1.0)
                });
                Mean::from_numbers(&changes.collect::<Vec<_>>())
            };
            let traces = 0..pairs[0].0.len();
            let most = traces
                .map(|at| (at, of_trace(at)))
                .max_by(|(_, one), (_, next)| one.mean.abs().total_cmp(&next.mean.abs()));
            let (at, Mean { mean, interval, .. }) = most.expect("six traces");
            let half = interval.unwrap_or(0.0);
            if mean.abs() < 0.005 && half < 0.005 {
                return "none".to_owned();
            }
            let sign = if mean < 0.0 { '−' } else { '+' };
            format!("{sign}{:.2} ± {half:.2}% ({})", mean.abs(), trace(&pairs[0].0[at]))
        };
        let flags: Vec<_> = with.iter().map(|(name, word)| format!("--{name} {word}")).collect();
        let cells = ["overhead_us", "delay_us", "polls"].map(greatest).join(" | ");
        let _ = write!(
            table,
            "\n| {open} | `--{name}` `{default}`, `{other}` | `{}` | {cells} |",
            flags.join(" ")
        );
    }
    table
}
