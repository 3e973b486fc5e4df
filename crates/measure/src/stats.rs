//! What a run counts: once, in one place, whether somebody wants a line a second of it or only the sum at the end.
//!
//! ```text
//!   the run      ● ●  ●  ●   ●   ● ●  ●   ●  ● ●   ●      Counter::count
//!   interval     └────── first ─────┘└─── second ────┘└─ …
//!                                    │                │
//!   total                            ▼ +=             ▼ +=   Intervals::next
//! ```
//!
//! A run that nobody watches counts into the total at once, without a lock. Where lines are printed, the thread that prints
//! them takes each interval away and leaves a cleared one, and the total is the sum of the intervals: a line and the final
//! report cannot contradict each other.

pub mod passage;

use std::fmt;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

/// What is counted in an interval, or in a whole run. Adding is what makes a run of its intervals, in their order.
pub trait Stats: Clone + for<'a> AddAssign<&'a Self> + Send + 'static {
    /// What is printed of them.
    type Figures: Serialize;

    /// Whether nothing has been counted.
    fn is_empty(&self) -> bool;

    /// Forgets what was counted, but not how to count.
    fn clear(&mut self);

    /// Returns the figures of an interval that took `time`.
    fn figures(&self, time: Duration) -> Self::Figures;
}

/// Where a run counts.
///
/// ```
/// use softtimers_measure::stats::{Counter, passage::Passage};
/// # use softtimers_measure::stats::passage::{Counted, Interval};
/// # #[derive(Clone, Copy, Default, PartialEq)]
/// # struct Packets(u64);
/// # impl std::ops::AddAssign for Packets { fn add_assign(&mut self, next: Self) { self.0 += next.0 } }
/// # impl Counted for Packets { type Figures = u64; fn figures(self, _: Interval) -> u64 { self.0 } }
///
/// let (mut counter, mut intervals) = Counter::streamed(Passage::<Packets>::default());
/// counter.count(|stats| stats.counts.0 += 2);
/// intervals.next(|interval, total| assert_eq!((interval.counts.0, total.counts.0), (2, 2)));
/// counter.count(|stats| stats.counts.0 += 1);
/// intervals.next(|interval, total| assert_eq!((interval.counts.0, total.counts.0), (1, 3)));
/// assert_eq!(counter.total().counts.0, 3);
/// ```
pub struct Counter<S>(Place<S>);

enum Place<S> {
    Alone(Box<S>),
    Streamed(Arc<Shared<S>>),
}

/// The lock of the total is taken first, so that nothing is missed that is on its way from one to the other.
struct Shared<S> {
    interval: Mutex<Box<S>>,
    total: Mutex<Box<S>>,
}

impl<S: Stats> Counter<S> {
    /// Counts what nobody looks at before the end. `blank` has nothing counted.
    pub fn new(blank: S) -> Self {
        Counter(Place::Alone(Box::new(blank)))
    }

    /// Counts what is taken away interval by interval.
    pub fn streamed(blank: S) -> (Self, Intervals<S>) {
        let boxed = || Mutex::new(Box::new(blank.clone()));
        let shared = Arc::new(Shared { interval: boxed(), total: boxed() });
        let intervals = Intervals { shared: Arc::clone(&shared), spare: Box::new(blank) };
        (Counter(Place::Streamed(shared)), intervals)
    }

    /// Lets `count` see the stats of the interval that goes on.
    ///
    /// # Cost
    /// What `count` takes. If it is streamed, also a lock that nobody holds, 10 ns; once a second it may be held for as
    /// long as it takes to exchange a pointer, and while [`total`](Self::total) is asked for as long as it takes to copy the stats.
    #[inline]
    pub fn count(&mut self, count: impl FnOnce(&mut S)) {
        match &mut self.0 {
            Place::Alone(stats) => count(stats),
            Place::Streamed(shared) => count(&mut lock(&shared.interval)),
        }
    }

    /// Returns a counter for another thread of the same run, to be [joined](Self::join) at its end.
    #[must_use]
    pub fn another(&self) -> Self {
        match &self.0 {
            Place::Alone(stats) => {
                let mut blank = stats.clone();
                blank.clear();
                Counter(Place::Alone(blank))
            }
            Place::Streamed(shared) => Counter(Place::Streamed(Arc::clone(shared))),
        }
    }

    /// Takes what another thread has counted.
    pub fn join(&mut self, other: Self) {
        match (&mut self.0, other.0) {
            (Place::Alone(stats), Place::Alone(theirs)) => **stats += &theirs,
            // It is where this one's is.
            (Place::Streamed(_), _) | (_, Place::Streamed(_)) => {}
        }
    }

    /// Returns what has been counted since the run began.
    ///
    /// # Cost
    /// The stats are copied.
    pub fn total(&self) -> S {
        match &self.0 {
            Place::Alone(stats) => S::clone(stats),
            Place::Streamed(shared) => {
                let total = lock(&shared.total);
                let mut sum = S::clone(&total);
                // Adding takes longer than copying, and the run may wait for the interval.
                let interval = S::clone(&lock(&shared.interval));
                drop(total);
                sum += &interval;
                sum
            }
        }
    }
}

impl<S> fmt::Debug for Counter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counter(…)")
    }
}

/// Takes away what a [`Counter`] counts, interval by interval.
pub struct Intervals<S> {
    shared: Arc<Shared<S>>,
    /// Cleared, to be left for what is taken.
    spare: Box<S>,
}

impl<S: Stats> Intervals<S> {
    /// Ends an interval, and shows it and the total with it.
    pub fn next<T>(&mut self, show: impl FnOnce(&S, &S) -> T) -> T {
        let total = {
            let mut total = lock(&self.shared.total);
            // Nothing else under the lock that the run may wait for.
            std::mem::swap(&mut *lock(&self.shared.interval), &mut self.spare);
            **total += &self.spare;
            total.clone()
        };
        // Showing takes long; who asks for the total meanwhile does not wait for it.
        let shown = show(&self.spare, &total);
        self.spare.clear();
        shown
    }
}

impl<S> fmt::Debug for Intervals<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Intervals(…)")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Seen(u64);

    impl AddAssign<&Seen> for Seen {
        fn add_assign(&mut self, next: &Seen) {
            self.0 += next.0;
        }
    }

    impl Stats for Seen {
        type Figures = u64;

        fn is_empty(&self) -> bool {
            self.0 == 0
        }

        fn clear(&mut self) {
            self.0 = 0;
        }

        fn figures(&self, _: Duration) -> u64 {
            self.0
        }
    }

    #[test]
    fn the_total_is_the_sum_whoever_counts_and_whoever_looks() {
        for streamed in [false, true] {
            let (mut counter, intervals) = if streamed {
                let (counter, intervals) = Counter::streamed(Seen(0));
                (counter, Some(intervals))
            } else {
                (Counter::new(Seen(0)), None)
            };
            counter.count(|seen| seen.0 += 1);
            let mut beside = counter.another();
            let beside = std::thread::spawn(move || {
                (0..1_000).for_each(|_| beside.count(|seen| seen.0 += 1));
                beside
            });
            let taken: u64 = intervals
                .into_iter()
                .map(|mut all| (0..3).map(|_| all.next(|seen, _| seen.0)).sum::<u64>())
                .sum();
            assert!(taken <= 1_001);
            counter.join(beside.join().unwrap());
            assert_eq!(counter.total(), Seen(1_001));
        }
    }
}
