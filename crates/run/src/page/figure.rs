//! The content of a section, as data: curves on two axes, and tables, independent of how they are drawn.
//!
//! ```text
//!   saved runs ──▶ Drawn { figures, tables, notes, lacks } ──▶ HTML with SVG, Markdown, JSON
//! ```
//!
//! A figure carries its own text alternative and all of its numbers, so that readers who cannot see it miss nothing.

use serde::Serialize;

use super::axis::Axis;
use super::digits::LARGEST;
use super::unfit::Reason;

/// The drawings of one section's runs.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Drawn {
    /// The pictures of the section.
    pub figures: Vec<Figure>,
    /// Tables that stand on their own.
    pub tables: Vec<Grid>,
    /// Remarks that a reader has to know, a sentence each.
    pub notes: Vec<String>,
    /// Missing parts, and the reasons, a sentence each.
    pub lacks: Vec<String>,
    /// Comparisons computed from the drawn series; none of a figure with an unfit one.
    pub findings: Vec<Finding>,
    /// Why some of it cannot be compared.
    #[serde(skip)]
    pub doubts: Vec<Reason>,
}

/// Series on two axes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// The heading of the figure.
    pub title: String,
    /// A description for readers who cannot see it: the axes, and the shape of the series.
    pub text: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series in the order of the legend.
    pub series: Vec<Series>,
    /// Parts of the horizontal axis that are shaded, from and until; strongly if true.
    #[serde(skip)]
    pub shades: Vec<(f64, f64, bool)>,
}

/// Points of one kind.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The mark by which it is drawn.
    pub mark: Mark,
    /// The number of its colour and shape, counted from zero; a paper's series and its counterpart here have the same.
    pub colour: usize,
    /// Why it cannot be compared; `null` if it can. Then it is grey on a hatched ground, or in colour if its run was
    /// only short.
    pub unfit: Option<Reason>,
    /// The points in the units of the axes, in order. Invalid numbers are left out.
    pub points: Vec<(f64, f64)>,
    /// The points that no line joins with the one before, because nothing was measured between them.
    #[serde(skip)]
    pub breaks: Vec<usize>,
}

/// The mark by which points are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// Points are joined, each marked.
    Line,
    /// Points stand alone, filled.
    Points,
    /// Points stand alone, hollow: a paper's.
    Paper,
    /// A short vertical line each: moments in time.
    Ticks,
    /// Points are joined without marks, behind the measurements: a target or a range, with its values in the name.
    Rule,
}

/// A comparison computed from a figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// The sentence of the comparison.
    pub text: String,
    /// The series named as the best; `null` if two are within a tenth of each other.
    pub winner: Option<String>,
}

/// Rows of text under a header.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Grid {
    /// The heading of the table.
    pub title: String,
    /// A name for each column, units included.
    pub head: Vec<String>,
    /// A text for each column in each row.
    pub rows: Vec<Vec<String>>,
}

impl Drawn {
    /// Records what is missing, and why.
    pub fn lacks(&mut self, what: impl Into<String>) {
        self.lacks.push(what.into());
    }

    /// Adds a remark.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Adds a figure with the series that have points, and records which of ours have none. Missing series of papers
    /// are not mentioned.
    pub fn figure(&mut self, mut figure: Figure) {
        let blank = |series: &&Series| series.points.is_empty() && series.mark != Mark::Paper;
        let blank: Vec<&str> =
            figure.series.iter().filter(blank).map(|series| series.name.as_str()).take(MOST_SERIES).collect();
        if !blank.is_empty() && blank.len() < figure.series.len() {
            self.lacks(format!("'{}': no figures of {}", figure.title, blank.join(", ")));
        }
        figure.series.retain(|series| !series.points.is_empty());
        figure.series.iter().filter_map(|series| series.unfit.as_ref()).for_each(|reason| self.doubt(reason));
        let too_many = figure.series.len().saturating_sub(MOST_SERIES);
        if too_many > 0 {
            figure.series.truncate(MOST_SERIES);
            self.lacks(format!("{too_many} of the series of '{}' are left out", figure.title));
        }
        if figure.series.is_empty() {
            self.lacks(format!("'{}': no figures in the saved run", figure.title));
        } else {
            self.figures.push(figure);
        }
    }

    /// Records why a part cannot be compared, once.
    pub fn doubt(&mut self, reason: &Reason) {
        if !self.doubts.contains(reason) {
            self.doubts.push(reason.clone());
        }
    }

    /// Adds a table, or records that it has no rows.
    pub fn table(&mut self, table: Grid) {
        if table.rows.is_empty() {
            self.lacks(format!("'{}': no rows in the saved run", table.title));
        } else {
            self.tables.push(table);
        }
    }

    /// Says whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty() && self.tables.is_empty()
    }
}

impl Series {
    /// Creates a series of points joined by lines.
    pub fn line(
        colour: usize,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        Series::of(Mark::Line, colour, name, points)
    }

    /// Creates a series of any kind; points without a position on an axis are left out.
    pub fn of(
        mark: Mark,
        colour: usize,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let sane = |value: f64| value.is_finite() && value.abs() < LARGEST;
        let points = points.into_iter().filter(|&(x, y)| sane(x) && sane(y)).take(MOST_POINTS).collect();
        Series { name: name.into(), mark, colour, unfit: None, points, breaks: vec![] }
    }

    /// Begins the line anew at these points.
    pub fn broken_at(self, breaks: Vec<usize>) -> Self {
        Series { breaks, ..self }
    }

    /// Marks it as based on a run that cannot be compared for this reason, if there is one.
    pub fn unless(self, unfit: Option<&Reason>) -> Self {
        Series { unfit: unfit.cloned(), ..self }
    }

    /// Says whether it is drawn grey: it was disturbed, not only short.
    pub fn is_grey(&self) -> bool {
        self.unfit.as_ref().is_some_and(|reason| !reason.short)
    }
}

impl Figure {
    /// Creates a figure without series.
    pub fn new(title: impl Into<String>, text: impl Into<String>, x: Axis, y: Axis) -> Self {
        Figure { title: title.into(), text: text.into(), x, y, series: vec![], shades: vec![] }
    }

    /// Adds series.
    pub fn with(mut self, series: impl IntoIterator<Item = Series>) -> Self {
        self.series.extend(series);
        self
    }

    /// Returns its numbers: a row for each x, a column for each series.
    pub fn data(&self) -> Grid {
        let told = || self.series.iter().filter(|series| series.mark != Mark::Rule);
        let mut places: Vec<f64> =
            told().flat_map(|series| series.points.iter().map(|point| point.0)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let names = told().map(|series| match self.y.unit.as_str() {
            "" => series.name.clone(),
            unit => format!("{} ({unit})", series.name),
        });
        let head = std::iter::once(self.x.label()).chain(names).collect();
        // Each column is walked once, in the order of x, since a figure may have thousands of points.
        let mut columns: Vec<Vec<(f64, f64)>> = told().map(|series| series.points.clone()).collect();
        columns.iter_mut().for_each(|column| column.sort_by(|one, next| one.0.total_cmp(&next.0)));
        let mut at = vec![0; columns.len()];
        let row = |&place: &f64| {
            let cells = columns.iter().zip(&mut at).map(|(column, at)| {
                let from = *at;
                while column.get(*at).is_some_and(|point| point.0 == place) {
                    *at += 1;
                }
                let values = column[from..*at].iter().map(|&(_, y)| self.y.show(y));
                values.collect::<Vec<_>>().join("; ")
            });
            let cells: Vec<String> = cells.collect();
            std::iter::once(self.x.show(place)).chain(cells).collect()
        };
        let rows = places.iter().map(row).collect();
        Grid { title: format!("{}: the numbers", self.title), head, rows }
    }
}

impl Grid {
    /// Creates a table without rows.
    pub fn new(title: impl Into<String>, head: &[&str]) -> Self {
        let head = head.iter().map(|&name| name.to_owned()).collect();
        Grid { title: title.into(), head, rows: vec![] }
    }

    /// Adds a row, as long as the head.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().collect();
        cells.resize(self.head.len(), String::new());
        if self.rows.len() < MOST_ROWS {
            self.rows.push(cells);
        }
    }
}

/// The most series that fit a legend and can be told apart.
const MOST_SERIES: usize = 12;
/// More than any experiment has, and few enough for the size of a page.
const MOST_POINTS: usize = 5_000;
const MOST_ROWS: usize = 5_000;

#[cfg(test)]
mod tests {
    use super::super::axis::{Axis, Scale};
    use super::*;

    fn figure(series: Vec<Series>) -> Figure {
        let axis = |name: &'static str, unit| Axis::new(name, unit, Scale::Linear);
        Figure::new("t", "a", axis("rate", "kHz"), axis("late", "µs")).with(series)
    }

    #[test]
    fn the_numbers_behind_are_rows_by_x() {
        let ours = Series::line(0, "ours", [(2.0, 20.0), (1.0, 10.0), (f64::NAN, 1.0), (1.0, 1e30)]);
        let paper = Series::of(Mark::Paper, 0, "paper", [(2.0, 21.0), (2.0, 22.0)]);
        let data = figure(vec![ours, paper]).data();
        assert_eq!(data.head, ["rate (kHz)", "ours (µs)", "paper (µs)"]);
        assert_eq!(data.rows, [vec!["1", "10", ""], vec!["2", "20", "21; 22"]]);
    }

    #[test]
    fn what_has_no_points_is_said_and_what_has_too_many_series_is_cut() {
        let mut drawn = Drawn::default();
        drawn.figure(figure(vec![Series::line(0, "none", [])]));
        drawn.table(Grid::new("rows", &["a"]));
        assert_eq!((drawn.is_empty(), drawn.lacks.len()), (true, 2));
        drawn.figure(figure((0..20).map(|at| Series::line(at, "x", [(1.0, 1.0)])).collect()));
        assert_eq!((drawn.figures[0].series.len(), drawn.lacks.len()), (12, 3));
        let paper = |points: Vec<_>| Series::of(Mark::Paper, 0, "paper", points);
        drawn.figure(figure(vec![Series::line(0, "ours", []), paper(vec![(1.0, 1.0)])]));
        assert_eq!(drawn.lacks[3], "'t': no figures of ours");
        drawn.figure(figure(vec![Series::line(0, "ours", [(1.0, 1.0)]), paper(vec![])]));
        assert_eq!((drawn.figures.len(), drawn.lacks.len()), (3, 4));
    }
}
