//! From saved runs to figures and tables: a pure function for each section. They compute nothing that the runs have not
//! measured, and leave out what a run does not say.

pub(super) mod costs;
pub(super) mod hip;
pub(super) mod noise;
pub(super) mod overload;
pub(super) mod path;
pub(super) mod rates;
pub(super) mod streams;
pub(super) mod structures;
pub(super) mod summary;
pub(super) mod triggers;

use serde_json::Value;

use super::axis::{Axis, Scale};
use super::figure::{Drawn, Figure, Series};
use super::saved::{number, tamed, text};

/// A figure without series.
fn figure(title: &str, what: &str, x: Axis, y: Axis) -> Figure {
    Figure { title: title.to_owned(), text: what.to_owned(), x, y, series: vec![] }
}

/// An axis that begins at zero.
fn linear(name: &str, unit: &str) -> Axis {
    Axis::new(name, unit, Scale::Linear)
}

/// An axis on which decades are as wide as each other.
fn log(name: &str, unit: &str) -> Axis {
    Axis::new(name, unit, Scale::Log)
}

/// The points of a series, from two keys of each row; `None` of either leaves the row out.
fn points<'a>(
    rows: impl IntoIterator<Item = &'a Value>,
    x: impl Fn(&Value) -> Option<f64>,
    y: impl Fn(&Value) -> Option<f64>,
) -> Vec<(f64, f64)> {
    rows.into_iter().filter_map(|row| Some((x(row)?, y(row)?))).collect()
}

/// The numbers under a key.
fn of(key: &str) -> impl Fn(&Value) -> Option<f64> + '_ {
    move |row| number(row, key)
}

/// The shares under a key, in percent.
fn percents(key: &str) -> impl Fn(&Value) -> Option<f64> + '_ {
    move |row| number(row, key).map(|share| share * 100.0)
}

/// Each value of a key in the order of its first row, as a text.
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

/// A text or a number as a text.
fn shown(row: &Value, key: &str) -> String {
    match row.get(key) {
        Some(Value::String(text)) => tamed(text),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// The rows in which a key has this value.
fn with<'a>(rows: &'a [Value], key: &'a str, value: &'a str) -> impl Iterator<Item = &'a Value> + Clone {
    rows.iter().filter(move |row| shown(row, key) == value)
}

/// A time as `12us`, `1.5ms` or `3s` in microseconds.
fn micros(row: &Value, key: &str) -> Option<f64> {
    let shown = text(row, key);
    let split = shown.find(|c: char| c.is_alphabetic())?;
    let times = match &shown[split..] {
        "ns" => 1e-3,
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    shown[..split].parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number * times)
}

/// What was found, or a remark that it was not.
fn or_lacks<T>(found: Result<T, String>, drawn: &mut Drawn) -> Option<T> {
    found.map_err(|why| drawn.lacks(why)).ok()
}

/// Adds series in turn to a figure.
fn with_series(mut figure: Figure, series: impl IntoIterator<Item = Series>) -> Figure {
    figure.series.extend(series);
    figure
}

/// The colour of the palette for what has no counterpart here.
const GREY: usize = 6;
/// More values than any experiment sweeps.
const MOST_VALUES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_have_units() {
        let row =
            json!({ "a": "12us", "b": "1.5ms", "c": "2s", "d": "nonsense", "e": "µ", "f": 7, "g": "infs" });
        assert_eq!(["a", "b", "c"].map(|key| micros(&row, key)), [Some(12.0), Some(1_500.0), Some(2e6)]);
        assert_eq!(["d", "e", "f", "g", "h"].map(|key| micros(&row, key)), [None; 5]);
    }

    #[test]
    fn values_are_texts_in_their_order() {
        let rows = [json!({ "a": 5 }), json!({ "a": "x" }), json!({ "a": 5 }), json!(null)];
        assert_eq!(values(&rows, "a"), ["5", "x", ""]);
        assert_eq!(with(&rows, "a", "5").count(), 2);
    }
}
