//! Sentences of comparison, computed from the drawn series; none if one of these is unfit.

use softtimers_run::page::axis::Scale;
use softtimers_run::page::digits::{digits, percent};
use softtimers_run::page::figure::{Figure, Finding, Mark, Series};

/// Finds the series that is lowest at a position.
pub(super) fn lowest(figure: &Figure, at: f64) -> Option<Finding> {
    let value = |series: &Series| series.points.iter().find(|point| point.0 == at).map(|point| point.1);
    let mut ranked = compared(figure, value)?;
    ranked.sort_by(|one, next| one.1.total_cmp(&next.1));
    let [(best, least), (second, more), ..] = ranked[..] else { return None };
    let place = match figure.x.scale {
        Scale::Nines => format!("p{}", figure.x.show(at)),
        _ => format!("{} {}", figure.x.show(at), figure.x.unit),
    };
    let [low, high] = [least, more].map(|value| format!("{} {}", digits(Some(value)), figure.y.unit));
    let (title, count) = (&figure.title, ranked.len());
    let clear = more > 1.1 * least;
    let text = if clear {
        format!("{title}: {best} is lowest of {count} at {place} with {low}; next is {second} with {high}.")
    } else {
        format!("{title}: no clear winner of {count} at {place}: {best} {low}, {second} {high}.")
    };
    Some(Finding { text, winner: clear.then(|| best.to_owned()) })
}

/// Finds the series that is lowest at the greatest x that all of ours have.
pub(super) fn lowest_at_the_end(figure: &Figure) -> Option<Finding> {
    let has = |series: &&Series, x: f64| series.points.iter().any(|point| point.0 == x);
    let (first, others) = ours(figure).next().map(|first| (first, ours(figure).skip(1)))?;
    let common =
        first.points.iter().map(|point| point.0).filter(|&x| others.clone().all(|other| has(&other, x)));
    lowest(figure, common.max_by(f64::total_cmp)?)
}

/// Compares the shares of their peaks that the series keep at the highest load.
pub(super) fn retained(figure: &Figure) -> Option<Finding> {
    let mut ranked = compared(figure, |series| Some(Plateau::from_points(&series.points)?.share()))?;
    ranked.sort_by(|one, next| next.1.total_cmp(&one.1));
    let [(_, most), (_, less), ..] = ranked[..] else { return None };
    let shares = ranked.iter().map(|(name, share)| format!("{name} {}", percent(Some(*share))));
    let shares = shares.collect::<Vec<_>>().join(", ");
    let text = format!("{}: throughput retained at the highest load, of each peak: {shares}.", figure.title);
    Some(Finding { text, winner: (most > 1.1 * less).then(|| ranked[0].0.to_owned()) })
}

/// The share of a curve's peak that remains at its right end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Plateau {
    /// The greatest y, above zero.
    pub(super) peak: f64,
    /// The mean of y from nine tenths of the greatest x on, as in `bench`.
    pub(super) end: f64,
}

impl Plateau {
    /// Returns `None` without a peak.
    pub(super) fn from_points(points: &[(f64, f64)]) -> Option<Self> {
        let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).reduce(f64::max);
        let (right, peak) = (most(|point| point.0)?, most(|point| point.1).filter(|&peak| peak > 0.0)?);
        let end = points.iter().filter(|point| point.0 >= 0.9 * right).map(|point| point.1);
        Some(Plateau { peak, end: end.clone().sum::<f64>() / end.count() as f64 })
    }

    pub(super) fn share(self) -> f64 {
        self.end / self.peak
    }
}

/// Returns the series that are neither a paper's nor reference lines.
fn ours(figure: &Figure) -> impl Iterator<Item = &Series> + Clone {
    figure.series.iter().filter(|series| !matches!(series.mark, Mark::Paper | Mark::Rule))
}

/// Returns each of our series with its value; `None` if one of them cannot be compared.
fn compared(figure: &Figure, value: impl Fn(&Series) -> Option<f64>) -> Option<Vec<(&str, f64)>> {
    if figure.series.iter().any(|series| series.unfit.is_some()) {
        return None;
    }
    Some(ours(figure).filter_map(|series| Some((series.name.as_str(), value(series)?))).collect())
}
