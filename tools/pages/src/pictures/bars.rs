//! Panels of bars, one below the other: figures of several contenders, each panel on a scale of its own.

use super::svg::Svg;

/// A panel: what its figures are, and a bar for each contender.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Panel {
    pub(super) about: String,
    pub(super) bars: Vec<Bar>,
}

/// A contender's figure. One below zero has no bar.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    /// The figure in words.
    pub(super) label: String,
    pub(super) is_ours: bool,
}

const LEFT: f64 = 12.0;
/// Where bars begin, and how long the longest is.
const BARS: f64 = 124.0;
const LONGEST: f64 = 270.0;
const ROW: f64 = 20.0;
const HEAD: f64 = 56.0;

/// Draws the panels.
///
/// # Errors
/// If one has no bar.
pub(super) fn draw(title: &str, panels: &[Panel]) -> Result<String, String> {
    if let Some(empty) = panels.iter().find(|panel| panel.bars.is_empty()) {
        return Err(format!("nobody has `{}`", empty.about));
    }
    let height = panels.iter().map(|panel| HEAD + ROW * panel.bars.len() as f64).sum::<f64>() + 10.0;
    let mut svg = Svg::new(height, title);
    let mut top = 0.0;
    for Panel { about, bars } in panels {
        svg.text(LEFT, top + 24.0, "head", about);
        let most = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
        let foot = top + 54.0 + ROW * (bars.len() - 1) as f64;
        for tick in [0.0, step(most)] {
            let x = BARS + LONGEST * tick / most;
            svg.path("grid", &format!("M{x:.1},{:.0}V{foot:.0}", top + 34.0));
            svg.text(x, foot + 12.0, "small middle", &tick.to_string());
        }
        for (bar, row) in bars.iter().zip(0..) {
            let y = top + 44.0 + ROW * f64::from(row);
            let length = LONGEST * bar.value.max(0.0) / most;
            svg.text(LEFT, y, "small", &bar.name);
            svg.bar(if bar.is_ours { "one" } else { "other" }, (BARS, y), length);
            svg.text(BARS + length + 6.0, y, "small", &bar.label);
        }
        top += HEAD + ROW * bars.len() as f64;
    }
    Ok(svg.end())
}

/// Returns the largest of 1, 2, 5, 10, 20, … and their tenths up to a figure.
fn step(most: f64) -> f64 {
    let power = 10_f64.powi(most.log10().floor() as i32);
    [5.0, 2.0].map(|digit| digit * power).into_iter().find(|&step| step <= most).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, value: f64) -> Bar {
        Bar { name: name.into(), value, label: format!("{value} µs"), is_ours: name == "ours" }
    }

    #[test]
    fn a_scale_ends_at_a_round_figure() {
        assert_eq!([0.3, 1.0, 19.0, 20.0, 999.0, 1_000.0].map(step), [0.2, 1.0, 10.0, 20.0, 500.0, 1_000.0]);
    }

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let bars = vec![bar("ours", 50.0), bar("theirs", 100.0), bar("early", -5.0)];
        let svg = draw("a title", &[Panel { about: "late".into(), bars }]).unwrap();
        assert!(svg.contains("h135.0") && svg.contains("h270.0") && svg.contains("h0.0"), "{svg}");
        assert!(svg.contains(">-5 µs<") && svg.contains("M124.0,34V94") && svg.contains(">100<"), "{svg}");
        assert!(draw("", &[Panel { about: "late".into(), bars: vec![] }]).unwrap_err().contains("late"));
    }
}
