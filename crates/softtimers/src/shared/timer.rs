//! [`Timer`]: one timer that is set, moved and cancelled again and again.
//!
//! A connection's time-out is moved with each packet and hardly ever fires. Moving it among the shared timers costs
//! their lock, the clock, and the cold lines of its record. But a move to a later time matters only when the
//! old time comes: so such a move only writes the new time, and the thread that finds the old entry due
//! inserts it again.
//!
//! ```text
//!   set to d0        │ inserted for d0
//!   reset to d1 ≥ d0 │ written down: one atomic operation; no lock, no clock, no timers
//!   reset to d2 ≥ d1 │ the same
//!   at d0            │ found, d2 > now: inserted for d2, no event is handed out
//!   at d2            │ found: the event is handed out
//! ```
//!
//! Most timers are set once, and fire or are cancelled. Such a timer is only an entry in the wheel. A moved
//! one needs a [`Slot`] for its new time, which the first move allocates.
//!
//! A slot's time is changed without the lock in only one way: by the owner, to a later time. Everything else
//! happens under the timers' lock, where zero means that the event is gone. So if an owner moves the timer
//! while another thread finds it due, one is first, and the other sees it; and an entry is never inserted for
//! a later time than the slot's.

use softtimers_core::{Fired, NotPending, Slack, SoftTimers, Step, TimerId, Timestamp, TriggerState, Turn};

use super::Remote;
use super::common::{Common, State};
use super::sync::{Arc, AtomicU64, MutexGuard, Ordering};

/// The owner's side of a timer that may be moved often. Its event is handed out by [`Remote::claim`].
///
/// Dropping it does not cancel the timer: [`cancel`](Self::cancel) does. Use it only with the timers in which
/// it was first set.
///
/// ```
/// use softtimers::shared::{Found, Shared, Timer};
/// use softtimers::{Config, Slack, Timestamp, TriggerState};
///
/// let timers = Shared::new(Config::default())?;
/// let remote = timers.remote();
/// let at = |micros: u64| Timestamp::from_micros(1_000 + micros);
///
/// let mut timer = Timer::new();
/// timer.set(&remote, at(0), at(100), Slack::EXACT, "time-out");
/// timer.reset(&remote, Slack::EXACT, || at(10), at(300))?; // inserted anew, and from now on …
/// timer.reset(&remote, Slack::EXACT, || at(20), at(310))?; // … only written down
///
/// let look = |now| {
///     let turn = remote.trigger(TriggerState::HandlerExit, now)?;
///     remote.claim(&turn, now)
/// };
/// assert!(matches!(look(at(301)), Some(Found::PutOff))); // found too early, inserted anew
/// assert!(matches!(look(at(310)), Some(Found::Due(fired)) if fired.event == "time-out"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Timer(TimerState);

#[derive(Debug, Default)]
enum TimerState {
    /// The timer was never set.
    #[default]
    New,
    /// Set once; the event may be gone.
    Once(TimerId),
    /// Set once and cancelled.
    Used,
    Kept(Arc<Slot>),
}

/// The event of a [`Timer`] among those of the timers.
#[derive(Debug)]
pub struct Entry<E> {
    /// `None` as long as the timer cannot have been moved.
    slot: Option<Arc<Slot>>,
    event: E,
}

/// The result of [`Remote::claim`].
#[derive(Debug)]
pub enum Found<E> {
    /// An event whose time has come.
    Due(Fired<E>),
    /// A timer that was moved to a later time and is inserted for that now.
    PutOff,
}

/// Small rather than aligned, so that more of a hundred thousand fit into the caches.
#[derive(Debug)]
#[repr(C)]
struct Slot {
    /// When the event is due in nanoseconds; [`GONE`] unless it is pending.
    due: AtomicU64,
    /// The time for which it is inserted, at most `due`. Changed under the timers' lock.
    filed: AtomicU64,
    id: AtomicU64,
    slack: Slack,
}

const GONE: u64 = 0;

impl Timer {
    /// Makes a timer that is not set. Does not allocate.
    pub const fn new() -> Self {
        Timer(TimerState::New)
    }

    /// Sets it to `due`, with this event; returns the event that it had, if it was pending.
    ///
    /// # Cost
    /// As [`Remote::schedule_at`], and as [`Remote::cancel`] if it was pending. Allocates only when it is set
    /// for the second time.
    pub fn set<E>(
        &mut self,
        remote: &Remote<Entry<E>>,
        now: Timestamp,
        due: Timestamp,
        slack: Slack,
        event: E,
    ) -> Option<E> {
        if let TimerState::New = self.0 {
            let entry = || Entry { slot: None, event };
            let id = remote.0.change(now, due, |timers| timers.schedule_at(now, due, slack, entry()));
            self.0 = TimerState::Once(id);
            return None;
        }
        self.set_again(remote, now, due, slack, event)
    }

    #[inline(never)]
    fn set_again<E>(
        &mut self,
        remote: &Remote<Entry<E>>,
        now: Timestamp,
        due: Timestamp,
        slack: Slack,
        event: E,
    ) -> Option<E> {
        let earlier = match std::mem::take(&mut self.0) {
            TimerState::Kept(slot) if slot.slack == slack => {
                let before = remote.0.change(now, due, |timers| {
                    let before = slot.take_back(timers);
                    slot.file(timers, now, due, event);
                    before
                });
                self.0 = TimerState::Kept(slot);
                return before;
            }
            earlier => earlier,
        };
        let slot = Slot::new(slack);
        let before = remote.0.change(now, due, |timers| {
            let before = match earlier {
                TimerState::New | TimerState::Used => None,
                TimerState::Once(id) => timers.cancel(id).map(|entry| entry.event),
                TimerState::Kept(slot) => slot.take_back(timers),
            };
            slot.file(timers, now, due, event);
            before
        });
        self.0 = TimerState::Kept(slot);
        before
    }

    /// Moves it to `due`, with the slack it was set with. Reads the clock only if the shared timers must
    /// change.
    ///
    /// # Cost
    /// To a later time, one atomic operation. Otherwise, and the first time, as [`Remote::reschedule_at`].
    ///
    /// # Errors
    /// [`NotPending`] if its event was handed out or cancelled before.
    #[inline]
    pub fn reset<E>(
        &mut self,
        remote: &Remote<Entry<E>>,
        slack: Slack,
        clock: impl FnOnce() -> Timestamp,
        due: Timestamp,
    ) -> Result<(), NotPending> {
        match &self.0 {
            TimerState::New | TimerState::Used => Err(NotPending),
            TimerState::Once(id) => {
                let (id, slot) = (*id, Slot::new(slack));
                let now = clock();
                let moved = remote.0.change(now, due, |timers| {
                    let entry = timers.cancel(id).ok_or(NotPending)?;
                    slot.file(timers, now, due, entry.event);
                    Ok(())
                });
                self.0 = if moved.is_ok() { TimerState::Kept(slot) } else { TimerState::Used };
                moved
            }
            TimerState::Kept(slot) => match slot.put_off(due) {
                PutOff::Done => Ok(()),
                PutOff::Gone => Err(NotPending),
                PutOff::Earlier => {
                    let now = clock();
                    remote.0.change(now, due, |timers| slot.bring_forward(timers, now, due))
                }
            },
        }
    }

    /// Cancels it, and returns the event if it was pending.
    ///
    /// # Cost
    /// As [`Remote::cancel`], also if it was set once and has fired; without the lock if it has fired after a
    /// move or a second set.
    pub fn cancel<E>(&mut self, remote: &Remote<Entry<E>>) -> Option<E> {
        match &self.0 {
            TimerState::New | TimerState::Used => None,
            TimerState::Once(id) => {
                let id = *id;
                self.0 = TimerState::Used;
                remote.0.change_unheard(|timers| timers.cancel(id).map(|entry| entry.event))
            }
            TimerState::Kept(slot) if slot.is_gone() => None,
            TimerState::Kept(slot) => remote.0.change_unheard(|timers| slot.take_back(timers)),
        }
    }
}

impl<E> Remote<Entry<E>> {
    /// Returns the next event of the turn, whose time is `now`. A timer that was postponed is inserted again
    /// instead.
    ///
    /// # Cost
    /// As [`next`](Remote::next).
    pub fn claim(&self, turn: &Turn, now: Timestamp) -> Option<Found<E>> {
        let mut found = [None];
        self.claim_some(turn, now, &mut found);
        let [found] = found;
        found
    }

    /// As [`claim`](Self::claim), for as many events as `room` holds; returns their number. Fewer means that
    /// the turn is over. Drops the previous contents of `room`.
    ///
    /// # Cost
    /// Holds the lock for as many steps as `room` has elements, and then takes it again.
    pub fn claim_some(&self, turn: &Turn, now: Timestamp, room: &mut [Option<Found<E>>]) -> usize {
        let mut claims = Claims::new(now, room);
        while !claims.is_full() {
            let state = self.0.lock();
            if claims.hold(&self.0, state, turn) {
                break;
            }
        }
        claims.found
    }

    /// [`trigger`](Remote::trigger) and [`claim_some`](Self::claim_some) under one hold of the lock; does
    /// nothing while another thread holds it: for trigger states so frequent that a missed one does not
    /// matter. Returns how many it claimed, and the turn unless that is over.
    pub fn claim_if_free(
        &self,
        source: TriggerState,
        now: Timestamp,
        room: &mut [Option<Found<E>>],
    ) -> (usize, Option<Turn>) {
        let mut claims = Claims::new(now, room);
        if now < self.0.gate() {
            return (0, None);
        }
        let Some(mut state) = self.0.lock_if_free() else { return (0, None) };
        let turn = state.timers.trigger(source, now);
        let over = claims.hold(&self.0, state, &turn);
        (claims.found, (!over).then_some(turn))
    }
}

/// The claims of one thread in a turn.
struct Claims<'a, E> {
    now: Timestamp,
    room: &'a mut [Option<Found<E>>],
    found: usize,
}

impl<'a, E> Claims<'a, E> {
    /// Drops the old contents of the room without the lock: their destructors are arbitrary code.
    fn new(now: Timestamp, room: &'a mut [Option<Found<E>>]) -> Self {
        room.fill_with(|| None);
        Claims { now, room, found: 0 }
    }

    fn is_full(&self) -> bool {
        self.found == self.room.len()
    }

    /// Holds the lock once, for as many steps as there is room for; returns `true` if the turn is over.
    fn hold(
        &mut self,
        common: &Common<Entry<E>>,
        mut state: MutexGuard<'_, State<Entry<E>>>,
        turn: &Turn,
    ) -> bool {
        let mut over = false;
        for _ in self.found..self.room.len() {
            match state.timers.step(turn) {
                Step::Fired(fired) => {
                    self.room[self.found] = Some(claimed(&mut state.timers, fired, self.now));
                    self.found += 1;
                }
                Step::MoreWork => {}
                Step::Done => {
                    over = true;
                    break;
                }
            }
        }
        common.publish(state);
        over
    }
}

/// With the timers' lock held.
fn claimed<E>(timers: &mut SoftTimers<Entry<E>>, fired: Fired<Entry<E>>, now: Timestamp) -> Found<E> {
    let Fired { event: Entry { slot, event }, id, due, lateness, source } = fired;
    let Some(slot) = slot else { return Found::Due(Fired { event, id, due, lateness, source }) };
    match slot.expire(now) {
        Ok(due) => Found::Due(Fired { event, id, due, lateness: now.saturating_duration_since(due), source }),
        Err(later) => {
            slot.enter(timers, now, later, event);
            Found::PutOff
        }
    }
}

enum PutOff {
    Done,
    Gone,
    /// The shared timers must change.
    Earlier,
}

impl Slot {
    fn new(slack: Slack) -> Arc<Self> {
        let [due, filed, id] = [GONE; 3].map(AtomicU64::new);
        Arc::new(Slot { due, filed, id, slack })
    }

    fn is_gone(&self) -> bool {
        self.due.load(Ordering::Acquire) == GONE
    }

    /// Moves it later, without the lock. Only for the owner.
    fn put_off(&self, due: Timestamp) -> PutOff {
        let before = self.due.load(Ordering::Acquire);
        if before == GONE {
            return PutOff::Gone;
        }
        if due.as_nanos() < before {
            return PutOff::Earlier;
        }
        // The only other writer is a thread that finds it due.
        let written = self.due.compare_exchange(before, due.as_nanos(), Ordering::AcqRel, Ordering::Acquire);
        if written.is_ok() { PutOff::Done } else { PutOff::Gone }
    }
}

/// With the timers' lock held.
impl Slot {
    /// Checks it at `now`. Returns its due time if that has come, and marks the event as gone; otherwise an
    /// error with the time.
    fn expire(&self, now: Timestamp) -> Result<Timestamp, Timestamp> {
        let mut due = self.due.load(Ordering::Acquire);
        loop {
            if due > now.as_nanos() {
                return Err(Timestamp::from_nanos(due));
            }
            match self.due.compare_exchange(due, GONE, Ordering::AcqRel, Ordering::Acquire) {
                Ok(due) => return Ok(Timestamp::from_nanos(due)),
                Err(later) => due = later,
            }
        }
    }

    /// As [`Remote::cancel`], for a pending timer.
    fn take_back<E>(&self, timers: &mut SoftTimers<Entry<E>>) -> Option<E> {
        if self.due.swap(GONE, Ordering::AcqRel) == GONE {
            return None;
        }
        timers.cancel(self.id(timers)?).map(|entry| entry.event)
    }

    fn bring_forward<E>(
        &self,
        timers: &mut SoftTimers<Entry<E>>,
        now: Timestamp,
        due: Timestamp,
    ) -> Result<(), NotPending> {
        if self.is_gone() {
            return Err(NotPending);
        }
        self.write(due);
        if due.as_nanos() >= self.filed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.filed.store(due.as_nanos(), Ordering::Relaxed);
        timers.reschedule_at(now, self.id(timers).ok_or(NotPending)?, due, self.slack)
    }

    fn id<E>(&self, timers: &SoftTimers<Entry<E>>) -> Option<TimerId> {
        timers.id_of(self.id.load(Ordering::Relaxed))
    }

    /// Avoids zero, which means that the event is gone.
    fn write(&self, due: Timestamp) {
        self.due.store(due.as_nanos().max(GONE + 1), Ordering::Release);
    }
}

/// Enters an entry into a slot, with the timers' lock held.
trait Enter<E> {
    /// Inserts a pending event that is due at that time.
    fn file(&self, timers: &mut SoftTimers<Entry<E>>, now: Timestamp, due: Timestamp, event: E);
    /// Adds an entry for the slot's time, or a time that it had when read.
    fn enter(&self, timers: &mut SoftTimers<Entry<E>>, now: Timestamp, due: Timestamp, event: E);
}

impl<E> Enter<E> for Arc<Slot> {
    fn file(&self, timers: &mut SoftTimers<Entry<E>>, now: Timestamp, due: Timestamp, event: E) {
        self.write(due);
        self.enter(timers, now, due, event);
    }

    fn enter(&self, timers: &mut SoftTimers<Entry<E>>, now: Timestamp, due: Timestamp, event: E) {
        self.filed.store(due.as_nanos(), Ordering::Relaxed);
        let entry = Entry { slot: Some(self.clone()), event };
        self.id.store(timers.schedule_at(now, due, self.slack, entry).to_bits(), Ordering::Relaxed);
    }
}
