//! [`Repeats`]: the repeating events, each with the clock of its schedule.
//!
//! A tick is a timer like any other; this module keeps the state between two ticks. A reused place has
//! another generation, so that a stale name finds nothing.

use softtimers_core::{Rate, RateClock, TimerId, Timestamp};

#[derive(Debug)]
pub(super) struct Repeats<E> {
    places: Vec<RepeatSlot<E>>,
    free: Vec<u32>,
    skipped: u64,
}

/// Names a repeating event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Ticking {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct RepeatSlot<E> {
    generation: u32,
    repeat: Option<Repeat<E>>,
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
    pub(super) const fn new() -> Self {
        Repeats { places: Vec::new(), free: Vec::new(), skipped: 0 }
    }

    /// Begins ticks one interval after `now`; `schedule` makes the timer of the first.
    pub(super) fn insert(
        &mut self,
        event: E,
        rate: Rate,
        now: Timestamp,
        schedule: impl FnOnce(Ticking, Timestamp) -> TimerId,
    ) -> Ticking
    where
        E: Clone,
    {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(RepeatSlot { generation: 0, repeat: None });
            // Each has a timer in the wheel, which panics before it has 2³² of them.
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        let name = Ticking { index, generation: place.generation };
        let mut clock = RateClock::from(rate);
        clock.start(now);
        let first = clock.departed(now);
        place.repeat = Some(Repeat { event, copy: E::clone, clock, timer: schedule(name, first) });
        name
    }

    /// Ends the ticks. Returns the event, and the timer of the pending tick.
    pub(super) fn remove(&mut self, name: Ticking) -> Option<(E, TimerId)> {
        self.find(name)?;
        let place = &mut self.places[name.index as usize];
        let repeat = place.repeat.take()?;
        // A place whose generations are used up is left empty.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(name.index);
        }
        Some((repeat.event, repeat.timer))
    }

    /// Handles a tick at `now`: returns its event and its scheduled time. `schedule` makes the timer of the
    /// next.
    pub(super) fn tick(
        &mut self,
        name: Ticking,
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
    pub(super) fn restart(&mut self, name: Ticking, first: Timestamp) -> Option<TimerId> {
        let repeat = self.find(name)?;
        repeat.clock.start(first);
        Some(repeat.timer)
    }

    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    fn find(&mut self, name: Ticking) -> Option<&mut Repeat<E>> {
        let place = self.places.get_mut(name.index as usize)?;
        if place.generation == name.generation { place.repeat.as_mut() } else { None }
    }
}
