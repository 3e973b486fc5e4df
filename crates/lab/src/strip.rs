//! The figure of the README: packets as they arrived, a stroke for each, from docs/data/micro-bursts.json.
//!
//! ```text
//!   soft      | | | | | | | | |        a row for each method, on one scale of time
//!   timerfd   |     |     |     |
//! ```
//!
//! It has its own background in both colour schemes: a page that shows it may follow another scheme than the reader's
//! system.

use std::fmt::Write as _;

use softtimers_measure::result::{Cell, Table};

/// The file of docs/data, and the key of its table.
pub(crate) const DATA: &str = "micro-bursts";
/// The path of the picture, from the root.
pub(crate) const PICTURE: &str = "docs/micro-bursts.svg";

const SPAN_MICROS: f64 = 2_000.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 670.0;
const TOP: f64 = 44.0;
const ROW: f64 = 36.0;
const STROKE: f64 = 24.0;

const STYLE: &str = "\
.ground{fill:#fff}text{fill:#1f2328;font:13px system-ui,sans-serif}.small{font-size:12px}.ours{stroke:#0969da}.others{stroke:#59636e}\
.axis{stroke:#d1d9e0}path{fill:none;stroke-width:1.6}\
@media(prefers-color-scheme:dark){.ground{fill:#0d1117}text{fill:#f0f6fc}.ours{stroke:#4493f8}.others{stroke:#9198a1}.axis{stroke:#3d444d}}";

/// Draws the table: a row has a method, its explanation, its share of the rate, and the gaps between its packets in
/// nanoseconds.
///
/// # Errors
/// If a row is not of that form.
pub(crate) fn draw(table: &Table) -> Result<String, String> {
    let bottom = TOP + ROW * table.rows.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 {}\" role=\"img\">\n<style>{STYLE}</style>\n",
        bottom + 30.0
    );
    svg += "<title>Two milliseconds of packets by four methods; one is due every 40 µs</title>\n";
    svg += "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n";
    text(&mut svg, 12.0, 22.0, "", "2 ms of packets as they arrive; one is due every 40 µs");
    text(&mut svg, RIGHT + 10.0, 22.0, "small", "of the rate");
    for step in 0..=4 {
        let (x, micros) = (place(500.0 * f64::from(step)), 500 * step);
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{x:.1},{:.0}V{bottom:.0}\"/>", TOP - 6.0);
        text(&mut svg, x - 12.0, bottom + 18.0, "small", &format!("{micros} µs"));
    }
    for (row, at) in table.rows.iter().zip(0..) {
        let [Cell::Text(method), Cell::Text(about), Cell::Text(share), Cell::Text(gaps)] = &row[..] else {
            return Err(format!("{DATA}: a row is METHOD, EXPLANATION, SHARE, GAPS"));
        };
        let times =
            times(gaps).ok_or_else(|| format!("{DATA}: the gaps of {method} are whole nanoseconds"))?;
        let y = TOP + ROW * f64::from(at);
        let class = if method == "soft" { "ours" } else { "others" };
        let strokes: String =
            times.iter().map(|&micros| format!("M{:.1},{y:.0}v{STROKE}", place(micros))).collect();
        text(&mut svg, 12.0, y + 11.0, "", method);
        text(&mut svg, 12.0, y + 25.0, "small", about);
        text(&mut svg, RIGHT + 10.0, y + 17.0, "", share);
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"{strokes}\"/>");
    }
    Ok(svg + "</svg>\n")
}

/// Returns the arrivals within the picture, in microseconds from the first one.
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

fn text(svg: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\"{class}>{words}</text>");
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
        let svg = draw(&table("40000 960000 1000000 1")).unwrap();
        assert!(svg.contains("d=\"M190.0,44v24M199.6,44v24M430.0,44v24M670.0,44v24\""), "{svg}");
        assert!(svg.contains(">99.8%<"), "{svg}");
    }

    #[test]
    fn a_row_of_another_form_is_refused() {
        assert!(draw(&table("40 µs")).unwrap_err().contains("whole nanoseconds"));
        assert!(draw(&Table { rows: vec![vec![]], ..Table::default() }).unwrap_err().contains("METHOD"));
    }
}
