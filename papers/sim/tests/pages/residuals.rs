//! How far the model is from each published series.

use std::fmt::Write as _;

use softtimers_sim::constants::Figure;
use softtimers_sim::{Row, Setting, Value, experiments};

use super::counted::callouts;
use super::paced::{deadlines, interrupted, paced};
use super::papers::mark;
use super::{SEEDS, known, of, range, rows, value, word};

/// A published series and the model's.
struct Series {
    name: String,
    figure: Figure,
    unit: &'static str,
    points: usize,
    bias: f64,
    rms: f64,
    /// The mean in the paper.
    mean: f64,
    /// Half the 95% interval of the point that has the widest, of 20 seeds.
    half: f64,
    /// The point at which they are farthest apart.
    farthest: Point,
}

/// A published number and the model's.
#[derive(Clone)]
struct Point {
    at: String,
    paper: f64,
    ours: f64,
    /// Half the 95% interval of that.
    half: f64,
}

impl Series {
    fn of(name: &str, figure: Figure, unit: &'static str, points: &[Point]) -> Self {
        let mean = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
        let error = |point: &Point| (point.ours - point.paper).abs();
        let farthest = points.iter().max_by(|one, other| error(one).total_cmp(&error(other)));
        Series {
            name: name.to_owned(),
            figure,
            unit,
            points: points.len(),
            bias: mean(&|point| point.ours - point.paper),
            rms: mean(&|point| error(point) * error(point)).sqrt(),
            mean: mean(&|point| point.paper),
            half: range(points.iter().map(|point| point.half)).1,
            farthest: farthest.unwrap_or_else(|| panic!("{name} has no point")).clone(),
        }
    }

    fn relative(&self) -> f64 {
        self.rms / self.mean.abs()
    }
}

/// Worst first. From a tenth on it is a miss.
pub(super) fn residuals() -> String {
    let mut all = of_tables();
    all.sort_by(|one, other| other.relative().total_cmp(&one.relative()));
    let mut table = String::from(
        "| published series | points | bias | rms | rms / mean | | widest ± | farthest: theirs, ours |\n|---|---|---|---|---|---|---|---|\n",
    );
    for series in &all {
        let Series { name, points, unit, farthest: Point { at, paper, ours, .. }, .. } = series;
        let miss = if series.relative() >= 0.1 { "miss" } else { "" };
        let mark = mark(series.figure);
        let [bias, rms, paper, ours] = [series.bias, series.rms, *paper, *ours].map(digits);
        let half =
            Some(digits(series.half)).filter(|half| half != "0").map_or_else(String::new, |half| half + unit);
        let _ = writeln!(
            table,
            "| {name}{mark} | {points} | {bias}{unit} | {rms}{unit} | {:.0}% | {miss} | {half} | {at}: {paper}, {ours} |",
            100.0 * series.relative(),
        );
    }
    table
}

/// Rounds to three significant digits.
pub(super) fn digits(number: f64) -> String {
    let places = match number.abs() {
        large if large >= 100.0 => 0,
        tens if tens >= 10.0 => 1,
        ones if ones >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{number:.places$}");
    let nothing = text.trim_start_matches('-').chars().all(|digit| "0.".contains(digit));
    if nothing { "0".to_owned() } else { text.replace('-', "−") }
}

/// The tables that stand beside their papers', of 20 seeds where chance has a part.
fn of_tables() -> Vec<Series> {
    let mut all = vec![];
    let hip = rows("hip", &[], 1, SEEDS);
    for (scheme, figure) in
        [("interrupts", Figure::HipInterrupts), ("polling", Figure::HipPolling), ("hip", Figure::Hip)]
    {
        let of_scheme: Vec<Row> =
            hip.iter().filter(|row| words("hip", row, "scheme") == scheme).cloned().collect();
        let mut add = |unit, what: &str, ours, paper| {
            let name = format!("HIP Table 3, {scheme}, {what}");
            all.push(Series::of(&name, figure, unit, &points("hip", &of_scheme, "source", (ours, paper))));
        };
        add(" µs", "overhead", "overhead_us", "paper_overhead_us");
        add(" µs", "delay", "delay_us", "paper_delay_us");
        if figure == Figure::Hip {
            add("", "interrupts", "interrupts", "paper_interrupts");
            add("", "polls", "polls", "paper_polls");
            add("", "polls in vain", "unsuccessful", "paper_unsuccessful");
            add("", "packets a poll", "per_poll", "paper_per_poll");
        }
    }
    for (kernel, figure) in
        [("old", Figure::OldList), ("hash", Figure::ByHash), ("handles", Figure::ByHandle)]
    {
        let found = [0, 200, 400, 600, 800, 1_000].map(|timers| callouts(kernel, timers));
        let name = format!("callouts Table I, {kernel}");
        let points = points("callout", &found, "outstanding", ("set_cancel_us", "paper_us"));
        all.push(Series::of(&name, figure, " µs", &points));
    }
    for (figure, found, name) in [
        (Figure::Pacing, paced(), "soft timers Tables VIII and IX, mean gap"),
        (Figure::PacingHardware, interrupted(), "soft timers §5.6, hardware timer"),
    ] {
        all.push(Series::of(
            name,
            figure,
            " µs",
            &points("pacing", &found, "target", ("mean_us", "paper_us")),
        ));
    }
    let deadlines = deadlines("each");
    for (what, columns) in
        [("expired", ("expired", "paper_expired")), ("overhead", ("overhead", "paper_overhead"))]
    {
        let name = format!("soft timers Table XIII, {what}");
        let points = points("deadline", &deadlines, "deadline", columns);
        all.push(Series::of(&name, Figure::Deadlines, " of 1", &points));
    }
    let found = [rows("slowstart", &[("packets", Setting::Count(100))], 1, 1).remove(0)];
    let points_of_100 = points("slowstart", &found, "packets", ("reduction_delayed", "paper_reduction"));
    all.push(Series::of("soft timers Table XI, reduction", Figure::SlowStart, " of 1", &points_of_100));
    let bursts = [1, 2, 4, 16].map(|burst| {
        rows("livelock-burst", &[word("kernel", "ultrix"), ("burst", Setting::Count(burst))], 1, 1).remove(0)
    });
    let mut first = points("livelock-burst", &bursts, "burst", ("first_us", "paper_first_us"));
    first.iter_mut().for_each(|point| point.at += " packets");
    all.push(Series::of("livelock §4.3, first of a burst", Figure::FirstOfBurst, " µs", &first));
    all
}

/// Two columns of rows, where the paper has a value.
fn points(experiment: &str, rows: &[Row], at: &str, (ours, paper): (&str, &str)) -> Vec<Point> {
    let known = rows.iter().filter_map(|row| {
        let paper = known(of(experiment, row, paper))?;
        let ours = of(experiment, row, ours);
        let half = if let Value::Mean(mean) = ours { mean.interval.unwrap_or(0.0) } else { 0.0 };
        Some(Point { at: words(experiment, row, at), paper, ours: value(ours), half })
    });
    known.collect()
}

/// A cell as people read it.
fn words(experiment: &str, row: &Row, name: &str) -> String {
    let columns = experiments::find(experiment).expect("it is in the list").columns;
    let column = columns.iter().find(|column| column.name == name).expect("a column");
    column.text(of(experiment, row, name)).to_string()
}
