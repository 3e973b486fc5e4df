//! How far the model is from each published series.

use std::fmt::Write as _;

use softtimers_sim::constants::Figure;
use softtimers_sim::{Row, Setting, Value, experiments};

use super::counted::callouts;
use super::paced::{deadlines, interrupted, paced};
use super::papers::mark;
use super::{SEEDS, known, of, range, rows, value, word};

/// The share of the paper's mean from which on a series is missed.
const MISS: f64 = 0.1;

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

/// Each published series, worst first.
fn all() -> Vec<Series> {
    let mut all = of_tables();
    all.extend(of_router());
    all.extend(of_sentences());
    all.sort_by(|one, other| other.relative().total_cmp(&one.relative()));
    all
}

/// Those that the model misses.
pub(super) fn misses() -> String {
    let mut table =
        String::from("| published series | rms / mean | farthest: theirs, ours |\n|---|---|---|\n");
    for series in all().iter().filter(|series| series.relative() >= MISS) {
        let Series { name, farthest: Point { at, paper, ours, .. }, .. } = series;
        let [paper, ours] = [*paper, *ours].map(digits);
        let (mark, share) = (mark(series.figure), 100.0 * series.relative());
        let _ = writeln!(table, "| {name}{mark} | {share:.0}% | {at}: {paper}, {ours} |");
    }
    table
}

pub(super) fn residuals() -> String {
    let mut table = String::from(
        "| published series | points | bias | rms | rms / mean | | widest ± | farthest: theirs, ours |\n|---|---|---|---|---|---|---|---|\n",
    );
    for series in &all() {
        let Series { name, points, unit, farthest: Point { at, paper, ours, .. }, .. } = series;
        let miss = if series.relative() >= MISS { "miss" } else { "" };
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

/// The curves of the router's figures, each once: in the figure that is about it.
fn of_router() -> Vec<Series> {
    let mut all: Vec<(String, Figure, &'static str, Vec<Point>)> = vec![];
    for (number, figure) in
        [("6-1", "2"), ("6-3", "5"), ("6-4", "6"), ("6-5", "7"), ("6-6", "9"), ("7-1", "10")]
    {
        for row in rows("livelock-figures", &[word("figure", number)], 1, 1) {
            let cell = |name| of("livelock-figures", &row, name);
            let series = words("livelock-figures", &row, "series");
            let Some(marks) = marks(number, &series) else { continue };
            let of_user = number == "7-1";
            let columns =
                if of_user { ["paper_user_share", "user_share"] } else { ["paper_pps", "output_pps"] };
            let [paper, ours] = columns.map(|name| value(cell(name)));
            let at = format!("{:.0} packets/s", value(cell("input_pps")));
            let point = Point { at, paper, ours, half: 0.0 };
            let name = format!("livelock figure {figure}, {series}");
            match all.last_mut() {
                Some((last, .., points)) if *last == name => points.push(point),
                _ => all.push((name, marks, if of_user { " of 1" } else { "/s" }, vec![point])),
            }
        }
    }
    all.into_iter().map(|(name, figure, unit, points)| Series::of(&name, figure, unit, &points)).collect()
}

/// What was fitted to a curve, or moves it; none if it is another figure's curve again.
fn marks(number: &str, series: &str) -> Option<Figure> {
    match (number, series) {
        ("6-1", "unmodified, screend") => Some(Figure::UnmodifiedScreend),
        ("6-1", _) => Some(Figure::Unmodified),
        ("6-3", "no polling (modified kernel)") => Some(Figure::NoPolling),
        ("6-4", "polling no feedback, screend") | ("6-6", _) => Some(Figure::Feedback),
        ("6-5", "quota=5") => Some(Figure::Quota5),
        ("6-5", _) => Some(Figure::Quotas),
        ("7-1", _) => Some(Figure::User),
        _ => None,
    }
}

/// Numbers that the papers' sentences give.
fn of_sentences() -> Vec<Series> {
    let point = |at: &str, paper, ours| Point { at: at.to_owned(), paper, ours, half: 0.0 };
    let mut all = vec![];
    // §8.2: with the instrumentation, which takes a third of a traced time.
    let burst = |kernel| rows("livelock-burst", &[word("kernel", kernel)], 1, 1).remove(0);
    let mut of_three = vec![];
    for (kernel, paper) in [
        ("no-polling", [("first_us", 462.0), ("second_us", 682.0), ("third_us", 949.0)].as_slice()),
        ("polled", &[("first_us", 366.0), ("second_us", 898.0), ("third_us", 978.0)]),
        ("eager", &[("second_us", 628.0), ("third_us", 775.0)]),
    ] {
        let row = burst(kernel);
        let of_kernel = paper.iter().map(|&(name, paper)| {
            point(
                &format!("{kernel}, {}", name.trim_end_matches("_us")),
                paper,
                value(of("livelock-burst", &row, name)),
            )
        });
        of_three.extend(of_kernel);
    }
    let three = Figure::BurstOfThree;
    all.push(Series::of("livelock §8.2, a burst of three, as traced", three, " µs", &of_three));
    let flags = [word("file", "disk"), word("feedback", "yes")];
    let captured = |rate| {
        let flags = [flags.as_slice(), &[("rate", Setting::Count(rate))]].concat();
        value(of("livelock-monitor", &rows("livelock-monitor", &flags, 1, 1)[0], "captured_pps"))
    };
    let at_9000 = point("9000 packets/s", 7_700.0, captured(9_000));
    all.push(Series::of("livelock figure 15, captured to disk", Figure::Captures, "/s", &[at_9000]));
    // The first rate of which a hundredth is lost.
    let knee = (4_000..=14_000).step_by(250).find(|&rate| captured(rate) < 0.99 * rate as f64);
    let knee = point("the rate", 9_000.0, knee.map_or(f64::NAN, |rate| rate as f64));
    all.push(Series::of("livelock figure 15, where captures go flat", Figure::Captures, "/s", &[knee]));
    let flags = [word("kernel", "unmodified"), word("consumer", "screend")];
    let livelock = &rows("livelock-mlfrr", &flags, 1, 1)[0];
    let livelock = point("the rate", 6_000.0, value(of("livelock-mlfrr", livelock, "livelock_pps")));
    let filtered = Figure::UnmodifiedScreend;
    all.push(Series::of("livelock §6.2, complete livelock with screend", filtered, "/s", &[livelock]));
    // The text has 30 to 35 µs for all of them: the nearer bound, or what is between.
    let deviations = paced().into_iter().map(|row| {
        let ours = value(of("pacing", &row, "stddev_us"));
        let at = ["target", "burst"].map(|name| words("pacing", &row, name)).join(", ");
        point(&at, ours.clamp(30.0, 35.0), ours)
    });
    let deviations: Vec<Point> = deviations.collect();
    all.push(Series::of("soft timers §5.6, deviation of the gaps", Figure::Pacing, " µs", &deviations));
    let frames = rows("noise", &[], 1, SEEDS);
    let drawn = point("100 nodes", 0.366, value(of("noise", &frames[0], "undelayed_drawn")));
    all.push(Series::of("smart timers §2.2, undelayed phases", Figure::Noise, " of 1", &[drawn]));
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
pub(super) fn words(experiment: &str, row: &Row, name: &str) -> String {
    let columns = experiments::find(experiment).expect("it is in the list").columns;
    let column = columns.iter().find(|column| column.name == name).expect("a column");
    column.text(of(experiment, row, name)).to_string()
}
