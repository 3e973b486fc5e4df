//! [`Helper`]: a thread that runs overdue events while the owner is stuck in a computation.
//!
//! ```text
//!   owner     ─trigger──trigger────────── computes ──────────────────trigger──▶
//!   deadline         ✓        ✓       d
//!   helper            sleeps           ├ grace ┤ runs due events      sleeps
//! ```
//!
//! It is the periodic interrupt of soft timers §3 without the period: it checks only when a deadline may have
//! been missed.

use std::sync::PoisonError;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use softtimers_core::{Clock, Fired, Timestamp, TriggerState};

use super::Shared;
use super::common::{Common, State, Watch};
use super::sync::Arc;
use crate::clock::Monotonic;

/// A thread that runs overdue events of a [`Shared`]; dropping it stops it, after the handler it is in, and
/// waits for that. Other due events are left to the owner.
///
/// A handler that panics ends only the thread: the other events stay pending, for the owner alone.
/// [`stop`](Self::stop) returns the panic; another helper may be started before or after.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use softtimers::shared::{Helper, Shared};
/// use softtimers::{Clock, Config, Monotonic, Slack};
///
/// let timers = Shared::new(Config::default())?;
/// let (sender, receiver) = mpsc::channel();
/// let helper = Helper::start(&timers, Duration::from_millis(1), move |fired| {
///     sender.send(fired.event).unwrap();
/// })?;
/// timers.schedule(Monotonic.now(), Duration::from_micros(100), Slack::EXACT, "overdue");
/// // This thread visits no trigger state.
/// assert_eq!(receiver.recv_timeout(Duration::from_secs(100)), Ok("overdue"));
/// assert!(helper.stop().is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping the helper stops it"]
pub struct Helper<E> {
    /// None once it has ended.
    common: Option<Arc<Common<E>>>,
    number: u64,
    thread: Option<JoinHandle<()>>,
}

impl<E: Send + 'static> Helper<E> {
    /// Starts the thread. `handler` gets the due events once the earliest deadline has passed by more than
    /// `grace`, which should be longer than the owner's usual time between trigger states: a millisecond for
    /// a loop that serves requests.
    ///
    /// # Errors
    /// `AlreadyExists` if the timers have a helper whose thread runs; otherwise the error of the thread's
    /// creation.
    pub fn start<F>(timers: &Shared<E>, grace: Duration, mut handler: F) -> std::io::Result<Self>
    where
        F: FnMut(Fired<E>) + Send + 'static,
    {
        let common = timers.common.clone();
        let number = common.begin_watch(grace).ok_or_else(|| {
            let reason = "these timers have a helper already";
            std::io::Error::new(std::io::ErrorKind::AlreadyExists, reason)
        })?;
        // Dropped when the thread ends, in any way, or here if it cannot be started.
        let watching = Watching(common.clone());
        let run = move || {
            let Watching(common) = &watching;
            while common.rescue(&mut handler) {}
        };
        let thread = thread::Builder::new().name("softtimers-helper".into()).spawn(run)?;
        Ok(Helper { common: Some(common), number, thread: Some(thread) })
    }

    /// Stops the thread and waits for it.
    ///
    /// # Errors
    /// The panic of the handler, if it had one.
    pub fn stop(mut self) -> thread::Result<()> {
        self.end()
    }
}

impl<E> Helper<E> {
    fn end(&mut self) -> thread::Result<()> {
        let Some(common) = self.common.take() else { return Ok(()) };
        // If its handler has panicked, the watch may already be another helper's.
        if let Some(watch) = common.lock().watch.as_mut().filter(|watch| watch.helper == self.number) {
            watch.stop = true;
        }
        common.moved.notify_one();
        self.thread.take().map_or(Ok(()), JoinHandle::join)
    }
}

impl<E> Drop for Helper<E> {
    fn drop(&mut self) {
        // The handler's panic has been printed; it cannot be returned here.
        let _ = self.end();
    }
}

/// The thread's hold on the watch, also when a handler panics.
struct Watching<E>(Arc<Common<E>>);

impl<E> Drop for Watching<E> {
    fn drop(&mut self) {
        self.0.lock().watch = None;
    }
}

impl<E> Common<E> {
    /// Returns the new helper's number; `None` if there is a helper already.
    fn begin_watch(&self, grace: Duration) -> Option<u64> {
        let mut state = self.lock();
        if state.watch.is_some() {
            return None;
        }
        state.helpers += 1;
        let helper = state.helpers;
        state.watch = Some(Watch { helper, grace, looks_at: Timestamp::ZERO, stop: false });
        Some(helper)
    }

    /// Waits until something is overdue, and runs the due events. Returns `false` when it must stop.
    fn rescue(&self, handler: &mut impl FnMut(Fired<E>)) -> bool {
        let now = Monotonic.now();
        let mut state = self.lock();
        let poll_at = state.timers.poll_at();
        let Some(watch) = state.watch.as_mut().filter(|watch| !watch.stop) else { return false };
        match poll_at.map(|deadline| deadline + watch.grace) {
            None => {
                watch.looks_at = Timestamp::MAX;
                drop(self.moved.wait(state).unwrap_or_else(PoisonError::into_inner));
            }
            Some(looks_at) if looks_at > now => {
                watch.looks_at = looks_at;
                let wait = looks_at.saturating_duration_since(now);
                drop(self.moved.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner));
            }
            Some(_) => {
                let turn = state.timers.trigger(TriggerState::Backup, now);
                drop(state);
                let wanted = |state: &State<E>| state.watch.as_ref().is_some_and(|watch| !watch.stop);
                while let Some(fired) = self.next_while(&turn, wanted) {
                    handler(fired);
                }
            }
        }
        true
    }
}
