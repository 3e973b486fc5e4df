//! [`DelayQueue`]: values that come out when their time has come, in order, by one timer.
//!
//! A `sleep` for each of a cache's entries or a server's sessions is a task or a future each. Here they lie in one queue
//! that one task polls; each can be moved or removed by its key.
//!
//! ```text
//!   insert(a, 3 ms) ─┐                                     ┌─ b, 200 µs
//!   insert(b, 200 µs)┼─▶ timing wheel ─ one timer, for the ├─ a, 3 ms      one wake-up hands out all that is due
//!   reset, remove ───┘   earliest ─────────────────────────┴─▶ …
//! ```
//!
//! Values come out in the order of their deadlines, and first in, first out among equal ones. A key names one value: after
//! that came out or was removed, it names none.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use softtimers_core::{Config, Fired, Slack, SoftTimers, TimerId, TriggerState, Turn};
use tokio::task::coop;
use tokio::time::Instant;

use crate::clock;
use crate::timer::Timer;

/// A queue whose values come out at their deadlines, to microseconds; as tokio-util's, see the
/// [module documentation](self).
///
/// ```
/// use std::time::Duration;
/// use softtimers_tokio::delay_queue::DelayQueue;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut sessions = DelayQueue::new();
/// let ann = sessions.insert("ann", Duration::from_micros(300));
/// let bob = sessions.insert("bob", Duration::from_micros(200));
/// sessions.insert("cy", Duration::from_micros(250));
/// sessions.reset(&bob, Duration::from_micros(400)); // bob was heard of
/// assert_eq!(sessions.remove(&ann), Some("ann")); // ann has logged out
///
/// let mut over = Vec::new();
/// while let Some(session) = sessions.expired().await {
///     over.push(session.into_inner());
/// }
/// assert_eq!(over, ["cy", "bob"]);
/// # });
/// ```
///
/// With the feature `stream` it is a `Stream` of [`Expired`] values.
///
/// # Cost
/// Each operation is O(1), as those of [`SoftTimers`]; no system call unless the earliest deadline moves nearer while a task
/// waits. Allocates only when more values wait than ever before.
pub struct DelayQueue<T> {
    values: SoftTimers<T>,
    /// What came due at one time and is still to be handed out.
    turn: Option<Turn>,
    timer: Timer,
    slack: Slack,
    /// The task that found the queue empty.
    waits_for_more: Option<Waker>,
}

/// Names a value of a [`DelayQueue`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key(TimerId);

/// A value whose time has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expired<T> {
    value: T,
    deadline: Instant,
    key: Key,
}

impl<T> Expired<T> {
    /// Returns the value.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns the value.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the value, without its deadline.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns when it was to come out.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the key that it had.
    pub fn key(&self) -> Key {
        self.key
    }
}

impl<T> DelayQueue<T> {
    /// Makes an empty queue. It belongs to the runtime in which it is first polled and has to wait.
    #[track_caller]
    pub fn new() -> Self {
        DelayQueue {
            // Exact: the order is that of the deadlines to the nanosecond.
            values: SoftTimers::new(Config::default().tick(Duration::from_nanos(1))),
            turn: None,
            timer: Timer::new(clock::now()),
            slack: Slack::DEFAULT,
            waits_for_more: None,
        }
    }

    /// Sets this slack for its wake-ups instead of [`Slack::DEFAULT`], a tenth of the wait and at most 50 µs. One wake-up
    /// hands out all that came due.
    #[must_use]
    pub fn with_slack(mut self, slack: Slack) -> Self {
        self.slack = slack;
        self.timer.set_slack(slack);
        self
    }

    /// Inserts a value that comes out `delay` from now.
    pub fn insert(&mut self, value: T, delay: Duration) -> Key {
        self.insert_at(value, clock::after(delay))
    }

    /// Inserts a value that comes out at `deadline`; if that has passed, at once, behind those that are due by now.
    pub fn insert_at(&mut self, value: T, deadline: Instant) -> Key {
        let due = clock::timestamp_of(deadline);
        let id = self.values.schedule_at(clock::timestamp(), due, Slack::EXACT, value);
        self.bring_forward(deadline);
        Key(id)
    }

    /// Moves a value to `delay` from now. Returns false if it has come out or was removed.
    pub fn reset(&mut self, key: &Key, delay: Duration) -> bool {
        self.reset_at(key, clock::after(delay))
    }

    /// Moves a value to `deadline`; as [`reset`](Self::reset).
    pub fn reset_at(&mut self, key: &Key, deadline: Instant) -> bool {
        let due = clock::timestamp_of(deadline);
        let moved = self.values.reschedule_at(clock::timestamp(), key.0, due, Slack::EXACT).is_ok();
        if moved {
            self.bring_forward(deadline);
        }
        moved
    }

    /// Removes a value before its time; `None` if it has come out or was removed.
    pub fn remove(&mut self, key: &Key) -> Option<T> {
        self.values.cancel(key.0)
    }

    /// Waits for the next value whose time has come; `None` when the queue is empty.
    ///
    /// Cancel-safe: a dropped `expired` has taken no value.
    ///
    /// # Panics
    /// If it has to wait, as [`sleep`](fn@crate::sleep).
    pub async fn expired(&mut self) -> Option<Expired<T>> {
        poll_fn(|cx| self.poll_expired(cx)).await
    }

    /// As [`expired`](Self::expired). If the queue is empty, the next insertion wakes this task.
    #[track_caller]
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        let progress = ready!(coop::poll_proceed(cx));
        loop {
            if let Some(Fired { event: value, id, due, .. }) = self.next_of_turn() {
                progress.made_progress();
                return Poll::Ready(Some(Expired { value, deadline: clock::instant_of(due), key: Key(id) }));
            }
            let Some(next) = self.values.poll_at() else {
                self.waits_for_more = Some(cx.waker().clone());
                return Poll::Ready(None);
            };
            let now = clock::timestamp();
            if now < next {
                let next = clock::instant_of(next);
                if self.timer.deadline() != next || self.timer.is_elapsed() {
                    self.timer.reset(next);
                }
                ready!(self.timer.poll(cx));
            }
            self.turn = Some(self.values.trigger(TriggerState::ProtocolTimer, now.max(clock::timestamp())));
        }
    }

    fn next_of_turn(&mut self) -> Option<Fired<T>> {
        let next = self.values.next(self.turn.as_ref()?);
        if next.is_none() {
            self.turn = None;
        }
        next
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A task that waits for a later time waits for this one.
    fn bring_forward(&mut self, deadline: Instant) {
        if let Some(task) = self.waits_for_more.take() {
            task.wake();
        } else if !self.timer.is_elapsed() && deadline < self.timer.deadline() {
            self.timer.reset(deadline);
        }
    }
}

impl<T> Default for DelayQueue<T> {
    #[track_caller]
    fn default() -> Self {
        DelayQueue::new()
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue")
            .field("len", &self.len())
            .field("slack", &self.slack)
            .finish_non_exhaustive()
    }
}

/// Nothing points into it.
impl<T> Unpin for DelayQueue<T> {}

#[cfg(feature = "stream")]
impl<T> futures_core::Stream for DelayQueue<T> {
    type Item = Expired<T>;

    #[track_caller]
    fn poll_next(self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(cx)
    }
}
