//! Whoever waits for a sweep, and what it is told: [`Watch`] for all of it, [`Steps`] within a point.
//!
//! A point may take hours. It says how far it is and is told when nobody wants it any more; then it ends wherever it
//! stands, and what it returns is thrown away:
//!
//! ```text
//!   points    ▓▓▓▓▓▓▓▓▓▓ 1    ▓▓▓▓▓▓ 0.6    ░░░░░░ 0        Watch::done: 1,600 thousandths
//!                             Steps::go_on(6, 10)           false from Watch::stop on
//! ```

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a sweep is, and whether it is wanted: for the threads that run it and those that wait for it.
#[derive(Debug, Default)]
pub struct Watch {
    done: AtomicU64,
    stop: AtomicBool,
}

impl Watch {
    /// Nothing is done, and all of it is wanted.
    pub const fn new() -> Self {
        Watch { done: AtomicU64::new(0), stop: AtomicBool::new(false) }
    }

    /// Thousandths of points that are done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// No point is wanted any more: those that run are given up, and those that are finished stay.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// For one point.
    pub(crate) fn steps(&self) -> Steps<'_> {
        Steps { watch: self, told: Cell::new(0), given_up: Cell::new(false) }
    }
}

/// What an experiment asks while a point runs.
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
    /// Thousandths of this point that `watch` knows of.
    told: Cell<u64>,
    given_up: Cell<bool>,
}

impl Steps<'static> {
    /// Of a point that nobody watches, and nobody stops.
    pub fn unwatched() -> Self {
        static NOBODY: Watch = Watch::new();
        NOBODY.steps()
    }
}

impl Steps<'_> {
    /// `done` of `all` is done, never less than the last time; whether to go on. If not, whatever is returned will be
    /// thrown away.
    ///
    /// # Cost
    /// A relaxed load and a division.
    #[inline]
    pub fn go_on(&self, done: u64, all: u64) -> bool {
        let thousandths = (u128::from(done) * THOUSAND / u128::from(all.max(1))).min(THOUSAND) as u64;
        self.tell(thousandths);
        self.is_wanted()
    }

    /// Whether to go on, from where it is not known how much is done.
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

    /// The point has ended: whether by itself.
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
        // It had nothing left to ask.
        assert!(finished.end());
    }
}
