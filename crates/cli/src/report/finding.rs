//! Sentences that compare: each is computed from the series that are drawn, and there is none where one of these is unfit.

use super::axis::Scale;
use super::digits::{digits, percent};
use super::figure::{Figure, Finding, Mark, Series};

impl Finding {
    /// Finds the series that is lowest at a place.
    pub(super) fn lowest(figure: &Figure, at: f64) -> Option<Self> {
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
            format!(
                "{title}: {best} is lowest of {count} at {place} with {low}; next is {second} with {high}."
            )
        } else {
            format!("{title}: no clear winner of {count} at {place}: {best} {low}, {second} {high}.")
        };
        Some(Finding { text, winner: clear.then(|| best.to_owned()) })
    }

    /// Finds the series that is lowest at the greatest place that all of ours have.
    pub(super) fn lowest_at_the_end(figure: &Figure) -> Option<Self> {
        let has = |series: &&Series, x: f64| series.points.iter().any(|point| point.0 == x);
        let (first, others) = ours(figure).next().map(|first| (first, ours(figure).skip(1)))?;
        let common =
            first.points.iter().map(|point| point.0).filter(|&x| others.clone().all(|other| has(&other, x)));
        Finding::lowest(figure, common.max_by(f64::total_cmp)?)
    }

    /// Compares the shares of its peak that each series keeps at its greatest x.
    pub(super) fn retained(figure: &Figure) -> Option<Self> {
        let value = |series: &Series| {
            let peak =
                series.points.iter().map(|point| point.1).reduce(f64::max).filter(|&peak| peak > 0.0)?;
            series.points.iter().max_by(|one, next| one.0.total_cmp(&next.0)).map(|last| last.1 / peak)
        };
        let mut ranked = compared(figure, value)?;
        ranked.sort_by(|one, next| next.1.total_cmp(&one.1));
        let [(_, most), (_, less), ..] = ranked[..] else { return None };
        let shares = ranked.iter().map(|(name, share)| format!("{name} {}", percent(Some(*share))));
        let shares = shares.collect::<Vec<_>>().join(", ");
        let text =
            format!("{}: throughput retained at the highest load, of each peak: {shares}.", figure.title);
        Some(Finding { text, winner: (most > 1.1 * less).then(|| ranked[0].0.to_owned()) })
    }
}

/// The series that are not a paper's, nor a mark of the axes.
fn ours(figure: &Figure) -> impl Iterator<Item = &Series> + Clone {
    figure.series.iter().filter(|series| !matches!(series.mark, Mark::Paper | Mark::Rule))
}

/// Each of our series with its value; `None` if one of them cannot be compared.
fn compared(figure: &Figure, value: impl Fn(&Series) -> Option<f64>) -> Option<Vec<(&str, f64)>> {
    if figure.series.iter().any(|series| series.unfit.is_some()) {
        return None;
    }
    Some(ours(figure).filter_map(|series| Some((series.name.as_str(), value(series)?))).collect())
}
