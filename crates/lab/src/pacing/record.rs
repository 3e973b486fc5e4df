//! What the experiments find: one record a figure, for people who plot.
//!
//! All experiments share the columns, so that one file holds them: a figure's name says its unit, and what
//! does not apply is empty. CSV is that of RFC 4180.

use serde::Serialize;
use softtimers_cli::output::{Report, Table};

/// A median over rounds and where the middle half of them lies.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Estimate {
    /// The lower quartile.
    pub low: Option<f64>,
    /// The median.
    pub value: Option<f64>,
    /// The upper quartile.
    pub high: Option<f64>,
}

impl Estimate {
    /// Of one value without rounds.
    pub fn exactly(value: f64) -> Self {
        Estimate { value: Some(value).filter(|value| value.is_finite()), ..Estimate::default() }
    }

    /// In another unit.
    pub fn times(self, factor: f64) -> Self {
        let scale = |value: Option<f64>| value.map(|value| value * factor);
        Estimate { low: scale(self.low), value: scale(self.value), high: scale(self.high) }
    }

    /// With so many digits after the point; a dash where nothing was measured.
    pub fn show(self, digits: usize) -> String {
        show(self.value, digits)
    }

    /// The same with the middle half.
    pub fn show_range(self, digits: usize) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => {
                format!("{} ({low:.digits$} to {high:.digits$})", self.show(digits))
            }
            _ => self.show(digits),
        }
    }
}

impl From<[f64; 3]> for Estimate {
    fn from(quartiles: [f64; 3]) -> Self {
        let [low, value, high] = quartiles.map(|value| Some(value).filter(|value| value.is_finite()));
        Estimate { low, value, high }
    }
}

/// A number with so many digits after the point; a dash for none.
pub fn show(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

/// One figure.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Record {
    /// `burst`, `overhead` or `sources`.
    pub experiment: &'static str,
    /// What the loop did beside pacing.
    pub load: &'static str,
    /// By what timer, or with which trigger states.
    pub method: String,
    /// The interval asked for.
    pub target_us: Option<u64>,
    /// The shortest gap allowed.
    pub burst_us: Option<u64>,
    /// What was measured, with its unit.
    pub figure: String,
    /// How much.
    #[serde(flatten)]
    pub measured: Estimate,
    /// What the paper says of it.
    pub paper: Option<f64>,
    /// What the independent model gives.
    pub model: Option<f64>,
}

/// A statement about the figures that is to hold.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Check {
    /// The figure.
    pub figure: String,
    /// What was measured; `null` if nothing was, or if others disturbed it.
    pub measured: Option<f64>,
    /// The least or the most that it is to be.
    pub bound: f64,
    /// Whether that is the least.
    pub at_least: bool,
    /// Where it lies with a confidence of 95%, if that is known: what has the bound within it is inconclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<[f64; 2]>,
}

impl Check {
    /// It is to be at most `bound`.
    pub fn at_most(figure: impl Into<String>, bound: f64, measured: Option<f64>) -> Self {
        Check { figure: figure.into(), measured, bound, at_least: false, within: None }
    }

    /// It is to be at least `bound`.
    pub fn at_least(figure: impl Into<String>, bound: f64, measured: Option<f64>) -> Self {
        Check { at_least: true, ..Check::at_most(figure, bound, measured) }
    }

    /// Measured is the median in the middle, between what [`median_within`](crate::turns::median_within) says; of `None` nothing is
    /// known.
    #[must_use]
    pub fn of_median(self, median: Option<[f64; 3]>) -> Self {
        let measured = median.map(|[_, median, _]| median);
        Check { measured, within: median.map(|[low, _, high]| [low, high]), ..self }
    }

    /// A row of a table: figure, bound, measured, and whether it holds.
    pub fn row(&self) -> String {
        let Check { figure, measured, bound, at_least, within } = self;
        let sign = if *at_least { "≥" } else { "≤" };
        let holds = |value: f64| if *at_least { value >= *bound } else { value <= *bound };
        let [low, high] = within.map_or([*measured; 2], |within| within.map(Some));
        let holds = match low.map(holds).zip(high.map(holds)) {
            Some((true, true)) => "holds",
            Some((false, false)) => "**does not hold**",
            _ => "inconclusive",
        };
        let within = within.map(|[low, high]| format!(" ({low:.3} to {high:.3})")).unwrap_or_default();
        format!("| {figure} | {sign} {bound} | {}{within} | {holds} |", show(*measured, 3))
    }
}

/// Everything that was found.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Findings {
    /// One a figure.
    pub records: Vec<Record>,
    /// What is to hold of them.
    pub checks: Vec<Check>,
    /// Whether a signal ended it early.
    pub interrupted: bool,
}

impl Report for Findings {
    const SCHEMA: &'static str = "softtimers.bench.pacing/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        table.row("figures", self.records.len());
        table
    }
}

impl Findings {
    /// A header and a line for each record.
    pub fn to_csv(&self) -> String {
        let mut text = format!("{}\n", COLUMNS.join(","));
        for record in &self.records {
            let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let whole = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
            let Estimate { low, value, high } = record.measured;
            let cells: [String; COLUMNS.len()] = [
                field(record.experiment),
                field(record.load),
                field(&record.method),
                whole(record.target_us),
                whole(record.burst_us),
                field(&record.figure),
                number(value),
                number(low),
                number(high),
                number(record.paper),
                number(record.model),
            ];
            text += &cells.join(",");
            text.push('\n');
        }
        text
    }
}

/// A text as a field: in quotation marks if it has to be.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

const COLUMNS: [&str; 11] = [
    "experiment",
    "load",
    "method",
    "target_us",
    "burst_us",
    "figure",
    "value",
    "low",
    "high",
    "paper",
    "model",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_line_and_unknown_cells_are_empty() {
        let record = Record {
            experiment: "burst",
            load: "web",
            method: "soft".to_owned(),
            target_us: Some(40),
            burst_us: Some(35),
            figure: "mean_gap_us".to_owned(),
            measured: [65.5, 66.25, 67.0].into(),
            paper: Some(65.9),
            model: None,
        };
        let unmeasured = Record { measured: [f64::NAN; 3].into(), burst_us: None, ..record.clone() };
        let findings = Findings { records: vec![record, unmeasured], ..Findings::default() };
        assert_eq!(
            findings.to_csv(),
            "experiment,load,method,target_us,burst_us,figure,value,low,high,paper,model\n\
             burst,web,soft,40,35,mean_gap_us,66.25,65.5,67,65.9,\n\
             burst,web,soft,40,,mean_gap_us,,,,65.9,\n"
        );
        let json = serde_json::to_value(&findings).unwrap();
        assert_eq!((&json["records"][0]["value"], &json["records"][1]["value"]), (&66.25.into(), &().into()));
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(field("plain text"), "plain text");
        assert_eq!(field("soft, every \"trigger\""), "\"soft, every \"\"trigger\"\"\"");
        assert_eq!(field("a\nb"), "\"a\nb\"");
    }

    #[test]
    fn people_see_medians_with_their_middle_half() {
        let estimate = Estimate::from([1.0, 2.0, 3.5]);
        assert_eq!((estimate.show(1), estimate.show_range(1)), ("2.0".into(), "2.0 (1.0 to 3.5)".into()));
        assert_eq!(Estimate::exactly(2.0).times(1e3).show_range(0), "2000");
        assert_eq!(Estimate::from([f64::NAN; 3]).show_range(1), "–");
    }

    #[test]
    fn a_check_without_a_figure_is_inconclusive() {
        let row = |measured| Check::at_most("a", 0.5, measured).row();
        assert_eq!(row(Some(0.25)), "| a | ≤ 0.5 | 0.250 | holds |");
        assert_eq!(row(Some(0.75)), "| a | ≤ 0.5 | 0.750 | **does not hold** |");
        assert_eq!(row(None), "| a | ≤ 0.5 | – | inconclusive |");
        assert!(Check::at_least("a", 0.5, Some(0.5)).row().ends_with("holds |"));
    }

    #[test]
    fn a_check_whose_interval_has_the_bound_within_it_is_inconclusive() {
        let row = |low, high| Check::at_least("a", 0.5, None).of_median(Some([low, 0.625, high])).row();
        assert_eq!(row(0.25, 0.75), "| a | ≥ 0.5 | 0.625 (0.250 to 0.750) | inconclusive |");
        assert_eq!(row(0.5, 0.75), "| a | ≥ 0.5 | 0.625 (0.500 to 0.750) | holds |");
        let below = Check::at_least("a", 0.5, None).of_median(Some([0.125, 0.25, 0.375])).row();
        assert!(below.ends_with("**does not hold** |"), "{below}");
        assert!(Check::at_most("a", 0.5, Some(0.25)).of_median(None).row().ends_with("| – | inconclusive |"));
    }
}
