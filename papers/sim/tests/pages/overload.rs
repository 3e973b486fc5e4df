//! Routers under overload: packets a second that leave by those that arrive, means of 20 seeds.

use std::fmt::Write as _;

use softtimers_sim::{Mean, Row, Setting, Value};

use super::{Flag, SEEDS, mean, of, rows, word};

const RATES: [u64; 10] = [2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000, 11_000];

fn at(flags: &[Flag], rate: u64) -> Row {
    let flags: Vec<Flag> = flags.iter().cloned().chain([("rate", Setting::Count(rate))]).collect();
    rows("livelock", &flags, 1, SEEDS).remove(0)
}

/// Flags as they are typed, and as they are set.
fn kernels() -> Vec<(String, Vec<Flag>)> {
    let typed = |(name, setting): &Flag| format!("--{name} {setting}");
    let quota = |quota| ("quota", Setting::Limit(quota));
    let (unmodified, polled) = (word("kernel", "unmodified"), word("kernel", "polled"));
    let screend = word("consumer", "screend");
    let mut all = vec![vec![unmodified.clone()], vec![word("kernel", "no-polling")]];
    all.extend(
        [Some(5), Some(8), Some(10), Some(20), Some(100), None].map(|most| vec![polled.clone(), quota(most)]),
    );
    all.push(vec![unmodified.clone(), screend.clone()]);
    all.push(vec![polled.clone(), quota(Some(10)), screend.clone()]);
    all.push(vec![polled, quota(Some(10)), screend, word("feedback", "yes")]);
    all.extend(
        ["equal", "lower", "higher"]
            .map(|transmit| vec![unmodified.clone(), word("ip", "interrupt"), word("transmit", transmit)]),
    );
    all.into_iter().map(|flags| (flags.iter().map(typed).collect::<Vec<_>>().join(" "), flags)).collect()
}

/// An interval is shown where its half is a hundredth of the mean and five packets a second.
fn shown(value: &Value) -> String {
    let Value::Mean(Mean { mean, interval, .. }) = value else { panic!("no mean: {value:?}") };
    let half = interval.unwrap_or(0.0);
    if half >= 5.0 && half >= mean / 200.0 { format!("{mean:.0}±{half:.0}") } else { format!("{mean:.0}") }
}

pub(super) fn outputs() -> String {
    let mut table = format!("```text\n{:<60}", "");
    RATES.iter().for_each(|rate| {
        let _ = write!(table, "{rate:>8}");
    });
    for (typed, flags) in kernels() {
        let _ = write!(table, "\n{typed:<60}");
        for rate in RATES {
            let _ = write!(table, "{:>8}", shown(of("livelock", &at(&flags, rate), "output_pps")));
        }
    }
    table + "\n```"
}

pub(super) fn starvation() -> String {
    let mut table = "| transmit interrupt, 6,000 arrive | leave | dropped at the output queue, by the interface | starved |\n|---|---|---|---|".to_owned();
    for (transmit, shown) in [
        ("equal", "`equal`: the same priority, receiving first"),
        ("lower", "`lower`"),
        ("higher", "`higher`"),
    ] {
        let row =
            at(&[word("kernel", "unmodified"), word("ip", "interrupt"), word("transmit", transmit)], 6_000);
        let of = |name| of("livelock", &row, name);
        let percent = |name| format!("{}%", mean(of(name), 0.01, 1));
        let _ = write!(
            table,
            "\n| {shown} | {} | {}, {} | {} |",
            mean(of("output_pps"), 1.0, 0),
            percent("out_drops"),
            percent("ring_drops"),
            percent("starved")
        );
    }
    table
}
