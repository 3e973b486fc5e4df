//! CPU time, which a neighbour does not add to.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The CPU time of this process.
pub fn of_process() -> Duration {
    of(ClockId::ProcessCPUTime)
}

/// The CPU time of this thread.
pub fn of_thread() -> Duration {
    of(ClockId::ThreadCPUTime)
}

fn of(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}
