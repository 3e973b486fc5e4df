//! `docs/papers.md` says what the list of constants and the kept tables say: which figures a constant was fitted to, what
//! the constants are, and how far the model is from each published series.
//!
//! `cargo xtask papers` writes these parts anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use softtimers_sim::constants::{Constant, Figure, LIST, Origin};

#[test]
fn the_page_is_what_the_list_and_the_tables_say() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers.md");
    // A crate from a registry has no pages.
    let Ok(page) = fs::read_to_string(&file) else { return };
    let rendered = block(&marked(&page), "constants", &constants());
    let rendered = block(&rendered, "residuals", &residuals());
    let rendered = block(&rendered, "fit", &fit());
    let rendered = block(&rendered, "free", &free());
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &rendered).expect("the page can be written");
        return;
    }
    for (number, (now, wanted)) in page.lines().zip(rendered.lines()).enumerate() {
        assert_eq!(now, wanted, "docs/papers.md, line {}: cargo xtask papers", number + 1);
    }
    assert_eq!(page.lines().count(), rendered.lines().count(), "docs/papers.md: cargo xtask papers");
}

fn mark(figure: Figure) -> &'static str {
    let fitted = |constant: &Constant| constant.fitted_to().contains(&figure);
    let depends = |constant: &Constant| !constant.fitted_to().is_empty() && constant.moves.contains(&figure);
    match () {
        () if LIST.iter().any(fitted) => " †",
        () if LIST.iter().any(depends) => " ‡",
        () => "",
    }
}

/// The page with the mark of each figure behind the first cell of its rows.
fn marked(page: &str) -> String {
    let mut left: BTreeMap<&str, &str> = BTreeMap::new();
    for &figure in Figure::ALL {
        for row in figure.rows() {
            assert_eq!(left.insert(row, mark(figure)), None, "two figures have the row '{row}'");
        }
    }
    let (by_hand, _) = page.split_once("<!-- residuals: begin -->").expect("a table of residuals");
    let mut text = String::new();
    for (number, line) in page.lines().enumerate() {
        let cell = line.strip_prefix("| ").and_then(|rest| rest.split_once(" |"));
        let known = cell.and_then(|(cell, rest)| {
            let name = cell.trim_end_matches([' ', '†', '‡']);
            left.remove(name).map(|mark| format!("| {name}{mark} |{rest}"))
        });
        // A mark that nothing renders would stay when the list changes.
        let cells = if known.is_some() { cell.map_or("", |(_, rest)| rest) } else { line };
        let is_marked = line.starts_with('|') && cells.contains(['†', '‡']);
        assert!(
            !is_marked || number >= by_hand.lines().count(),
            "docs/papers.md, line {}: a mark",
            number + 1
        );
        let _ = writeln!(text, "{}", known.as_deref().unwrap_or(line));
    }
    assert!(left.is_empty(), "docs/papers.md has no row for {:?}", left.keys());
    text
}

/// The page with this between the two comments of that name.
fn block(page: &str, name: &str, content: &str) -> String {
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("docs/papers.md: no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("docs/papers.md: no {end}"));
    format!("{before}{begin}\n{content}\n{end}{after}")
}

/// Those that no paper and no standard gives.
fn constants() -> String {
    let mut table = "| constant | value | chosen so that | moves |\n|---|---|---|---|\n".to_owned();
    for constant in LIST {
        let why = match constant.origin {
            Origin::Fitted(figures, why) => {
                let to: Vec<_> = figures.iter().map(|figure| figure.about()).collect();
                format!("{}: {why}", to.join(", "))
            }
            Origin::Guess(why) => format!("a guess: {why}"),
            Origin::Paper(_) | Origin::Standard(_) => continue,
        };
        let Constant { section, name, unit, .. } = constant;
        let value = constant.value();
        let moves = match constant.moves {
            [] => "no figure".to_owned(),
            [only] => only.about().to_owned(),
            several => format!("{} figures", several.len()),
        };
        let _ = writeln!(
            table,
            "| `{section}.{name}` | {} | {why} | {moves} |",
            format!("{value} {unit}").trim()
        );
    }
    table
}

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
    /// The point at which they are farthest apart: its name, the paper's value and the model's.
    farthest: (String, f64, f64),
}

impl Series {
    /// Compares the points that the paper has: the name of each, its value, the model's.
    fn of(name: &str, figure: Figure, unit: &'static str, points: &[(String, f64, f64)]) -> Self {
        let mean = |of: &dyn Fn(f64, f64) -> f64| {
            points.iter().map(|(_, paper, ours)| of(*paper, *ours)).sum::<f64>() / points.len() as f64
        };
        let error = |(_, paper, ours): &(String, f64, f64)| (ours - paper).abs();
        let farthest = points.iter().max_by(|one, other| error(one).total_cmp(&error(other)));
        Series {
            name: name.to_owned(),
            figure,
            unit,
            points: points.len(),
            bias: mean(&|paper, ours| ours - paper),
            rms: mean(&|paper, ours| (ours - paper) * (ours - paper)).sqrt(),
            mean: mean(&|paper, _| paper),
            farthest: farthest.unwrap_or_else(|| panic!("{name} has no point")).clone(),
        }
    }

    fn relative(&self) -> f64 {
        self.rms / self.mean.abs()
    }
}

/// Worst first. From a tenth on it is a miss.
fn residuals() -> String {
    let mut all = of_livelock();
    all.extend(of_tables());
    all.sort_by(|one, other| other.relative().total_cmp(&one.relative()));
    let mut table = String::from(
        "| published series | points | bias | rms | rms / mean | | farthest: theirs, ours |\n|---|---|---|---|---|---|---|\n",
    );
    for series in &all {
        let (name, points, unit, (at, paper, ours)) =
            (&series.name, series.points, series.unit, &series.farthest);
        let miss = if series.relative() >= 0.1 { "miss" } else { "" };
        let mark = mark(series.figure);
        let [bias, rms, paper, ours] = [series.bias, series.rms, *paper, *ours].map(digits);
        let _ = writeln!(
            table,
            "| {name}{mark} | {points} | {bias}{unit} | {rms}{unit} | {:.0}% | {miss} | {at}: {paper}, {ours} |",
            100.0 * series.relative(),
        );
    }
    table
}

/// Rounds to three significant digits.
fn digits(number: f64) -> String {
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

/// A row of the kept fit: a constant, a series or a sum, with one figure left out or none.
struct Fitted(BTreeMap<String, String>);

impl Fitted {
    /// The file that `softtimers sim livelock-fit --out` wrote, which quotes names that have commas.
    fn kept() -> Vec<Self> {
        let text = kept("livelock-fit.csv");
        let cells = |line: &str| {
            let outside = line
                .split('"')
                .enumerate()
                .map(|(at, part)| if at % 2 == 0 { part.replace(',', "\n") } else { part.to_owned() });
            outside.collect::<String>().split('\n').map(str::to_owned).collect::<Vec<_>>()
        };
        let mut lines = text.lines().map(cells);
        let names = lines.next().unwrap_or_default();
        lines.map(|cells| Fitted(names.iter().cloned().zip(cells).collect())).collect()
    }

    fn of(&self, column: &str) -> &str {
        self.0.get(column).unwrap_or_else(|| panic!("livelock-fit.csv: no column {column}"))
    }

    fn number(&self, column: &str) -> Option<f64> {
        self.of(column).parse().ok()
    }

    /// A share of the peak.
    fn percent(&self, column: &str) -> String {
        self.number(column).map_or_else(String::new, |share| {
            let percent = format!("{:.1}", 100.0 * share);
            (if percent == "-0.0" { "0.0" } else { &percent }).replace('-', "−")
        })
    }
}

/// Each series as the joint fit has it, and as a fit has it that never saw its figure.
fn fit() -> String {
    let all = Fitted::kept();
    let mut table = String::from(
        "| figure | series | points | scatter | bias | rms | bias, left out | rms, left out | |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let of_series = |of: &str| -> Vec<&Fitted> { all.iter().filter(|row| row.of("of") == of).collect() };
    let none = |row: &&&Fitted| row.of("leave-out") == "none";
    for row in of_series("series").iter().filter(none) {
        let (figure, name) = (row.of("figure"), row.of("name"));
        let left = format!("{figure} left out");
        let out = of_series("series")
            .into_iter()
            .find(|other| (other.of("figure"), other.of("name")) == (&left, name))
            .unwrap_or_else(|| panic!("{name}: never left out"));
        let miss = if out.number("rms").is_some_and(|rms| rms > 0.06) { "above 6%" } else { "" };
        let [bias, rms] = ["bias", "rms"].map(|column| row.percent(column));
        let [left_bias, left_rms] = ["bias", "rms"].map(|column| out.percent(column));
        let (points, scatter) = (row.of("points"), row.percent("scatter"));
        let _ = writeln!(
            table,
            "| {figure} | {name} | {points} | {scatter} | {bias} | {rms} | {left_bias} | {left_rms} | {miss} |"
        );
    }
    let sums = of_series("fitted");
    let whole = sums.iter().find(none).expect("a fit to all points");
    let [bias, rms] = ["bias", "rms"].map(|column| whole.percent(column));
    let squares = of_series("left-out").into_iter().map(|row| {
        let rms = row.number("rms").unwrap_or(f64::NAN);
        (row.number("points").unwrap_or(0.0), rms * rms)
    });
    let (points, sum) =
        squares.fold((0.0, 0.0), |(all, sum), (points, square)| (all + points, sum + points * square));
    let left = 100.0 * (sum / points).sqrt();
    let points = whole.of("points");
    let _ = writeln!(table, "| | all | {points} | | {bias} | {rms} | | {left:.1} | |");
    table
}

/// The free constants: what the fit to all points has, and what those have that a figure was kept from.
fn free() -> String {
    let all = Fitted::kept();
    let mut table =
        String::from("| constant | value | standard error | with a figure left out |\n|---|---|---|---|\n");
    let constants: Vec<&Fitted> = all.iter().filter(|row| row.of("of") == "constant").collect();
    for row in constants.iter().filter(|row| row.of("leave-out") == "none") {
        let name = row.of("name");
        let (value, error) = (row.of("value"), row.number("error").map_or_else(String::new, digits));
        // One that no other figure knows has no error.
        let others =
            constants.iter().filter(|other| other.of("name") == name && other.number("error").is_some());
        let others: Vec<f64> = others.filter_map(|other| other.number("value")).collect();
        let least = others.iter().copied().fold(f64::INFINITY, f64::min);
        let most = others.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let _ = writeln!(table, "| `livelock.{name}` | {value} | {error} | {least} to {most} |");
        let listed = LIST.iter().find(|constant| constant.section == "livelock" && constant.name == name);
        assert_eq!(
            listed.map(Constant::value).as_deref(),
            Some(value),
            "livelock.{name}: the kept fit has another value"
        );
    }
    table
}

fn kept(name: &str) -> String {
    let file: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/tables", name].iter().collect();
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The digitised figures; each kernel once, for some are in two figures.
fn of_livelock() -> Vec<Series> {
    let mut all: Vec<Series> = vec![];
    for line in kept("figures.txt").lines().skip(1) {
        let (figure, rest) = line.split_at(8);
        let (series, rest) = rest.split_at(34);
        let numbers: Vec<f64> = rest.split_whitespace().map(|cell| cell.parse().expect("a number")).collect();
        let [points, bias, rms, mean, at, paper, ours] = numbers[..] else { panic!("figures.txt: {line}") };
        let (number, of) = match (figure.trim(), series.trim()) {
            ("6-1", "unmodified, no screend") => ("2", Figure::Unmodified),
            ("6-1", _) => ("2", Figure::UnmodifiedScreend),
            ("6-3", "no polling (modified kernel)") => ("5", Figure::NoPolling),
            ("6-4", "polling no feedback, screend") => ("6", Figure::Feedback),
            ("6-5", "quota=5") => ("7", Figure::Quota5),
            ("6-5", _) => ("7", Figure::Quotas),
            ("6-6", _) => ("9", Figure::Feedback),
            ("7-1", _) => ("10", Figure::User),
            // In another figure, too.
            _ => continue,
        };
        let unit = if of == Figure::User { "%" } else { " packets/s" };
        all.push(Series {
            name: format!("livelock figure {number}, {}", series.trim()),
            figure: of,
            unit,
            points: points as usize,
            bias,
            rms,
            mean,
            farthest: (format!("{at} packets/s"), paper, ours),
        });
    }
    all
}

/// The tables that stand beside their papers'.
fn of_tables() -> Vec<Series> {
    let mut all = vec![];
    for (scheme, figure) in
        [("interrupts", Figure::HipInterrupts), ("polling", Figure::HipPolling), ("hip", Figure::Hip)]
    {
        let of = |unit, what: &str, ours, paper| {
            let name = format!("HIP Table 3, {scheme}, {what}");
            column("hip-table-3.csv", &name, figure, unit, ("scheme", scheme), "source", (ours, paper))
        };
        all.push(of(" µs", "overhead", "overhead_us", "paper_overhead_us"));
        all.push(of(" µs", "delay", "delay_us", "paper_delay_us"));
        if figure == Figure::Hip {
            all.push(of("", "interrupts", "interrupts", "paper_interrupts"));
            all.push(of("", "polls", "polls", "paper_polls"));
            all.push(of("", "polls in vain", "unsuccessful", "paper_unsuccessful"));
            all.push(of("", "packets a poll", "per_poll", "paper_per_poll"));
        }
    }
    for (kernel, figure) in
        [("old", Figure::OldList), ("hash", Figure::ByHash), ("handles", Figure::ByHandle)]
    {
        let name = format!("callouts Table I, {kernel}");
        let columns = ("set_cancel_us", "paper_us");
        all.push(column("callout.csv", &name, figure, " µs", ("kernel", kernel), "outstanding", columns));
    }
    for (strategy, figure, name) in [
        ("two-speed", Figure::Pacing, "soft timers Tables VIII and IX, mean gap"),
        ("interrupts", Figure::PacingHardware, "soft timers §5.6, hardware timer"),
    ] {
        let columns = ("mean_us", "paper_us");
        all.push(column("pacing.csv", name, figure, " µs", ("strategy", strategy), "target", columns));
    }
    let share =
        |file, name: &str, figure, by, at, columns| column(file, name, figure, " of 1", by, at, columns);
    let each = ("hardware", "each");
    let columns = ("expired", "paper_expired");
    all.push(share(
        "deadline.csv",
        "soft timers Table XIII, expired",
        Figure::Deadlines,
        each,
        "deadline",
        columns,
    ));
    let columns = ("overhead", "paper_overhead");
    all.push(share(
        "deadline.csv",
        "soft timers Table XIII, overhead",
        Figure::Deadlines,
        each,
        "deadline",
        columns,
    ));
    let columns = ("reduction_delayed", "paper_reduction");
    let name = "soft timers Table XI, reduction";
    all.push(share("slowstart.csv", name, Figure::SlowStart, ("mbit", "100"), "packets", columns));
    all.push(of_bursts());
    all
}

/// Two columns of a kept table, in the rows that have `by` in a column, where the paper has a value.
fn column(
    file: &str,
    name: &str,
    figure: Figure,
    unit: &'static str,
    by: (&str, &str),
    at: &str,
    columns: (&str, &str),
) -> Series {
    let text = kept(file);
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap_or_default();
    let place = |name: &str| {
        names.iter().position(|known| *known == name).unwrap_or_else(|| panic!("{file}: no column {name}"))
    };
    let (by_place, at, ours, paper) = (place(by.0), place(at), place(columns.0), place(columns.1));
    let points = lines.filter(|row| row[by_place] == by.1).filter_map(|row| {
        let number = |place: usize| row[place].parse::<f64>().ok();
        Some((row[at].to_owned(), number(paper)?, number(ours)?))
    });
    Series::of(name, figure, unit, &points.collect::<Vec<_>>())
}

/// First latencies on ULTRIX.
fn of_bursts() -> Series {
    let text = kept("burst.txt");
    let points = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        // The paper's has a column only where there is one, and those behind depend on the burst.
        let [kernel, burst, first, paper, ..] = cells[..] else { return None };
        let has = kernel == "ultrix" && ["1", "2", "4", "16"].contains(&burst);
        has.then(|| (format!("{burst} packets"), paper.parse().ok(), first.parse().ok()))
            .and_then(|(at, paper, first)| Some((at, paper?, first?)))
    });
    let points: Vec<_> = points.collect();
    Series::of("livelock §4.3, first of a burst", Figure::FirstOfBurst, " µs", &points)
}
