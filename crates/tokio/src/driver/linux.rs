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
use tokio::runtime::{self, RuntimeFlavor};

use super::DriverStats;
use crate::clock;

#[derive(Debug)]
pub(crate) struct Timers {
    remote: Remote<Entry<Waker>>,
    /// Set once, before what is pending then is woken.
    end: OnceLock<End>,
    pub(super) runtime: runtime::Id,
    /// For the length of the queue that the workers of a `multi_thread` runtime share. Only there, for it keeps the runtime's handle, also
    /// beyond its end.
    metrics: Option<runtime::RuntimeMetrics>,
    /// The governor of the driver's task while it waits. Only that task changes it.
    governor: Mutex<Governor>,
    counts: Counts,
}

/// Counters that each turn writes, in cache lines apart from those that each poll of a timer reads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    /// The time of the latest turn that was a poll of a timer and left nothing, in nanoseconds.
    looked: AtomicU64,
    /// The time of the latest turn that was begun although others came first, in nanoseconds.
    pressed: AtomicU64,
    fired: AtomicU64,
    fired_by_backup: AtomicU64,
    waker_panics: AtomicU64,
}

/// The timers that one turn has found.
#[derive(Default)]
struct Woken {
    /// Those that had been postponed among them.
    found: usize,
    fired: u64,
    by_backup: u64,
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
    pub(super) fn new(remote: Remote<Entry<Waker>>, handle: &runtime::Handle, idle: Idle) -> Self {
        Timers {
            remote,
            end: OnceLock::new(),
            runtime: handle.id(),
            metrics: (handle.runtime_flavor() == RuntimeFlavor::MultiThread).then(|| handle.metrics()),
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

    /// Returns the waker that it had, as [`set`](Self::set) does.
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

    /// Wakes what is due, some of it if that is much, and none while others [come first](Self::others_come_first); returns how
    /// many were found.
    #[inline]
    pub(crate) fn trigger(&self, source: TriggerState, now: Timestamp) -> usize {
        if !self.may_wake(now) {
            return 0;
        }
        match self.remote.trigger(source, now) {
            None => 0,
            Some(turn) => self.wake_some(&turn, now),
        }
    }

    /// The same at a poll of a timer, unless another one has looked within [`NOT_AGAIN`] or is at the timers now: among many
    /// dense timers each poll would find the one or two that have just come due, and wait for the lock.
    #[inline]
    pub(crate) fn trigger_in_passing(&self, now: Timestamp) {
        let looked = &self.counts.looked;
        if now < Timestamp::from_nanos(looked.load(Ordering::Relaxed)) + NOT_AGAIN || !self.may_wake(now) {
            return;
        }
        let mut batch = [const { None }; BATCH];
        let (found, turn) = self.remote.claim_if_free(TriggerState::ProtocolTimer, now, &mut batch);
        if found == 0 && turn.is_none() {
            return;
        }
        let mut woken = Woken::default();
        self.wake_batch(&mut batch[..found], &mut woken);
        if let Some(turn) = turn {
            self.wake_more(&turn, now, &mut woken);
        }
        self.count(&woken);
        if woken.found < AT_ONCE {
            looked.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Says whether something is due, and those that wait for a worker do not come first. The queue's length is in a cache line
    /// that all workers write, so the many polls at which nothing is due do not read it.
    #[inline]
    fn may_wake(&self, now: Timestamp) -> bool {
        let gate = self.remote.gate();
        now >= gate && !self.others_come_first(now, now.saturating_duration_since(gate))
    }

    /// Says whether many tasks wait in the queue that all workers share, and the earliest timer can wait as well.
    ///
    /// A worker's own queue has room for 256 tasks, and what does not fit goes into the shared one, of which a worker takes one
    /// task in some sixty as long as it has others. A worker that went on waking would leave those behind for tens of
    /// milliseconds: who was due first would run last. So it wakes nobody until the shared queue is served, and what is due
    /// waits in its order where it is, up to [`PATIENCE`].
    ///
    /// The driver's task wakes in any case, but it may itself be among those in the shared queue, and then nobody else sees to the
    /// descriptor. So beyond that a turn is begun all the same, but only now and then: whoever woke all that is overdue would move it
    /// into the shared queue, where it is served in no order, and as new timers come due behind it, it would stay there.
    fn others_come_first(&self, now: Timestamp, overdue: Duration) -> bool {
        let waiting = self.metrics.as_ref().map_or(0, runtime::RuntimeMetrics::global_queue_depth);
        waiting > FEW && !(overdue > PATIENCE && self.presses(now))
    }

    /// Says whether this thread may begin a turn before others: one in [`SELDOM`].
    fn presses(&self, now: Timestamp) -> bool {
        let (pressed, relaxed) = (&self.counts.pressed, Ordering::Relaxed);
        let latest = pressed.load(relaxed);
        now >= Timestamp::from_nanos(latest) + SELDOM
            && pressed.compare_exchange(latest, now.as_nanos(), relaxed, relaxed).is_ok()
    }

    /// Wakes what the turn hands out, at most [`AT_ONCE`]; returns how many were found, those that had been postponed
    /// among them.
    pub(super) fn wake_some(&self, turn: &Turn, now: Timestamp) -> usize {
        let mut woken = Woken::default();
        self.wake_more(turn, now, &mut woken);
        self.count(&woken);
        woken.found
    }

    fn wake_more(&self, turn: &Turn, now: Timestamp, woken: &mut Woken) {
        while woken.found < AT_ONCE {
            let mut batch = [const { None }; BATCH];
            let found = self.remote.claim_some(turn, now, &mut batch);
            self.wake_batch(&mut batch[..found], woken);
            if found < BATCH {
                break;
            }
        }
    }

    fn wake_batch(&self, batch: &mut [Option<Found<Waker>>], woken: &mut Woken) {
        for found in batch {
            woken.found += 1;
            if let Some(Found::Due(fired)) = found.take() {
                woken.fired += 1;
                woken.by_backup += u64::from(fired.source == TriggerState::Backup);
                self.wake(fired.event);
            }
        }
    }

    fn count(&self, woken: &Woken) {
        if woken.fired > 0 {
            self.counts.fired.fetch_add(woken.fired, Ordering::Relaxed);
        }
        if woken.by_backup > 0 {
            self.counts.fired_by_backup.fetch_add(woken.by_backup, Ordering::Relaxed);
        }
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

/// The number of timers that are taken out of the timers in one hold of their lock.
const BATCH: usize = 8;

/// Tasks in the shared queue that are not yet many: those that other threads wake come that way, too.
const FEW: usize = 8;

/// How long a timer may be overdue and still wait for the shared queue: a worker runs what its own queue holds in about that
/// time.
const PATIENCE: Duration = Duration::from_micros(500);

/// The time between two turns that are begun although others come first: a worker runs some hundred tasks in it, so the shared queue
/// gets shorter.
const SELDOM: Duration = Duration::from_micros(100);

/// Less than any wake-up takes.
const NOT_AGAIN: Duration = Duration::from_micros(5);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, mpsc};
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
        let timers = Timers::new(shared.remote(), &runtime::Handle::current(), Idle::park());
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

    /// Who overflows its own queue and goes on waking keeps those in the shared one from their turn. What is long overdue is woken
    /// all the same: the driver's task may wait there as well.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn nobody_is_woken_before_those_in_the_shared_queue() {
        let shared = Shared::new(Config::default()).unwrap();
        let timers = Timers::new(shared.remote(), &runtime::Handle::current(), Idle::park());
        let count = Arc::new(Count::default());
        let start = Timestamp::from_micros(1_000);
        let (early, late) = (start + Duration::from_micros(10), start + Duration::from_micros(20));
        let set = |due| {
            let mut timer = Registration::new();
            assert!(timers.set(&mut timer, start, due, Slack::EXACT, count.clone().into()).is_none());
        };
        set(early);
        set(late);
        // The one worker stands still, so what is spawned here stays in that queue.
        let ((stands, standing), (go_on, told)) = (mpsc::channel(), mpsc::channel::<()>());
        let worker = tokio::spawn(async move {
            stands.send(()).unwrap();
            let _ = told.recv();
        });
        standing.recv().unwrap();
        let tasks: Vec<_> = (0..=FEW).map(|_| tokio::spawn(async {})).collect();
        for now in [late, early + PATIENCE] {
            assert_eq!(timers.trigger(TriggerState::HandlerExit, now), 0);
            timers.trigger_in_passing(now);
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        // The first is overdue for too long, and whoever finds that wakes what is due, as many as at any trigger state.
        (0..AT_ONCE).for_each(|_| set(late));
        let pressed = early + PATIENCE + Duration::from_nanos(1);
        timers.trigger_in_passing(pressed);
        assert_eq!(count.0.load(Ordering::Relaxed), AT_ONCE);
        // The others are overdue as well, and wait until those in the queue have had some time.
        for now in [late + PATIENCE, late + 2 * PATIENCE].map(|now| now.min(pressed + SELDOM * 99 / 100)) {
            timers.trigger_in_passing(now);
            assert_eq!(timers.trigger(TriggerState::HandlerExit, now), 0);
        }
        assert_eq!(timers.trigger(TriggerState::HandlerExit, pressed + SELDOM), 2);
        let later = early + 2 * PATIENCE;
        set(later);
        assert_eq!(timers.trigger(TriggerState::HandlerExit, later), 0);
        drop(go_on);
        for task in tasks {
            task.await.unwrap();
        }
        worker.await.unwrap();
        assert_eq!(timers.trigger(TriggerState::HandlerExit, later), 1);
        assert_eq!(count.0.load(Ordering::Relaxed), AT_ONCE + 3);
    }

    /// The own queue of a `current_thread` runtime has no bound, so nothing overflows into the other.
    #[tokio::test]
    async fn on_one_thread_nobody_waits_for_the_queue() {
        let shared = Shared::new(Config::default()).unwrap();
        let timers = Timers::new(shared.remote(), &runtime::Handle::current(), Idle::park());
        assert!(timers.metrics.is_none());
        let (start, due) = (Timestamp::from_micros(1_000), Timestamp::from_micros(1_010));
        assert!(
            timers.set(&mut Registration::new(), start, due, Slack::EXACT, Waker::noop().clone()).is_none()
        );
        let handle = runtime::Handle::current();
        // From another thread, so that they come by that queue.
        let spawn = || (0..=FEW).map(|_| handle.spawn(async {})).collect::<Vec<_>>();
        let tasks = std::thread::scope(|scope| scope.spawn(spawn).join()).unwrap();
        assert!(handle.metrics().global_queue_depth() > FEW);
        assert_eq!(timers.trigger(TriggerState::HandlerExit, due), 1);
        drop(tasks);
    }
}
