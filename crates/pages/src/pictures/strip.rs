//! The picture of the README: packets as they arrived, a stroke for each, from docs/data/micro-bursts.json.
//!
//! ```text
//!   soft softtimers           99.8%
//!   | | | | | | | | | | | | | | | |     a row for each method, on one scale of time
//!   timerfd                   29.8%
//!   |     |     |     |     |     |
//! ```

use softtimers_trials::result::{Cell, Table};

use super::svg::Svg;
use super::{Files, table};

const DATA: &str = "micro-bursts";

const SPAN_MICROS: f64 = 2_000.0;
const LEFT: f64 = 12.0;
const RIGHT: f64 = 468.0;
const TOP: f64 = 40.0;
const ROW: f64 = 56.0;
/// From the top of a row to its strokes.
const WORDS: f64 = 22.0;
const STROKE: f64 = 22.0;

/// Draws the packets: a row has a method, its explanation, its share of the rate, and the gaps between its packets in
/// nanoseconds.
pub(super) fn draw(files: &Files) -> Result<String, String> {
    drawn(table(files, DATA, DATA)?)
}

fn drawn(table: &Table) -> Result<String, String> {
    let bottom = TOP + ROW * table.rows.len() as f64;
    let mut svg =
        Svg::new(bottom + 24.0, "Two milliseconds of packets by four methods; one is due every 40 µs");
    svg.text(LEFT, 20.0, "", "2 ms of packets; one is due every 40 µs");
    svg.text(RIGHT, 20.0, "small end", "of the rate");
    for step in 0..=4 {
        let (x, micros) = (place(500.0 * f64::from(step)), 500 * step);
        let (at, class) = match step {
            0 => (x, "small"),
            4 => (x, "small end"),
            _ => (x, "small middle"),
        };
        svg.path("grid", &format!("M{x:.1},{TOP:.0}V{bottom:.0}"));
        svg.text(at, bottom + 17.0, class, &format!("{micros} µs"));
    }
    for (row, at) in table.rows.iter().zip(0..) {
        let [Cell::Text(method), Cell::Text(about), Cell::Text(share), Cell::Text(gaps)] = &row[..] else {
            return Err(format!("{DATA}: a row is METHOD, EXPLANATION, SHARE, GAPS"));
        };
        let times =
            times(gaps).ok_or_else(|| format!("{DATA}: the gaps of {method} are whole nanoseconds"))?;
        let top = TOP + ROW * f64::from(at);
        let y = top + WORDS;
        let class = if method == "soft" { "one" } else { "other" };
        let strokes: String =
            times.iter().map(|&micros| format!("M{:.1},{y:.0}v{STROKE}", place(micros))).collect();
        svg.text(LEFT, top + 16.0, "head", method);
        svg.text(LEFT + 76.0, top + 16.0, "small", about);
        svg.text(RIGHT, top + 16.0, "end", share);
        svg.path(&format!("{class} thin"), &strokes);
    }
    Ok(svg.end())
}

/// The arrivals within the picture, in microseconds from the first one.
fn times(gaps: &str) -> Option<Vec<f64>> {
    let (mut now, mut times) = (0.0, vec![0.0]);
    for gap in gaps.split(' ') {
        now += gap.parse::<u64>().ok()? as f64 / 1e3;
        times.push(now);
    }
    times.retain(|&time| time <= SPAN_MICROS);
    Some(times)
}

fn place(micros: f64) -> f64 {
    LEFT + (RIGHT - LEFT) * micros / SPAN_MICROS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(gaps: &str) -> Table {
        let cells = ["soft", "softtimers", "99.8%", gaps].map(|cell| Cell::Text(cell.into()));
        Table { rows: vec![cells.into()], ..Table::default() }
    }

    #[test]
    fn each_packet_within_the_span_is_a_stroke() {
        let svg = drawn(&table("40000 960000 1000000 1")).unwrap();
        assert!(svg.contains("d=\"M12.0,62v22M21.1,62v22M240.0,62v22M468.0,62v22\""), "{svg}");
        assert!(svg.contains(">99.8%<"), "{svg}");
    }

    #[test]
    fn a_row_of_another_form_is_refused() {
        assert!(drawn(&table("40 µs")).unwrap_err().contains("whole nanoseconds"));
        assert!(drawn(&Table { rows: vec![vec![]], ..Table::default() }).unwrap_err().contains("METHOD"));
    }
}
