//! The pictures of the pages: what each shows, and who draws it from docs/data.
//!
//! ```text
//!   docs/data/NAME.json ──▶ svg, chart ──▶ docs/NAME.svg
//! ```

mod bars;
pub mod chart;
mod course;
mod emulated;
pub(crate) mod kept;
mod loops;
mod overload;
mod quotas;
mod routers;
mod slack;
mod strip;
mod svg;
mod ticks;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use softtimers_trials::result::{Cell, Results, Table};

/// The files of docs/data by name.
pub type Files = BTreeMap<String, Results>;

type Draw = fn(&Files) -> Result<String, String>;

/// The pictures, from the root, and who draws them.
const PICTURES: [(&str, Draw); 11] = [
    ("docs/kept.svg", kept::draw),
    ("docs/micro-bursts.svg", strip::draw),
    ("docs/overload.svg", overload::draw),
    ("docs/wan.svg", emulated::draw),
    ("docs/forward.svg", routers::draw),
    ("docs/python.svg", loops::draw),
    ("papers/docs/server.svg", quotas::draw),
    ("docs/tokio-slack.svg", slack::draw),
    ("docs/quinn-100.svg", course::draw_short),
    ("docs/quinn-300.svg", course::draw_fast),
    ("papers/docs/noise.svg", ticks::draw),
];

/// Finds the pictures that are not those of the files, and draws what they should be.
///
/// # Errors
/// If a file lacks what a picture shows.
pub(crate) fn stale(root: &Path, files: &Files) -> Result<BTreeMap<String, String>, String> {
    let mut stale = BTreeMap::new();
    for (picture, draw) in PICTURES {
        let drawn = draw(files).map_err(|error| format!("{picture}: {error}"))?;
        if fs::read_to_string(root.join(picture)).ok().as_ref() != Some(&drawn) {
            stale.insert(picture.to_owned(), drawn);
        }
    }
    Ok(stale)
}

/// The table `key` of docs/data/`file`.json.
fn table<'a>(files: &'a Files, file: &str, key: &str) -> Result<&'a Table, String> {
    let table = files.get(file).and_then(|results| results.table(key));
    table.ok_or_else(|| format!("docs/data/{file}.json has no table `{key}`"))
}

/// The place of a column.
fn column(table: &Table, name: &str) -> Result<usize, String> {
    let place = table.columns.iter().position(|column| column == name);
    place.ok_or_else(|| format!("no column `{name}`"))
}

/// The number of a cell, the median if it is of rounds.
fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Number(value) => Some(*value),
        Cell::Estimate(estimate) => Some(estimate.median),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_lacks_is_named() {
        let error = stale(Path::new("."), &Files::new()).unwrap_err();
        assert_eq!(error, "docs/kept.svg: docs/data/send.json has no table `kept-1`");
        assert_eq!(column(&Table::default(), "ns").unwrap_err(), "no column `ns`");
    }
}
