//! [`Pending`]: timers whose events are Python objects.
//!
//! The objects lie beside the timers rather than in them, because Python's garbage collector has to visit
//! them all.

use std::cmp::Ordering;
use std::time::Duration;

use pyo3::prelude::*;
use softtimers::{Config, Slack, SoftTimers, Timestamp, TriggerState};

use crate::seconds;

pub(crate) struct Pending {
    timers: SoftTimers<usize>,
    /// Each with its requested time, in seconds: some share a nanosecond, and the timers drop what has passed already.
    objects: Vec<Option<(f64, Py<PyAny>)>>,
    free: Vec<usize>,
}

impl Pending {
    /// asyncio runs timers in the order of their times, however close: the tick is the clock's.
    pub(crate) fn new() -> Self {
        let timers = SoftTimers::new(Config::default().tick(Duration::from_nanos(1)));
        Pending { timers, objects: vec![], free: vec![] }
    }

    /// `when` is not NaN.
    pub(crate) fn schedule(&mut self, now: Timestamp, when: f64, object: Py<PyAny>) -> u64 {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.objects.push(None);
                self.objects.len() - 1
            }
        };
        self.objects[place] = Some((when, object));
        self.timers.schedule_at(now, seconds::timestamp(when), Slack::EXACT, place).to_bits()
    }

    /// The object of a timer that was pending; the caller drops it, which may run any Python code.
    pub(crate) fn cancel(&mut self, id: u64) -> Option<Py<PyAny>> {
        let id = self.timers.id_of(id)?;
        let place = self.timers.cancel(id)?;
        self.take(place).map(|(_, object)| object)
    }

    /// Returns the objects of all due timers, in the order of their times: the timers themselves would put
    /// those last that were scheduled too late.
    pub(crate) fn due(&mut self, now: Timestamp) -> Vec<Py<PyAny>> {
        let turn = self.timers.trigger(TriggerState::HandlerExit, now);
        let mut due = vec![];
        while let Some(fired) = self.timers.next(&turn) {
            due.extend(self.take(fired.event));
        }
        due.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        due.into_iter().map(|(_, object)| object).collect()
    }

    /// Returns when the first is due.
    pub(crate) fn poll_at(&self) -> Option<Timestamp> {
        self.timers.poll_at()
    }

    pub(crate) fn len(&self) -> usize {
        self.timers.len()
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Py<PyAny>> {
        self.objects.iter().flatten().map(|(_, object)| object)
    }

    fn take(&mut self, place: usize) -> Option<(f64, Py<PyAny>)> {
        self.free.push(place);
        self.objects[place].take()
    }
}
