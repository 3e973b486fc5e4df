//! [`IntervalTimers`]: as many interval timers as a program wants, each with a handle and a label.
//!
//! ```text
//!            create             expire(now)              reap
//!     ─────────────▶  running  ─────────────▶  expired  ──────▶  gone, or running again if it has an interval
//!                      ▲   │                    │   │
//!                      │   └────── cancel ──────┘   │
//!                      └────────── reset ───────────┘
//! ```
//!
//! An expired timer does not run until it has been reaped, so the queue of a program that reaps late is
//! bounded by its number of timers, not by how late it is. Missed expiries are not lost: the next one counts
//! from the last, and comes at once if that is past.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use super::Handle;
use crate::slots::Slots;
use crate::time::saturating_nanos;
use crate::{KeyedTimers, Seal, Timestamp};

/// The setting of a timer: the time left, and the interval after that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Setting {
    /// The time until the next expiry. Zero cannot be set; it is reported for a timer that has expired and
    /// waits to be reaped.
    pub value: Duration,
    /// From one expiry to the next; zero for a timer that expires once.
    pub interval: Duration,
}

impl Setting {
    /// Makes a setting that expires once, after `value`.
    pub const fn once(value: Duration) -> Self {
        Setting { value, interval: Duration::ZERO }
    }

    /// Makes a setting that expires every `interval`, for the first time after one.
    pub const fn every(interval: Duration) -> Self {
        Setting { value: interval, interval }
    }
}

/// The interval timers of one program, labelled with an `L` each: the extension of `setitimer` by Costello and
/// Varghese (1998, figures 6 and 7) without its overloaded arguments, which the crate `softtimers` has as `bsd::setitimer`.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::Timestamp;
/// use softtimers_core::bsd::{IntervalError, IntervalTimers, Setting};
///
/// let at = Timestamp::from_micros;
/// let mut timers = IntervalTimers::new(1, 1_000);
/// let beat = timers.create(at(0), Setting::every(Duration::from_micros(100)), "beat")?;
/// assert_eq!(timers.poll_at(), Some(at(100)));
///
/// // Looked at late: its first expiry was at 100 µs all the same, and the next is at 200 µs.
/// let expired = timers.reap(at(170))?;
/// assert_eq!((expired.handle, expired.label, expired.at), (beat, "beat", at(100)));
/// assert_eq!(timers.query(at(170), beat)?.value, Duration::from_micros(30));
/// assert_eq!(timers.reap(at(170)), Err(IntervalError::NothingExpired));
/// # Ok::<(), IntervalError>(())
/// ```
///
/// # Cost
/// Each operation is O(1); those that take a `now` and change something also move the timers that have
/// expired by then to the queue, each once. A timer takes at most 128 bytes.
#[derive(Debug)]
pub struct IntervalTimers<L> {
    running: KeyedTimers,
    slots: Slots<Timer<L>>,
    seal: Seal,
    most: usize,
    /// The queue of the expired, through their slots.
    oldest: u32,
    newest: u32,
    queued: usize,
    expiries: u64,
}

#[derive(Debug)]
struct Timer<L> {
    label: L,
    /// The interval in nanoseconds.
    interval: u64,
    /// The next expiry of a running timer, or the last one of an expired timer: the requested time, whenever
    /// it was checked.
    expiry: Timestamp,
    /// The neighbours in the queue, and whether it is there.
    older: u32,
    newer: u32,
    expired: bool,
}

/// A timer that has expired, as [`IntervalTimers::reap`] returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expired<L> {
    /// Its handle: dead unless it `runs`.
    pub handle: Handle,
    /// The label that the timer was given.
    pub label: L,
    /// The time at which it expired.
    pub at: Timestamp,
    /// Whether it has an interval, and runs again.
    pub runs: bool,
}

/// Why an operation on interval timers was refused. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntervalError {
    /// No timer of this set has the handle: it was cancelled, or reaped without an interval, or never was.
    NoSuchTimer,
    /// A value of zero, which is no time to expire after.
    ZeroValue,
    /// The set is full.
    TooMany,
    /// The queue of expired timers is empty.
    NothingExpired,
}

impl fmt::Display for IntervalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IntervalError::NoSuchTimer => "no timer has this handle",
            IntervalError::ZeroValue => "a value of 0; a timer expires after at least 1 ns",
            IntervalError::TooMany => "as many timers as are allowed; reap or cancel some",
            IntervalError::NothingExpired => "no timer has expired",
        })
    }
}

impl core::error::Error for IntervalError {}

impl<L: Copy> IntervalTimers<L> {
    /// Creates a set without timers, for at most `most` at a time, and never more than 2²⁷: timers that are
    /// neither reaped nor cancelled must not fill the memory. `owner` tells this set's handles from those of
    /// others: a number that no other set has.
    pub fn new(owner: u64, most: usize) -> Self {
        IntervalTimers {
            running: KeyedTimers::new(Duration::from_micros(1)),
            slots: Slots::new(NonZeroU32::MIN),
            seal: Seal::new(owner),
            most: most.min(MOST_TIMERS),
            oldest: NONE,
            newest: NONE,
            queued: 0,
            expiries: 0,
        }
    }

    /// Creates a timer that expires after `setting.value`.
    ///
    /// # Errors
    /// [`IntervalError::ZeroValue`]; [`IntervalError::TooMany`].
    pub fn create(&mut self, now: Timestamp, setting: Setting, label: L) -> Result<Handle, IntervalError> {
        if setting.value.is_zero() {
            return Err(IntervalError::ZeroValue);
        }
        if self.len() >= self.most {
            return Err(IntervalError::TooMany);
        }
        let expiry = now.after(saturating_nanos(setting.value));
        let interval = saturating_nanos(setting.interval);
        let timer = Timer { label, interval, expiry, older: NONE, newer: NONE, expired: false };
        let (id, slot) = self.slots.insert(timer);
        self.running.set(now, slot, expiry);
        Ok(Handle(self.seal.close(id.to_bits())))
    }

    /// Gives a timer, running or expired, another setting and label: it leaves the queue, and expires after
    /// `setting.value`. Returns its previous setting.
    ///
    /// # Errors
    /// [`IntervalError::ZeroValue`]; [`IntervalError::NoSuchTimer`].
    pub fn reset(
        &mut self,
        now: Timestamp,
        handle: Handle,
        setting: Setting,
        label: L,
    ) -> Result<Setting, IntervalError> {
        let former = self.query(now, handle)?;
        if setting.value.is_zero() {
            return Err(IntervalError::ZeroValue);
        }
        let slot = self.find(handle)?;
        self.leave_queue(slot);
        let timer = self.timer(slot)?;
        timer.label = label;
        timer.interval = saturating_nanos(setting.interval);
        timer.expiry = now.after(saturating_nanos(setting.value));
        let expiry = timer.expiry;
        self.running.set(now, slot, expiry);
        Ok(former)
    }

    /// Ends a timer, running or expired. Returns its setting.
    ///
    /// # Errors
    /// [`IntervalError::NoSuchTimer`].
    pub fn cancel(&mut self, now: Timestamp, handle: Handle) -> Result<Setting, IntervalError> {
        let last = self.query(now, handle)?;
        let slot = self.find(handle)?;
        self.leave_queue(slot);
        self.running.cancel(slot);
        self.slots.take(slot);
        Ok(last)
    }

    /// Returns the setting of a timer. Its value is zero if it has expired and was not reaped.
    ///
    /// # Errors
    /// [`IntervalError::NoSuchTimer`].
    pub fn query(&self, now: Timestamp, handle: Handle) -> Result<Setting, IntervalError> {
        let timer = self.slots.at(self.find(handle)?).ok_or(IntervalError::NoSuchTimer)?;
        let left = if timer.expired { 0 } else { timer.expiry.nanos_since(now) };
        Ok(Setting { value: Duration::from_nanos(left), interval: Duration::from_nanos(timer.interval) })
    }

    /// The label of a timer.
    ///
    /// # Errors
    /// [`IntervalError::NoSuchTimer`].
    pub fn label(&self, handle: Handle) -> Result<L, IntervalError> {
        Ok(self.slots.at(self.find(handle)?).ok_or(IntervalError::NoSuchTimer)?.label)
    }

    /// Moves the timers that have expired by `now` to the queue, in the order of their expiries, and returns
    /// their number: the program gets one notification for each.
    ///
    /// # Cost
    /// O(1) for each; one compare if there is none.
    pub fn expire(&mut self, now: Timestamp) -> u64 {
        let before = self.expiries;
        let turn = self.running.turn(now);
        while let Some((slot, _)) = self.running.next(&turn) {
            self.enter_queue(slot);
        }
        self.expiries - before
    }

    /// Takes the timer that expired first out of the queue. If it has an interval it runs again: its next
    /// expiry is one interval after this one, even if that is past, so that late reaps do not accumulate.
    /// Otherwise it is gone.
    ///
    /// # Errors
    /// [`IntervalError::NothingExpired`].
    pub fn reap(&mut self, now: Timestamp) -> Result<Expired<L>, IntervalError> {
        self.expire(now);
        let slot = self.oldest;
        let timer = self.slots.at(slot).ok_or(IntervalError::NothingExpired)?;
        let (label, at, interval) = (timer.label, timer.expiry, timer.interval);
        let handle = Handle(self.seal.close(self.slots.id(slot).to_bits()));
        self.leave_queue(slot);
        if interval == 0 {
            self.slots.take(slot);
        } else {
            let next = at.after(interval);
            self.timer(slot)?.expiry = next;
            self.running.set(now, slot, next);
        }
        Ok(Expired { handle, label, at, runs: interval != 0 })
    }

    /// Returns the earliest expiry of the running timers, or a time before it; `None` if no timer runs.
    pub fn poll_at(&self) -> Option<Timestamp> {
        self.running.next_due()
    }

    /// Timers that exist, running or expired.
    pub fn len(&self) -> usize {
        self.running.len() + self.queued
    }

    /// Returns whether no timer exists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of expired timers that have not been reaped.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Returns the number of expiries since the beginning.
    pub fn expiries(&self) -> u64 {
        self.expiries
    }

    /// Returns the maximum number of timers at a time.
    pub fn most(&self) -> usize {
        self.most
    }

    fn find(&self, handle: Handle) -> Result<u32, IntervalError> {
        let id = self.slots.id_of(self.seal.open(handle.0));
        id.and_then(|id| self.slots.find(id)).ok_or(IntervalError::NoSuchTimer)
    }

    fn timer(&mut self, slot: u32) -> Result<&mut Timer<L>, IntervalError> {
        self.slots.at_mut(slot).ok_or(IntervalError::NoSuchTimer)
    }

    fn enter_queue(&mut self, slot: u32) {
        let newest = self.newest;
        if let Some(timer) = self.slots.at_mut(slot) {
            (timer.expired, timer.older, timer.newer) = (true, newest, NONE);
        }
        match self.slots.at_mut(newest) {
            Some(before) => before.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
        self.queued += 1;
        self.expiries += 1;
    }

    /// Takes a timer out of the queue, if it is there.
    fn leave_queue(&mut self, slot: u32) {
        let Some(timer) = self.slots.at_mut(slot).filter(|timer| timer.expired) else { return };
        timer.expired = false;
        let (older, newer) = (timer.older, timer.newer);
        match self.slots.at_mut(older) {
            Some(timer) => timer.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.at_mut(newer) {
            Some(timer) => timer.older = older,
            None => self.newest = older,
        }
        self.queued -= 1;
    }
}

/// No slot has this index.
const NONE: u32 = u32::MAX;
/// Half of the wheel's capacity: the other half is for slots that have retired.
const MOST_TIMERS: usize = 1 << 27;

#[cfg(test)]
mod tests;
