//! Makes figures and tables of saved runs: a pure function for each section. They show only what the runs measured, and
//! leave out what a run lacks.
//!
//! ```text
//!   rows ──▶ curves   a series for each value of a key, with a paper's points
//!        └─▶ table    a column for each key, with its unit
//! ```

pub(super) mod costs;
pub(super) mod hip;
pub(super) mod noise;
pub(super) mod overload;
pub(super) mod path;
pub(super) mod rates;
pub(super) mod streams;
pub(super) mod summary;
pub(super) mod triggers;

use std::time::Duration;

use serde_json::Value;

use super::value::{number, tamed};
use softtimers_run::page::axis::{Axis, Scale};
use softtimers_run::page::digits::{digits, percent};
use softtimers_run::page::figure::{Drawn, Figure, Grid, Mark, Series};

/// Returns an axis that begins at zero.
fn linear(name: &str, unit: &str) -> Axis {
    Axis::new(name, unit, Scale::Linear)
}

/// Returns a logarithmic axis.
fn log(name: &str, unit: &str) -> Axis {
    Axis::new(name, unit, Scale::Log)
}

/// Returns an axis for the percentiles of a quantity.
fn percentile(what: &str) -> Axis {
    Axis::new(format!("percentile of {what}"), "%", Scale::Nines)
}

/// Returns the points of a series, from two numbers of each row; `None` for either leaves the row out.
fn points<'a>(
    rows: impl IntoIterator<Item = &'a Value>,
    x: impl Fn(&Value) -> Option<f64>,
    y: impl Fn(&Value) -> Option<f64>,
) -> Vec<(f64, f64)> {
    rows.into_iter().filter_map(|row| Some((x(row)?, y(row)?))).collect()
}

/// Reads the numbers under a key.
fn under(key: &str) -> impl Fn(&Value) -> Option<f64> + '_ {
    move |row| number(row, key)
}

/// Reads the numbers under a key, times a factor: shares in percent, nanoseconds in microseconds.
fn times(factor: f64, key: &str) -> impl Fn(&Value) -> Option<f64> + '_ {
    move |row| number(row, key).map(|number| number * factor)
}

/// A number of each row.
type Get<'a> = &'a dyn Fn(&Value) -> Option<f64>;

/// Returns a line for each value of a key, named by `name`, and hollow points in the same colour where a paper has
/// some.
fn curves(
    rows: &[Value],
    by: &str,
    name: impl Fn(&str) -> String,
    ours: (Get<'_>, Get<'_>),
    paper: Option<(Get<'_>, Get<'_>)>,
) -> Vec<Series> {
    let mut series = vec![];
    for (at, value) in values(rows, by).iter().enumerate() {
        let name = name(value);
        let of_value = |(x, y): (Get<'_>, Get<'_>)| points(with(rows, by, value), x, y);
        series.push(Series::line(at, &name, of_value(ours)));
        let paper = paper.map(|paper| Series::of(Mark::Paper, at, format!("{name}, paper"), of_value(paper)));
        series.extend(paper);
    }
    series
}

/// How the cells of a column are formatted.
#[derive(Clone, Copy)]
enum Cell {
    /// A text, unchanged.
    Text,
    /// A number, unchanged.
    Number,
    /// A share as a percentage.
    Percent,
    /// Nanoseconds in microseconds.
    Micros,
    /// Nanoseconds in milliseconds.
    Millis,
}

/// A column: its header, the key of each row, and the format of its cells.
type Column<'a> = (&'a str, &'a str, Cell);

/// Returns a table of rows.
fn table<'a>(title: &str, rows: impl IntoIterator<Item = &'a Value>, columns: &[Column<'_>]) -> Grid {
    let heads: Vec<&str> = columns.iter().map(|column| column.0).collect();
    let mut grid = Grid::new(title, &heads);
    rows.into_iter().for_each(|row| grid.row(columns.iter().map(|column| cell(row, column.1, column.2))));
    grid
}

fn cell(row: &Value, key: &str, cell: Cell) -> String {
    let number = number(row, key);
    match cell {
        Cell::Text => shown(row, key),
        Cell::Number => digits(number),
        Cell::Percent => percent(number),
        Cell::Micros => digits(number.map(|nanos| nanos / 1e3)),
        Cell::Millis => digits(number.map(|nanos| nanos / 1e6)),
    }
}

/// Returns a mark for each name, the smallest at the bottom, for names without an order of their own.
fn ranked(
    title: &str,
    text: &str,
    across: Axis,
    up: &str,
    mut named: Vec<(String, f64)>,
) -> (Figure, Vec<(f64, f64)>) {
    named.sort_by(|one, next| one.1.total_cmp(&next.1));
    let places = named.iter().enumerate().map(|(at, (_, value))| (*value, at as f64)).collect();
    let names = Scale::Names(named.into_iter().map(|(name, _)| name).collect());
    (Figure::new(title, text, across, Axis::new(up, "", names)), places)
}

/// Returns each value of a key in the order of its first row, as text.
fn values(rows: &[Value], key: &str) -> Vec<String> {
    let mut values: Vec<String> = vec![];
    for row in rows {
        let value = shown(row, key);
        if !values.contains(&value) && values.len() < MOST_VALUES {
            values.push(value);
        }
    }
    values
}

/// Returns a text or a number as text.
fn shown(row: &Value, key: &str) -> String {
    match row.get(key) {
        Some(Value::String(text)) => tamed(text),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// Returns the rows in which a key has this value.
fn with<'a>(rows: &'a [Value], key: &'a str, value: &'a str) -> impl Iterator<Item = &'a Value> + Clone {
    rows.iter().filter(move |row| shown(row, key) == value)
}

/// Returns a time in nanoseconds as microseconds.
fn micros(row: &Value, key: &str) -> Option<f64> {
    number(row, key).map(|nanos| nanos / 1e3)
}

/// Formats a key's value in nanoseconds for people.
fn nanos(shown: &str) -> String {
    shown.parse().map_or_else(|_| shown.to_owned(), |nanos| format!("{:?}", Duration::from_nanos(nanos)))
}

/// Returns the figure, or records that it is missing.
fn or_lacks<T>(found: Result<T, String>, drawn: &mut Drawn) -> Option<T> {
    found.map_err(|why| drawn.lacks(why)).ok()
}

/// The colour of series without a counterpart here.
const GREY: usize = 6;
/// More values than any experiment sweeps.
const MOST_VALUES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_have_units() {
        let row = json!({ "a": 12_000, "b": "40us", "c": null });
        assert_eq!(["a", "b", "c"].map(|key| micros(&row, key)), [Some(12.0), None, None]);
        assert_eq!(["40000", "x"].map(nanos), ["40µs", "x"]);
    }

    #[test]
    fn values_are_texts_in_their_order() {
        let rows = [json!({ "a": 5 }), json!({ "a": "x" }), json!({ "a": 5 }), json!(null)];
        assert_eq!(values(&rows, "a"), ["5", "x", ""]);
        assert_eq!(with(&rows, "a", "5").count(), 2);
    }

    #[test]
    fn columns_show_their_units_and_what_has_no_order_is_sorted() {
        let rows = [json!({ "n": "a", "t": 1_500, "s": 0.25 }), json!({})];
        let columns = [("name", "n", Cell::Text), ("µs", "t", Cell::Micros), ("share", "s", Cell::Percent)];
        assert_eq!(table("t", &rows, &columns).rows, [vec!["a", "1.5", "25%"], vec!["", "–", "–"]]);
        let named = vec![("slow".to_owned(), 9.0), ("fast".to_owned(), 1.0)];
        let (figure, places) = ranked("t", "w", log("a", "b"), "c", named);
        assert_eq!(figure.y.scale, Scale::Names(vec!["fast".into(), "slow".into()]));
        assert_eq!(places, [(1.0, 0.0), (9.0, 1.0)]);
    }
}
