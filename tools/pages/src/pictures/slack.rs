//! The picture of docs/tokio.md: what slack saves at each density, from docs/data/tokio-grid.json.
//!
//! ```text
//!   CPU of a tick  ●──●──●                 a panel for each density, one below the other, on one logarithmic scale
//!                  ─ ─ ─ ─●─ ─ ─ floor
//!                           ●──●
//!                  . . . . . . . tokio
//!                  slack ─▶
//! ```

use softtimers_trials::result::{Cell, Table};

use super::svg::Svg;
use super::{Files, column, number, table};

const LEFT: f64 = 52.0;
const RIGHT: f64 = 468.0;
/// From the top of the picture to that of the first panel, and from there to the next one.
const TOP: f64 = 28.0;
const PANEL: f64 = 176.0;
/// From the top of a panel to its scale, and the height of that.
const HEAD: f64 = 28.0;
const HIGH: f64 = 124.0;
/// CPU µs of a tick: the ends of the scale, which is logarithmic.
const LEAST: f64 = 0.1;
const MOST_CPU: f64 = 100.0;

/// The figures of a cell of the table at each slack, in its order, and those of tokio and the floor.
struct Panel {
    name: String,
    by_slack: Vec<(String, f64)>,
    tokio: f64,
    floor: f64,
}

/// Draws slack against the CPU time of a tick at each density, with the floor and tokio's own timers.
pub(super) fn draw(files: &Files) -> Result<String, String> {
    drawn(table(files, "tokio-grid", "slack")?)
}

fn drawn(table: &Table) -> Result<String, String> {
    let panels = panels(table)?;
    let bottom = TOP + PANEL * panels.len() as f64;
    let mut svg = Svg::new(bottom + 24.0, "CPU time of a tick, by slack");
    svg.text(12.0, 20.0, "", "CPU of a tick, µs");
    for (panel, number) in panels.iter().zip(0..) {
        draw_panel(&mut svg, TOP + PANEL * f64::from(number) + HEAD, panel);
    }
    svg.text(RIGHT, bottom + 12.0, "end", "slack, µs");
    Ok(svg.end())
}

/// A panel for each cell whose rows are `CELL: slack N µs`, `CELL: tokio` and `CELL: floor`.
fn panels(table: &Table) -> Result<Vec<Panel>, String> {
    let column = column(table, "CPU µs a tick")?;
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

/// Draws a panel whose scale begins at `top`.
fn draw_panel(svg: &mut Svg, top: f64, panel: &Panel) {
    // `2 workers, idle, 100 × 10 ms`: the last part tells panels apart.
    let head = panel.name.rsplit(", ").next().unwrap_or(&panel.name);
    svg.text((LEFT + RIGHT) / 2.0, top - 9.0, "head middle", &format!("{head}: {}", density(head)));
    let y = |cpu: f64| top + height(cpu);
    for tick in [0.1, 1.0, 10.0, 100.0] {
        svg.path("grid", &format!("M{LEFT},{:.1}H{RIGHT}", y(tick)));
        svg.text(LEFT - 8.0, y(tick) + 4.0, "small end", &format!("{tick}"));
    }
    // At one end each and away from each other, since both may be at nearly the same height.
    for (colour, name, cpu, x, below, class) in [
        ("other dashed", "floor", panel.floor, LEFT + 4.0, -5.0, "small"),
        ("two dashed", "tokio", panel.tokio, RIGHT - 4.0, 14.0, "small end"),
    ] {
        svg.line(colour, [(LEFT, y(cpu)), (RIGHT, y(cpu))]);
        svg.text(x, y(cpu) + below, class, name);
    }
    let step = (RIGHT - LEFT) / panel.by_slack.len().max(1) as f64;
    let at = |number: usize| LEFT + step * (number as f64 + 0.5);
    for (number, (slack, _)) in panel.by_slack.iter().enumerate() {
        svg.text(at(number), top + HIGH + 17.0, "small middle", slack);
    }
    let points: Vec<(f64, f64)> =
        panel.by_slack.iter().enumerate().map(|(number, (_, cpu))| (at(number), y(*cpu))).collect();
    svg.line("one", points.iter().copied());
    svg.dots("one", points);
}

/// `100 × 10 ms` as ticks a second.
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

/// Where so much CPU time lies, from the top of the scale.
fn height(cpu: f64) -> f64 {
    let share = (cpu.clamp(LEAST, MOST_CPU) / LEAST).log10() / (MOST_CPU / LEAST).log10();
    HIGH * (1.0 - share)
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
        let svg = drawn(&table()).unwrap();
        let y = |cpu| format!(",{:.1}h0", TOP + HEAD + height(cpu));
        assert!(svg.contains(&y(50.0)) && svg.contains(&y(5.0)) && height(50.0) < height(5.0), "{svg}");
        assert!(
            svg.contains("100 × 10 ms: 10 k/s") && svg.contains(">floor<") && svg.contains(">tokio<"),
            "{svg}"
        );
        assert!(svg.matches("h0").count() == 2 && svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn what_has_no_place_is_refused() {
        let mut strange = table();
        strange.row([Cell::Text("2 workers, idle, 100 × 10 ms: heap".to_owned()), 1.0.into()]);
        assert!(drawn(&strange).unwrap_err().contains("heap"));
        assert!(drawn(&Table::new("slack", &[("cell", 0)])).is_err());
    }

    #[test]
    fn a_density_is_of_all_tasks() {
        assert_eq!(density("1000 × 1 ms"), "1 M/s");
        assert_eq!(density("100 × 1 s"), "100/s");
        assert_eq!(density("nothing"), "");
    }
}
