//! Targets of figures, and whether they are met: [`Bar`], [`Verdict`].

use std::fmt;

use serde::{Deserialize, Serialize};

use softtimers_measure::estimate::Estimate;

/// A figure, and the least or the most that it is to be.
///
/// A bar that lies within the 95% interval of the figure is neither met nor missed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bar {
    /// The figure that the bar is for.
    pub figure: String,
    /// The bound that the figure must meet.
    pub bound: f64,
    /// True if the bound is a minimum, false if it is a maximum.
    pub at_least: bool,
    /// The measured value; `None` if nothing was measured, or if it was disturbed.
    pub measured: Option<f64>,
    /// The interval in which it is with a confidence of 95%, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<[f64; 2]>,
}

/// The verdict on a bar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The bar is met.
    Met,
    /// The bar is missed.
    Missed,
    /// Nothing was measured, or the measurement cannot tell.
    Inconclusive,
}

/// A measured value, with its interval where there is one.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Value(Option<f64>, Option<[f64; 2]>);

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value(Some(value).filter(|value| value.is_finite()), None)
    }
}

impl From<Option<f64>> for Value {
    fn from(value: Option<f64>) -> Self {
        value.map_or_else(Value::default, Value::from)
    }
}

impl From<Estimate> for Value {
    fn from(estimate: Estimate) -> Self {
        Value(Some(estimate.median), estimate.interval)
    }
}

impl From<Option<Estimate>> for Value {
    fn from(estimate: Option<Estimate>) -> Self {
        estimate.map_or_else(Value::default, Value::from)
    }
}

impl Bar {
    /// The figure is to be at most `bound`.
    pub fn at_most(figure: impl Into<String>, bound: f64, measured: impl Into<Value>) -> Self {
        let Value(measured, within) = measured.into();
        Bar { figure: figure.into(), bound, at_least: false, measured, within }
    }

    /// The figure is to be at least `bound`.
    pub fn at_least(figure: impl Into<String>, bound: f64, measured: impl Into<Value>) -> Self {
        Bar { at_least: true, ..Bar::at_most(figure, bound, measured) }
    }

    /// The same bar, of which nothing is known if the measurement was disturbed.
    #[must_use]
    pub fn unless(self, disturbed: bool) -> Self {
        if disturbed { Bar { measured: None, within: None, ..self } } else { self }
    }

    /// Returns whether the bar is met.
    pub fn verdict(&self) -> Verdict {
        let is_met = |value: f64| if self.at_least { value >= self.bound } else { value <= self.bound };
        let Some(measured) = self.measured else { return Verdict::Inconclusive };
        match self.within.unwrap_or([measured; 2]).map(is_met) {
            [true, true] => Verdict::Met,
            [false, false] => Verdict::Missed,
            _ => Verdict::Inconclusive,
        }
    }
}

/// A row of [`Bar::HEAD`].
impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} |", self.cells().join(" | "))
    }
}

impl Bar {
    /// The head of a table of bars.
    pub const HEAD: &str = "| figure | bar | measured | |\n|---|---|---|---|";

    /// The figure, the bound, the measured value with its interval, and the verdict, as texts.
    pub fn cells(&self) -> [String; 4] {
        let sign = if self.at_least { "≥" } else { "≤" };
        let measured = self.measured.map_or("–".to_owned(), significant);
        let within =
            self.within.map(|[low, high]| format!(" ({} to {})", significant(low), significant(high)));
        let verdict = match self.verdict() {
            Verdict::Met => "met",
            Verdict::Missed => "**missed**",
            Verdict::Inconclusive => "inconclusive",
        };
        let bound = format!("{sign} {}", significant(self.bound));
        [self.figure.clone(), bound, measured + &within.unwrap_or_default(), verdict.to_owned()]
    }
}

/// Three significant digits; whole numbers as they are.
fn significant(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 100.0 {
        return format!("{value:.0}");
    }
    let digits = (2.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_without_a_figure_is_inconclusive() {
        let row = |measured: Option<f64>| Bar::at_most("a", 0.5, measured).to_string();
        assert_eq!(row(Some(0.25)), "| a | ≤ 0.500 | 0.250 | met |");
        assert_eq!(row(Some(0.75)), "| a | ≤ 0.500 | 0.750 | **missed** |");
        assert_eq!(
            (row(None), row(Some(f64::NAN))),
            (row(None), "| a | ≤ 0.500 | – | inconclusive |".into())
        );
        assert_eq!(Bar::at_least("a", 0.5, 0.5).verdict(), Verdict::Met);
        assert_eq!(Bar::at_least("a", 0.5, 0.5).unless(true).verdict(), Verdict::Inconclusive);
        assert_eq!(
            (significant(0.013_57), significant(1_234.5), significant(900.0)),
            ("0.0136".into(), "1234".into(), "900".into())
        );
    }

    #[test]
    fn a_bar_within_the_interval_is_inconclusive() {
        let of = |low, high| Bar { within: Some([low, high]), ..Bar::at_least("a", 0.5, 0.625) };
        assert_eq!(of(0.25, 0.75).to_string(), "| a | ≥ 0.500 | 0.625 (0.250 to 0.750) | inconclusive |");
        assert_eq!(of(0.5, 0.75).verdict(), Verdict::Met);
        assert_eq!(
            Bar { within: Some([0.1, 0.4]), ..Bar::at_least("a", 0.5, 0.25) }.verdict(),
            Verdict::Missed
        );
        let estimate = Estimate::from_values((1..=20).map(f64::from));
        assert_eq!(Bar::at_most("a", 12.0, estimate).verdict(), Verdict::Inconclusive);
        assert_eq!(Bar::at_most("a", 20.0, estimate).verdict(), Verdict::Met);
        assert_eq!(Bar::at_most("a", 20.0, None::<Estimate>).verdict(), Verdict::Inconclusive);
    }
}
