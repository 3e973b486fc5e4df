//! `--report` of `send` and `recv`: a page of HTML with gaps, lateness or delay, loss over time, and the flows.
//!
//! It is drawn from the object of `--json` and from the figures of each second, as `--json-stream` prints them, so a page
//! cannot say anything else than they do.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use softtimers_measure::failure::Failure;
use softtimers_run::page::Sheet;
use softtimers_run::page::axis::{Axis, Scale};
use softtimers_run::page::digits::digits;
use softtimers_run::page::figure::{Drawn, Figure, Grid, Series};
use softtimers_run::stream::{Kept, Second};

use crate::file::OutputFile;
use crate::run::Run;
use crate::run::quantity::setting;

/// The page, as asked for.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct PageArgs {
    /// Write a page of HTML at the end: gaps, rate and loss over time, each flow
    ///
    /// The file must be new, unless --force is given.
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    pub(crate) report: Option<PathBuf>,
}

/// A page that is drawn when the run is over.
#[derive(Debug)]
pub(crate) struct Page {
    file: OutputFile,
    seconds: Kept,
}

impl Page {
    /// Creates the file, and keeps the figures of each second from now on. To be called before privileges are dropped.
    ///
    /// # Errors
    /// A usage failure if the file exists and `force` is not given, or cannot be written.
    pub(crate) fn open(args: &PageArgs, force: bool, run: &Run<'_>) -> Result<Option<Self>, Failure> {
        let file =
            args.report.as_deref().map(|path| OutputFile::create(path, "--report", force)).transpose()?;
        Ok(file.map(|file| Page { file, seconds: run.keep_seconds() }))
    }

    /// Draws the page of this run, from its object.
    ///
    /// # Errors
    /// A check failure, as for a full disk.
    pub(crate) fn write(
        self,
        title: &'static str,
        verdict: String,
        machine: String,
        object: &Value,
    ) -> Result<(), Failure> {
        let seconds = self.seconds.taken();
        let span = object["span_s"].as_f64().or_else(|| object["elapsed_s"].as_f64());
        let facts = [
            ("Machine", Some(machine)),
            ("Seed", object["seed"].as_u64().map(|seed| seed.to_string())),
            ("Ran for", span.map(|span| setting(std::time::Duration::from_secs_f64(span.max(0.0))))),
        ];
        let facts = facts.into_iter().filter_map(|(name, fact)| Some((name, fact?))).collect();
        self.file.write(&Sheet { title, verdict, facts, drawn: drawn(object, &seconds) }.html())
    }
}

fn drawn(object: &Value, seconds: &[Second]) -> Drawn {
    let mut drawn = Drawn::default();
    drawn.table(percentiles(object));
    for (key, title, text) in CURVES {
        add(&mut drawn, curve(object, key, title, text));
    }
    add(
        &mut drawn,
        over_time(seconds, "Rate", "Datagrams a second, in each second.", ("rate", "1/s"), &RATES),
    );
    add(
        &mut drawn,
        over_time(
            seconds,
            "Lateness",
            "Departure less scheduled time, in each second.",
            ("late", "ms"),
            &LATE,
        ),
    );
    add(
        &mut drawn,
        over_time(
            seconds,
            "Delay",
            "Packet delay variation (RFC 5481), in each second.",
            ("PDV", "ms"),
            &PDV,
        ),
    );
    add(
        &mut drawn,
        over_time(
            seconds,
            "Loss",
            "Datagrams that were missed in each second.",
            ("lost", "datagrams"),
            &LOST,
        ),
    );
    let flows = flows(object);
    if flows.rows.len() > 1 {
        drawn.table(flows);
    }
    let texts =
        |key: &str| object[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    drawn.notes.extend(texts("fallbacks"));
    drawn.notes.extend(object["inconclusive"].as_str().map(|why| format!("Inconclusive: {why}.")));
    drawn
}

/// Adds a figure, unless there is nothing to see.
fn add(drawn: &mut Drawn, figure: Figure) {
    if figure.series.iter().any(|series| !series.points.is_empty()) {
        drawn.figure(figure);
    }
}

/// A cumulative distribution, as `--json` has it point by point.
fn curve(object: &Value, key: &str, title: &str, text: &str) -> Figure {
    let points = object[key].as_array().into_iter().flatten();
    let point = |point: &Value| Some((point["ns"].as_f64()? / 1e3, point["share"].as_f64()? * 100.0));
    let target =
        object["config"]["target_interval_ns"].as_f64().or_else(|| object["config"]["interval_ns"].as_f64());
    let mut series = vec![Series::line(0, "measured", points.filter_map(point))];
    if key == "gap_cdf"
        && let Some(target) = target
    {
        series.push(Series::of(
            softtimers_run::page::figure::Mark::Rule,
            1,
            format!("target: {} µs", digits(Some(target / 1e3))),
            [(target / 1e3, 0.0), (target / 1e3, 100.0)],
        ));
    }
    let (x, y) = (Axis::new("time", "µs", Scale::Log), Axis::new("at most so long", "%", Scale::Linear));
    Figure::new(title, text, x, y).with(series)
}

/// A figure of each second, for the keys that this command has.
fn over_time(
    seconds: &[Second],
    title: &str,
    text: &str,
    axis: (&str, &str),
    keys: &[(&str, &str, f64)],
) -> Figure {
    let line = |(colour, &(key, name, factor)): (usize, &(&str, &str, f64))| {
        let point = |second: &Second| {
            let value = key.split('.').try_fold(&second.figures, |value, part| value.get(part))?.as_f64()?;
            Some(((second.from_s + second.to_s) / 2.0, value * factor))
        };
        Series::line(colour, name, seconds.iter().filter_map(point))
    };
    let (x, y) = (Axis::new("time", "s", Scale::Linear), Axis::new(axis.0, axis.1, Scale::Linear));
    Figure::new(title, text, x, y)
        .with(keys.iter().enumerate().map(line).filter(|line| !line.points.is_empty()))
}

fn percentiles(object: &Value) -> Grid {
    let mut grid = Grid::new("Times, µs", &["", "min", "p50", "p99", "p99.9", "max"]);
    for (key, name) in [("gap_ns", "gap"), ("late_ns", "late"), ("one_way_variation_ns", "PDV")] {
        let micros = |part: &str| object[key][part].as_f64().map(|nanos| nanos / 1e3);
        if micros("p50").is_some() {
            let cells = ["min", "p50", "p99", "p999", "max"].map(|part| digits(micros(part)));
            grid.row(std::iter::once(name.to_owned()).chain(cells));
        }
    }
    grid
}

/// The flows that a receiver tells apart, the first 64.
fn flows(object: &Value) -> Grid {
    let mut grid = Grid::new(
        "Flows",
        &["from", "flow", "received", "lost", "reordered", "mean gap, µs", "deviation, µs"],
    );
    for flow in object["per_flow"].as_array().into_iter().flatten() {
        let count = |key: &str| flow[key].as_u64().map_or("-".to_owned(), |count| count.to_string());
        let micros = |key: &str| digits(flow[key].as_f64().map(|nanos| nanos / 1e3));
        let from = flow["peer"].as_str().unwrap_or_default().to_owned();
        let counts = ["flow", "received", "lost", "reordered"].map(count);
        let times = ["gap_mean_ns", "gap_stddev_ns"].map(micros);
        grid.row(std::iter::once(from).chain(counts).chain(times));
    }
    grid
}

/// Distributions: key, title, explanation.
const CURVES: [(&str, &str, &str); 2] = [
    (
        "gap_cdf",
        "Gaps",
        "An even stream is a vertical line at its target; a tail to the left means micro-bursts, one to the right holes.",
    ),
    ("late_cdf", "Lateness of all departures", "The share of datagrams that left at most so late."),
];
/// Figures of each second: key, name, factor.
const RATES: [(&str, &str, f64); 2] = [("achieved_pps", "sent", 1.0), ("received_pps", "received", 1.0)];
const LATE: [(&str, &str, f64); 2] = [("late_ns.p50", "p50", 1e-6), ("late_ns.p99", "p99", 1e-6)];
const PDV: [(&str, &str, f64); 2] =
    [("one_way_variation_ns.p50", "p50", 1e-6), ("one_way_variation_ns.p99", "p99", 1e-6)];
const LOST: [(&str, &str, f64); 3] =
    [("lost", "lost", 1.0), ("reordered", "reordered", 1.0), ("forfeited", "skipped", 1.0)];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_says_what_the_object_and_the_seconds_say() {
        let object = json!({
            "gap_cdf": [{"share": 0.5, "ns": 40_000}, {"share": 1.0, "ns": 80_000}],
            "gap_ns": {"min": 1_000, "p50": 40_000, "p99": 60_000, "p999": 70_000, "max": 80_000},
            "config": {"interval_ns": 40_000},
            "per_flow": [
                {"peer": "127.0.0.1:1", "flow": 0, "received": 9, "lost": 1, "reordered": 0, "gap_mean_ns": 40_000.0, "gap_stddev_ns": null},
                {"peer": "127.0.0.1:1", "flow": 1, "received": 8, "lost": null, "reordered": 0, "gap_mean_ns": 41_000.0, "gap_stddev_ns": 500.0},
            ],
            "fallbacks": ["a small buffer"],
        });
        let second = |at: f64, lost: Option<i64>| Second {
            from_s: at,
            to_s: at + 1.0,
            figures: json!({"received_pps": 25_000.0, "lost": lost}),
        };
        let drawn = drawn(&object, &[second(0.0, Some(2)), second(1.0, None)]);
        let titles: Vec<&str> = drawn.figures.iter().map(|figure| figure.title.as_str()).collect();
        assert_eq!(titles, ["Gaps", "Rate", "Loss"]);
        assert_eq!(drawn.figures[0].series[0].points, [(40.0, 50.0), (80.0, 100.0)]);
        assert_eq!(drawn.figures[1].series[0].points, [(0.5, 25_000.0), (1.5, 25_000.0)]);
        assert_eq!(drawn.figures[2].series[0].points, [(0.5, 2.0)]);
        assert_eq!(drawn.tables[1].rows[0][..4], ["127.0.0.1:1", "0", "9", "1"]);
        assert_eq!(drawn.notes, ["a small buffer"]);
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        let drawn = drawn(&json!({}), &[]);
        assert!(drawn.figures.is_empty(), "{drawn:?}");
    }
}
