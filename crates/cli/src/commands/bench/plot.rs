//! Draws the curve as text, so that a plateau and a collapse are easy to tell apart: [`lines`].
//!
//! ```text
//!   delivered ▏            ideal, '.'
//!             ▏      ..' ****  stable
//!             ▏  ..*'   *
//!             ▏.*        *     livelock
//!             └──────────────▶ offered
//! ```

use softtimers_load::overload::Point;

/// Returns named lines from the top: a point is `*`, and `.` marks full delivery of the offered rate.
pub(super) fn lines(points: &[Point]) -> Vec<(String, String)> {
    let rates = || points.iter().map(Point::rates);
    let [right, top] =
        rates().fold([1.0; 2], |most, rates| std::array::from_fn(|n| f64::max(most[n], rates[n])));
    let mut rows = vec![[' '; WIDTH]; HEIGHT];
    let row = |rate: f64| ((rate / top * (HEIGHT - 1) as f64).round() as usize).min(HEIGHT - 1);
    let offered = (0..WIDTH).map(|column| right * column as f64 / (WIDTH - 1) as f64);
    for (column, offered) in offered.enumerate().filter(|&(_, offered)| offered <= top) {
        rows[row(offered)][column] = '.';
    }
    for [offered, delivered] in rates() {
        let column = (offered / right * (WIDTH - 1) as f64).round() as usize;
        rows[row(delivered)][column.min(WIDTH - 1)] = '*';
    }
    let line = |(number, cells): (usize, &[char; WIDTH])| {
        let name = match number {
            0 => "0".to_owned(),
            number if number == HEIGHT - 1 => format!("delivered {top:.0}"),
            _ => String::new(),
        };
        let cells: String = cells.iter().collect();
        (name, format!("|{}", cells.trim_end()))
    };
    let mut lines: Vec<(String, String)> = rows.iter().enumerate().rev().map(line).collect();
    lines.push((String::new(), format!("+{}", "-".repeat(WIDTH))));
    let offered = format!("offered {right:.0}");
    lines.push((String::new(), format!(" 0{offered:>width$}", width = WIDTH - 1)));
    lines
}

const WIDTH: usize = 60;
const HEIGHT: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_there() {
        let points = [(0.0, 0.0), (50.0, 50.0), (100.0, 50.0), (500.0, 5.0)]
            .map(|(offered_pps, delivered_pps)| Point { offered_pps, delivered_pps, ..Point::default() });
        let lines = lines(&points);
        let stars: usize = lines.iter().map(|(_, line)| line.matches('*').count()).sum();
        assert_eq!((stars, lines.len()), (4, HEIGHT + 2));
        assert!(lines[0].0.starts_with("delivered 50"), "{lines:?}");
        assert!(lines.iter().all(|(_, line)| line.len() < 76));
    }
}
