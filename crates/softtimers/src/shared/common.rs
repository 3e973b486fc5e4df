//! Shared by all sides: the timers and the backup behind one lock, and beside it the time before which nothing is due.
//!
//! Each holder of the lock publishes the gate before it releases the lock, so a gate that is read is never
//! later than the last holder's. It may be earlier, because another thread may just have taken the event:
//! that costs one lock for nothing.
//!
//! Only the owner sets whether it sleeps: to true under the lock, to false without it. A remote, which holds
//! the lock, reads one of three:
//!
//! - true, from the last `arm` before it: the owner may be asleep, and the remote arms the backup;
//! - false, from a trigger state after that `arm`: the owner runs, and will not sleep before another `arm`, which
//!   waits for the lock and sees what the remote has set;
//! - true still, although the owner has just run: one system call for nothing.
//!
//! The two atomics need no order between them for that: the lock suffices.

use std::io;
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use softtimers_core::{Fired, SoftTimers, Stats, Step, TimerId, Timestamp, TriggerState, Turn};

use super::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use crate::backup::{Backup, BackupStats};

#[derive(Debug)]
pub(super) struct Common<E> {
    seen: Seen,
    state: Mutex<State<E>>,
    /// Notifies the helper that the earliest deadline has moved before its next check, or that it must stop.
    pub(super) moved: Condvar,
}

/// The words that a trigger state reads, in a cache line apart from the lock, which every thread writes. Two
/// lines, because CPUs prefetch the neighbouring line.
#[derive(Debug)]
#[repr(align(128))]
struct Seen {
    /// The earliest due time in nanoseconds: before it no trigger state need take the lock. Stored under the lock, and
    /// only when it changes.
    gate: AtomicU64,
    /// Whether the owner may be asleep, so that only the backup can wake it.
    asleep: AtomicBool,
}

#[derive(Debug)]
pub(super) struct State<E> {
    /// Boxed, because it has some kilobytes: moving a `State` must not need that on the stack, which is small
    /// in loom's threads.
    pub(super) timers: Box<SoftTimers<E>>,
    backup: Backup,
    /// How long before the earliest deadline to wake a sleeping owner.
    lead: Duration,
    /// The least time between two of its wake-ups, and so the earliest time of the next.
    apart: Duration,
    not_before: Timestamp,
    /// The highest number of pending timers since memory was last freed.
    peak: usize,
    /// The error of a remote's arming of the backup, to be reported to the owner.
    failed: Option<io::Error>,
    pub(super) watch: Option<Watch>,
    /// The number of helpers so far.
    pub(super) helpers: u64,
}

/// The deadline that the helper waits for.
#[derive(Debug)]
pub(super) struct Watch {
    /// The helper's number: no two helpers of the same timers have the same.
    pub(super) helper: u64,
    /// The time by which a deadline must have passed.
    pub(super) grace: Duration,
    /// When it checks next.
    pub(super) looks_at: Timestamp,
    pub(super) stop: bool,
}

impl<E> State<E> {
    /// Returns when a sleeping owner is woken: for the earliest deadline, early by the lead as far as the slack does not
    /// cover it.
    fn wake(&self) -> Option<Timestamp> {
        let deadline = self.timers.poll_at()?;
        let lead = self.lead.saturating_sub(self.timers.slack_left(self.lead));
        Some(deadline.saturating_sub(lead).max(self.not_before))
    }

    /// Returns when it is woken at the earliest for an event that is due at `due`.
    fn wake_for(&self, due: Timestamp) -> Timestamp {
        due.saturating_sub(self.lead).max(self.not_before)
    }

    /// Frees memory after a peak, but keeps what a steady load needs.
    fn forget_the_peak(&mut self) {
        let pending = self.timers.len();
        if self.peak >= WORTH_GIVING_BACK && pending <= self.peak / 16 {
            self.timers.shrink_to_fit();
            self.peak = pending;
        }
    }
}

impl<E> Common<E> {
    pub(super) fn new(timers: Box<SoftTimers<E>>, backup: Backup) -> Self {
        let state = State {
            timers,
            backup,
            lead: Duration::ZERO,
            apart: Duration::ZERO,
            not_before: Timestamp::ZERO,
            peak: 0,
            failed: None,
            watch: None,
            helpers: 0,
        };
        Common {
            seen: Seen { gate: AtomicU64::new(u64::MAX), asleep: AtomicBool::new(false) },
            state: Mutex::new(state),
            moved: Condvar::new(),
        }
    }

    /// Returns the time before which nothing is due.
    #[inline]
    pub(super) fn gate(&self) -> Timestamp {
        Timestamp::from_nanos(self.seen.gate.load(Ordering::Acquire))
    }

    /// Notes that the owner is at a trigger state: it need not be woken until its next [`arm`](Self::arm).
    #[inline]
    pub(super) fn awake(&self) {
        // A store at each trigger state would take the cache line from its readers.
        if self.seen.asleep.load(Ordering::Relaxed) {
            self.seen.asleep.store(false, Ordering::Relaxed);
        }
    }

    /// Takes the lock. The state is consistent between any two operations, so a panic in one does not poison
    /// it.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.lock_if_free().unwrap_or_else(|| self.lock_contended())
    }

    /// Takes a contended lock. Each attempt takes the lock's cache line from its holder, and each change of
    /// holder moves those of the timers as well. So a thread that finds the lock taken backs off, twice as
    /// long each time: meanwhile the holder keeps the lines for several operations.
    #[cold]
    #[inline(never)]
    fn lock_contended(&self) -> MutexGuard<'_, State<E>> {
        #[cfg(not(loom))]
        for pauses in BACK_OFFS {
            for _ in 0..pauses {
                std::hint::spin_loop();
            }
            if let Some(state) = self.lock_if_free() {
                return state;
            }
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock, unless another thread holds it.
    #[inline]
    pub(super) fn lock_if_free(&self) -> Option<MutexGuard<'_, State<E>>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Publishes the gate and releases the lock.
    pub(super) fn publish(&self, state: MutexGuard<'_, State<E>>) {
        let gate = state.timers.gate().as_nanos();
        if self.seen.gate.load(Ordering::Relaxed) != gate {
            self.seen.gate.store(gate, Ordering::Release);
        }
    }

    /// Runs an operation that schedules or moves an event to `due` or later. If its deadline becomes the
    /// earliest, wakes a thread that sleeps beyond it.
    #[inline(always)]
    pub(super) fn change<R>(
        &self,
        now: Timestamp,
        due: Timestamp,
        operation: impl FnOnce(&mut SoftTimers<E>) -> R,
    ) -> R {
        let mut state = self.lock();
        let result = operation(&mut state.timers);
        // A store for each operation would take the cache line from the other threads.
        let pending = state.timers.len();
        if pending > state.peak {
            state.peak = pending;
        }
        let asleep = self.seen.asleep.load(Ordering::Relaxed);
        let mut wake_helper = false;
        // No thread is notified while the owner is awake and there is no helper, nor if the backup is early
        // enough: that saves a search for the earliest deadline under the lock after a cancelled time-out.
        let told = state.watch.is_some() || asleep && !state.backup.keeps(now, state.wake_for(due));
        if let Some(deadline) = if told { state.timers.poll_at() } else { None } {
            if asleep {
                // Later too, if by much: a remote's trigger state may have run the event that it was armed
                // for.
                let wake = state.wake();
                if let Err(error) = state.backup.arm_for_sleeper(now, wake) {
                    state.failed = Some(error);
                }
            }
            wake_helper = state.watch.as_ref().is_some_and(|watch| deadline + watch.grace < watch.looks_at);
        }
        self.publish(state);
        if wake_helper {
            self.moved.notify_one();
        }
        result
    }

    #[inline(always)]
    pub(super) fn cancel(&self, id: TimerId) -> Option<E> {
        self.change_unheard(|timers| timers.cancel(id))
    }

    /// Runs an operation that makes no deadline earlier, so no thread has to be notified.
    #[inline(always)]
    pub(super) fn change_unheard<R>(&self, operation: impl FnOnce(&mut SoftTimers<E>) -> R) -> R {
        let mut state = self.lock();
        let result = operation(&mut state.timers);
        self.publish(state);
        result
    }

    pub(super) fn begin_turn(&self, source: TriggerState, now: Timestamp) -> Turn {
        self.lock().timers.trigger(source, now)
    }

    pub(super) fn next(&self, turn: &Turn) -> Option<Fired<E>> {
        self.next_while(turn, |_| true)
    }

    /// Returns the next event of the turn, as long as `go_on` holds.
    pub(super) fn next_while(&self, turn: &Turn, go_on: impl Fn(&State<E>) -> bool) -> Option<Fired<E>> {
        loop {
            match self.step_while(turn, &go_on)? {
                Step::Fired(fired) => return Some(fired),
                Step::MoreWork => {}
                Step::Done => return None,
            }
        }
    }

    /// Does one step of the turn under one hold of the lock; `None` if `go_on` does not hold.
    pub(super) fn step_while(
        &self,
        turn: &Turn,
        go_on: impl Fn(&State<E>) -> bool,
    ) -> Option<Step<Fired<E>>> {
        let mut state = self.lock();
        if !go_on(&state) {
            return None;
        }
        let step = state.timers.step(turn);
        self.publish(state);
        Some(step)
    }

    /// Arms the backup and returns its time.
    pub(super) fn arm(&self, now: Timestamp, lead: Duration) -> io::Result<Option<Timestamp>> {
        let mut state = self.lock();
        self.seen.asleep.store(true, Ordering::Relaxed);
        state.lead = lead;
        let wake = state.wake();
        let armed = state.backup.arm(now, wake);
        state.forget_the_peak();
        state.failed.take().map_or(armed, Err)?;
        Ok(state.backup.armed())
    }

    pub(super) fn coalesce(&self, apart: Duration) {
        self.lock().apart = apart;
    }

    pub(super) fn expired(&self) -> io::Result<u64> {
        let mut state = self.lock();
        let armed = state.backup.armed();
        let expirations = state.backup.expired()?;
        if let (Some(armed), 1..) = (armed, expirations) {
            state.not_before = armed + state.apart;
        }
        Ok(expirations)
    }

    pub(super) fn went_off(&self, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.lock();
        let armed = state.backup.went_off(now)?;
        state.not_before = armed + state.apart;
        Some(armed)
    }

    pub(super) fn poll_at(&self) -> Option<Timestamp> {
        self.lock().timers.poll_at()
    }

    pub(super) fn slack_left(&self, most: Duration) -> Duration {
        self.lock().timers.slack_left(most)
    }

    pub(super) fn stats(&self) -> Stats {
        self.lock().timers.stats()
    }

    pub(super) fn backup_stats(&self) -> BackupStats {
        self.lock().backup.stats()
    }

    /// Returns the time for which the backup is armed.
    #[cfg(test)]
    pub(super) fn armed(&self) -> Option<Timestamp> {
        self.lock().backup.armed()
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn peak(&self) -> usize {
        self.lock().peak
    }
}

/// Pauses before each attempt, some 25 µs in all; then a thread sleeps for the lock. The lock is held for a
/// tenth of a microsecond, and a sleeping waiter costs the holder a system call and its own tasks some tens
/// of microseconds; once one sleeps, the standard library's lock makes all others sleep as well. On a single
/// CPU spinning is useless, but rare: a thread waits there only if the holder was preempted.
#[cfg(not(loom))]
const BACK_OFFS: [u32; 10] = [8, 16, 32, 64, 128, 128, 128, 128, 128, 128];

/// Number of timers below which there is less than a megabyte to free.
const WORTH_GIVING_BACK: usize = 16_384;
