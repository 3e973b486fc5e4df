//! Counts of the gates' decisions: [`Counters`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of a runtime's gates, or of one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Transmits that had to wait.
    pub gated: u64,
    /// Transmits that passed unchecked: small ones, ACKs, probes, and all before a rate was
    /// known or while the gate was off.
    pub passed: u64,
    /// Gated transmits that left early because they had waited for the maximum time. If most do, the
    /// connection is too slow to be paced by the gate.
    pub overdue: u64,
    /// The longest wait of a transmit, including the lateness of the wake-up.
    pub longest_held: Duration,
}

/// [`Counters`] that many connections add to.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    gated: AtomicU64,
    passed: AtomicU64,
    overdue: AtomicU64,
    longest_held_ns: AtomicU64,
}

impl Totals {
    /// Adds the recent counts of one connection.
    pub(crate) fn add(&self, counters: Counters) {
        // Each is read on its own, so their order does not matter.
        self.gated.fetch_add(counters.gated, Ordering::Relaxed);
        self.passed.fetch_add(counters.passed, Ordering::Relaxed);
        self.overdue.fetch_add(counters.overdue, Ordering::Relaxed);
        let held = u64::try_from(counters.longest_held.as_nanos()).unwrap_or(u64::MAX);
        self.longest_held_ns.fetch_max(held, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counters {
        Counters {
            gated: self.gated.load(Ordering::Relaxed),
            passed: self.passed.load(Ordering::Relaxed),
            overdue: self.overdue.load(Ordering::Relaxed),
            longest_held: Duration::from_nanos(self.longest_held_ns.load(Ordering::Relaxed)),
        }
    }
}
