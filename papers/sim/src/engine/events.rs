//! Events in order of time: [`Engine`].
//!
//! A simulation is a loop that takes the next event and handles it, which schedules others. The engine is a
//! binary heap ordered by time and, for equal times, by the order of scheduling, so that a run never depends
//! on how a heap breaks ties. Here it is faster than the timing wheel of `softtimers_core`, which is made for
//! a hundred thousand timers that are mostly cancelled: a simulated machine has about ten pending events, and
//! all of them fire.
//!
//! Events cannot be cancelled. An event that may become obsolete carries the number of its attempt, and is
//! ignored if that attempt is over.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

use softtimers_core::Timestamp;

/// The pending events and the current simulated time.
///
/// ```
/// use std::time::Duration;
/// use softtimers_core::Timestamp;
/// use softtimers_sim::Engine;
///
/// let mut engine = Engine::new();
/// engine.after(Duration::from_micros(7), "b");
/// engine.after(Duration::from_micros(5), "a");
/// engine.after(Duration::from_micros(7), "c");
/// let end = Timestamp::from_micros(100);
/// let mut seen = vec![];
/// while let Some(event) = engine.next(end) {
///     seen.push((engine.now().as_nanos(), event));
/// }
/// assert_eq!(seen, [(5_000, "a"), (7_000, "b"), (7_000, "c")]);
/// assert_eq!(engine.now(), end);
/// ```
///
/// # Cost
/// O(log n) for an event among n; no allocation after it has grown to the largest number pending.
#[derive(Clone, Debug)]
pub struct Engine<E> {
    pending: BinaryHeap<Pending<E>>,
    now: Timestamp,
    scheduled: u64,
    handled: u64,
}

impl<E> Engine<E> {
    /// Creates an engine at time zero with nothing pending.
    pub fn new() -> Self {
        Engine { pending: BinaryHeap::with_capacity(64), now: Timestamp::ZERO, scheduled: 0, handled: 0 }
    }

    /// Returns the time of the last event returned, or the end that was reached.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Schedules `event` at `time`, or now if that has passed, after all events scheduled earlier for the
    /// same time.
    #[inline]
    pub fn at(&mut self, time: Timestamp, event: E) {
        let time = time.max(self.now).as_nanos();
        self.pending.push(Pending { time, order: self.scheduled, event });
        self.scheduled += 1;
    }

    /// Schedules `event` after `delay`.
    #[inline]
    pub fn after(&mut self, delay: Duration, event: E) {
        self.at(self.now + delay, event);
    }

    /// Returns the next event up to and including `end`, and moves the time to it. If there is none the time moves to
    /// `end`.
    #[inline]
    pub fn next(&mut self, end: Timestamp) -> Option<E> {
        if self.pending.peek().is_none_or(|first| first.time > end.as_nanos()) {
            self.now = self.now.max(end);
            return None;
        }
        let first = self.pending.pop()?;
        self.now = Timestamp::from_nanos(first.time);
        self.handled += 1;
        Some(first.event)
    }

    /// Returns the number of events returned so far.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Returns the number of events pending.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

impl<E> Default for Engine<E> {
    fn default() -> Self {
        Engine::new()
    }
}

#[derive(Clone, Debug)]
struct Pending<E> {
    time: u64,
    order: u64,
    event: E,
}

impl<E> Pending<E> {
    fn key(&self) -> (u64, u64) {
        (self.time, self.order)
    }
}

/// The heap returns its greatest element first, so the earliest event must compare greatest.
impl<E> Ord for Pending<E> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> PartialOrd for Pending<E> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Pending<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Pending<E> {}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_core::Random;

    #[test]
    fn events_come_by_time_and_then_as_they_were_scheduled() {
        let (mut engine, mut random) = (Engine::new(), Random::stream(1, 0));
        let mut model: Vec<(u64, u64)> = vec![];
        for number in 0..2_000 {
            let time = random.below(50);
            engine.at(Timestamp::from_nanos(time), number);
            model.push((time, number));
        }
        model.sort_unstable();
        let got = std::iter::from_fn(|| {
            let number = engine.next(Timestamp::MAX)?;
            Some((engine.now().as_nanos(), number))
        });
        assert_eq!(got.collect::<Vec<_>>(), model);
        assert_eq!((engine.handled(), engine.pending()), (2_000, 0));
    }

    #[test]
    fn what_has_passed_happens_now_and_time_never_goes_back() {
        let mut engine = Engine::new();
        engine.at(Timestamp::from_nanos(10), 'a');
        assert_eq!(engine.next(Timestamp::from_nanos(5)), None);
        assert_eq!(engine.now(), Timestamp::from_nanos(5));
        engine.at(Timestamp::from_nanos(3), 'b');
        assert_eq!(engine.next(Timestamp::from_nanos(5)), Some('b'));
        assert_eq!(engine.next(Timestamp::from_nanos(1)), None);
        assert_eq!(engine.now(), Timestamp::from_nanos(5));
        assert_eq!(engine.next(Timestamp::from_nanos(10)), Some('a'));
    }
}
