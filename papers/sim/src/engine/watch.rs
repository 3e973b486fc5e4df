//! Progress and early termination of a sweep: [`Watch`] for the whole sweep, [`Steps`] within a point.
//!
//! A point may take hours. It reports its progress and learns when the sweep was stopped; then it ends at
//! once, and its result is discarded:
//!
//! ```text
//!   points    ▓▓▓▓▓▓▓▓▓▓ 1    ▓▓▓▓▓▓ 0.6    ░░░░░░ 0        Watch::done: 1,600 thousandths
//!                             Steps::go_on(6, 10)           false from Watch::stop on
//! ```

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Progress of a sweep and whether it was stopped, shared by the threads that run it and those that wait for
/// it.
#[derive(Debug, Default)]
pub struct Watch {
    done: AtomicU64,
    stop: AtomicBool,
}

impl Watch {
    /// Creates a watch with nothing done and not stopped.
    pub const fn new() -> Self {
        Watch { done: AtomicU64::new(0), stop: AtomicBool::new(false) }
    }

    /// Returns how much is done, in thousandths of a point.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Stops the sweep: abandons running points and keeps finished ones.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether the sweep was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The steps of one point.
    pub(crate) fn steps(&self) -> Steps<'_> {
        Steps { watch: self, told: Cell::new(0), given_up: Cell::new(false) }
    }
}

/// Lets a run report its progress, and tells it whether to continue.
///
/// ```
/// use softtimers_sim::Steps;
///
/// let steps = Steps::unwatched();
/// assert!((0..10).all(|step| steps.go_on(step, 10)));
/// ```
#[derive(Debug)]
pub struct Steps<'a> {
    watch: &'a Watch,
    /// Thousandths of this point that were reported to `watch`.
    told: Cell<u64>,
    given_up: Cell<bool>,
}

impl Steps<'static> {
    /// Creates one for a run without progress reports that cannot be stopped.
    pub fn unwatched() -> Self {
        static NOBODY: Watch = Watch::new();
        NOBODY.steps()
    }
}

impl Steps<'_> {
    /// Reports that `done` of `all` is done, never less than the last time, and returns whether to continue.
    /// If not, the run's result is discarded.
    ///
    /// # Cost
    /// A relaxed load and a division.
    #[inline]
    pub fn go_on(&self, done: u64, all: u64) -> bool {
        let thousandths = (u128::from(done) * THOUSAND / u128::from(all.max(1))).min(THOUSAND) as u64;
        self.tell(thousandths);
        self.is_wanted()
    }

    /// Returns whether to continue, when progress is not known.
    ///
    /// # Cost
    /// A relaxed load.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        let stopped = self.watch.is_stopped();
        if stopped {
            self.given_up.set(true);
        }
        !stopped
    }

    /// Ends the point; returns whether it ended by itself.
    pub(crate) fn end(self) -> bool {
        self.tell(THOUSAND as u64);
        !self.given_up.get()
    }

    fn tell(&self, thousandths: u64) {
        let more = thousandths.saturating_sub(self.told.get());
        if more > 0 {
            self.watch.done.fetch_add(more, Ordering::Relaxed);
            self.told.set(thousandths);
        }
    }
}

const THOUSAND: u128 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_add_up_to_a_thousand_each() {
        let watch = Watch::new();
        let (first, second) = (watch.steps(), watch.steps());
        assert!(first.go_on(1, 2) && second.go_on(1, 4) && second.go_on(1, 4));
        assert_eq!(watch.done(), 750);
        assert!(first.end() && second.go_on(9, 4) && second.end());
        assert_eq!(watch.done(), 2_000);
    }

    #[test]
    fn only_what_was_told_to_stop_is_given_up() {
        let watch = Watch::new();
        let (finished, told) = (watch.steps(), watch.steps());
        assert!(finished.go_on(1, 1) && told.is_wanted());
        watch.stop();
        assert!(!told.go_on(1, 2) && !told.end());
        // It did not ask again after it was finished.
        assert!(finished.end());
    }
}
