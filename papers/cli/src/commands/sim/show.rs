//! The rows of a sweep as a table for people and as JSON.

use std::sync::Arc;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use softtimers_sim::{Cells, Column, Experiment, PointRows, Runs, Sweep, Value};

use super::run::Simulation;
use softtimers_run::grid::Grid;
use softtimers_run::output::Report;
use softtimers_run::quantity::number;
use softtimers_run::table::Table;

/// The rows of the points that were run.
#[derive(Debug)]
pub(crate) struct SimReport {
    sweep: Arc<Sweep>,
    found: Vec<PointRows>,
}

/// The most key columns of a folded row, in each of its blocks.
const MOST_KEYS: usize = 3;

/// The parameters of all points.
#[derive(Debug)]
pub(crate) struct SimConfig {
    sweep: Arc<Sweep>,
}

impl SimConfig {
    pub(crate) fn new(sweep: &Arc<Sweep>) -> Self {
        SimConfig { sweep: Arc::clone(sweep) }
    }
}

impl SimReport {
    pub(crate) fn new(sweep: &Arc<Sweep>, found: Vec<PointRows>) -> Self {
        SimReport { sweep: Arc::clone(sweep), found }
    }

    /// Returns a report of one point, with the keys of all points.
    pub(crate) fn example(sweep: &Arc<Sweep>) -> Self {
        let value = |column: &Column| match column.cells {
            Cells::Words => Value::Text(String::new()),
            _ => Value::Missing,
        };
        let at = vec![String::new(); sweep.axes().len()];
        let rows = vec![sweep.experiment().columns.iter().map(value).collect()];
        SimReport::new(sweep, vec![PointRows { point: 0, at, rows, seeds: 1, skipped: None }])
    }

    /// Returns the number of leading columns that identify a row: words, and repeated parameters.
    fn keys(&self, names: &[&str], words: &[bool]) -> usize {
        let parameters = self.sweep.experiment().parameters;
        let repeats = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
        let keys = names.iter().zip(words).take_while(|&(name, &words)| words || repeats(name));
        keys.count().clamp(1, MOST_KEYS)
    }

    /// Returns the input files of the result.
    fn inputs(&self) -> Vec<Input> {
        let machine = self.sweep.base().machine_origin();
        let machine =
            machine.map(|origin| Input { name: origin.name.clone(), sha256: origin.sha256.to_string() });
        let recordings = self
            .sweep
            .recordings()
            .into_iter()
            .map(|recording| Input { name: recording.name.clone(), sha256: recording.sha256.to_string() });
        machine.into_iter().chain(recordings).collect()
    }

    /// Returns the names and, row by row, the texts.
    fn cells(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let columns = self.sweep.experiment().columns;
        let axes: Vec<_> = self.sweep.axes_beside_columns().collect();
        let runs = self.sweep.runs();
        let names = axes.iter().map(|(_, name)| *name).chain(columns.iter().map(|column| column.name));
        let names =
            names.chain(runs.precision.as_ref().map(|_| "seeds")).chain(runs.skips.then_some("reason"));
        let row = |found: &PointRows, row: &[Value]| {
            let at = axes.iter().map(|(index, _)| found.at[*index].clone());
            let cells = row.iter().zip(columns).map(|(value, column)| column.text(value).to_string());
            let seeds = runs.precision.as_ref().map(|_| found.seeds.to_string());
            let reason = runs.skips.then(|| found.skipped.clone().unwrap_or_default());
            at.chain(cells)
                .chain(seeds)
                .chain(reason)
                .map(|text| if text.is_empty() { "-".to_owned() } else { text })
                .collect()
        };
        let rows =
            self.found.iter().flat_map(|found| found.rows.iter().map(move |values| row(found, values)));
        (names.collect(), rows.collect())
    }
}

impl Report<Simulation> for SimReport {
    const IS_TIMED: bool = false;
    const SCHEMA: &'static str = "softtimers.sim/4";
    const ROWS: Option<&'static str> = Some("rows");

    fn table(&self) -> Table {
        let (names, rows) = self.cells();
        let words = |at: usize| rows.iter().any(|row| row[at].chars().any(char::is_alphabetic));
        let words: Vec<bool> = (0..names.len()).map(words).collect();
        let mut grid = Grid::new(names.iter().copied()).numbered().keys(self.keys(&names, &words));
        for at in (0..names.len()).filter(|&at| words[at]) {
            grid = grid.words(at);
        }
        rows.into_iter().for_each(|row| grid.row(row));
        let mut table = Table::default();
        table.grid(grid);
        // In the format of sha256sum.
        let build = self.sweep.runs().build.map(|sha256| ("program".to_owned(), sha256.to_string()));
        let inputs = self.inputs().into_iter().map(|Input { name, sha256 }| (name, sha256));
        for (what, sha256) in build.into_iter().chain(inputs) {
            table.drawn(format!("sha256 {sha256} {}", what.escape_debug()));
        }
        table
    }
}

/// Names the experiment and the number of points in one line.
pub(super) fn header(sweep: &Sweep) -> String {
    let Experiment { name, about, .. } = sweep.experiment();
    let (points, Runs { seed, seeds, precision, .. }) =
        (number(sweep.points() as u64, "point"), sweep.runs());
    let most = if precision.is_some() { "at most " } else { "" };
    let seeds = match seeds.get() {
        1 => format!("seed {seed}"),
        seeds => format!("mean ± 95% interval of {most}{seeds} seeds from {seed}"),
    };
    format!("sim {name}: {about}; {points}, {seeds}")
}

impl Serialize for SimReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry(
            "build",
            &Build { sha256: self.sweep.runs().build.map(|sha256| sha256.to_string()) },
        )?;
        map.serialize_entry("inputs", &self.inputs())?;
        map.serialize_entry("seeds", &self.sweep.runs().seeds)?;
        map.serialize_entry("points", &self.found.len())?;
        map.serialize_entry("rows", &Rows(self))?;
        map.end()
    }
}

/// The program that made the result.
#[derive(Serialize)]
struct Build {
    sha256: Option<String>,
}

/// An input file of the result.
#[derive(Serialize)]
struct Input {
    name: String,
    sha256: String,
}

struct Rows<'a>(&'a SimReport);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SimReport { sweep, found } = self.0;
        let mut rows = serializer.serialize_seq(None)?;
        for found in found {
            for values in &found.rows {
                rows.serialize_element(&RowCells { sweep, found, values })?;
            }
        }
        rows.end()
    }
}

struct RowCells<'a> {
    sweep: &'a Sweep,
    found: &'a PointRows,
    values: &'a [Value],
}

impl Serialize for RowCells<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RowCells { sweep, found, values } = *self;
        let mut map = serializer.serialize_map(None)?;
        let at = sweep.at(found.point);
        for (index, name) in sweep.axes_beside_columns() {
            map.serialize_entry(&sweep.key(name), &Cell(&at[index].1.value()))?;
        }
        for (value, column) in values.iter().zip(sweep.experiment().columns) {
            map.serialize_entry(column.key().as_ref(), &Cell(value))?;
            if sweep.has_means(column) {
                let mean = if let Value::Mean(mean) = value { Some(mean) } else { None };
                let of = |name: &str| format!("{}_{name}", column.name);
                map.serialize_entry(&of("sd"), &mean.and_then(|mean| mean.deviation))?;
                map.serialize_entry(&of("ci95"), &mean.and_then(|mean| mean.interval))?;
                map.serialize_entry(&of("n"), &mean.map_or(0, |mean| mean.seeds))?;
            }
        }
        if sweep.runs().seeds.get() > 1 {
            map.serialize_entry("seeds", &found.seeds)?;
        }
        if sweep.runs().skips {
            map.serialize_entry("reason", &found.skipped)?;
        }
        map.end()
    }
}

/// A value with all its digits.
struct Cell<'a>(&'a Value);

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Text(text) => serializer.serialize_str(text),
            Value::Count(count) => serializer.serialize_u64(*count),
            Value::Real(number) => Some(number).filter(|number| number.is_finite()).serialize(serializer),
            Value::Time(time) => u64::try_from(time.as_nanos()).ok().serialize(serializer),
            Value::Mean(mean) => serializer.serialize_f64(mean.mean),
            Value::Without(_) | Value::Missing => serializer.serialize_none(),
        }
    }
}

impl Serialize for SimConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("experiment", self.sweep.experiment().name)?;
        for (name, setting) in self.sweep.base().iter() {
            match self.sweep.axes().iter().find(|axis| axis.name == name) {
                Some(axis) => {
                    let values: Vec<_> = axis.values.iter().map(|(text, _)| text).collect();
                    map.serialize_entry(name, &values)?;
                }
                None => map.serialize_entry(name, &setting.to_string())?,
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_run::snapshot::{self, Live};
    use softtimers_sim::{Parameters, Part, PointError, Watch};
    use std::num::NonZeroUsize;

    /// A simulation is deterministic: the same seed, the same rows.
    #[test]
    fn snapshot() {
        for name in ["framerate", "slowstart"] {
            let experiment = softtimers_sim::experiments::find(name).unwrap();
            let sweep = Arc::new(Sweep::new(experiment, Parameters::new(experiment.parameters), vec![], 1));
            let mut found = vec![];
            let watch = Watch::new();
            let keep = |point| -> Result<(), PointError> {
                found.push(point);
                Ok(())
            };
            sweep.run(Part::default(), NonZeroUsize::MIN, &watch, keep).unwrap();
            let report = SimReport::new(&sweep, found);
            // Each experiment's help lists its columns, from the same data.
            let is_column = |label: &str| experiment.columns.iter().any(|column| column.name == label);
            snapshot::check_explained(
                is_column,
                &format!("sim-{name}"),
                &header(&sweep),
                &Live::none(),
                &report,
            );
        }
    }
}
