//! The picture of docs/forward.md: packets delivered by packets offered, of routers on one CPU, from
//! docs/data/routed.json.

use softtimers_trials::result::{Cell, Table};

use super::chart::{Chart, Line, Mark};
use super::{Files, column, number, table};

const DATA: &str = "routed";
/// The routers that are drawn, and how.
const ROUTERS: [(&str, &str, Mark); 5] = [
    ("kernel, ip_forward", "other", Mark::Dashed),
    ("forward, xdp-fast", "one", Mark::Solid),
    ("forward, tc", "one", Mark::Dashed),
    ("forward, xdp", "two", Mark::Solid),
    ("forward, packet", "two", Mark::Dashed),
];

/// Draws the sweep: a row has a router and a rate, the rate that was reached, and what was delivered of it.
pub(super) fn draw(files: &Files) -> Result<String, String> {
    Chart {
        title: "Packets delivered by packets offered, of routers on one CPU",
        up: "delivered, thousand packets/s",
        across: "offered, thousand packets/s",
        lines: lines(table(files, DATA, DATA)?)?,
    }
    .draw()
}

fn lines(table: &Table) -> Result<Vec<Line>, String> {
    let (offered, delivered) = (column(table, "offered kpps")?, column(table, "delivered kpps")?);
    let line = |(name, colour, mark): (&str, &'static str, Mark)| {
        let is_its = |row: &&Vec<Cell>| matches!(row.first(), Some(Cell::Text(text)) if text.rsplit_once(", ").is_some_and(|(router, _)| router == name));
        let mut points = vec![(0.0, 0.0)];
        for row in table.rows.iter().filter(is_its) {
            points.push(
                number(&row[offered])
                    .zip(number(&row[delivered]))
                    .ok_or_else(|| format!("{DATA}: a row of {name} has no rates"))?,
            );
        }
        if points.len() == 1 {
            return Err(format!("{DATA} has no row of {name}"));
        }
        Ok(Line { name: name.to_owned(), colour, mark, points })
    };
    ROUTERS.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_router_is_a_line_from_zero() {
        let mut table = Table::new(DATA, &[("", 0), ("offered kpps", 0), ("delivered kpps", 0)]);
        for (name, ..) in ROUTERS {
            table.row([format!("{name}, 100 kpps").into(), 100.0.into(), 99.0.into()]);
        }
        let drawn = lines(&table).unwrap();
        assert_eq!(drawn.len(), ROUTERS.len());
        assert_eq!(drawn[3].points, [(0.0, 0.0), (100.0, 99.0)], "xdp is not xdp-fast");
        table.rows.remove(0);
        assert_eq!(lines(&table).unwrap_err(), "routed has no row of kernel, ip_forward");
    }
}
