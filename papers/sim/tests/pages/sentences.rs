//! Figures of experiments that stand in sentences and in rows that somebody wrote.

use std::time::Duration;

use softtimers_sim::{Row, Setting};

use super::paced::{deadlines, interrupted, paced};
use super::{Flag, SEEDS, micros, of, others, range, rows, thousands, value, word};

fn one(experiment: &str, flags: &[Flag], seeds: u32) -> Row {
    rows(experiment, flags, 1, seeds).remove(0)
}

/// Packets a second of both kernels that do not poll.
fn without_polling(rate: u64) -> String {
    let [unmodified, modified] = ["unmodified", "no-polling"].map(|kernel| {
        let row = one("livelock", &[word("kernel", kernel), ("rate", Setting::Count(rate))], SEEDS);
        thousands(value(of("livelock", &row, "output_pps")), 0)
    });
    format!("{unmodified} against {modified}")
}

fn slowstart(mbit: u64, packets: u64, name: &str) -> f64 {
    let row = one("slowstart", &[("mbit", Setting::Count(mbit)), ("packets", Setting::Count(packets))], 1);
    100.0 * value(of("slowstart", &row, name))
}

pub(super) fn of_papers() -> Vec<String> {
    let (paced, hardware, deadlines) = (paced(), interrupted(), deadlines("each"));
    let tenth = |row: &Row, name| format!("{:.1}", value(of("pacing", row, name)));
    let (least, most) = range(paced.iter().map(|row| value(of("pacing", row, "stddev_us"))));
    let share = |row: &Row, name| format!("{:.1}", 100.0 * value(of("deadline", row, name)));
    let longest = [50, 100]
        .into_iter()
        .flat_map(|mbit| ["reduction", "reduction_delayed"].map(|name| slowstart(mbit, 100_000, name)));
    let (shortest, greatest) = range(longest);
    let noise = one("noise", &[], SEEDS);
    let noise = |name| format!("{:.3}", value(of("noise", &noise, name)));
    let frames = one("framerate", &[], 1);
    let [gain, most_gain] = others::gains();
    vec![
        format!("| 40 / 65.9 µs | {} / {} |", tenth(&paced[0], "mean_us"), tenth(&paced[5], "mean_us")),
        format!("25 µs, {} at 30", tenth(&paced[10], "mean_us")),
        format!("| {least:.1} to {most:.1} µs: our intervals are independent"),
        format!("| 43 / 63.6 µs | {} / {} |", tenth(&hardware[0], "mean_us"), tenth(&hardware[1], "mean_us")),
        format!("{} / {}% (costs fitted", share(&deadlines[0], "overhead"), share(&deadlines[2], "overhead")),
        format!("{}% expire, not 26.3%", share(&deadlines[0], "expired")),
        format!(
            "{:.0}% with delayed ACKs, {:.0}% as the appendix counts",
            slowstart(100, 100, "reduction_delayed"),
            slowstart(100, 100, "reduction")
        ),
        format!("| 2% | {shortest:.0} to {greatest:.0}% |"),
        format!("| +{gain} to {most_gain}% |"),
        format!("| not reached | {:.1} |", value(of("framerate", &frames, "achieved_fps"))),
        format!("(1 − p)ⁿ = 0.366 | {}, drawn {}", noise("undelayed"), noise("undelayed_drawn")),
        format!(
            "{} packets/s at 11,000, {} at 13,000, and {} at 14,000",
            without_polling(11_000),
            without_polling(13_000),
            without_polling(14_000)
        ),
    ]
}

pub(super) fn of_sim() -> Vec<String> {
    let row = |kernel| one("livelock-burst", &[word("kernel", kernel)], 1);
    let third = |kernel| value(of("livelock-burst", &row(kernel), "third_us"));
    let relative = |target| {
        let row = one("pacing", &[word("strategy", "relative"), micros("target", target)], SEEDS);
        value(of("pacing", &row, "mean_us"))
    };
    let connecting = one("slowstart", &[word("set-up", "yes"), ("packets", Setting::Count(100))], 1);
    let less = |name| 100.0 * value(of("slowstart", &connecting, name));
    vec![
        format!("later by 29 µs in the paper and by {:.0} here", third("polled") - third("no-polling")),
        format!("drifts to {:.1} and {:.1} µs", relative(40), relative(60)),
        format!("a round trip more: {:.0} and {:.0}% less", less("reduction"), less("reduction_delayed")),
        protocol_timers(),
        relayed(),
    ]
}

/// Timers as a protocol has them, 40,000 a second.
fn protocol_timers() -> String {
    let row = |kernel| {
        let flags = [
            word("kernel", kernel),
            ("rate", Setting::Limit(Some(40_000))),
            ("outstanding", Setting::Count(1_000)),
            ("call", Setting::Time(Duration::ZERO)),
            ("timeout", Setting::Limit(Some(50))),
            ("answer", Setting::Time(Duration::from_millis(30))),
            ("cancelled", Setting::Real(98.0)),
        ];
        one("callout", &flags, 1)
    };
    let share = |kernel| 100.0 * value(of("callout", &row(kernel), "cpu_share"));
    // So many fill the CPU.
    let list = 1e6 / value(of("callout", &row("old"), "set_cancel_us"));
    format!(
        "take {:.0}% of that machine by hash and {:.0}% by handle; the list gets to {}",
        share("hash"),
        share("handles"),
        thousands((list / 100.0).round() * 100.0, 0)
    )
}

/// What 64 pollers relay that receive on their own CPUs, and that others receive for.
fn relayed() -> String {
    let millions = |softirq| {
        let flags =
            [word("softirq", softirq), ("load", Setting::Count(100)), ("pollers", Setting::Count(64))];
        value(of("relay", &one("relay", &flags, SEEDS), "relayed_kpps")) / 1e3
    };
    format!("gives {:.1} million at 64 instead of {:.1}", millions("same"), millions("other"))
}
