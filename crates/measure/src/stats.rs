//! The counts of a run, kept once, whether somebody wants a line a second of it or only the sum at the end.
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
//! report cannot contradict each other. Each thread of a run has an interval of its own, so that none waits for another.

use std::fmt;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

/// Adds numbers field by field, and whatever else takes `+=` by reference: all of a type, or some of a value's.
///
/// ```
/// #[derive(Clone, Copy, Default, PartialEq, Debug)]
/// struct Packets {
///     sent: u64,
///     lost: u64,
/// }
/// softtimers_measure::sums!(Packets: sent, lost);
///
/// let mut packets = Packets { sent: 3, lost: 1 };
/// packets += &packets.clone();
/// assert_eq!(packets, Packets { sent: 6, lost: 2 });
/// ```
#[macro_export]
macro_rules! sums {
    ($sum:ident += $more:ident: $($field:ident$(.$part:ident)?),+) => {
        $($sum.$field$(.$part)? += &$more.$field$(.$part)?;)+
    };
    ($type:ty: $($field:ident$(.$part:ident)?),+) => {
        impl std::ops::AddAssign<&$type> for $type {
            #[inline]
            fn add_assign(&mut self, more: &$type) {
                $crate::sums!(self += more: $($field$(.$part)?),+);
            }
        }
    };
}

/// The counts of an interval, or of a whole run. Adding makes a run of its intervals, in their order.
pub trait Stats: Clone + for<'a> AddAssign<&'a Self> + Send + 'static {
    /// The figures that are printed of them.
    type Figures: Serialize;

    /// Returns whether nothing has been counted.
    fn is_empty(&self) -> bool;

    /// Forgets what was counted, but not how to count.
    fn clear(&mut self);

    /// Returns the figures of an interval that took `time`.
    fn figures(&self, time: Duration) -> Self::Figures;
}

/// The place where a run counts.
///
/// ```
/// use softtimers_measure::stats::{Counter, Stats};
/// # #[derive(Clone, Default)]
/// # struct Packets(u64);
/// # impl std::ops::AddAssign<&Packets> for Packets { fn add_assign(&mut self, next: &Self) { self.0 += next.0 } }
/// # impl Stats for Packets {
/// #     type Figures = u64;
/// #     fn is_empty(&self) -> bool { self.0 == 0 }
/// #     fn clear(&mut self) { self.0 = 0 }
/// #     fn figures(&self, _: std::time::Duration) -> u64 { self.0 }
/// # }
///
/// let (mut counter, mut intervals) = Counter::streamed(Packets::default());
/// counter.count(|packets| packets.0 += 2);
/// intervals.next(|interval, total| assert_eq!((interval.0, total.0), (2, 2)));
/// counter.count(|packets| packets.0 += 1);
/// intervals.next(|interval, total| assert_eq!((interval.0, total.0), (1, 3)));
/// assert_eq!(counter.total().0, 3);
/// ```
pub struct Counter<S>(Counts<S>);

enum Counts<S> {
    Alone(Box<S>),
    Shared { own: Arc<Interval<S>>, all: Arc<Shared<S>> },
}

type Interval<S> = Mutex<Box<S>>;

/// The lock of the total is taken first, so that nothing is missed that is on its way from one to the other.
struct Shared<S> {
    total: Mutex<Box<S>>,
    /// One for each thread.
    intervals: Mutex<Vec<Arc<Interval<S>>>>,
}

impl<S: Stats> Counter<S> {
    /// Counts what nobody looks at before the end. `blank` has nothing counted.
    pub fn new(blank: S) -> Self {
        Counter(Counts::Alone(Box::new(blank)))
    }

    /// Counts what is taken away interval by interval.
    pub fn streamed(blank: S) -> (Self, Intervals<S>) {
        let total = Mutex::new(Box::new(blank.clone()));
        let all = Arc::new(Shared { total, intervals: Mutex::default() });
        let intervals = Intervals { all: Arc::clone(&all), spares: vec![Box::new(blank.clone())] };
        (Shared::interval(all, blank), intervals)
    }

    /// Returns a counter whose [`total`](Self::total) has what other threads count as soon as they do.
    #[must_use]
    pub fn shared(self) -> Self {
        match self.0 {
            Counts::Alone(stats) => Counter::streamed(*stats).0,
            Counts::Shared { .. } => self,
        }
    }

    /// Lets `count` see the stats of the interval that goes on.
    ///
    /// # Cost
    /// The cost of `count`. If it is streamed or shared, also a lock that nobody holds, 10 ns; once a second it may be held
    /// for as long as it takes to exchange a pointer, and while [`total`](Self::total) is asked for as long as it takes to
    /// copy the stats.
    #[inline]
    pub fn count(&mut self, count: impl FnOnce(&mut S)) {
        match &mut self.0 {
            Counts::Alone(stats) => count(stats),
            Counts::Shared { own, .. } => count(&mut lock(own)),
        }
    }

    /// Returns a counter for another thread of the same run, to be [joined](Self::join) at its end.
    #[must_use]
    pub fn another(&self) -> Self {
        let blank = |stats: &S| {
            let mut blank = stats.clone();
            blank.clear();
            blank
        };
        match &self.0 {
            Counts::Alone(stats) => Counter::new(blank(stats)),
            Counts::Shared { own, all } => {
                // Before the list is locked: the total takes both locks the other way round.
                let blank = blank(&lock(own));
                Shared::interval(Arc::clone(all), blank)
            }
        }
    }

    /// Takes what another thread has counted.
    pub fn join(&mut self, other: Self) {
        match (&mut self.0, other.0) {
            (Counts::Alone(stats), Counts::Alone(theirs)) => **stats += &theirs,
            // The total has it.
            (Counts::Shared { .. }, _) | (_, Counts::Shared { .. }) => {}
        }
    }

    /// Returns what has been counted since the run began.
    ///
    /// # Cost
    /// The stats are copied.
    pub fn total(&self) -> S {
        match &self.0 {
            Counts::Alone(stats) => S::clone(stats),
            Counts::Shared { all, .. } => {
                let total = lock(&all.total);
                let mut sum = S::clone(&total);
                // Adding takes longer than copying, and the run may wait for an interval.
                let intervals: Vec<_> =
                    lock(&all.intervals).iter().map(|interval| S::clone(&lock(interval))).collect();
                drop(total);
                intervals.iter().for_each(|interval| sum += interval);
                sum
            }
        }
    }
}

impl<S> Shared<S> {
    /// Counts in an interval more.
    fn interval(all: Arc<Self>, blank: S) -> Counter<S> {
        let own = Arc::new(Mutex::new(Box::new(blank)));
        lock(&all.intervals).push(Arc::clone(&own));
        Counter(Counts::Shared { own, all })
    }
}

impl<S> fmt::Debug for Counter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counter(…)")
    }
}

/// Takes away what a [`Counter`] counts, interval by interval.
pub struct Intervals<S> {
    all: Arc<Shared<S>>,
    /// Cleared, to be left for what is taken of each thread. There is at least one.
    spares: Vec<Box<S>>,
}

impl<S: Stats> Intervals<S> {
    /// Ends an interval, and shows it and the total with it.
    pub fn next<T>(&mut self, show: impl FnOnce(&S, &S) -> T) -> T {
        let total = {
            let mut total = lock(&self.all.total);
            let intervals = Vec::clone(&lock(&self.all.intervals));
            while self.spares.len() < intervals.len() {
                self.spares.push(self.spares[0].clone());
            }
            // All at one moment, so that none has what follows from what another has not. Nothing else under the locks
            // that the run may wait for.
            let mut held: Vec<_> = intervals.iter().map(|interval| lock(interval)).collect();
            held.iter_mut().zip(&mut self.spares).for_each(|(own, spare)| std::mem::swap(&mut **own, spare));
            drop(held);
            let (interval, others) = self.spares.split_at_mut(1);
            for other in others {
                *interval[0] += &**other;
                other.clear();
            }
            **total += &interval[0];
            total.clone()
        };
        // Showing takes long; who asks for the total meanwhile does not wait for it.
        let shown = show(&self.spares[0], &total);
        self.spares[0].clear();
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
        let (streamed, intervals) = Counter::streamed(Seen(0));
        let [alone, shared] = [Counter::new(Seen(0)), Counter::new(Seen(0)).shared()];
        for (mut counter, intervals) in [(alone, None), (shared, None), (streamed, Some(intervals))] {
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
