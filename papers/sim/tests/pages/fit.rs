//! The joint fit of the router's constants, as it is kept: each series, and each free constant.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use softtimers_sim::constants::{Constant, LIST};

use super::range;
use super::residuals::digits;

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
pub(super) fn fit() -> String {
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
    let left = left_out(&all);
    let points = whole.of("points");
    let _ = writeln!(table, "| | all | {points} | | {bias} | {rms} | | {left:.1} | |");
    table
}

/// Says how many series the joint fit meets, and how many a fit without their figure.
pub(super) fn in_words() -> String {
    let all = Fitted::kept();
    let series: Vec<&Fitted> = all.iter().filter(|row| row.of("of") == "series").collect();
    let rms = |row: &Fitted| row.number("rms").unwrap_or(f64::NAN);
    let joint: Vec<&&Fitted> = series.iter().filter(|row| row.of("leave-out") == "none").collect();
    let left: Vec<&&Fitted> = series.iter().filter(|row| row.of("figure").ends_with("left out")).collect();
    let within = joint.iter().filter(|row| rms(row) <= 0.05).count();
    let scattered =
        joint.iter().filter(|row| row.number("scatter").is_some_and(|scatter| rms(row) <= scatter)).count();
    let met = left.iter().filter(|row| rms(row) <= 0.06).count();
    let (least, most) =
        range(left.iter().filter(|row| row.of("figure").starts_with("9 ")).map(|row| 100.0 * rms(row)));
    format!(
        "Fitted jointly, {within} of {} series are within 5%, and {scattered} within their own scatter. **Aim, left out: at most 6% in every \
         series.\nReached: {met} of {}**; all together are {:.1}% off, and figure 9 {least:.1} to {most:.1}%.",
        joint.len(),
        left.len(),
        left_out(&all),
    )
}

/// The root of the mean square of all points, each by the fit that had not seen its figure; % of the peak.
fn left_out(all: &[Fitted]) -> f64 {
    let squares = all.iter().filter(|row| row.of("of") == "left-out").map(|row| {
        let rms = row.number("rms").unwrap_or(f64::NAN);
        (row.number("points").unwrap_or(0.0), rms * rms)
    });
    let (points, sum) =
        squares.fold((0.0, 0.0), |(all, sum), (points, square)| (all + points, sum + points * square));
    100.0 * (sum / points).sqrt()
}

/// The free constants: what the fit to all points has, and what those have that a figure was kept from.
pub(super) fn free() -> String {
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
