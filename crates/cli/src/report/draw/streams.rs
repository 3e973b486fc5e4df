//! A paced stream by each method: how late, how even, at what price; and what slack saves.

use serde_json::Value;

use super::super::axis::{Axis, Scale};
use super::super::digits::{digits, percent};
use super::super::figure::{Drawn, Grid, Mark, Series};
use super::super::finding::Finding;
use super::super::saved::{Runs, number, rows, tamed, text};
use super::super::verdict;
use super::{GREY, figure, linear, log, or_lacks, with_series};

/// Lateness by method, under both loads.
pub(in super::super) fn lateness(runs: &Runs, drawn: &mut Drawn) {
    each_load(runs, drawn, |cells, load, drawn| {
        let y = log("lateness", "µs");
        let title = format!("Lateness by method, {load}");
        let what = "Each method's lateness at the quantiles that were kept: the further right, the rarer. Lower is better.";
        let lines = cells.iter().map(|cell| judged(runs, cell, quantiles(cell, "late")));
        let drawing = with_series(
            figure(&title, what, Axis::new("percentile of departures", "%", Scale::Nines), y),
            lines,
        );
        drawn.findings.extend(Finding::lowest(&drawing, 0.99));
        drawn.figure(drawing);
    });
    drawn.note("A method at 10 ms for good is behind for good: that is how far it may fall behind before it gives packets up.");
}

/// Gaps by method, and which of them are back to back.
pub(in super::super) fn gaps(runs: &Runs, drawn: &mut Drawn) {
    each_load(runs, drawn, |cells, load, drawn| {
        let title = format!("Gaps between packets, {load}");
        let what = "The share of gaps that are no longer, at the quantiles that were kept. An even stream is upright at its target.";
        let lines = cells.iter().map(|cell| {
            let turned = quantiles(cell, "gap");
            let points = turned.points.into_iter().map(|(share, gap)| (gap, share * 100.0)).collect();
            judged(runs, cell, Series { points, ..turned })
        });
        let target = cells.first().and_then(|cell| number(cell, "target_gap_ns")).map(|nanos| nanos / 1e3);
        let target = target.map(|target| {
            let name = format!("the target, {} µs", digits(Some(target)));
            Series::of(Mark::Rule, GREY, name, [(target, 0.0), (target, 100.0)])
        });
        drawn.figure(with_series(
            figure(&title, what, log("gap", "µs"), linear("gaps that are no longer", "%")),
            target.into_iter().chain(lines),
        ));
        let head = [
            "method",
            "target (µs)",
            "of the rate",
            "back to back",
            "longest burst",
            "gap p1 (µs)",
            "p50",
            "p99",
            "p99.9",
            "work kept",
        ];
        let mut table = Grid::new(format!("Evenness, {load}"), &head);
        for cell in cells {
            let micros = |path: &str| digits(number(cell, path).map(|nanos| nanos / 1e3));
            let share = |key: &str| percent(number(cell, key));
            table.row([
                tamed(text(cell, "method")),
                micros("target_gap_ns"),
                share("achieved_share"),
                share("back_to_back"),
                digits(number(cell, "longest_burst")),
                micros("gap_ns.p1"),
                micros("gap_ns.p50"),
                micros("gap_ns.p99"),
                micros("gap_ns.p999"),
                share("work_kept"),
            ]);
        }
        drawn.table(table);
    });
}

/// Consecutive packets as they arrived.
pub(in super::super) fn strip(runs: &Runs, drawn: &mut Drawn) {
    each_load(runs, drawn, |cells, load, drawn| {
        let names: Vec<String> = cells.iter().rev().map(|cell| tamed(text(cell, "method"))).collect();
        let mut strip = figure(
            &format!("Two milliseconds of packets, {load}"),
            "A row for each method, a stroke for each packet at the time it arrived. Even strokes are an even stream; a block is a micro-burst.",
            Axis::new("time", "µs", Scale::Linear),
            Axis::new("method", "name", Scale::Names(names.clone())),
        );
        for (at, cell) in cells.iter().enumerate() {
            let gaps = rows(cell, "gap_strip_ns").iter().filter_map(Value::as_u64);
            let times = gaps.scan(0u64, |time, gap| {
                *time = time.saturating_add(gap);
                Some(*time as f64 / 1e3)
            });
            let up = (names.len() - 1 - at) as f64;
            let times = std::iter::once(0.0).chain(times).take_while(|&time| time <= STRIP_MICROS);
            let stroke = Series::of(
                Mark::Ticks,
                colour(cell),
                names[names.len() - 1 - at].clone(),
                times.map(|time| (time, up)),
            );
            strip.series.push(judged(runs, cell, stroke));
        }
        drawn.figure(strip);
        let head = ["method", "packets seen", "most in 100 µs", "longest pause (µs)"];
        let mut table = Grid::new(format!("Micro-bursts in the stretch, {load}"), &head);
        for cell in cells {
            let gaps: Vec<u64> = rows(cell, "gap_strip_ns").iter().filter_map(Value::as_u64).collect();
            if !gaps.is_empty() {
                let longest = gaps.iter().max().map(|&gap| gap as f64 / 1e3);
                let most = most_within(&gaps, 100_000).to_string();
                table.row([tamed(text(cell, "method")), (gaps.len() + 1).to_string(), most, digits(longest)]);
            }
        }
        drawn.table(table);
    });
}

/// What punctuality costs.
pub(in super::super) fn lateness_by_cpu(runs: &Runs, drawn: &mut Drawn) {
    each_load(runs, drawn, |cells, load, drawn| {
        let marks = cells.iter().map(|cell| {
            let point = number(cell, "cpu_share").zip(number(cell, "late_ns.p99"));
            let points = point.map(|(cpu, late)| (cpu * 100.0, late / 1e3));
            judged(runs, cell, Series::of(Mark::Points, colour(cell), tamed(text(cell, "method")), points))
        });
        let title = format!("Lateness against processor time, {load}");
        let what = "A mark for each method: further left is cheaper, lower is more punctual.";
        drawn.figure(with_series(
            figure(&title, what, linear("processor used", "%"), log("lateness, p99", "µs")),
            marks,
        ));
    });
}

/// Wake-ups by the slack that is given.
pub(in super::super) fn slack(runs: &Runs, drawn: &mut Drawn) {
    let Some(labels) = or_lacks(runs.labels("slack"), drawn) else { return };
    let head =
        ["slack", "wake-ups a second", "packets a wake-up", "lateness p50 (µs)", "p99 (µs)", "processor"];
    let mut table = Grid::new("Twenty flows of 100 packets a second", &head);
    let (mut wakeups, mut late, mut names) = (vec![], vec![], vec![]);
    for label in labels {
        let Some(sent) = or_lacks(runs.output("slack", label, "send"), drawn) else { continue };
        let length = number(sent, "config.duration_s").filter(|&length| length > 0.0);
        let rate = number(sent, "wakeups").zip(length).map(|(count, length)| count / length);
        let each = number(sent, "sent").zip(number(sent, "wakeups").filter(|&count| count > 0.0));
        let micros = |path| number(sent, path).map(|nanos| nanos / 1e3);
        let cells = [
            digits(rate),
            digits(each.map(|(sent, wakeups)| sent / wakeups)),
            digits(micros("late_ns.p50")),
            digits(micros("late_ns.p99")),
        ];
        table.row(std::iter::once(tamed(label)).chain(cells).chain([percent(number(sent, "cpu_share"))]));
        let at = names.len() as f64;
        names.push(tamed(label));
        wakeups.extend(rate.map(|rate| (at, rate)));
        late.extend(micros("late_ns.p50").map(|late| (at, late)));
    }
    let slack = Axis::new("slack given", "time", Scale::Names(names));
    let bars = Series::of(Mark::Bars, 0, "wake-ups a second", wakeups).unless(runs.unfit("slack"));
    let what = "A bar for each slack: what may be late together leaves by one wake-up.";
    drawn.figure(with_series(
        figure("Wake-ups against slack", what, slack.clone(), linear("wake-ups", "1/s")),
        [bars],
    ));
    let line = Series::line(1, "lateness, p50", late).unless(runs.unfit("slack"));
    let what = "The median lateness for each slack: it is what the saved wake-ups are paid with.";
    drawn.figure(with_series(
        figure("Lateness against slack", what, slack, linear("lateness, p50", "µs")),
        [line],
    ));
    drawn.table(table);
}

/// The doctor's cells by load, without those that were not made.
fn each_load(runs: &Runs, drawn: &mut Drawn, mut draw: impl FnMut(&[Value], &str, &mut Drawn)) {
    let Some(doctor) = or_lacks(runs.only("doctor"), drawn) else { return };
    for (load, name) in [("echo", "busy loop"), ("none", "idle loop")] {
        let cells = rows(doctor, "pacing").iter().filter(|cell| text(cell, "busy") == load).take(16);
        let (made, not): (Vec<Value>, Vec<Value>) =
            cells.cloned().partition(|cell| cell.get("not_made").is_none_or(Value::is_null));
        for cell in not {
            drawn.lacks(format!(
                "{}, {name}: {}",
                tamed(text(&cell, "method")),
                tamed(text(&cell, "not_made"))
            ));
        }
        if made.is_empty() {
            drawn.lacks(format!("no trials of the {name} in the saved run"));
        } else {
            draw(&made, name, drawn);
        }
    }
}

/// A series of the doctor's, grey if its trial cannot be compared.
fn judged(runs: &Runs, cell: &Value, series: Series) -> Series {
    let unfit = runs.verdict("doctor").and_then(|verdict| verdict.against(&verdict::trial(cell)));
    series.unless(unfit)
}

/// A distribution as shares and microseconds: the curve if the run has one, else the percentiles that it has.
fn quantiles(cell: &Value, which: &str) -> Series {
    let key = format!("{which}_ns");
    let kept = [("min", 0.0), ("p1", 0.01), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];
    let points =
        kept.iter().filter_map(|&(name, share)| Some((share, number(cell, &format!("{key}.{name}"))? / 1e3)));
    let mut points: Vec<(f64, f64)> = points.collect();
    let curve = rows(cell, &format!("{which}_cdf")).iter();
    let curve: Vec<_> =
        curve.filter_map(|point| Some((number(point, "share")?, number(point, "ns")? / 1e3))).collect();
    if curve.len() > points.len() {
        points = curve;
    }
    Series::line(colour(cell), tamed(text(cell, "method")), points)
}

/// The colour of a cell's method, the same in every figure.
fn colour(cell: &Value) -> usize {
    METHODS.iter().position(|&name| name == text(cell, "method")).unwrap_or(METHODS.len())
}

/// The most packets within so many nanoseconds.
fn most_within(gaps: &[u64], window: u64) -> usize {
    let mut times = vec![0u64];
    times.extend(gaps.iter().scan(0u64, |time, gap| {
        *time = time.saturating_add(*gap);
        Some(*time)
    }));
    let mut from = 0;
    let counts = times.iter().enumerate().map(|(to, time)| {
        while time - times[from] >= window {
            from += 1;
        }
        to - from + 1
    });
    counts.max().unwrap_or(0)
}

/// In the order of their colours.
const METHODS: [&str; 8] = ["soft", "loop", "spin", "pwait2", "timerfd", "ms", "signal", "thread"];
/// What a page is wide enough for to tell packets 40 µs apart.
const STRIP_MICROS: f64 = 2_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_counted_in_any_window() {
        assert_eq!(most_within(&[40_000; 63], 100_000), 3);
        assert_eq!(most_within(&[1_000, 1_000, 500_000, 99_999], 100_000), 3);
        assert_eq!(most_within(&[], 100_000), 1);
        assert_eq!(most_within(&[u64::MAX, u64::MAX, 0], 100_000), 3);
    }

    #[test]
    fn a_curve_is_better_than_percentiles() {
        let cell = serde_json::json!({ "method": "spin", "late_ns": { "p50": 2_000, "p99": null } });
        assert_eq!((quantiles(&cell, "late").points, quantiles(&cell, "late").colour), (vec![(0.5, 2.0)], 2));
        let curve = serde_json::json!({ "late_ns": { "p50": 2_000 }, "late_cdf": [{ "share": 0.1, "ns": 1_000 }, { "share": 0.5, "ns": 2_000 }] });
        assert_eq!(quantiles(&curve, "late").points, [(0.1, 1.0), (0.5, 2.0)]);
    }
}
