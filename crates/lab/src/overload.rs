//! The figure of docs/overload.md: packets delivered by packets offered, from docs/data/overload-curve.json.
//!
//! ```text
//!   delivered │   ╱▔▔▔▔▔▔▔▔▔▔▔▔  softtimers
//!             │  ╱
//!             │ ╱ ╲________       naive
//!             └──────────────▶ offered
//! ```

use std::fmt::Write as _;

use softtimers_measure::result::{Cell, Table};

/// The file of docs/data, and the key of its table.
pub(crate) const DATA: &str = "overload-curve";
pub(crate) const TABLE: &str = "sweep";
/// The path of the picture, from the root.
pub(crate) const PICTURE: &str = "docs/overload.svg";

const LEFT: f64 = 52.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 276.0;
/// The smallest distance between two labels.
const APART: f64 = 16.0;

const STYLE: &str = "\
.ground{fill:#fff}text{fill:#1f2328;font:13px system-ui,sans-serif}.small{font-size:12px}.axis{stroke:#d1d9e0;stroke-width:1}path{fill:none;stroke-width:2}\
.ours{stroke:#0969da}.others{stroke:#9a6700}.second{stroke-dasharray:6 4}\
@media(prefers-color-scheme:dark){.ground{fill:#0d1117}text{fill:#f0f6fc}.axis{stroke:#3d444d}.ours{stroke:#4493f8}.others{stroke:#d29922}}";

/// A receiver, and its points: thousands of packets a second, offered and delivered.
struct Curve<'a> {
    name: &'a str,
    points: Vec<(f64, f64)>,
}

/// Draws the table: a row has the thousands of packets a second offered, and those that each receiver delivers.
///
/// # Errors
/// If a row is not of that form, or nothing was delivered.
pub(crate) fn draw(table: &Table) -> Result<String, String> {
    let curves = curves(table)?;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let offered = points().map(|point| point.0).fold(0.0, f64::max);
    let delivered = points().map(|point| point.1).fold(0.0, f64::max);
    if offered <= 0.0 || delivered <= 0.0 {
        return Err(format!("{DATA}: nothing was delivered"));
    }
    let x = |offer: f64| LEFT + (RIGHT - LEFT) * offer / offered;
    let y = |rate: f64| BOTTOM - (BOTTOM - TOP) * rate / (delivered * 1.08);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 320\" role=\"img\">\n<style>{STYLE}</style>\n\
         <title>Packets delivered by packets offered, of softtimers' poller and of loops that receive first</title>\n\
         <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n"
    );
    text(&mut svg, 12.0, 22.0, "", "delivered, thousand packets/s");
    text(&mut svg, RIGHT - 60.0, BOTTOM + 36.0, "", "offered, thousand packets/s");
    scale(&mut svg, offered, |value| (x(value), BOTTOM + 18.0, format!("M{:.1},{TOP}V{BOTTOM}", x(value))));
    scale(&mut svg, delivered, |value| (26.0, y(value) + 4.0, format!("M{LEFT},{:.1}H{RIGHT}", y(value))));
    for (curve, label) in curves.iter().zip(labels(&curves, y)) {
        let class = class(curve.name);
        let path: Vec<String> =
            curve.points.iter().map(|&(offer, rate)| format!("{:.1},{:.1}", x(offer), y(rate))).collect();
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"M{}\"/>", path.join("L"));
        text(&mut svg, RIGHT + 8.0, label, "small", curve.name);
    }
    Ok(svg + "</svg>\n")
}

fn curves(table: &Table) -> Result<Vec<Curve<'_>>, String> {
    let names = table.columns.iter().skip(1);
    let mut curves: Vec<Curve<'_>> = names.map(|name| Curve { name, points: vec![(0.0, 0.0)] }).collect();
    for row in &table.rows {
        let offered = match row.first() {
            Some(Cell::Text(rate)) => rate.parse().ok(),
            _ => None,
        };
        let offered: f64 = offered.ok_or_else(|| format!("{DATA}: a row begins with a rate"))?;
        for (curve, cell) in curves.iter_mut().zip(&row[1..]) {
            let delivered = number(cell).ok_or_else(|| format!("{DATA}: {} has a number", curve.name))?;
            curve.points.push((offered, delivered));
        }
    }
    Ok(curves)
}

fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Number(value) => Some(*value),
        Cell::Estimate(estimate) => Some(estimate.median),
        _ => None,
    }
}

/// Returns the heights of the labels: at the end of each curve, pushed apart where two would overlap.
fn labels(curves: &[Curve<'_>], y: impl Fn(f64) -> f64) -> Vec<f64> {
    let ends = curves.iter().map(|curve| y(curve.points.last().map_or(0.0, |point| point.1)) + 4.0);
    let mut order: Vec<(usize, f64)> = ends.enumerate().collect();
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut heights = vec![0.0; curves.len()];
    let mut last = f64::NEG_INFINITY;
    for (curve, end) in order {
        last = end.max(last + APART);
        heights[curve] = last;
    }
    heights
}

/// Draws the lines and numbers of one axis, up to `most`: at five or fewer round values.
fn scale(svg: &mut String, most: f64, place: impl Fn(f64) -> (f64, f64, String)) {
    let step =
        [10.0, 20.0, 50.0, 100.0, 200.0, 500.0].into_iter().find(|step| most / step <= 6.0).unwrap_or(most);
    let mut value = 0.0;
    while value <= most {
        let (x, y, path) = place(value);
        let _ = writeln!(svg, "<path class=\"axis\" d=\"{path}\"/>");
        text(svg, x - 8.0, y, "small", &format!("{value:.0}"));
        value += step;
    }
}

fn class(name: &str) -> String {
    let whose = if name.starts_with("softtimers") { "ours" } else { "others" };
    if name.ends_with("two stages") { format!("{whose} second") } else { whose.to_owned() }
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\"{class}>{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a table of one rate, 100, with the rates that two receivers deliver.
    fn table(names: [&str; 2], delivered: [f64; 2]) -> Table {
        let [one, other] = delivered.map(Cell::Number);
        Table {
            columns: ["", names[0], names[1]].map(str::to_owned).into(),
            rows: vec![vec![Cell::Text("100".into()), one, other]],
            ..Table::default()
        }
    }

    #[test]
    fn each_receiver_is_a_line_from_zero() {
        let svg = draw(&table(["softtimers", "naive, two stages"], [100.0, 0.0])).unwrap();
        assert!(svg.contains("class=\"ours\" d=\"M52.0,276.0L560.0,64.9\""), "{svg}");
        assert!(svg.contains("class=\"others second\" d=\"M52.0,276.0L560.0,276.0\""), "{svg}");
    }

    #[test]
    fn labels_that_would_overlap_are_apart() {
        let svg = draw(&table(["softtimers", "naive"], [100.0, 99.0])).unwrap();
        assert!(svg.contains("y=\"68.9\" class=\"small\">softtimers"), "{svg}");
        assert!(svg.contains("y=\"84.9\" class=\"small\">naive"), "{svg}");
    }

    #[test]
    fn other_tables_are_refused() {
        assert!(draw(&Table::default()).unwrap_err().contains("nothing was delivered"));
        let mut words = table(["softtimers", "naive"], [1.0, 1.0]);
        words.rows[0][2] = Cell::Text("many".into());
        assert!(draw(&words).unwrap_err().contains("naive has a number"));
        words.rows[0][0] = Cell::Nothing(());
        assert!(draw(&words).unwrap_err().contains("begins with a rate"));
    }
}
