//! [`Timers`]: a [`softtimers::shared`] whose events are wakers, shared by all threads of a runtime.
//!
//! The event of a timer is the waker of the task that polled it last, so no other state can outlive it:
//! cancelling returns the waker, and firing hands it out.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use softtimers::shared::{self, Entry, Found, Remote};
use softtimers::{Governor, HeldBack};
use softtimers_core::{Idle, NotPending, Slack, Timestamp, TriggerState, Turn};
use tokio::runtime::{self, RuntimeFlavor};

#[cfg(feature = "test-util")]
use super::virtual_time::Bell;
use super::{DriverStats, registry};
use crate::clock;

#[derive(Debug)]
pub(crate) struct Timers {
    remote: Remote<Entry<Waker>>,
    /// Set once, before the pending timers are woken.
    end: OnceLock<End>,
    pub(super) runtime: runtime::Id,
    /// For the length of the workers' shared queue, only in a `multi_thread` runtime, because it keeps the
    /// runtime's handle alive beyond the runtime's end.
    metrics: Option<runtime::RuntimeMetrics>,
    /// The governor of the backup while it waits.
    governor: Mutex<Governor>,
    counts: Counts,
    /// Rings for the task that moves a virtual clock, where one serves these timers.
    #[cfg(feature = "test-util")]
    bell: Option<Bell>,
}

/// Counters that each turn writes, in other cache lines than those that each poll of a timer reads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    /// The time of the latest turn that was a poll of a timer and left nothing, in nanoseconds.
    passed_by: AtomicU64,
    /// The time of the latest turn that was begun although the shared queue was long, in nanoseconds.
    pressed: AtomicU64,
    fired: AtomicU64,
    fired_by_backup: AtomicU64,
    waker_panics: AtomicU64,
}

/// The timers that one turn has found.
#[derive(Default)]
struct Woken {
    /// The number found, including postponed ones.
    found: usize,
    fired: u64,
    by_backup: u64,
}

/// The timers' side of one timer.
pub(crate) type Registration = shared::Timer;

/// Why the timers ended.
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
            #[cfg(feature = "test-util")]
            bell: None,
        }
    }

    /// Makes timers that a virtual clock serves, instead of a descriptor.
    #[cfg(feature = "test-util")]
    pub(super) fn on_virtual_clock(remote: Remote<Entry<Waker>>, handle: &runtime::Handle) -> Self {
        Timers { bell: Some(Bell::default()), ..Timers::new(remote, handle, Idle::park()) }
    }

    #[cfg(feature = "test-util")]
    pub(super) fn bell(&self) -> Option<&Bell> {
        self.bell.as_ref()
    }

    /// Returns the earliest time at which one may be due; `None` while none is pending.
    #[cfg(feature = "test-util")]
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.remote.poll_at().map(|_| self.remote.gate())
    }

    /// Sets the timer to wake `waker` at `due`. Returns the previous waker, to be dropped without a lock:
    /// that may run arbitrary code.
    pub(crate) fn set(
        &self,
        timer: &mut Registration,
        now: Timestamp,
        due: Timestamp,
        slack: Slack,
        waker: Waker,
    ) -> Option<Waker> {
        let before = timer.set(&self.remote, now, due, slack, waker);
        self.ring();
        before
    }

    /// Tells the task of a virtual clock that a deadline has changed.
    #[inline]
    fn ring(&self) {
        #[cfg(feature = "test-util")]
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Returns whether a virtual clock serves these timers.
    fn is_virtual(&self) -> bool {
        #[cfg(feature = "test-util")]
        return self.bell.is_some();
        #[cfg(not(feature = "test-util"))]
        false
    }

    #[inline]
    pub(crate) fn reset(
        &self,
        timer: &mut Registration,
        slack: Slack,
        due: Timestamp,
    ) -> Result<(), NotPending> {
        let moved = timer.reset(&self.remote, slack, clock::timestamp, due);
        self.ring();
        moved
    }

    /// Returns the waker that it had, as [`set`](Self::set) does.
    pub(crate) fn cancel(&self, timer: &mut Registration) -> Option<Waker> {
        timer.cancel(&self.remote)
    }

    pub(super) fn poll_at(&self) -> Option<Timestamp> {
        self.remote.poll_at()
    }

    pub(crate) fn slack_left(&self, most: Duration) -> Duration {
        self.remote.slack_left(most)
    }

    pub(super) fn governor(&self) -> MutexGuard<'_, Governor> {
        self.governor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn held_back(&self) -> Option<HeldBack> {
        self.governor().held_back()
    }

    /// Wakes due tasks, up to a limit, and none while others [come first](Self::others_come_first). Returns
    /// how many were found.
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

    /// As [`trigger`](Self::trigger), at a poll of a timer; skipped if another thread has checked within
    /// [`PASSING_INTERVAL`] or holds the lock: with many dense timers each poll would find the one or two that have
    /// just come due, and wait for the lock.
    #[inline]
    pub(crate) fn trigger_in_passing(&self, now: Timestamp) {
        if now >= self.remote.gate() {
            self.wake_in_passing(now);
        }
    }

    #[inline(never)]
    fn wake_in_passing(&self, now: Timestamp) {
        let passed_by = &self.counts.passed_by;
        if now < Timestamp::from_nanos(passed_by.load(Ordering::Relaxed)) + PASSING_INTERVAL
            || !self.may_wake(now)
        {
            return;
        }
        let mut batch = [const { None }; CLAIMED_AT_ONCE];
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
        if woken.found < WOKEN_AT_ONCE {
            passed_by.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Returns whether something is due, and tasks that wait for a worker do not come first. The queue's
    /// length is in a cache line that all workers write, so the many polls at which nothing is due do not
    /// read it.
    #[inline]
    fn may_wake(&self, now: Timestamp) -> bool {
        let gate = self.remote.gate();
        now >= gate && !self.others_come_first(now, now.saturating_duration_since(gate))
    }

    /// Returns whether many tasks wait in the workers' shared queue, and the earliest timer can wait as well.
    ///
    /// A worker's own queue has room for 256 tasks, and the others overflow into the shared one, from which a
    /// worker takes only every sixtieth or so of its tasks as long as it has its own. A worker that kept
    /// waking would starve those for tens of milliseconds: tasks that were due first would run last. So it
    /// wakes none until the shared queue is served, and due timers wait in order, up to [`LONGEST_OVERDUE`].
    ///
    /// The driver's task wakes in any case, but it may itself be in the shared queue, and then no task serves
    /// the descriptor. So beyond that time a turn is begun anyway, but rarely: waking all overdue tasks would
    /// move them into the shared queue, where they are served out of order, and would stay as new timers come
    /// due.
    fn others_come_first(&self, now: Timestamp, overdue: Duration) -> bool {
        let waiting = self.metrics.as_ref().map_or(0, runtime::RuntimeMetrics::global_queue_depth);
        waiting > SHORT_QUEUE && !(overdue > LONGEST_OVERDUE && self.presses(now))
    }

    /// Returns whether this thread may begin a turn in spite of a long queue: one in [`PRESS_INTERVAL`].
    fn presses(&self, now: Timestamp) -> bool {
        let (pressed, relaxed) = (&self.counts.pressed, Ordering::Relaxed);
        let latest = pressed.load(relaxed);
        now >= Timestamp::from_nanos(latest) + PRESS_INTERVAL
            && pressed.compare_exchange(latest, now.as_nanos(), relaxed, relaxed).is_ok()
    }

    /// Wakes the tasks of a turn, at most [`WOKEN_AT_ONCE`]. Returns how many were found, including postponed ones.
    pub(super) fn wake_some(&self, turn: &Turn, now: Timestamp) -> usize {
        let mut woken = Woken::default();
        self.wake_more(turn, now, &mut woken);
        self.count(&woken);
        woken.found
    }

    fn wake_more(&self, turn: &Turn, now: Timestamp, woken: &mut Woken) {
        while woken.found < WOKEN_AT_ONCE {
            let mut batch = [const { None }; CLAIMED_AT_ONCE];
            let found = self.remote.claim_some(turn, now, &mut batch);
            self.wake_batch(&mut batch[..found], woken);
            if found < CLAIMED_AT_ONCE {
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

    /// Calls a waker, which is foreign code and may panic.
    fn wake(&self, waker: Waker) {
        if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
            self.counts.waker_panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the timers: each one panics when it is polled before its time, and pending ones are woken for
    /// that. Only the first reason counts.
    pub(super) fn end(&self, why: End) {
        let _ = self.end.set(why);
        // Timers scheduled before are woken here; a thread that schedules later sees the end once it has had
        // the lock.
        while let Some(turn) = self.remote.trigger(TriggerState::Idle, Timestamp::MAX) {
            if self.wake_some(&turn, Timestamp::MAX) == 0 {
                break;
            }
        }
        // Another driver may spin.
        self.governor().wait(clock::timestamp(), None);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.get().is_some()
    }

    /// Returns whether this thread is in the runtime of these timers.
    fn is_current(&self) -> bool {
        runtime::Handle::try_current().is_ok_and(|handle| handle.id() == self.runtime)
    }

    /// Returns whether this thread is in another runtime.
    pub(crate) fn is_elsewhere(&self) -> bool {
        runtime::Handle::try_current().is_ok_and(|handle| handle.id() != self.runtime)
    }

    /// Checks for the end of the timers; call it after scheduling.
    ///
    /// # Panics
    /// If the timers have ended, unless the caller's own runtime is shutting down.
    #[inline]
    #[track_caller]
    pub(crate) fn check(&self) {
        let Some(end) = self.end.get() else { return };
        match end {
            // The driver's task is dropped before others: a worker may be polling one at this moment. That
            // task is about to be dropped as well.
            End::ShutDown if self.is_current() => {}
            End::ShutDown => {
                panic!("this timer belongs to a tokio runtime that is being, or has been, shut down")
            }
            End::ClockPaused => panic!(
                "tokio's clock was paused after the runtime's first soft timer; pause it before, for example with \
                 `start_paused = true` or `softtimers_tokio::test::pause`"
            ),
            End::Failed(error) => panic!("the timer driver of this runtime failed: {error}"),
        }
    }

    /// Returns whether this thread is in the runtime of these timers, which is shutting down.
    pub(crate) fn is_shutting_down_here(&self) -> bool {
        matches!(self.end.get(), Some(End::ShutDown)) && self.is_current()
    }

    /// Ends the timers if tokio's clock, which read `now` before a timer was set, stands still: that timer
    /// would keep its task waiting until the real clock gets there, and then panic.
    pub(crate) fn check_clock(&self, now: Timestamp) {
        if !self.is_virtual() && clock::timestamp() == now && clock::was_paused() {
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
            fallen_back: registry::fallen_back(),
            waker_panics: self.counts.waker_panics.load(Ordering::Relaxed),
        }
    }
}

/// The most tasks woken at one trigger state: the polled task, and the tasks behind it, wait meanwhile, some
/// microseconds. The others are woken at the next one, or by the driver's task.
pub(super) const WOKEN_AT_ONCE: usize = 32;

/// The number of timers that are taken out of the timers in one hold of their lock.
const CLAIMED_AT_ONCE: usize = 8;

/// The shared queue counts as short up to this many tasks: tasks woken by other threads also go there.
const SHORT_QUEUE: usize = 8;

/// How long a timer may be overdue and still wait for the shared queue: a worker runs what its own queue holds in about that
/// time.
const LONGEST_OVERDUE: Duration = Duration::from_micros(500);

/// The time between two turns that are begun in spite of a long queue: a worker runs some hundred tasks in
/// it, so the shared queue gets shorter.
const PRESS_INTERVAL: Duration = Duration::from_micros(100);

/// Less than any wake-up takes.
const PASSING_INTERVAL: Duration = Duration::from_micros(5);

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

    /// Triggers in passing do not check again at once, but timers left over by one check are woken by the
    /// next.
    #[tokio::test]
    async fn a_trigger_in_passing_is_not_repeated_at_once() {
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
        (0..WOKEN_AT_ONCE + 8).for_each(|_| set(after(30)));
        assert_eq!([30, 30, 30].map(|micros| woken_at(after(micros))), [WOKEN_AT_ONCE, 8, 0]);
    }

    /// A worker that overflows its own queue and keeps waking would starve the shared one. Long overdue tasks
    /// are woken anyway: the driver's task may wait there as well.
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
        // The only worker is blocked, so tasks spawned here stay in that queue.
        let ((stands, standing), (go_on, told)) = (mpsc::channel(), mpsc::channel::<()>());
        let worker = tokio::spawn(async move {
            stands.send(()).unwrap();
            let _ = told.recv();
        });
        standing.recv().unwrap();
        let tasks: Vec<_> = (0..=SHORT_QUEUE).map(|_| tokio::spawn(async {})).collect();
        for now in [late, early + LONGEST_OVERDUE] {
            assert_eq!(timers.trigger(TriggerState::HandlerExit, now), 0);
            timers.trigger_in_passing(now);
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        // The first is overdue for too long, so a trigger state wakes due tasks, as many as usual.
        (0..WOKEN_AT_ONCE).for_each(|_| set(late));
        let pressed = early + LONGEST_OVERDUE + Duration::from_nanos(1);
        timers.trigger_in_passing(pressed);
        assert_eq!(count.0.load(Ordering::Relaxed), WOKEN_AT_ONCE);
        // The others are overdue as well, and wait until the queue has been served for some time.
        for now in [late + LONGEST_OVERDUE, late + 2 * LONGEST_OVERDUE]
            .map(|now| now.min(pressed + PRESS_INTERVAL * 99 / 100))
        {
            timers.trigger_in_passing(now);
            assert_eq!(timers.trigger(TriggerState::HandlerExit, now), 0);
        }
        assert_eq!(timers.trigger(TriggerState::HandlerExit, pressed + PRESS_INTERVAL), 2);
        let later = early + 2 * LONGEST_OVERDUE;
        set(later);
        assert_eq!(timers.trigger(TriggerState::HandlerExit, later), 0);
        drop(go_on);
        for task in tasks {
            task.await.unwrap();
        }
        worker.await.unwrap();
        assert_eq!(timers.trigger(TriggerState::HandlerExit, later), 1);
        assert_eq!(count.0.load(Ordering::Relaxed), WOKEN_AT_ONCE + 3);
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
        let spawn = || (0..=SHORT_QUEUE).map(|_| handle.spawn(async {})).collect::<Vec<_>>();
        let tasks = std::thread::scope(|scope| scope.spawn(spawn).join()).unwrap();
        assert!(handle.metrics().global_queue_depth() > SHORT_QUEUE);
        assert_eq!(timers.trigger(TriggerState::HandlerExit, due), 1);
        drop(tasks);
    }
}
