//! The axes of a figure: the positions of values, and the ticks.
//!
//! All scales are made linear here, so that drawing code deals with one kind of axis:
//!
//! ```text
//!   Log     1     10    100   1,000          Nines   0    90%   99%   99.9%     the tail is what matters,
//!           0      1     2      3                    0     1     2      3       and each nine is as wide
//! ```

use serde::Serialize;

use super::digits::digits;

/// An edge of a figure, and its values.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Axis {
    /// The name of the quantity.
    pub name: String,
    /// The unit; empty for names.
    pub unit: String,
    /// The scale of the axis.
    pub scale: Scale,
}

/// The scale along an axis.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Linear, from zero on.
    Linear,
    /// Logarithmic: all decades have the same width; zero and negative values have no position.
    Log,
    /// Shares from 0 to below 1: each additional nine has the same width.
    Nines,
    /// Names, at 0, 1, 2, …
    Names(Vec<String>),
}

impl Axis {
    /// An axis.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, scale: Scale) -> Self {
        Axis { name: name.into(), unit: unit.into(), scale }
    }

    /// The label: the name, and the unit in parentheses if there is one.
    pub fn label(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{} ({})", self.name, self.unit) }
    }

    /// Returns a value as a cell of a table.
    pub fn show(&self, value: f64) -> String {
        match &self.scale {
            Scale::Names(names) => names.get(value.round().max(0.0) as usize).cloned().unwrap_or_default(),
            Scale::Nines => format!("{}", (value * 1e5).round() / 1e3),
            _ => digits(Some(value)),
        }
    }

    /// Returns the position of a value; `None` if it has none on this scale.
    pub fn place(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Log => (value > 0.0).then(|| value.log10()),
            Scale::Nines => (0.0..1.0).contains(&value).then(|| -(1.0 - value).log10()),
            _ => Some(value),
        };
        place.filter(|place| place.is_finite())
    }

    /// Returns the range of positions that includes these.
    pub fn range(&self, places: impl Iterator<Item = f64>) -> (f64, f64) {
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        places.for_each(|place| (least, greatest) = (least.min(place), greatest.max(place)));
        if least > greatest {
            return (0.0, 1.0);
        }
        match &self.scale {
            Scale::Names(names) => (-0.6, names.len().max(1) as f64 - 0.4),
            Scale::Linear => {
                let (least, greatest) = (least.min(0.0), greatest.max(0.0));
                let room = (greatest - least).max(1e-9) * 0.04;
                (if least < 0.0 { least - room } else { 0.0 }, greatest + room)
            }
            Scale::Nines => (0.0, greatest.max(1.0) + 0.1),
            Scale::Log => {
                let room = ((greatest - least) * 0.05).max(0.08);
                (least - room, greatest + room)
            }
        }
    }

    /// Returns the ticks between two positions, each with its text, in ascending order.
    pub fn ticks(&self, (least, greatest): (f64, f64)) -> Vec<(f64, String)> {
        match &self.scale {
            Scale::Names(names) => {
                names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect()
            }
            Scale::Linear => linear(least, greatest),
            Scale::Log => decades(least, greatest),
            Scale::Nines => {
                let nines = std::iter::once(0.5).chain((1..9).map(|nines| 1.0 - 0.1f64.powi(nines)));
                let ticks = std::iter::once((0.0, "0".to_owned()))
                    .chain(nines.map(|share| (-(1.0 - share).log10(), self.show(share))));
                ticks.filter(|&(place, _)| place <= greatest).collect()
            }
        }
    }
}

/// Returns some five round numbers.
fn linear(least: f64, greatest: f64) -> Vec<(f64, String)> {
    let width = (greatest - least).max(f64::MIN_POSITIVE);
    let decade = 10f64.powf((width / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * decade).into_iter().find(|step| width / step <= 6.0);
    let step = step.filter(|step| step.is_normal()).unwrap_or(width);
    let first = (least / step).ceil();
    let ticks = (0..12).map(|at| (first + f64::from(at)) * step).take_while(|&tick| tick <= greatest);
    ticks.map(|tick| (tick, short(tick, step))).collect()
}

/// Returns powers of ten, and where there are few of them their doubles and fivefolds.
fn decades(least: f64, greatest: f64) -> Vec<(f64, String)> {
    if greatest - least < 0.7 {
        // A narrow range may contain no round power at all.
        let (from, to) = (10f64.powf(least), 10f64.powf(greatest));
        return linear(from, to).into_iter().map(|(tick, text)| (tick.log10(), text)).collect();
    }
    let times: &[f64] = match greatest - least {
        width if width < 1.1 => &[1.0, 2.0, 3.0, 5.0, 7.0],
        width if width < 2.6 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let powers = (least.floor() as i32)..=(greatest.ceil() as i32);
    let stride = (powers.clone().count() / 9).max(1);
    let ticks = powers.step_by(stride).flat_map(|power| times.iter().map(move |&times| (power, times)));
    let ticks = ticks.map(|(power, times)| times * 10f64.powi(power));
    let within = ticks.map(|tick| (tick.log10(), short(tick, tick)));
    within.filter(|&(place, _)| (least..=greatest).contains(&place)).collect()
}

/// Returns a tick's text, for a multiple of `step`.
fn short(value: f64, step: f64) -> String {
    let (unit, divisor) = match value.abs() {
        size if size >= 1e9 => ("G", 1e9),
        size if size >= 1e6 => ("M", 1e6),
        size if size >= 1e4 => ("k", 1e3),
        _ => ("", 1.0),
    };
    let places = (-(step / divisor).log10().floor()).clamp(0.0, 9.0) as usize;
    let shown = format!("{:.places$}", value / divisor);
    let shown = if shown.contains('.') { shown.trim_end_matches('0').trim_end_matches('.') } else { &shown };
    let shown = if shown == "-0" { "0" } else { shown };
    format!("{shown}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: Scale, least: f64, greatest: f64) -> Vec<String> {
        let ticks = Axis::new("a", "b", scale).ticks((least, greatest));
        assert!(ticks.is_sorted_by(|one, next| one.0 < next.0), "{ticks:?}");
        ticks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(texts(Scale::Linear, 0.0, 104.0), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(Scale::Linear, 0.0, 0.52), ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(texts(Scale::Linear, 0.0, 14_000.0), ["0", "5000", "10k"]);
        assert_eq!(texts(Scale::Log, 0.0, 4.1), ["1", "10", "100", "1000", "10k"]);
        assert_eq!(texts(Scale::Log, 0.9, 2.05), ["10", "20", "50", "100"]);
        assert_eq!(texts(Scale::Nines, 0.0, 3.1), ["0", "50", "90", "99", "99.9"]);
    }

    #[test]
    fn no_range_is_too_odd_for_an_axis() {
        for scale in [Scale::Linear, Scale::Log, Scale::Nines, Scale::Names(vec![])] {
            let axis = Axis::new("a", "b", scale);
            for values in
                [vec![], vec![0.0], vec![5.0; 3], vec![-1e18, 1e18], vec![1e-300, 1e18], vec![0.999_999]]
            {
                let range = axis.range(values.iter().filter_map(|&value| axis.place(value)));
                assert!(range.0 < range.1, "{axis:?} {values:?} {range:?}");
                let ticks = axis.ticks(range);
                assert!(
                    ticks.len() <= 400 && ticks.iter().all(|tick| tick.0.is_finite()),
                    "{axis:?}: {ticks:?}"
                );
            }
        }
    }

    #[test]
    fn what_has_no_place_has_none() {
        let log = Axis::new("a", "b", Scale::Log);
        assert_eq!(
            [0.0, -1.0, 100.0, f64::INFINITY].map(|value| log.place(value)),
            [None, None, Some(2.0), None]
        );
        let nines = Axis::new("a", "b", Scale::Nines);
        assert_eq!([1.0, 0.9, -0.1].map(|value| nines.place(value).map(f64::round)), [None, Some(1.0), None]);
    }
}
