//! Values of an experiment's parameters from Python: numbers, words, seconds, packets, or text as for the command.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use softtimers::{Timestamp, Trace, TraceBuilder};
use softtimers_measure::units::{self, SendRate};
use softtimers_sim::{Hashed, Kind, Parameter, Recording, Setting, Typed};

use crate::plan::{underscored, wrong};

/// Reads the value of a parameter.
///
/// # Errors
/// `ValueError` that says what is allowed.
pub(crate) fn read(parameter: &Parameter, value: &Bound<'_, PyAny>) -> PyResult<Setting> {
    read_kind(parameter.kind, &underscored(parameter.name), value)
}

/// Reads a value of this kind and name.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_kind(kind: Kind, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Setting> {
    let read = if let Ok(text) = value.extract::<String>() {
        TYPED.setting(kind, &text)
    } else if value.is_none() {
        TYPED.setting(kind, NONE)
    } else if let Ok(switch) = value.cast::<PyBool>() {
        TYPED.setting(kind, if switch.is_true() { "yes" } else { "no" })
    } else if let (Kind::Time { .. }, Ok(time)) = (kind, value.extract::<Duration>()) {
        within(kind, time)
    } else if let (Kind::Time { .. }, Ok(seconds)) = (kind, value.extract::<f64>()) {
        let nanos = (seconds * 1e9).round();
        within(kind, if seconds >= 0.0 { Duration::from_nanos(nanos as u64) } else { Duration::MAX })
    } else if let Kind::Trace = kind {
        return Ok(Setting::Trace(Some(recording(value)?)));
    } else {
        TYPED.setting(kind, &value.str()?.extract::<String>()?)
    };
    read.map_err(|why| {
        let allowed = match kind {
            Kind::Limit { least, most } => format!("a whole number from {least} to {most}, or None"),
            Kind::Time { .. } => format!("{kind}, in seconds or as text with a unit"),
            Kind::Trace => why,
            _ => kind.to_string(),
        };
        PyValueError::new_err(format!("{name}={value}: {allowed}"))
    })
}

/// Reads packets, each a time in whole nanoseconds and a length in bytes.
///
/// # Errors
/// `ValueError` if one is earlier than one before it, or there is none; `TypeError` or `OverflowError` if one is something else.
pub(crate) fn packets(packets: &Bound<'_, PyAny>) -> PyResult<Trace> {
    let mut trace = TraceBuilder::default();
    for packet in packets.try_iter()? {
        let (time, length): (u64, u16) = packet?.extract()?;
        trace.push(Timestamp::from_nanos(time), length);
    }
    if trace.out_of_order() > 0 {
        return Err(wrong(format!(
            "{} packets come before one that is earlier in the list",
            trace.out_of_order()
        )));
    }
    trace.finish().ok_or_else(|| wrong("there are no packets"))
}

/// Packets as a recording, which has the hash of lines of their times and lengths.
fn recording(value: &Bound<'_, PyAny>) -> PyResult<Recording> {
    let trace = packets(value)?;
    let lines = trace.iter().map(|(time, length)| format!("{},{length}\n", time.as_nanos()));
    let text: String = lines.collect();
    let (sha256, _) = Hashed::new(text.as_bytes()).finish();
    Ok(Recording { name: "packets".to_owned(), sha256, trace })
}

/// What the command takes, but for the files of recordings.
pub(crate) const TYPED: Typed = Typed {
    time: |text| units::duration(text).map_err(|error| error.to_string()),
    per_second: |text| match units::rate(text) {
        Ok(SendRate::PacketsPerSecond(rate)) => Some(rate),
        _ => None,
    },
    recording: |_| {
        Err("packets, each a time in ns and a length in bytes, or None; files are read by the command"
            .to_owned())
    },
};

fn within(kind: Kind, time: Duration) -> Result<Setting, String> {
    Some(Setting::Time(time)).filter(|time| kind.holds(time)).ok_or_else(|| kind.to_string())
}

const NONE: &str = "none";
