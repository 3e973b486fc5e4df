//! CPU time, to which other programs do not add.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub use softtimers::late::cpu_time as of_thread;

/// Returns the CPU time of this process.
pub fn of_process() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
