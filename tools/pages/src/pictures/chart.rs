//! Line charts: values over a quantity from zero on, with units at the axes and a key above.
//!
//! ```text
//!   delivered, packets/s        up
//!   ── poller   ┄┄ naive        a row of the key for two lines, or for one if their names are long
//!   │   ╱▔▔▔▔▔
//!   │  ╱ ┄┄┄┄
//!   └──────────▶ offered        across
//! ```

use super::svg::Svg;

/// What a chart shows.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart<'a> {
    /// For those who do not see it.
    pub title: &'a str,
    /// The names of the axes, with their units.
    pub up: &'a str,
    /// The name of the horizontal one.
    pub across: &'a str,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// One of its lines.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Its name in the key; a line without one has the look of the line before it.
    pub name: String,
    /// The class of its colour.
    pub colour: &'static str,
    /// How it is drawn.
    pub mark: Mark,
    /// Its points, in order.
    pub points: Vec<(f64, f64)>,
}

/// How a line is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// A line.
    Solid,
    /// A line of dashes.
    Dashed,
    /// A dot at each point, joined.
    Joined,
    /// Dots alone.
    Dots,
}

const LEFT: f64 = 52.0;
const RIGHT: f64 = 466.0;
const HIGH: f64 = 196.0;
/// The distance of two rows of the key.
const ROW: f64 = 19.0;
/// Names with more characters have a row of the key for themselves.
const HALF_A_ROW: usize = 23;

impl Chart<'_> {
    /// Draws it.
    ///
    /// # Errors
    /// If no point is above zero on both axes.
    pub fn draw(&self) -> Result<String, String> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let wide = points().map(|point| point.0).fold(0.0, f64::max);
        let high = points().map(|point| point.1).fold(0.0, f64::max) * 1.05;
        if wide <= 0.0 || high <= 0.0 {
            return Err("there is nothing to draw".to_owned());
        }
        let named: Vec<&Line> = self.lines.iter().filter(|line| !line.name.is_empty()).collect();
        let in_a_row = if named.iter().all(|line| line.name.chars().count() <= HALF_A_ROW) { 2 } else { 1 };
        let top = 34.0 + ROW * named.len().div_ceil(in_a_row) as f64;
        let bottom = top + HIGH;
        let mut svg = Svg::new(bottom + 46.0, self.title);
        svg.text(12.0, 20.0, "", self.up);
        svg.text(RIGHT, bottom + 39.0, "end", self.across);
        for (line, place) in named.iter().zip(0..) {
            let left = LEFT + (RIGHT - LEFT) / in_a_row as f64 * (place % in_a_row) as f64;
            let y = 40.0 + ROW * (place / in_a_row) as f64;
            line.stroke(&mut svg, vec![(left, y - 4.0), (left + 26.0, y - 4.0)]);
            svg.text(left + 34.0, y, "small", &line.name);
        }
        let x = |value: f64| LEFT + (RIGHT - LEFT) * value / wide;
        let y = |value: f64| bottom - HIGH * value / high;
        for tick in ticks(wide) {
            svg.path("grid", &format!("M{:.1},{top}V{bottom}", x(tick)));
            svg.text(x(tick), bottom + 18.0, "small middle", &label(tick));
        }
        for tick in ticks(high) {
            svg.path("grid", &format!("M{LEFT},{:.1}H{RIGHT}", y(tick)));
            svg.text(LEFT - 8.0, y(tick) + 4.0, "small end", &label(tick));
        }
        for line in self.lines.iter().filter(|line| !line.points.is_empty()) {
            line.stroke(&mut svg, line.points.iter().map(|&(across, up)| (x(across), y(up))).collect());
        }
        Ok(svg.end())
    }
}

impl Line {
    fn stroke(&self, svg: &mut Svg, points: Vec<(f64, f64)>) {
        match self.mark {
            Mark::Solid => svg.line(self.colour, points),
            Mark::Dashed => svg.line(&format!("{} dashed", self.colour), points),
            Mark::Dots => svg.dots(self.colour, points),
            Mark::Joined => {
                svg.line(self.colour, points.iter().copied());
                svg.dots(self.colour, points);
            }
        }
    }
}

/// About four even numbers from zero up to the greatest value.
pub fn ticks(most: f64) -> Vec<f64> {
    let power = 10f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = step.into_iter().find(|step| most / step <= 5.0).unwrap_or(most);
    (0..=(most / step) as u32).map(|number| f64::from(number) * step).collect()
}

/// A tick as it is written: a tenth is not 0.1000000001.
pub fn label(tick: f64) -> String {
    format!("{}", (tick * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(names: [&str; 2], high: [f64; 2]) -> Chart<'static> {
        let line = |name: &str, mark, high| Line {
            name: name.to_owned(),
            colour: "one",
            mark,
            points: vec![(0.0, 0.0), (100.0, high)],
        };
        let lines = vec![line(names[0], Mark::Solid, high[0]), line(names[1], Mark::Dashed, high[1])];
        Chart { title: "t", up: "u", across: "a", lines }
    }

    #[test]
    fn a_line_goes_from_corner_to_corner_and_another_half_as_high() {
        let svg = chart(["a", "b"], [100.0, 50.0]).draw().unwrap();
        let (bottom, top) = (53.0 + HIGH, 53.0);
        let at = |share: f64| bottom - (bottom - top) * share / 1.05;
        assert!(
            svg.contains(&format!("class=\"one\" d=\"M52.0,{bottom:.1}L466.0,{:.1}\"", at(1.0))),
            "{svg}"
        );
        let half = format!("class=\"one dashed\" d=\"M52.0,{bottom:.1}L466.0,{:.1}\"", at(0.5));
        assert!(svg.contains(&half), "{svg}");
        assert!(svg.contains(">100</text>") && svg.contains(">50</text>"), "{svg}");
    }

    #[test]
    fn long_names_have_rows_of_their_own() {
        let key = |names| {
            let svg = chart(names, [1.0, 1.0]).draw().unwrap();
            svg.lines().filter(|line| line.ends_with("</text>") && line.contains("x=\"86.0\"")).count()
        };
        assert_eq!(key(["short", "short, too"]), 1);
        assert_eq!(key(["short", "a name that is too long for half"]), 2);
    }

    #[test]
    fn a_chart_of_nothing_is_refused() {
        assert!(chart(["a", "b"], [0.0, 0.0]).draw().unwrap_err().contains("nothing to draw"));
    }

    #[test]
    fn ticks_are_even_numbers() {
        assert_eq!(ticks(97.0), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(ticks(20.0), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(ticks(1.7).into_iter().map(label).collect::<Vec<_>>(), ["0", "0.5", "1", "1.5"]);
    }
}
