//! γ and φ on the six traces, and traffic that no mean gap predicts.

use std::fmt::Write as _;

use softtimers_sim::{Mean, Row};

use super::{Flag, SEEDS, means, micros, number, range, real, rows, word};

/// Says how much of the fall of overhead is reached at 1, 2 and 3, over the six traces.
pub(super) fn fall() -> String {
    let mut table = "| of the fall of overhead | at 1 | at 2 | at 3 |\n|---|---|---|---|".to_owned();
    for (name, shown, first) in [("gamma", "γ, from 0.25 to 4", 0.25), ("phi", "φ, from 0 to 4", 0.0)] {
        let by_value: Vec<Vec<Row>> = [first, 1.0, 2.0, 3.0, 4.0]
            .map(|value| means(&[word("scheme", "hip"), real(name, value)]))
            .into();
        for pair in by_value.windows(2) {
            for (less, more) in pair[0].iter().zip(&pair[1]) {
                let falls = number(more, "overhead_us") <= number(less, "overhead_us");
                let rises = number(more, "delay_us") >= number(less, "delay_us");
                assert!(falls && rises, "{name}: {less:?} {more:?}");
            }
        }
        let overhead = |value: usize, trace: usize| number(&by_value[value][trace], "overhead_us");
        let reached = [1, 2, 3].map(|value| {
            let (least, most) = range((0..by_value[0].len()).map(|trace| {
                let fallen = overhead(0, trace) - overhead(value, trace);
                100.0 * fallen / (overhead(0, trace) - overhead(4, trace))
            }));
            format!("{least:.0} to {most:.0}%")
        });
        let _ = write!(table, "\n| {shown} | {} |", reached.join(" | "));
    }
    table
}

/// The share of polls that find nothing where traffic is self-similar.
pub(super) fn bursts() -> String {
    let shares = [500, 2_500, 10_000].map(|gap| {
        let flags: [Flag; 3] =
            [word("scheme", "hip"), word("synthetic", "self-similar"), micros("mean-gap", gap)];
        let of_seed = |seed| {
            let row = rows("hip", &flags, seed, 1).remove(0);
            100.0 * number(&row, "unsuccessful") / number(&row, "polls")
        };
        let Mean { mean, interval, .. } =
            Mean::from_numbers(&(1..=u64::from(SEEDS)).map(of_seed).collect::<Vec<_>>());
        format!("{mean:.0} ± {:.0}%", interval.unwrap_or(0.0))
    });
    let [dense, default, sparse] = shares;
    format!(
        "Traffic of many sources is bursty at every scale (`--synthetic self-similar`), and a mean and a deviation do not predict it: with mean \
         gaps of\n0.5, 2.5 and 10 ms (`--scheme hip --seeds 20 --sweep mean-gap=500us,2500us,10ms`), {dense}, {default} and {sparse} of HIP's polls find nothing. P_U max bounds that cost, so HIP costs at most \
         what interrupts\ndo, and ten polls and two changes for each time it polled."
    )
}
