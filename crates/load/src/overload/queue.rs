//! The bounded [`Queue`] between two stages, each a thread of its own.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use softtimers_net::poller::Gauge;

/// The bounded queue between two stages.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    some: Condvar,
    /// Counts its items for the first stage's feedback.
    pub gauge: Gauge,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    /// Whether the second stage sleeps.
    waits: bool,
    closed: bool,
}

impl<T> Queue<T> {
    /// Returns an empty queue.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let items = VecDeque::with_capacity(ROOM as usize);
        let state = Mutex::new(State { items, waits: false, closed: false });
        Ok(Queue { state, some: Condvar::new(), gauge: Gauge::new()? })
    }

    /// Returns whether there is room for one more, which must then be [put](Self::put).
    pub fn admits(&self) -> bool {
        let admits = self.gauge.depth() < ROOM;
        if admits {
            self.gauge.put(1);
        } else {
            self.gauge.refused();
        }
        admits
    }

    /// Puts the admitted items.
    pub fn put(&self, items: impl IntoIterator<Item = T>) {
        let mut state = self.lock();
        state.items.extend(items);
        if !state.items.is_empty() && std::mem::take(&mut state.waits) {
            drop(state);
            self.some.notify_one();
        }
    }

    /// Ends the queue: no more items will be put.
    pub fn close(&self) {
        self.lock().closed = true;
        self.some.notify_all();
    }

    /// Waits for the next item and returns it; `None` after the last.
    pub fn take(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                drop(state);
                self.gauge.took(1);
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state.waits = true;
            let woken = self.some.wait_timeout(state, LOOK_AGAIN);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A stage that panicked ends the trial; what is in the queue is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Packets that the queue has room for.
pub const ROOM: u32 = 1_024;
/// A safety net: the queue signals new items, so nothing depends on this time-out.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
