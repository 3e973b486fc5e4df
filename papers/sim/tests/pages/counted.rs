//! Tables that chance has no part in: slow start, frame rates, callouts, a burst of three.

use std::fmt::Write as _;
use std::time::Duration;

use softtimers_sim::{Row, Setting};

use super::{Flag, known, of, rows, thousands, value, word};

fn one(experiment: &str, flags: &[Flag]) -> Row {
    rows(experiment, flags, 1, 1).remove(0)
}

fn count(name: &'static str, count: u64) -> Flag {
    (name, Setting::Count(count))
}

/// Times until each packet leaves; in brackets what the paper traced, instrumentation included (§8.2).
pub(super) fn burst() -> String {
    let mut table = "| | first | second | third |\n|---|---|---|---|".to_owned();
    for (kernel, shown, paper) in [
        ("no-polling", "`--kernel no-polling`", [" (462)", " (682)", " (949)"]),
        ("polled", "`--kernel polled`", [" (366)", " (898)", " (978)"]),
        ("eager", "`--kernel eager`: the rule of the active interface is broken", ["", " (628)", " (775)"]),
    ] {
        let row = one("livelock-burst", &[word("kernel", kernel)]);
        let _ = write!(table, "\n| {shown} |");
        for (name, paper) in ["first_us", "second_us", "third_us"].into_iter().zip(paper) {
            let _ = write!(table, " {:.0}{paper} |", value(of("livelock-burst", &row, name)));
        }
    }
    table
}

pub(super) fn slow_start() -> String {
    let mut table =
        "| packets | slow start, s | with delayed ACKs | paced | less | less, delayed ACKs | the paper's |\n\
                     |---|---|---|---|---|---|---|"
            .to_owned();
    for packets in [5, 10, 20, 100, 1_000, 10_000, 100_000] {
        let row = one("slowstart", &[count("packets", packets)]);
        let of = |name| of("slowstart", &row, name);
        let percent = |share: f64| format!("{:.0}%", 100.0 * share);
        let seconds =
            ["slow_start_s", "delayed_acks_s", "paced_s"].map(|name| format!("{:.3}", value(of(name))));
        let less = ["reduction", "reduction_delayed"].map(|name| percent(value(of(name))));
        let paper = known(of("paper_reduction")).map_or_else(String::new, percent);
        let _ = write!(
            table,
            "\n| {} | {} | {} | {paper} |",
            thousands(packets as f64, 0),
            seconds.join(" | "),
            less.join(" | ")
        );
    }
    table
}

pub(super) fn frames() -> String {
    let hz = [Some(100), Some(250), Some(1_000), None];
    let mut table =
        "| wanted | 100 Hz | 250 Hz | 1,000 Hz | smart timers |\n|---|---|---|---|---|".to_owned();
    let mut interrupts = String::new();
    for fps in [25, 30, 50, 60] {
        let _ = write!(table, "\n| {fps} |");
        interrupts.clear();
        for hz in hz {
            let row = one("framerate", &[count("fps", fps), ("hz", Setting::Limit(hz))]);
            let _ = write!(table, " {:.1} |", value(of("framerate", &row, "achieved_fps")));
            let _ = write!(interrupts, " {:.0} |", value(of("framerate", &row, "interrupts_per_s")));
        }
    }
    // Those of the last row: ticks do not depend on it, smart timers have one for each frame.
    format!("{table}\n| interrupts of the clock a second, at 60 |{interrupts}")
}

pub(super) fn callouts(kernel: &'static str, outstanding: u64) -> Row {
    one("callout", &[word("kernel", kernel), count("outstanding", outstanding)])
}

pub(super) fn callout_table() -> String {
    let mut table = "| outstanding | old list | wheel, by function and argument | wheel, by handle | interrupts held off: list | \
                     wheel |\n|---|---|---|---|---|---|"
        .to_owned();
    for outstanding in [0, 200, 400, 600, 800, 1_000, 10_000] {
        let kernels = ["old", "hash", "handles"].map(|kernel| callouts(kernel, outstanding));
        let cells = kernels.each_ref().map(|row| {
            let of = |name| of("callout", row, name);
            let paper = known(of("paper_us"));
            let paper = paper.map_or_else(String::new, |paper| format!(" ({})", thousands(paper, 1)));
            format!("{}{paper}", thousands(value(of("set_cancel_us")), 1))
        });
        let [list, hash, handles] =
            kernels.each_ref().map(|row| thousands(value(of("callout", row, "longest_us")), 0));
        let outstanding = thousands(outstanding as f64, 0);
        let _ = write!(table, "\n| {outstanding} | {} | {list} µs | {hash}, {handles} |", cells.join(" | "));
    }
    table
}

/// Says how long a pass through a bucket of the paper's wheel is, by their number, with the timers of a protocol.
pub(super) fn wheel() -> String {
    let sizes = [16, 64, 256, 1_024, 4_096];
    let found = sizes.map(|buckets| {
        one(
            "callout",
            &[
                ("rate", Setting::Limit(Some(1_000))),
                ("buckets", Setting::Limit(Some(buckets))),
                ("call", Setting::Time(Duration::ZERO)),
                ("timeout", Setting::Limit(Some(50))),
                ("answer", Setting::Time(Duration::from_millis(30))),
                ("cancelled", Setting::Real(98.0)),
            ],
        )
    });
    let line = |label: &str, cells: [String; 5]| format!("| {label} | {} |", cells.join(" | "));
    [
        line("buckets", sizes.map(|buckets| thousands(buckets as f64, 0))),
        "|---|---|---|---|---|---|".to_owned(),
        line(
            "timers looked through, a tick",
            found.each_ref().map(|row| format!("{:.1}", value(of("callout", row, "scan")))),
        ),
        line(
            "longest, µs",
            found.each_ref().map(|row| format!("{:.0}", value(of("callout", row, "scan_us")))),
        ),
    ]
    .join("\n")
}
