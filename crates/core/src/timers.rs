//! [`SoftTimers`]: events with due times, handed out at trigger states.
//!
//! The contract, in the order a driver meets it. Each sentence is held against a 200-line model by
//! the property tests in `tests/`.
//!
//! 1. **Never early.** An event is handed out only when `now` ≥ its due time.
//! 2. **In order** of *effective due*, and first-in first-out among equal ones. The effective due is
//!    the due time on the tick, after the rounding that [`Slack::rounded`] allows. An event that is
//!    already due when it is scheduled queues behind everything due by then.
//! 3. **Exactly once.** An event is handed out once, or returned by [`cancel`](SoftTimers::cancel)
//!    once. A handle never reaches another event.
//! 4. **A turn ends.** [`trigger`](SoftTimers::trigger) draws a line; the [`Turn`] hands out what was
//!    due then. What a handler schedules, even for "now", belongs to a later turn.
//! 5. **Bounded work.** [`next`](SoftTimers::next) hands out one event; [`step`](SoftTimers::step)
//!    does at most a few microseconds of work.
//! 6. **No tick.** [`poll_at`](SoftTimers::poll_at) is the only time at which hardware is wanted, and
//!    it is `None` when nothing needs it.
//!
//! ```text
//!   schedule(now, 40 µs, slack)                 trigger(now) ──▶ Turn { limit = (now, sequence) }
//!        │                                          │
//!        ▼                                          ▼
//!   slots: [event, due, generation]     next(&turn): the least (effective due, sequence) < limit?
//!   due order:      heap of (effective due, sequence)          yes: hand it out   no: the turn is over
//!   deadline order: heap of due + slack ──▶ poll_at()
//! ```

use alloc::boxed::Box;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::heap::IndexedHeap;
use crate::slack::Window;
use crate::slots::Slots;
use crate::time::saturating_nanos;
use crate::{Histogram, Intervals, PerSource, Slack, Stats, TimerId, Timestamp, TriggerState};

/// How a [`SoftTimers`] is set up.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    tick: Duration,
    clock_step: Duration,
    intervals: bool,
    without_each: bool,
    disabled: PerSource<bool>,
    first_generation: NonZeroU32,
}

impl Default for Config {
    /// A tick of 1 µs, a nanosecond clock, no interval statistics.
    fn default() -> Self {
        Config {
            tick: Duration::from_micros(1),
            clock_step: Duration::ZERO,
            intervals: false,
            without_each: false,
            disabled: PerSource::default(),
            first_generation: NonZeroU32::MIN,
        }
    }
}

impl Config {
    /// The unit to which due times are rounded up, so that events closer than that share a wake-up.
    /// At least 1 ns; zero is taken as 1 ns.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// The step of the clock that supplies `now`, where it is coarser than a nanosecond.
    ///
    /// A coarse clock may be up to one step behind when an event is scheduled, so every delay is
    /// lengthened by one step: the `T + 1` of soft timers §3. See [`bound`](crate::bound).
    pub fn clock_step(mut self, step: Duration) -> Self {
        self.clock_step = step;
        self
    }

    /// Keep a histogram of the intervals between trigger states, by source. Costs a few nanoseconds
    /// at each trigger state.
    pub fn intervals(mut self, keep: bool) -> Self {
        self.intervals = keep;
        self
    }

    /// Keep also what the intervals would be without each source ([`Intervals::without`]): some 20 ns more
    /// at each trigger state. Implies [`intervals`](Self::intervals).
    pub fn intervals_without_each(mut self, keep: bool) -> Self {
        self.without_each = keep;
        self
    }

    /// Do as if the program had no trigger states of this source: their turns are empty, and they are not
    /// counted. An experiment (soft timers §5.4), not a way to save time: implies
    /// [`intervals`](Self::intervals). May be called for several sources; with all that a program meets
    /// disabled, nothing is handed out.
    pub fn disable_source(mut self, source: TriggerState) -> Self {
        self.disabled[source] = true;
        self
    }

    /// Whether every trigger state is to be looked at.
    fn watches(&self) -> bool {
        self.intervals || self.without_each || self.disabled != PerSource::default()
    }

    /// The generation at which slots start. For tests that want to see slots retire.
    #[doc(hidden)]
    pub fn first_generation(mut self, generation: NonZeroU32) -> Self {
        self.first_generation = generation;
        self
    }
}

/// A set of events with due times. See the [module documentation](crate::timers) for the contract.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{Config, Slack, SoftTimers, Timestamp, TriggerState};
///
/// let mut timers = SoftTimers::new(Config::default());
/// let start = Timestamp::ZERO;
/// timers.schedule(start, Duration::from_micros(40), Slack::micros(50), "send");
/// assert_eq!(timers.poll_at(), Some(Timestamp::from_micros(90))); // when the backup must look
///
/// let turn = timers.trigger(TriggerState::SyscallExit, Timestamp::from_micros(39));
/// assert!(timers.next(&turn).is_none()); // never early
///
/// let turn = timers.trigger(TriggerState::SyscallExit, Timestamp::from_micros(43));
/// let fired = timers.next(&turn).unwrap();
/// assert_eq!((fired.event, fired.lateness), ("send", Duration::from_micros(3)));
/// assert_eq!(timers.poll_at(), None); // nothing pending: nothing to arm
/// ```
#[derive(Debug)]
pub struct SoftTimers<E> {
    /// The cached word behind "anything due?": the earliest effective due, [`Timestamp::MAX`] when
    /// nothing is pending, zero when every trigger state is to be recorded.
    gate: Timestamp,
    /// The latest time seen. Time that goes backwards is taken as standing still.
    latest: Timestamp,
    sequence: u64,
    tick: u64,
    clock_step: Duration,
    slots: Slots<Waiting<E>>,
    due: IndexedHeap<(Timestamp, u64)>,
    deadlines: IndexedHeap<Timestamp>,
    stats: Stats,
    lateness: Box<Histogram>,
    intervals: Option<Box<Intervals>>,
}

#[derive(Debug)]
struct Waiting<E> {
    due: Timestamp,
    event: E,
}

/// One visit to a trigger state: the line drawn by [`SoftTimers::trigger`].
///
/// Ask for its events with [`SoftTimers::next`] until there is none. Dropping it early loses nothing:
/// what was not taken is due in the next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a turn hands out events only through `next` or `step`"]
pub struct Turn {
    limit: (Timestamp, u64),
    source: TriggerState,
}

/// An event that is handed out, with what is known about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fired<E> {
    /// What was scheduled.
    pub event: E,
    /// The handle it had; dead from now on.
    pub id: TimerId,
    /// The time it was asked for.
    pub due: Timestamp,
    /// The time of the turn minus `due`. Time spent in earlier handlers of the same turn is not in it.
    pub lateness: Duration,
    /// The trigger state that found it due.
    pub source: TriggerState,
}

/// What one [`SoftTimers::step`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<E> {
    /// An event of the turn.
    Fired(Fired<E>),
    /// Some structural work was done and more is left before the next event; call again.
    MoreWork,
    /// The turn is over.
    Done,
}

/// The timer named by the handle has been handed out or cancelled before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotPending;

impl core::fmt::Display for NotPending {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the timer is no longer pending")
    }
}

impl core::error::Error for NotPending {}

impl<E> SoftTimers<E> {
    /// An empty set of timers.
    pub fn new(config: Config) -> Self {
        let intervals =
            config.watches().then(|| Box::new(Intervals::new(config.without_each, config.disabled)));
        SoftTimers {
            gate: if intervals.is_some() { Timestamp::ZERO } else { Timestamp::MAX },
            latest: Timestamp::ZERO,
            sequence: 0,
            tick: saturating_nanos(config.tick).max(1),
            clock_step: config.clock_step,
            slots: Slots::new(config.first_generation),
            due: IndexedHeap::new(),
            deadlines: IndexedHeap::new(),
            stats: Stats::default(),
            lateness: Box::default(),
            intervals,
        }
    }

    /// Schedules `event` for at least `delay` after `now`, at most `slack` later than that.
    ///
    /// # Cost
    /// O(log n). Allocates only when more timers are pending than ever before.
    ///
    /// # Panics
    /// If 2³² − 1 timers are pending or retired.
    #[doc(alias = "schedule_soft_event")]
    pub fn schedule(&mut self, now: Timestamp, delay: Duration, slack: Slack, event: E) -> TimerId {
        self.latest = self.latest.max(now);
        let due = now + delay.saturating_add(self.clock_step);
        self.insert(slack.resolve(due, delay, self.tick, self.latest), event)
    }

    /// Schedules `event` for the time `due`, at most `slack` later. A time in the past is due at once.
    ///
    /// # Cost
    /// As [`schedule`](Self::schedule).
    ///
    /// # Panics
    /// As [`schedule`](Self::schedule).
    pub fn schedule_at(&mut self, now: Timestamp, due: Timestamp, slack: Slack, event: E) -> TimerId {
        self.latest = self.latest.max(now);
        let delay = due.saturating_duration_since(now);
        self.insert(slack.resolve(due, delay, self.tick, self.latest), event)
    }

    /// Moves a pending event to `delay` after `now`. An event whose place is still inside its new
    /// `[due, due + slack]` keeps it, and its turn among equal ones; otherwise it queues anew.
    ///
    /// # Cost
    /// O(log n), O(1) in place. Never allocates.
    ///
    /// # Errors
    /// [`NotPending`] if the event was handed out or cancelled before.
    pub fn reschedule(
        &mut self,
        now: Timestamp,
        id: TimerId,
        delay: Duration,
        slack: Slack,
    ) -> Result<(), NotPending> {
        self.latest = self.latest.max(now);
        let due = now + delay.saturating_add(self.clock_step);
        self.rearm(id, slack.resolve(due, delay, self.tick, self.latest))
    }

    /// Moves a pending event to the time `due`; otherwise as [`reschedule`](Self::reschedule).
    ///
    /// # Errors
    /// [`NotPending`] if the event was handed out or cancelled before.
    pub fn reschedule_at(
        &mut self,
        now: Timestamp,
        id: TimerId,
        due: Timestamp,
        slack: Slack,
    ) -> Result<(), NotPending> {
        self.latest = self.latest.max(now);
        let delay = due.saturating_duration_since(now);
        self.rearm(id, slack.resolve(due, delay, self.tick, self.latest))
    }

    /// Takes a pending event back; `None` if it was handed out or cancelled before.
    ///
    /// # Cost
    /// O(log n). Never allocates.
    pub fn cancel(&mut self, id: TimerId) -> Option<E> {
        let index = self.slots.find(id)?;
        let (_, waiting) = self.remove(index)?;
        self.stats.cancelled += 1;
        Some(waiting.event)
    }

    /// Whether the event is still waiting.
    pub fn is_pending(&self, id: TimerId) -> bool {
        self.slots.find(id).is_some()
    }

    /// Visits a trigger state: the returned turn hands out what is due at `now`.
    ///
    /// # Cost
    /// When nothing is due: one load and one compare (and one counter). Else O(1).
    #[inline]
    pub fn trigger(&mut self, source: TriggerState, now: Timestamp) -> Turn {
        self.stats.triggers[source] += 1;
        if now < self.gate {
            return Turn { limit: (Timestamp::ZERO, 0), source };
        }
        self.begin_turn(source, now)
    }

    /// The next event of the turn, or `None` when the turn is over.
    ///
    /// # Cost
    /// O(log n). Never allocates.
    #[inline]
    pub fn next(&mut self, turn: &Turn) -> Option<Fired<E>> {
        if turn.limit.0 < self.gate {
            return None;
        }
        loop {
            match self.step(turn) {
                Step::Fired(fired) => return Some(fired),
                Step::MoreWork => {}
                Step::Done => return None,
            }
        }
    }

    /// As [`next`](Self::next), in pieces: each call does at most a few microseconds of work, however
    /// many timers are pending and however far time has jumped.
    pub fn step(&mut self, turn: &Turn) -> Step<E> {
        match self.due.peek() {
            Some((key, index)) if key < turn.limit => match self.remove(index) {
                Some((id, waiting)) => Step::Fired(self.fired(turn, id, waiting)),
                None => Step::Done,
            },
            _ => Step::Done,
        }
    }

    /// The earliest deadline: the time at which a backup must look even if no trigger state is met.
    /// `None` when nothing pending needs that.
    ///
    /// Looking earlier is harmless, looking later is late.
    ///
    /// # Cost
    /// O(1).
    #[inline]
    pub fn poll_at(&self) -> Option<Timestamp> {
        self.deadlines.peek().map(|(deadline, _)| deadline)
    }

    /// The earliest time at which a trigger state would find an event due.
    ///
    /// # Cost
    /// O(1).
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.peek().map(|((effective, _), _)| effective)
    }

    /// Events waiting.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether no event is waiting.
    pub fn is_empty(&self) -> bool {
        self.due.len() == 0
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> Stats {
        Stats { pending: self.due.len() as u64, ..self.stats }
    }

    /// Lateness of the events handed out, in nanoseconds.
    pub fn lateness(&self) -> &Histogram {
        &self.lateness
    }

    /// Intervals between trigger states, if [`Config::intervals`] asked for them.
    pub fn intervals(&self) -> Option<&Intervals> {
        self.intervals.as_deref()
    }

    fn insert(&mut self, window: Window, event: E) -> TimerId {
        let (id, index) = self.slots.insert(Waiting { due: window.due, event });
        self.file(index, &window);
        self.stats.scheduled += 1;
        id
    }

    fn rearm(&mut self, id: TimerId, window: Window) -> Result<(), NotPending> {
        let index = self.slots.find(id).ok_or(NotPending)?;
        self.slots.at_mut(index).ok_or(NotPending)?.due = window.due;
        self.stats.rearmed += 1;
        match self.due.key(index) {
            Some((filed, _)) if window.contains(filed) => {
                self.stats.rearmed_in_place += 1;
                self.file_deadline(index, window.deadline(filed));
            }
            _ => self.file(index, &window),
        }
        Ok(())
    }

    fn file(&mut self, index: u32, window: &Window) {
        self.due.set(index, (window.effective, self.sequence));
        self.sequence += 1;
        self.file_deadline(index, window.deadline(window.effective));
        self.set_gate();
    }

    fn file_deadline(&mut self, index: u32, deadline: Timestamp) {
        if deadline == Timestamp::MAX {
            self.deadlines.remove(index);
        } else {
            self.deadlines.set(index, deadline);
        }
    }

    fn remove(&mut self, index: u32) -> Option<(TimerId, Waiting<E>)> {
        self.due.remove(index);
        self.deadlines.remove(index);
        self.set_gate();
        self.slots.take(index)
    }

    fn set_gate(&mut self) {
        if self.intervals.is_none() {
            self.gate = self.next_due().unwrap_or(Timestamp::MAX);
        }
    }

    #[inline(never)]
    fn begin_turn(&mut self, source: TriggerState, now: Timestamp) -> Turn {
        self.latest = self.latest.max(now);
        if let Some(intervals) = &mut self.intervals {
            if !intervals.reached(source, self.latest) {
                self.stats.triggers[source] -= 1;
                return Turn { limit: (Timestamp::ZERO, 0), source };
            }
        }
        Turn { limit: (self.latest, self.sequence), source }
    }

    fn fired(&mut self, turn: &Turn, id: TimerId, waiting: Waiting<E>) -> Fired<E> {
        let Waiting { due, event } = waiting;
        let lateness = turn.limit.0.saturating_duration_since(due);
        self.stats.fired[turn.source] += 1;
        self.lateness.record(saturating_nanos(lateness));
        Fired { event, id, due, lateness, source: turn.source }
    }
}
