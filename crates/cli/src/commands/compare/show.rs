//! The comparison for people: a line for each figure.

use serde::Serialize;
use softtimers_measure::estimate::Estimate;

use super::Compare;
use crate::run::grid::Grid;
use crate::run::output::Report;
use crate::run::quantity::{bits, or_dash, packets, share, time};
use crate::run::screen::Tone;
use crate::run::table::Table;

/// The keys of the object of `compare`.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct CompareReport {
    /// The figures that all files have.
    pub(crate) rows: Vec<Row>,
    /// Why the run of a file proves nothing; `null` of one that does.
    pub(crate) inconclusive_runs: Vec<Option<String>>,
    #[serde(skip)]
    pub(crate) names: Vec<String>,
    /// How many figures only some runs have.
    #[serde(skip)]
    pub(crate) left_out: usize,
}

/// A figure of all files.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Row {
    /// Its key.
    pub(crate) key: String,
    /// Its value in each file: the median of several runs.
    pub(crate) values: Vec<f64>,
    /// The interval in which the true median is with a confidence of 95%; `null` for fewer than six runs.
    pub(crate) within: Vec<Option<[f64; 2]>>,
    /// The last one by the first, of equally many runs the median of pairs; `null` if the first is zero, unless both are.
    pub(crate) ratio: Option<f64>,
    /// The interval of the ratio; `null` for fewer than six pairs, and an end that is infinite.
    pub(crate) ratio_within: Option<[f64; 2]>,
}

impl Row {
    /// Compares the runs of each file; `None` if one has none. Those of the first and the last may be pairs.
    pub(super) fn new(key: String, files: &[&[f64]], are_paired: bool) -> Option<Self> {
        let estimates: Option<Vec<Estimate>> =
            files.iter().map(|runs| Estimate::from_values(runs.iter().copied())).collect();
        let (estimates, first, last) = (estimates?, files.first()?, files.last()?);
        let values: Vec<f64> = estimates.iter().map(|estimate| estimate.median).collect();
        let (last, first) = if are_paired && first.len() == last.len() {
            (*last, *first)
        } else {
            (&values[values.len() - 1..], &values[..1])
        };
        let ratio = Estimate::of_ratios(last, first);
        Some(Row {
            key,
            values,
            within: estimates.iter().map(|estimate| estimate.interval).collect(),
            ratio: ratio.map(|ratio| ratio.median).filter(|ratio| ratio.is_finite()),
            ratio_within: ratio.and_then(|ratio| ratio.interval),
        })
    }

    /// Says whether the files differ: what is the same need not be read.
    fn differs(&self) -> bool {
        self.values.iter().any(|value| *value != self.values[0])
    }
}

impl Report<Compare> for CompareReport {
    const IS_TIMED: bool = false;
    const SCHEMA: &'static str = "softtimers.compare/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        for (at, name) in self.names.iter().enumerate() {
            table.text(&format!("{}: {name}", at + 1), Tone::Plain);
        }
        for (at, why) in self.inconclusive_runs.iter().enumerate() {
            if let Some(why) = why {
                table.text(&format!("{} is inconclusive: {why}", at + 1), Tone::Bad);
            }
        }
        let columns: Vec<String> = (1..=self.names.len()).map(|number| number.to_string()).collect();
        let heads = ["key"].into_iter().chain(columns.iter().map(String::as_str)).chain(["last : first"]);
        let mut grid = Grid::new(heads);
        let differing: Vec<&Row> = self.rows.iter().filter(|row| row.differs()).collect();
        for row in &differing {
            let ratio = or_dash(row.ratio, |ratio| {
                with_interval(&|value| format!("{value:.3}"), ratio, row.ratio_within)
            });
            let equal = row.ratio_within.filter(|[low, high]| (*low..=*high).contains(&1.0));
            let ratio = ratio + equal.map_or("", |_| " inconclusive");
            let values = row.values.iter().zip(&row.within);
            let values =
                values.map(|(&value, &within)| with_interval(&|value| shown(&row.key, value), value, within));
            grid.row([row.key.clone()].into_iter().chain(values).chain([ratio]));
        }
        table.grid(grid);
        if differing.iter().any(|row| row.ratio_within.is_none()) {
            table
                .text("no interval: six runs of each, made in turn and appended (>>), have one", Tone::Plain);
        }
        if self.left_out > 0 {
            table.text(&format!("left out, as not all runs have them: {}", self.left_out), Tone::Plain);
        }
        let same = match self.rows.len() - differing.len() {
            0 if self.rows.is_empty() => "the files have no figure in common".to_owned(),
            0 => return table,
            1 => "1 figure is the same".to_owned(),
            same => format!("{same} figures are the same"),
        };
        table.text(&same, Tone::Plain);
        table
    }
}

/// A median as `show` writes it, and how far it is from the ends of its interval, at most.
pub(crate) fn with_interval(show: &dyn Fn(f64) -> String, median: f64, within: Option<[f64; 2]>) -> String {
    let Some([low, high]) = within.filter(|[low, high]| low < high) else { return show(median) };
    let far = (median - low).max(high - median) / median.abs();
    if far < 0.995 {
        format!("{} ±{:.0}%", show(median), far * 100.0)
    } else {
        format!("{} to {}", show(low), show(high))
    }
}

/// A number in the unit that its key names.
pub(crate) fn shown(key: &str, value: f64) -> String {
    let name = key.split('.').rev().find(|part| part.contains('_')).unwrap_or(key);
    let is_count = key.ends_with(".count");
    match name.rsplit('_').next().unwrap_or_default() {
        "ns" if !is_count => time(value),
        "pps" => packets(value),
        "bps" => bits(value),
        "share" => share(value),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::snapshot::{self, Live};

    #[test]
    fn numbers_are_shown_in_the_unit_of_their_key() {
        assert_eq!(shown("late_ns.p99", 40_000.0), "40.0 µs");
        assert_eq!(shown("late_ns.count", 40_000.0), "40000");
        assert_eq!(shown("achieved_pps", 25_000.0), "25.0 kpps");
        assert_eq!(shown("cpu_share", 0.5), "50.0%");
        assert_eq!((shown("sent", 7.0), shown("mean", 0.5)), ("7".to_owned(), "0.5000".to_owned()));
    }

    /// The machine's drift is that of both, and of their ratio there is none.
    #[test]
    fn a_ratio_is_of_pairs_and_has_an_interval_from_six_on() {
        let drift = [1.0, 3.0, 2.0, 5.0, 4.0, 2.5];
        let twice = drift.map(|value| value * 2.0);
        let row = |a: &[f64], b: &[f64]| Row::new("ns".to_owned(), &[a, b], true).unwrap();
        let six = row(&drift, &twice);
        assert_eq!((six.ratio, six.ratio_within), (Some(2.0), Some([2.0; 2])));
        assert_eq!((&six.values[..], six.within[0]), (&[2.75, 5.5][..], Some([1.0, 5.0])));
        assert_eq!(row(&drift[..5], &twice[..5]).ratio_within, None);
        let unequal = row(&drift[..1], &twice);
        assert_eq!((unequal.ratio, unequal.ratio_within), (Some(5.5), None));
        assert_eq!((row(&[0.0], &[1.0]).ratio, row(&[0.0], &[0.0]).ratio), (None, Some(1.0)));
        assert_eq!(Row::new("ns".to_owned(), &[&[1.0], &[]], true), None);
        let apart = Row::new("ns".to_owned(), &[&drift, &twice], false).unwrap();
        assert_eq!((apart.ratio, apart.ratio_within, apart.within), (Some(2.0), None, six.within));
    }

    #[test]
    fn what_a_strangers_file_says_moves_no_cursor() {
        let report = CompareReport {
            rows: vec![Row::new("\u{1b}[2Jkey".to_owned(), &[&[1.0], &[2.0]], false).unwrap()],
            inconclusive_runs: vec![Some("\u{1b}[2J\n".to_owned())],
            names: vec!["a\nb".to_owned(), "c".to_owned()],
            left_out: 0,
        };
        let text = format!("{:?}", report.table());
        let (escapes, shown) = (text.matches("\\u{1b}").count(), text.matches("\\\\u{1b}").count());
        assert_eq!((escapes, shown), (2, 2), "as text, not as the character: {text}");
    }

    #[test]
    fn snapshot() {
        let row = |key: &str, [a, b]: [f64; 2]| Row::new(key.to_owned(), &[&[a], &[b]], false).unwrap();
        let drift = [1.0, 1.5, 0.75, 1.25, 1.0, 2.0];
        let runs = |of: f64, by: f64| drift.map(|drift| of * (1.0 + drift * by));
        let several =
            |key: &str, a: [f64; 6], b: [f64; 6]| Row::new(key.to_owned(), &[&a, &b], true).unwrap();
        let report = CompareReport {
            rows: vec![
                row("sent", [50_000.0, 50_000.0]),
                row("achieved_pps", [24_918.0, 12_896.0]),
                row("late_ns.p50", [31_807.0, 1_844_223.0]),
                row("socket.refused", [0.0, 3.0]),
                several("gap_ns.p99", runs(40_000.0, 0.1), runs(80_000.0, 0.1)),
                several("cpu_share", runs(0.2, 0.1), runs(0.2, 0.1).map(|share| share.powi(2) * 4.25)),
                several("back_to_back", [0.0; 6], runs(0.5, 1.0)),
            ],
            inconclusive_runs: vec![None, Some("the host took 7.0% of the CPU time".to_owned())],
            names: vec!["soft.json".to_owned(), "loop.json".to_owned()],
            left_out: 2,
        };
        let header = "compare: soft.json, loop.json of softtimers.send/2";
        snapshot::check("compare", header, &Live::none(), &report);
    }
}
