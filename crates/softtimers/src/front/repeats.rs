//! [`Repeats`]: the repeating events, each with the clock of its schedule.
//!
//! A tick is a timer like any other; this module keeps the state between two ticks.

use std::num::NonZeroU32;

use softtimers_core::{Rate, RateClock, Slots, TimerId, Timestamp};

#[derive(Debug)]
pub(super) struct Repeats<E> {
    slots: Slots<Repeat<E>>,
    skipped: u64,
}

#[derive(Debug)]
struct Repeat<E> {
    event: E,
    /// Stored when the event is added, so that only a repeating one has to be `Clone`.
    copy: fn(&E) -> E,
    clock: RateClock,
    /// The timer of the next tick.
    timer: TimerId,
}

impl<E> Repeats<E> {
    pub(super) fn new() -> Self {
        Repeats { slots: Slots::new(NonZeroU32::MIN), skipped: 0 }
    }

    /// Begins ticks one interval after `now`; `schedule` makes the timer of the first. Returns the name of the event.
    pub(super) fn insert(
        &mut self,
        event: E,
        rate: Rate,
        now: Timestamp,
        schedule: impl FnOnce(TimerId, Timestamp) -> TimerId,
    ) -> TimerId
    where
        E: Clone,
    {
        let mut clock = RateClock::from(rate);
        clock.start(now);
        let first = clock.departed(now);
        let repeat = |name| Repeat { event, copy: E::clone, clock, timer: schedule(name, first) };
        self.slots.insert_with(repeat).0
    }

    /// Ends the ticks. Returns the event, and the timer of the pending tick.
    pub(super) fn remove(&mut self, name: TimerId) -> Option<(E, TimerId)> {
        let (_, repeat) = self.slots.take(self.slots.find(name)?)?;
        Some((repeat.event, repeat.timer))
    }

    /// Handles a tick at `now`: returns its event and its scheduled time. `schedule` makes the timer of the
    /// next.
    pub(super) fn tick(
        &mut self,
        name: TimerId,
        now: Timestamp,
        schedule: impl FnOnce(Timestamp) -> TimerId,
    ) -> Option<(E, Timestamp)> {
        let repeat = self.find(name)?;
        let (due, before) = (repeat.clock.place(), repeat.clock.forfeited());
        repeat.timer = schedule(repeat.clock.departed(now));
        let skipped = repeat.clock.forfeited() - before;
        let event = (repeat.copy)(&repeat.event);
        self.skipped = self.skipped.saturating_add(skipped);
        Some((event, due))
    }

    /// Moves the next tick to `first`; returns its timer.
    pub(super) fn restart(&mut self, name: TimerId, first: Timestamp) -> Option<TimerId> {
        let repeat = self.find(name)?;
        repeat.clock.start(first);
        Some(repeat.timer)
    }

    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    fn find(&mut self, name: TimerId) -> Option<&mut Repeat<E>> {
        self.slots.at_mut(self.slots.find(name)?)
    }
}
