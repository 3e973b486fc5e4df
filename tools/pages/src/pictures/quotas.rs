//! The picture of papers/docs/server.md: what a server gains that polls its interface, by the quota of a poll.

use softtimers_trials::result::{Cell, Table};

use super::chart::{Chart, Line, Mark};
use super::{Files, column, number, table};

const DATA: &str = "server-napi";
/// The tables, and what their requests are.
const WORKLOADS: [(&str, &str, &str); 3] = [
    ("napi-kept", "connections kept", "one"),
    ("napi-kept-work", "kept, 10 µs of work", "two"),
    ("napi-closed", "a connection each", "three"),
];

/// Draws the requests a second by quota, of those of the same server woken up by interrupts.
pub(super) fn draw(files: &Files) -> Result<String, String> {
    let mut lines = Vec::new();
    for (key, name, colour) in WORKLOADS {
        let points = points(table(files, DATA, key)?)?;
        lines.push(Line { name: name.to_owned(), colour, mark: Mark::Joined, points });
    }
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.0).fold(0.0, f64::max);
    let (name, points) = ("interrupts: epoll".to_owned(), vec![(0.0, 1.0), (most, 1.0)]);
    lines.push(Line { name, colour: "other", mark: Mark::Dashed, points });
    Chart {
        title: "Requests a second of a server that polls its interface, by the quota of a poll; with interrupts it is 1",
        up: "requests/s, as a share of those with interrupts",
        across: "quota, packets a poll",
        lines,
    }
    .draw()
}

/// The rows of the polled server: quota, and share of the plain server's throughput.
fn points(table: &Table) -> Result<Vec<(f64, f64)>, String> {
    let against = column(table, "against epoll")?;
    let mut points = Vec::new();
    for row in &table.rows {
        let Some(Cell::Text(name)) = row.first() else { continue };
        let Some(quota) = name.strip_prefix("NAPI polled, quota ") else { continue };
        let quota = quota.parse().map_err(|_| format!("`{name}`: a quota is a number"))?;
        let share = row.get(against).and_then(number).ok_or_else(|| format!("`{name}` has no share"))?;
        points.push((quota, share));
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> Table {
        let mut table = Table::new("napi-kept", &[("", 0), ("against epoll", 3)]);
        table.row([Cell::Text("epoll".into()), 1.0.into()]);
        table.row([Cell::Text(name.into()), 1.25.into()]);
        table
    }

    #[test]
    fn the_polled_rows_are_points_and_others_are_not() {
        assert_eq!(points(&table("NAPI polled, quota 5")), Ok(vec![(5.0, 1.25)]));
        assert_eq!(points(&table("epoll, never asleep")), Ok(vec![]));
        assert!(points(&table("NAPI polled, quota many")).unwrap_err().contains("a quota is a number"));
        assert!(points(&Table::new("napi-kept", &[("", 0)])).unwrap_err().contains("no column"));
    }
}
