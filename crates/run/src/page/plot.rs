//! Draws a figure as inline SVG, with its legend as a list above it: axes with units, and marks that differ by shape
//! and dash as well as by colour.
//!
//! Everything but text is one path for each kind of mark. The style sheet styles them by class, so that the same figure
//! suits light mode, dark mode and paper; [`axis`](super::axis) has already made every scale linear. The title and
//! description describe the drawing to people who cannot see it.

use std::fmt::Write as _;

use super::axis::Scale;
use super::figure::{Figure, Mark, Series};
use super::markup::Markup;

/// A position in the drawing.
type Pixel = (f64, f64);

/// Adds the figure as an `svg` element; `id` is unique in the page. Returns false if no point has a position on the
/// axes.
pub fn svg(page: &mut Markup, figure: &Figure, id: &str) -> bool {
    let place = |&(x, y): &(f64, f64)| Some((figure.x.place(x)?, figure.y.place(y)?));
    let placed = figure.series.iter().map(|series| series.points.iter().filter_map(place).collect());
    let placed: Vec<Vec<Pixel>> = placed.collect();
    if placed.iter().all(Vec::is_empty) {
        return false;
    }
    let frame = Frame::from_figure(figure, &placed);
    let [view, title, text] =
        [format!("0 0 {WIDTH} {}", frame.height), format!("{id}-title"), format!("{id}-text")];
    let told = format!("{title} {text}");
    let attributes = [("viewBox", view.as_str()), ("role", "img"), ("aria-labelledby", &told)];
    page.within("svg", &attributes, |svg| {
        svg.leaf("title", &[("id", &title)], &figure.title);
        svg.leaf("desc", &[("id", &text)], &description(figure));
        if figure.series.iter().any(Series::is_grey) {
            frame.hatch(svg, &format!("{id}-hatch"));
        }
        frame.shade(svg, figure);
        frame.axes(svg, figure);
        for (series, places) in figure.series.iter().zip(placed) {
            let pixels: Vec<Pixel> =
                places.into_iter().map(|(x, y)| (frame.across(x), frame.down(y))).collect();
            let stride = pixels.len().div_ceil(MOST_MARKS).max(1);
            let marked = pixels.iter().step_by(if series.mark == Mark::Line { stride } else { 1 });
            marks(svg, series, &pixels, marked.copied());
        }
    });
    true
}

/// Adds the names of the series with their marks, if there is more than one and no axis names them.
pub fn legend(page: &mut Markup, figure: &Figure) {
    if figure.series.len() < 2 || figure.series.iter().all(|series| series.mark == Mark::Ticks) {
        return;
    }
    page.within("ul", &[("class", "legend")], |page| {
        for series in &figure.series {
            page.within("li", &[], |page| {
                page.within("svg", &[("viewBox", "0 0 30 14"), ("aria-hidden", "true")], |svg| {
                    marks(svg, series, &[(1.0, 7.0), (29.0, 7.0)], [(15.0, 7.0)]);
                });
                page.leaf("span", &[], &series.name);
                if let Some(reason) = &series.unfit {
                    page.text(&format!(" ({})", reason.label()));
                }
            });
        }
    });
}

/// Describes the figure for readers who cannot see it: its own text, and the range of each series.
fn description(figure: &Figure) -> String {
    let spans = figure.series.iter().map(|series| {
        let values = || series.points.iter().map(|point| point.1);
        let (least, greatest) =
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        match (&figure.y.scale, series.mark) {
            (_, Mark::Rule) => series.name.clone(),
            (Scale::Names(_), _) => format!("{}: {} marks", series.name, series.points.len()),
            _ => format!("{}: {} to {}", series.name, figure.y.show(least), figure.y.show(greatest)),
        }
    });
    let spans: Vec<String> = spans.collect();
    format!("{} Across: {}. Up: {}. {}.", figure.text, figure.x.label(), figure.y.label(), spans.join("; "))
}

/// Draws the marks of a series: a line through all of its points, and a shape at the marked ones.
fn marks(svg: &mut Markup, series: &Series, pixels: &[Pixel], marked: impl IntoIterator<Item = Pixel>) {
    let class = match series.is_grey() {
        true => "unfit".to_owned(),
        false => format!("s{}", series.colour % COLOURS),
    };
    let shape = match series.mark {
        Mark::Ticks => "m0,-8v16",
        _ => SHAPES[series.colour % SHAPES.len()],
    };
    svg.within("g", &[("class", &class)], |svg| {
        let mut path = |class: &str, path: &str| svg.void("path", &[("class", class), ("d", path)]);
        if let Mark::Line | Mark::Rule = series.mark {
            let joined = pixels.iter().enumerate().fold(String::new(), |mut path, (at, (x, y))| {
                let _ = write!(
                    path,
                    "{}{x:.1},{y:.1}",
                    if at == 0 || series.breaks.contains(&at) { 'M' } else { 'L' }
                );
                path
            });
            path(if series.mark == Mark::Rule { "rule" } else { "line" }, &joined);
        }
        let class = match series.mark {
            Mark::Rule => return,
            Mark::Ticks => "ticks",
            Mark::Paper => "hollow",
            Mark::Line | Mark::Points => "mark",
        };
        let shapes = marked.into_iter().fold(String::new(), |mut path, (x, y)| {
            let _ = write!(path, "M{x:.1},{y:.1}{shape}");
            path
        });
        path(class, &shapes);
    });
}

/// The positions of the axes, and their value ranges.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
    ticks: [Vec<(f64, String)>; 2],
    left: f64,
    height: f64,
}

impl Frame {
    fn from_figure(figure: &Figure, placed: &[Vec<Pixel>]) -> Self {
        let all = || placed.iter().flatten();
        let (x, y) = (figure.x.range(all().map(|place| place.0)), figure.y.range(all().map(|place| place.1)));
        let ticks = [figure.x.ticks(x), figure.y.ticks(y)].map(|ticks| {
            ticks.into_iter().map(|(place, name)| (place, shortened(&name))).collect::<Vec<_>>()
        });
        let longest = ticks[1].iter().map(|tick| tick.1.chars().count()).max().unwrap_or(0) as f64;
        // A row for each name; a curve has a fixed height.
        let height = match &figure.y.scale {
            Scale::Names(names) => TOP + BOTTOM + 26.0 * names.len().max(2) as f64,
            _ => HEIGHT,
        };
        Frame { x, y, ticks, left: 14.0 + 7.3 * longest, height }
    }

    fn across(&self, place: f64) -> f64 {
        self.left + (WIDTH - RIGHT - self.left) * (place - self.x.0) / (self.x.1 - self.x.0)
    }

    fn down(&self, place: f64) -> f64 {
        let bottom = self.height - BOTTOM;
        bottom - (bottom - TOP) * (place - self.y.0) / (self.y.1 - self.y.0)
    }

    /// Shades parts of the ground.
    fn shade(&self, svg: &mut Markup, figure: &Figure) {
        for (class, strong) in [("step", false), ("outage", true)] {
            let of_class = figure.shades.iter().filter(|shade| shade.2 == strong);
            let parts = of_class
                .filter_map(|&(from, until, _)| Some([figure.x.place(from)?, figure.x.place(until)?]));
            let path = parts.fold(String::new(), |mut path, places| {
                let [left, right] = places.map(|place| self.across(place.clamp(self.x.0, self.x.1)));
                let _ = write!(path, "M{left:.1},{TOP}H{right:.1}V{}H{left:.1}z", self.height - BOTTOM);
                path
            });
            if !path.is_empty() {
                svg.void("path", &[("class", class), ("d", &path)]);
            }
        }
    }

    /// Draws grid lines at the ticks, and their labels.
    fn axes(&self, svg: &mut Markup, figure: &Figure) {
        let Frame { x, y, left, height, ticks: [across, up], .. } = self;
        let (right, bottom) = (WIDTH - RIGHT, height - BOTTOM);
        let (mut grid, mut words) = (String::new(), vec![]);
        for (place, name) in across.iter().filter(|tick| (x.0..=x.1).contains(&tick.0)) {
            let x = self.across(*place);
            let _ = write!(grid, "M{x:.1},{TOP}V{bottom}");
            words.push(("middle", (x, bottom + 17.0), name.as_str()));
        }
        for (place, name) in up.iter().filter(|tick| (y.0..=y.1).contains(&tick.0)) {
            let y = self.down(*place);
            let _ = write!(grid, "M{left},{y:.1}H{right}");
            words.push(("end", (left - 7.0, y + 4.5), name.as_str()));
        }
        let axes = format!("M{left},{TOP}V{bottom}H{right}");
        let [beside, below] = [figure.y.label(), figure.x.label()];
        words.push(("start", (0.0, 14.0), &beside));
        words.push(("end", (right, height - 6.0), &below));
        svg.void("path", &[("class", "grid"), ("d", &grid)]);
        svg.void("path", &[("class", "axes"), ("d", &axes)]);
        for (anchor, (x, y), word) in words {
            let at = [format!("{x:.1}"), format!("{y:.1}")];
            svg.leaf("text", &[("x", &at[0]), ("y", &at[1]), ("text-anchor", anchor)], word);
        }
    }

    /// Draws the hatched ground of an unfit figure.
    fn hatch(&self, svg: &mut Markup, id: &str) {
        let stripes = [
            ("id", id),
            ("width", "8"),
            ("height", "8"),
            ("patternUnits", "userSpaceOnUse"),
            ("patternTransform", "rotate(45)"),
        ];
        svg.within("pattern", &stripes, |svg| svg.void("path", &[("class", "hatch"), ("d", "M0,0V8")]));
        let [fill, left, top, width, height] = [
            format!("url(#{id})"),
            self.left.to_string(),
            TOP.to_string(),
            (WIDTH - RIGHT - self.left).to_string(),
            (self.height - BOTTOM - TOP).to_string(),
        ];
        let place = [("fill", &*fill), ("x", &left), ("y", &top), ("width", &width), ("height", &height)];
        svg.void("rect", &place);
    }
}

/// Shortens a name to the room of an axis.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// The width in units of the drawing, which a page scales.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 330.0;
/// Room for the name of the vertical axis, for the ticks and the name of the horizontal one, and for half a tick's
/// label.
const TOP: f64 = 26.0;
const BOTTOM: f64 = 44.0;
const RIGHT: f64 = 20.0;
/// The number of colours in the style sheet, each with its dash.
const COLOURS: usize = 8;
/// A disc, a square, a triangle and a diamond, relative to their centre.
const SHAPES: [&str; 4] =
    ["m-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0", "m-4,-4h8v8h-8z", "m0,-5l5,9h-10z", "m0,-6l5,6l-5,6l-5,-6z"];
const LONGEST_NAME: usize = 36;
/// The most marks on one line, so that they do not hide it.
const MOST_MARKS: usize = 30;

#[cfg(test)]
mod tests {
    use super::super::axis::Axis;
    use super::*;

    fn figure(mark: Mark, x: Scale, y: Scale, points: &[(f64, f64)]) -> Figure {
        let series = (0..3).map(|at| Series::of(mark, at, "<a> & \u{1} b", points.iter().copied()));
        Figure::new("a <title>", "Words & more.", Axis::new("x", "µs", x), Axis::new("y", "s", y))
            .with(series)
    }

    fn drawn(figure: &Figure) -> Option<String> {
        let mut page = Markup::default();
        svg(&mut page, figure, "f1").then(|| page.finish())
    }

    #[test]
    fn every_mark_on_every_scale_is_well_formed() {
        let names = Scale::Names(vec!["one".into(), "<two>".into()]);
        for mark in [Mark::Line, Mark::Points, Mark::Paper, Mark::Ticks, Mark::Rule] {
            for x in [Scale::Linear, Scale::Log, Scale::Nines, names.clone()] {
                for y in [Scale::Linear, Scale::Log, names.clone()] {
                    let points = [(0.1, 1.0), (0.5, 10.0), (0.9, 0.0), (0.99, 1e15)];
                    let svg = drawn(&figure(mark, x.clone(), y, &points)).expect("something is drawn");
                    let document =
                        roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
                    let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
                    assert!(texts.iter().any(|text| text.trim() == "x (µs)"), "{svg}");
                    assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("xmlns"), "{svg}");
                }
            }
        }
    }

    #[test]
    fn what_has_no_place_is_no_figure() {
        assert_eq!(drawn(&figure(Mark::Line, Scale::Log, Scale::Log, &[(0.0, 1.0), (1.0, -1.0)])), None);
    }

    #[test]
    fn a_place_lies_where_its_value_is_between_the_ticks() {
        let figure = figure(Mark::Line, Scale::Linear, Scale::Linear, &[(0.0, 0.0), (10.0, 100.0)]);
        let frame = Frame::from_figure(&figure, &[vec![(0.0, 0.0), (10.0, 100.0)]]);
        let halves = [frame.across(5.0) * 2.0, frame.down(50.0) * 2.0];
        let ends = [frame.across(0.0) + frame.across(10.0), frame.down(0.0) + frame.down(100.0)];
        assert!((halves[0] - ends[0]).abs() < 1e-9 && (halves[1] - ends[1]).abs() < 1e-9);
        assert!(frame.across(0.0) < frame.across(10.0) && frame.down(0.0) > frame.down(100.0));
        assert!(frame.ticks[1].iter().any(|(place, name)| name == "100" && (place - 100.0).abs() < 1e-9));
    }

    #[test]
    fn shades_lie_on_the_axis() {
        let mut figure = figure(Mark::Line, Scale::Linear, Scale::Linear, &[(0.0, 0.0), (10.0, 100.0)]);
        assert!(!drawn(&figure).unwrap().contains("class=\"outage\""));
        figure.shades = vec![(2.0, 4.0, false), (4.0, 99.0, true)];
        let frame = Frame::from_figure(&figure, &[vec![(0.0, 0.0), (10.0, 100.0)]]);
        let svg = drawn(&figure).unwrap();
        let [two, four, end] = [2.0, 4.0, frame.x.1].map(|at| format!("{:.1}", frame.across(at)));
        for (class, left, right) in [("step", &two, &four), ("outage", &four, &end)] {
            assert!(
                svg.contains(&format!("class=\"{class}\" d=\"M{left},26H{right}V286H{left}z\"")),
                "{svg}"
            );
        }
    }

    /// Returns WCAG's relative luminance.
    fn luminance(hex: &str) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn each_colour_is_another_and_words_can_be_read_in_the_light_and_in_the_dark() {
        let style = include_str!("page.css");
        let (light, dark) = (style.lines().next().unwrap(), style.lines().nth(1).unwrap());
        let value = |sheet: &str, name: &str| -> String {
            let (_, rest) = sheet.split_once(&format!("--{name}:")).unwrap_or_else(|| panic!("no --{name}"));
            rest[..7].to_owned()
        };
        let contrast = |one: f64, other: f64| (one.max(other) + 0.05) / (one.min(other) + 0.05);
        for sheet in [light, dark] {
            let colours: std::collections::BTreeSet<String> =
                (0..COLOURS).map(|at| value(sheet, &format!("c{at}"))).collect();
            assert_eq!(colours.len(), COLOURS);
            let back = luminance(&value(sheet, "back"));
            assert!(contrast(luminance(&value(sheet, "front")), back) > 7.0);
            assert!(contrast(luminance(&value(sheet, "soft")), back) > 4.5);
            assert!(colours.iter().all(|colour| contrast(luminance(colour), back) > 2.0), "{colours:?}");
        }
        for at in 0..COLOURS {
            assert!(style.contains(&format!(".s{at}{{--c:var(--c{at})")), "{at}");
        }
    }
}
