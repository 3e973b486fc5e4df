//! Histograms: counts of numbers, usually nanoseconds, in constant memory, within 3.2%.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use softtimers::Histogram;

use crate::object::{Errno, Kind, Object};

impl Kind for Histogram {
    const NAME: &'static str = "softtimers_histogram";
}

/// A histogram of 7.7 KiB.
pub(crate) type softtimers_histogram = Object<Histogram>;

/// Makes an empty histogram.
/// -EINVAL: `out` is NULL.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_histogram_new(
    out: Option<&mut MaybeUninit<*mut softtimers_histogram>>,
) -> c_int {
    Object::make(out, || Ok(Histogram::new()))
}

/// Frees a histogram. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_histogram_free(histogram: Option<&'static softtimers_histogram>) -> c_int {
    Object::free(histogram)
}

/// Counts `value` `times` times.
/// -EOVERFLOW: more than 2^63 counts in all.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_histogram_record(
    histogram: Option<&softtimers_histogram>,
    value: u64,
    times: u64,
) -> c_int {
    Object::with(histogram, |histogram| {
        room(histogram.count(), times)?;
        histogram.record_many(value, times);
        Ok(0)
    })
}

/// Adds all counts of `other`, which does not change. -EINVAL: they are the same. -EOVERFLOW: more than 2^63
/// counts in all. Thread: that of both.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_histogram_merge(
    histogram: Option<&softtimers_histogram>,
    other: Option<&softtimers_histogram>,
) -> c_int {
    Object::with(histogram, |histogram| {
        let merged = Object::with(other, |other| {
            room(histogram.count(), other.count())?;
            histogram.merge(other);
            Ok(0)
        });
        if merged < 0 { Err(Errno(-merged)) } else { Ok(0) }
    })
}

/// Resets a histogram. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_histogram_clear(histogram: Option<&softtimers_histogram>) -> c_int {
    Object::with(histogram, |histogram| {
        *histogram = Histogram::new();
        Ok(0)
    })
}

/// Values counted.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_histogram_count(histogram: Option<&softtimers_histogram>) -> u64 {
    Object::ask(histogram, 0, |histogram| histogram.count())
}

/// The least value, exactly; 0 if there is none.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_histogram_min(histogram: Option<&softtimers_histogram>) -> u64 {
    Object::ask(histogram, 0, |histogram| histogram.min().unwrap_or(0))
}

/// The greatest value, exactly; 0 if there is none.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_histogram_max(histogram: Option<&softtimers_histogram>) -> u64 {
    Object::ask(histogram, 0, |histogram| histogram.max().unwrap_or(0))
}

/// The arithmetic mean; 0 if there is none.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_histogram_mean(histogram: Option<&softtimers_histogram>) -> f64 {
    Object::ask(histogram, 0.0, |histogram| histogram.mean().unwrap_or(0.0))
}

/// The least value that the share `q` of all values does not exceed, within 3.2%: of n values the one of rank
/// ceil(q * n); 0 if there is none. `q` is clamped to 0 to 1. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_histogram_quantile(histogram: Option<&softtimers_histogram>, q: f64) -> u64 {
    Object::ask(histogram, 0, |histogram| histogram.quantile(if q.is_nan() { 0.0 } else { q }).unwrap_or(0))
}

/// The share of values above `threshold`, by buckets; 0 if there is none.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_histogram_share_above(
    histogram: Option<&softtimers_histogram>,
    threshold: u64,
) -> f64 {
    Object::ask(histogram, 0.0, |histogram| histogram.share_above(threshold))
}

fn room(counted: u64, more: u64) -> Result<(), Errno> {
    let sum = counted.checked_add(more).filter(|&sum| sum <= 1 << 63);
    sum.map(|_| ()).ok_or(Errno(libc::EOVERFLOW))
}
