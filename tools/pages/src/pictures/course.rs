//! The pictures of docs/quinn.md: the course of a transfer, from docs/data/quinn-course.json.
//!
//! ```text
//!   window kB │   ╱╲__╱      a line for each sender,
//!     Mbit/s  │ ╱────        a panel for each column
//!      queue  │_│_│__
//!             └───────▶ ms
//! ```

use std::collections::BTreeMap;

use softtimers_trials::result::{Cell, Table};

use super::chart::{label, ticks};
use super::svg::Svg;
use super::{Files, column, table};

/// The columns that have a panel, and what is written there.
const PANELS: [(&str, &str); 3] =
    [("window kB", "window, kB"), ("Mbit/s", "rate, Mbit/s"), ("queue", "queue, packets")];

const LEFT: f64 = 48.0;
const RIGHT: f64 = 468.0;
const TOP: f64 = 56.0;
const PANEL: f64 = 140.0;
/// The height of a panel's lines; the rest is its name's.
const HIGH: f64 = 112.0;
const STYLES: [&str; 2] = ["one", "two dashed"];

/// Draws the transfers over the short queue.
pub(super) fn draw_short(files: &Files) -> Result<String, String> {
    drawn(table(files, "quinn-course", "course")?, "100 Mbit/s, 20 packets, 20 ms")
}

/// Draws those over the fast link.
pub(super) fn draw_fast(files: &Files) -> Result<String, String> {
    drawn(table(files, "quinn-course", "course")?, "300 Mbit/s, 30 packets, 20 ms")
}

/// Points of a line, one for each row.
type Line = Vec<(f64, f64)>;

fn drawn(table: &Table, path: &str) -> Result<String, String> {
    let lines: Vec<BTreeMap<String, Line>> =
        PANELS.iter().map(|(panel, _)| lines(table, path, panel)).collect::<Result<_, _>>()?;
    let wide = lines.iter().flat_map(BTreeMap::values).flatten().map(|point| point.0).fold(0.0, f64::max);
    if wide <= 0.0 {
        return Err(format!("no row has path = {path}"));
    }
    let bottom = TOP + PANEL * PANELS.len() as f64;
    let title = format!("{path}: window, rate and queue over time, a line for each sender");
    let mut svg = Svg::new(bottom + 28.0, &title);
    svg.text(12.0, 20.0, "", path);
    for (place, name) in lines[0].keys().enumerate() {
        let left = 280.0 + 100.0 * place as f64;
        svg.line(STYLES[place % STYLES.len()], [(left, 16.0), (left + 26.0, 16.0)]);
        svg.text(left + 34.0, 20.0, "small", name);
    }
    for (place, ((_, name), lines)) in PANELS.iter().zip(&lines).enumerate() {
        draw(&mut svg, name, lines, wide, TOP + PANEL * place as f64);
    }
    for tick in ticks(wide) {
        let x = LEFT + (RIGHT - LEFT) * tick / wide;
        svg.text(x, bottom - 6.0, "small middle", &label(tick));
    }
    svg.text(RIGHT, bottom + 18.0, "end", "time, ms");
    Ok(svg.end())
}

/// The lines of a panel, by sender.
fn lines(table: &Table, path: &str, panel: &str) -> Result<BTreeMap<String, Line>, String> {
    let column = |name: &str| column(table, name);
    let (only, by, over, of) = (column("path")?, column("quinn")?, column("ms")?, column(panel)?);
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    for row in &table.rows {
        match (&row[only], &row[by], &row[over], &row[of]) {
            (Cell::Text(is), Cell::Text(name), &Cell::Number(x), &Cell::Number(y)) if is == path => {
                lines.entry(name.clone()).or_default().push((x, y));
            }
            _ => {}
        }
    }
    Ok(lines)
}

/// Draws a panel from `top` down: its name, its scale and its lines.
fn draw(svg: &mut Svg, name: &str, lines: &BTreeMap<String, Line>, wide: f64, top: f64) {
    let most = lines.values().flatten().map(|point| point.1).fold(1.0, f64::max);
    let bottom = top + HIGH;
    let across = |x: f64| LEFT + (RIGHT - LEFT) * x / wide;
    let down = |y: f64| bottom - HIGH * y / most;
    svg.text(12.0, top - 7.0, "small", name);
    for tick in ticks(most) {
        svg.path("grid", &format!("M{LEFT},{:.1}H{RIGHT}", down(tick)));
        svg.text(LEFT - 8.0, down(tick) + 4.0, "small end", &label(tick));
    }
    for (number, line) in lines.values().enumerate() {
        let class = format!("{} thin", STYLES[number % STYLES.len()]);
        svg.line(&class, line.iter().map(|&(x, y)| (across(x), down(y))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "100 Mbit/s, 20 packets, 20 ms";

    fn table(path: &str) -> Table {
        let columns = [("path", 0), ("quinn", 0), ("ms", 0), ("window kB", 0), ("Mbit/s", 1), ("queue", 0)];
        let mut table = Table::new("course", &columns);
        for (name, window) in [("stock", 100.0), ("even", 50.0)] {
            for place in 0..3 {
                let millis = f64::from(place * 10);
                table.row([path.into(), name.into(), millis.into(), window.into(), 9.5.into(), 3.0.into()]);
            }
        }
        table
    }

    #[test]
    fn each_panel_has_a_line_for_each_sender() {
        let svg = drawn(&table(PATH), PATH).unwrap();
        assert_eq!(svg.matches("class=\"one thin\"").count(), 3, "{svg}");
        assert_eq!(svg.matches("class=\"two dashed thin\"").count(), 3, "{svg}");
        assert!(svg.contains(">window, kB<") && svg.contains(">stock<") && svg.contains(">20<"), "{svg}");
        // The largest window is at the top of its panel, half of it in the middle.
        let (top, middle) = (TOP, TOP + HIGH / 2.0);
        assert!(
            svg.contains(&format!("M{LEFT:.1},{top:.1}")) && svg.contains(&format!("M{LEFT:.1},{middle:.1}"))
        );
    }

    #[test]
    fn a_picture_of_nothing_is_refused() {
        assert!(drawn(&table("another path"), PATH).unwrap_err().contains("no row has path"));
        assert!(
            drawn(&Table::new("course", &[("path", 0)]), PATH).unwrap_err().contains("no column `quinn`")
        );
    }
}
