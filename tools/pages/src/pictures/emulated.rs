//! The picture of `wan`: how far round trips and rates are off what was asked for, beside Toxiproxy, from
//! docs/data/emulators.json.

use softtimers_trials::result::{Cell, Table};

use super::bars::{self, Bar, Panel};
use super::{Files, column, number, table};

const DATA: &str = "emulators";
/// The panels: a column, what it is, its unit.
const PANELS: [(&str, &str, &str); 3] = [
    ("RTT 20 ms: p50 off by ms", "a round trip of 20 ms takes longer by", " ms"),
    ("100 Mbit/s off by %", "a rate of 100 Mbit/s is off by", "%"),
    ("1 Gbit/s off by %", "a rate of 1 Gbit/s is off by", "%"),
];
const OURS: &str = "wan";

/// Draws a panel for each column, a bar for each emulator that has the figure.
pub(super) fn draw(files: &Files) -> Result<String, String> {
    drawn(table(files, DATA, DATA)?)
}

fn drawn(table: &Table) -> Result<String, String> {
    let panels = PANELS.map(|(name, about, unit)| {
        Ok(Panel { about: about.to_owned(), bars: emulators(table, name, unit)? })
    });
    let panels = panels.into_iter().collect::<Result<Vec<_>, String>>()?;
    bars::draw("How far emulated paths are off what was asked for: wan and Toxiproxy", &panels)
}

/// The emulators that have a figure in this column.
fn emulators(table: &Table, name: &str, unit: &str) -> Result<Vec<Bar>, String> {
    let place = column(table, name)?;
    let bar = |row: &Vec<Cell>| {
        let (Some(Cell::Text(who)), Some(value)) = (row.first(), row.get(place).and_then(number)) else {
            return None;
        };
        let label = format!("{value:.2}{unit}");
        (!who.starts_with("none")).then(|| Bar {
            name: who.clone(),
            value,
            label,
            is_ours: who.starts_with(OURS),
        })
    };
    Ok(table.rows.iter().filter_map(bar).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_alone_has_no_bar() {
        let columns: Vec<(&str, usize)> =
            std::iter::once("").chain(PANELS.map(|panel| panel.0)).map(|name| (name, 0)).collect();
        let mut table = Table::new(DATA, &columns);
        table.row(["none: loopback".into(), 9.0.into(), 9.0.into(), 9.0.into()]);
        table.row(["wan -- CMD".into(), 0.5.into(), 1.0.into(), 1.0.into()]);
        table.row(["Toxiproxy".into(), 1.0.into(), 2.0.into(), Cell::Nothing(())]);
        let svg = drawn(&table).unwrap();
        assert!(svg.contains(">0.50 ms<") && !svg.contains("loopback"), "{svg}");
        assert!(drawn(&Table::default()).unwrap_err().contains("no column"));
    }
}
