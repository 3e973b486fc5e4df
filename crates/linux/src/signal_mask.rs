//! [`HeldSignals`]: keeps signals pending until their handler is ready.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::{fmt, io, ptr};

/// Keeps signals of this thread pending until it is dropped; those that came meanwhile are delivered then.
///
/// A program that installs a handler before the handler's state is ready loses a signal that comes in
/// between, and a process may be stopped there for long. Other threads are not affected: a signal to the
/// whole process goes to one of them.
///
/// ```
/// # use softtimers_linux as softtimers;
/// use softtimers::HeldSignals;
///
/// let held = HeldSignals::hold(&[15])?; // SIGTERM
/// // Prepare the handler here.
/// drop(held);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Cost
/// Two system calls.
pub struct HeldSignals {
    before: libc::sigset_t,
    /// Not `Send`: it restores this thread's mask.
    _of_this_thread: PhantomData<*mut ()>,
}

impl HeldSignals {
    /// Holds these signals, by their numbers.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid signal number.
    pub fn hold(signals: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the set is valid for writes.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: initialised by the call.
        let mut set = unsafe { set.assume_init() };
        for &signal in signals {
            // SAFETY: the set is initialised, and an invalid number is refused.
            if unsafe { libc::sigaddset(&mut set, signal) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let mut before = MaybeUninit::uninit();
        // SAFETY: the set is initialised, and the old one valid for writes.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, before.as_mut_ptr()) } {
            0 => {
                // SAFETY: filled in by the call.
                let before = unsafe { before.assume_init() };
                Ok(HeldSignals { before, _of_this_thread: PhantomData })
            }
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: the mask is the kernel's previous one; the present one is not requested.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

impl fmt::Debug for HeldSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldSignals").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_pending(signal: i32) -> bool {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigPnd:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
    }

    #[test]
    fn what_comes_meanwhile_waits_and_no_longer() {
        let held = HeldSignals::hold(&[libc::SIGURG]).unwrap();
        // SAFETY: it takes nothing by reference, and this signal is ignored by default.
        unsafe { libc::raise(libc::SIGURG) };
        assert!(is_pending(libc::SIGURG));
        drop(held);
        assert!(!is_pending(libc::SIGURG));
        assert_eq!(HeldSignals::hold(&[1_000]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
