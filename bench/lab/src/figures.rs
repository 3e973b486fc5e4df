//! Figures of the objects that programs print: selection and units.

use serde_json::Value;
use softtimers_trials::paired::{Measured, Round};
use softtimers_trials::result::Table;

/// A figure: its name, its decimals, its key in the object with dots for nesting, and a factor. A figure without a key
/// is set by the caller.
pub type Figure = (&'static str, usize, &'static str, f64);

/// Returns the number at a key.
pub fn at(found: &Value, key: &str) -> Option<f64> {
    key.split('.').try_fold(found, |value, part| value.get(part))?.as_f64()
}

/// Records the figures that the object has.
pub fn put(round: &mut Round, row: &str, found: &Value, figures: &[Figure]) {
    for (name, _, key, factor) in figures {
        round.put(row, name, at(found, key).map(|figure| figure * factor));
    }
}

/// Returns the table of these rows and figures.
pub fn table<R: ToString>(
    key: &str,
    measured: &Measured,
    rows: impl IntoIterator<Item = R>,
    figures: &[Figure],
) -> Table {
    let columns: Vec<(&str, usize)> = figures.iter().map(|(name, decimals, ..)| (*name, *decimals)).collect();
    Table::of(key, measured, rows, &columns)
}
