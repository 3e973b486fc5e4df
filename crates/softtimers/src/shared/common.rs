//! Shared by all sides: the timers and the backup behind one lock, and beside it the time before which nothing is due.
//!
//! Whoever changes the timers publishes the gate before the lock is free again, so a gate that is read is
//! never later than what the last holder left. It may be earlier, for somebody may just have taken the event: that
//! costs one lock for nothing.
//!
//! Whether the owner sleeps is set by the owner alone: to true under the lock, to false without it. A remote,
//! which holds the lock, reads one of three:
//!
//! - what the last `arm` before it wrote: the owner may be asleep, and the remote arms the backup;
//! - false, from a trigger state after that `arm`: the owner runs, and will not sleep before another `arm`, which
//!   waits for the lock and sees what the remote has set;
//! - true still, although the owner has just run: one system call for nothing.
//!
//! No order between the two atomics is needed for that: the lock gives all there is.

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
    /// For the helper: the earliest deadline has moved before the time at which it looks, or it is to stop.
    pub(super) moved: Condvar,
}

/// The words that a trigger state reads, in a cache line apart from the lock, which is written by everybody. Two lines:
/// CPUs fetch a neighbour as well.
#[derive(Debug)]
#[repr(align(128))]
struct Seen {
    /// The earliest due time in nanoseconds: before it no trigger state need take the lock. Stored under the lock, and
    /// only when it changes.
    gate: AtomicU64,
    /// The owner may be asleep, so that only the backup can reach it.
    asleep: AtomicBool,
}

#[derive(Debug)]
pub(super) struct State<E> {
    /// Some kilobytes, apart: what moves a `State` need not have room for it on its stack, which is small in loom's threads.
    pub(super) timers: Box<SoftTimers<E>>,
    backup: Backup,
    /// The time before the earliest deadline at which a sleeping owner wants to be woken.
    lead: Duration,
    /// The least time between two of its wake-ups, and so the earliest time of the next.
    apart: Duration,
    not_before: Timestamp,
    /// The most that were pending since memory was last given back.
    peak: usize,
    /// The error that arming the backup by a remote met: the owner is told.
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
    /// When it looks again.
    pub(super) looks_at: Timestamp,
    pub(super) stop: bool,
}

impl<E> State<E> {
    /// Returns when a sleeping owner is woken for `deadline`.
    fn wake_for(&self, deadline: Timestamp) -> Timestamp {
        deadline.saturating_sub(self.lead).max(self.not_before)
    }

    /// Gives memory back after a peak: what a steady load needs is kept.
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

    /// The time before which nothing is due.
    #[inline]
    pub(super) fn gate(&self) -> Timestamp {
        Timestamp::from_nanos(self.seen.gate.load(Ordering::Acquire))
    }

    /// The owner is at a trigger state: until its next [`arm`](Self::arm) nobody need wake it.
    #[inline]
    pub(super) fn awake(&self) {
        // A store for each trigger state would keep the line from those who read it.
        if self.seen.asleep.load(Ordering::Relaxed) {
            self.seen.asleep.store(false, Ordering::Relaxed);
        }
    }

    /// The lock. What it guards is whole between any two operations, whoever panicked meanwhile.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.lock_if_free().unwrap_or_else(|| self.lock_contended())
    }

    /// Each attempt takes the lock's cache line from its holder, and each change of hands moves those of the timers as well. So a thread
    /// that finds the lock taken backs off, twice as long each time: meanwhile the holder has the lines to itself, for several operations.
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

    /// The lock, unless another thread is at the timers.
    #[inline]
    pub(super) fn lock_if_free(&self) -> Option<MutexGuard<'_, State<E>>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Lets the others in, and tells them when something is due.
    pub(super) fn publish(&self, state: MutexGuard<'_, State<E>>) {
        let gate = state.timers.gate().as_nanos();
        if self.seen.gate.load(Ordering::Relaxed) != gate {
            self.seen.gate.store(gate, Ordering::Release);
        }
    }

    /// Schedules something for `due` or later, or moves it there. Its deadline may have become the earliest: whoever sleeps beyond it is told.
    pub(super) fn change<R>(
        &self,
        now: Timestamp,
        due: Timestamp,
        operation: impl FnOnce(&mut SoftTimers<E>) -> R,
    ) -> R {
        let mut state = self.lock();
        let result = operation(&mut state.timers);
        // A store for each operation would keep the line from the others.
        let pending = state.timers.len();
        if pending > state.peak {
            state.peak = pending;
        }
        let asleep = self.seen.asleep.load(Ordering::Relaxed);
        let mut wake_helper = false;
        // While the owner is awake and nobody helps, no one is told. Neither where the backup is early enough: after a cancelled
        // time-out the earliest of all deadlines has to be searched for, under the lock.
        let told = state.watch.is_some() || asleep && !state.backup.keeps(now, state.wake_for(due));
        if let Some(deadline) = if told { state.timers.poll_at() } else { None } {
            if asleep {
                // Later too, if by much: what it was armed for may have been run at a remote's trigger state.
                let wake = state.wake_for(deadline);
                if let Err(error) = state.backup.arm_for_sleeper(now, Some(wake)) {
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

    /// Takes something back: no deadline becomes earlier, so nobody is told.
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

    /// The next event of the turn, as long as the caller is to go on.
    pub(super) fn next_while(&self, turn: &Turn, go_on: impl Fn(&State<E>) -> bool) -> Option<Fired<E>> {
        loop {
            match self.step_while(turn, &go_on)? {
                Step::Fired(fired) => return Some(fired),
                Step::MoreWork => {}
                Step::Done => return None,
            }
        }
    }

    /// One step of the turn, which is one hold of the lock; `None` if the caller is not to go on.
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

    /// Returns the time for which the backup is armed.
    pub(super) fn arm(&self, now: Timestamp, lead: Duration) -> io::Result<Option<Timestamp>> {
        let mut state = self.lock();
        self.seen.asleep.store(true, Ordering::Relaxed);
        state.lead = lead;
        let wake = state.timers.poll_at().map(|deadline| state.wake_for(deadline));
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

    pub(super) fn poll_at(&self) -> Option<Timestamp> {
        self.lock().timers.poll_at()
    }

    pub(super) fn stats(&self) -> Stats {
        self.lock().timers.stats()
    }

    pub(super) fn backup_stats(&self) -> BackupStats {
        self.lock().backup.stats()
    }

    /// The time for which the backup is armed.
    #[cfg(test)]
    pub(super) fn armed(&self) -> Option<Timestamp> {
        self.lock().backup.armed()
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn peak(&self) -> usize {
        self.lock().peak
    }
}

/// Pauses before each attempt, some 25 µs in all; then a thread sleeps for the lock. The lock is held for a tenth of a microsecond, and a thread
/// that sleeps costs the holder a system call and its own tasks some tens; once one does, the standard library's lock makes all others sleep
/// as well. On a single CPU they are vain, but rare: only a holder that was interrupted there keeps anybody waiting.
#[cfg(not(loom))]
const BACK_OFFS: [u32; 10] = [8, 16, 32, 64, 128, 128, 128, 128, 128, 128];

/// Timers: below it there is less than a megabyte to give back.
const WORTH_GIVING_BACK: usize = 16_384;
