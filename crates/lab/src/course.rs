//! The figures of docs/quinn.md: the course of a transfer, from docs/data/quinn-course.json.
//!
//! ```text
//!   window kB │   ╱╲__╱      a line for each sender,
//!     Mbit/s  │ ╱────        a panel for each column
//!      queue  │_│_│__
//!             └───────▶ ms
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use softtimers_measure::result::{Cell, Table};

/// The file of docs/data, and the key of its table.
pub(crate) const DATA: &str = "quinn-course";
pub(crate) const TABLE: &str = "course";
/// The path of the picture, from the root.
pub(crate) const SHORT: &str = "docs/quinn-100.svg";
pub(crate) const FAST: &str = "docs/quinn-300.svg";

const PANELS: [&str; 3] = ["window kB", "Mbit/s", "queue"];

/// Draws the transfers over the short queue.
pub(crate) fn draw_short(table: &Table) -> Result<String, String> {
    drawn(table, "100 Mbit/s, 20 packets, 20 ms")
}

/// Draws those over the fast link.
pub(crate) fn draw_fast(table: &Table) -> Result<String, String> {
    drawn(table, "300 Mbit/s, 30 packets, 20 ms")
}

/// Points of a line, one for each row.
type Line = Vec<(f64, f64)>;

fn drawn(table: &Table, path: &str) -> Result<String, String> {
    let lines: Vec<BTreeMap<String, Line>> =
        PANELS.iter().map(|panel| lines(table, path, panel)).collect::<Result<_, _>>()?;
    let wide = lines.iter().flat_map(BTreeMap::values).flatten().map(|point| point.0).fold(0.0, f64::max);
    if wide <= 0.0 {
        return Err(format!("no row has path = {path}"));
    }
    let height = TOP + PANEL * PANELS.len() as f64 + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n<title>{path}</title>\n\
         <desc>{} over milliseconds, a line for each sender.</desc>\n<style>{STYLE}</style>\n",
        PANELS.join(", ")
    );
    let mut text = |x: f64, y: f64, class: &str, words: &str| {
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{words}</text>");
    };
    text(LEFT, 16.0, "", path);
    for (place, name) in lines[0].keys().enumerate() {
        text(WIDTH - RIGHT, 16.0 + 14.0 * place as f64, &format!("end t{}", place % COLOURS), name);
    }
    for (place, (panel, lines)) in PANELS.iter().zip(&lines).enumerate() {
        draw(&mut svg, panel, lines, wide, TOP + PANEL * place as f64);
    }
    let y = height - 6.0;
    for tick in ticks(wide) {
        let x = LEFT + (WIDTH - LEFT - RIGHT) * tick / wide;
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" class=\"middle\">{tick}</text>");
    }
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{y}\" class=\"end\">ms</text>\n</svg>", LEFT - 8.0);
    Ok(svg)
}

/// Returns the lines of a panel, by sender.
fn lines(table: &Table, path: &str, panel: &str) -> Result<BTreeMap<String, Line>, String> {
    let column = |name: &str| {
        let place = table.columns.iter().position(|column| column == name);
        place.ok_or_else(|| format!("no column `{name}`"))
    };
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
fn draw(svg: &mut String, name: &str, lines: &BTreeMap<String, Line>, wide: f64, top: f64) {
    let most = lines.values().flatten().map(|point| point.1).fold(1.0, f64::max);
    let (right, bottom) = (WIDTH - RIGHT, top + PANEL - GAP);
    let across = |x: f64| LEFT + (right - LEFT) * x / wide;
    let down = |y: f64| bottom - (bottom - top) * y / most;
    for tick in ticks(most) {
        let y = down(tick);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT},{y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" class=\"end\">{tick}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{:.1}\">{name}</text>", LEFT + 6.0, top + 4.0);
    for (number, line) in lines.values().enumerate() {
        let mut path = String::new();
        for (place, &(x, y)) in line.iter().enumerate() {
            let _ = write!(path, "{}{:.1},{:.1}", if place == 0 { 'M' } else { 'L' }, across(x), down(y));
        }
        let _ = writeln!(svg, "<path class=\"line s{}\" d=\"{path}\"/>", number % COLOURS);
    }
}

/// Returns about four even numbers from zero up to the greatest value.
fn ticks(most: f64) -> Vec<f64> {
    let power = 10f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = step.into_iter().find(|step| most / step <= 5.0).unwrap_or(most);
    (0..=(most / step) as u32).map(|number| f64::from(number) * step).collect()
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 40.0;
const PANEL: f64 = 130.0;
const GAP: f64 = 22.0;
const BOTTOM: f64 = 8.0;
const COLOURS: usize = 2;
const STYLE: &str = "text{font:12px sans-serif;fill:#555}.end{text-anchor:end}.middle{text-anchor:middle}\
    .grid{stroke:#8884;fill:none}.line{fill:none;stroke-width:1.5}.s0{stroke:#0969da}.t0{fill:#0969da}\
    .s1{stroke:#bc4c00;stroke-dasharray:5 2}.t1{fill:#bc4c00}\
    @media(prefers-color-scheme:dark){text{fill:#bbb}.s0{stroke:#58a6ff}.t0{fill:#58a6ff}.s1{stroke:#f0883e}.t1{fill:#f0883e}}";

#[cfg(test)]
mod tests {
    use super::*;

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
        let svg = draw_short(&table("100 Mbit/s, 20 packets, 20 ms")).unwrap();
        assert_eq!(svg.matches("class=\"line s0\"").count(), 3, "{svg}");
        assert_eq!(svg.matches("class=\"line s1\"").count(), 3, "{svg}");
        assert!(svg.contains(">window kB<") && svg.contains(">stock<") && svg.contains(">20<"), "{svg}");
        // The largest window is at the top of its panel, half of it in the middle.
        let (top, middle) = (TOP, TOP + (PANEL - GAP) / 2.0);
        assert!(
            svg.contains(&format!("M{LEFT:.1},{top:.1}")) && svg.contains(&format!("M{LEFT:.1},{middle:.1}"))
        );
    }

    #[test]
    fn a_picture_of_nothing_is_refused() {
        assert!(draw_fast(&table("another path")).unwrap_err().contains("no row has path"));
        assert!(draw_fast(&Table::new("course", &[("path", 0)])).unwrap_err().contains("no column `quinn`"));
    }

    #[test]
    fn ticks_are_even_numbers() {
        assert_eq!(ticks(97.0), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(ticks(20.0), [0.0, 5.0, 10.0, 15.0, 20.0]);
    }
}
