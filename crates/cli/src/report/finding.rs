//! Sentences that compare: each is computed from the series that are drawn, and there is none where one of these is unfit.

use serde::Serialize;

use super::digits::{digits, percent};
use super::figure::{Figure, Mark, Series};

/// A comparison.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Finding {
    /// The sentence.
    pub(crate) text: String,
    /// The series that it names as the best; `null` if two are within a tenth of each other.
    pub(crate) winner: Option<String>,
}

impl Finding {
    /// Which series is lowest at a place.
    pub(super) fn lowest(figure: &Figure, at: f64) -> Option<Self> {
        let value = |series: &Series| series.points.iter().find(|point| point.0 == at).map(|point| point.1);
        let mut ranked = compared(figure, value)?;
        ranked.sort_by(|one, next| one.1.total_cmp(&next.1));
        let [(best, least), (second, more), ..] = ranked[..] else { return None };
        let place = figure.x.show(at);
        let [low, high] = [least, more].map(|value| format!("{} {}", digits(Some(value)), figure.y.unit));
        let (title, count) = (&figure.title, ranked.len());
        let clear = more > 1.1 * least;
        let text = if clear {
            format!(
                "{title}: {best} is lowest of {count} at percentile {place}, {low}; next is {second}, {high}."
            )
        } else {
            format!(
                "{title}: no clear winner of {count} at percentile {place}: {best} {low}, {second} {high}."
            )
        };
        Some(Finding { text, winner: clear.then(|| best.to_owned()) })
    }

    /// How much of its peak each series keeps at its greatest x.
    pub(super) fn retained(figure: &Figure) -> Option<Self> {
        let value = |series: &Series| {
            let peak =
                series.points.iter().map(|point| point.1).reduce(f64::max).filter(|&peak| peak > 0.0)?;
            series.points.iter().max_by(|one, next| one.0.total_cmp(&next.0)).map(|last| last.1 / peak)
        };
        let mut ranked = compared(figure, value)?;
        ranked.sort_by(|one, next| next.1.total_cmp(&one.1));
        let [(best, most), (second, less), ..] = ranked[..] else { return None };
        let [high, low] = [most, less].map(|share| percent(Some(share)));
        let text = format!("At the highest load {best} delivered {high} of its peak, {second} {low}.");
        Some(Finding { text, winner: (most > 1.1 * less).then(|| best.to_owned()) })
    }
}

/// Each of our series with its value; `None` if one of them cannot be compared.
fn compared(figure: &Figure, value: impl Fn(&Series) -> Option<f64>) -> Option<Vec<(&str, f64)>> {
    if figure.series.iter().any(|series| series.unfit.is_some()) {
        return None;
    }
    let ours = figure.series.iter().filter(|series| !matches!(series.mark, Mark::Paper | Mark::Rule));
    Some(ours.filter_map(|series| Some((series.name.as_str(), value(series)?))).collect())
}
