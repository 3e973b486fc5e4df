//! Events in order of time: [`Engine`].
//!
//! A simulation is a loop that takes the next event and handles it, which schedules others. Events are ordered
//! by time and, for equal times, by the order of scheduling, so that a run never depends on how a heap breaks
//! ties. A simulated machine has about ten pending events, and all of them fire: so the first few stand sorted
//! in an array, where a new one has a few places to pass, and the rest in a binary heap. A heap alone took a
//! third of a router's run, and the timing wheel of `softtimers_core` is made for a hundred thousand timers
//! that are mostly cancelled.
//!
//! Events cannot be cancelled, but one of a kind may replace the one before it. An event that may become
//! obsolete carries the number of its attempt, and is ignored if that attempt is over.

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
    /// At most one, which the next one of its kind replaces.
    only: Option<Pending<E>>,
    /// The next event is the last; none of them is after one of `far`.
    near: Vec<Pending<E>>,
    far: BinaryHeap<Pending<E>>,
    now: Timestamp,
    scheduled: u64,
    handled: u64,
}

impl<E> Engine<E> {
    /// Creates an engine at time zero with nothing pending.
    pub fn new() -> Self {
        let (near, far) = (Vec::with_capacity(NEAR + 1), BinaryHeap::new());
        Engine { only: None, near, far, now: Timestamp::ZERO, scheduled: 0, handled: 0 }
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
        let pending = Pending { time, order: self.scheduled, event };
        self.scheduled += 1;
        if self.far.peek().is_some_and(|far| far.time <= time) {
            return self.far.push(pending);
        }
        let sooner = self.near.iter().rev().take_while(|near| near.time <= time).count();
        self.near.insert(self.near.len() - sooner, pending);
        if self.near.len() > NEAR {
            self.far.push(self.near.remove(0));
        }
    }

    /// Schedules `event` as [`at`](Self::at) does, in the place of the last that was scheduled so: that one
    /// does not happen any more.
    #[inline]
    pub(crate) fn only_at(&mut self, time: Timestamp, event: E) {
        let time = time.max(self.now).as_nanos();
        self.only = Some(Pending { time, order: self.scheduled, event });
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
        if self.near.is_empty() {
            self.near.extend(self.far.pop());
        }
        let only =
            self.only.as_ref().filter(|only| self.near.last().is_none_or(|near| only.key() < near.key()));
        let next = only.or(self.near.last()).filter(|next| next.time <= end.as_nanos());
        if next.is_none() {
            self.now = self.now.max(end);
            return None;
        }
        let first = if only.is_some() { self.only.take() } else { self.near.pop() }?;
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
        usize::from(self.only.is_some()) + self.near.len() + self.far.len()
    }
}

impl<E> Default for Engine<E> {
    fn default() -> Self {
        Engine::new()
    }
}

/// More than a simulated machine has pending.
const NEAR: usize = 24;

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
    use std::collections::BTreeSet;

    use super::*;
    use softtimers_core::Random;

    /// Beside a sorted set, while time goes on: waves of more than stand in the array, and fewer again.
    #[test]
    fn events_come_by_time_and_then_as_they_were_scheduled() {
        let (mut engine, mut random) = (Engine::new(), Random::stream(1, 0));
        let (mut model, mut only, mut most, mut handled) = (BTreeSet::new(), (0, 0), 0, 0);
        for number in 1..40_000 {
            let now = engine.now().as_nanos();
            let schedules = if number / 1_000 % 2 == 0 { 5 } else { 3 };
            if random.below(8) < schedules {
                // Some have passed.
                let time = (now + random.below(50)).saturating_sub(5);
                let pending = (time.max(now), number);
                if random.below(10) == 0 {
                    engine.only_at(Timestamp::from_nanos(time), number);
                    model.remove(&std::mem::replace(&mut only, pending));
                } else {
                    engine.at(Timestamp::from_nanos(time), number);
                }
                model.insert(pending);
            } else {
                let end = now + random.below(20);
                let next = model.first().copied().filter(|&(time, _)| time <= end);
                assert_eq!(engine.next(Timestamp::from_nanos(end)), next.map(|(_, number)| number));
                assert_eq!(engine.now().as_nanos(), next.map_or(end, |(time, _)| time));
                next.inspect(|next| _ = model.remove(next));
                handled += u64::from(next.is_some());
            }
            assert_eq!((engine.pending(), engine.handled()), (model.len(), handled));
            most = most.max(model.len());
        }
        assert!(most > 4 * NEAR && handled > 10_000, "{most}, {handled}");
    }

    #[test]
    fn one_of_a_kind_replaces_the_last_and_keeps_its_place_among_equals() {
        let mut engine = Engine::new();
        let all = |engine: &mut Engine<char>| -> String {
            std::iter::from_fn(|| engine.next(Timestamp::from_nanos(9))).collect()
        };
        engine.at(Timestamp::from_nanos(5), 'a');
        engine.only_at(Timestamp::from_nanos(1), 'b');
        engine.only_at(Timestamp::from_nanos(5), 'c');
        engine.at(Timestamp::from_nanos(5), 'd');
        assert_eq!((engine.pending(), all(&mut engine)), (3, "acd".to_owned()));
        engine.only_at(Timestamp::from_nanos(10), 'e');
        assert_eq!((all(&mut engine), engine.pending()), (String::new(), 1), "it is beyond the end");
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
