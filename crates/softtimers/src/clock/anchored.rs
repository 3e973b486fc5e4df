//! [`Anchored`]: a clock on a counter that is corrected by the kernel's clock.
//!
//! It combines a [`Line`], which converts and checks readings, with the two clocks that it compares. Both are
//! arguments, so that tests can run the real code on a simulated machine with faults.

use std::cell::Cell;
use std::time::Duration;

use softtimers_core::{Clock, Timestamp};
use softtimers_linux::clock::{SAMPLES, Sandwich};

use super::line::{Disagreement, Line};

/// A clock on the time line of `kernel` that is read from `counter`.
#[derive(Debug)]
pub(super) struct Anchored<K, C> {
    kernel: K,
    counter: C,
    line: Cell<Line>,
    /// The last reading: no later one is less, whatever the counter does.
    last: Cell<Timestamp>,
    disagreement: Cell<Option<Disagreement>>,
    stats: Cell<AnchorStats>,
}

/// A free-running counter, such as a CPU has.
pub(super) trait Counter {
    /// Reads the counter as cheaply as possible; the CPU may reorder the read.
    fn read(&self) -> u64;

    /// Reads the counter in program order: otherwise the reading might not lie between the two of a sandwich.
    fn read_in_order(&self) -> u64;
}

/// Counters of the corrections to a clock, so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AnchorStats {
    /// Comparisons with the kernel's clock.
    pub checks: u64,
    /// Checks among those that moved the clock.
    pub corrections: u64,
    /// The largest correction.
    pub longest_correction: Duration,
}

impl<K: Clock, C: Counter> Anchored<K, C> {
    /// Measures the rate of `counter` between two readings with a `pause` between them; `None` if no rate can
    /// be measured in [`ATTEMPTS`].
    pub(super) fn calibrated(kernel: K, counter: C, pause: impl Fn(Duration)) -> Option<Self> {
        let line = calibrate(&kernel, &counter, pause)?;
        Some(Anchored {
            last: Cell::new(kernel.now()),
            kernel,
            counter,
            line: Cell::new(line),
            disagreement: Cell::new(None),
            stats: Cell::default(),
        })
    }

    /// Measures the rate again; if that succeeds, the counter is used again. Returns whether it did.
    pub(super) fn recalibrate(&self, pause: impl Fn(Duration)) -> bool {
        let line = calibrate(&self.kernel, &self.counter, pause);
        if let Some(line) = line {
            self.line.set(line);
            self.disagreement.set(None);
        }
        line.is_some()
    }

    #[inline]
    pub(super) fn now(&self) -> Timestamp {
        match self.line.get().at(self.counter.read()) {
            Some(time) => self.not_before_the_last(time),
            None => self.check(),
        }
    }

    /// Compares the counter with the kernel's clock and returns the time by the latter.
    #[inline(never)]
    pub(super) fn check(&self) -> Timestamp {
        if self.disagreement.get().is_some() {
            return self.not_before_the_last(self.kernel.now());
        }
        let sandwich = self.look();
        let mut stats = self.stats.get();
        stats.checks += 1;
        match self.line.get().checked(&sandwich) {
            Ok((line, missed)) => {
                self.line.set(line);
                stats.corrections += u64::from(missed > 0);
                stats.longest_correction = stats.longest_correction.max(Duration::from_nanos(missed));
            }
            Err(disagreement) => {
                self.line.set(Line::CLOSED);
                self.disagreement.set(Some(disagreement));
            }
        }
        self.stats.set(stats);
        self.not_before_the_last(sandwich.after)
    }

    pub(super) fn disagreement(&self) -> Option<Disagreement> {
        self.disagreement.get()
    }

    pub(super) fn stats(&self) -> AnchorStats {
        self.stats.get()
    }

    /// Returns the counter's measured ticks per second; zero after a disagreement.
    pub(super) fn counter_hz(&self) -> u64 {
        self.line.get().counter_hz()
    }

    pub(super) fn resolution_hz(&self) -> u64 {
        let kernel = self.kernel.resolution_hz();
        if self.disagreement.get().is_some() { kernel } else { kernel.min(self.counter_hz()) }
    }

    #[inline]
    fn not_before_the_last(&self, time: Timestamp) -> Timestamp {
        let time = time.max(self.last.get());
        self.last.set(time);
        time
    }

    fn look(&self) -> Sandwich<u64> {
        let sandwich = Sandwich::take(&self.kernel, || self.counter.read_in_order());
        if sandwich.width() <= HELD_UP {
            return sandwich;
        }
        Sandwich::tightest_of(AGAIN, &self.kernel, || self.counter.read_in_order())
    }
}

fn calibrate(kernel: &impl Clock, counter: &impl Counter, pause: impl Fn(Duration)) -> Option<Line> {
    let look = || Sandwich::tightest_of(SAMPLES, kernel, || counter.read_in_order());
    (0..ATTEMPTS).find_map(|_| {
        let first = look();
        pause(CALIBRATION);
        Line::through(&first, &look())
    })
}

/// 10 ms between two sandwiches of 50 ns measure a rate to 5 ppm.
pub(super) const CALIBRATION: Duration = Duration::from_millis(10);

/// A machine too disturbed for three measurements is better off without this clock.
const ATTEMPTS: u32 = 3;

/// In nanoseconds. A sandwich takes 50; one that is wider than this met cold caches or an interruption, and
/// is repeated.
const HELD_UP: u64 = 500;

/// Two interruptions in a row are rare; three mean an overloaded machine.
const AGAIN: u32 = 2;

#[cfg(test)]
mod tests;
