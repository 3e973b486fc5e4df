//! Progress of a sweep and its end before time: [`Watch`] for all of it, [`Steps`] within a point.
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

/// Progress of a sweep and whether it is still wanted, shared by the threads that run it and those that wait for it.
#[derive(Debug, Default)]
pub struct Watch {
    done: AtomicU64,
    stop: AtomicBool,
}

impl Watch {
    /// Creates a watch with nothing done and everything wanted.
    pub const fn new() -> Self {
        Watch { done: AtomicU64::new(0), stop: AtomicBool::new(false) }
    }

    /// Returns how much is done, in thousandths of a point.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Gives up the points that run; those that are finished stay.
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

/// Lets a run report its progress, and tells it whether to go on.
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
    /// Creates one for a run that nobody watches or stops.
    pub fn unwatched() -> Self {
        static NOBODY: Watch = Watch::new();
        NOBODY.steps()
    }
}

impl Steps<'_> {
    /// Reports that `done` of `all` is done, never less than the last time, and returns whether to go on. If not, whatever
    /// the run returns is thrown away.
    ///
    /// # Cost
    /// A relaxed load and a division.
    #[inline]
    pub fn go_on(&self, done: u64, all: u64) -> bool {
        let thousandths = (u128::from(done) * THOUSAND / u128::from(all.max(1))).min(THOUSAND) as u64;
        self.tell(thousandths);
        self.is_wanted()
    }

    /// Returns whether to go on, where it is not known how much is done.
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
