//! Python's times are seconds as floating-point numbers; ours are nanoseconds.

use std::time::Duration;

use pyo3::PyResult;
use pyo3::exceptions::PyValueError;
use softtimers::Timestamp;

/// Beyond this, 292 years, a time means never: programs do call `call_later(math.inf, …)`.
const NEVER: u64 = i64::MAX as u64;

/// Rounds up to the nanosecond, so that no timer is early. Negative numbers are zero, and so is NaN, which callers refuse.
fn nanos(seconds: f64) -> u64 {
    ((seconds * 1e9).ceil() as u64).min(NEVER)
}

pub(crate) fn duration(seconds: f64) -> Duration {
    Duration::from_nanos(nanos(seconds))
}

/// A time that a program sets: `least` seconds, zero or a nanosecond, or more.
pub(crate) fn setting(name: &str, seconds: f64, least: f64) -> PyResult<Duration> {
    if seconds >= NANOSECOND || seconds == least {
        return Ok(duration(seconds));
    }
    let or_zero = if least == 0.0 { "zero, or " } else { "" };
    let allowed = format!("{or_zero}seconds from a nanosecond (1e-9) up");
    // Python writes "nan" and "inf".
    let given = format!("{seconds:?}").to_lowercase();
    Err(PyValueError::new_err(format!("{name}={given}: {allowed}")))
}

/// In seconds: the shortest time above zero.
pub(crate) const NANOSECOND: f64 = 1e-9;

/// When a timer is due that was asked for at a time of `time.monotonic()`, which is our clock too.
pub(crate) fn timestamp(seconds: f64) -> Timestamp {
    Timestamp::from_nanos(nanos(seconds))
}

/// The nearest nanosecond: the one of which `time.monotonic()` made these seconds.
pub(crate) fn nearest(seconds: f64) -> Timestamp {
    Timestamp::from_nanos(((seconds * 1e9).round() as u64).min(NEVER))
}

pub(crate) fn seconds(time: Timestamp) -> f64 {
    time.as_nanos() as f64 / 1e9
}
