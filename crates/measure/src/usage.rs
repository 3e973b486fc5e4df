//! Resources that a thread has used, by the kernel's account.

use std::time::Duration;

use softtimers::late::cpu_time;
use softtimers::{Clock, Monotonic, Timestamp};

/// Time and wake-ups of a thread so far, or in an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    at: Timestamp,
    /// Time that has passed.
    pub wall: Duration,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// Times this thread slept and was woken: its voluntary context switches.
    pub wakeups: u64,
}

impl Usage {
    /// Returns the usage of the calling thread since it was started.
    pub fn now() -> Self {
        Usage { at: Monotonic.now(), wall: Duration::ZERO, cpu: cpu_time(), wakeups: voluntary_switches() }
    }

    /// Adds what a thread beside this one has used meanwhile.
    #[must_use]
    pub fn and(self, beside: &Usage) -> Usage {
        Usage { cpu: self.cpu + beside.cpu, wakeups: self.wakeups + beside.wakeups, ..self }
    }

    /// Returns the usage since `before`.
    #[must_use]
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            at: self.at,
            wall: self.at.saturating_duration_since(before.at),
            cpu: self.cpu.saturating_sub(before.cpu),
            wakeups: self.wakeups.saturating_sub(before.wakeups),
        }
    }
}

fn voluntary_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_part_of_wall_time_and_a_sleep_is_a_wake_up() {
        let before = Usage::now();
        let sleeper = rustix::time::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        rustix::event::poll(&mut [], Some(&sleeper)).unwrap();
        let used = Usage::now().since(&before);
        assert!(used.cpu <= used.wall);
        assert!(used.wakeups >= 1);
    }
}
