//! Constants with another value, for the tests that check which figures a constant moves.

use std::time::Duration;

use softtimers_poll::Factor;

use crate::engine::arrivals::Bursts;

/// A type of constants that can be made larger, and set as a flag.
pub(super) trait Changed: Copy {
    /// Returns a value that is `percent` larger.
    #[must_use]
    fn changed(self, percent: u32) -> Self;
}

impl Changed for u64 {
    fn changed(self, percent: u32) -> Self {
        self + (self * u64::from(percent) / 100).max(1)
    }
}

impl Changed for u32 {
    fn changed(self, percent: u32) -> Self {
        self + (self * percent / 100).max(1)
    }
}

impl Changed for f64 {
    fn changed(self, percent: u32) -> Self {
        self * (1.0 + f64::from(percent) / 100.0)
    }
}

impl Changed for Duration {
    fn changed(self, percent: u32) -> Self {
        self + (self * percent / 100).max(Duration::from_nanos(1))
    }
}

/// Longer trains are a change.
impl Changed for Bursts {
    fn changed(self, percent: u32) -> Self {
        Bursts { train: Factor::thousandths(self.train.get() + self.train.get() * percent / 100), ..self }
    }
}
