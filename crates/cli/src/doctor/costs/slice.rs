//! How long the scheduler lets a thread run before another gets its processor, as seen by one that
//! wants to run all the time.
//!
//! ```text
//!   reads the clock   ▏▏▏▏▏▏▏▏▏▏▏▏            ▏▏▏▏▏▏▏▏▏▏▏▏            ▏▏▏▏
//!   computes                      ████████████            ████████████
//!                                 └─ a slice ┘
//! ```
//!
//! What the kernel is configured for (`base_slice_ns`) only root may read, and a tick or another rule
//! may decide instead; this is what happens.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use softtimers::{Clock, Monotonic};

use crate::processor::Processor;

/// The median time for which a computing thread of the same processor took it, in nanoseconds; `None`
/// if that hardly happened.
pub(super) fn measured() -> io::Result<Option<f64>> {
    let processor = Processor::current()?;
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let start = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let _hog = start("hog").spawn_scoped(scope, || {
            // One that may not be kept there must not compute elsewhere.
            if processor.keep().is_ok() {
                while !enough.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        })?;
        let reader = start("reader").spawn_scoped(scope, || {
            let gaps = processor.keep().map(|()| gaps());
            enough.store(true, Ordering::Relaxed);
            gaps
        });
        if reader.is_err() {
            enough.store(true, Ordering::Relaxed);
        }
        let gaps = reader?.join().unwrap_or_else(|_| Err(io::Error::other("the reader panicked")));
        gaps.map(median)
    })
}

/// The times for which this thread could not read the clock.
fn gaps() -> Vec<u64> {
    let mut gaps = Vec::with_capacity(1_000);
    let mut last = Monotonic.now();
    let end = last + WATCHED;
    while last < end {
        let now = Monotonic.now();
        let gap = now.saturating_duration_since(last);
        if gap >= LEAST && gaps.len() < gaps.capacity() {
            gaps.push(gap.as_nanos() as u64);
        }
        last = now;
    }
    gaps
}

fn median(mut gaps: Vec<u64>) -> Option<f64> {
    gaps.sort_unstable();
    (gaps.len() >= FEWEST).then(|| gaps[gaps.len() / 2] as f64)
}

const WATCHED: Duration = Duration::from_millis(300);
/// Interrupts take less, slices more.
const LEAST: Duration = Duration::from_micros(500);
const FEWEST: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_few_is_none() {
        assert_eq!(median(vec![3_000_000; FEWEST - 1]), None);
        assert_eq!(median(vec![9, 1, 4, 5, 2]), Some(4.0));
    }
}
