//! A paced stream by each method: lateness, evenness, and cost; and the savings by slack.

use serde_json::Value;

use super::super::finding;
use super::super::saved::Runs;
use super::super::value::{number, rows, tamed, text};
use super::super::verdict;
use super::{Cell, GREY, cell, linear, log, or_lacks, percentile, points, shown, table, times};
use softtimers_run::page::axis::{Axis, Scale};
use softtimers_run::page::digits::digits;
use softtimers_run::page::figure::{Drawn, Figure, Grid, Mark, Series};

/// Draws lateness by method, under both loads.
pub(crate) fn lateness(runs: &Runs, drawn: &mut Drawn) {
    each_load(runs, drawn, |cells, load, drawn| {
        let title = format!("Lateness by method, {load}");
        let text = "Lateness percentiles of each method: the further right, the rarer. Lower is better.";
        let lines = cells.iter().map(|cell| judged(runs, cell, quantiles(cell, "late")));
        let drawing = Figure::new(title, text, percentile("departures"), log("lateness", "µs")).with(lines);
        drawn.findings.extend(finding::lowest(&drawing, 0.99));
        drawn.figure(drawing);
    });
    drawn.note("A method that stays at 10 ms cannot keep up: that is how far it may fall behind before it skips packets.");
}

/// Draws gaps by method, and which of them are back to back.
pub(crate) fn gaps(runs: &Runs, drawn: &mut Drawn) {
    each_load(runs, drawn, |cells, load, drawn| {
        let title = format!("CDF of inter-packet gaps, {load}");
        let text = "CDF of inter-packet gaps. A perfectly paced stream is a vertical line at the target.";
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
        let drawing = Figure::new(title, text, log("gap", "µs"), linear("CDF", "% of gaps"));
        drawn.figure(drawing.with(target).with(lines));
        let columns = [
            ("method", "method", Cell::Text),
            ("target (µs)", "target_gap_ns", Cell::Micros),
            ("of the rate", "achieved_share", Cell::Percent),
            ("back to back", "back_to_back", Cell::Percent),
            ("longest burst", "longest_burst", Cell::Number),
            ("gap p1 (µs)", "gap_ns.p1", Cell::Micros),
            ("p50", "gap_ns.p50", Cell::Micros),
            ("p99", "gap_ns.p99", Cell::Micros),
            ("p99.9", "gap_ns.p999", Cell::Micros),
            ("throughput retained", "work_kept", Cell::Percent),
        ];
        drawn.table(table(&format!("Gaps and bursts, {load}"), cells, &columns));
    });
}

/// Draws consecutive packets as they arrived.
pub(crate) fn strip(runs: &Runs, drawn: &mut Drawn) {
    each_load(runs, drawn, |cells, load, drawn| {
        let names = cells.iter().rev().map(|cell| shown(cell, "method")).collect();
        let head = ["method", "packets seen", "most in 100 µs", "longest pause (µs)"];
        let mut table = Grid::new(format!("Micro-bursts in the stretch, {load}"), &head);
        let mut strip = Figure::new(
            format!("Two milliseconds of packets, {load}"),
            "A row for each method, a stroke for each packet at the time it arrived. A block of strokes is a micro-burst.",
            linear("time", "µs"),
            Axis::new("method", "", Scale::Names(names)),
        );
        for (at, cell) in cells.iter().enumerate() {
            let gaps: Vec<u64> = rows(cell, "gap_strip_ns").iter().filter_map(Value::as_u64).collect();
            let times = arrivals(&gaps);
            let up = (cells.len() - 1 - at) as f64;
            let places = times.iter().map(|&time| (time as f64 / 1e3, up));
            let places = places.take_while(|place| place.0 <= STRIP_MICROS);
            let stroke = Series::of(Mark::Ticks, colour(cell), shown(cell, "method"), places);
            strip.series.push(judged(runs, cell, stroke));
            if !gaps.is_empty() {
                let longest = digits(gaps.iter().max().map(|&gap| gap as f64 / 1e3));
                let most = most_within(&times, 100_000).to_string();
                table.row([shown(cell, "method"), times.len().to_string(), most, longest]);
            }
        }
        drawn.figure(strip);
        drawn.table(table);
    });
}

/// Draws the CPU cost of punctuality.
pub(crate) fn lateness_by_cpu(runs: &Runs, drawn: &mut Drawn) {
    each_load(runs, drawn, |cells, load, drawn| {
        let marks = cells.iter().map(|cell| {
            let place = points([cell], times(100.0, "cpu_share"), times(1e-3, "late_ns.p99"));
            judged(runs, cell, Series::of(Mark::Points, colour(cell), shown(cell, "method"), place))
        });
        let title = format!("Lateness against CPU time, {load}");
        let text = "A mark for each method: further left costs less CPU, lower is less late.";
        let drawing = Figure::new(title, text, linear("CPU", "% of one core"), log("lateness, p99", "µs"));
        drawn.figure(drawing.with(marks));
    });
}

/// Draws wake-ups by slack.
pub(crate) fn slack(runs: &Runs, drawn: &mut Drawn) {
    let Some(labels) = or_lacks(runs.labels("slack"), drawn) else { return };
    let head = ["slack", "wake-ups a second", "packets a wake-up", "lateness p50 (µs)", "p99 (µs)", "CPU"];
    let mut table = Grid::new("Twenty flows of 100 packets a second", &head);
    let (mut wakeups, mut late, mut names) = (vec![], vec![], vec![]);
    for label in labels {
        let Some(sent) = or_lacks(runs.output("slack", label, "send"), drawn) else { continue };
        let length = number(sent, "config.duration_s").filter(|&length| length > 0.0);
        let rate = number(sent, "wakeups").zip(length).map(|(count, length)| count / length);
        let each = number(sent, "sent").zip(number(sent, "wakeups").filter(|&count| count > 0.0));
        table.row([
            tamed(label),
            digits(rate),
            digits(each.map(|(sent, wakeups)| sent / wakeups)),
            cell(sent, "late_ns.p50", Cell::Micros),
            cell(sent, "late_ns.p99", Cell::Micros),
            cell(sent, "cpu_share", Cell::Percent),
        ]);
        let at = names.len() as f64;
        names.push(tamed(label));
        wakeups.extend(rate.map(|rate| (at, rate)));
        late.extend(number(sent, "late_ns.p50").map(|nanos| (at, nanos / 1e3)));
    }
    for (title, text, name, unit, points) in [
        ("Wake-ups by slack", "Wake-ups of the sender for each slack.", "wake-ups", "1/s", wakeups),
        ("Lateness by slack", "The median lateness for each slack.", "lateness, p50", "µs", late),
    ] {
        let slack = Axis::new("slack", "", Scale::Names(names.clone()));
        let line = Series::line(0, name, points).unless(runs.unfit("slack"));
        drawn.figure(Figure::new(title, text, slack, linear(name, unit)).with([line]));
    }
    drawn.table(table);
}

/// Draws the doctor's cells by load, without those of trials that did not run.
fn each_load(runs: &Runs, drawn: &mut Drawn, mut draw: impl FnMut(&[Value], &str, &mut Drawn)) {
    let Some(doctor) = or_lacks(runs.only("doctor"), drawn) else { return };
    for (load, name) in [("echo", "busy loop"), ("none", "idle loop")] {
        let cells = rows(doctor, "pacing").iter().filter(|cell| text(cell, "busy") == load).take(16);
        let (made, not): (Vec<Value>, Vec<Value>) =
            cells.cloned().partition(|cell| cell.get("not_made").is_none_or(Value::is_null));
        for cell in not {
            drawn.lacks(format!("{}, {name}: {}", shown(&cell, "method"), shown(&cell, "not_made")));
        }
        if made.is_empty() {
            drawn.lacks(format!("no trials of the {name} in the saved run"));
        } else {
            draw(&made, name, drawn);
        }
    }
}

/// Returns a series of the doctor's, grey if its trial cannot be compared.
fn judged(runs: &Runs, cell: &Value, series: Series) -> Series {
    series.unless(runs.against("doctor", &verdict::trial(cell)))
}

/// Returns a distribution as shares and microseconds: the curve if the run has one, else its percentiles.
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
    Series::line(colour(cell), shown(cell, "method"), points)
}

/// Returns the colour of a cell's method, the same in every figure.
fn colour(cell: &Value) -> usize {
    METHODS.iter().position(|&name| name == text(cell, "method")).unwrap_or(METHODS.len())
}

/// Returns when each packet came, from the first on.
fn arrivals(gaps: &[u64]) -> Vec<u64> {
    let times = gaps.iter().scan(0u64, |time, gap| {
        *time = time.saturating_add(*gap);
        Some(*time)
    });
    std::iter::once(0).chain(times).collect()
}

/// Returns the most packets within `window` nanoseconds.
fn most_within(times: &[u64], window: u64) -> usize {
    let mut from = 0;
    let counts = times.iter().enumerate().map(|(to, time)| {
        while time - times[from] >= window {
            from += 1;
        }
        to - from + 1
    });
    counts.max().unwrap_or(0)
}

/// The methods in the order of their colours.
const METHODS: [&str; 8] = ["soft", "loop", "spin", "pwait2", "timerfd", "ms", "signal", "thread"];
/// The time span for which packets 40 µs apart can be told apart on a page.
const STRIP_MICROS: f64 = 2_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_counted_in_any_window() {
        assert_eq!(most_within(&arrivals(&[40_000; 63]), 100_000), 3);
        assert_eq!(most_within(&arrivals(&[1_000, 1_000, 500_000, 99_999]), 100_000), 3);
        assert_eq!(most_within(&arrivals(&[]), 100_000), 1);
        assert_eq!(most_within(&arrivals(&[u64::MAX, u64::MAX, 0]), 100_000), 3);
    }

    #[test]
    fn a_curve_is_better_than_percentiles() {
        let cell = serde_json::json!({ "method": "spin", "late_ns": { "p50": 2_000, "p99": null } });
        assert_eq!((quantiles(&cell, "late").points, quantiles(&cell, "late").colour), (vec![(0.5, 2.0)], 2));
        let curve = serde_json::json!({ "late_ns": { "p50": 2_000 }, "late_cdf": [{ "share": 0.1, "ns": 1_000 }, { "share": 0.5, "ns": 2_000 }] });
        assert_eq!(quantiles(&curve, "late").points, [(0.1, 1.0), (0.5, 2.0)]);
    }
}
