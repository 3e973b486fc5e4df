//! What a trigger state costs more with a probe: the time of a system call.

use softtimers::{Clock, Monotonic};

/// The median over batches of the time of a call that does nothing, in nanoseconds. Some milliseconds in all.
pub(super) fn of_a_call() -> f64 {
    let mut batches: Vec<u64> = (0..BATCHES).map(|_| batch()).collect();
    let (_, &mut median, _) = batches.select_nth_unstable(BATCHES / 2);
    median as f64 / f64::from(CALLS)
}

fn batch() -> u64 {
    let begun = Monotonic.now();
    for _ in 0..CALLS {
        let _ = rustix::process::getppid();
    }
    u64::try_from(Monotonic.now().saturating_duration_since(begun).as_nanos()).unwrap_or(u64::MAX)
}

/// Enough that an interrupt spoils one batch and not the median.
const BATCHES: usize = 41;
/// Some 50 µs.
const CALLS: u32 = 200;
