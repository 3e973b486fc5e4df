//! The ground of a picture: its size, its colours in light and dark, its words and strokes.
//!
//! ```text
//!   480 wide, words of 13 and 14  ──▶  a page of 400 pixels shows it 370 wide: words of 10 and 11
//! ```
//!
//! It says its own size, so that a wider page does not enlarge it. It brings its own ground in both colour schemes: a page that
//! shows it may follow another scheme than the reader's system.

use std::fmt::Write as _;

/// Every picture's width.
pub(super) const WIDTH: f64 = 480.0;

/// The classes: `one`, `two`, `three` and `other` are colours of strokes, each but `other` with dashes of its own, for those who
/// see no colours; `dashed` and `dots` are ways to draw them.
const STYLE: &str = "\
.ground{fill:#fff}text{fill:#1f2328;font:14px system-ui,sans-serif}.small{font-size:13px}.head{font-weight:600}.middle{text-anchor:middle}\
.end{text-anchor:end}path{fill:none;stroke-width:2}.grid{stroke:#d1d9e0;stroke-width:1}.thin{stroke-width:1.5}.one{stroke:#0969da}\
.two{stroke:#9a6700;stroke-dasharray:12 3}.three{stroke:#8250df;stroke-dasharray:3 3}.other{stroke:#59636e}.dashed{stroke-dasharray:6 4}\
.two.dashed{stroke-dasharray:9 3 2 3}.other.dashed{stroke-dasharray:2 4}.dots{stroke-width:5;stroke-linecap:round;stroke-dasharray:none}\
@media(prefers-color-scheme:dark){.ground{fill:#0d1117}text{fill:#f0f6fc}.grid{stroke:#3d444d}\
.one{stroke:#4493f8}.two{stroke:#d29922}.three{stroke:#ab7df8}.other{stroke:#9198a1}}";

/// A picture that is being drawn.
pub(super) struct Svg(String);

impl Svg {
    /// Begins a picture of this height; the title is for those who do not see it.
    pub(super) fn new(height: f64, title: &str) -> Self {
        Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n",
            escaped(title)
        ))
    }

    /// Writes words at a place.
    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, words: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ = writeln!(self.0, "<text x=\"{x:.1}\" y=\"{y:.1}\"{class}>{}</text>", escaped(words));
    }

    /// Strokes a path.
    pub(super) fn path(&mut self, class: &str, path: &str) {
        let _ = writeln!(self.0, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// Strokes a line through points.
    pub(super) fn line(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let points: Vec<String> = points.into_iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.path(class, &format!("M{}", points.join("L")));
    }

    /// Sets a dot at each point: a stroke of no length whose ends are round.
    pub(super) fn dots(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let points: String = points.into_iter().map(|(x, y)| format!("M{x:.1},{y:.1}h0")).collect();
        self.path(&format!("{class} dots"), &points);
    }

    /// Strokes a bar to the right of a place: there are strokes only, and five of them, side by side, are one.
    pub(super) fn bar(&mut self, class: &str, (x, y): (f64, f64), length: f64) {
        let strokes: String = (0..5)
            .map(|part| format!("M{x:.0},{:.1}h{length:.1}", y - 9.0 + 2.0 * f64::from(part)))
            .collect();
        self.path(class, &strokes);
    }

    /// Its text.
    pub(super) fn end(self) -> String {
        self.0 + "</svg>\n"
    }
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_become_elements() {
        let mut svg = Svg::new(10.0, "a < b & c");
        svg.text(1.0, 2.0, "", "<g>");
        let text = svg.end();
        assert!(
            text.contains("<title>a &lt; b &amp; c</title>") && text.contains(">&lt;g></text>"),
            "{text}"
        );
    }

    #[test]
    fn lines_differ_without_their_colours() {
        let dashes = [".two{", ".three{", ".dashed{", ".two.dashed{", ".other.dashed{"].map(|class| {
            let (_, rule) = STYLE.split_once(class).unwrap();
            rule.split_once('}').unwrap().0.split_once("stroke-dasharray:").unwrap().1
        });
        assert_eq!(std::collections::BTreeSet::from(dashes).len(), dashes.len());
    }

    #[test]
    fn both_schemes_have_every_colour() {
        let (light, dark) = STYLE.split_once("@media(prefers-color-scheme:dark)").unwrap();
        for class in [".ground{fill:", ".grid{stroke:", ".one{", ".two{", ".three{", ".other{", "text{fill:"]
        {
            assert!(light.contains(class) && dark.contains(class), "{class}");
        }
    }
}
