//! **Many interval timers behind one kernel timer**: the extension of `setitimer` by Costello and Varghese (1998,
//! figures 6 and 7), for a Linux process.
//!
//! `setitimer` gives a process one timer. `timer_create` gives it more, each a kernel object that counts
//! against the user's limit on pending signals. Here they share a wheel, and the kernel only has the
//! earliest:
//!
//! ```text
//!     create ─▶ IntervalTimers (core) ── earliest expiry ──▶ one kernel timer ─┬─ timerfd: a descriptor is readable
//!     reap  ◀── queue of the expired                                           └─ POSIX timer: a signal
//! ```
//!
//! The queue is authoritative; the descriptor and the signal are only hints to check it: signals merge, and
//! so do expiries between two checks. So [`reap`](MultiTimers::reap) until nothing is left.
//!
//! The process's own `ITIMER_REAL` is not touched. A program that uses it needs another signal than `SIGALRM`
//! for its [`MultiTimers`], or a descriptor: Linux drops the signal of an `ITIMER_REAL` that expires while
//! another `SIGALRM` is still pending, but always keeps that of [`MultiTimers`].
//!
//! The pure part, and the callouts of a BSD kernel, are in [`softtimers_core::bsd`], which is re-exported
//! here.

mod itimerval;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use softtimers_core::{Alarm, Clock, Command, Timestamp};
use softtimers_linux::process_timer::ProcessTimer;

pub use itimerval::{ItimerVal, SetItimerError, TimeVal, getitimer, setitimer};
pub use softtimers_core::bsd::*;

use crate::backup::Backup;
use crate::clock::Monotonic;

/// As many interval timers as a program wants, labelled with an `L` each, on either interface of the kernel.
///
/// Dropping it ends all timers, running and expired; a process that exits leaves nothing behind. A child of
/// `fork` must not use its parent's timers: both would share the descriptor.
///
/// ```
/// use std::time::Duration;
/// use softtimers::bsd::{MultiTimers, Setting};
///
/// let mut timers = MultiTimers::with_descriptor(100)?;
/// timers.create(Setting::once(Duration::from_millis(400)), "second")?;
/// timers.create(Setting::once(Duration::from_millis(100)), "first")?;
///
/// let mut labels = Vec::new();
/// while labels.len() < 2 {
///     timers.wait()?; // in a real program: its own poll, epoll …
///     while let Ok(expired) = timers.reap() {
///         labels.push(expired.label);
///     }
/// }
/// assert_eq!(labels, ["first", "second"]);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of [`IntervalError`] as `io::Error`: `InvalidInput` for a handle that names nothing and a value of
/// zero, `WouldBlock` if no timer has expired or the set is full. Nothing changes then.
///
/// # Cost
/// That of [`IntervalTimers`], a clock read, and a system call if the earliest expiry moves nearer
/// ([`Alarm`]).
#[derive(Debug)]
pub struct MultiTimers<L> {
    timers: IntervalTimers<L>,
    kernel: Kernel,
    /// Whether a timer has expired since the descriptor was drained.
    fired: bool,
}

/// The kernel's interface that holds the earliest expiry.
#[derive(Debug)]
enum Kernel {
    Descriptor(Backup),
    Signal(ProcessTimer, Alarm),
}

/// Returns a number that no other set of timers has, in this process or another: an `owner` for
/// [`IntervalTimers::new`] and [`Callouts::new`].
pub fn owner() -> u64 {
    static SETS: AtomicU64 = AtomicU64::new(0);
    let process = rustix::process::getpid().as_raw_nonzero().get();
    u64::from(process.unsigned_abs()) << 32 | SETS.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff
}

impl<L: Copy> MultiTimers<L> {
    /// Creates a set of at most `most` timers, behind a descriptor that is readable while any of them waits to be
    /// reaped.
    ///
    /// # Errors
    /// If the kernel refuses another descriptor.
    pub fn with_descriptor(most: usize) -> io::Result<Self> {
        Ok(Self::over(Kernel::Descriptor(Backup::deadline()?), most))
    }

    /// Creates a set of at most `most` timers, behind a signal to the process. The program must handle the
    /// signal or wait for it: most signals end a process that does neither.
    ///
    /// # Errors
    /// `InvalidInput` for a number that is no signal, or one that cannot be handled; or if the kernel refuses another
    /// timer.
    pub fn with_signal(signal: i32, most: usize) -> io::Result<Self> {
        Ok(Self::over(Kernel::Signal(ProcessTimer::new(signal)?, Alarm::new()), most))
    }

    fn over(kernel: Kernel, most: usize) -> Self {
        MultiTimers { timers: IntervalTimers::new(owner(), most), kernel, fired: false }
    }

    /// Creates a timer; see [`IntervalTimers::create`].
    ///
    /// # Errors
    /// `InvalidInput` for a value of zero; `WouldBlock` if the set is full.
    pub fn create(&mut self, setting: Setting, label: L) -> io::Result<Handle> {
        self.with(|timers, now| timers.create(now, setting, label))
    }

    /// Gives a timer another setting and label; see [`IntervalTimers::reset`].
    ///
    /// # Errors
    /// `InvalidInput` for a handle that names nothing, and for a value of zero.
    pub fn reset(&mut self, handle: Handle, setting: Setting, label: L) -> io::Result<Setting> {
        self.with(|timers, now| timers.reset(now, handle, setting, label))
    }

    /// Ends a timer; see [`IntervalTimers::cancel`].
    ///
    /// # Errors
    /// `InvalidInput` for a handle that names nothing.
    pub fn cancel(&mut self, handle: Handle) -> io::Result<Setting> {
        self.with(|timers, now| timers.cancel(now, handle))
    }

    /// Returns the setting of a timer; see [`IntervalTimers::query`].
    ///
    /// # Errors
    /// `InvalidInput` for a handle that names nothing.
    pub fn query(&self, handle: Handle) -> io::Result<Setting> {
        self.timers.query(Monotonic.now(), handle).map_err(refused)
    }

    /// Reaps the timer that expired first; see [`IntervalTimers::reap`].
    ///
    /// # Errors
    /// `WouldBlock` if none has.
    pub fn reap(&mut self) -> io::Result<Expired<L>> {
        self.with(IntervalTimers::reap)
    }

    /// Sleeps until the descriptor is readable, for programs without a loop.
    ///
    /// # Errors
    /// `InvalidInput` if no timer exists, or these have a signal: the sleep might never end.
    pub fn wait(&self) -> io::Result<()> {
        match &self.kernel {
            Kernel::Descriptor(_) if self.timers.queued() > 0 => Ok(()),
            Kernel::Descriptor(backup) => backup.wait(),
            Kernel::Signal(..) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "these timers signal; they have no descriptor",
            )),
        }
    }

    /// Returns the descriptor, readable while a timer waits to be reaped; `None` if the timers have a signal.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.kernel {
            Kernel::Descriptor(backup) => Some(backup.as_fd()),
            Kernel::Signal(..) => None,
        }
    }

    /// Returns the number of timers, running or expired.
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Returns whether no timer exists.
    pub fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }

    /// Runs an operation at the present time, and sets the kernel timer to the earliest expiry.
    fn with<R, E: Refusal>(
        &mut self,
        operation: impl FnOnce(&mut IntervalTimers<L>, Timestamp) -> Result<R, E>,
    ) -> io::Result<R> {
        let now = Monotonic.now();
        let before = self.timers.expiries();
        // Expire first, so that the kernel timer is set to the earliest of those that still run.
        self.timers.expire(now);
        let result = operation(&mut self.timers, now);
        self.fired |= self.timers.expiries() != before;
        self.arm(now)?;
        result.map_err(refused)
    }

    fn arm(&mut self, now: Timestamp) -> io::Result<()> {
        let next = self.timers.poll_at();
        match &mut self.kernel {
            // It is readable, and stays so until it is drained.
            Kernel::Descriptor(_) if self.timers.queued() > 0 => Ok(()),
            Kernel::Descriptor(backup) => {
                if std::mem::take(&mut self.fired) {
                    backup.expired()?;
                }
                backup.arm(now, next)
            }
            Kernel::Signal(timer, alarm) => {
                let done = match alarm.want(now, next) {
                    Command::Keep => Ok(()),
                    Command::Set(time) => timer.arm_at(time),
                    Command::Clear => timer.disarm(),
                };
                if done.is_err() {
                    // What the kernel has armed is not known: the next call sets it whatever it wants.
                    alarm.expired();
                }
                done
            }
        }
    }
}

/// With the overloaded arguments of the paper.
impl MultiTimers<TimeVal> {
    /// Creates, resets or cancels a timer; see [`setitimer`].
    ///
    /// # Errors
    /// `InvalidInput` for `EINVAL`, `WouldBlock` for `EAGAIN`.
    pub fn setitimer(&mut self, value: &ItimerVal, ovalue: Option<&mut ItimerVal>) -> io::Result<()> {
        self.with(|timers, now| setitimer(timers, now, value, ovalue))
    }

    /// Reaps or queries a timer; see [`getitimer`].
    ///
    /// # Errors
    /// `InvalidInput` for `EINVAL`, `WouldBlock` for `EAGAIN`.
    pub fn getitimer(&mut self, value: Option<&mut ItimerVal>) -> io::Result<()> {
        self.with(|timers, now| getitimer(timers, now, value))
    }
}

/// An error of the core crate, with its `errno`.
trait Refusal: std::error::Error + Send + Sync + 'static {
    fn kind(&self) -> io::ErrorKind;
}

impl Refusal for IntervalError {
    fn kind(&self) -> io::ErrorKind {
        SetItimerError::from(*self).kind()
    }
}

impl Refusal for SetItimerError {
    fn kind(&self) -> io::ErrorKind {
        match self {
            SetItimerError::Again => io::ErrorKind::WouldBlock,
            SetItimerError::Invalid => io::ErrorKind::InvalidInput,
        }
    }
}

fn refused<E: Refusal>(error: E) -> io::Error {
    io::Error::new(error.kind(), error)
}

#[cfg(test)]
mod tests;
