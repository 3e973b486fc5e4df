//! The figure of docs/tokio.md: the savings by slack at each density, from docs/data/tokio-grid.json.
//!
//! ```text
//!   CPU of a tick  ●──●──●                 a panel for each density, on one logarithmic scale
//!                  ─ ─ ─ ─●─ ─ ─ floor
//!                           ●──●
//!                  . . . . . . . tokio
//!                  slack ─▶
//! ```

use std::fmt::Write as _;

use softtimers_measure::result::{Cell, Table};

/// The file of docs/data, and the key of its table.
pub(crate) const DATA: &str = "tokio-grid";
pub(crate) const TABLE: &str = "slack";
/// The path of the picture, from the root.
pub(crate) const PICTURE: &str = "docs/tokio-slack.svg";

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 328.0;
const LEFT: f64 = 58.0;
const TOP: f64 = 56.0;
/// The size of one panel.
const WIDE: f64 = 206.0;
const HIGH: f64 = 216.0;
const GAP: f64 = 26.0;
/// CPU µs of a tick: the ends of the logarithmic scale.
const LEAST: f64 = 0.1;
const MOST: f64 = 100.0;

const STYLE: &str = "\
.ground{fill:#fff}text{fill:#1f2328;font:12px system-ui,sans-serif}.head{font-weight:600}.small{font-size:9px}.grid{stroke:#d1d9e0}\
.ours{stroke:#0969da;stroke-width:2;fill:none}.dot{fill:#0969da}.floor{stroke:#59636e;stroke-dasharray:6 4}\
.tokio{stroke:#9a6700;stroke-dasharray:2 3;stroke-width:1.5}\
@media(prefers-color-scheme:dark){.ground{fill:#0d1117}text{fill:#f0f6fc}.grid{stroke:#3d444d}.ours{stroke:#4493f8}.dot{fill:#4493f8}\
.floor{stroke:#9198a1}.tokio{stroke:#d29922}}";

/// The figures of a cell of the table at each slack, in its order, and those of tokio and the floor.
struct Panel {
    name: String,
    by_slack: Vec<(String, f64)>,
    tokio: f64,
    floor: f64,
}

/// Draws the table: slack against the CPU time of a tick at each density, with the floor and tokio's own timers.
///
/// # Errors
/// If a row belongs to none of them.
pub(crate) fn draw(table: &Table) -> Result<String, String> {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>CPU time of a tick, by slack</title>\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n"
    );
    text(&mut svg, 12.0, 20.0, "start", "head", "CPU of a tick, µs");
    for (number, panel) in panels(table)?.iter().enumerate() {
        draw_panel(&mut svg, LEFT + number as f64 * (WIDE + GAP), number == 0, panel);
    }
    text(&mut svg, LEFT + 1.5 * WIDE + GAP, HEIGHT - 14.0, "middle", "", "slack, µs");
    Ok(svg + "</svg>\n")
}

/// Returns a panel for each cell whose rows are `CELL: slack N µs`, `CELL: tokio` and `CELL: floor`.
fn panels(table: &Table) -> Result<Vec<Panel>, String> {
    let column = table.columns.iter().position(|name| name == "CPU µs a tick").ok_or("no CPU of a tick")?;
    let mut panels: Vec<Panel> = Vec::new();
    for row in &table.rows {
        let (Some(Cell::Text(name)), Some(cpu)) = (row.first(), row.get(column).and_then(number)) else {
            continue;
        };
        let (cell, contender) =
            name.split_once(": ").ok_or_else(|| format!("`{name}` names no contender"))?;
        if panels.last().is_none_or(|panel| panel.name != cell) {
            panels.push(Panel { name: cell.to_owned(), by_slack: Vec::new(), tokio: cpu, floor: cpu });
        }
        let Some(panel) = panels.last_mut() else { continue };
        match contender.strip_prefix("slack ").and_then(|rest| rest.strip_suffix(" µs")) {
            Some(slack) => panel.by_slack.push((slack.to_owned(), cpu)),
            None if contender == "tokio" => panel.tokio = cpu,
            None if contender == "floor" => panel.floor = cpu,
            None => return Err(format!("`{contender}` has no place in the picture")),
        }
    }
    Ok(panels)
}

fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Number(value) => Some(*value),
        Cell::Estimate(estimate) => Some(estimate.median),
        _ => None,
    }
}

fn draw_panel(svg: &mut String, left: f64, with_scale: bool, panel: &Panel) {
    let right = left + WIDE;
    // `2 workers, idle, 100 × 10 ms`: the last part distinguishes panels.
    let head = panel.name.rsplit(", ").next().unwrap_or(&panel.name);
    text(svg, left + WIDE / 2.0, TOP - 12.0, "middle", "head", &format!("{head}: {}", density(head)));
    for tick in [0.1, 1.0, 10.0, 100.0] {
        line(svg, "grid", left, height(tick), right, height(tick));
        if with_scale {
            text(svg, left - 8.0, height(tick) + 4.0, "end", "", &format!("{tick}"));
        }
    }
    for (class, name, cpu) in [("floor", "floor", panel.floor), ("tokio", "tokio", panel.tokio)] {
        line(svg, class, left, height(cpu), right, height(cpu));
        text(svg, left + 4.0, height(cpu) + 13.0, "start", "", name);
    }
    let step = WIDE / panel.by_slack.len().max(1) as f64;
    let at = |number: usize| left + step * (number as f64 + 0.5);
    let points =
        panel.by_slack.iter().enumerate().map(|(number, (slack, cpu))| (at(number), height(*cpu), slack));
    let mut path = String::new();
    for (x, y, slack) in points {
        let _ = write!(path, "{x:.1},{y:.1} ");
        let _ = writeln!(svg, "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        text(svg, x, TOP + HIGH + 16.0, "middle", "small", slack);
    }
    let _ = writeln!(svg, "<polyline class=\"ours\" points=\"{}\"/>", path.trim_end());
}

/// Returns `100 × 10 ms` as ticks a second.
fn density(cell: &str) -> String {
    let number = |text: &str| text.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().ok();
    let rate = cell.split_once(" × ").and_then(|(tasks, period)| {
        let unit = if period.ends_with("µs") {
            1_000_000
        } else if period.ends_with("ms") {
            1_000
        } else {
            1
        };
        Some(number(tasks)? * unit / number(period)?.max(1))
    });
    match rate {
        Some(rate) if rate >= 1_000_000 => format!("{} M/s", rate / 1_000_000),
        Some(rate) if rate >= 1_000 => format!("{} k/s", rate / 1_000),
        Some(rate) => format!("{rate}/s"),
        None => String::new(),
    }
}

/// Returns the height of this CPU time.
fn height(cpu: f64) -> f64 {
    let share = (cpu.clamp(LEAST, MOST) / LEAST).log10() / (MOST / LEAST).log10();
    TOP + HIGH * (1.0 - share)
}

fn line(svg: &mut String, class: &str, x1: f64, y1: f64, x2: f64, y2: f64) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("slack", &[("cell", 0), ("CPU µs a tick", 2)]);
        for (name, cpu) in [("slack 0 µs", 50.0), ("slack 1000 µs", 5.0), ("tokio", 6.0), ("floor", 20.0)] {
            table.row([Cell::Text(format!("2 workers, idle, 100 × 10 ms: {name}")), cpu.into()]);
        }
        table
    }

    #[test]
    fn each_figure_is_drawn_where_it_is() {
        let svg = draw(&table()).unwrap();
        let y = |cpu| format!("cy=\"{:.1}\"", height(cpu));
        assert!(svg.contains(&y(50.0)) && svg.contains(&y(5.0)) && height(50.0) < height(5.0), "{svg}");
        assert!(
            svg.contains("100 × 10 ms: 10 k/s") && svg.contains(">floor<") && svg.contains(">tokio<"),
            "{svg}"
        );
        assert!(svg.matches("<circle").count() == 2 && svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn what_has_no_place_is_refused() {
        let mut strange = table();
        strange.row([Cell::Text("2 workers, idle, 100 × 10 ms: heap".to_owned()), 1.0.into()]);
        assert!(draw(&strange).unwrap_err().contains("heap"));
        assert!(draw(&Table::new("slack", &[("cell", 0)])).is_err());
    }

    #[test]
    fn a_density_is_of_all_tasks() {
        assert_eq!(density("1000 × 1 ms"), "1 M/s");
        assert_eq!(density("100 × 1 s"), "100/s");
        assert_eq!(density("nothing"), "");
    }
}
