//! The comparison for people: a line for each figure.

use serde::Serialize;

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
}

/// A figure of all files.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Row {
    /// Its key.
    pub(crate) key: String,
    /// Its value in each file.
    pub(crate) values: Vec<f64>,
    /// The last one by the first; `null` if that is zero.
    pub(crate) ratio: Option<f64>,
}

impl Row {
    pub(super) fn new(key: String, values: Vec<f64>) -> Self {
        let ratio = values.first().zip(values.last()).map(|(first, last)| last / first);
        Row { key, values, ratio: ratio.filter(|ratio| ratio.is_finite()) }
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
                table.text(&format!("{} proves nothing: {why}", at + 1), Tone::Bad);
            }
        }
        let columns: Vec<String> = (1..=self.names.len()).map(|number| number.to_string()).collect();
        let heads = ["key"].into_iter().chain(columns.iter().map(String::as_str)).chain(["last : first"]);
        let mut grid = Grid::new(heads);
        let differing: Vec<&Row> = self.rows.iter().filter(|row| row.differs()).collect();
        for row in &differing {
            let ratio = or_dash(row.ratio, |ratio| format!("{ratio:.3}"));
            let values = row.values.iter().map(|&value| shown(&row.key, value));
            grid.row([row.key.clone()].into_iter().chain(values).chain([ratio]));
        }
        table.grid(grid);
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

/// A number in the unit that its key names.
fn shown(key: &str, value: f64) -> String {
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

    #[test]
    fn what_a_strangers_file_says_moves_no_cursor() {
        let report = CompareReport {
            rows: vec![Row::new("\u{1b}[2Jkey".to_owned(), vec![1.0, 2.0])],
            inconclusive_runs: vec![Some("\u{1b}[2J\n".to_owned())],
            names: vec!["a\nb".to_owned(), "c".to_owned()],
        };
        let text = format!("{:?}", report.table());
        let (escapes, shown) = (text.matches("\\u{1b}").count(), text.matches("\\\\u{1b}").count());
        assert_eq!((escapes, shown), (2, 2), "as text, not as the character: {text}");
    }

    #[test]
    fn snapshot() {
        let row = |key: &str, values: [f64; 2]| Row::new(key.to_owned(), values.to_vec());
        let report = CompareReport {
            rows: vec![
                row("sent", [50_000.0, 50_000.0]),
                row("achieved_pps", [24_918.0, 12_896.0]),
                row("late_ns.p50", [31_807.0, 1_844_223.0]),
                row("socket.refused", [0.0, 3.0]),
            ],
            inconclusive_runs: vec![None, Some("the host took 7.0% of the CPU time".to_owned())],
            names: vec!["soft.json".to_owned(), "loop.json".to_owned()],
        };
        let header = "compare: soft.json, loop.json of softtimers.send/2";
        snapshot::check("compare", header, &Live::none(), &report);
    }
}
