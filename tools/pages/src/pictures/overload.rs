//! The picture of docs/overload.md: packets delivered by packets offered, of the poller and of loops that receive first.

use softtimers_trials::result::{Cell, Table};

use super::chart::{Chart, Line, Mark};
use super::{Files, number, table};

const DATA: &str = "overload-curve";

/// Draws the sweep: a row has the thousands of packets a second that are offered, and those that each receiver delivers.
pub(super) fn draw(files: &Files) -> Result<String, String> {
    Chart {
        title: "Packets delivered by packets offered, of softtimers' poller and of loops that receive first",
        up: "delivered, thousand packets/s",
        across: "offered, thousand packets/s",
        lines: lines(table(files, DATA, "sweep")?)?,
    }
    .draw()
}

fn lines(table: &Table) -> Result<Vec<Line>, String> {
    let names = table.columns.iter().skip(1);
    let mut lines: Vec<Line> = names
        .map(|name| Line {
            name: name.clone(),
            colour: if name.starts_with("softtimers") { "one" } else { "two" },
            mark: if name.ends_with("two stages") { Mark::Dashed } else { Mark::Solid },
            points: vec![(0.0, 0.0)],
        })
        .collect();
    for row in &table.rows {
        let offered = match row.first() {
            Some(Cell::Text(rate)) => rate.parse().ok(),
            _ => None,
        };
        let offered: f64 = offered.ok_or_else(|| format!("{DATA}: a row begins with a rate"))?;
        for (line, cell) in lines.iter_mut().zip(&row[1..]) {
            let delivered = number(cell).ok_or_else(|| format!("{DATA}: {} has a number", line.name))?;
            line.points.push((offered, delivered));
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of one rate, 100, with what two receivers deliver of it.
    fn table(delivered: [Cell; 2]) -> Table {
        let [one, other] = delivered;
        Table {
            columns: ["", "softtimers", "naive, two stages"].map(str::to_owned).into(),
            rows: vec![vec![Cell::Text("100".into()), one, other]],
            ..Table::default()
        }
    }

    #[test]
    fn each_receiver_is_a_line_from_zero() {
        let lines = lines(&table([Cell::Number(100.0), Cell::Number(20.0)])).unwrap();
        let [ours, naive] = &lines[..] else { panic!("two lines") };
        assert_eq!((ours.colour, ours.mark), ("one", Mark::Solid));
        assert_eq!((naive.colour, naive.mark), ("two", Mark::Dashed));
        assert_eq!(ours.points, [(0.0, 0.0), (100.0, 100.0)]);
        assert_eq!(naive.points, [(0.0, 0.0), (100.0, 20.0)]);
    }

    #[test]
    fn other_tables_are_refused() {
        let refused = |table| lines(&table).map(drop).unwrap_err();
        let mut words = table([Cell::Number(1.0), Cell::Text("many".into())]);
        assert!(refused(words.clone()).contains("naive, two stages has a number"));
        words.rows[0][0] = Cell::Nothing(());
        assert!(refused(words).contains("begins with a rate"));
    }
}
