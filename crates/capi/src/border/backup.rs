//! The backup: the one kernel timer behind the trigger states, as a descriptor for any loop.
//!
//! After each batch of events: `softtimers_backup_arm(backup, now, softtimers_timers_poll_at(timers))`. The descriptor is
//! readable at that time; then `softtimers_backup_expired`, and a trigger state.
//!
//! After fork(2) the child's first call with a backup gives it a timer of its own behind the same descriptor, not armed; a
//! tick goes on. An epoll instance stays shared with the parent: the child needs one of its own.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::os::fd::AsRawFd;

use softtimers::{Backup, Clock, Monotonic, Timestamp};

use super::clock::SOFTTIMERS_NEVER;
use crate::object::{Errno, Kind, Object, write};

impl Kind for Backup {
    const NAME: &'static str = "softtimers_backup";
}

/// A kernel timer behind a descriptor.
pub(crate) type softtimers_backup = Object<Backup>;

/// The cost of a backup so far.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_backup_stats {
    /// Calls to `softtimers_backup_arm`.
    pub(crate) asked: u64,
    /// Calls among those with a system call to set the timer.
    pub(crate) set: u64,
    /// Calls among those with a system call to clear it.
    pub(crate) cleared: u64,
    /// Times it went off.
    pub(crate) expirations: u64,
}

/// Makes a backup that goes off once, at the time it is armed for; not armed yet.
/// -EINVAL: `out` is NULL. -EMFILE and others: the kernel refuses another descriptor.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_backup_new(out: Option<&mut MaybeUninit<*mut softtimers_backup>>) -> c_int {
    Object::make(out, || Ok(Backup::deadline()?))
}

/// Makes a backup that goes off `hz` times a second from `now` on, whatever is pending: the paper's periodic interrupt.
/// -EINVAL: `out` is NULL, or `hz` is zero or more than 10^9. Others: the kernel refuses another descriptor.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_backup_new_tick(
    hz: u32,
    now: u64,
    out: Option<&mut MaybeUninit<*mut softtimers_backup>>,
) -> c_int {
    Object::make(out, || {
        let hz = NonZeroU32::new(hz).ok_or(Errno::INVALID)?;
        Ok(Backup::tick(hz, Timestamp::from_nanos(now))?)
    })
}

/// Frees a backup and closes its descriptor. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_backup_free(backup: Option<&'static softtimers_backup>) -> c_int {
    Object::free(backup)
}

/// Returns its descriptor. Watch it for reading; neither read nor close it. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_backup_fd(backup: Option<&softtimers_backup>) -> c_int {
    Object::with(backup, |backup| Ok(backup.as_raw_fd()))
}

/// Makes the descriptor readable at `poll_at` at the latest; never, for SOFTTIMERS_NEVER. Does nothing to a
/// tick. No system call while the armed time is early enough, otherwise one. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_backup_arm(backup: Option<&softtimers_backup>, now: u64, poll_at: u64) -> c_int {
    Object::with(backup, |backup| {
        let poll_at = (poll_at != SOFTTIMERS_NEVER).then(|| Timestamp::from_nanos(poll_at));
        backup.arm(Timestamp::from_nanos(now), poll_at)?;
        Ok(0)
    })
}

/// Call this when the descriptor was reported readable. Writes how often the timer has gone off since the
/// last call to `count`, which may be NULL; 0 if the report was stale. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_backup_expired(
    backup: Option<&softtimers_backup>,
    count: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    Object::with(backup, |backup| {
        write(count, backup.expired()?);
        Ok(0)
    })
}

/// The paper's operation 4: how often a second the backup interrupts, the least resolution to expect: the
/// rate of a tick; for a one-shot timer, the kernel's resolution. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_interrupt_clock_resolution(backup: Option<&softtimers_backup>) -> u64 {
    Object::ask(backup, 0, |backup| {
        backup.tick_hz().map_or_else(|| Monotonic.resolution_hz(), |hz| u64::from(hz.get()))
    })
}

/// Counters since the beginning.
/// -EINVAL: no `stats`.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_backup_stats_of(
    backup: Option<&softtimers_backup>,
    stats: Option<&mut MaybeUninit<softtimers_backup_stats>>,
) -> c_int {
    Object::with(backup, |backup| {
        let out = stats.ok_or(Errno::INVALID)?;
        let stats = backup.stats();
        out.write(softtimers_backup_stats {
            asked: stats.asked,
            set: stats.set,
            cleared: stats.cleared,
            expirations: stats.expirations,
        });
        Ok(0)
    })
}
