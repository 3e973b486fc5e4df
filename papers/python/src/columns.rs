//! The rows of a sweep as columns: those of the command's CSV, except the three that identify a line's run.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use softtimers_sim::{Cells, Column as Found, Kind, PointRows, Sweep, Value, csv};

/// Name, Arrow's name of the type, and values, of which any may be `None`.
pub(crate) type Column<'py> = (String, &'static str, Vec<Bound<'py, PyAny>>);

/// All columns, in the order of the CSV.
///
/// # Errors
/// Only for want of memory.
pub(crate) fn from_found<'py>(
    py: Python<'py>,
    sweep: &Sweep,
    found: &[PointRows],
) -> PyResult<Vec<Column<'py>>> {
    let (runs, mut columns) = (sweep.runs(), vec![]);
    let mut add = |name: String, of_type: &'static str, values: Vec<Value>| {
        let values = values.iter().map(|value| object(py, of_type, value)).collect::<PyResult<_>>()?;
        columns.push((name, of_type, values));
        PyResult::Ok(())
    };
    // One value for each row of each point.
    let by_point = |value: &dyn Fn(&PointRows) -> Value| -> Vec<Value> {
        let point = |point: &PointRows| vec![value(point); point.rows.len()];
        found.iter().flat_map(point).collect()
    };
    if !sweep.axes().iter().any(|axis| axis.name == "seed") {
        add("seed".to_owned(), SEEDS, by_point(&|_| Value::Count(runs.seed)))?;
    }
    if runs.seeds.get() > 1 {
        add("seeds".to_owned(), WHOLE, by_point(&|point| Value::from(point.seeds)))?;
    }
    for (index, (name, _)) in csv::inputs(sweep, 0).into_iter().enumerate() {
        let sha256 = |point: &PointRows| csv::inputs(sweep, point.point)[index].1;
        add(name, WORDS, by_point(&|point| sha256(point).map(|sha256| sha256.to_string()).into()))?;
    }
    for (index, name) in sweep.axes_beside_columns() {
        add(
            sweep.key(name),
            of_parameter(sweep, name).unwrap_or(SEEDS),
            by_point(&|point| sweep.at(point.point)[index].1.value()),
        )?;
    }
    for (place, column) in sweep.experiment().columns.iter().enumerate() {
        let cells: Vec<_> =
            found.iter().flat_map(|point| &point.rows).map(|row| row[place].clone()).collect();
        if sweep.has_means(column) {
            let mean = |value: &Value| if let Value::Mean(mean) = value { Some(*mean) } else { None };
            let part = |name| format!("{}_{name}", column.name);
            let means: Vec<_> = cells.iter().map(mean).collect();
            add(column.key().into_owned(), NUMBERS, cells)?;
            let deviation = means.iter().map(|mean| Value::from(mean.and_then(|mean| mean.deviation)));
            add(part("sd"), NUMBERS, deviation.collect())?;
            let interval = means.iter().map(|mean| Value::from(mean.and_then(|mean| mean.interval)));
            add(part("ci95"), NUMBERS, interval.collect())?;
            let seeds = means.iter().map(|mean| Value::from(mean.map_or(0, |mean| mean.seeds)));
            add(part("n"), WHOLE, seeds.collect())?;
        } else {
            add(column.key().into_owned(), of_column(sweep, column), cells)?;
        }
    }
    if runs.skips {
        let reason = |point: &PointRows| point.skipped.clone().map_or(Value::Missing, Value::Text);
        add("reason".to_owned(), WORDS, by_point(&reason))?;
    }
    Ok(columns)
}

/// The type of a parameter's values; none if there is no such parameter.
fn of_parameter(sweep: &Sweep, name: &str) -> Option<&'static str> {
    let parameter = sweep.experiment().parameters.iter().find(|parameter| parameter.name == name)?;
    Some(match parameter.kind {
        Kind::Count { .. } | Kind::PerSecond { .. } | Kind::Limit { .. } | Kind::Time { .. } => WHOLE,
        Kind::Real { .. } => NUMBERS,
        Kind::Choice(_) | Kind::Trace => WORDS,
    })
}

/// The type of a column, which does not depend on its values, so that runs can be concatenated.
fn of_column(sweep: &Sweep, column: &Found) -> &'static str {
    match column.cells {
        Cells::Words => WORDS,
        Cells::Times => WHOLE,
        Cells::Shares => NUMBERS,
        // One that repeats a parameter has its type.
        Cells::Numbers => of_parameter(sweep, column.name).unwrap_or(NUMBERS),
    }
}

/// Arrow's names.
const WORDS: &str = "string";
const WHOLE: &str = "int64";
const SEEDS: &str = "uint64";
const NUMBERS: &str = "float64";

fn object<'py>(py: Python<'py>, of_type: &str, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Count(count) if of_type == NUMBERS => (*count as f64).into_bound_py_any(py),
        Value::Text(text) => text.into_bound_py_any(py),
        Value::Count(count) => count.into_bound_py_any(py),
        Value::Time(time) => time.as_nanos().into_bound_py_any(py),
        Value::Real(number) if number.is_finite() => number.into_bound_py_any(py),
        Value::Mean(mean) => mean.mean.into_bound_py_any(py),
        Value::Real(_) | Value::Without(_) | Value::Missing => Ok(py.None().into_bound(py)),
    }
}
