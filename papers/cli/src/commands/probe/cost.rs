//! The cost that a probe adds to a trigger state: the time of a system call.

use softtimers::{Clock, Monotonic};
use softtimers_measure::estimate::Estimate;

/// Returns the time of a call that does nothing, in nanoseconds: the median over batches, between the ends of its 95%
/// confidence interval. Takes some milliseconds.
pub(super) fn of_a_call() -> Option<[f64; 3]> {
    let estimate = Estimate::from_values((0..BATCHES).map(|_| batch() as f64 / f64::from(CALLS)))?;
    estimate.interval.map(|[low, high]| [low, estimate.median, high])
}

/// Returns by how much a call took longer, with an interval from both confidence intervals. May be negative.
pub(super) fn more(without: [f64; 3], with: [f64; 3]) -> [f64; 3] {
    [with[0] - without[2], with[1] - without[1], with[2] - without[0]]
}

fn batch() -> u64 {
    let begun = Monotonic.now();
    for _ in 0..CALLS {
        let _ = rustix::process::getppid();
    }
    u64::try_from(Monotonic.now().saturating_duration_since(begun).as_nanos()).unwrap_or(u64::MAX)
}

/// Enough that an interrupt affects one batch, not the median.
const BATCHES: usize = 41;
/// The number of calls, which take some 50 µs.
const CALLS: u32 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_lies_as_far_apart_as_both() {
        assert_eq!(more([90.0, 100.0, 120.0], [200.0, 210.0, 250.0]), [80.0, 110.0, 160.0]);
        assert_eq!(more([90.0, 100.0, 120.0], [80.0, 95.0, 100.0]), [-40.0, -5.0, 10.0]);
    }
}
