//! Python's times are seconds as floating-point numbers; ours are nanoseconds.

use std::time::Duration;

use softtimers::Timestamp;

/// Beyond this, 292 years, a time means never: programs do call `call_later(math.inf, …)`.
const NEVER: u64 = i64::MAX as u64;

/// Rounds up to the nanosecond, so that no timer is early. Negative numbers and NaN are zero.
fn nanos(seconds: f64) -> u64 {
    ((seconds * 1e9).ceil() as u64).min(NEVER)
}

pub(crate) fn duration(seconds: f64) -> Duration {
    Duration::from_nanos(nanos(seconds))
}

/// The time of `time.monotonic()`, which is our clock too.
pub(crate) fn timestamp(seconds: f64) -> Timestamp {
    Timestamp::from_nanos(nanos(seconds))
}

pub(crate) fn seconds(time: Timestamp) -> f64 {
    time.as_nanos() as f64 / 1e9
}
