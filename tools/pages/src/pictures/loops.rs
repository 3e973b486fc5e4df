//! The picture of docs/python.md: how late timers are by each event loop, from docs/data/python-loops.json.

use softtimers_trials::result::{Cell, Table};

use super::bars::{self, Bar, Panel};
use super::{Files, column, number, table};

const DATA: &str = "python-loops";
/// The panels: the first cell of their rows, and what these are.
const TIMER_PANELS: [(&str, &str); 2] =
    [("100 µs, alone", "a timer of 100 µs is late by"), ("1 ms, alone", "a timer of 1 ms is late by")];
const LATE: &str = "late, median, µs";
const OUR_LOOP: &str = "softtimers";

/// Draws a panel for each timer, a bar for each loop.
pub(super) fn draw(files: &Files) -> Result<String, String> {
    drawn(table(files, DATA, "timers")?)
}

fn drawn(table: &Table) -> Result<String, String> {
    let (who, late) = (column(table, "loop")?, column(table, LATE)?);
    let panels = TIMER_PANELS.map(|(cell, about)| {
        let rows =
            table.rows.iter().filter(|row| matches!(row.first(), Some(Cell::Text(text)) if text == cell));
        let bar = |row: &Vec<Cell>| {
            let (Cell::Text(name), Some(value)) = (&row[who], number(&row[late])) else { return None };
            let early = if value < 0.0 { " early" } else { "" };
            let label = format!("{:.0} µs{early}", value.abs());
            Some(Bar { name: name.clone(), value, label, is_ours: name == OUR_LOOP })
        };
        Panel { about: format!("{about} (median)"), bars: rows.filter_map(bar).collect() }
    });
    bars::draw("How late timers are by each event loop of Python", &panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_before_its_time_is_early() {
        let mut table = Table::new("timers", &[("", 0), ("loop", 0), (LATE, 1)]);
        for (timer, who, late) in [
            ("100 µs, alone", "softtimers", 11.0),
            ("100 µs, alone", "uvloop", -97.9),
            ("1 ms, alone", "default", 92.0),
        ] {
            table.row([timer.into(), who.into(), late.into()]);
        }
        let svg = drawn(&table).unwrap();
        assert!(svg.contains(">11 µs<") && svg.contains(">98 µs early<") && svg.contains(">92 µs<"), "{svg}");
        table.rows.pop();
        assert!(drawn(&table).unwrap_err().contains("1 ms"));
    }
}
