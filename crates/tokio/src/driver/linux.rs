//! [`Timers`]: what all threads of a runtime share, a [`softtimers::shared`] whose events are wakers.
//!
//! The event of a timer is the waker of the task that polled it last, so there is nothing that could outlive it:
//! cancelling returns the waker, and firing hands it out.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use softtimers::idle::{Governor, HeldBack};
use softtimers::shared::{self, Entry, Found, Remote};
use softtimers_core::{Idle, NotPending, Slack, Timestamp, TriggerState, Turn};
use tokio::runtime;

use super::DriverStats;
use crate::clock;

#[derive(Debug)]
pub(crate) struct Timers {
    remote: Remote<Entry<Waker>>,
    /// Set once, before what is pending then is woken.
    end: OnceLock<End>,
    pub(super) runtime: runtime::Id,
    /// The governor of the driver's task while it waits. Only that task changes it.
    governor: Mutex<Governor>,
    counts: Counts,
}

/// What each turn writes, in cache lines apart from what each poll of a timer reads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    /// The time of the latest turn that was a poll of a timer and left nothing, in nanoseconds.
    looked: AtomicU64,
    fired: AtomicU64,
    fired_by_backup: AtomicU64,
    waker_panics: AtomicU64,
}

/// The timers' side of one timer.
pub(crate) type Registration = shared::Timer;

/// Why no timer fires any more.
#[derive(Debug)]
pub(super) enum End {
    ShutDown,
    ClockPaused,
    Failed(io::Error),
}

impl Timers {
    pub(super) fn new(remote: Remote<Entry<Waker>>, runtime: runtime::Id, idle: Idle) -> Self {
        Timers {
            remote,
            end: OnceLock::new(),
            runtime,
            governor: Mutex::new(Governor::new(idle)),
            counts: Counts::default(),
        }
    }

    /// Wakes `waker` at `due`; returns whom it would have woken before, to be dropped where no lock is held: that may
    /// run anybody's code.
    pub(crate) fn set(
        &self,
        timer: &mut Registration,
        now: Timestamp,
        due: Timestamp,
        slack: Slack,
        waker: Waker,
    ) -> Option<Waker> {
        timer.set(&self.remote, now, due, slack, waker)
    }

    #[inline]
    pub(crate) fn reset(
        &self,
        timer: &mut Registration,
        slack: Slack,
        due: Timestamp,
    ) -> Result<(), NotPending> {
        timer.reset(&self.remote, slack, clock::timestamp, due)
    }

    /// Whom it would have woken, as with [`set`](Self::set).
    pub(crate) fn cancel(&self, timer: &mut Registration) -> Option<Waker> {
        timer.cancel(&self.remote)
    }

    pub(super) fn poll_at(&self) -> Option<Timestamp> {
        self.remote.poll_at()
    }

    pub(super) fn governor(&self) -> MutexGuard<'_, Governor> {
        self.governor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn held_back(&self) -> Option<HeldBack> {
        self.governor().held_back()
    }

    /// Wakes what is due, some of it if that is much; returns how many were found.
    #[inline]
    pub(crate) fn trigger(&self, source: TriggerState, now: Timestamp) -> usize {
        match self.remote.trigger(source, now) {
            None => 0,
            Some(turn) => self.wake_some(&turn, now),
        }
    }

    /// The same at a poll of a timer, unless another one has looked within [`NOT_AGAIN`] or is at the timers now: among many
    /// dense timers each poll would find the one or two that have just come due, for three locks each time, and wait for those.
    #[inline]
    pub(crate) fn trigger_in_passing(&self, now: Timestamp) {
        let looked = &self.counts.looked;
        if now < Timestamp::from_nanos(looked.load(Ordering::Relaxed)) + NOT_AGAIN {
            return;
        }
        let Some(turn) = self.remote.trigger_if_free(TriggerState::ProtocolTimer, now) else { return };
        if self.wake_some(&turn, now) < AT_ONCE {
            looked.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Wakes what the turn hands out, at most [`AT_ONCE`]; returns how many were found, those that had been put off
    /// among them.
    pub(super) fn wake_some(&self, turn: &Turn, now: Timestamp) -> usize {
        let (mut found, mut woken, mut by_backup) = (0, 0, 0);
        while let Some(claimed) = (found < AT_ONCE).then(|| self.remote.claim(turn, now)).flatten() {
            found += 1;
            if let Found::Due(fired) = claimed {
                woken += 1;
                by_backup += u64::from(fired.source == TriggerState::Backup);
                self.wake(fired.event);
            }
        }
        if woken > 0 {
            self.counts.fired.fetch_add(woken, Ordering::Relaxed);
        }
        if by_backup > 0 {
            self.counts.fired_by_backup.fetch_add(by_backup, Ordering::Relaxed);
        }
        found
    }

    /// A waker is somebody else's code.
    fn wake(&self, waker: Waker) {
        if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
            self.counts.waker_panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// After this every timer panics when it is polled before its time; those that wait are woken to do so. Only the
    /// first reason counts.
    pub(super) fn end(&self, why: End) {
        let _ = self.end.set(why);
        // Who scheduled before finds itself woken here; who schedules after it sees, when it has had the lock, that
        // this is the end.
        while let Some(turn) = self.remote.trigger(TriggerState::Idle, Timestamp::MAX) {
            if self.wake_some(&turn, Timestamp::MAX) == 0 {
                break;
            }
        }
        // Another driver may spin.
        self.governor().wait(clock::timestamp(), None);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.get().is_some()
    }

    /// Says whether this thread is in the runtime whose timers these are.
    fn is_current(&self) -> bool {
        runtime::Handle::try_current().is_ok_and(|handle| handle.id() == self.runtime)
    }

    /// To be called after scheduling.
    ///
    /// # Panics
    /// If nothing will fire any more, and the runtime is not just shutting down around the caller.
    pub(crate) fn check(&self) {
        match self.end.get() {
            None => {}
            // The driver's task is dropped before others are: a worker may be polling one this very moment. That
            // task is about to be dropped as well.
            Some(End::ShutDown) if self.is_current() => {}
            Some(End::ShutDown) => {
                panic!("this timer belongs to a tokio runtime that is being, or has been, shut down")
            }
            Some(End::ClockPaused) => panic!(
                "tokio's clock was paused after the runtime's first soft timer; pause it before, for example with \
                 `start_paused = true`, and softtimers-tokio uses tokio's timers"
            ),
            Some(End::Failed(error)) => panic!("the timer driver of this runtime failed: {error}"),
        }
    }

    /// Ends the timers if tokio's clock, which said `now` before a timer was set, stands still: that timer would keep its
    /// task waiting until the real clock is there, and then panic.
    pub(crate) fn check_clock(&self, now: Timestamp) {
        if clock::timestamp() == now && clock::was_paused() {
            self.end(End::ClockPaused);
        }
    }

    pub(crate) fn stats(&self) -> DriverStats {
        let (stats, backup) = (self.remote.stats(), self.remote.backup_stats());
        DriverStats {
            pending: stats.pending,
            fired: self.counts.fired.load(Ordering::Relaxed),
            fired_by_backup: self.counts.fired_by_backup.load(Ordering::Relaxed),
            cancelled: stats.cancelled,
            set: backup.set,
            wake_ups: backup.expirations,
            polled: self.governor().polling().time,
            waker_panics: self.counts.waker_panics.load(Ordering::Relaxed),
        }
    }
}

/// The number of tasks that are woken at one trigger state: the task whose poll it follows, and the tasks behind it,
/// wait meanwhile, some microseconds. What is left is due at the next one, or wakes the driver's task.
pub(super) const AT_ONCE: usize = 32;

/// Less than any wake-up takes.
const NOT_AGAIN: Duration = Duration::from_micros(5);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use softtimers::shared::Shared;
    use softtimers_core::Config;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// In passing nobody looks again and again, but what one look has left is not left by the next.
    #[tokio::test]
    async fn a_look_in_passing_is_not_made_again_at_once() {
        let shared = Shared::new(Config::default()).unwrap();
        let timers = Timers::new(shared.remote(), runtime::Handle::current().id(), Idle::park());
        let count = Arc::new(Count::default());
        let start = Timestamp::from_micros(1_000);
        let after = |micros: u64| start + Duration::from_micros(micros);
        let woken_at = |now: Timestamp| {
            timers.trigger_in_passing(now);
            count.0.swap(0, Ordering::Relaxed)
        };
        let set = |due: Timestamp| {
            let mut timer = Registration::new();
            assert!(timers.set(&mut timer, start, due, Slack::EXACT, count.clone().into()).is_none());
        };
        (10..13).for_each(|micros| set(after(micros)));
        assert_eq!([9, 10, 11, 14, 15].map(|micros| woken_at(after(micros))), [0, 1, 0, 0, 2]);
        (0..AT_ONCE + 8).for_each(|_| set(after(30)));
        assert_eq!([30, 30, 30].map(|micros| woken_at(after(micros))), [AT_ONCE, 8, 0]);
    }
}
