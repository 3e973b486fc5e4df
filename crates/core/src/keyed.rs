//! [`KeyedTimers`]: one timer for each of the caller's own numbers.
//!
//! A server that keeps its connections in an array has one time-out for each of them, and a number for each.
//! A handle table would be a second array beside that. Here the number *is* the timer: setting connection 17
//! moves its timer if it is pending, and what comes due is "17".
//!
//! ```text
//!   connections   [0] [1] [2] …            set(now, 1, due) ─▶ records[1], inserted in the wheel
//!   records       [0] [1] [2] …            turn(now), next ──▶ 1
//! ```

use core::time::Duration;

use crate::Timestamp;
use crate::time::saturating_nanos;
use crate::wheel::record::{MOST_RECORDS, Record};
use crate::wheel::terms::{Key, Sequence, Terms};
use crate::wheel::{Step, Wheel, sizes};

/// One timer for each key, which is a small number of the caller's: a server's number of a connection, for its time-out.
///
/// Keys should be dense: memory is 32 bytes for each up to the largest ever set, and 5 more for each that is
/// pending. Due times are exact to the nanosecond, and first come first served among equal ones.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{KeyedTimers, Timestamp};
///
/// let mut timeouts = KeyedTimers::new(Duration::from_micros(1));
/// let at = Timestamp::from_micros;
/// timeouts.set(at(0), 7, at(300));
/// timeouts.set(at(0), 3, at(200));
/// timeouts.set(at(10), 7, at(310)); // connection 7 was heard of: postponed
///
/// let turn = timeouts.turn(at(250));
/// assert_eq!(timeouts.next(&turn), Some((3, at(200))));
/// assert_eq!(timeouts.next(&turn), None);
/// assert!(timeouts.cancel(7));
/// assert_eq!(timeouts.next_due(), None);
/// ```
#[derive(Debug)]
pub struct KeyedTimers {
    wheel: Wheel<()>,
    sequence: Sequence,
    /// The latest time seen. Time that goes backwards is taken as standing still.
    latest: u64,
}

/// One visit: the line drawn by [`KeyedTimers::turn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a turn hands out keys only through `next` or `step`"]
pub struct KeyedTurn {
    limit: Key,
}

impl KeyedTurn {
    /// The time of the turn.
    #[inline]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.limit.due)
    }
}

impl KeyedTimers {
    /// Creates a set without timers. `grain` is the typical distance between due times; use 1 µs if you do
    /// not know it. Cost depends on it, order and exactness do not.
    pub fn new(grain: Duration) -> Self {
        KeyedTimers {
            wheel: Wheel::new(saturating_nanos(grain), sizes::MOST_WITHOUT_LEVELS),
            sequence: Sequence::FIRST,
            latest: 0,
        }
    }

    /// Sets the timer of `key` to the time `due`, whether it is pending or not. One that is already due
    /// queues behind all others that are due by now.
    ///
    /// # Cost
    /// O(1). Allocates only for keys above all earlier ones, for more timers than ever before, or for timers
    /// spread over more slots; a steady load does not. With up to 1,024 timers, one that is due before most
    /// others may cost O(log n).
    ///
    /// # Panics
    /// If `key` is 2²⁸ − 1 or more.
    #[inline]
    pub fn set(&mut self, now: Timestamp, key: u32, due: Timestamp) {
        self.latest = self.latest.max(now.as_nanos());
        let due = due.as_nanos().max(self.latest);
        let terms = Terms::plain(Key { due, sequence: self.sequence.advance() });
        match self.wheel.records.get(key) {
            Some(record) if record.is_filed() => {
                if !self.wheel.put_off(key, &terms) {
                    self.wheel.move_to(self.latest, key, &terms);
                }
                return;
            }
            Some(_) => {}
            None => self.grow(key),
        }
        self.wheel.insert(self.latest, key, &terms, ());
    }

    /// Cancels the timer of `key`; false if it is not pending.
    ///
    /// # Cost
    /// As [`SoftTimers::cancel`](crate::SoftTimers::cancel).
    #[inline]
    pub fn cancel(&mut self, key: u32) -> bool {
        let pending = self.wheel.records.get(key).is_some_and(Record::is_filed);
        pending && self.wheel.remove(key, |_| ()).is_some()
    }

    /// Returns when the timer of `key` is due, if it is pending.
    #[inline]
    pub fn due(&self, key: u32) -> Option<Timestamp> {
        let record = self.wheel.records.get(key)?;
        record.is_filed().then(|| Timestamp::from_nanos(record.due))
    }

    /// Begins a turn: [`next`](Self::next) hands out the timers due at `now`. Timers set meanwhile belong to
    /// a later turn.
    ///
    /// # Cost
    /// O(1).
    #[inline]
    pub fn turn(&mut self, now: Timestamp) -> KeyedTurn {
        self.latest = self.latest.max(now.as_nanos());
        KeyedTurn { limit: Key { due: self.latest, sequence: self.sequence } }
    }

    /// The next key of the turn and its due time, or `None` when the turn is over. Its timer is no longer
    /// pending.
    ///
    /// # Cost
    /// O(1), and one compare when nothing is due. A steady load does not allocate.
    #[inline]
    pub fn next(&mut self, turn: &KeyedTurn) -> Option<(u32, Timestamp)> {
        if turn.limit.due < self.wheel.gate() {
            return None;
        }
        let key = self.wheel.take_due(turn.limit)?;
        self.fire(key)
    }

    /// As [`next`](Self::next), in pieces: each call does at most a few microseconds of work, however
    /// many timers are pending and however far time has jumped.
    #[inline]
    pub fn step(&mut self, turn: &KeyedTurn) -> Step<(u32, Timestamp)> {
        match self.wheel.pop(turn.limit) {
            Step::Fired(key) => self.fire(key).map_or(Step::Done, Step::Fired),
            Step::MoreWork => Step::MoreWork,
            Step::Done if self.wheel.tidy(turn.limit.due) => Step::MoreWork,
            Step::Done => Step::Done,
        }
    }

    /// The earliest due time, or a time before it: a timer that was cancelled or postponed may still count
    /// until its old time has been checked. `None` when none is pending. Checking earlier is harmless.
    ///
    /// # Cost
    /// O(1).
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        (!self.is_empty()).then(|| Timestamp::from_nanos(self.wheel.next_due()))
    }

    /// Returns the number of pending timers.
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Returns whether no timer is pending.
    pub fn is_empty(&self) -> bool {
        self.wheel.len() == 0
    }

    /// Takes the memory that the timers of all keys below `keys` need, and touches it, so that no [`set`](Self::set) has to
    /// wait for it: see [`SoftTimers::reserve`](crate::SoftTimers::reserve).
    ///
    /// # Cost
    /// O(`keys`), with the page faults in it: do not call it under load.
    ///
    /// # Panics
    /// If `keys` is 2²⁸ or more.
    pub fn reserve(&mut self, keys: u32) {
        if let Some(last) = keys.checked_sub(1) {
            self.grow(last);
            self.wheel.reserve(keys as usize);
        }
    }

    /// Frees the memory that the pending timers do not need, as after a peak.
    ///
    /// # Cost
    /// O(n), with n the largest key: do not call it under load.
    pub fn shrink_to_fit(&mut self) {
        let records = &mut self.wheel.records;
        let mut len = records.len();
        while len > 0 && !records[len as u32 - 1].is_filed() {
            len -= 1;
        }
        records.truncate(len);
        self.wheel.shrink();
    }

    #[inline]
    fn fire(&mut self, key: u32) -> Option<(u32, Timestamp)> {
        let (due, ..) = self.wheel.taken(key, |_| ())?;
        Some((key, Timestamp::from_nanos(due)))
    }

    #[inline(never)]
    fn grow(&mut self, key: u32) {
        assert!((key as usize) < MOST_RECORDS, "key {key} is not below {MOST_RECORDS}");
        while self.wheel.records.len() <= key as usize {
            self.wheel.records.push(Record::new(0));
        }
    }
}
