//! `--report`: rate, queue, delay and loss over time, next to the settings, as a page of [`page`](softtimers_run::page).

use super::record::{Span, WaySpan};
use super::show::{DirectionReport, WanReport};
use crate::run::quantity::{bits, or_dash, share, time};
use softtimers_run::page::axis::{Axis, Scale};
use softtimers_run::page::figure::{Drawn, Figure, Grid, Mark, Series};

/// Returns the figures of a run, with settings and measurements.
pub(super) fn drawn(report: &WanReport, spans: &[Span], scenario: Option<&str>) -> Drawn {
    let mut drawn = Drawn::default();
    drawn.table(comparison(report));
    for (at, way) in WAYS.iter().enumerate() {
        add(&mut drawn, rate(at, way, spans));
    }
    let waits = |span: &WaySpan| Some(span.wait.as_secs_f64() * 1e3).filter(|_| span.set_rate.is_some());
    let queue = both(spans, |at| (WAYS[at].to_owned(), Box::new(waits)));
    if queue.iter().any(|series| series.points.iter().any(|point| point.1 > 0.0)) {
        let text = "How long the queue in front of the link would take to drain: at the end of each span of time, as of the last packet received.";
        add(&mut drawn, plot("Queue", text, millis("waiting")).with(queue));
    }
    add(&mut drawn, delay(spans));
    add(&mut drawn, round_trip(spans));
    add(&mut drawn, loss(spans, scenario));
    if spans.iter().any(|span| span.ways.iter().any(|way| way.dropped > 0)) {
        let drops = both(spans, |at| (WAYS[at].to_owned(), Box::new(|way| Some(way.dropped as f64))));
        let text = "Packets that the queue dropped in each span of time: it was full, or managed.";
        add(
            &mut drawn,
            plot("Queue drops", text, Axis::new("dropped", "packets", Scale::Linear)).with(drops),
        );
    }
    let shades = shades(spans);
    drawn.figures.iter_mut().for_each(|figure| figure.shades.clone_from(&shades));
    drawn
}

/// Returns every other part of the run with settings of its own, and the outages, which are shaded strongly.
fn shades(spans: &[Span]) -> Vec<(f64, f64, bool)> {
    let set =
        |span: &Span| span.ways.clone().map(|way| (way.set_delay, way.set_rate, way.set_loss, way.outage));
    let parts = spans.chunk_by(|one, next| set(one) == set(next)).enumerate();
    let shaded = parts.filter_map(|(number, part)| {
        let (first, last) = (part.first()?, part.last()?);
        let is_outage = first.ways.iter().any(|way| way.outage);
        let shade = (first.from.as_secs_f64(), last.until.as_secs_f64(), is_outage);
        (is_outage || number % 2 == 1).then_some(shade)
    });
    shaded.collect()
}

/// Adds a figure unless it is empty, as for a direction without packets.
fn add(drawn: &mut Drawn, mut figure: Figure) {
    let is_rule = |series: &Series| series.mark == Mark::Rule;
    figure.series.retain(|series| !series.points.is_empty());
    if !figure.series.iter().all(is_rule) {
        drawn.figure(figure);
    }
}

/// Returns a table of both directions.
fn comparison(report: &WanReport) -> Grid {
    let mut grid =
        Grid::new("Set at the end, and measured", &["", "up: set", "measured", "down: set", "measured"]);
    type Cells = fn(&DirectionReport) -> [String; 2];
    let rows: [(&str, Cells); 9] = [
        ("delay p50", |way| [time(way.set.delay_ns as f64), or_dash(way.measured.delay_ns.p50, time)]),
        ("delay p99", |way| [String::new(), or_dash(way.measured.delay_ns.p99, time)]),
        ("added by wan itself, p50", |way| [String::new(), or_dash(way.measured.lateness_ns.p50, time)]),
        ("rate", |way| {
            let shown = |rate| or_dash(rate, |rate: u64| bits(rate as f64));
            [
                way.set.rate_bps.map_or_else(|| "none".to_owned(), |rate| bits(rate as f64)),
                shown(way.measured.rate_bps),
            ]
        }),
        ("loss", |way| [share(way.set.loss), or_dash(way.measured.loss, share)]),
        ("packets in", |way| [String::new(), way.measured.offered.to_string()]),
        ("dropped by the queue", |way| [String::new(), way.measured.queue_drops.to_string()]),
        ("duplicated", |way| [share(way.set.duplicate), way.measured.duplicated.to_string()]),
        ("reordered", |way| [share(way.set.reorder), way.measured.reordered.to_string()]),
    ];
    for (name, cells) in rows {
        let both = [&report.up, &report.down].into_iter().flat_map(cells);
        grid.row(std::iter::once(name.to_owned()).chain(both));
    }
    grid
}

fn rate(at: usize, way: &str, spans: &[Span]) -> Figure {
    let text = format!("Rates into and out of the path {way}, with headers, next to the configured rate.");
    let per_second = |of: fn(&WaySpan) -> u64| {
        spans.iter().map(move |span| (middle(span), of(&span.ways[at]) as f64 / span.seconds() / 1e6))
    };
    let axis = Axis::new("rate", "Mbit/s", Scale::Linear);
    plot(&format!("Rate {way}"), &text, axis)
        .with([
            Series::line(1, "in", per_second(|way| way.bits_in)),
            Series::line(0, "out", per_second(|way| way.bits_out)),
        ])
        .with(rule(spans, at, "", |way| Some(way.set_rate? as f64 / 1e6), "Mbit/s"))
}

fn delay(spans: &[Span]) -> Figure {
    let text = "One-way delay of the packets that left in each span of time: waiting, link and delay.";
    let of = |colour: usize, name: String, at: usize, quantile: f64| {
        line(colour, name, spans, move |span| Some(span.ways[at].delay.quantile(quantile)? as f64 / 1e6))
    };
    let lines = WAYS.iter().enumerate().flat_map(|(at, way)| {
        [of(2 * at, format!("{way}, p50"), at, 0.5), of(2 * at + 1, format!("{way}, p99"), at, 0.99)]
    });
    let set = rules(spans, |way| Some(way.set_delay.as_secs_f64() * 1e3), "ms");
    plot("Delay", text, millis("one way")).with(lines).with(set)
}

/// Returns the round trip, for spans with packets in both directions.
fn round_trip(spans: &[Span]) -> Figure {
    let trip = |span: &Span| {
        let [up, down] = [0, 1].map(|at| span.ways[at].delay.quantile(0.5));
        Some((up? + down?) as f64 / 1e6)
    };
    let set = |span: &Span| span.ways.iter().map(|way| way.set_delay.as_secs_f64() * 1e3).sum();
    let text = "The medians of both directions together: what the path adds to a request and its answer.";
    plot("Round trip", text, millis("both ways")).with([
        line(0, "measured".to_owned(), spans, trip),
        named_rule("", steps(spans, |span| Some(set(span))), "ms"),
    ])
}

fn loss(spans: &[Span], scenario: Option<&str>) -> Figure {
    let mut text =
        "Losses behind the link in each span of time, as a share of the packets that left the link in it."
            .to_owned();
    if let Some(file) = scenario {
        text += &format!(
            " {file} sets it; an outage loses everything. Its steps have another ground by turns, outages a coloured one."
        );
    }
    let percent = |way: &WaySpan| (way.passed > 0).then(|| way.lost as f64 / way.passed as f64 * 100.0);
    let lost = WAYS.iter().enumerate().map(|(at, way)| {
        Series::of(Mark::Points, at, *way, points(spans, move |span| percent(&span.ways[at])))
    });
    let set = rules(spans, |way| Some(way.set_loss * 100.0), "%");
    plot("Loss", &text, Axis::new("lost", "%", Scale::Linear)).with(lost).with(set)
}

fn plot(title: &str, text: &str, y: Axis) -> Figure {
    Figure::new(title, text, Axis::new("time", "s", Scale::Linear), y)
}

fn millis(name: &str) -> Axis {
    Axis::new(name, "ms", Scale::Linear)
}

fn middle(span: &Span) -> f64 {
    (span.from.as_secs_f64() + span.until.as_secs_f64()) / 2.0
}

fn points(spans: &[Span], get: impl Fn(&Span) -> Option<f64>) -> Vec<(f64, f64)> {
    spans.iter().filter_map(|span| Some((middle(span), get(span)?))).collect()
}

/// Returns a line, with a gap where a span has no value.
fn line(colour: usize, name: String, spans: &[Span], get: impl Fn(&Span) -> Option<f64>) -> Series {
    let all: Vec<_> = spans.iter().map(|span| Some((middle(span), get(span)?))).collect();
    let mut is_joined = false;
    let mut breaks = Vec::new();
    let mut count = 0;
    for point in &all {
        if point.is_some() {
            breaks.extend((!is_joined && count > 0).then_some(count));
            count += 1;
        }
        is_joined = point.is_some();
    }
    Series::line(colour, name, all.into_iter().flatten()).broken_at(breaks)
}

/// Returns a line for each direction.
fn both(spans: &[Span], of: impl Fn(usize) -> (String, Box<dyn Fn(&WaySpan) -> Option<f64>>)) -> Vec<Series> {
    let line = |at: usize| {
        let (name, get) = of(at);
        self::line(at, name, spans, |span| get(&span.ways[at]))
    };
    vec![line(0), line(1)]
}

/// Returns the settings of both directions; one line where they are the same.
fn rules(spans: &[Span], get: impl Fn(&WaySpan) -> Option<f64> + Copy, unit: &str) -> Vec<Series> {
    let of = |at: usize, way| rule(spans, at, way, get, unit);
    let [up, down] = [of(0, ""), of(1, "")];
    if up == down {
        return up.into_iter().collect();
    }
    [of(0, WAYS[0]), of(1, WAYS[1])].into_iter().flatten().collect()
}

/// Returns a line for a setting, where there was one.
fn rule(
    spans: &[Span],
    at: usize,
    way: &str,
    get: impl Fn(&WaySpan) -> Option<f64>,
    unit: &str,
) -> Option<Series> {
    let steps = steps(spans, |span| get(&span.ways[at]));
    (!steps.is_empty()).then(|| named_rule(way, steps, unit))
}

/// Returns the corners of a value that is constant within each span.
fn steps(spans: &[Span], get: impl Fn(&Span) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (span, value) in spans.iter().filter_map(|span| Some((span, get(span)?))) {
        match corners.last_mut() {
            Some(last) if last.1 == value => last.0 = span.until.as_secs_f64(),
            _ => corners.extend([(span.from.as_secs_f64(), value), (span.until.as_secs_f64(), value)]),
        }
    }
    corners
}

/// Names a rule with its values.
fn named_rule(way: &str, steps: Vec<(f64, f64)>, unit: &str) -> Series {
    let values = || steps.iter().map(|step| step.1);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let shown = |value: f64| ((value * 1e3).round() / 1e3).to_string();
    let range = if least < most { format!("{} to {}", shown(least), shown(most)) } else { shown(most) };
    let space = if way.is_empty() { "" } else { ", " };
    Series::of(Mark::Rule, 6, format!("{way}{space}set: {range} {unit}"), steps)
}

const WAYS: [&str; 2] = ["up", "down"];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn spans() -> Vec<Span> {
        let span = |second: u64| {
            let mut up = WaySpan {
                bits_in: 2_000_000,
                bits_out: 1_000_000,
                offered: 100,
                passed: 50,
                lost: 1,
                dropped: 50,
                set_rate: Some(if second < 2 { 1_000_000 } else { 2_000_000 }),
                wait: Duration::from_millis(5),
                set_delay: Duration::from_millis(10),
                set_loss: 0.02,
                ..WaySpan::default()
            };
            up.delay.record(10_100_000);
            let down = WaySpan { delay: up.delay.clone(), ..WaySpan::default() };
            let at = Duration::from_secs;
            Span { from: at(second), until: at(second + 1), ways: [up, down] }
        };
        (0..4).map(span).collect()
    }

    #[test]
    fn what_is_set_stands_beside_what_is_measured() {
        let drawn = drawn(&WanReport::default(), &spans(), Some("train.toml"));
        let titles: Vec<&str> = drawn.figures.iter().map(|figure| figure.title.as_str()).collect();
        assert_eq!(titles, ["Rate up", "Rate down", "Queue", "Delay", "Round trip", "Loss", "Queue drops"]);
        assert_eq!(drawn.lacks, Vec::<String>::new());
        let names = |at: usize| -> Vec<&str> {
            drawn.figures[at].series.iter().map(|series| series.name.as_str()).collect()
        };
        assert_eq!(names(0), ["in", "out", "set: 1 to 2 Mbit/s"]);
        assert_eq!(drawn.figures[0].series[1].points[0], (0.5, 1.0));
        assert_eq!(drawn.figures[0].series[2].points, [(0.0, 1.0), (2.0, 1.0), (2.0, 2.0), (4.0, 2.0)]);
        assert_eq!(drawn.figures[3].shades, [(2.0, 4.0, false)]);
        assert_eq!(names(4), ["measured", "set: 10 ms"]);
        assert!((drawn.figures[4].series[0].points[0].1 - 20.2).abs() < 0.5);
        assert_eq!(names(5), ["up", "up, set: 2 %", "down, set: 0 %"]);
        assert_eq!(
            names(3),
            ["up, p50", "up, p99", "down, p50", "down, p99", "up, set: 10 ms", "down, set: 0 ms"]
        );
    }

    /// Packets that came before an outage are lost in it: all that leave the link, though none come in. Then nothing
    /// arrives, and no line joins what was before with what comes after.
    #[test]
    fn an_outage_is_a_loss_of_everything_and_a_gap() {
        let mut spans = spans();
        for span in &mut spans[1..3] {
            let outage = WaySpan {
                offered: 0,
                passed: 40,
                lost: 40,
                set_loss: 1.0,
                outage: true,
                ..WaySpan::default()
            };
            span.ways = [outage.clone(), outage];
        }
        let drawn = drawn(&WanReport::default(), &spans, Some("train.toml"));
        let figure = |title: &str| drawn.figures.iter().find(|figure| figure.title == title).unwrap();
        let lost: Vec<f64> = figure("Loss").series[0].points.iter().map(|point| point.1).collect();
        assert_eq!(lost, [2.0, 100.0, 100.0, 2.0]);
        assert!(figure("Loss").text.contains("train.toml"));
        assert_eq!(figure("Loss").shades, [(1.0, 3.0, true)]);
        for title in ["Delay", "Round trip"] {
            let line = &figure(title).series[0];
            assert_eq!((line.points.len(), &line.breaks[..]), (2, &[1][..]), "{title}");
        }
    }

    #[test]
    fn a_run_in_which_nothing_came_is_drawn_as_well() {
        let drawn = drawn(&WanReport::default(), &[], None);
        assert!(drawn.figures.is_empty() && !drawn.tables.is_empty());
    }
}
