//! The rows of a sweep as a table for people and as JSON.

use std::sync::Arc;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use softtimers_sim::{Column, Experiment, Kind, Parameter, PointRows, Sweep, Value};

use crate::run::grid::Grid;
use crate::run::output::Report;
use crate::run::quantity::number;
use crate::run::table::Table;

/// The rows of the points that were run.
#[derive(Debug)]
pub(crate) struct SimReport {
    sweep: Arc<Sweep>,
    found: Vec<PointRows>,
}

/// Those of a row that is folded, in each of its blocks.
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

    /// A report of one point, with the keys that all points will have. Which columns are words is known of those that
    /// repeat a parameter.
    pub(crate) fn example(sweep: &Arc<Sweep>) -> Self {
        let Experiment { parameters, columns, .. } = sweep.experiment();
        let is_word = |parameter: &Parameter| matches!(parameter.kind, Kind::Choice(_) | Kind::Trace);
        let words = |name| parameters.iter().any(|parameter| parameter.name == name && is_word(parameter));
        let value = |column: &Column| {
            if words(column.name) { Value::Text(String::new()) } else { Value::Missing }
        };
        let at = vec![String::new(); sweep.axes().len()];
        let found = PointRows { point: 0, at, rows: vec![columns.iter().map(value).collect()] };
        SimReport::new(sweep, vec![found])
    }

    /// Leading columns that say which row it is: words, and those that repeat a parameter.
    fn keys(&self, names: &[&str], words: &[bool]) -> usize {
        let parameters = self.sweep.experiment().parameters;
        let repeats = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
        let keys = names.iter().zip(words).take_while(|&(name, &words)| words || repeats(name));
        keys.count().clamp(1, MOST_KEYS)
    }

    /// Names and, row by row, texts.
    fn cells(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let columns = self.sweep.experiment().columns;
        let axes: Vec<_> = self.sweep.axes_beside_columns().collect();
        let names = axes.iter().map(|(_, name)| *name).chain(columns.iter().map(|column| column.name));
        let row = |found: &PointRows, row: &[Value]| {
            let at = axes.iter().map(|(index, _)| found.at[*index].clone());
            let cells = row.iter().zip(columns).map(|(value, column)| column.text(value).to_string());
            at.chain(cells).map(|text| if text.is_empty() { "-".to_owned() } else { text }).collect()
        };
        let rows =
            self.found.iter().flat_map(|found| found.rows.iter().map(move |values| row(found, values)));
        (names.collect(), rows.collect())
    }
}

impl Report for SimReport {
    const SCHEMA: &'static str = "softtimers.sim/2";
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
        table
    }
}

/// Names the experiment and the number of points in a line.
pub(super) fn header(sweep: &Sweep, seed: u64) -> String {
    let Experiment { name, about, .. } = sweep.experiment();
    format!("sim {name}: {about}; {}, seed {seed}", number(sweep.points() as u64, "point"))
}

impl Serialize for SimReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("points", &self.found.len())?;
        map.serialize_entry("rows", &Rows(self))?;
        map.end()
    }
}

struct Rows<'a>(&'a SimReport);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SimReport { sweep, found } = self.0;
        let mut rows = serializer.serialize_seq(None)?;
        for found in found {
            for values in &found.rows {
                rows.serialize_element(&Cells { sweep, found, values })?;
            }
        }
        rows.end()
    }
}

struct Cells<'a> {
    sweep: &'a Sweep,
    found: &'a PointRows,
    values: &'a [Value],
}

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (index, name) in self.sweep.axes_beside_columns() {
            map.serialize_entry(name, &self.found.at[index])?;
        }
        for (value, column) in self.values.iter().zip(self.sweep.experiment().columns) {
            match value {
                Value::Text(text) => map.serialize_entry(column.name, text)?,
                Value::Count(count) => map.serialize_entry(column.name, count)?,
                // The digits that mean something, as everywhere else.
                Value::Real(_) => {
                    let shown = column.data(value).to_string();
                    map.serialize_entry(column.name, &shown.parse::<f64>().ok())?;
                }
                Value::Missing => map.serialize_entry(column.name, &None::<f64>)?,
            }
        }
        map.end()
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
    use crate::run::snapshot::{self, Live};
    use softtimers_sim::{Parameters, Part, PointError, Watch};
    use std::num::NonZeroUsize;

    /// A simulation makes nothing up: the same seed, the same rows.
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
            snapshot::check("sim", &format!("sim-{name}"), &header(&sweep, 1), &Live::none(), &report);
        }
    }
}
