//! Values of an experiment's parameters from Python: numbers, words, seconds, or text as for the command.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use softtimers_measure::units::{self, SendRate};
use softtimers_sim::{Kind, Parameter, Setting};

/// Reads the value of a parameter.
///
/// # Errors
/// `ValueError` that says what is allowed.
pub(crate) fn read(parameter: &Parameter, value: &Bound<'_, PyAny>) -> PyResult<Setting> {
    let kind = parameter.kind;
    let read = if let Ok(text) = value.extract::<String>() {
        parse(kind, &text)
    } else if value.is_none() {
        parse(kind, NONE)
    } else if let Ok(switch) = value.cast::<PyBool>() {
        parse(kind, if switch.is_true() { "yes" } else { "no" })
    } else if let (Kind::Time { .. }, Ok(time)) = (kind, value.extract::<Duration>()) {
        within(kind, time)
    } else if let (Kind::Time { .. }, Ok(seconds)) = (kind, value.extract::<f64>()) {
        let nanos = (seconds * 1e9).round();
        within(kind, if seconds >= 0.0 { Duration::from_nanos(nanos as u64) } else { Duration::MAX })
    } else {
        parse(kind, &value.str()?.extract::<String>()?)
    };
    read.map_err(|allowed| {
        let (name, given) = (parameter.name.replace('-', "_"), value.to_string());
        PyValueError::new_err(format!("{name}={given}: {allowed}"))
    })
}

/// Reads the command's text for it, except recordings.
///
/// # Errors
/// Says what is allowed, in a few words.
pub(crate) fn parse(kind: Kind, text: &str) -> Result<Setting, String> {
    match kind {
        Kind::Count { least, most } => whole(text, least, most).map(Setting::Count),
        Kind::PerSecond { least, most } => {
            let with_unit = match units::rate(text) {
                Ok(SendRate::PacketsPerSecond(rate)) => Some(rate),
                _ => None,
            };
            let rate = text.parse().ok().or(with_unit).filter(|rate| (least..=most).contains(rate));
            rate.map(Setting::Count).ok_or_else(|| format!("a rate from {least} to {most} a second"))
        }
        Kind::Limit { .. } if text == NONE => Ok(Setting::Limit(None)),
        Kind::Limit { least, most } => {
            let count = whole(text, least, most).map_err(|allowed| format!("{allowed}, or None"))?;
            Ok(Setting::Limit(Some(count)))
        }
        Kind::Real { least, most } => {
            let number = text.parse().ok().filter(|number| (least..=most).contains(number));
            number.map(Setting::Real).ok_or_else(|| format!("a number from {least} to {most}"))
        }
        Kind::Time { .. } => within(kind, units::duration(text).map_err(|error| error.to_string())?),
        Kind::Choice(words) => {
            let word = words.iter().find(|&&word| word == text);
            word.map(|word| Setting::Choice(word)).ok_or_else(|| format!("one of {}", words.join(", ")))
        }
        Kind::Trace if text == NONE => Ok(Setting::Trace(None)),
        Kind::Trace => Err("recordings are read by the command, `softtimers sim`, alone".to_owned()),
    }
}

fn within(kind: Kind, time: Duration) -> Result<Setting, String> {
    match kind {
        Kind::Time { least, most } if !(least..=most).contains(&time) => Err(format!(
            "a time from {} to {}, in seconds or as text with a unit",
            Setting::Time(least),
            Setting::Time(most)
        )),
        _ => Ok(Setting::Time(time)),
    }
}

fn whole(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| (least..=most).contains(count));
    count.ok_or_else(|| format!("a whole number from {least} to {most}"))
}

const NONE: &str = "none";
