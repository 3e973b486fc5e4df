//! [`SoftTimers`]: events with due times, handed out at trigger states.
//!
//! Its contract stands at the type, for those who use it. How an event passes:
//!
//! ```text
//!   schedule(now, 40 µs, slack)                 trigger(now) ──▶ Turn { limit = (now, sequence) }
//!        │                                          │
//!        ▼                                          ▼
//!   records, inserted in the wheel      next(&turn): the least (effective due, sequence) < limit?
//!        │                                   yes: hand it out        no: the turn is over
//!        └─▶ the least due + slack ──▶ poll_at()
//! ```

mod handles;

use alloc::boxed::Box;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::slack::Window;
use crate::time::{Tick, saturating_nanos};
use crate::wheel::record::Record;
use crate::wheel::terms::{Key, Sequence};
use crate::wheel::{Step, Wheel, sizes};
use handles::Handles;

use crate::{Histogram, Intervals, PerSource, Slack, Stats, TimerId, Timestamp, TriggerState};

/// The settings of a [`SoftTimers`].
#[derive(Clone, Copy, Debug)]
pub struct Config {
    tick: Duration,
    clock_step: Duration,
    intervals: bool,
    without_each: bool,
    disabled: PerSource<bool>,
    first_generation: NonZeroU32,
    first_sequence: NonZeroU32,
    few: usize,
}

impl Default for Config {
    /// Returns the defaults: a tick of 1 µs, a nanosecond clock, no interval statistics.
    fn default() -> Self {
        Config {
            tick: Duration::from_micros(1),
            clock_step: Duration::ZERO,
            intervals: false,
            without_each: false,
            disabled: PerSource::default(),
            first_generation: NonZeroU32::MIN,
            first_sequence: NonZeroU32::MIN,
            few: sizes::MOST_WITHOUT_LEVELS,
        }
    }
}

impl Config {
    /// Sets the unit to which due times are rounded up, so that events closer than that share a wake-up. At
    /// least 1 ns; zero is taken as 1 ns.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Sets the step of the clock that supplies `now`, where it is coarser than a nanosecond.
    ///
    /// A coarse clock may be up to one step behind when an event is scheduled, so every delay is
    /// lengthened by one step: the `T + 1` of soft timers §3.
    pub fn clock_step(mut self, step: Duration) -> Self {
        self.clock_step = step;
        self
    }

    /// Keeps a histogram of the intervals between trigger states, by source. Costs a few nanoseconds at each
    /// trigger state.
    pub fn intervals(mut self, keep: bool) -> Self {
        self.intervals = keep;
        self
    }

    /// Also keeps the intervals that there would be without each source ([`Intervals::without`]): some 20 ns
    /// more at each trigger state. Implies [`intervals`](Self::intervals).
    pub fn intervals_without_each(mut self, keep: bool) -> Self {
        self.without_each = keep;
        self
    }

    /// Behaves as if the program had no trigger states of this source: their turns are empty, and they are
    /// not counted. For experiments (soft timers §5.4), not to save time: implies
    /// [`intervals`](Self::intervals). May be called for several sources; if all sources that a program meets
    /// are disabled, no event is handed out.
    pub fn disable_source(mut self, source: TriggerState) -> Self {
        self.disabled[source] = true;
        self
    }

    /// Returns whether every trigger state must be recorded.
    fn watches(&self) -> bool {
        self.intervals || self.without_each || self.disabled != PerSource::default()
    }

    /// Sets the most timers that are kept at the front alone, without a wheel. For tests that need a wheel at
    /// once.
    #[doc(hidden)]
    pub fn few(mut self, most: usize) -> Self {
        self.few = most.min(sizes::MOST_WITHOUT_LEVELS);
        self
    }

    /// Sets the generation at which records start. For tests in which records retire.
    #[doc(hidden)]
    pub fn first_generation(mut self, generation: NonZeroU32) -> Self {
        self.first_generation = generation;
        self
    }

    /// Sets the sequence number of the first event. For tests that begin just below its wrap.
    #[doc(hidden)]
    pub fn first_sequence(mut self, sequence: NonZeroU32) -> Self {
        self.first_sequence = sequence;
        self
    }
}

/// A set of events with due times.
///
/// The contract, in the order a driver meets it; property tests check each sentence against a reference model:
///
/// 1. **Never early.** An event is handed out only when `now` ≥ its due time.
/// 2. **In order** of *effective due*: the due time, rounded as [`Slack::rounded`] allows, then up to the tick.
///    Events of equal effective due come first-in first-out, unless 2³¹ others were set between them. An event
///    that is already due when it is scheduled queues behind everything due by then.
/// 3. **Exactly once.** An event is handed out once, or returned by [`cancel`](SoftTimers::cancel)
///    once. A handle never reaches another event.
/// 4. **A turn ends.** [`trigger`](SoftTimers::trigger) draws a line; the [`Turn`] hands out the events that
///    were due then. An event that a handler schedules, even for "now", belongs to a later turn.
/// 5. **Bounded work.** [`next`](SoftTimers::next) hands out one event; [`step`](SoftTimers::step)
///    does at most a few microseconds of work.
/// 6. **No tick.** [`poll_at`](SoftTimers::poll_at) is the only time at which hardware is needed, and it is
///    `None` when nothing needs it. It is never too late. With up to 1,024 events it is the earliest
///    deadline, unless there have been more and some of those are left. Otherwise it may be earlier: the
///    deadline of an event that was cancelled, postponed or handed out, or the time up to which a bounded
///    search came.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{Config, Slack, SoftTimers, Timestamp, TriggerState};
///
/// let mut timers = SoftTimers::new(Config::default());
/// let start = Timestamp::ZERO;
/// timers.schedule(start, Duration::from_micros(40), Slack::micros(50), "send");
/// assert_eq!(timers.poll_at(), Some(Timestamp::from_micros(90))); // when the backup must fire
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
    wheel: Wheel<E>,
    handles: Handles,
    /// The latest time seen. Time that goes backwards is taken as standing still.
    latest: Timestamp,
    sequence: Sequence,
    tick: Tick,
    clock_step: u64,
    stats: Stats,
    lateness: Box<Histogram>,
    intervals: Option<Box<Intervals>>,
}

/// One visit to a trigger state: the line drawn by [`SoftTimers::trigger`].
///
/// Call [`SoftTimers::next`] until there are no more events. Dropping it early loses nothing: events that
/// were not taken are due in the next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a turn hands out events only through `next` or `step`"]
pub struct Turn {
    limit: Key,
    source: TriggerState,
}

/// An event that is handed out, with its details.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fired<E> {
    /// The event that was scheduled.
    pub event: E,
    /// The handle it had; dead from now on.
    pub id: TimerId,
    /// The requested due time.
    pub due: Timestamp,
    /// The time of the turn minus `due`. Excludes the time spent in earlier handlers of the same turn.
    pub lateness: Duration,
    /// The trigger state that found it due.
    pub source: TriggerState,
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
    /// Makes an empty set of timers.
    pub fn new(config: Config) -> Self {
        let intervals =
            config.watches().then(|| Box::new(Intervals::new(config.without_each, config.disabled)));
        let tick = Tick::new(saturating_nanos(config.tick));
        SoftTimers {
            wheel: Wheel::new(tick.as_nanos(), config.few),
            handles: Handles::new(config.first_generation),
            latest: Timestamp::ZERO,
            sequence: Sequence::starting(config.first_sequence),
            tick,
            clock_step: saturating_nanos(config.clock_step),
            stats: Stats::default(),
            lateness: Box::default(),
            intervals,
        }
    }

    /// Schedules `event` for at least `delay` after `now`, at most `slack` later than that.
    ///
    /// # Cost
    /// O(1). Allocates only when the number of timers reaches a new maximum, or for timers spread over more
    /// slots; a steady load does not. With up to 1,024 timers, one that is due before most others may cost
    /// O(log n). Beyond 1,024 no record is ever copied.
    ///
    /// # Panics
    /// If 2²⁸ − 1 timers are pending or retired.
    #[doc(alias = "schedule_soft_event")]
    #[inline]
    pub fn schedule(&mut self, now: Timestamp, delay: Duration, slack: Slack, event: E) -> TimerId {
        let window = self.window_after(now, delay, slack);
        self.insert(&window, event)
    }

    /// Schedules `event` for the time `due`, at most `slack` later. A time in the past is due at once.
    ///
    /// # Cost
    /// As [`schedule`](Self::schedule).
    ///
    /// # Panics
    /// As [`schedule`](Self::schedule).
    #[inline]
    pub fn schedule_at(&mut self, now: Timestamp, due: Timestamp, slack: Slack, event: E) -> TimerId {
        let window = self.window_at(now, due, slack);
        self.insert(&window, event)
    }

    /// Moves a pending event to `delay` after `now`. An event whose position is still inside its new `[due,
    /// due + slack]` keeps it, and its turn among equal ones; otherwise it queues anew.
    ///
    /// # Cost
    /// As [`schedule`](Self::schedule); to a later time, one write.
    ///
    /// # Errors
    /// [`NotPending`] if the event was handed out or cancelled before.
    #[inline]
    pub fn reschedule(
        &mut self,
        now: Timestamp,
        id: TimerId,
        delay: Duration,
        slack: Slack,
    ) -> Result<(), NotPending> {
        let window = self.window_after(now, delay, slack);
        self.rearm(id, &window)
    }

    /// Moves a pending event to the time `due`; otherwise as [`reschedule`](Self::reschedule).
    ///
    /// # Errors
    /// [`NotPending`] if the event was handed out or cancelled before.
    #[inline]
    pub fn reschedule_at(
        &mut self,
        now: Timestamp,
        id: TimerId,
        due: Timestamp,
        slack: Slack,
    ) -> Result<(), NotPending> {
        let window = self.window_at(now, due, slack);
        self.rearm(id, &window)
    }

    /// Cancels a pending event and returns it; `None` if it was handed out or cancelled before.
    ///
    /// # Cost
    /// O(1). With up to 1,024 timers, cancelling the next one costs O(√n) on average if they were not set in
    /// order: it searches for those after it, which takes at most a microsecond or two. Never allocates.
    // Returned in memory, an event is read by other widths than it was written: the CPU waits for each copy.
    #[inline(always)]
    pub fn cancel(&mut self, id: TimerId) -> Option<E> {
        let index = self.find(id)?;
        self.stats.cancelled += 1;
        let handles = &mut self.handles;
        self.wheel.remove(index, |record| handles.give_back(record, index))
    }

    /// Returns whether the event is still waiting.
    pub fn is_pending(&self, id: TimerId) -> bool {
        self.find(id).is_some()
    }

    /// Returns the handle that [`TimerId::to_bits`] turned into this number, whether or not it is still
    /// pending; `None` if no handle has it.
    #[inline]
    pub fn id_of(&self, bits: u64) -> Option<TimerId> {
        self.handles.id_of(bits)
    }

    /// Visits a trigger state: the returned turn hands out the events due at `now`.
    ///
    /// # Cost
    /// When nothing is due: one load and one compare (and one counter). Otherwise O(1).
    #[inline]
    pub fn trigger(&mut self, source: TriggerState, now: Timestamp) -> Turn {
        self.stats.triggers[source] += 1;
        if self.intervals.is_some() && !self.is_counted(source, now) {
            return Turn { limit: Key::ZERO, source };
        }
        if now.as_nanos() < self.wheel.gate() && self.intervals.is_none() {
            return Turn { limit: Key::ZERO, source };
        }
        self.latest = self.latest.max(now);
        Turn { limit: Key { due: self.latest.as_nanos(), sequence: self.sequence }, source }
    }

    /// Returns the next event of the turn, or `None` when the turn is over.
    ///
    /// # Cost
    /// O(1) for an event, and for each of the (few) times that it cascades before it is due. A steady load
    /// does not allocate.
    #[inline]
    pub fn next(&mut self, turn: &Turn) -> Option<Fired<E>> {
        if turn.limit.due < self.wheel.gate() {
            return None;
        }
        let index = self.wheel.take_due(turn.limit)?;
        self.fire(turn, index)
    }

    /// As [`next`](Self::next), in pieces: each call does at most a few microseconds of work, however
    /// many timers are pending and however far time has jumped.
    #[inline]
    pub fn step(&mut self, turn: &Turn) -> Step<Fired<E>> {
        match self.wheel.pop(turn.limit) {
            Step::Fired(index) => self.fire(turn, index).map_or(Step::Done, Step::Fired),
            Step::MoreWork => Step::MoreWork,
            Step::Done if self.wheel.tidy(turn.limit.due) => Step::MoreWork,
            Step::Done => Step::Done,
        }
    }

    /// Returns the earliest deadline: the time at which a backup must fire if no trigger state is met. `None`
    /// when no pending event needs one.
    ///
    /// Firing earlier is harmless; firing later makes events late. With up to 1,024 events this is the
    /// earliest deadline, unless there have been more and some of those are left. Otherwise it may be a time
    /// before it: that of an event that was cancelled, postponed or handed out, or the time up to which a
    /// bounded search came.
    ///
    /// # Cost
    /// One load, and from the first call on an occasional search at the end of a turn. With up to 1,024
    /// events, while the one that had the deadline is gone, each call searches those due before the next
    /// deadline.
    #[inline]
    pub fn poll_at(&self) -> Option<Timestamp> {
        match self.wheel.earliest_deadline() {
            u64::MAX => None,
            nanos => Some(Timestamp::from_nanos(nanos)),
        }
    }

    /// Returns by how much a wake-up may come after [`poll_at`](Self::poll_at), at most `most`, if each event allows as much
    /// as its own slack: zero as soon as one of those without slack has its deadline there. For a sleep that is shortened
    /// by the rest ([`Idle::wait_within`](crate::Idle::wait_within)).
    ///
    /// ```
    /// use core::time::Duration;
    /// use softtimers_core::{Config, Slack, SoftTimers, Timestamp};
    ///
    /// let mut timers = SoftTimers::new(Config::default());
    /// let (start, micros) = (Timestamp::ZERO, Duration::from_micros);
    /// timers.schedule(start, micros(100), Slack::micros(20), "send");
    /// assert_eq!((timers.poll_at(), timers.slack_left(micros(17))), (Some(start + micros(120)), micros(17)));
    /// timers.schedule(start, micros(125), Slack::EXACT, "just behind");
    /// assert_eq!((timers.poll_at(), timers.slack_left(micros(17))), (Some(start + micros(120)), micros(5)));
    /// ```
    ///
    /// # Cost
    /// O(1) if the next event has no slack; otherwise a search of the events due before the answer. With more than 1,024
    /// events it is bounded, and those that it does not reach count as without slack.
    pub fn slack_left(&self, most: Duration) -> Duration {
        Duration::from_nanos(self.wheel.slack_left(saturating_nanos(most)))
    }

    /// Returns the earliest time at which a trigger state would find an event due; possibly a time before it
    /// under the same conditions as [`poll_at`](Self::poll_at).
    ///
    /// # Cost
    /// O(1); if the first of up to 1,024 was postponed, a search of the others.
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        (!self.is_empty()).then(|| Timestamp::from_nanos(self.wheel.next_due()))
    }

    /// Returns the time before which a turn has nothing to do: no event is due, and none has to cascade yet.
    /// For callers that compare it with a clock before taking a lock; [`trigger`](Self::trigger) does so
    /// itself.
    ///
    /// # Cost
    /// One load.
    #[inline]
    pub fn gate(&self) -> Timestamp {
        Timestamp::from_nanos(self.wheel.gate())
    }

    /// Returns the number of pending events.
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Returns whether no event is waiting.
    pub fn is_empty(&self) -> bool {
        self.wheel.len() == 0
    }

    /// Returns the counters since the timers were made.
    pub fn stats(&self) -> Stats {
        Stats { pending: self.wheel.len() as u64, ..self.stats }
    }

    /// Returns the lateness of the events handed out, in nanoseconds.
    pub fn lateness(&self) -> &Histogram {
        &self.lateness
    }

    /// Returns the intervals between trigger states, if [`Config::intervals`] is on.
    pub fn intervals(&self) -> Option<&Intervals> {
        self.intervals.as_deref()
    }

    /// Allocates the memory for `events` more events, and touches it, so that no [`schedule`](Self::schedule)
    /// has to wait for it.
    ///
    /// New records and slots may need pages from the kernel, and the first write to a page costs a page
    /// fault, which on a virtual machine may take tens of microseconds. A program that cannot wait that long
    /// reserves at the start.
    ///
    /// # Cost
    /// O(`events`), with the page faults in it: do not call it under load. About 40 bytes for an event of up
    /// to eight bytes, and up to 1.8 MB beyond 1,024 events.
    ///
    /// ```
    /// use softtimers_core::{Config, SoftTimers};
    ///
    /// let mut timers = SoftTimers::<u32>::new(Config::default());
    /// timers.reserve(100_000);
    /// ```
    pub fn reserve(&mut self, events: usize) {
        self.handles.reserve(events, &mut self.wheel.records);
        self.wheel.reserve(events);
    }

    /// Frees the memory that the pending events do not need, as after a peak. It is allocated again when
    /// needed again. Records do not move: the record of an event that was set at the peak and is still
    /// pending keeps those before it.
    ///
    /// # Cost
    /// O(n), with n the highest number of events so far: do not call it under load.
    pub fn shrink_to_fit(&mut self) {
        self.handles.shrink(&mut self.wheel.records);
        self.wheel.shrink();
    }

    #[inline]
    fn find(&self, id: TimerId) -> Option<u32> {
        Some(self.pending(id)?.0)
    }

    /// A free record may have the generation of a handle that belongs to another set.
    #[inline]
    fn pending(&self, id: TimerId) -> Option<(u32, &Record<E>)> {
        self.handles.record(&self.wheel.records, id).filter(|(_, record)| record.is_filed())
    }

    #[inline]
    fn window_after(&mut self, now: Timestamp, delay: Duration, slack: Slack) -> Window {
        self.latest = self.latest.max(now);
        let delay = saturating_nanos(delay);
        let due = now.after(delay.saturating_add(self.clock_step));
        slack.resolve(due.as_nanos(), delay, self.tick, self.latest.as_nanos())
    }

    #[inline]
    fn window_at(&mut self, now: Timestamp, due: Timestamp, slack: Slack) -> Window {
        self.latest = self.latest.max(now);
        slack.resolve(due.as_nanos(), due.nanos_since(now), self.tick, self.latest.as_nanos())
    }

    #[inline]
    fn insert(&mut self, window: &Window, event: E) -> TimerId {
        let index = self.handles.take(&mut self.wheel.records);
        let key = Key { due: window.effective, sequence: self.sequence.advance() };
        self.stats.scheduled += 1;
        let generation = self.wheel.insert(self.latest.as_nanos(), index, &window.terms(key), event);
        self.handles.id(index, generation)
    }

    #[inline]
    fn rearm(&mut self, id: TimerId, window: &Window) -> Result<(), NotPending> {
        let (index, record) = self.pending(id).ok_or(NotPending)?;
        let mut key = record.key();
        self.stats.rearmed += 1;
        if window.contains(key.due) {
            self.stats.rearmed_in_place += 1;
        } else {
            key = Key { due: window.effective, sequence: self.sequence.advance() };
        }
        let terms = window.terms(key);
        if !self.wheel.put_off(index, &terms) {
            self.wheel.move_to(self.latest.as_nanos(), index, &terms);
        }
        Ok(())
    }

    /// Records the trigger state's interval; returns false if its source is disabled.
    #[inline(never)]
    fn is_counted(&mut self, source: TriggerState, now: Timestamp) -> bool {
        self.latest = self.latest.max(now);
        let latest = self.latest;
        let counts = self.intervals.as_mut().is_none_or(|intervals| intervals.reached(source, latest));
        self.stats.triggers[source] -= u64::from(!counts);
        counts
    }

    #[inline]
    fn fire(&mut self, turn: &Turn, index: u32) -> Option<Fired<E>> {
        let handles = &mut self.handles;
        let (asked, event, id) = self.wheel.taken(index, |record| {
            let id = handles.id(index, record.generation);
            handles.give_back(record, index);
            id
        })?;
        let lateness = turn.limit.due.saturating_sub(asked);
        self.stats.fired[turn.source] += 1;
        self.lateness.record(lateness);
        Some(Fired {
            event,
            id,
            due: Timestamp::from_nanos(asked),
            lateness: Duration::from_nanos(lateness),
            source: turn.source,
        })
    }
}
