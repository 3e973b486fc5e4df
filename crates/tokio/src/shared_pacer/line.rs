//! [`Line`]: those who wait for one pace, in order, as a state machine: time comes in, wakers come out.
//!
//! Nobody reserves a time. A caller takes the next departure at the moment when it is polled and may leave; until then it
//! only stands in line. So one that goes away has taken nothing, and the one behind it is next:
//!
//! ```text
//!   line   a ─ b ─ c       `due`: when the first must be woken      one timer for all
//!          │               `call` wakes it                          one wake-up a departure
//!          └ polled: leaves, and `due` is b's time
//!            dropped: `due` is b's, at once if a's time has come
//!            neither, for `CALL_PATIENCE`: b is woken as well, and a may leave when it comes
//! ```
//!
//! What is owed to those who wait, because the first was late, is bounded by the clock's
//! [`CatchUp`](crate::CatchUp). To those who come when nobody waits nothing is owed, but for a burst that was asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use softtimers_core::{CatchUp, Rate, RateClock, Timestamp};

#[derive(Debug)]
pub(crate) struct Line<W> {
    clock: RateClock,
    started: bool,
    /// When the clock lets the next one leave.
    next: Timestamp,
    /// A burst interval after the latest departure: when the next one may leave if one was given back.
    soonest: Timestamp,
    /// The calls that may leave at once after an idle time, less one.
    burst: u32,
    saved: u32,
    /// Departures that were taken and given back unused, and how many of them are kept for others.
    given_back: u32,
    most_given_back: u32,
    tickets: u64,
    /// By ticket, so in order. Without a waker: woken, and expected to come.
    waiting: BTreeMap<u64, Option<W>>,
    /// Those that were woken and did not come in time, or cannot leave yet: nobody need wait for them.
    aside: BTreeMap<u64, Option<W>>,
    /// The one that was woken last, and when, until it comes or steps aside.
    called: Option<(u64, Timestamp)>,
}

impl<W> Line<W> {
    /// `catch_up` is that of the clock.
    pub(crate) fn new(clock: RateClock, catch_up: CatchUp) -> Self {
        let interval = clock.rate().interval().as_nanos().max(1);
        let owed =
            u64::try_from(catch_up.time.as_nanos() / interval).unwrap_or(u64::MAX).min(catch_up.packets);
        Line {
            clock,
            started: false,
            next: Timestamp::ZERO,
            soonest: Timestamp::ZERO,
            burst: 0,
            saved: 0,
            given_back: 0,
            most_given_back: u32::try_from(owed).unwrap_or(u32::MAX).max(1),
            tickets: 0,
            waiting: BTreeMap::new(),
            aside: BTreeMap::new(),
            called: None,
        }
    }

    /// Lets up to `calls` leave at once after an idle time, and at the beginning.
    pub(crate) fn set_burst(&mut self, calls: u32) {
        self.burst = calls.saturating_sub(1);
        self.saved = self.burst;
    }

    pub(crate) fn set_rate(&mut self, now: Timestamp, rate: Rate) {
        let next = self.clock.set_rate(now, rate);
        if self.started {
            self.next = next;
            self.soonest = self.soonest.min(next);
        }
    }

    /// Lets a caller that does not wait leave, if nobody is in line; otherwise returns when it might.
    pub(crate) fn try_leave(&mut self, now: Timestamp, bytes: u32) -> Result<(), Timestamp> {
        if self.may_leave_at_once(now) {
            self.depart(now, bytes);
            return Ok(());
        }
        let ahead = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        Err(self.earliest(now) + self.clock.time_of(ahead, u64::from(ahead) * u64::from(bytes)))
    }

    /// Returns whether a caller that does not wait may leave.
    pub(crate) fn may_leave_at_once(&mut self, now: Timestamp) -> bool {
        self.waiting.is_empty() && {
            self.begin_anew(now);
            now >= self.earliest(now)
        }
    }

    /// Puts a caller at the end of the line, after [`try_leave`](Self::try_leave); returns its ticket.
    pub(crate) fn join(&mut self, waker: W) -> u64 {
        self.tickets += 1;
        self.waiting.insert(self.tickets, Some(waker));
        self.tickets
    }

    /// Returns whether this one may leave: it is first, or stepped aside, and the time has come.
    pub(crate) fn may_leave(&self, ticket: u64, now: Timestamp) -> bool {
        let is_first = self.waiting.first_key_value().is_some_and(|(first, _)| *first == ticket);
        (is_first || self.aside.contains_key(&ticket)) && now >= self.earliest(now)
    }

    /// Counts it as having left, if it [may](Self::may_leave).
    pub(crate) fn leave(&mut self, ticket: u64, now: Timestamp, bytes: u32) -> bool {
        let may = self.may_leave(ticket, now);
        if may {
            // It is being polled: the waker that goes is a clone of its task's own.
            drop(self.give_up(ticket));
            self.depart(now, bytes);
        }
        may
    }

    /// Has it wait in line, with this waker. Returns the one that it had, to be dropped without a lock: that may run
    /// anything.
    pub(crate) fn wait(&mut self, ticket: u64, waker: W) -> Option<W> {
        let before = self.give_up(ticket);
        self.waiting.insert(ticket, Some(waker));
        before
    }

    /// Returns the waker of one that is in line, unless it has been woken.
    pub(crate) fn waker(&self, ticket: u64) -> Option<&W> {
        self.waiting.get(&ticket)?.as_ref()
    }

    /// Lets those behind this one leave before it, for it cannot leave yet; returns its ticket.
    pub(crate) fn step_aside(&mut self, ticket: Option<u64>) -> u64 {
        let Some(ticket) = ticket else {
            self.tickets += 1;
            self.aside.insert(self.tickets, None);
            return self.tickets;
        };
        if let Some(waker) = self.waiting.remove(&ticket) {
            self.aside.insert(ticket, waker);
        }
        self.called = self.called.filter(|(called, _)| *called != ticket);
        ticket
    }

    /// Takes one out of the line. Returns its waker, as [`wait`](Self::wait).
    pub(crate) fn give_up(&mut self, ticket: u64) -> Option<W> {
        self.called = self.called.filter(|(called, _)| *called != ticket);
        self.waiting.remove(&ticket).or_else(|| self.aside.remove(&ticket)).flatten()
    }

    /// Takes back a departure that was counted and not used: another may leave as soon as the burst interval allows.
    pub(crate) fn give_back(&mut self) {
        self.given_back = (self.given_back + 1).min(self.most_given_back);
    }

    /// Returns when [`call`](Self::call) has something to do; `None` if nobody is there to be woken.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        match self.called {
            Some((_, since)) => self.waiting.values().nth(1).map(|_| since + CALL_PATIENCE),
            None => self.waiting.first_key_value()?.1.as_ref().map(|_| self.earliest(now)),
        }
    }

    /// Returns the waker of the next one, if its time has come and the one before it has left or is late.
    pub(crate) fn call(&mut self, now: Timestamp) -> Option<W> {
        if self.due(now).is_none_or(|due| now < due) {
            return None;
        }
        if let Some((late, _)) = self.called {
            self.step_aside(Some(late));
        }
        self.call_first(now)
    }

    /// Returns the waker of the first, whether or not its time has come, unless one has been woken already.
    pub(crate) fn call_first(&mut self, now: Timestamp) -> Option<W> {
        let mut first = self.waiting.first_entry().filter(|_| self.called.is_none())?;
        self.called = Some((*first.key(), now));
        first.get_mut().take()
    }

    /// Takes the wakers of all in line: they have to ask anew.
    pub(crate) fn call_all(&mut self) -> Vec<W> {
        self.called = None;
        self.waiting.values_mut().filter_map(Option::take).collect()
    }

    pub(crate) fn clock(&self) -> &RateClock {
        &self.clock
    }

    /// Returns the number of those who wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.aside.len()
    }

    /// Returns whether a new one would do the same: nobody waits, and nothing is taken or missing.
    pub(crate) fn is_as_new(&self, now: Timestamp) -> bool {
        let unused = if self.started { self.clock.behind(now) } else { u64::MAX };
        self.len() == 0 && now >= self.next && unused > u64::from(self.burst - self.saved)
    }

    /// Somebody comes and nobody is in line: the time since the last departure is not owed, but for the burst.
    fn begin_anew(&mut self, now: Timestamp) {
        if !self.started {
            self.started = true;
            self.next = self.clock.start(now);
            return;
        }
        if now > self.clock.place() {
            if self.burst > 0 {
                let unused = u32::try_from(self.clock.behind(now).saturating_sub(1)).unwrap_or(u32::MAX);
                self.saved = self.saved.saturating_add(unused).min(self.burst);
            }
            self.given_back = 0;
            self.next = self.clock.start(now).max(self.soonest);
        }
    }

    /// Returns when the next one may leave.
    fn earliest(&self, now: Timestamp) -> Timestamp {
        match (self.saved, self.given_back) {
            (1.., _) => now.min(self.next),
            (0, 1..) => self.next.min(self.soonest),
            (0, 0) => self.next,
        }
    }

    fn depart(&mut self, now: Timestamp, bytes: u32) {
        if now >= self.next {
            self.next = self.clock.departed_together(now, 1, bytes);
        } else if self.given_back > 0 && now >= self.soonest {
            self.given_back -= 1;
            self.next = self.next.max(now + self.clock.burst_interval());
        } else {
            self.saved = self.saved.saturating_sub(1);
        }
        self.soonest = now + self.clock.burst_interval();
    }
}

/// How long one that was woken may take to come before the next one is woken, too. Its task may never come: a future that
/// nobody polls any more keeps its place in line, but not those behind it.
pub(crate) const CALL_PATIENCE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests;
