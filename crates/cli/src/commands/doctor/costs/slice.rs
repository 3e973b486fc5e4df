//! How long the scheduler lets a thread run before another one gets its CPU, as seen by a thread that always wants to
//! run.
//!
//! ```text
//!   reads the clock   ▏▏▏▏▏▏▏▏▏▏▏▏            ▏▏▏▏▏▏▏▏▏▏▏▏            ▏▏▏▏
//!   computes                      ████████████            ████████████
//!                                             └─ a slice ┘
//! ```
//!
//! Only root may read the configured slice (`base_slice_ns`), and a tick or another rule may decide instead; this
//! measures the actual one. It measures the reader's own runs, not the gaps between them: a third program on the same
//! CPU makes the gaps longer, but not the runs.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_measure::estimate::quantile;
use softtimers_measure::processor::Processor;

/// Returns how long a thread keeps the CPU that another one wants, in nanoseconds; `None` if it hardly ever lost it.
pub(super) fn measured() -> io::Result<Option<f64>> {
    let processor = Processor::current()?;
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let start = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let _hog = start("hog").spawn_scoped(scope, || {
            // If it cannot be pinned, it must not compute elsewhere.
            let Ok(_kept) = processor.keep() else { return };
            let last = Monotonic.now() + 2 * WATCHED;
            while !enough.load(Ordering::Relaxed) && Monotonic.now() < last {
                std::hint::spin_loop();
            }
        })?;
        let reader = start("reader").spawn_scoped(scope, || {
            let runs = processor.keep().map(|_kept| runs());
            enough.store(true, Ordering::Relaxed);
            runs
        });
        let runs = reader?.join().unwrap_or_else(|_| Err(io::Error::other("the reader panicked")));
        runs.map(whole)
    })
}

/// Returns the times for which this thread could read the clock without a long gap, from gap to gap.
fn runs() -> Vec<u64> {
    let mut runs = Vec::with_capacity(1_000);
    let mut began = None;
    let mut last = Monotonic.now();
    let end = last + WATCHED;
    while last < end {
        let now = Monotonic.now();
        if now.saturating_duration_since(last) >= LEAST && runs.len() < runs.capacity() {
            // The first run began before the measurement.
            runs.extend(began.map(|began| last.saturating_duration_since(began).as_nanos() as u64));
            began = Some(now);
        }
        last = now;
    }
    runs
}

/// Returns the 90th percentile of runs. A waking program or the host ends a run early, and nothing makes one longer: so
/// the long ones show the slice.
fn whole(mut runs: Vec<u64>) -> Option<f64> {
    runs.sort_unstable();
    quantile(&runs, 0.9).filter(|_| runs.len() >= FEWEST).map(|run| run as f64)
}

const WATCHED: Duration = Duration::from_millis(300);
/// Longer than interrupts, shorter than slices.
const LEAST: Duration = Duration::from_micros(500);
const FEWEST: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_runs_tell_and_a_few_do_not() {
        assert_eq!(whole(vec![3_000_000; FEWEST - 1]), None);
        assert_eq!(whole(vec![9, 1, 4, 5, 2]), Some(9.0));
        assert_eq!(whole((0..100).rev().collect()), Some(89.0));
    }
}
