//! Result files: what was measured, where, when and by which command. [`Results`], [`Table`].
//!
//! A published figure stands in such a file, and pages are rendered from it; so each says which machine, date and command it
//! is of, and nobody copies one by hand:
//!
//! ```text
//!   rounds ──▶ Table: an estimate for each cell, and bars ──▶ stdout, as Markdown
//!                └──▶ Results ──▶ --json FILE, with each figure of each round
//!                            └──▶ docs/data/NAME.json ──▶ a table between two marks of a page
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::bar::Bar;
use crate::paired::{Measured, Round};
use softtimers_measure::estimate::Estimate;

/// The content of a measurement's file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The version of the format: [`Results::SCHEMA`].
    pub schema: String,
    /// The day, as `YYYY-MM-DD`.
    pub date: String,
    /// The machine, in a line.
    pub machine: String,
    /// The commit of what was measured, if it is known.
    pub commit: Option<String>,
    /// The command that makes it again.
    pub command: String,
    /// The tables of its findings.
    pub tables: Vec<Table>,
}

impl Results {
    /// The version of the format; it changes when a key changes its meaning or goes.
    pub const SCHEMA: &str = "softtimers.results/1";

    /// A file of today, of the commit checked out here, without tables.
    pub fn today(machine: &str, command: &str) -> Self {
        let said = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        Results {
            schema: Results::SCHEMA.to_owned(),
            date: said("date", &["-u", "+%F"]).unwrap_or_default(),
            machine: machine.to_owned(),
            commit: said("git", &["rev-parse", "--short=8", "HEAD"]),
            command: command.to_owned(),
            tables: Vec::new(),
        }
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// If it is no such object, or one of another schema.
    pub fn parse(text: &str) -> Result<Self, String> {
        let results: Results = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if results.schema == Results::SCHEMA {
            Ok(results)
        } else {
            Err(format!("schema `{}`: only {} is known", results.schema, Results::SCHEMA))
        }
    }

    /// The file's text, with a line for each row.
    ///
    /// # Errors
    /// None, unless a number is none.
    pub fn to_text(&self) -> serde_json::Result<String> {
        let Results { schema, date, machine, commit, command, tables } = self;
        let table = |table: &Table| -> serde_json::Result<String> {
            let rows: Vec<String> = table.rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
            let rest = serde_json::to_string(&Table { rows: Vec::new(), ..table.clone() })?;
            // Within a text, its quotation marks would be escaped.
            Ok(rest.replacen("\"rows\":[]", &format!("\"rows\":[\n    {}]", rows.join(",\n    ")), 1))
        };
        let tables: Vec<String> = tables.iter().map(table).collect::<Result<_, _>>()?;
        let head = [schema, date, machine].map(serde_json::to_string);
        let [schema, date, machine] = head;
        Ok(format!(
            "{{\n\"schema\": {},\n\"date\": {},\n\"machine\": {},\n\"commit\": {},\n\"command\": {},\n\"tables\": [\n  {}\n]\n}}\n",
            schema?,
            date?,
            machine?,
            serde_json::to_string(commit)?,
            serde_json::to_string(command)?,
            tables.join(",\n  ")
        ))
    }

    /// The table with this key.
    pub fn table(&self, key: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.key == key)
    }

    /// The bars of all tables.
    pub fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.tables.iter().flat_map(|table| &table.bars)
    }

    /// Leaves out the rounds that the estimates were made of, as it is published.
    #[must_use]
    pub fn summary(mut self) -> Self {
        self.tables.iter_mut().for_each(|table| table.samples = Samples::default());
        self
    }
}

/// Figures in rows and columns, with what is to hold of them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    /// The name of the table in its file.
    pub key: String,
    /// The heads of all columns, those of the rows' names included.
    pub columns: Vec<String>,
    /// The number of decimals that a column shows; all of them where it is not given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decimals: Vec<usize>,
    /// The rows, a cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// The notes below the table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The bars that its figures are to meet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Bar>,
    /// Rounds that were quiet, and those set aside; nothing of figures that are not of rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<[usize; 2]>,
    /// Why the figures prove nothing, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inconclusive: Option<String>,
    /// Each figure of each round.
    #[serde(flatten)]
    pub samples: Samples,
}

/// Each figure of each round, as `row/figure`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Samples {
    /// The values of the quiet rounds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<BTreeMap<String, f64>>,
    /// The values of the rounds that were set aside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<BTreeMap<String, f64>>,
}

impl Samples {
    /// Returns the rounds with the figures of these rows.
    pub fn measured(&self, rows: &[String], figures: &[&str]) -> Measured {
        let round = |sample: &BTreeMap<String, f64>| {
            let mut round = Round::default();
            for (row, name) in rows.iter().flat_map(|row| figures.iter().map(move |name| (row, name))) {
                round.put(row, name, sample.get(&format!("{row}/{name}")).copied());
            }
            round
        };
        let mut measured = Measured::default();
        for (samples, reason) in [(&self.rounds, None), (&self.set_aside, Some("others, in an earlier run"))]
        {
            let rounds = samples.iter().map(round).filter(|round| round.figures().next().is_some());
            rounds.for_each(|round| measured.add(round, reason.map(str::to_owned)));
        }
        measured
    }

    /// Adds the figures of these rounds, whose rows are not among the others.
    pub fn add(&mut self, measured: &Measured) {
        for (samples, rounds) in [&mut self.rounds, &mut self.set_aside].into_iter().zip(measured.all()) {
            samples.resize_with(samples.len().max(rounds.len()), BTreeMap::new);
            samples.iter_mut().zip(rounds).for_each(|(all, round)| all.extend(sample(round)));
        }
    }
}

/// The content of a cell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A figure over rounds.
    Estimate(Estimate),
    /// A number, whose column says how many decimals are shown.
    Number(f64),
    /// A name, or a figure as it was printed.
    Text(String),
    /// Nothing was measured.
    Nothing(()),
}

impl Table {
    /// Makes a table of these rows and columns of `measured`; each column names its decimals.
    pub fn of<R: ToString>(
        key: &str,
        measured: &Measured,
        rows: impl IntoIterator<Item = R>,
        columns: &[(&str, usize)],
    ) -> Self {
        let row = |name: R| {
            let name = name.to_string();
            let figures = columns.iter().map(|(column, _)| measured.estimate(&name, column).into());
            std::iter::once(Cell::Text(name.clone())).chain(figures).collect()
        };
        let mut samples = Samples::default();
        samples.add(measured);
        Table {
            key: key.to_owned(),
            columns: std::iter::once("")
                .chain(columns.iter().map(|column| column.0))
                .map(str::to_owned)
                .collect(),
            decimals: std::iter::once(0).chain(columns.iter().map(|column| column.1)).collect(),
            rows: rows.into_iter().map(row).collect(),
            made: Some(measured.made()),
            inconclusive: measured.inconclusive().map(str::to_owned),
            samples,
            ..Table::default()
        }
    }

    /// A table of other figures than those of rounds; a column may say its decimals.
    pub fn new(key: &str, columns: &[(&str, usize)]) -> Self {
        Table {
            key: key.to_owned(),
            columns: columns.iter().map(|column| column.0.to_owned()).collect(),
            decimals: columns.iter().map(|column| column.1).collect(),
            ..Table::default()
        }
    }

    /// Adds a row to the table.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// Adds a column: of each row, the ratio of its figure to that of the row `to`, each within a round.
    pub fn against(&mut self, head: &str, measured: &Measured, figure: &str, to: &str) {
        self.columns.push(head.to_owned());
        self.decimals.push(3);
        for row in &mut self.rows {
            let name = row.first().map_or_else(String::new, |name| name.show(None));
            row.push(measured.ratio(figure, &name, to).into());
        }
    }

    /// Adds a bar, of which nothing is known where the table is inconclusive.
    pub fn bar(&mut self, bar: Bar) {
        self.bars.push(bar.unless(self.inconclusive.is_some()));
    }

    /// Adds a bar of a figure over these rounds, of which nothing is known where they prove nothing: the other rows of the
    /// table may be of other rounds.
    pub fn bar_of(&mut self, measured: &Measured, bar: Bar) {
        self.bar(bar.unless(measured.inconclusive().is_some()));
    }

    /// Says something below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Its bars as a table of their own: the figure, the bar, what was measured, and the verdict on it.
    #[must_use]
    pub fn of_bars(&self) -> Self {
        let row = |bar: &Bar| bar.cells().map(Cell::Text).to_vec();
        Table {
            rows: self.bars.iter().map(row).collect(),
            ..Table::new(&self.key, &["figure", "bar", "measured", "verdict"].map(|name| (name, 0)))
        }
    }

    /// The same table with the quartiles of each figure beside its median, as texts.
    #[must_use]
    pub fn with_spread(&self) -> Self {
        let mut table = self.clone();
        for (at, cell) in table.rows.iter_mut().flat_map(|row| row.iter_mut().enumerate()) {
            if let Cell::Estimate(estimate) = cell {
                let number = |value: f64| Cell::Number(value).show(self.decimals.get(at).copied());
                let [low, high] = estimate.quartiles.map(number);
                *cell = Cell::Text(format!("{} ({low} to {high})", number(estimate.median)));
            }
        }
        table
    }

    /// The rows in Markdown: of these columns, in this order (all, if none is named), and of the rows for which `is_wanted`
    /// says so of their cells' texts.
    ///
    /// # Errors
    /// The name of a column that is not there.
    pub fn markdown(
        &self,
        columns: &[String],
        is_wanted: impl Fn(&[String]) -> bool,
    ) -> Result<String, String> {
        let place = |name: &String| {
            let place = self.columns.iter().position(|column| column == name);
            place.ok_or_else(|| {
                format!("`{}` has no column `{name}`, only {}", self.key, self.columns.join(", "))
            })
        };
        let places: Vec<usize> = match columns {
            [] => (0..self.columns.len()).collect(),
            columns => columns.iter().map(place).collect::<Result<_, _>>()?,
        };
        let line = |cells: &[String]| {
            let cells: Vec<&str> =
                places.iter().map(|&at| cells.get(at).map_or("", String::as_str)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = line(&self.columns) + "|" + &"---|".repeat(places.len()) + "\n";
        for row in &self.rows {
            let shown = |(at, cell): (usize, &Cell)| cell.show(self.decimals.get(at).copied());
            let cells: Vec<String> = row.iter().enumerate().map(shown).collect();
            if is_wanted(&cells) {
                text += &line(&cells);
            }
        }
        Ok(text)
    }
}

/// All of it, as benches print it.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.markdown(&[], |_| true).map_err(|_| fmt::Error)?)?;
        if !self.notes.is_empty() {
            writeln!(f)?;
            self.notes.iter().try_for_each(|note| writeln!(f, "- {note}"))?;
        }
        if !self.bars.is_empty() {
            writeln!(f, "\n{}", Bar::HEAD)?;
            self.bars.iter().try_for_each(|bar| writeln!(f, "{bar}"))?;
        }
        match (&self.inconclusive, self.made) {
            (Some(reason), _) => writeln!(f, "\ninconclusive: {reason}"),
            (None, Some([quiet, set_aside])) => {
                writeln!(f, "\nMedians of {quiet} quiet rounds ({set_aside} noisy ones set aside).")
            }
            (None, None) => Ok(()),
        }
    }
}

impl Cell {
    /// The text on a page, with `decimals` decimals; a number as it is if its column names none.
    fn show(&self, decimals: Option<usize>) -> String {
        let number = |value: f64| match decimals {
            Some(decimals) => format!("{value:.decimals$}"),
            None => value.to_string(),
        };
        match self {
            Cell::Estimate(estimate) => number(estimate.median),
            Cell::Number(value) => number(*value),
            Cell::Text(text) => text.clone(),
            Cell::Nothing(()) => "–".to_owned(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        if value.is_finite() { Cell::Number(value) } else { Cell::Nothing(()) }
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Cell::Nothing(()), Cell::from)
    }
}

impl From<Option<Estimate>> for Cell {
    fn from(estimate: Option<Estimate>) -> Self {
        estimate.map_or(Cell::Nothing(()), Cell::Estimate)
    }
}

fn sample(round: &Round) -> BTreeMap<String, f64> {
    round.figures().map(|(row, name, figure)| (format!("{row}/{name}"), figure)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let rounds = (1..=7).map(|number| {
            let mut round = Round::default();
            round.put("heap", "ns", f64::from(number) * 10.0);
            round
        });
        Measured::as_a_whole(rounds.collect(), None)
    }

    fn results() -> Results {
        let mut table = Table::of("set", &measured(), ["heap", "wheel"], &[("ns", 1)]);
        table.bar(Bar::at_most("heap", 50.0, measured().estimate("heap", "ns")));
        table.note("cold");
        let mut plain = Table::new("plain", &[("what", 0), ("us", 2)]);
        plain.row(["a".into(), 1.5.into()]);
        plain.row(["b".into(), Cell::from("2 / 3")]);
        Results {
            schema: Results::SCHEMA.to_owned(),
            date: "2026-11-23".to_owned(),
            machine: "Linux 6.18".to_owned(),
            commit: None,
            command: "cargo bench".to_owned(),
            tables: vec![table, plain],
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let results = results();
        let whole = results.to_text().unwrap();
        assert_eq!(Results::parse(&whole), Ok(results.clone()));
        assert_eq!(results.bars().count(), 1);
        assert!(whole.contains("\"heap/ns\":70.0"), "{whole}");
        assert!(!results.summary().to_text().unwrap().contains("heap/ns"));
        let other = whole.replace("results/1", "results/9");
        assert!(Results::parse(&other).unwrap_err().contains("results/9"));
        assert!(Results::parse("{}").is_err());
    }

    /// Rows of two contests in one table, of which one had a noisy round.
    #[test]
    fn rounds_come_back_from_their_samples() {
        let mut noisy = Round::default();
        noisy.put("100 Mbit/s, tree", "ns/kB", 9.0);
        let mut tree = Measured::as_a_whole(vec![noisy.clone(); 3], None);
        tree.add(noisy, Some("others".to_owned()));
        let mut samples = Samples::default();
        [&measured(), &tree].into_iter().for_each(|measured| samples.add(measured));
        let again = samples.measured(&["100 Mbit/s, tree".to_owned()], &["ns/kB"]);
        assert_eq!((again.made(), again.all()), ([3, 1], tree.all()));
        assert_eq!(samples.measured(&["heap".to_owned()], &["ns"]).all(), measured().all());
        let mut twice = again.clone();
        twice.append(again);
        assert_eq!(twice.made(), [6, 2]);
    }

    #[test]
    fn what_is_not_measured_is_a_dash() {
        let shown = results().tables[0].to_string();
        assert!(shown.starts_with("|  | ns |\n|---|---|\n| heap | 40.0 |\n| wheel | – |\n"), "{shown}");
        assert!(
            shown.contains("\n- cold\n") && shown.contains("| heap | ≤ 50 | 40 (10 to 70) | inconclusive |"),
            "{shown}"
        );
        assert!(shown.ends_with("\nMedians of 7 quiet rounds (0 noisy ones set aside).\n"), "{shown}");
    }

    #[test]
    fn a_page_shows_the_rows_and_columns_that_it_names() {
        let results = results();
        let table = results.table("plain").unwrap();
        assert_eq!(
            table.markdown(&[], |_| true).unwrap(),
            "| what | us |\n|---|---|\n| a | 1.50 |\n| b | 2 / 3 |\n"
        );
        let some = table.markdown(&["us".into()], |cells| cells[0] == "a").unwrap();
        assert_eq!(some, "| us |\n|---|\n| 1.50 |\n");
        assert!(table.markdown(&["ms".into()], |_| true).unwrap_err().contains("no column `ms`"));
    }

    #[test]
    fn nothing_is_known_of_the_bars_of_an_inconclusive_table() {
        let disturbed = Measured::as_a_whole(vec![Round::default()], Some("others".into()));
        let mut table = Table::of("a", &disturbed, ["row"], &[("ns", 0)]);
        table.bar(Bar::at_most("a", 1.0, 0.5));
        assert_eq!(table.bars[0].measured, None);
        assert!(table.to_string().ends_with("\ninconclusive: others\n"));
        let mut cases = Table::new("a", &[("row", 0)]);
        let mut mostly = disturbed.clone();
        mostly.append(Measured::as_a_whole(vec![Round::default(); 2], Some("others".into())));
        mostly.add(Round::default(), None);
        cases.bar_of(&mostly, Bar::at_most("a", 1.0, 0.5));
        mostly.add(Round::default(), None);
        cases.bar_of(&mostly, Bar::at_most("a", 1.0, 0.5));
        assert_eq!(cases.bars.iter().map(|bar| bar.measured).collect::<Vec<_>>(), [None, Some(0.5)]);
    }
}
