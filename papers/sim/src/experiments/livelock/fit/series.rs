//! The published series, each once, and a model's distance from them: [`series`], [`Distance`].

use crate::experiments::livelock::figures::{Point, points};

/// A curve of the paper.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Series {
    /// The figure of the journal's version.
    pub(super) figure: &'static str,
    pub(super) name: &'static str,
    pub(super) points: Vec<Point>,
    /// The largest of its outputs.
    pub(super) peak: f64,
    /// The scatter of its points about a smooth curve, as a share of the peak: no model of a mean can be
    /// closer.
    pub(super) scatter: f64,
}

/// The figures that can be left out of a fit.
pub(super) const FIGURES: &[&str] = &["none", "2", "5", "6", "7", "9", "10"];

/// All series. Some appear in two figures of the paper; then the figure that is about them counts.
pub(super) fn series() -> Vec<Series> {
    let mut all: Vec<Series> = vec![];
    for point in points() {
        let figure = match (point.figure, point.series) {
            ("6-1", _) => "2",
            ("6-3", "no polling (modified kernel)") => "5",
            ("6-4", "polling no feedback, screend") => "6",
            ("6-5", _) => "7",
            ("6-6", _) => "9",
            ("7-1", _) => "10",
            _ => continue,
        };
        match all.last_mut() {
            Some(last) if (last.figure, last.name) == (figure, point.series) => last.points.push(point),
            _ => {
                all.push(Series { figure, name: point.series, points: vec![point], peak: 0.0, scatter: 0.0 });
            }
        }
    }
    for series in &mut all {
        series.points.sort_by(|one, other| one.input.total_cmp(&other.input));
        series.peak = series.points.iter().map(|point| point.output).fold(0.0, f64::max);
        series.scatter = series.scattered();
    }
    all
}

impl Series {
    /// Each point against the line through its neighbours (Gasser, Sroka and Jennen-Steinmetz 1986).
    fn scattered(&self) -> f64 {
        let squares = self.points.windows(3).map(|three| {
            let [before, at, after] = [three[0], three[1], three[2]];
            let share = (after.input - at.input) / (after.input - before.input);
            let rest = 1.0 - share;
            let off = share * before.output + rest * after.output - at.output;
            off * off / (share * share + rest * rest + 1.0)
        });
        let pairs = self.points.len().saturating_sub(2).max(1);
        (squares.sum::<f64>() / pairs as f64).sqrt() / self.peak
    }
    /// The standard deviation used for a point, as a share of the peak.
    pub(super) fn deviation(&self) -> f64 {
        self.scatter.max(LEAST_DEVIATION)
    }
}

/// The lower bound: no plot was read more exactly, and otherwise one smooth curve would outweigh all others.
const LEAST_DEVIATION: f64 = 0.02;

/// The distance of a model from points, as shares of their series' peaks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Distance {
    pub(super) points: usize,
    /// The mean of the differences: above zero where the model has more.
    pub(super) bias: f64,
    /// The root of the mean of their squares.
    pub(super) rms: f64,
}

impl Distance {
    /// The figures of at least one residual.
    pub(super) fn from_residuals(residuals: &[f64]) -> Self {
        let mean = |sum: f64| sum / residuals.len().max(1) as f64;
        Distance {
            points: residuals.len(),
            bias: mean(residuals.iter().sum()),
            rms: mean(residuals.iter().map(|residual| residual * residual).sum()).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_point_is_in_one_series() {
        let all = series();
        let distinct: usize = all.iter().map(|series| series.points.len()).sum();
        assert_eq!((points().count(), distinct, all.len()), (543, 417, 18));
        // The rest are the same series in another figure, to the tenth of a packet by which two readings of a
        // plot differ.
        for point in points() {
            let same = |other: &&Point| {
                (point.input - other.input).abs() < 0.1 && (point.output - other.output).abs() < 0.2
            };
            assert!(all.iter().flat_map(|series| &series.points).any(|other| same(&other)), "{point:?}");
        }
        assert!(all.iter().all(|series| FIGURES.contains(&series.figure)));
    }

    #[test]
    fn scatter_is_what_no_smooth_curve_has() {
        let of = |outputs: &[f64]| {
            let points = outputs.iter().zip(1u8..).map(|(&output, at)| Point {
                figure: "",
                series: "",
                input: f64::from(at * at),
                output,
            });
            Series { figure: "", name: "", points: points.collect(), peak: 10.0, scatter: 0.0 }.scattered()
        };
        assert!(of(&[1.0, 4.0, 9.0, 16.0, 25.0]) < 1e-12, "a line");
        let up_and_down = [0.0, 1.0].repeat(200);
        let squares: Vec<f64> = up_and_down[..200].to_vec();
        // Evenly spaced it would be √(1 ∕ 1.5) of the amplitude.
        assert!((0.07..0.09).contains(&of(&squares[..15])), "{}", of(&squares[..15]));
    }

    #[test]
    fn bias_has_a_sign_and_rms_has_none() {
        let found = Distance::from_residuals(&[0.1, -0.3]);
        assert!((found.bias + 0.1).abs() < 1e-12 && (found.rms - 0.05f64.sqrt()).abs() < 1e-12);
        assert_eq!(found.points, 2);
    }
}
