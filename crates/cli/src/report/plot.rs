//! A figure as SVG that stands inside a page: a legend above, axes with units, and marks that differ by shape and dash as
//! well as by colour.
//!
//! plotters draws the axes and all marks; [`axis`](super::axis) has made every scale linear before, and
//! [`palette`] says why the colours are fixed. The drawing is told to people who cannot see it by
//! its title and description.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Scale;
use super::figure::{Figure, Mark, Series};
use super::markup::escape;
use super::palette::{self, GRID, TEXT};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Broken<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// The figure as an `svg` element; `id` is unique in the page. `None` if nothing of it has a place on its axes.
pub(super) fn svg(figure: &Figure, id: &str) -> Option<String> {
    let placed: Vec<Vec<(f64, f64)>> = figure.series.iter().map(|series| placed(figure, series)).collect();
    if placed.iter().all(Vec::is_empty) {
        return None;
    }
    let legend = Legend::of(figure);
    let height = PLOT_HEIGHT + legend.height();
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, height as u32)).into_drawing_area();
        // Text in memory cannot fail to be written; if plotters finds something else, there is no figure.
        draw(&root, figure, &placed, &legend).ok()?;
        root.present().ok()?;
    }
    let (_, drawing) = text.split_once('>')?;
    let hatch = if figure.series.iter().any(|series| series.unfit.is_some()) {
        let top = legend.height();
        format!(
            "<defs><pattern id=\"{id}-hatch\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><path class=\"hatch\" d=\"M0 0V8\"/></pattern></defs><rect class=\"hatched\" x=\"0\" y=\"{top}\" width=\"{WIDTH}\" height=\"{PLOT_HEIGHT}\" fill=\"url(#{id}-hatch)\"/>"
        )
    } else {
        String::new()
    };
    Some(format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-title {id}-text\">\
         <title id=\"{id}-title\">{}</title><desc id=\"{id}-text\">{}</desc>{hatch}{}",
        escape(&figure.title),
        escape(&description(figure)),
        drawing.trim()
    ))
}

/// What the figure says to who cannot see it: its own words, and the span of each series.
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

fn placed(figure: &Figure, series: &Series) -> Vec<(f64, f64)> {
    let place = |&(x, y): &(f64, f64)| Some((figure.x.place(x)?, figure.y.place(y)?));
    series.points.iter().filter_map(place).collect()
}

fn draw<'a>(
    root: &Area<'a>,
    figure: &Figure,
    placed: &[Vec<(f64, f64)>],
    legend: &Legend,
) -> Result<(), Broken<'a>> {
    let all = || placed.iter().flatten();
    let (x, y) = (figure.x.range(all().map(|place| place.0)), figure.y.range(all().map(|place| place.1)));
    // A bar stands on something.
    let bars = figure.series.iter().any(|series| series.mark == Mark::Bars);
    let y = if bars && figure.y.scale == Scale::Log { (y.0.floor(), y.1) } else { y };
    let (across, up) =
        (Edge { range: x, ticks: figure.x.ticks(x) }, Edge { range: y, ticks: figure.y.ticks(y) });
    let style = ("sans-serif", TEXT_SIZE).into_font().color(&TEXT.light);
    let longest = up.ticks.iter().map(|tick| tick.1.chars().count()).max().unwrap_or(0) as i32;
    let (_, plot) = root.split_vertically(legend.height());
    let mut chart = ChartBuilder::on(&plot)
        .margin_top(8)
        .margin_right(22)
        .margin_bottom(4)
        .x_label_area_size(48)
        .y_label_area_size((longest * 8 + 36).clamp(58, 280))
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .bold_line_style(GRID.light)
        .axis_style(TEXT.light)
        .x_label_style(style.clone())
        .y_label_style(style.clone())
        .axis_desc_style(style)
        .x_desc(escape_controls(&figure.x.label()))
        .y_desc(escape_controls(&figure.y.label()))
        .draw()?;
    let bars: Vec<usize> =
        (0..figure.series.len()).filter(|&at| figure.series[at].mark == Mark::Bars).collect();
    let floor = if figure.y.scale == Scale::Linear { 0.0 } else { y.0 };
    for (at, (series, places)) in figure.series.iter().zip(placed).enumerate() {
        let slot = (bars.iter().position(|&bar| bar == at).unwrap_or(0), bars.len().max(1));
        marks(root, series, places, (slot, floor), |place| chart.backend_coord(place))?;
    }
    legend.draw(root, figure)
}

/// The points of a series; of bars, which of how many side by side they are, and what they stand on.
fn marks<'a>(
    root: &Area<'a>,
    series: &Series,
    places: &[(f64, f64)],
    ((slot, slots), floor): ((usize, usize), f64),
    pixel: impl Fn(&(f64, f64)) -> (i32, i32),
) -> Result<(), Broken<'a>> {
    let colour = shade(series);
    let ink = palette::of(colour).light;
    let mut pixels = places.iter().map(&pixel);
    match series.mark {
        Mark::Bars => places.iter().try_for_each(|&(middle, top)| {
            let width = 0.8 / slots as f64;
            let left = middle - 0.4 + slot as f64 * width;
            let corners = [(left, top), (left + width * 0.92, floor)].map(|corner| pixel(&corner));
            root.draw(&Rectangle::new(corners, ink.filled()))
        }),
        Mark::Ticks => places.iter().try_for_each(|&(across, up)| {
            let [(left, low), (_, high)] = [(across, up - 0.33), (across, up + 0.33)].map(|end| pixel(&end));
            root.draw(&Rectangle::new([(left, high), (left + 1, low)], ink.filled()))
        }),
        Mark::Line => {
            let line: Vec<(i32, i32)> = pixels.collect();
            root.draw(&PathElement::new(line.clone(), ink.stroke_width(2)))?;
            let stride = line.len().div_ceil(MOST_MARKS).max(1);
            line.into_iter().step_by(stride).try_for_each(|at| marker(root, at, colour, true))
        }
        // In the colour of axes, for it is none of the series.
        Mark::Rule => root.draw(&PathElement::new(pixels.collect::<Vec<_>>(), TEXT.light.stroke_width(1))),
        Mark::Points => pixels.try_for_each(|at| marker(root, at, colour, true)),
        Mark::Paper => pixels.try_for_each(|at| marker(root, at, colour, false)),
    }
}

/// An edge of the plot: its ticks are made already, and everything on it is linear.
struct Edge {
    range: (f64, f64),
    ticks: Vec<(f64, String)>,
}

impl Ranged for Edge {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (from, to): (i32, i32)) -> i32 {
        let (least, greatest) = self.range;
        from + (f64::from(to - from) * (place - least) / (greatest - least)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // There are no light lines between the ticks.
        if hint.weight().allow_light_points() {
            vec![]
        } else {
            self.ticks.iter().map(|tick| tick.0).collect()
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.0..self.range.1
    }
}

impl ValueFormatter<f64> for Edge {
    fn format(place: &f64) -> String {
        place.to_string()
    }

    fn format_ext(&self, place: &f64) -> String {
        self.ticks.iter().find(|tick| tick.0 == *place).map_or_else(String::new, |tick| shortened(&tick.1))
    }
}

/// A series' colour; grey if it cannot be compared.
fn shade(series: &Series) -> usize {
    if series.unfit.is_some() { palette::GREY } else { series.colour }
}

/// One of four shapes, filled or hollow.
fn marker<'a>(root: &Area<'a>, (x, y): (i32, i32), colour: usize, filled: bool) -> Result<(), Broken<'a>> {
    let ink = palette::of(colour).light;
    // All but opaque, by which the style sheet knows it from a line, which has a dash.
    let style = if filled { ink.filled() } else { ink.mix(0.99).stroke_width(2) };
    let shape: &[(i32, i32)] = match colour % 4 {
        0 => return root.draw(&Circle::new((x, y), 4, style)),
        1 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        2 => &[(0, -5), (5, 4), (-5, 4)],
        _ => &[(0, -6), (5, 0), (0, 6), (-5, 0)],
    };
    let around = |closed: bool| {
        let corners = shape.iter().chain(closed.then_some(&shape[0]));
        corners.map(|&(right, down)| (x + right, y + down)).collect::<Vec<_>>()
    };
    match filled {
        true => root.draw(&Polygon::new(around(false), style)),
        false => root.draw(&PathElement::new(around(true), style)),
    }
}

/// Names with their marks, in rows above the plot.
struct Legend {
    /// Of each series, where its mark stands.
    places: Vec<(i32, i32)>,
    rows: i32,
}

impl Legend {
    fn of(figure: &Figure) -> Self {
        let (mut places, mut at, mut row) = (vec![], LEGEND_LEFT, 0);
        for series in &figure.series {
            // plotters has no font to measure by; the widest usual one stays within this.
            let width = 44 + (shortened(&series.name).chars().count() as f64 * TEXT_SIZE * 0.49) as i32;
            if at > LEGEND_LEFT && at + width > WIDTH as i32 {
                (at, row) = (LEGEND_LEFT, row + 1);
            }
            places.push((at, 14 + row * LEGEND_ROW));
            at += width + 14;
        }
        Legend { places, rows: row + 1 }
    }

    fn height(&self) -> i32 {
        self.rows * LEGEND_ROW + 8
    }

    fn draw<'a>(&self, root: &Area<'a>, figure: &Figure) -> Result<(), Broken<'a>> {
        for (series, &(x, y)) in figure.series.iter().zip(&self.places) {
            let ink = palette::of(shade(series)).light;
            match series.mark {
                Mark::Bars => {
                    root.draw(&Rectangle::new([(x + 8, y - 6), (x + 26, y + 6)], ink.filled()))?;
                }
                Mark::Ticks => {
                    for right in [6, 14, 22] {
                        let stroke = [(x + right, y - 6), (x + right + 1, y + 6)];
                        root.draw(&Rectangle::new(stroke, ink.filled()))?;
                    }
                }
                Mark::Rule => {
                    root.draw(&PathElement::new(vec![(x, y), (x + 30, y)], TEXT.light.stroke_width(1)))?;
                }
                mark => {
                    if mark == Mark::Line {
                        root.draw(&PathElement::new(vec![(x, y), (x + 30, y)], ink.stroke_width(2)))?;
                    }
                    marker(root, (x + 15, y), shade(series), mark != Mark::Paper)?;
                }
            }
            let style = ("sans-serif", TEXT_SIZE).into_font().color(&TEXT.light);
            let style = style.pos(Pos::new(HPos::Left, VPos::Center));
            root.draw(&Text::new(shortened(&series.name), (x + 36, y), style))?;
        }
        Ok(())
    }
}

/// A name that a legend has room for, without what a terminal or XML would choke on.
fn shortened(name: &str) -> String {
    let name = escape_controls(name);
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

/// plotters escapes what is special in XML, but not what XML has no way to say.
fn escape_controls(text: &str) -> String {
    text.chars().map(|c| if super::markup::is_xml(c) && c != '\n' { c } else { '\u{FFFD}' }).collect()
}

/// In the units of the drawing; a page scales it.
const WIDTH: u32 = 760;
const PLOT_HEIGHT: i32 = 380;
const LEGEND_LEFT: i32 = 16;
const LEGEND_ROW: i32 = 22;
/// plotters divides it by 1.24 for the font's size.
const TEXT_SIZE: f64 = 16.0;
const LONGEST_NAME: usize = 60;
/// On one line, so that they do not hide it.
const MOST_MARKS: usize = 30;

#[cfg(test)]
mod tests {
    use super::super::axis::Axis;
    use super::*;

    fn figure(mark: Mark, x: Scale, y: Scale, points: &[(f64, f64)]) -> Figure {
        let series = (0..3).map(|at| Series::of(mark, at, "<a> & \u{1} b", points.iter().copied()));
        Figure {
            title: "a <title>".into(),
            text: "Words & more.".into(),
            x: Axis::new("x", "µs", x),
            y: Axis::new("y", "s", y),
            series: series.collect(),
        }
    }

    #[test]
    fn every_mark_on_every_scale_is_well_formed() {
        let names = Scale::Names(vec!["one".into(), "<two>".into()]);
        for mark in [Mark::Line, Mark::Points, Mark::Paper, Mark::Ticks, Mark::Bars, Mark::Rule] {
            for x in [Scale::Linear, Scale::Log, Scale::Nines, names.clone()] {
                for y in [Scale::Linear, Scale::Log, names.clone()] {
                    let points = [(0.1, 1.0), (0.5, 10.0), (0.9, 0.0), (0.99, 1e15)];
                    let Some(svg) = svg(&figure(mark, x.clone(), y, &points), "f1") else {
                        panic!("nothing drawn")
                    };
                    let document =
                        roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
                    let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
                    assert!(texts.iter().any(|text| text.trim() == "x (µs)"), "{svg}");
                    assert!(!svg.contains("NaN") && !svg.contains("xmlns"), "{svg}");
                }
            }
        }
    }

    #[test]
    fn what_has_no_place_is_no_figure() {
        assert_eq!(svg(&figure(Mark::Line, Scale::Log, Scale::Log, &[(0.0, 1.0), (1.0, -1.0)]), "f"), None);
    }

    #[test]
    fn colours_are_those_of_the_palette() {
        let svg = svg(&figure(Mark::Bars, Scale::Linear, Scale::Linear, &[(1.0, 1.0)]), "f").unwrap();
        let colours = svg.split("\"#").skip(1).map(|rest| format!("#{}", &rest[..6]));
        let rules = palette::rules();
        for colour in colours {
            assert!(rules.contains(&colour), "{colour}");
        }
    }
}
