//! Packets as they arrived, a stroke for each, from docs/data/micro-bursts.json; the shares of the rate are those of
//! [`kept`](super::kept), so that no two pictures differ.
//!
//! ```text
//!   soft softtimers           99.8%
//!   | | | | | | | | | | | | | | | |     a row for each method, on one scale of time
//!   timerfd                   29.8%
//!   |     |     |     |     |     |
//! ```

use softtimers_trials::result::{Cell, Table};

use super::kept::{self, RATE};
use super::svg::Svg;
use super::{Files, table};

const DATA: &str = "micro-bursts";
/// The requests in a row of the loop that sends them.
const BATCH: u32 = 16;
/// How far the share of the few packets drawn may be from that of the measured turns.
const FAR: f64 = 0.2;

const SPAN_MICROS: f64 = 2_000.0;
const LEFT: f64 = 12.0;
const RIGHT: f64 = 468.0;
const TOP: f64 = 40.0;
const ROW: f64 = 56.0;
/// From the top of a row to its strokes.
const WORDS: f64 = 22.0;
const STROKE: f64 = 22.0;

/// Draws the packets: a row has a method, its explanation, and the gaps between its packets in nanoseconds.
pub(super) fn draw(files: &Files) -> Result<String, String> {
    drawn(table(files, DATA, DATA)?, |method| kept::share(files, BATCH, method))
}

fn drawn(table: &Table, share: impl Fn(&str) -> Result<f64, String>) -> Result<String, String> {
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
        let [Cell::Text(method), Cell::Text(about), Cell::Text(gaps)] = &row[..] else {
            return Err(format!("{DATA}: a row is METHOD, EXPLANATION, GAPS"));
        };
        let (times, own) =
            times(gaps).ok_or_else(|| format!("{DATA}: the gaps of {method} are whole nanoseconds"))?;
        let share = share(method)?;
        if (own - share).abs() > FAR {
            return Err(format!("{DATA}: {method} keeps {own:.3} of the rate, and {share:.3} in the table"));
        }
        let top = TOP + ROW * f64::from(at);
        let y = top + WORDS;
        let class = if method == "soft" { "one" } else { "other" };
        let strokes: String =
            times.iter().map(|&micros| format!("M{:.1},{y:.0}v{STROKE}", place(micros))).collect();
        svg.text(LEFT, top + 16.0, "head", method);
        svg.text(LEFT + 76.0, top + 16.0, "small", about);
        svg.text(RIGHT, top + 16.0, "end", &format!("{:.1}%", share * 100.0));
        svg.path(&format!("{class} thin"), &strokes);
    }
    Ok(svg.end())
}

/// The arrivals within the picture, in microseconds from the first one, and the share of the rate that all gaps keep.
fn times(gaps: &str) -> Option<(Vec<f64>, f64)> {
    let (mut now, mut times) = (0.0, vec![0.0]);
    for gap in gaps.split(' ') {
        now += gap.parse::<u64>().ok()? as f64 / 1e3;
        times.push(now);
    }
    let share = (times.len() - 1) as f64 / (now / 1e6) / RATE;
    times.retain(|&time| time <= SPAN_MICROS);
    Some((times, share))
}

fn place(micros: f64) -> f64 {
    LEFT + (RIGHT - LEFT) * micros / SPAN_MICROS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn_of(gaps: &str) -> Result<String, String> {
        let cells = ["soft", "softtimers", gaps].map(|cell| Cell::Text(cell.into()));
        drawn(&Table { rows: vec![cells.into()], ..Table::default() }, |_| Ok(0.998))
    }

    #[test]
    fn each_packet_within_the_span_is_a_stroke() {
        let even = vec!["40000"; 60].join(" ");
        let svg = drawn_of(&even).unwrap();
        assert!(
            svg.contains("d=\"M12.0,62v22M21.1,62v22M30.2,62v22") && svg.contains("M468.0,62v22\""),
            "{svg}"
        );
        assert!(svg.contains(">99.8%<"), "{svg}");
    }

    #[test]
    fn packets_that_contradict_the_table_are_refused() {
        let error = drawn_of("80000 80000").unwrap_err();
        assert!(error.contains("soft keeps 0.500 of the rate, and 0.998 in the table"), "{error}");
    }

    #[test]
    fn a_row_of_another_form_is_refused() {
        assert!(drawn_of("40 µs").unwrap_err().contains("whole nanoseconds"));
        let empty = Table { rows: vec![vec![]], ..Table::default() };
        assert!(drawn(&empty, |_| Ok(1.0)).unwrap_err().contains("METHOD"));
    }
}
