//! [`Timer`]: one timer that is set, moved and taken back over and over.
//!
//! A connection's time-out is moved with each packet and hardly ever fires. Moving it among the shared timers costs
//! their lock, the clock, and the cold lines of its record. But the timers need not know of a move to a later time
//! before they look at the timer again: so a move that comes after that only writes down the new time, and whoever
//! finds the timer due too early files it anew.
//!
//! ```text
//!   set to d0        │ filed: looked at by s0 ≥ d0
//!   reset to d1 ≥ s0 │ written down: one lock of its own, no clock, no timers
//!   reset to d2 ≥ s0 │ also if d2 < d1
//!   at s0            │ found, d2 > now: filed for d2, nobody hears of it
//!   at d2            │ found: the event is handed out
//! ```
//!
//! Two locks are ever held together, this one and then the timers'. A filing is known by its [`TimerId`], so one that
//! was found before the owner set the timer anew is told apart from the new one, and does nothing.

use std::sync::PoisonError;

use softtimers_core::{Fired, NotPending, Slack, TimerId, Timestamp};

use super::Remote;
use super::sync::{Arc, Mutex, MutexGuard};

/// The owner's side of a timer that is moved often. Its event is handed out by [`Entry::claim`].
///
/// Dropping it does not take the timer back: [`cancel`](Self::cancel) does.
///
/// ```
/// use softtimers::shared::{Entry, Shared, Timer};
/// use softtimers::{Config, Slack, Timestamp, TriggerState};
///
/// let timers = Shared::new(Config::default())?;
/// let remote = timers.remote();
/// let at = |micros: u64| Timestamp::from_micros(1_000 + micros);
///
/// let mut timer = Timer::new();
/// timer.set(&remote, at(0), at(100), Slack::EXACT, "time-out");
/// timer.reset(&remote, || at(10), at(300))?; // only written down
///
/// let look = |now| {
///     let turn = remote.trigger(TriggerState::HandlerExit, now)?;
///     Entry::claim(remote.next(&turn)?, &remote, now)
/// };
/// assert!(look(at(101)).is_none()); // found too early, filed anew
/// assert_eq!(look(at(300)).map(|fired| fired.event), Some("time-out"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Timer<E>(Arc<Slot<E>>);

/// What the timers have of a [`Timer`]: their event.
#[derive(Debug)]
pub struct Entry<E>(Arc<Slot<E>>);

/// Small rather than aligned: where there are a hundred thousand, more of them fit into the caches.
#[derive(Debug)]
struct Slot<E>(Mutex<State<E>>);

#[derive(Debug)]
struct State<E> {
    due: Timestamp,
    /// When the timers will have looked at it, at the latest.
    seen_by: Timestamp,
    /// None unless it is pending.
    event: Option<E>,
    /// The filing that counts.
    filed: Option<TimerId>,
    slack: Slack,
}

impl<E> Timer<E> {
    /// One that is not set.
    ///
    /// # Cost
    /// An allocation, which serves as often as the timer is set.
    #[expect(clippy::new_without_default, reason = "an allocation is asked for by name")]
    pub fn new() -> Self {
        let state = State {
            due: Timestamp::MAX,
            seen_by: Timestamp::MAX,
            event: None,
            filed: None,
            slack: Slack::EXACT,
        };
        Timer(Arc::new(Slot(Mutex::new(state))))
    }

    /// Sets it to `due`, with this event; returns the event that it had, if it was pending.
    ///
    /// # Cost
    /// As [`Remote::schedule_at`] or [`Remote::reschedule_at`].
    pub fn set(
        &mut self,
        remote: &Remote<Entry<E>>,
        now: Timestamp,
        due: Timestamp,
        slack: Slack,
        event: E,
    ) -> Option<E> {
        let mut state = self.0.lock();
        let before = state.event.replace(event);
        self.0.file(&mut state, remote, now, due, slack);
        before
    }

    /// Moves it to `due`, with the slack it was set with. The clock is read only if the timers have to be told.
    ///
    /// # Cost
    /// If the timers will not have looked at it before `due`: its own lock, and one write. Else as
    /// [`Remote::reschedule_at`].
    ///
    /// # Errors
    /// [`NotPending`] if its event was handed out or taken back before.
    #[inline]
    pub fn reset(
        &mut self,
        remote: &Remote<Entry<E>>,
        clock: impl FnOnce() -> Timestamp,
        due: Timestamp,
    ) -> Result<(), NotPending> {
        let mut state = self.0.lock();
        if state.event.is_none() {
            return Err(NotPending);
        }
        if due >= state.seen_by {
            state.due = due;
        } else {
            let slack = state.slack;
            self.0.file(&mut state, remote, clock(), due, slack);
        }
        Ok(())
    }

    /// Takes it back: the event, if it was pending.
    ///
    /// # Cost
    /// As [`Remote::cancel`].
    pub fn cancel(&mut self, remote: &Remote<Entry<E>>) -> Option<E> {
        let mut state = self.0.lock();
        let event = state.event.take();
        if let Some(filed) = state.filed.take() {
            remote.cancel(filed);
        }
        event
    }

    /// Looks at the event, under the timer's lock; `None` unless it is pending.
    pub fn look<R>(&self, look: impl FnOnce(Option<&E>) -> R) -> R {
        look(self.0.lock().event.as_ref())
    }
}

impl<E> Entry<E> {
    /// The event of an entry that was handed out at a turn of the time `now`, if it is due. If the timer was put off,
    /// it is filed anew; if it was taken back or set anew, nothing happens.
    pub fn claim(fired: Fired<Entry<E>>, remote: &Remote<Entry<E>>, now: Timestamp) -> Option<Fired<E>> {
        let Fired { event: Entry(slot), id, source, .. } = fired;
        let mut state = slot.lock();
        if state.filed != Some(id) {
            return None;
        }
        state.filed = None;
        let due = state.due;
        if due > now {
            let slack = state.slack;
            slot.file(&mut state, remote, now, due, slack);
            return None;
        }
        let event = state.event.take()?;
        Some(Fired { event, id, due, lateness: now.saturating_duration_since(due), source })
    }
}

impl<E> Slot<E> {
    fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the timers are told. With the slot's lock held.
trait File<E> {
    fn file(
        &self,
        state: &mut State<E>,
        remote: &Remote<Entry<E>>,
        now: Timestamp,
        due: Timestamp,
        slack: Slack,
    );
}

impl<E> File<E> for Arc<Slot<E>> {
    fn file(
        &self,
        state: &mut State<E>,
        remote: &Remote<Entry<E>>,
        now: Timestamp,
        due: Timestamp,
        slack: Slack,
    ) {
        (state.due, state.slack) = (due, slack);
        // A deferrable timer is looked at when somebody passes: no sooner than it is due is all that it asks.
        state.seen_by = due + slack.longest().unwrap_or_default();
        let moved = state.filed.is_some_and(|id| remote.reschedule_at(now, id, due, slack).is_ok());
        if !moved {
            state.filed = Some(remote.schedule_at(now, due, slack, Entry(self.clone())));
        }
    }
}
